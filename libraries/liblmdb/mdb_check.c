/* mdb_check: walks an environment's data file, without changing it, and reports every fault that it finds.
 *
 * The walk is an independent judge: it knows the file format from mdb_format.h and uses nothing of the engine. The
 * library serves for one thing only, to hold a read transaction, so that a running writer does not reuse pages that
 * the walk has yet to see. Pages are read into buffers and judged there: whatever happens to the file meanwhile, what
 * was checked is what is used.
 *
 * Contents: search for `==== 3.`
 *   1  state           the run, a tree, a place in it
 *   2  reports         giving up, fault lines
 *   3  pages           taking them for a tree or for the free list, reading them
 *   4  keys            what they must be like, their order
 *   5  page layout     bounds, the heap of nodes
 *   6  values          overflow runs, sub-pages, fixed-width leaves
 *   7  free list       its records
 *   8  trees           leaves, branches, counts, databases
 *   9  meta pages      finding, judging and choosing them
 *  10  the run         options, the reader slot, the verdict
 */
#define _FILE_OFFSET_BITS 64

#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "mdb_format.h"
#include "mdb_tool.h"

/* ==== 1. State =========================================================== */

#define FAULTS_SHOWN_DEFAULT 100
/** Page numbers of a free-list record that are read at once. */
#define FREE_BATCH 512u
/** How often two equal and valid readings of the meta pages are tried for beside a writer, and the pause between. */
#define META_TRIES 20
#define META_PAUSE_NANOSECONDS 5000000L

/** Bytes of a key or value. They stand in a page buffer, and hold as long as the walk is at or below that page. */
struct span {
    const unsigned char *bytes;
    size_t size;
};

/** Keys of a subtree are low <= key < high; without bytes: unbounded. */
struct range {
    struct span low, high;
};

enum order { ORDER_BYTES, ORDER_REVERSED, ORDER_INTEGER };

/** What all keys of a database, or all values of a DUPSORT database, must be like. */
struct rule {
    const char *noun; /**< "key" or "value" */
    enum order order;
    bool order_known; /**< false: a custom function orders them, so the order is not checked */
    bool one_width;
    size_t width; /**< with one_width: that of all, 0 until the first was seen */
    size_t size_min, size_max;
};

enum tree_kind { TREE_FREE_LIST, TREE_MAIN, TREE_NAMED, TREE_VALUES };

struct tree {
    enum tree_kind kind;
    struct span name;         /**< TREE_NAMED */
    const struct tree *outer; /**< TREE_VALUES: the tree whose key has these values */
    struct db_record record;
    pgno_t record_pgno;   /**< where the record stands: a page, for a meta page nothing more, ... */
    unsigned record_node; /**< ... else this node on it */
    struct rule *keys;
    struct rule *values; /**< of a DUPSORT database, else NULL */
    bool incomplete;     /**< part of the tree could not be walked, so what was counted says nothing */
    size_t branch_pages, leaf_pages, overflow_pages, entries;
};

/** The node index of a place that means the whole page. */
#define NODE_NONE (~0u)

/** Where something was found. Depth 0 is the tree's record. */
struct place {
    const struct tree *tree;
    pgno_t pgno;
    unsigned depth;
    unsigned node;
    bool in_sub_page;
    unsigned duplicate; /**< in_sub_page: index of the value on the sub-page of `node` */
};

/** A database record found in the main tree. It is walked when that tree is done. */
struct named {
    struct db_record record;
    pgno_t pgno;
    unsigned node;
    size_t name_size;
    unsigned char *name;
};

/** The run. Page numbers below tracked_end have a bit in each of the two maps; pages beyond are not in the file, and
 * can only be free: a list of them does. */
struct check {
    int file;
    size_t page_size;
    pgno_t file_pages; /**< pages that lie wholly in the file */
    pgno_t pages_end;  /**< the snapshot's last page number + 1 */
    pgno_t tracked_end;
    txnid_t txnid; /**< of the snapshot */
    unsigned char *used_map, *free_map;
    pgno_t *distant; /**< free pages beyond the file */
    size_t distant_count, distant_room;
    size_t used_count, free_count;
    struct named *named;
    size_t named_count, named_room;
    /** Page buffers, one for each depth of a tree, and again of a tree of values inside it; made at first use. */
    struct page *buffers[2 * DEPTH_MAX];
    unsigned char heap_marks[PAGE_SIZE_MAX / 2];

    bool order_known;
    size_t faults, faults_shown_max;
};

/** The read transaction that keeps the snapshot's pages from being reused; NULL: there is none. Global, because
 * whatever ends the program must give the slot back. */
static struct {
    MDB_env *env;
    MDB_txn *txn;
} reader;

/* ==== 2. Reports ========================================================= */

static void reader_end(void)
{
    if (reader.txn != NULL)
        mdb_txn_abort(reader.txn);
    if (reader.env != NULL)
        mdb_env_close(reader.env);
    reader.txn = NULL;
    reader.env = NULL;
}

/** Ends the program: there is no verdict. */
static void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *format, ...)
{
    va_list arguments;

    tool_progress_wipe();
    fprintf(stderr, "%s: ", tool.name);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    reader_end();
    exit(EXIT_FAILURE);
}

static void *memory_get(void *old, size_t count, size_t size)
{
    void *memory = count > SIZE_MAX / size ? NULL : realloc(old, count * size);

    if (memory == NULL)
        fail("out of memory");
    return memory;
}

/** Counts a fault. May its line still be printed? */
static bool fault_count(struct check *check)
{
    check->faults++;
    if (tool.quiet || check->faults > check->faults_shown_max)
        return false;
    tool_progress_wipe();
    return true;
}

/** A name may hold anything: what would disturb a line of text is shown as \xx. */
static void name_print(struct span name)
{
    size_t i;

    putchar('"');
    for (i = 0; i < name.size; i++) {
        if (name.bytes[i] < ' ' || name.bytes[i] == 0x7f || name.bytes[i] == '"' || name.bytes[i] == '\\')
            printf("\\%02x", name.bytes[i]);
        else
            putchar(name.bytes[i]);
    }
    putchar('"');
}

static void tree_print(const struct tree *tree)
{
    switch (tree->kind) {
    case TREE_FREE_LIST:
        fputs("free list", stdout);
        break;
    case TREE_MAIN:
        fputs("main database", stdout);
        break;
    case TREE_NAMED:
        fputs("database ", stdout);
        name_print(tree->name);
        break;
    case TREE_VALUES:
        tree_print(tree->outer);
        printf(", values of page %zu node %u", (size_t)tree->record_pgno, tree->record_node);
        break;
    }
}

