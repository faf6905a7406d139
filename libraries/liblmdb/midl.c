/** @file midl.c
 * Lists of page numbers, the table from page numbers to pages, runs of free pages. midl.h says what they do.
 */
#include "midl.h"

#include <errno.h>
#include <stdlib.h>

/* ---- list of page numbers ------------------------------------------------------------------------------------- */

#define LIST_CAPACITY_MIN 16u
#define LIST_CAPACITY_MAX (SIZE_MAX / sizeof(pgno_t))

int page_list_reserve(struct page_list *list, size_t more)
{
    size_t capacity = list->capacity;
    pgno_t *ids;

    if (more <= capacity - list->count)
        return 0;
    if (more > LIST_CAPACITY_MAX - list->count)
        return ENOMEM;
    capacity = capacity <= LIST_CAPACITY_MAX / 2 ? capacity + capacity / 2 : LIST_CAPACITY_MAX;
    if (capacity < LIST_CAPACITY_MIN)
        capacity = LIST_CAPACITY_MIN;
    if (capacity < list->count + more)
        capacity = list->count + more;
    ids = realloc(list->ids, capacity * sizeof *ids);
    if (ids == NULL)
        return ENOMEM;
    list->ids = ids;
    list->capacity = capacity;
    return 0;
}

int page_list_add_run(struct page_list *list, pgno_t first, size_t n)
{
    int rc = page_list_reserve(list, n);

    if (rc != 0)
        return rc;
    while (n > 0)
        list->ids[list->count++] = first + --n;
    return 0;
}

int page_list_append(struct page_list *to, const struct page_list *from)
{
    int rc;

    assert(to != from);
    rc = page_list_reserve(to, from->count);
    if (rc != 0 || from->count == 0)
        return rc;
    memcpy(to->ids + to->count, from->ids, from->count * sizeof *to->ids);
    to->count += from->count;
    return 0;
}

static void ids_reverse(pgno_t *ids, size_t count)
{
    size_t low, high;

    for (low = 0, high = count; low + 1 < high; low++) {
        pgno_t id = ids[low];

        ids[low] = ids[--high];
        ids[high] = id;
    }
}

/** Largest first. For few numbers. */
static void ids_insertion_sort(pgno_t *ids, size_t count)
{
    size_t i;

    for (i = 1; i < count; i++) {
        pgno_t id = ids[i];
        size_t place = i;

        for (; place > 0 && ids[place - 1] < id; place--) {
            MIDL_STEP();
            ids[place] = ids[place - 1];
        }
        ids[place] = id;
    }
}

#define DIGIT_BITS 8u
#define DIGITS (1u << DIGIT_BITS)
#define INSERTION_MAX 32u

static unsigned log2_floor(uint64_t number)
{
    return 63u - (unsigned)__builtin_clzll(number);
}

/** Eight bits of a number, counted such that larger numbers come first. */
static unsigned id_digit(pgno_t id, unsigned shift)
{
    return DIGITS - 1 - (unsigned)((id >> shift) & (DIGITS - 1));
}

/** Sorts by one digit, in place. ends[d] becomes the end of the numbers with digit d. */
static void ids_sort_by_digit(pgno_t *ids, size_t count, unsigned shift, size_t ends[DIGITS])
{
    size_t next[DIGITS], i, end = 0;
    unsigned digit, place;

    memset(ends, 0, DIGITS * sizeof *ends);
    for (i = 0; i < count; i++)
        ends[id_digit(ids[i], shift)]++;
    for (digit = 0; digit < DIGITS; digit++) {
        next[digit] = end;
        end += ends[digit];
        ends[digit] = end;
    }
    for (digit = 0; digit < DIGITS; digit++) {
        while (next[digit] < ends[digit]) {
            pgno_t id = ids[next[digit]];

            while ((place = id_digit(id, shift)) != digit) {
                pgno_t other = ids[next[place]];

                MIDL_STEP();
                ids[next[place]++] = id;
                id = other;
            }
            ids[next[digit]++] = id;
        }
    }
}

/** Sorts by the highest eight bits in which the numbers differ, then each part by itself. The parts differ in lower
 *  bits only, so the recursion is as deep as a page number has bytes. */
static void ids_radix_sort(pgno_t *ids, size_t count)
{
    size_t ends[DIGITS], i, start = 0;
    pgno_t differing = 0;
    unsigned digit, shift;

    if (count <= INSERTION_MAX) {
        ids_insertion_sort(ids, count);
        return;
    }
    for (i = 1; i < count; i++) {
        MIDL_STEP();
        differing |= ids[i] ^ ids[0];
    }
    if (differing == 0)
        return;
    shift = log2_floor(differing);
    shift = shift >= DIGIT_BITS ? shift - (DIGIT_BITS - 1) : 0;
    ids_sort_by_digit(ids, count, shift, ends);
    for (digit = 0; digit < DIGITS && shift > 0; digit++) {
        ids_radix_sort(ids + start, ends[digit] - start);
        start = ends[digit];
    }
}

static void ids_sort(pgno_t *ids, size_t count)
{
    size_t i = 1;

    while (i < count && ids[i - 1] >= ids[i])
        i++;
    if (i >= count)
        return;
    i = 1;
    while (i < count && ids[i - 1] <= ids[i])
        i++;
    if (i == count)
        ids_reverse(ids, count);
    else
        ids_radix_sort(ids, count);
}

void page_list_sort(struct page_list *list)
{
    ids_sort(list->ids, list->count);
}

bool page_list_is_strict(const struct page_list *list)
{
    size_t i;

    for (i = 1; i < list->count; i++) {
        if (list->ids[i - 1] <= list->ids[i])
            return false;
    }
    return true;
}

void page_list_free(struct page_list *list)
{
    free(list->ids);
    memset(list, 0, sizeof *list);
}

/* ---- table from page number to pointer ------------------------------------------------------------------------ */

#define TABLE_SLOTS_MIN 16u
#define TABLE_SLOTS_MAX (SIZE_MAX / 2 / sizeof(struct page_table_slot))
#define TABLE_SLOTS_KEPT 1024u

static size_t table_slots(const struct page_table *table)
{
    return table->slots != NULL ? table->mask + 1 : 0;
}

/** The slot in which a number stands, or the empty one where its search ends. There are slots, one of them empty. */
static struct page_table_slot *table_slot(const struct page_table *table, pgno_t pgno)
{
    size_t i = page_table_home(table, pgno);

    while (table->slots[i].value != NULL && table->slots[i].pgno != pgno) {
        MIDL_STEP();
        i = (i + 1) & table->mask;
    }
    return &table->slots[i];
}

static void table_put(struct page_table *table, pgno_t pgno, void *value)
{
    struct page_table_slot *slot = table_slot(table, pgno);

    assert(slot->value == NULL);
    slot->pgno = pgno;
    slot->value = value;
    table->count++;
}

static int table_resize(struct page_table *table, size_t slots)
{
    struct page_table larger = { calloc(slots, sizeof *larger.slots), slots - 1, 0 };
    size_t iterator = 0;
    pgno_t pgno;
    void *value;

    if (larger.slots == NULL)
        return ENOMEM;
    while (page_table_next(table, &iterator, &pgno, &value))
        table_put(&larger, pgno, value);
    free(table->slots);
    *table = larger;
    return 0;
}

int page_table_reserve(struct page_table *table, size_t more)
{
    size_t slots = table_slots(table);

    if (more <= slots / 2 - table->count)
        return 0;
    if (slots == 0)
        slots = TABLE_SLOTS_MIN;
    while (slots / 2 - table->count < more) {
        if (slots > TABLE_SLOTS_MAX / 2)
            return ENOMEM;
        slots *= 2;
    }
    return table_resize(table, slots);
}

int page_table_insert(struct page_table *table, pgno_t pgno, void *value)
{
    int rc = page_table_reserve(table, 1);

    assert(value != NULL);
    if (rc == 0)
        table_put(table, pgno, value);
    return rc;
}

void page_table_set(struct page_table *table, pgno_t pgno, void *value)
{
    struct page_table_slot *slot;

    assert(value != NULL);
    assert(table->count > 0);
    slot = table_slot(table, pgno);
    assert(slot->value != NULL);
    slot->value = value;
}

void *page_table_remove(struct page_table *table, pgno_t pgno)
{
    struct page_table_slot *slot;
    size_t hole, i;
    void *value;

    if (table->count == 0)
        return NULL;
    slot = table_slot(table, pgno);
    value = slot->value;
    if (value == NULL)
        return NULL;
    hole = (size_t)(slot - table->slots);
    for (i = (hole + 1) & table->mask; table->slots[i].value != NULL; i = (i + 1) & table->mask) {
        size_t distance = (i - page_table_home(table, table->slots[i].pgno)) & table->mask;

        /* Only what has its home at the hole or before it may move there. */
        MIDL_STEP();
        if (distance >= ((i - hole) & table->mask)) {
            table->slots[hole] = table->slots[i];
            hole = i;
        }
    }
    table->slots[hole].value = NULL;
    table->count--;
    return value;
}