/** Reports a fault at a place of a tree. */
static void __attribute__((format(printf, 3, 4)))
fault(struct check *check, const struct place *place, const char *format, ...)
{
    va_list arguments;

    if (!fault_count(check))
        return;
    printf("page %zu (", (size_t)place->pgno);
    tree_print(place->tree);
    if (place->depth == 0)
        printf(", record): ");
    else
        printf(", depth %u): ", place->depth);
    if (place->node != NODE_NONE)
        printf("node %u", place->node);
    if (place->in_sub_page && place->duplicate != NODE_NONE)
        printf(", duplicate %u", place->duplicate);
    if (place->node != NODE_NONE)
        printf(": ");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

/** Reports a fault that is no tree's. */
static void __attribute__((format(printf, 2, 3))) fault_outside(struct check *check, const char *format, ...)
{
    va_list arguments;

    if (!fault_count(check))
        return;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

/** The place of entry i on the page or sub-page that `whole` means. */
static struct place place_entry(const struct place *whole, unsigned i)
{
    struct place place = *whole;

    if (place.in_sub_page)
        place.duplicate = i;
    else
        place.node = i;
    return place;
}

static struct place place_record(const struct tree *tree)
{
    struct place place = { .tree = tree, .pgno = tree->record_pgno, .depth = 0, .node = tree->record_node };

    return place;
}

/* ==== 3. Pages =========================================================== */

static bool map_get(const unsigned char *map, pgno_t pgno)
{
    return (map[pgno / 8] >> pgno % 8 & 1) != 0;
}

static void map_set(unsigned char *map, pgno_t pgno)
{
    map[pgno / 8] = (unsigned char)(map[pgno / 8] | 1u << pgno % 8);
}

/** Takes a page for the tree at `place`. False, and reported, if the page cannot be its. That no page is taken twice
 * is also what bounds the walk, whatever the pages say. */
static bool page_take(struct check *check, const struct place *place, const char *what, pgno_t pgno)
{
    if (pgno < META_PAGES)
        fault(check, place, "%s %zu is a meta page", what, (size_t)pgno);
    else if (pgno >= check->pages_end)
        fault(check, place, "%s %zu lies beyond the last page %zu", what, (size_t)pgno, (size_t)check->pages_end - 1);
    else if (pgno >= check->file_pages)
        fault(check, place, "%s %zu lies beyond the end of the file", what, (size_t)pgno);
    else if (map_get(check->used_map, pgno))
        fault(check, place, "%s %zu is in use elsewhere", what, (size_t)pgno);
    else {
        map_set(check->used_map, pgno);
        check->used_count++;
        if (map_get(check->free_map, pgno))
            fault(check, place, "%s %zu is in the free list", what, (size_t)pgno);
        return true;
    }
    return false;
}

/** Enters a page of the free-list record at `place`. */
static void page_free(struct check *check, const struct place *place, pgno_t pgno)
{
    if (pgno < META_PAGES || pgno >= check->pages_end) {
        fault(check, place, "page number %zu is not between 2 and the last page %zu", (size_t)pgno,
              (size_t)check->pages_end - 1);
        return;
    }
    check->free_count++;
    if (pgno >= check->tracked_end) {
        if (check->distant_count == check->distant_room) {
            check->distant_room = 2 * check->distant_room + 64;
            check->distant = memory_get(check->distant, check->distant_room, sizeof *check->distant);
        }
        check->distant[check->distant_count++] = pgno;
        return;
    }
    if (map_get(check->used_map, pgno))
        fault(check, place, "page %zu is in use", (size_t)pgno);
    if (map_get(check->free_map, pgno))
        fault(check, place, "page %zu is in the free list twice", (size_t)pgno);
    map_set(check->free_map, pgno);
}

/** Reads at a position of the file. Gives how many bytes there were, fewer at the end of the file, or -1 and errno. */
static ssize_t file_read(int file, void *buffer, size_t size, off_t position)
{
    size_t done = 0;

    while (done < size) {
        ssize_t got = pread(file, (char *)buffer + done, size - done, position + (off_t)done);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

/** Reads from a place inside a page that was taken. False, and reported, if that fails. */
static bool page_read(struct check *check, const struct place *place, pgno_t pgno, size_t offset, void *to, size_t size)
{
    ssize_t got = file_read(check->file, to, size, (off_t)pgno * (off_t)check->page_size + (off_t)offset);

    if (tool_stopping())
        fail("stopped by a signal (%s)", strsignal((int)tool_signal));
    if (got == (ssize_t)size)
        return true;
    fault(check, place, "page %zu cannot be read: %s", (size_t)pgno, got < 0 ? strerror(errno) : "the file ends");
    return false;
}

/** Reads the page at `place`, which was taken, into the buffer of its depth. NULL, and reported, if that fails. */
static const struct page *page_load(struct check *check, const struct place *place)
{
    struct page **buffer = &check->buffers[place->depth - 1 + (place->tree->kind == TREE_VALUES ? DEPTH_MAX : 0)];

    tool_progress("pages", check->used_count + check->free_count, check->pages_end);
    if (*buffer == NULL)
        *buffer = memory_get(NULL, 1, check->page_size);
    return page_read(check, place, place->pgno, 0, *buffer, check->page_size) ? *buffer : NULL;
}

/* ==== 4. Keys ============================================================ */

static int compare_sizes(size_t left, size_t right)
{
    return left < right ? -1 : left > right;
}

static int compare_bytes(struct span left, struct span right)
{
    size_t common = left.size < right.size ? left.size : right.size;
    int order = common > 0 ? memcmp(left.bytes, right.bytes, common) : 0;

    return order != 0 ? order : compare_sizes(left.size, right.size);
}

/** Bytes from the last to the first. */
static int compare_reversed(struct span left, struct span right)
{
    size_t i;

    for (i = 1; i <= left.size && i <= right.size; i++) {
        if (left.bytes[left.size - i] != right.bytes[right.size - i])
            return left.bytes[left.size - i] < right.bytes[right.size - i] ? -1 : 1;
    }
    return compare_sizes(left.size, right.size);
}

/** Unsigned integers in the machine's byte order. The rule lets 4 and 8 bytes pass, one width in a database. */
static int compare_integers(struct span left, struct span right)
{
    uint64_t left_long, right_long;
    uint32_t left_word, right_word;

    if (left.size == sizeof left_long && right.size == sizeof right_long) {
        memcpy(&left_long, left.bytes, sizeof left_long);
        memcpy(&right_long, right.bytes, sizeof right_long);
        return left_long < right_long ? -1 : left_long > right_long;
    }
    assert(left.size == sizeof left_word && right.size == sizeof right_word);
    memcpy(&left_word, left.bytes, sizeof left_word);
    memcpy(&right_word, right.bytes, sizeof right_word);
    return left_word < right_word ? -1 : left_word > right_word;
}

static int rule_compare(const struct rule *rule, struct span left, struct span right)
{
    switch (rule->order) {
    case ORDER_REVERSED:
        return compare_reversed(left, right);
    case ORDER_INTEGER:
        return compare_integers(left, right);
    default:
        return compare_bytes(left, right);
    }
}

/** Is the size of this key right? Reported if not; such a key cannot be compared. */
static bool rule_size_check(struct check *check, const struct place *place, struct rule *rule, size_t size)
{
    if (size < rule->size_min || size > rule->size_max) {
        fault(check, place, "%s of %zu bytes, allowed are %zu to %zu", rule->noun, size, rule->size_min,
              rule->size_max);
        return false;
    }
    if (rule->order == ORDER_INTEGER && size != sizeof(uint32_t) && size != sizeof(uint64_t)) {
        fault(check, place, "%s of %zu bytes, an integer has 4 or 8", rule->noun, size);
        return false;
    }
    if (!rule->one_width)
        return true;
    if (rule->width == 0)
        rule->width = size;
    if (rule->width != size)
        fault(check, place, "%s of %zu bytes, others of the database have %zu", rule->noun, size, rule->width);
    return rule->width == size;
}

/** A run through the keys of one page. */
struct sequence {
    struct rule *rule;
    struct range range;
    struct span last;
    bool begun;
};

static void sequence_next(struct check *check, const struct place *place, struct sequence *sequence, struct span key)
{
    struct rule *rule = sequence->rule;
    bool begun = sequence->begun;
    struct span last = sequence->last;

    if (!rule_size_check(check, place, rule, key.size))
        return;
    sequence->last = key;
    sequence->begun = true;
    if (!rule->order_known)
        return;
    if (begun && rule_compare(rule, last, key) >= 0)
        fault(check, place, "%s not above its predecessor", rule->noun);
    if (!begun && sequence->range.low.bytes != NULL && rule_compare(rule, sequence->range.low, key) > 0)
        fault(check, place, "%s below the separator in front of its page", rule->noun);
}

/** Judges the last key: the others are below it, or were reported. */
static void sequence_end(struct check *check, const struct place *place, struct sequence *sequence)
{
    const struct rule *rule = sequence->rule;

    if (rule->order_known && sequence->begun && sequence->range.high.bytes != NULL
        && rule_compare(rule, sequence->last, sequence->range.high) >= 0)
        fault(check, place, "last %s not below the separator behind its page", rule->noun);
}

/* ==== 5. Page layout ===================================================== */

/** Where node i ends; 0 if it is not a node of the heap that the page, of `size` bytes, says it has. */
static size_t node_end(const struct page *page, unsigned i, size_t size)
{
    size_t end = page->offsets[i];
    const struct node *node;

    if ((end & 1) != 0 || end < page->upper || end + NODE_HEADER > size)
        return 0;
    node = page_node_const(page, i);
    end += NODE_HEADER;
    if (node->ksize > size - end)
        return 0;
    end += node->ksize;
    if (page_is_branch(page))
        return end;
    return node_inline_size(node) <= size - end ? end + node_inline_size(node) : 0;
}

static struct span node_key(const struct node *node)
{
    struct span key = { node->bytes, node->ksize };

    return key;
}

/** Judges `lower` and `upper` of a page, or sub-page, of `size` bytes. False if its entries cannot be read. */
static bool bounds_check(struct check *check, const struct place *place, const struct page *page, size_t size)
{
    unsigned count;

    if (page->lower < PAGE_HEADER || (page->lower & 1) != 0) {
        fault(check, place, "lower is %u", page->lower);
        return false;
    }
    count = page_count(page);
    if (count == 0) {
        fault(check, place, "no entries");
        return false;
    }
    if (!page_is_leaf2(page)) {
        if (page->lower > page->upper || page->upper > size || (page->upper & 1) != 0)
            fault(check, place, "lower is %u, upper is %u of %zu", page->lower, page->upper, size);
        return page->lower <= page->upper && page->upper <= size;
    }
    if (page->pad == 0 || (size_t)count * page->pad > size - PAGE_HEADER) {
        fault(check, place, "%u values of %u bytes do not fit", count, page->pad);
        return false;
    }
    if (page->upper != (uint16_t)(size + SLOT_SIZE * count - (size_t)count * page->pad))
        fault(check, place, "upper is %u with %u values of %u bytes", page->upper, count, page->pad);
    return true;
}

/** Marks the heap bytes of a node, two to a mark. False if some were another's. */
static bool heap_mark(struct check *check, size_t start, size_t end)
{
    size_t i;
    bool alone = true;

    for (i = start / 2; i < size_even(end) / 2; i++) {
        alone = alone && check->heap_marks[i] == 0;
        check->heap_marks[i] = 1;
    }
    return alone;
}

/** The nodes of a page must lie side by side from `upper` to the end. Reports those that do not. */
static void heap_check(struct check *check, const struct place *whole, const struct page *page, size_t size)
{
    unsigned count = page_count(page), i;
    size_t faults = check->faults, position;

    memset(check->heap_marks, 0, size / 2);
    for (i = 0; i < count; i++) {
        size_t end = node_end(page, i, size);
        struct place place = place_entry(whole, i);

        if (end == 0)
            fault(check, &place, "at offset %u, does not lie in the heap of nodes", page->offsets[i]);
        else if (!heap_mark(check, page->offsets[i], end))
            fault(check, &place, "overlaps another node");
    }
    for (position = page->upper; check->faults == faults && position < size; position += 2) {
        if (check->heap_marks[position / 2] == 0)
            fault(check, whole, "hole at offset %zu in the heap of nodes", position);
    }
}

/* ==== 6. Values ========================================================== */

/** Judges an overflow run's header, and takes the pages of the run, whose first one is taken. */
static void run_pages_take(struct check *check, struct tree *tree, const struct place *place, pgno_t run,
                           const struct page *header)
{
    pgno_t i;

    if (header->pgno != run)
        fault(check, place, "overflow run %zu says that it is page %zu", (size_t)run, (size_t)header->pgno);
    tree->overflow_pages += header->run_pages;
    for (i = 1; i < header->run_pages; i++) {
        if (!page_take(check, place, "overflow page", run + i)) {
            tree->incomplete = true;
            return;
        }
    }
}

/** Takes the overflow run that a node names. Is there one that holds the whole value? */
static bool run_check(struct check *check, struct tree *tree, const struct place *place, const struct node *node)
{
    pgno_t run = node_run(node);
    size_t needed = run_pages_for(node_data_size(node), check->page_size);
    struct page header;
    bool was_incomplete = tree->incomplete;

    tree->incomplete = true;
    if (!page_take(check, place, "overflow page", run)
        || !page_read(check, place, run, 0, &header, sizeof header))
        return false;
    if (header.flags != P_OVERFLOW) {
        fault(check, place, "overflow run %zu has page flags 0x%x", (size_t)run, header.flags);
        return false;
    }
    tree->incomplete = was_incomplete;
    run_pages_take(check, tree, place, run, &header);
    if (header.run_pages < needed)
        fault(check, place, "overflow run %zu has %u pages, the value needs %zu", (size_t)run,
              (unsigned)header.run_pages, needed);
    return header.run_pages >= needed && tree->incomplete == was_incomplete;
}

/** Judges the values of a fixed-width leaf or sub-page that has sane bounds. */
static void fixed_values_check(struct check *check, const struct place *whole, struct rule *rule,
                               const struct page *page, const struct range *range)
{
    struct sequence sequence = { .rule = rule, .range = *range };
    unsigned i;

    /* One report for the page, not one for each value. */
    if (!rule_size_check(check, whole, rule, page->pad))
        return;
    for (i = 0; i < page_count(page); i++) {
        struct span value = { leaf2_key(page, i), page->pad };
        struct place place = place_entry(whole, i);

        sequence_next(check, &place, &sequence, value);
    }
    sequence_end(check, whole, &sequence);
}

/** Judges the values of a leaf or sub-page of nodes: keys without data. */
static void values_check(struct check *check, const struct place *whole, struct rule *rule, const struct page *page,
                         size_t size, const struct range *range)
{
    struct sequence sequence = { .rule = rule, .range = *range };
    unsigned i;

    heap_check(check, whole, page, size);
    for (i = 0; i < page_count(page); i++) {
        struct place place = place_entry(whole, i);
        const struct node *node;

        if (node_end(page, i, size) == 0)
            continue;
        node = page_node_const(page, i);
        if (node->flags != 0 || node_data_size(node) != 0)
            fault(check, &place, "a duplicate with node flags 0x%x and %zu bytes of data", node->flags,
                  node_data_size(node));
        sequence_next(check, &place, &sequence, node_key(node));
    }
    sequence_end(check, whole, &sequence);
}

static bool tree_has_fixed_values(const struct tree *tree)
{
    return (tree->record.flags & DB_DUPFIXED) != 0;
}

/** Judges the sub-page in a node of a DUPSORT tree, and counts its values. */
static void sub_page_check(struct check *check, struct tree *tree, const struct place *place, const struct node *node)
{
    static const struct range unbounded;
    const struct page *page = node_sub_page_const(node);
    size_t size = node_data_size(node);
    unsigned flags = P_LEAF | P_DIRTY | P_SUBP | (tree_has_fixed_values(tree) ? P_LEAF2 : 0);
    struct place inside = *place;

    if (size < PAGE_HEADER || (size & 1) != 0) {
        fault(check, place, "sub-page of %zu bytes", size);
        tree->incomplete = true;
        return;
    }
    if (page->flags != flags)
        fault(check, place, "sub-page has page flags 0x%x, 0x%x expected", page->flags, flags);
    inside.in_sub_page = true;
    inside.duplicate = NODE_NONE;
    if (((page->flags ^ flags) & P_LEAF2) != 0 || !bounds_check(check, &inside, page, size)) {
        tree->incomplete = true;
        return;
    }
    tree->entries += page_count(page);
    if (page_is_leaf2(page))
        fixed_values_check(check, &inside, tree->values, page, &unbounded);
    else
        values_check(check, &inside, tree->values, page, size, &unbounded);
}

/* ==== 7. Free list ======================================================= */

/** Enters page numbers of a record. `last` is the one before, and is moved on. */
static void free_batch_check(struct check *check, const struct place *place, const unsigned char *bytes, size_t count,
                             pgno_t *last)
{
    size_t i;
    pgno_t pgno;

    for (i = 0; i < count; i++) {
        memcpy(&pgno, bytes + i * sizeof pgno, sizeof pgno);
        if (pgno >= *last)
            fault(check, place, "page number %zu not below its predecessor %zu", (size_t)pgno, (size_t)*last);
        page_free(check, place, pgno);
        *last = pgno;
    }
}

/** Judges `size` bytes of a record, which stand in the node at `bytes` or, if that is NULL, in an overflow run. */
static void free_pages_check(struct check *check, const struct place *place, const unsigned char *bytes, pgno_t run,
                             size_t size)
{
    unsigned char batch[FREE_BATCH * sizeof(pgno_t)];
    pgno_t last = PGNO_NONE;
    size_t count, room = size / sizeof(pgno_t), done = 0;

    if (room == 0) {
        fault(check, place, "a record of %zu bytes", size);
        return;
    }
    if (bytes == NULL && !page_read(check, place, run, PAGE_HEADER, batch, sizeof(pgno_t)))
        return;
    memcpy(&count, bytes != NULL ? bytes : batch, sizeof count);
    if (count > room - 1) {
        fault(check, place, "count is %zu in a record of %zu bytes", count, size);
        return;
    }
    while (done < count) {
        size_t step = count - done < FREE_BATCH ? count - done : FREE_BATCH;
        size_t offset = (1 + done) * sizeof(pgno_t);

        if (bytes == NULL && !page_read(check, place, run, PAGE_HEADER + offset, batch, step * sizeof(pgno_t)))
            return;
        free_batch_check(check, place, bytes != NULL ? bytes + offset : batch, step, &last);
        done += step;
    }
}

static void free_record_check(struct check *check, struct tree *tree, const struct place *place,
                              const struct node *node)
{
    txnid_t txnid;

    if (node->ksize == sizeof txnid) {
        memcpy(&txnid, node->bytes, sizeof txnid);
        if (txnid == 0 || txnid > check->txnid)
            fault(check, place, "freed by transaction %zu, the snapshot's is %zu", (size_t)txnid,
                  (size_t)check->txnid);
    }
    if (node->flags == 0)
        free_pages_check(check, place, node_data_const(node), PGNO_NONE, node_data_size(node));
    else if (node->flags != N_BIGDATA)
        fault(check, place, "node flags 0x%x", node->flags);
    else if (run_check(check, tree, place, node))
        free_pages_check(check, place, NULL, node_run(node), node_data_size(node));
    tree->entries++;
}

/* ==== 8. Trees =========================================================== */

static void tree_walk(struct check *check, struct tree *tree);

/** Judges the tree that holds the duplicates of one key. */
static void values_tree_check(struct check *check, struct tree *outer, const struct place *place,
                              const struct node *node)
{
    struct tree tree = { .kind = TREE_VALUES, .outer = outer, .keys = outer->values };
    struct place record;
    unsigned flags = 0;

    tree.record = node_record(node);
    tree.record_pgno = place->pgno;
    tree.record_node = place->node;
    record = place_record(&tree);
    if (tree_has_fixed_values(outer))
        flags = DB_DUPFIXED | ((outer->record.flags & DB_INTEGERDUP) != 0 ? DB_INTEGERKEY : 0);
    if (tree.record.flags != flags)
        fault(check, &record, "flags 0x%x, 0x%x expected", tree.record.flags, flags);
    /* What the pages are to be follows from the database, whatever the record says. */
    tree.record.flags = (uint16_t)flags;
    if (tree_has_fixed_values(outer))
        rule_size_check(check, &record, outer->values, tree.record.pad);
    if (tree.record.root == PGNO_NONE)
        fault(check, &record, "no values");
    tree_walk(check, &tree);
    outer->entries += tree.entries;
    outer->incomplete = outer->incomplete || tree.incomplete;
}

/** Judges what a key of a DUPSORT database has: one value, a sub-page of them or a tree. */
static void duplicates_check(struct check *check, struct tree *tree, const struct place *place,
                             const struct node *node)
{
    switch (node->flags) {
    case 0:
        rule_size_check(check, place, tree->values, node_data_size(node));
        tree->entries++;
        return;
    case N_DUPDATA:
        sub_page_check(check, tree, place, node);
        return;
    case N_DUPDATA | N_SUBDATA:
        if (node_data_size(node) == sizeof(struct db_record)) {
            values_tree_check(check, tree, place, node);
            return;
        }
        fault(check, place, "record of %zu bytes", node_data_size(node));
        break;
    default:
        fault(check, place, "node flags 0x%x in a DUPSORT database", node->flags);
    }
    tree->incomplete = true;
}

/** Notes a named database's record for later. */
static void named_add(struct check *check, struct tree *tree, const struct place *place, const struct node *node)
{
    struct named *named;

    if (node_data_size(node) != sizeof(struct db_record)) {
        fault(check, place, "record of %zu bytes", node_data_size(node));
        return;
    }
    if (memchr(node->bytes, 0, node->ksize) != NULL)
        fault(check, place, "a zero byte in a database name");
    if (check->named_count == check->named_room) {
        check->named_room = 2 * check->named_room + 16;
        check->named = memory_get(check->named, check->named_room, sizeof *check->named);
    }
    named = &check->named[check->named_count++];
    named->record = node_record(node);
    named->pgno = place->pgno;
    named->node = place->node;
    named->name_size = node->ksize;
    named->name = memory_get(NULL, 1, node->ksize + (size_t)1);
    memcpy(named->name, node->bytes, node->ksize);
    tree->entries++;
}

/** Judges what a key of a database without duplicates has. */
static void value_check(struct check *check, struct tree *tree, const struct place *place, const struct node *node)
{
    if (node->flags == N_SUBDATA && tree->kind == TREE_MAIN) {
        named_add(check, tree, place, node);
        return;
    }
    if (node->flags == N_BIGDATA)
        run_check(check, tree, place, node);
    else if (node->flags != 0)
        fault(check, place, "node flags 0x%x", node->flags);
    tree->entries++;
}

static void leaf_check(struct check *check, struct tree *tree, const struct place *whole, const struct page *page,
                       const struct range *range)
{
    struct sequence sequence = { .rule = tree->keys, .range = *range };
    size_t size_max = node_size_max(check->page_size);
    unsigned i;

    heap_check(check, whole, page, check->page_size);
    for (i = 0; i < page_count(page); i++) {
        struct place place = place_entry(whole, i);
        size_t end = node_end(page, i, check->page_size);
        const struct node *node;

        if (end == 0) {
            tree->incomplete = true;
            continue;
        }
        node = page_node_const(page, i);
        if (end - page->offsets[i] > size_max)
            fault(check, &place, "node of %zu bytes, allowed are %zu", end - page->offsets[i], size_max);
        sequence_next(check, &place, &sequence, node_key(node));
        if (tree->kind == TREE_FREE_LIST)
            free_record_check(check, tree, &place, node);
        else if (tree->values != NULL)
            duplicates_check(check, tree, &place, node);
        else
            value_check(check, tree, &place, node);
    }
    sequence_end(check, whole, &sequence);
}

/** The leaves of a tree, by its kind. */
static void any_leaf_check(struct check *check, struct tree *tree, const struct place *place, const struct page *page,
                           const struct range *range)
{
    tree->leaf_pages++;
    if (tree->kind != TREE_VALUES) {
        leaf_check(check, tree, place, page, range);
        return;
    }
    tree->entries += page_count(page);
    if (page_is_leaf2(page))
        fixed_values_check(check, place, tree->keys, page, range);
    else
        values_check(check, place, tree->keys, page, check->page_size, range);
}

/** The separator in front of child i > 0. No bytes if there is none that could be compared. */
static struct span branch_separator(const struct rule *rule, const struct page *page, unsigned i, size_t page_size)
{
    static const struct span none;
    struct span separator;

    if (node_end(page, i, page_size) == 0)
        return none;
    separator = node_key(page_node_const(page, i));
    if (rule->order == ORDER_INTEGER && separator.size != rule->width)
        return none;
    return separator;
}

/** The separators of a branch page, the first one left out: it sorts before everything, whatever stands there. */
static void separators_check(struct check *check, const struct tree *tree, const struct place *whole,
                             const struct page *page, const struct range *range)
{
    struct rule rule = *tree->keys;
    struct sequence sequence = { .rule = &rule, .range = *range };
    unsigned i;

    rule.noun = "separator";
    rule.size_min = 1;
    /* A separator may be cut short, except that integers must stay integers. */
    rule.one_width = rule.order == ORDER_INTEGER;
    for (i = 1; i < page_count(page); i++) {
        struct place place = place_entry(whole, i);

        if (node_end(page, i, check->page_size) != 0)
            sequence_next(check, &place, &sequence, node_key(page_node_const(page, i)));
    }
    sequence_end(check, whole, &sequence);
    if (rule.one_width)
        tree->keys->width = rule.width;
}

static void page_walk(struct check *check, struct tree *tree, pgno_t pgno, unsigned depth, const struct range *range);

static void branch_walk(struct check *check, struct tree *tree, const struct place *whole, const struct page *page,
                        const struct range *range)
{
    unsigned count = page_count(page), i;
    struct range below = *range;

    tree->branch_pages++;
    if (count < 2)
        fault(check, whole, "a branch with one child");
    heap_check(check, whole, page, check->page_size);
    separators_check(check, tree, whole, page, range);
    for (i = 0; i < count; i++) {
        struct place place = place_entry(whole, i);
        pgno_t child;

        if (i > 0)
            below.low = branch_separator(tree->keys, page, i, check->page_size);
        below.high = i + 1 < count ? branch_separator(tree->keys, page, i + 1, check->page_size) : range->high;
        if (node_end(page, i, check->page_size) == 0) {
            tree->incomplete = true;
            continue;
        }
        child = node_child(page_node_const(page, i));
        if (page_take(check, &place, "child", child))
            page_walk(check, tree, child, whole->depth + 1, &below);
        else
            tree->incomplete = true;
    }
}

/** Judges a tree page's header. False if it is no page that this tree could have. */
static bool header_check(struct check *check, const struct place *place, const struct page *page)
{
    const struct tree *tree = place->tree;
    bool fixed = tree->kind == TREE_VALUES && tree_has_fixed_values(tree);
    unsigned kind = page_kind_flags(page), leaf_kind = P_LEAF | (fixed ? P_LEAF2 : 0);

    if (page->pgno != place->pgno)
        fault(check, place, "says that it is page %zu", (size_t)page->pgno);
    if ((page->flags & P_VOLATILE) != 0)
        fault(check, place, "page flags 0x%x, of which 0x%x never stand in a file", page->flags,
              page->flags & P_VOLATILE);
    if (kind != P_BRANCH && kind != leaf_kind) {
        fault(check, place, "page flags 0x%x, a branch has 0x%x, a leaf 0x%x", page->flags, P_BRANCH, leaf_kind);
        return false;
    }
    if (kind == P_BRANCH && place->depth >= tree->record.depth)
        fault(check, place, "a branch at depth %u of a tree of depth %u", place->depth, tree->record.depth);
    if (kind != P_BRANCH && place->depth != tree->record.depth)
        fault(check, place, "a leaf at depth %u of a tree of depth %u", place->depth, tree->record.depth);
    return true;
}

/** Walks the subtree at page `pgno`, which was taken. */
static void page_walk(struct check *check, struct tree *tree, pgno_t pgno, unsigned depth, const struct range *range)
{
    struct place place = { .tree = tree, .pgno = pgno, .depth = depth, .node = NODE_NONE };
    const struct page *page;

    if (depth > DEPTH_MAX) {
        fault(check, &place, "too deep");
        tree->incomplete = true;
        return;
    }
    page = page_load(check, &place);
    if (page == NULL || !header_check(check, &place, page) || !bounds_check(check, &place, page, check->page_size)) {
        tree->incomplete = true;
        return;
    }
    if (page_is_branch(page))
        branch_walk(check, tree, &place, page, range);
    else
        any_leaf_check(check, tree, &place, page, range);
}

static void count_check(struct check *check, const struct tree *tree, const char *what, size_t recorded, size_t found)
{
    struct place place = place_record(tree);

    if (recorded != found)
        fault(check, &place, "%zu %s recorded, %zu found", recorded, what, found);
}

/** Walks a tree from its record. */
static void tree_walk(struct check *check, struct tree *tree)
{
    static const struct range unbounded;
    const struct db_record *record = &tree->record;
    struct place place = place_record(tree);

    if (record->root == PGNO_NONE) {
        if (record->depth != 0)
            fault(check, &place, "depth %u of an empty tree", record->depth);
    } else if (page_take(check, &place, "root", record->root)) {
        page_walk(check, tree, record->root, 1, &unbounded);
    } else {
        tree->incomplete = true;
    }
    if (tree->incomplete)
        return;
    count_check(check, tree, "branch pages", record->branch_pages, tree->branch_pages);
    count_check(check, tree, "leaf pages", record->leaf_pages, tree->leaf_pages);
    count_check(check, tree, "overflow pages", record->overflow_pages, tree->overflow_pages);
    count_check(check, tree, "entries", record->entries, tree->entries);
}

static struct rule rule_of_keys(const struct check *check, enum tree_kind kind, unsigned flags)
{
    struct rule rule = { .noun = "key", .order_known = check->order_known, .size_min = 1 };

    rule.size_max = key_size_max(check->page_size);
    if (kind == TREE_FREE_LIST) {
        rule.order = ORDER_INTEGER;
        rule.order_known = true;
        rule.width = sizeof(txnid_t);
    } else if ((flags & DB_REVERSEKEY) != 0) {
        rule.order = ORDER_REVERSED;
    } else if ((flags & DB_INTEGERKEY) != 0) {
        rule.order = ORDER_INTEGER;
    }
    rule.one_width = rule.order == ORDER_INTEGER;
    return rule;
}

static struct rule rule_of_values(const struct check *check, unsigned flags)
{
    struct rule rule = { .noun = "value", .order_known = check->order_known };

    rule.size_max = key_size_max(check->page_size);
    if ((flags & DB_INTEGERDUP) != 0)
        rule.order = ORDER_INTEGER;
    else if ((flags & DB_REVERSEDUP) != 0)
        rule.order = ORDER_REVERSED;
    rule.one_width = rule.order == ORDER_INTEGER || (flags & DB_DUPFIXED) != 0;
    rule.size_min = rule.one_width ? 1 : 0;
    return rule;
}

/** Walks a database of any kind but TREE_VALUES. */
static void database_walk(struct check *check, struct tree *tree)
{
    unsigned flags = tree->record.flags;
    struct rule keys = rule_of_keys(check, tree->kind, flags), values = rule_of_values(check, flags);
    struct place place = place_record(tree);

    /* The environment's own flags stand in the free list's record; they are judged with the meta page. */
    if (tree->kind != TREE_FREE_LIST && (flags & ~DB_FLAGS) != 0)
        fault(check, &place, "unknown flags 0x%x", flags & ~DB_FLAGS);
    tree->keys = &keys;
    if (tree->kind != TREE_FREE_LIST && (flags & DB_DUPSORT) != 0)
        tree->values = &values;
    tree_walk(check, tree);
}

static void named_walk(struct check *check)
{
    size_t i;

    for (i = 0; i < check->named_count; i++) {
        const struct named *named = &check->named[i];
        struct tree tree = { .kind = TREE_NAMED, .record_pgno = named->pgno, .record_node = named->node };

        tree.record = named->record;
        tree.name.bytes = named->name;
        tree.name.size = named->name_size;
        database_walk(check, &tree);
    }
}

static int pgno_compare(const void *left, const void *right)
{
    pgno_t left_pgno = *(const pgno_t *)left, right_pgno = *(const pgno_t *)right;

    return left_pgno < right_pgno ? -1 : left_pgno > right_pgno;
}

/** Reports the pages from `first` to before `end` as lost. */
static void gap_report(struct check *check, pgno_t first, pgno_t end)
{
    if (first + 1 == end)
        fault_outside(check, "page %zu: neither in use nor free", (size_t)first);
    else if (first < end)
        fault_outside(check, "pages %zu to %zu: neither in use nor free", (size_t)first, (size_t)end - 1);
}

/** Every page must be in use or free: what the walk did not meet is lost. */
static void lost_pages_check(struct check *check)
{
    pgno_t next = META_PAGES, pgno;
    size_t i;

    for (pgno = META_PAGES; pgno < check->tracked_end; pgno++) {
        if (map_get(check->used_map, pgno) || map_get(check->free_map, pgno)) {
            gap_report(check, next, pgno);
            next = pgno + 1;
        }
    }
    if (check->distant_count > 1)
        qsort(check->distant, check->distant_count, sizeof *check->distant, pgno_compare);
    for (i = 0; i < check->distant_count; i++) {
        pgno = check->distant[i];
        if (pgno < next)
            fault_outside(check, "page %zu: in the free list twice", (size_t)pgno);
        gap_report(check, next, pgno);
        next = pgno + 1;
    }
    gap_report(check, next, check->pages_end);
}

/** Walks the snapshot that a meta page names. */
static void snapshot_walk(struct check *check, const struct meta *meta, unsigned number)
{
    struct tree free_list = { .kind = TREE_FREE_LIST, .record_pgno = number, .record_node = NODE_NONE };
    struct tree main_tree = { .kind = TREE_MAIN, .record_pgno = number, .record_node = NODE_NONE };
    size_t map_size;

    check->txnid = meta->txnid;
    check->pages_end = meta->last_pgno + 1;
    check->tracked_end = check->pages_end < check->file_pages ? check->pages_end : check->file_pages;
    map_size = check->tracked_end / 8 + 1;
    check->used_map = memory_get(NULL, map_size, 1);
    check->free_map = memory_get(NULL, map_size, 1);
    memset(check->used_map, 0, map_size);
    memset(check->free_map, 0, map_size);
    check->used_count = META_PAGES;
    free_list.record = meta->dbs[FREE_DBI];
    main_tree.record = meta->dbs[MAIN_DBI];
    database_walk(check, &free_list);
    database_walk(check, &main_tree);
    named_walk(check);
    lost_pages_check(check);
}

static void check_free(struct check *check)
{
    size_t i;

    for (i = 0; i < check->named_count; i++)
        free(check->named[i].name);
    free(check->named);
    for (i = 0; i < 2 * DEPTH_MAX; i++)
        free(check->buffers[i]);
    free(check->used_map);
    free(check->free_map);
    free(check->distant);
}

/* ==== 9. Meta pages ====================================================== */

/** Both meta pages as read from the file: the part that means something. */
struct metas {
    unsigned char bytes[META_PAGES][PAGE_HEADER + sizeof(struct meta)];
    bool read[META_PAGES]; /**< false: the file ends before, or cannot be read; the bytes are zeros */
    size_t page_size;      /**< that decided where page 1 stands; 0: none found, so no page can be read */
};

static const struct page *metas_page(const struct metas *metas, unsigned number)
{
    return (const struct page *)metas->bytes[number];
}

static const struct meta *metas_get(const struct metas *metas, unsigned number)
{
    return page_meta_const(metas_page(metas, number));
}

static bool metas_valid(const struct metas *metas, unsigned number)
{
    return metas->read[number] && meta_ok(metas_page(metas, number), number);
}

static void metas_read_one(struct metas *metas, int file, unsigned number, size_t page_size)
{
    unsigned char *bytes = metas->bytes[number];
    size_t size = sizeof metas->bytes[number];

    metas->read[number] = file_read(file, bytes, size, (off_t)(number * page_size)) == (ssize_t)size;
    if (!metas->read[number])
        memset(bytes, 0, size);
}

/** Reads meta page 1 for a page size. Is it valid, and for that size? */
static bool metas_find_second(struct metas *metas, int file, size_t page_size)
{
    metas_read_one(metas, file, 1, page_size);
    return metas_valid(metas, 1) && metas_get(metas, 1)->dbs[FREE_DBI].pad == page_size;
}

/** Reads both meta pages. Where page 1 stands depends on the page size, which both record. Page 1 is right about it
 * if it stands there; so if it does not stand where page 0 says, it is looked for. */
static void metas_read(struct metas *metas, int file)
{
    size_t first_size, page_size;

    memset(metas, 0, sizeof *metas);
    metas_read_one(metas, file, 0, 0);
    first_size = metas_get(metas, 0)->dbs[FREE_DBI].pad;
    if (!metas_valid(metas, 0))
        first_size = 0;
    if (first_size != 0 && metas_find_second(metas, file, first_size)) {
        metas->page_size = first_size;
        return;
    }
    for (page_size = PAGE_SIZE_MIN; page_size <= PAGE_SIZE_MAX; page_size *= 2) {
        if (metas_find_second(metas, file, page_size)) {
            metas->page_size = page_size;
            return;
        }
    }
    metas->page_size = first_size;
    metas_read_one(metas, file, 1, first_size != 0 ? first_size : (size_t)sysconf(_SC_PAGESIZE));
}

/** Is this meta page one that could be walked from? */
static bool metas_usable(const struct metas *metas, unsigned number)
{
    return metas_valid(metas, number) && metas_get(metas, number)->dbs[FREE_DBI].pad == metas->page_size;
}

/** The meta page that a reader takes: the newest, or with `previous` the other one. META_PAGES: there is none. */
static unsigned metas_choose(const struct metas *metas, bool previous)
{
    unsigned newest;

    if (!metas_usable(metas, 0) || !metas_usable(metas, 1)) {
        newest = metas_usable(metas, 0) ? 0 : metas_usable(metas, 1) ? 1 : META_PAGES;
        return previous ? META_PAGES : newest;
    }
    newest = metas_get(metas, 1)->txnid > metas_get(metas, 0)->txnid ? 1 : 0;
    if (!previous)
        return newest;
    return metas_get(metas, 0)->txnid != metas_get(metas, 1)->txnid ? 1 - newest : META_PAGES;
}

static void meta_record_report(struct check *check, unsigned number, const char *name, const struct db_record *record,
                               pgno_t last_pgno)
{
    if (!record_ok(record, last_pgno))
        fault_outside(check, "page %u (meta): root %zu and depth %u of the %s, the last page is %zu", number,
                      (size_t)record->root, record->depth, name, (size_t)last_pgno);
}

/** Reports what is wrong with the body of a meta page of this version. */
static void meta_body_report(struct check *check, unsigned number, const struct meta *meta, size_t page_size)
{
    const struct db_record *free_list = &meta->dbs[FREE_DBI];

    if (!page_size_valid(free_list->pad))
        fault_outside(check, "page %u (meta): page size %u", number, (unsigned)free_list->pad);
    else if (page_size != 0 && free_list->pad != page_size)
        fault_outside(check, "page %u (meta): page size %u, the other meta page stands where %zu puts it", number,
                      (unsigned)free_list->pad, page_size);
    else if (meta->last_pgno >= meta->mapsize / free_list->pad)
        fault_outside(check, "page %u (meta): last page %zu in a map of %zu bytes", number, (size_t)meta->last_pgno,
                      (size_t)meta->mapsize);
    if (meta->last_pgno < META_PAGES - 1)
        fault_outside(check, "page %u (meta): last page %zu", number, (size_t)meta->last_pgno);
    if ((free_list->flags & ~(MDB_FIXEDMAP | MDB_NOSUBDIR)) != DB_INTEGERKEY)
        fault_outside(check, "page %u (meta): flags 0x%x of the environment and free list", number, free_list->flags);
    meta_record_report(check, number, "free list", free_list, meta->last_pgno);
    meta_record_report(check, number, "main database", &meta->dbs[MAIN_DBI], meta->last_pgno);
    if (meta->txnid != 0 && (meta->txnid & 1) != number)
        fault_outside(check, "page %u (meta): transaction %zu belongs on the other meta page", number,
                      (size_t)meta->txnid);
}

static void meta_report(struct check *check, const struct metas *metas, unsigned number)
{
    const struct page *page = metas_page(metas, number);
    const struct meta *meta = metas_get(metas, number);

    if (!metas->read[number]) {
        fault_outside(check, "page %u (meta): cannot be read", number);
        return;
    }
    if (meta->magic != FORMAT_MAGIC) {
        fault_outside(check, "page %u (meta): magic number 0x%x", number, (unsigned)meta->magic);
        return;
    }
    if (meta->version != FORMAT_VERSION) {
        fault_outside(check, "page %u (meta): format version %u", number, (unsigned)meta->version);
        return;
    }
    if (page->flags != P_META)
        fault_outside(check, "page %u (meta): page flags 0x%x", number, page->flags);
    if (page->pgno != number)
        fault_outside(check, "page %u (meta): says that it is page %zu", number, (size_t)page->pgno);
    meta_body_report(check, number, meta, metas->page_size);
}

/* ==== 10. The run ======================================================== */

struct options {
    const char *path;
    bool order_unknown;
    size_t faults_shown_max;
};

static bool no_subdir(void)
{
    return (tool.env_flags & MDB_NOSUBDIR) != 0;
}

static char *text_join(const char *left, const char *right)
{
    char *text = memory_get(NULL, strlen(left) + strlen(right) + 1, 1);

    return strcat(strcpy(text, left), right);
}

/** Takes a reader slot, so that the pages of the snapshot, and of the one before, are not reused. Without a lock file
 * nobody else uses it: then none is made. What the library refuses to open is checked all the same, except that a
 * full reader table means an environment in use, where a walk without a slot proves nothing. */
static void reader_begin(const char *path)
{
    char *lock_path = text_join(path, no_subdir() ? "-lock" : "/lock.mdb");
    bool wanted = (tool.env_flags & MDB_NOLOCK) == 0 && access(lock_path, F_OK) == 0;
    int rc;

    free(lock_path);
    if (!wanted)
        return;
    rc = mdb_env_create(&reader.env);
    if (rc == MDB_SUCCESS)
        rc = mdb_env_open(reader.env, path, MDB_RDONLY | (tool.env_flags & MDB_NOSUBDIR), 0);
    if (rc == MDB_SUCCESS)
        rc = mdb_txn_begin(reader.env, NULL, MDB_RDONLY, &reader.txn);
    if (rc == MDB_READERS_FULL)
        fail("%s: %s; -L checks without a reader slot", path, mdb_strerror(rc));
    if (rc == MDB_SUCCESS)
        return;
    reader.txn = NULL;
    if (!tool.quiet)
        fprintf(stderr, "%s: %s: no reader slot (%s): faults may be false if there is a writer\n", tool.name, path,
                mdb_strerror(rc));
}

/** Reads the meta pages until a second reading agrees and both are valid: a writer may be in the middle of one. */
static void metas_read_settled(struct metas *metas, int file)
{
    const struct timespec pause = { 0, META_PAUSE_NANOSECONDS };
    struct metas again;
    int i;

    for (i = 0; i < META_TRIES; i++) {
        metas_read(metas, file);
        metas_read(&again, file);
        if (memcmp(metas, &again, sizeof again) == 0 && metas_usable(metas, 0) && metas_usable(metas, 1))
            return;
        nanosleep(&pause, NULL);
    }
}

/** Could the faults of a walk without a reader slot come from commits meanwhile? Pages of snapshot N that N + 1 freed
 * are reused by N + 3 at the earliest, which then finds N + 2 committed. */
static bool overtaken(const struct check *check)
{
    struct metas metas;
    unsigned newest;

    if (check->faults == 0)
        return false;
    metas_read(&metas, check->file);
    newest = metas_choose(&metas, false);
    return newest < META_PAGES && metas_get(&metas, newest)->txnid >= check->txnid + 2;
}

/** Judges the meta pages and walks the snapshot. Gives NULL, or why there was no snapshot to walk. */
static const char *file_check(struct check *check, const char *path)
{
    struct metas metas;
    struct stat status;
    unsigned number;

    if (reader.txn != NULL)
        metas_read_settled(&metas, check->file);
    else
        metas_read(&metas, check->file);
    for (number = 0; number < META_PAGES; number++)
        meta_report(check, &metas, number);
    number = metas_choose(&metas, false);
    if (number == META_PAGES)
        return "no valid meta page";
    if (reader.txn != NULL && mdb_txn_id(reader.txn) > metas_get(&metas, number)->txnid)
        fault_outside(check, "page %u (meta): transaction %zu is the newest, %zu in the lock file", number,
                      (size_t)metas_get(&metas, number)->txnid, (size_t)mdb_txn_id(reader.txn));
    number = metas_choose(&metas, (tool.env_flags & MDB_PREVSNAPSHOT) != 0);
    if (number == META_PAGES)
        return "no previous snapshot";
    if (fstat(check->file, &status) != 0)
        return strerror(errno);
    check->page_size = metas.page_size;
    check->file_pages = (pgno_t)((uint64_t)status.st_size / metas.page_size);
    snapshot_walk(check, metas_get(&metas, number), number);
    tool_progress_wipe();
    if (reader.txn == NULL && !tool.quiet && overtaken(check))
        fprintf(stderr, "%s: %s: written to during the walk, faults may be false\n", tool.name, path);
    return NULL;
}

static int data_file_open(const char *environment)
{
    char *path = text_join(environment, no_subdir() ? "" : "/data.mdb");
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;

    if (file < 0 || fstat(file, &status) != 0)
        fail("%s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        fail("%s: not a regular file", path);
    free(path);
    return file;
}

static void summary_print(const struct check *check)
{
    if (tool.quiet)
        return;
    if (check->faults > check->faults_shown_max)
        printf("%zu more faults\n", check->faults - check->faults_shown_max);
    printf("%zu pages: %zu in use, %zu free, %zu faults\n", (size_t)check->pages_end, check->used_count,
           check->free_count, check->faults);
}

/** Checks an environment. Is it sound? */
static bool environment_check(const struct options *options)
{
    struct check *check = memory_get(NULL, 1, sizeof *check);
    const char *error;
    bool sound;

    memset(check, 0, sizeof *check);
    check->order_known = !options->order_unknown;
    check->faults_shown_max = options->faults_shown_max;
    check->file = data_file_open(options->path);
    reader_begin(options->path);
    error = file_check(check, options->path);
    if (error != NULL)
        fail("%s: %s", options->path, error);
    reader_end();
    summary_print(check);
    sound = check->faults == 0;
    close(check->file);
    check_free(check);
    free(check);
    return sound;
}

/** Reads a decimal number. False: it is none. */
static bool number_read(const char *text, size_t *number)
{
    char *end;

    errno = 0;
    *number = strtoul(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

static bool options_read(int count, char **arguments, struct options *options)
{
    int option;

    while ((option = getopt(count, arguments, "Vnvqa:cL")) != -1) {
        switch (option) {
        case 'a':
            if (!number_read(optarg, &options->faults_shown_max))
                return false;
            break;
        case 'c':
            options->order_unknown = true;
            break;
        case 'L':
            tool.env_flags |= MDB_NOLOCK;
            break;
        default:
            if (!tool_option(option))
                return false;
        }
    }
    if (optind != count - 1)
        return false;
    options->path = arguments[optind];
    return true;
}

int main(int count, char **arguments)
{
    struct options options = { .faults_shown_max = FAULTS_SHOWN_DEFAULT };
    bool sound;

    tool_start(arguments, "[-V] [-q] [-n] [-v] [-L] [-c] [-a faults] dbpath");
    if (!options_read(count, arguments, &options))
        return tool_usage();
    tool_progress_allow(true);
    sound = environment_check(&options);
    return tool_output_finish("stdout") == 0 && sound ? EXIT_SUCCESS : EXIT_FAILURE;
}