bool page_table_next(const struct page_table *table, size_t *iterator, pgno_t *pgno, void **value)
{
    size_t i = *iterator, slots = table_slots(table);

    while (i < slots && table->slots[i].value == NULL)
        i++;
    if (i == slots) {
        *iterator = i;
        return false;
    }
    *pgno = table->slots[i].pgno;
    *value = table->slots[i].value;
    *iterator = i + 1;
    return true;
}

void page_table_clear(struct page_table *table)
{
    if (table_slots(table) > TABLE_SLOTS_KEPT) {
        page_table_free(table);
    } else if (table->count > 0) {
        memset(table->slots, 0, table_slots(table) * sizeof *table->slots);
        table->count = 0;
    }
}

void page_table_free(struct page_table *table)
{
    free(table->slots);
    memset(table, 0, sizeof *table);
}

bool page_table_is_valid(const struct page_table *table)
{
    size_t slots = table_slots(table), count = 0, i;

    if (slots == 0)
        return table->mask == 0 && table->count == 0;
    if ((slots & table->mask) != 0 || table->count > slots / 2)
        return false;
    for (i = 0; i < slots; i++) {
        const struct page_table_slot *slot = &table->slots[i];

        if (slot->value == NULL)
            continue;
        count++;
        if (table_slot(table, slot->pgno) != slot)
            return false;
    }
    return count == table->count;
}

/* ---- runs: memory --------------------------------------------------------------------------------------------- */

#define SLAB_RUNS_MIN 64u
#define SLAB_RUNS_MAX 8192u

struct page_run_slab {
    struct page_run_slab *next;
    size_t capacity;
    struct page_run runs[];
};

/** NULL: no memory. */
static struct page_run *run_new(struct page_runs *runs)
{
    struct page_run_slab *slab = runs->slabs;
    struct page_run *run = runs->spare;
    size_t capacity = SLAB_RUNS_MIN;

    if (run != NULL) {
        runs->spare = run->next;
        return run;
    }
    if (slab == NULL || runs->slab_used == slab->capacity) {
        if (slab != NULL)
            capacity = slab->capacity < SLAB_RUNS_MAX ? slab->capacity * 2 : SLAB_RUNS_MAX;
        slab = malloc(sizeof *slab + capacity * sizeof *slab->runs);
        if (slab == NULL)
            return NULL;
        slab->next = runs->slabs;
        slab->capacity = capacity;
        runs->slabs = slab;
        runs->slab_used = 0;
    }
    return &slab->runs[runs->slab_used++];
}

static void run_release(struct page_runs *runs, struct page_run *run)
{
    run->next = runs->spare;
    runs->spare = run;
}

/** Frees slabs, the largest first, while there are more than this many. */
static void slabs_trim(struct page_runs *runs, size_t keep)
{
    struct page_run_slab *slab;
    size_t count = 0;

    for (slab = runs->slabs; slab != NULL; slab = slab->next)
        count++;
    for (; count > keep; count--) {
        slab = runs->slabs;
        runs->slabs = slab->next;
        free(slab);
    }
}

/* ---- runs: rings of equal length, in trees --------------------------------------------------------------------- */

_Static_assert(RUN_CLASSES == 64 + 64 - 6, "63 lengths, and the powers of two from 2^6 to 2^63; class 0 stays empty");

static pgno_t run_last(const struct page_run *run)
{
    return run->first + (run->length - 1);
}

static unsigned length_class(size_t length)
{
    return length < 64 ? (unsigned)length : 64 - 6 + log2_floor(length);
}

/** A length without its highest bit, shifted so that the next lower one is bit 63: the way down the tree. */
static uint64_t length_way(size_t length)
{
    return (uint64_t)length << 1 << (63 - log2_floor(length));
}

static bool is_shorter(const struct page_run *run, const struct page_run *than)
{
    return than == NULL || run->length < than->length;
}

/** The lowest class with runs that is not below this one; RUN_CLASSES if there is none. */
static unsigned class_used_from(const struct page_runs *runs, unsigned class)
{
    uint64_t bits;

    for (; class < RUN_CLASSES; class = (class / 64 + 1) * 64) {
        bits = runs->used[class / 64] >> class % 64;
        if (bits != 0)
            return class + (unsigned)__builtin_ctzll(bits);
    }
    return RUN_CLASSES;
}

/** What points at a run that stands in a tree; NULL for the others of a ring. */
static struct page_run **run_link(struct page_runs *runs, const struct page_run *run)
{
    struct page_run **top = &runs->trees[length_class(run->length)];

    if (run->parent != NULL)
        return &run->parent->child[run->parent->child[1] == run];
    return *top == run ? top : NULL;
}

/** Puts a run of known length into the ring of its length, behind the one that stands in the tree. So that one is the
 *  oldest, and the next ones are ever older. */
static void ring_join(struct page_runs *runs, struct page_run *run)
{
    unsigned class = length_class(run->length);
    uint64_t way = length_way(run->length);
    struct page_run **link = &runs->trees[class], *parent = NULL;

    for (; *link != NULL && (*link)->length != run->length; way <<= 1) {
        MIDL_STEP();
        parent = *link;
        link = &parent->child[way >> 63];
    }
    run->child[0] = run->child[1] = NULL;
    if (*link != NULL) {
        run->parent = NULL;
        run->previous = *link;
        run->next = (*link)->next;
        run->previous->next = run->next->previous = run;
    } else {
        run->parent = parent;
        run->previous = run->next = run;
        *link = run;
        runs->used[class / 64] |= UINT64_C(1) << class % 64;
    }
}

/** Puts a run that stands nowhere in the tree in the place of one that does. */
static void tree_replace(struct page_runs *runs, struct page_run *old, struct page_run *run)
{
    unsigned side;

    *run_link(runs, old) = run;
    run->parent = old->parent;
    for (side = 0; side < 2; side++) {
        run->child[side] = old->child[side];
        if (run->child[side] != NULL)
            run->child[side]->parent = run;
    }
}

/** Removes the only run of its length from its tree: any leaf below it may take its place. */
static void tree_remove(struct page_runs *runs, struct page_run *run)
{
    unsigned class = length_class(run->length);
    struct page_run *leaf = run;

    while (leaf->child[0] != NULL || leaf->child[1] != NULL) {
        MIDL_STEP();
        leaf = leaf->child[leaf->child[1] != NULL];
    }
    *run_link(runs, leaf) = NULL;
    if (leaf != run)
        tree_replace(runs, run, leaf);
    if (runs->trees[class] == NULL)
        runs->used[class / 64] &= ~(UINT64_C(1) << class % 64);
}

static void ring_leave(struct page_runs *runs, struct page_run *run)
{
    if (run->next == run) {
        tree_remove(runs, run);
        return;
    }
    if (run_link(runs, run) != NULL)
        tree_replace(runs, run, run->previous);
    run->previous->next = run->next;
    run->next->previous = run->previous;
}

/** The shortest of `best`, which may be NULL, and all runs in the tree below `node`, which may be NULL. */
static struct page_run *tree_shortest(struct page_run *node, struct page_run *best)
{
    while (node != NULL) {
        MIDL_STEP();
        if (is_shorter(node, best))
            best = node;
        node = node->child[node->child[0] == NULL];
    }
    return best;
}

/** The shortest run of at least n pages in the tree of n's class, or NULL. */
static struct page_run *tree_fit(struct page_run *top, size_t n)
{
    struct page_run *node, *best = NULL, *longer = NULL;
    uint64_t way = length_way(n);

    for (node = top; node != NULL; node = node->child[way >> 63], way <<= 1) {
        MIDL_STEP();
        if (node->length == n)
            return node;
        if (node->length > n && is_shorter(node, best))
            best = node;
        /* Where the way goes left, all on the right is longer than n; the deeper, the shorter. */
        if (way >> 63 == 0 && node->child[1] != NULL)
            longer = node->child[1];
    }
    return tree_shortest(longer, best);
}

/** A shortest run of at least n pages, of several such the one that joined the ring last; NULL if there is none. */
static struct page_run *run_fit(const struct page_runs *runs, size_t n)
{
    unsigned class = length_class(n);
    struct page_run *node = tree_fit(runs->trees[class], n);

    if (node == NULL) {
        class = class_used_from(runs, class + 1);
        if (class == RUN_CLASSES)
            return NULL;
        node = tree_shortest(runs->trees[class], NULL);
    }
    return node->next;
}

/* ---- runs: the set of pages ------------------------------------------------------------------------------------ */

/** For an edge whose room is reserved, or that stands in for one just removed. */
static void edge_add(struct page_runs *runs, pgno_t pgno, struct page_run *run)
{
    int rc = page_table_insert(&runs->edges, pgno, run);

    assert(rc == 0);
    (void)rc;
}

/** Puts a run into the set. Room for two edges is reserved. */
static void run_attach(struct page_runs *runs, struct page_run *run)
{
    edge_add(runs, run->first, run);
    if (run->length > 1)
        edge_add(runs, run_last(run), run);
    ring_join(runs, run);
    runs->pages += run->length;
}

/** Removes a run from the set; the caller owns it then. */
static void run_detach(struct page_runs *runs, struct page_run *run)
{
    page_table_remove(&runs->edges, run->first);
    if (run->length > 1)
        page_table_remove(&runs->edges, run_last(run));
    ring_leave(runs, run);
    runs->pages -= run->length;
}

int page_runs_add(struct page_runs *runs, pgno_t first, size_t n)
{
    struct page_run *left, *right, *run;
    pgno_t end = first + n;

    assert(n > 0);
    assert(n <= PGNO_NONE - first);
    left = first > 0 ? page_table_find(&runs->edges, first - 1) : NULL;
    right = page_table_find(&runs->edges, end);
    if (page_table_find(&runs->edges, first) != NULL || page_table_find(&runs->edges, end - 1) != NULL
        || (left != NULL && run_last(left) >= first) || (right != NULL && right->first < end))
        return EEXIST;
    if (page_table_reserve(&runs->edges, 2) != 0)
        return ENOMEM;
    run = left != NULL ? left : right != NULL ? right : run_new(runs);
    if (run == NULL)
        return ENOMEM;
    if (left != NULL) {
        run_detach(runs, left);
        first = left->first;
    }
    if (right != NULL) {
        run_detach(runs, right);
        end = right->first + right->length;
    }
    if (left != NULL && right != NULL)
        run_release(runs, right);
    run->first = first;
    run->length = end - first;
    run_attach(runs, run);
    return 0;
}

pgno_t page_runs_take(struct page_runs *runs, size_t n)
{
    struct page_run *run;
    pgno_t first;

    assert(n > 0);
    run = run_fit(runs, n);
    if (run == NULL)
        return PGNO_NONE;
    first = run->first;
    if (run->length == n) {
        run_detach(runs, run);
        run_release(runs, run);
        return first;
    }
    if (run->length > n + 1 && page_table_find(&runs->edges, first + n) != NULL) {
        runs->overlapping = true;
        return PGNO_NONE;
    }
    /* The upper edge stays; what is left may have only that one. */
    page_table_remove(&runs->edges, first);
    ring_leave(runs, run);
    run->first += n;
    run->length -= n;
    if (run->length > 1)
        edge_add(runs, run->first, run);
    ring_join(runs, run);
    runs->pages -= n;
    return first;
}

pgno_t page_runs_take_last(struct page_runs *runs, pgno_t end)
{
    struct page_run *run = end > 0 ? page_table_find(&runs->edges, end - 1) : NULL;

    if (run == NULL || run_last(run) != end - 1)
        return PGNO_NONE;
    run_detach(runs, run);
    run_release(runs, run);
    return run->first;
}

size_t page_runs_longest(const struct page_runs *runs)
{
    unsigned half = runs->used[1] != 0;
    const struct page_run *node;
    size_t longest = 0;

    if (runs->used[half] == 0)
        return 0;
    node = runs->trees[half * 64 + log2_floor(runs->used[half])];
    for (; node != NULL; node = node->child[node->child[1] != NULL]) {
        MIDL_STEP();
        if (node->length > longest)
            longest = node->length;
    }
    return longest;
}

int page_runs_list(const struct page_runs *runs, struct page_list *out)
{
    size_t iterator = 0, count = 0, i, j;
    pgno_t pgno, *ids;
    void *value;
    int rc = page_list_reserve(out, runs->pages);

    if (rc != 0 || runs->pages == 0)
        return rc;
    /* The first pages of the runs wait, sorted, at the end of the room. Writing out never overtakes them: for each
     * that still waits at least one number is still to be written. */
    ids = out->ids + out->count + runs->pages;
    while (page_table_next(&runs->edges, &iterator, &pgno, &value)) {
        if (((const struct page_run *)value)->first == pgno)
            *(ids - ++count) = pgno;
    }
    ids_sort(ids - count, count);
    for (i = count; i > 0; i--) {
        const struct page_run *run = page_table_find(&runs->edges, *(ids - i));

        for (j = run->length; j > 0; j--)
            out->ids[out->count++] = run->first + (j - 1);
    }
    return 0;
}

void page_runs_clear(struct page_runs *runs)
{
    page_table_clear(&runs->edges);
    slabs_trim(runs, 1);
    memset(runs->used, 0, sizeof runs->used);
    memset(runs->trees, 0, sizeof runs->trees);
    runs->pages = 0;
    runs->spare = NULL;
    runs->slab_used = 0;
    runs->overlapping = false;
}

void page_runs_free(struct page_runs *runs)
{
    page_table_free(&runs->edges);
    slabs_trim(runs, 0);
    memset(runs, 0, sizeof *runs);
}

/* ---- runs: check ----------------------------------------------------------------------------------------------- */

/** What a walk over all runs counts. */
struct runs_total {
    size_t runs;
    size_t edges;
    size_t pages;
};

static bool run_is_valid(const struct page_runs *runs, const struct page_run *run)
{
    pgno_t end = run->first + run->length;

    return run->length > 0 && run->length <= PGNO_NONE - run->first
        && page_table_find(&runs->edges, run->first) == run && page_table_find(&runs->edges, end - 1) == run
        && page_table_find(&runs->edges, end) == NULL
        && (run->first == 0 || page_table_find(&runs->edges, run->first - 1) == NULL);
}

/** Checks the ring of a run in a tree. As each run's neighbours agree, the way around comes back to its beginning. */
static bool ring_is_valid(const struct page_runs *runs, const struct page_run *node, struct runs_total *total)
{
    const struct page_run *run = node;

    do {
        if (!run_is_valid(runs, run) || run->length != node->length || run->next->previous != run)
            return false;
        if (run != node && (run->parent != NULL || run->child[0] != NULL || run->child[1] != NULL))
            return false;
        total->runs++;
        total->edges += run->length > 1 ? 2 : 1;
        total->pages += run->length;
        run = run->next;
    } while (run != node);
    return true;
}

/** Checks the tree below a node that `depth` steps led to. All lengths in it agree with its parent's way in the
 *  class and the first `depth` bits, which stand in `way`. */
static bool tree_is_valid(const struct page_runs *runs, const struct page_run *node, const struct page_run *parent,
                          unsigned class, uint64_t way, unsigned depth, struct runs_total *total)
{
    unsigned side;

    if (node == NULL)
        return true;
    if (node->parent != parent || length_class(node->length) != class || depth > 63
        || (depth > 0 && (length_way(node->length) ^ way) >> (64 - depth) != 0) || !ring_is_valid(runs, node, total))
        return false;
    for (side = 0; side < 2; side++) {
        uint64_t child_way = way | (uint64_t)side << (63 - depth);

        if (!tree_is_valid(runs, node->child[side], node, class, child_way, depth + 1, total))
            return false;
    }
    return true;
}

static size_t slabs_run_count(const struct page_runs *runs)
{
    const struct page_run_slab *slab;
    size_t count = runs->slab_used;

    for (slab = runs->slabs != NULL ? runs->slabs->next : NULL; slab != NULL; slab = slab->next)
        count += slab->capacity;
    return count;
}

bool page_runs_is_valid(const struct page_runs *runs)
{
    struct runs_total total = { 0, 0, 0 };
    const struct page_run *run;
    unsigned class;

    if (!page_table_is_valid(&runs->edges) || runs->trees[0] != NULL)
        return false;
    for (class = 0; class < RUN_CLASSES; class++) {
        if ((runs->used[class / 64] >> class % 64 & 1) != (runs->trees[class] != NULL))
            return false;
        if (!tree_is_valid(runs, runs->trees[class], NULL, class, 0, 0, &total))
            return false;
    }
    for (run = runs->spare; run != NULL; run = run->next)
        total.runs++;
    return total.edges == runs->edges.count && total.pages == runs->pages && total.runs == slabs_run_count(runs);
}
