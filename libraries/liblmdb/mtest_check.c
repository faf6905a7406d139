/* Tests of mdb_check: what it says of sound environments, and of a sample with one thing wrong at a time.
 *
 * The sample has a database of each kind, with trees of two levels at any page size, and a free list of several
 * records. Each row of a table names a change of its bytes and the line that must be among those reported. */
#include "mtest.h"

#include "mdb_format.h"

enum { DATABASES = 8, PATH_SIZE = 4096, RANDOM_DAMAGES = 150, DEEP_PAGES = DEPTH_MAX + 4 };

static const size_t map_size = (size_t)64 << 20;

/* ==== Running the tool =================================================== */

static char *path_join(const char *directory, const char *name)
{
    size_t size = strlen(directory) + strlen(name) + 2;
    char *path = malloc(size);

    CHECK(path != NULL);
    snprintf(path, size, "%s/%s", directory, name);
    return path;
}

static unsigned char *file_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    unsigned char *bytes;
    struct stat status;

    CHECK(file != NULL);
    CHECK_EQ(fstat(fileno(file), &status), 0);
    *size = (size_t)status.st_size;
    bytes = malloc(*size + 1);
    CHECK(bytes != NULL);
    CHECK_EQ(fread(bytes, 1, *size, file), *size);
    bytes[*size] = '\0';
    fclose(file);
    return bytes;
}

static void file_write(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");

    CHECK(file != NULL);
    CHECK_EQ(fwrite(bytes, 1, size, file), size);
    CHECK_EQ(fclose(file), 0);
}

/* Runs the tool on path, with options of which unused ones are NULL. Gives its exit status, and what it printed. */
static int tool_run(const char *directory, char **printed, const char *path, const char *option, const char *other)
{
    const char *tool = getenv("MDB_CHECK");
    char *output = path_join(directory, "output"), words[4][PATH_SIZE], *arguments[5];
    const char *wanted[4];
    int count = 0, status, i;
    size_t size;

    wanted[0] = tool != NULL && *tool != '\0' ? tool : "./mdb_check";
    wanted[1] = option;
    wanted[2] = other;
    wanted[3] = path;
    for (i = 0; i < 4; i++) {
        if (wanted[i] == NULL)
            continue;
        snprintf(words[count], sizeof(words[count]), "%s", wanted[i]);
        arguments[count] = words[count];
        count++;
    }
    arguments[count] = NULL;
    status = program_run(arguments, output);
    *printed = (char *)file_read(output, &size);
    free(output);
    return status;
}

/* Runs the tool, which must end with this exit status and print this text among other things. */
static void tool_expect(const char *directory, const char *path, const char *option, const char *other, int status,
                        const char *text)
{
    char *printed;
    int found = tool_run(directory, &printed, path, option, other);

    if (found != status || strstr(printed, text) == NULL)
        test_fail(__FILE__, __LINE__, "exit status %d, expected %d; \"%s\" expected in:\n%s", found, status, text,
                  printed);
    free(printed);
}

/* ==== The sample ========================================================= */

static void put(MDB_txn *txn, MDB_dbi dbi, const void *key, size_t key_size, const void *value, size_t value_size)
{
    MDB_val key_val = val_of(key, key_size), value_val = val_of(value, value_size);

    CHECK_OK(mdb_put(txn, dbi, &key_val, &value_val, 0));
}

static MDB_dbi database_make(MDB_txn *txn, const char *name, unsigned flags)
{
    MDB_dbi dbi;

    CHECK_OK(mdb_dbi_open(txn, name, flags | MDB_CREATE, &dbi));
    return dbi;
}

static void plain_put(MDB_txn *txn, MDB_dbi dbi, unsigned i)
{
    char key[16], value[32];

    snprintf(key, sizeof(key), "key%05u", i);
    snprintf(value, sizeof(value), "value %018u", i);
    put(txn, dbi, key, 8, value, 24);
}

/* Keys with one value, with a sub-page of three and with a tree of them. */
static void duplicates_fill(MDB_txn *txn, unsigned many)
{
    MDB_dbi text = database_make(txn, "dups", MDB_DUPSORT);
    MDB_dbi fixed = database_make(txn, "fixed", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP);
    uint64_t i;

    for (i = 0; i < many; i++) {
        char value[32];

        snprintf(value, sizeof(value), "duplicate %06u", (unsigned)i);
        if (i < 1)
            put(txn, text, "one", 3, value, 16);
        if (i < 3)
            put(txn, text, "some", 4, value, 16);
        if (i < many / 2)
            put(txn, text, "many", 4, value, 16);
        if (i < 1)
            put(txn, fixed, "one", 3, &i, sizeof(i));
        if (i < 3)
            put(txn, fixed, "some", 4, &i, sizeof(i));
        put(txn, fixed, "many", 4, &i, sizeof(i));
    }
}

static void sample_fill(MDB_txn *txn, unsigned page_size)
{
    MDB_dbi plain = database_make(txn, "plain", 0), ints = database_make(txn, "ints", MDB_INTEGERKEY);
    MDB_dbi big = database_make(txn, "big", 0);
    unsigned char *large = calloc(3, page_size);
    uint64_t i;

    CHECK(large != NULL);
    database_make(txn, "empty", 0);
    for (i = 0; i < page_size / 8; i++)
        plain_put(txn, plain, (unsigned)i);
    for (i = 0; i < 10; i++)
        put(txn, ints, &i, sizeof(i), "data", 4);
    put(txn, big, "large", 5, large, (size_t)3 * page_size);
    put(txn, big, "small", 5, "data", 4);
    duplicates_fill(txn, page_size / 4);
    free(large);
}

/* Makes the sample in directory. A reader keeps the free-list records of the last three transactions from being
 * used up. */
static void sample_make(const char *directory)
{
    MDB_env *env = env_open_new(directory, MDB_NOTLS | MDB_NOSYNC, map_size, DATABASES);
    MDB_txn *txn, *reader;
    MDB_stat stat;
    MDB_dbi plain;
    unsigned i;

    CHECK_OK(mdb_env_stat(env, &stat));
    CHECK_OK(mdb_txn_begin(env, NULL, 0, &txn));
    sample_fill(txn, stat.ms_psize);
    CHECK_OK(mdb_txn_commit(txn));
    CHECK_OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &reader));
    for (i = 0; i < 3; i++) {
        CHECK_OK(mdb_txn_begin(env, NULL, 0, &txn));
        CHECK_OK(mdb_dbi_open(txn, "plain", 0, &plain));
        plain_put(txn, plain, i * stat.ms_psize / 32);
        CHECK_OK(mdb_txn_commit(txn));
    }
    mdb_txn_abort(reader);
    mdb_env_close(env);
}

/* ==== The bytes of the sample ============================================ */

struct image {
    unsigned char *bytes;
    size_t size;
    size_t page_size;
    unsigned newest; /* number of the meta page with the newest snapshot */
    struct meta *meta;
};

static struct page *image_page(const struct image *image, pgno_t pgno)
{
    CHECK((pgno + 1) * image->page_size <= image->size);
    return (struct page *)(image->bytes + pgno * image->page_size);
}

static void image_open(struct image *image, unsigned char *bytes, size_t size)
{
    struct meta *metas[META_PAGES];

    image->bytes = bytes;
    image->size = size;
    image->page_size = page_meta((struct page *)bytes)->dbs[FREE_DBI].pad;
    metas[0] = page_meta(image_page(image, 0));
    metas[1] = page_meta(image_page(image, 1));
    image->newest = metas[1]->txnid > metas[0]->txnid ? 1 : 0;
    image->meta = metas[image->newest];
}

static struct image image_read(const char *directory)
{
    char *path = path_join(directory, "data.mdb");
    struct image image;
    unsigned char *bytes;
    size_t size;

    bytes = file_read(path, &size);
    image_open(&image, bytes, size);
    free(path);
    return image;
}

static struct node *node_find(struct page *leaf, const char *key)
{
    unsigned i;

    for (i = 0; i < page_count(leaf); i++) {
        struct node *node = page_node(leaf, i);

        if (node->ksize == strlen(key) && memcmp(node->bytes, key, node->ksize) == 0)
            return node;
    }
    test_fail(__FILE__, __LINE__, "no node \"%s\"", key);
}

/* The main database is a single leaf. */
static struct page *main_leaf(const struct image *image)
{
    CHECK_EQ(image->meta->dbs[MAIN_DBI].depth, 1);
    return image_page(image, image->meta->dbs[MAIN_DBI].root);
}

static struct node *database_node(const struct image *image, const char *name)
{
    return node_find(main_leaf(image), name);
}

static struct page *database_root(const struct image *image, const char *name)
{
    return image_page(image, node_record(database_node(image, name)).root);
}

/* Child i of a branch page that has at least three. */
static struct page *branch_child(const struct image *image, struct page *branch, unsigned i)
{
    CHECK(page_is_branch(branch));
    CHECK(page_count(branch) >= 3);
    return image_page(image, node_child(page_node(branch, i)));
}

static struct page *plain_root(const struct image *image)
{
    return database_root(image, "plain");
}

static struct page *plain_leaf(const struct image *image, unsigned i)
{
    struct page *leaf = branch_child(image, plain_root(image), i);

    CHECK_EQ(leaf->flags, P_LEAF);
    return leaf;
}

static struct page *free_leaf(const struct image *image)
{
    CHECK_EQ(image->meta->dbs[FREE_DBI].depth, 1);
    return image_page(image, image->meta->dbs[FREE_DBI].root);
}

/* Number i of a free-list record; the first one is the count. */
static pgno_t free_number(const struct image *image, unsigned record, unsigned i)
{
    pgno_t number;

    memcpy(&number, node_data(page_node(free_leaf(image), record)) + i * sizeof(number), sizeof(number));
    return number;
}

static void free_number_set(const struct image *image, unsigned record, unsigned i, pgno_t number)
{
    CHECK(page_count(free_leaf(image)) >= 2);
    CHECK(free_number(image, record, 0) >= 2);
    memcpy(node_data(page_node(free_leaf(image), record)) + i * sizeof(number), &number, sizeof(number));
}

/* The node of a key in one of the two databases of duplicates, which are single leaves. */
static struct node *duplicates_node(const struct image *image, const char *name, const char *key)
{
    CHECK_EQ(node_record(database_node(image, name)).depth, 1);
    return node_find(database_root(image, name), key);
}

static struct page *sub_page(const struct image *image, const char *name)
{
    struct node *node = duplicates_node(image, name, "some");

    CHECK_EQ(node->flags, N_DUPDATA);
    return node_sub_page(node);
}

/* The first leaf of the tree of values in a database of duplicates. */
static struct page *values_leaf(const struct image *image, const char *name)
{
    struct node *node = duplicates_node(image, name, "many");

    CHECK_EQ(node->flags, N_DUPDATA | N_SUBDATA);
    CHECK_EQ(node_record(node).depth, 2);
    return branch_child(image, image_page(image, node_record(node).root), 0);
}

static struct page *overflow_run(const struct image *image)
{
    struct node *node = node_find(database_root(image, "big"), "large");

    CHECK_EQ(node->flags, N_BIGDATA);
    return image_page(image, node_run(node));
}

static void slots_swap(struct page *page, unsigned i, unsigned j)
{
    uint16_t offset = page->offsets[i];

    page->offsets[i] = page->offsets[j];
    page->offsets[j] = offset;
}

static void record_set(struct node *node, const struct db_record *record)
{
    memcpy(node_data(node), record, sizeof(*record));
}

/* ==== Damages: pages and nodes =========================================== *
 * Each changes one thing and gives the page where that must be reported. */

static pgno_t page_number_is_wrong(struct image *image)
{
    struct page *leaf = plain_leaf(image, 1);
    pgno_t pgno = leaf->pgno;

    leaf->pgno++;
    return pgno;
}

static pgno_t dirty_flag_is_set(struct image *image)
{
    struct page *leaf = plain_leaf(image, 1);

    leaf->flags |= P_DIRTY;
    return leaf->pgno;
}

static pgno_t leaf_is_an_overflow_page(struct image *image)
{
    struct page *leaf = plain_leaf(image, 1);

    leaf->flags = P_OVERFLOW;
    return leaf->pgno;
}

static pgno_t lower_is_odd(struct image *image)
{
    struct page *leaf = plain_leaf(image, 1);

    leaf->lower++;
    return leaf->pgno;
}

static pgno_t upper_is_beyond_the_page(struct image *image)
{
    struct page *leaf = plain_leaf(image, 1);

    leaf->upper = (uint16_t)(image->page_size + 2);
    return leaf->pgno;
}

static pgno_t leaf_is_empty(struct image *image)
{
    struct page *leaf = plain_leaf(image, 1);

    leaf->lower = PAGE_HEADER;
    return leaf->pgno;
}

static pgno_t node_is_at_an_odd_offset(struct image *image)
{
    struct page *leaf = plain_leaf(image, 0);

    leaf->offsets[1]++;
    return leaf->pgno;
}

static pgno_t node_is_in_front_of_the_heap(struct image *image)
{
    struct page *leaf = plain_leaf(image, 0);

    leaf->offsets[1] = (uint16_t)(leaf->upper - 2);
    return leaf->pgno;
}

static pgno_t node_ends_beyond_the_page(struct image *image)
{
    struct page *leaf = plain_leaf(image, 0);

    page_node(leaf, 1)->hi = 1;
    return leaf->pgno;
}

static pgno_t two_slots_have_one_node(struct image *image)
{
    struct page *leaf = plain_leaf(image, 0);

    leaf->offsets[1] = leaf->offsets[0];
    return leaf->pgno;
}

static pgno_t node_without_a_slot_leaves_a_hole(struct image *image)
{
    struct page *leaf = plain_leaf(image, 0);

    leaf->lower = (uint16_t)(leaf->lower - SLOT_SIZE);
    return leaf->pgno;
}

static pgno_t node_is_too_large(struct image *image)
{
    struct page *leaf = plain_leaf(image, 0);
    struct node *node = page_node(leaf, 0);
    size_t size = node_size_max(image->page_size) + 2;
    unsigned char key[8];

    memcpy(key, node->bytes, sizeof(key));
    leaf->lower = PAGE_HEADER + SLOT_SIZE;
    leaf->upper = (uint16_t)(image->page_size - size);
    leaf->offsets[0] = leaf->upper;
    node = page_node(leaf, 0);
    node->flags = 0;
    node->ksize = sizeof(key);
    node_set_data_size(node, size - NODE_HEADER - sizeof(key));
    memcpy(node->bytes, key, sizeof(key));
    return leaf->pgno;
}

static pgno_t plain_value_is_said_to_be_a_sub_page(struct image *image)
{
    struct page *leaf = plain_leaf(image, 0);

    page_node(leaf, 1)->flags = N_DUPDATA;
    return leaf->pgno;
}

/* ==== Damages: keys and branches ========================================= */

static pgno_t keys_are_swapped(struct image *image)
{
    struct page *leaf = plain_leaf(image, 0);

    slots_swap(leaf, 0, 1);
    return leaf->pgno;
}

static pgno_t key_is_there_twice(struct image *image)
{
    struct page *leaf = plain_leaf(image, 0);

    memcpy(page_node(leaf, 1)->bytes, page_node(leaf, 0)->bytes, 8);
    return leaf->pgno;
}

static pgno_t key_is_empty(struct image *image)
{
    struct page *leaf = plain_leaf(image, 0);
    struct node *node = page_node(leaf, 1);

    node_set_data_size(node, node_data_size(node) + node->ksize);
    node->ksize = 0;
    return leaf->pgno;
}

static pgno_t last_key_belongs_to_the_next_leaf(struct image *image)
{
    struct page *leaf = plain_leaf(image, 0);

    page_node(leaf, page_count(leaf) - 1)->bytes[0] = 'z';
    return leaf->pgno;
}

static pgno_t first_key_belongs_to_the_leaf_before(struct image *image)
{
    struct page *leaf = plain_leaf(image, 1);

    page_node(leaf, 0)->bytes[0] = 'a';
    return leaf->pgno;
}

static pgno_t reversed_order_does_not_hold(struct image *image)
{
    struct node *node = database_node(image, "plain");
    struct db_record record = node_record(node);

    record.flags = DB_REVERSEKEY;
    record_set(node, &record);
    memcpy(page_node(plain_leaf(image, 0), 0)->bytes, "key00009", 8);
    return plain_leaf(image, 0)->pgno;
}

static pgno_t integer_keys_are_swapped(struct image *image)
{
    struct page *leaf = database_root(image, "ints");

    slots_swap(leaf, 3, 4);
    return leaf->pgno;
}

static pgno_t integer_key_has_another_width(struct image *image)
{
    struct page *leaf = database_root(image, "ints");
    struct node *node = page_node(leaf, 3);

    node->ksize = 4;
    node_set_data_size(node, 8);
    return leaf->pgno;
}

static pgno_t integer_key_has_no_integers_width(struct image *image)
{
    struct page *leaf = database_root(image, "ints");
    struct node *node = page_node(leaf, 3);

    node->ksize = 6;
    node_set_data_size(node, 6);
    return leaf->pgno;
}

static pgno_t separators_are_swapped(struct image *image)
{
    struct page *root = plain_root(image);

    slots_swap(root, 1, 2);
    return root->pgno;
}

static pgno_t children_are_swapped(struct image *image)
{
    struct page *root = plain_root(image);
    pgno_t first = node_child(page_node(root, 0)), second = node_child(page_node(root, 1));

    node_set_child(page_node(root, 0), second);
    node_set_child(page_node(root, 1), first);
    return second;
}

static pgno_t branch_has_one_child(struct image *image)
{
    struct page *root = plain_root(image);

    root->lower = PAGE_HEADER + SLOT_SIZE;
    return root->pgno;
}

static pgno_t child_set(struct image *image, pgno_t child)
{
    struct page *root = plain_root(image);

    node_set_child(page_node(root, 1), child);
    return root->pgno;
}

static pgno_t child_is_there_twice(struct image *image)
{
    return child_set(image, node_child(page_node(plain_root(image), 0)));
}

static pgno_t child_is_its_parent(struct image *image)
{
    return child_set(image, plain_root(image)->pgno);
}

static pgno_t child_is_a_meta_page(struct image *image)
{
    return child_set(image, 1);
}

static pgno_t child_is_beyond_the_last_page(struct image *image)
{
    return child_set(image, image->meta->last_pgno + 1);
}

static pgno_t child_is_free(struct image *image)
{
    return child_set(image, free_number(image, 0, 1));
}

static pgno_t child_is_lost(struct image *image)
{
    pgno_t lost = node_child(page_node(plain_root(image), 1));

    child_is_there_twice(image);
    return lost;
}

/* Puts a chain of branches with one child each behind the last page, longer than any tree is deep. */
static pgno_t tree_is_too_deep(struct image *image)
{
    struct node *node = database_node(image, "empty");
    struct db_record record = node_record(node);
    pgno_t first = image->meta->last_pgno + 1, i;

    image->bytes = realloc(image->bytes, (first + DEEP_PAGES) * image->page_size);
    CHECK(image->bytes != NULL);
    image_open(image, image->bytes, (first + DEEP_PAGES) * image->page_size);
    memset(image->bytes + first * image->page_size, 0, DEEP_PAGES * image->page_size);
    for (i = first; i < first + DEEP_PAGES; i++) {
        struct page *page = image_page(image, i);

        page->pgno = i;
        page->flags = P_BRANCH;
        page->lower = PAGE_HEADER + SLOT_SIZE;
        page->upper = (uint16_t)(image->page_size - NODE_HEADER);
        page->offsets[0] = page->upper;
        node_set_child(page_node(page, 0), i + 1);
    }
    image->meta->last_pgno = first + DEEP_PAGES - 1;
    node = database_node(image, "empty");
    record.root = first;
    record.depth = DEPTH_MAX;
    record_set(node, &record);
    return first + DEPTH_MAX;
}

/* ==== Damages: database records ========================================== */

/* Gives the main leaf's page number, which is where records are reported. */
static pgno_t record_change(struct image *image, const char *name, size_t offset, size_t size, uint64_t number)
{
    struct node *node = database_node(image, name);

    memcpy(node_data(node) + offset, &number, size);
    return main_leaf(image)->pgno;
}

#define RECORD_CHANGE(image, name, member, number) \
    record_change(image, name, offsetof(struct db_record, member), sizeof(((struct db_record *)0)->member), number)

static pgno_t depth_is_too_large(struct image *image)
{
    RECORD_CHANGE(image, "plain", depth, 3);
    return plain_leaf(image, 0)->pgno;
}

static pgno_t depth_is_too_small(struct image *image)
{
    RECORD_CHANGE(image, "plain", depth, 1);
    return plain_root(image)->pgno;
}

static pgno_t empty_tree_has_a_depth(struct image *image)
{
    return RECORD_CHANGE(image, "empty", depth, 1);
}

static pgno_t branch_page_count_is_wrong(struct image *image)
{
    return RECORD_CHANGE(image, "plain", branch_pages, 7);
}

static pgno_t leaf_page_count_is_wrong(struct image *image)
{
    return RECORD_CHANGE(image, "ints", leaf_pages, 7);
}

static pgno_t overflow_page_count_is_wrong(struct image *image)
{
    return RECORD_CHANGE(image, "big", overflow_pages, 3);
}

static pgno_t entry_count_is_wrong(struct image *image)
{
    return RECORD_CHANGE(image, "ints", entries, 9);
}

static pgno_t entry_count_of_duplicates_is_wrong(struct image *image)
{
    return RECORD_CHANGE(image, "dups", entries, 3);
}

static pgno_t database_flags_are_unknown(struct image *image)
{
    return RECORD_CHANGE(image, "plain", flags, 0x1000);
}

static pgno_t database_root_is_beyond_the_last_page(struct image *image)
{
    return RECORD_CHANGE(image, "plain", root, image->meta->last_pgno + 1);
}

static pgno_t two_databases_have_one_root(struct image *image)
{
    return RECORD_CHANGE(image, "plain", root, database_root(image, "ints")->pgno);
}

static pgno_t database_record_is_too_small(struct image *image)
{
    node_set_data_size(database_node(image, "ints"), sizeof(struct db_record) - 1);
    return main_leaf(image)->pgno;
}

static pgno_t database_name_has_a_zero_byte(struct image *image)
{
    database_node(image, "plain")->bytes[3] = '\0';
    return main_leaf(image)->pgno;
}

/* The record of the free list stands on the meta page. */
static pgno_t free_list_entry_count_is_wrong(struct image *image)
{
    image->meta->dbs[FREE_DBI].entries++;
    return image->newest;
}

static pgno_t main_database_flags_are_unknown(struct image *image)
{
    image->meta->dbs[MAIN_DBI].flags |= 0x1000;
    return image->newest;
}

/* ==== Damages: duplicates ================================================ */

static pgno_t sub_page_lacks_the_dirty_flag(struct image *image)
{
    sub_page(image, "dups")->flags &= (uint16_t)~P_DIRTY;
    return database_root(image, "dups")->pgno;
}

static pgno_t sub_page_has_an_odd_size(struct image *image)
{
    struct node *node = duplicates_node(image, "dups", "some");

    node_set_data_size(node, node_data_size(node) - 1);
    return database_root(image, "dups")->pgno;
}

static pgno_t sub_page_is_smaller_than_its_header(struct image *image)
{
    node_set_data_size(duplicates_node(image, "dups", "some"), 8);
    return database_root(image, "dups")->pgno;
}

static pgno_t sub_page_upper_is_beyond_its_end(struct image *image)
{
    sub_page(image, "dups")->upper = (uint16_t)image->page_size;
    return database_root(image, "dups")->pgno;
}

static pgno_t sub_page_values_are_swapped(struct image *image)
{
    slots_swap(sub_page(image, "dups"), 1, 2);
    return database_root(image, "dups")->pgno;
}

static pgno_t sub_page_value_has_node_flags(struct image *image)
{
    page_node(sub_page(image, "dups"), 1)->flags = N_DUPDATA;
    return database_root(image, "dups")->pgno;
}

static pgno_t sub_page_value_is_outside(struct image *image)
{
    sub_page(image, "dups")->offsets[1] = (uint16_t)image->page_size;
    return database_root(image, "dups")->pgno;
}

static pgno_t fixed_sub_page_is_not_fixed(struct image *image)
{
    sub_page(image, "fixed")->flags = P_LEAF | P_DIRTY | P_SUBP;
    return database_root(image, "fixed")->pgno;
}

static pgno_t fixed_sub_page_has_another_width(struct image *image)
{
    sub_page(image, "fixed")->pad = 4;
    return database_root(image, "fixed")->pgno;
}

static pgno_t fixed_sub_page_has_too_many_values(struct image *image)
{
    sub_page(image, "fixed")->lower = (uint16_t)(PAGE_HEADER + 100 * SLOT_SIZE);
    return database_root(image, "fixed")->pgno;
}

static pgno_t fixed_values_are_swapped(struct image *image)
{
    struct page *leaf = values_leaf(image, "fixed");
    unsigned char value[8], *values = page_bytes(leaf) + PAGE_HEADER;

    memcpy(value, values, 8);
    memcpy(values, values + 8, 8);
    memcpy(values + 8, value, 8);
    return leaf->pgno;
}

static pgno_t fixed_leaf_upper_is_wrong(struct image *image)
{
    struct page *leaf = values_leaf(image, "fixed");

    leaf->upper = (uint16_t)(leaf->upper - 2);
    return leaf->pgno;
}

static pgno_t single_value_has_another_width(struct image *image)
{
    node_set_data_size(duplicates_node(image, "fixed", "one"), 4);
    return database_root(image, "fixed")->pgno;
}

static pgno_t single_value_has_unknown_node_flags(struct image *image)
{
    duplicates_node(image, "dups", "one")->flags = 0x10;
    return database_root(image, "dups")->pgno;
}

static pgno_t values_of_a_tree_are_swapped(struct image *image)
{
    struct page *leaf = values_leaf(image, "dups");

    slots_swap(leaf, 0, 1);
    return leaf->pgno;
}

static pgno_t value_of_a_tree_has_data(struct image *image)
{
    struct page *leaf = values_leaf(image, "dups");

    node_set_data_size(page_node(leaf, 1), 2);
    page_node(leaf, 1)->ksize = 14;
    return leaf->pgno;
}

/* Changes the record of the tree of values, and gives the page where it stands. */
static pgno_t values_record_set(struct image *image, const char *name, const struct db_record *record)
{
    record_set(duplicates_node(image, name, "many"), record);
    return database_root(image, name)->pgno;
}

static pgno_t flags_of_a_tree_of_values_are_wrong(struct image *image)
{
    struct db_record record = node_record(duplicates_node(image, "fixed", "many"));

    record.flags = DB_DUPFIXED;
    return values_record_set(image, "fixed", &record);
}

static pgno_t width_of_a_tree_of_values_is_wrong(struct image *image)
{
    struct db_record record = node_record(duplicates_node(image, "fixed", "many"));

    record.pad = 6;
    return values_record_set(image, "fixed", &record);
}

static pgno_t entry_count_of_a_tree_of_values_is_wrong(struct image *image)
{
    struct db_record record = node_record(duplicates_node(image, "dups", "many"));

    record.entries++;
    return values_record_set(image, "dups", &record);
}

static pgno_t tree_of_values_is_empty(struct image *image)
{
    struct db_record record = node_record(duplicates_node(image, "dups", "many"));

    record.root = PGNO_NONE;
    return values_record_set(image, "dups", &record);
}

static pgno_t record_of_a_tree_of_values_is_too_small(struct image *image)
{
    node_set_data_size(duplicates_node(image, "dups", "many"), sizeof(struct db_record) - 2);
    return database_root(image, "dups")->pgno;
}

/* ==== Damages: overflow runs, free list, meta pages ====================== */

static pgno_t overflow_run_has_leaf_flags(struct image *image)
{
    overflow_run(image)->flags = P_LEAF;
    return database_root(image, "big")->pgno;
}

static pgno_t overflow_run_has_another_page_number(struct image *image)
{
    overflow_run(image)->pgno++;
    return database_root(image, "big")->pgno;
}

static pgno_t overflow_run_is_too_short(struct image *image)
{
    overflow_run(image)->run_pages = 3;
    return database_root(image, "big")->pgno;
}

static pgno_t overflow_run_is_endless(struct image *image)
{
    overflow_run(image)->run_pages = UINT32_MAX;
    return database_root(image, "big")->pgno;
}

static pgno_t overflow_run_is_a_page_in_use(struct image *image)
{
    struct page *leaf = database_root(image, "big");
    pgno_t run = leaf->pgno;

    memcpy(node_data(node_find(leaf, "large")), &run, sizeof(run));
    return leaf->pgno;
}

static pgno_t free_record_key_is_zero(struct image *image)
{
    memset(page_node(free_leaf(image), 0)->bytes, 0, sizeof(txnid_t));
    return free_leaf(image)->pgno;
}

static pgno_t free_record_is_of_a_future_transaction(struct image *image)
{
    txnid_t future = image->meta->txnid + 1;
    struct page *leaf = free_leaf(image);

    memcpy(page_node(leaf, page_count(leaf) - 1)->bytes, &future, sizeof(future));
    return leaf->pgno;
}

static pgno_t free_record_counts_more_than_it_holds(struct image *image)
{
    free_number_set(image, 0, 0, PGNO_NONE);
    return free_leaf(image)->pgno;
}

static pgno_t free_record_has_no_room_for_a_count(struct image *image)
{
    node_set_data_size(page_node(free_leaf(image), 0), 4);
    return free_leaf(image)->pgno;
}

static pgno_t free_record_has_node_flags(struct image *image)
{
    page_node(free_leaf(image), 0)->flags = N_DUPDATA;
    return free_leaf(image)->pgno;
}

static pgno_t free_pages_are_not_descending(struct image *image)
{
    pgno_t first = free_number(image, 0, 1);

    free_number_set(image, 0, 1, free_number(image, 0, 2));
    free_number_set(image, 0, 2, first);
    return free_leaf(image)->pgno;
}

static pgno_t free_page_is_a_meta_page(struct image *image)
{
    free_number_set(image, 0, (unsigned)free_number(image, 0, 0), 1);
    return free_leaf(image)->pgno;
}

static pgno_t free_page_is_beyond_the_last_page(struct image *image)
{
    free_number_set(image, 0, 1, image->meta->last_pgno + 1);
    return free_leaf(image)->pgno;
}

static pgno_t free_page_is_there_twice(struct image *image)
{
    free_number_set(image, 1, 1, free_number(image, 0, 1));
    return free_leaf(image)->pgno;
}

static pgno_t free_page_is_the_free_lists_own(struct image *image)
{
    free_number_set(image, 0, 1, free_leaf(image)->pgno);
    return free_leaf(image)->pgno;
}

static pgno_t free_page_is_a_databases_root(struct image *image)
{
    free_number_set(image, 0, 1, database_root(image, "ints")->pgno);
    return main_leaf(image)->pgno;
}

static pgno_t free_page_is_lost(struct image *image)
{
    pgno_t count = free_number(image, 0, 0), lost = free_number(image, 0, (unsigned)count);

    free_number_set(image, 0, 0, count - 1);
    return lost;
}

static pgno_t magic_is_wrong(struct image *image)
{
    image->meta->magic++;
    return image->newest;
}

static pgno_t version_is_wrong(struct image *image)
{
    image->meta->version = 2;
    return image->newest;
}

static pgno_t older_meta_page_is_zero(struct image *image)
{
    memset(image_page(image, 1 - image->newest), 0, image->page_size);
    return 1 - image->newest;
}

static pgno_t meta_flag_is_missing(struct image *image)
{
    image_page(image, 0)->flags = 0;
    return 0;
}

static pgno_t meta_page_number_is_wrong(struct image *image)
{
    image_page(image, 1)->pgno = 0;
    return 1;
}

static pgno_t page_size_is_no_power_of_two(struct image *image)
{
    page_meta(image_page(image, 0))->dbs[FREE_DBI].pad += 2;
    return 0;
}

static pgno_t page_size_is_another_one(struct image *image)
{
    page_meta(image_page(image, 0))->dbs[FREE_DBI].pad = image->page_size == 1024 ? 2048 : 1024;
    return 0;
}

static pgno_t last_page_is_beyond_the_map(struct image *image)
{
    image->meta->last_pgno = image->meta->mapsize / image->page_size;
    return image->newest;
}

static pgno_t last_page_is_a_meta_page(struct image *image)
{
    image->meta->last_pgno = 0;
    return image->newest;
}

static pgno_t main_root_is_beyond_the_last_page(struct image *image)
{
    image->meta->dbs[MAIN_DBI].root = image->meta->last_pgno + 1;
    return image->newest;
}

static pgno_t free_list_root_is_a_meta_page(struct image *image)
{
    image->meta->dbs[FREE_DBI].root = 1;
    return image->newest;
}

static pgno_t transaction_is_on_the_wrong_meta_page(struct image *image)
{
    image->meta->txnid++;
    return image->newest;
}

static pgno_t environment_flags_are_unknown(struct image *image)
{
    image->meta->dbs[FREE_DBI].flags |= 0x100;
    return image->newest;
}

/* ==== The table ========================================================== */

struct damage {
    const char *name;
    pgno_t (*apply)(struct image *image);
    const char *database; /* as it is printed behind the page number; NULL: none is */
    const char *message;  /* part of the line behind that */
};

#define DAMAGE(name, database, message) { #name, name, database, message }
#define PLAIN "database \"plain\", "
#define DUPS "database \"dups\", "
#define FIXED "database \"fixed\", "
#define VALUES ", depth 2): "

static const struct damage page_damages[] = {
    DAMAGE(page_number_is_wrong, PLAIN, "depth 2): says that it is page"),
    DAMAGE(dirty_flag_is_set, PLAIN, "depth 2): page flags 0x12, of which 0x10 never stand in a file"),
    DAMAGE(leaf_is_an_overflow_page, PLAIN, "depth 2): page flags 0x4, a branch has 0x1, a leaf 0x2"),
    DAMAGE(lower_is_odd, PLAIN, "depth 2): lower is"),
    DAMAGE(upper_is_beyond_the_page, PLAIN, "depth 2): lower is"),
    DAMAGE(leaf_is_empty, PLAIN, "depth 2): no entries"),
    DAMAGE(node_is_at_an_odd_offset, PLAIN, "depth 2): node 1: at offset"),
    DAMAGE(node_is_in_front_of_the_heap, PLAIN, "depth 2): node 1: at offset"),
    DAMAGE(node_ends_beyond_the_page, PLAIN, "depth 2): node 1: at offset"),
    DAMAGE(two_slots_have_one_node, PLAIN, "depth 2): node 1: overlaps another node"),
    DAMAGE(node_without_a_slot_leaves_a_hole, PLAIN, "depth 2): hole at offset"),
    DAMAGE(node_is_too_large, PLAIN, "depth 2): node 0: node of"),
    DAMAGE(plain_value_is_said_to_be_a_sub_page, PLAIN, "depth 2): node 1: node flags 0x4"),
};

static const struct damage key_damages[] = {
    DAMAGE(keys_are_swapped, PLAIN, "depth 2): node 1: key not above its predecessor"),
    DAMAGE(key_is_there_twice, PLAIN, "depth 2): node 1: key not above its predecessor"),
    DAMAGE(key_is_empty, PLAIN, "depth 2): node 1: key of 0 bytes, allowed are 1 to"),
    DAMAGE(last_key_belongs_to_the_next_leaf, PLAIN, "depth 2): last key not below the separator behind its page"),
    DAMAGE(first_key_belongs_to_the_leaf_before, PLAIN, "depth 2): node 0: key below the separator in front"),
    DAMAGE(reversed_order_does_not_hold, PLAIN, "depth 2): node 1: key not above its predecessor"),
    DAMAGE(integer_keys_are_swapped, "database \"ints\", ", "depth 1): node 4: key not above its predecessor"),
    DAMAGE(integer_key_has_another_width, "database \"ints\", ", "depth 1): node 3: key of 4 bytes, others"),
    DAMAGE(integer_key_has_no_integers_width, "database \"ints\", ", "depth 1): node 3: key of 6 bytes, an integer"),
    DAMAGE(separators_are_swapped, PLAIN, "depth 1): node 2: separator not above its predecessor"),
    DAMAGE(children_are_swapped, PLAIN, "depth 2): last key not below the separator behind its page"),
    DAMAGE(branch_has_one_child, PLAIN, "depth 1): a branch with one child"),
    DAMAGE(child_is_there_twice, PLAIN, "is in use elsewhere"),
    DAMAGE(child_is_its_parent, PLAIN, "depth 1): node 1: child"),
    DAMAGE(child_is_a_meta_page, PLAIN, "depth 1): node 1: child 1 is a meta page"),
    DAMAGE(child_is_beyond_the_last_page, PLAIN, "lies beyond the last page"),
    DAMAGE(child_is_free, PLAIN, "is in the free list"),
    DAMAGE(child_is_lost, NULL, ": neither in use nor free"),
    DAMAGE(tree_is_too_deep, "database \"empty\", ", "depth 33): too deep"),
};

static const struct damage record_damages[] = {
    DAMAGE(depth_is_too_large, PLAIN, "depth 2): a leaf at depth 2 of a tree of depth 3"),
    DAMAGE(depth_is_too_small, PLAIN, "depth 1): a branch at depth 1 of a tree of depth 1"),
    DAMAGE(empty_tree_has_a_depth, "database \"empty\", ", "record): node 2: depth 1 of an empty tree"),
    DAMAGE(branch_page_count_is_wrong, PLAIN, "record): node 5: 7 branch pages recorded, 1 found"),
    DAMAGE(leaf_page_count_is_wrong, "database \"ints\", ", "record): node 4: 7 leaf pages recorded, 1 found"),
    DAMAGE(overflow_page_count_is_wrong, "database \"big\", ", "record): node 0: 3 overflow pages recorded, 4 found"),
    DAMAGE(entry_count_is_wrong, "database \"ints\", ", "record): node 4: 9 entries recorded, 10 found"),
    DAMAGE(entry_count_of_duplicates_is_wrong, DUPS, "record): node 1: 3 entries recorded,"),
    DAMAGE(database_flags_are_unknown, PLAIN, "record): node 5: unknown flags 0x1000"),
    DAMAGE(database_root_is_beyond_the_last_page, PLAIN, "record): node 5: root"),
    DAMAGE(two_databases_have_one_root, PLAIN, "is in use elsewhere"),
    DAMAGE(database_record_is_too_small, "main database, ", "depth 1): node 4: record of 47 bytes"),
    DAMAGE(database_name_has_a_zero_byte, "main database, ", "depth 1): node 5: a zero byte in a database name"),
    DAMAGE(free_list_entry_count_is_wrong, "free list, ", " entries recorded,"),
    DAMAGE(main_database_flags_are_unknown, "main database, ", "record): unknown flags 0x1000"),
};

static const struct damage duplicate_damages[] = {
    DAMAGE(sub_page_lacks_the_dirty_flag, DUPS, "node 2: sub-page has page flags 0x42, 0x52 expected"),
    DAMAGE(sub_page_has_an_odd_size, DUPS, "node 2: sub-page of"),
    DAMAGE(sub_page_is_smaller_than_its_header, DUPS, "node 2: sub-page of 8 bytes"),
    DAMAGE(sub_page_upper_is_beyond_its_end, DUPS, "node 2: lower is 22, upper is"),
    DAMAGE(sub_page_values_are_swapped, DUPS, "node 2, duplicate 2: value not above its predecessor"),
    DAMAGE(sub_page_value_has_node_flags, DUPS, "node 2, duplicate 1: a duplicate with node flags 0x4"),
    DAMAGE(sub_page_value_is_outside, DUPS, "node 2, duplicate 1: at offset"),
    DAMAGE(fixed_sub_page_is_not_fixed, FIXED, "node 2: sub-page has page flags 0x52, 0x72 expected"),
    DAMAGE(fixed_sub_page_has_another_width, FIXED, "node 2: value of 4 bytes, others of the database have 8"),
    DAMAGE(fixed_sub_page_has_too_many_values, FIXED, "node 2: 100 values of 8 bytes do not fit"),
    DAMAGE(fixed_values_are_swapped, FIXED, VALUES "node 1: value not above its predecessor"),
    DAMAGE(fixed_leaf_upper_is_wrong, FIXED, VALUES "upper is"),
    DAMAGE(single_value_has_another_width, FIXED, "node 1: value of 4 bytes, others of the database have 8"),
    DAMAGE(single_value_has_unknown_node_flags, DUPS, "node 1: node flags 0x10 in a DUPSORT database"),
    DAMAGE(values_of_a_tree_are_swapped, DUPS, VALUES "node 1: value not above its predecessor"),
    DAMAGE(value_of_a_tree_has_data, DUPS, VALUES "node 1: a duplicate with node flags 0x0 and 2 bytes of data"),
    DAMAGE(flags_of_a_tree_of_values_are_wrong, FIXED, "record): node 0: flags 0x10, 0x18 expected"),
    DAMAGE(width_of_a_tree_of_values_is_wrong, FIXED, "record): node 0: value of 6 bytes, an integer has 4 or 8"),
    DAMAGE(entry_count_of_a_tree_of_values_is_wrong, DUPS, "record): node 0:"),
    DAMAGE(tree_of_values_is_empty, DUPS, "record): node 0: no values"),
    DAMAGE(record_of_a_tree_of_values_is_too_small, DUPS, "node 0: record of 46 bytes"),
};

static const struct damage overflow_damages[] = {
    DAMAGE(overflow_run_has_leaf_flags, "database \"big\", ", "has page flags 0x2"),
    DAMAGE(overflow_run_has_another_page_number, "database \"big\", ", "says that it is page"),
    DAMAGE(overflow_run_is_too_short, "database \"big\", ", "has 3 pages, the value needs 4"),
    DAMAGE(overflow_run_is_endless, "database \"big\", ", "depth 1): node 0: overflow page"),
    DAMAGE(overflow_run_is_a_page_in_use, "database \"big\", ", "is in use elsewhere"),
};

static const struct damage free_list_damages[] = {
    DAMAGE(free_record_key_is_zero, "free list, ", "node 0: freed by transaction 0, the snapshot's is 4"),
    DAMAGE(free_record_is_of_a_future_transaction, "free list, ", "freed by transaction 5, the snapshot's is 4"),
    DAMAGE(free_record_counts_more_than_it_holds, "free list, ", "node 0: count is"),
    DAMAGE(free_record_has_no_room_for_a_count, "free list, ", "node 0: a record of 4 bytes"),
    DAMAGE(free_record_has_node_flags, "free list, ", "node 0: node flags 0x4"),
    DAMAGE(free_pages_are_not_descending, "free list, ", "not below its predecessor"),
    DAMAGE(free_page_is_a_meta_page, "free list, ", "node 0: page number 1 is not between 2 and"),
    DAMAGE(free_page_is_beyond_the_last_page, "free list, ", "is not between 2 and the last page"),
    DAMAGE(free_page_is_there_twice, "free list, ", "is in the free list twice"),
    DAMAGE(free_page_is_the_free_lists_own, "free list, ", "is in use"),
    DAMAGE(free_page_is_a_databases_root, "database \"ints\", ", "is in the free list"),
    DAMAGE(free_page_is_lost, NULL, ": neither in use nor free"),
};

static const struct damage meta_damages[] = {
    DAMAGE(magic_is_wrong, "meta): ", "magic number 0xbeefc0df"),
    DAMAGE(version_is_wrong, "meta): ", "format version 2"),
    DAMAGE(older_meta_page_is_zero, "meta): ", "magic number 0x0"),
    DAMAGE(meta_flag_is_missing, "meta): ", "page flags 0x0"),
    DAMAGE(meta_page_number_is_wrong, "meta): ", "says that it is page 0"),
    DAMAGE(page_size_is_no_power_of_two, "meta): ", "page size"),
    DAMAGE(page_size_is_another_one, "meta): ", "the other meta page stands where"),
    DAMAGE(last_page_is_beyond_the_map, "meta): ", "in a map of"),
    DAMAGE(last_page_is_a_meta_page, "meta): ", "last page 0"),
    DAMAGE(main_root_is_beyond_the_last_page, "meta): ", "of the main database, the last page is"),
    DAMAGE(free_list_root_is_a_meta_page, "meta): ", "root 1 and depth 1 of the free list"),
    DAMAGE(transaction_is_on_the_wrong_meta_page, "meta): ", "transaction 5 belongs on the other meta page"),
    DAMAGE(environment_flags_are_unknown, "meta): ", "flags 0x108 of the environment and free list"),
};

/* Is there a line `page <pgno> (<database><...><message>...`? */
static int line_found(const char *printed, pgno_t pgno, const char *database, const char *message)
{
    char prefix[128];
    const char *line, *end;
    size_t size;

    if (database != NULL)
        size = (size_t)snprintf(prefix, sizeof(prefix), "page %zu (%s", (size_t)pgno, database);
    else
        size = (size_t)snprintf(prefix, sizeof(prefix), "page %zu:", (size_t)pgno) - 1;
    for (line = printed; *line != '\0'; line = end + 1) {
        const char *text;

        end = strchr(line, '\n');
        CHECK(end != NULL);
        if (strncmp(line, prefix, size) != 0)
            continue;
        text = strstr(line + size, message);
        if (text != NULL && text < end)
            return 1;
    }
    return 0;
}

static void damages_try(const struct damage *damages, size_t count)
{
    char *directory = temp_dir_make(), *path = path_join(directory, "damaged"), *printed;
    size_t i;

    sample_make(directory);
    for (i = 0; i < count; i++) {
        const struct damage *damage = &damages[i];
        struct image image = image_read(directory);
        pgno_t pgno = damage->apply(&image);
        int status;

        file_write(path, image.bytes, image.size);
        status = tool_run(directory, &printed, path, "-nL", "-a1000000");
        if (status != 1 || !line_found(printed, pgno, damage->database, damage->message))
            test_fail(__FILE__, __LINE__, "%s: exit status %d; page %zu (%s...%s expected in:\n%s", damage->name,
                      status, (size_t)pgno, damage->database != NULL ? damage->database : "", damage->message,
                      printed);
        free(printed);
        free(image.bytes);
    }
    free(path);
    temp_dir_remove(directory);
}

TEST(damaged_pages_and_nodes_are_reported)
{
    damages_try(page_damages, TEST_COUNT(page_damages));
}

TEST(damaged_keys_and_branches_are_reported)
{
    damages_try(key_damages, TEST_COUNT(key_damages));
}

TEST(damaged_database_records_are_reported)
{
    damages_try(record_damages, TEST_COUNT(record_damages));
}

TEST(damaged_duplicates_are_reported)
{
    damages_try(duplicate_damages, TEST_COUNT(duplicate_damages));
}

TEST(damaged_overflow_runs_are_reported)
{
    damages_try(overflow_damages, TEST_COUNT(overflow_damages));
}

TEST(damaged_free_list_is_reported)
{
    damages_try(free_list_damages, TEST_COUNT(free_list_damages));
}

TEST(damaged_meta_pages_are_reported)
{
    damages_try(meta_damages, TEST_COUNT(meta_damages));
}

/* ==== Sound environments ================================================= */

TEST(sample_is_sound)
{
    char *directory = temp_dir_make();

    sample_make(directory);
    tool_expect(directory, directory, NULL, NULL, 0, " free, 0 faults\n");
    tool_expect(directory, directory, "-L", NULL, 0, " free, 0 faults\n");
    tool_expect(directory, directory, "-v", NULL, 0, " free, 0 faults\n");
    temp_dir_remove(directory);
}

TEST(new_environment_is_sound_and_has_no_previous_snapshot)
{
    char *directory = temp_dir_make();

    mdb_env_close(env_open_new(directory, 0, map_size, 0));
    tool_expect(directory, directory, NULL, NULL, 0, "2 pages: 2 in use, 0 free, 0 faults\n");
    tool_expect(directory, directory, "-v", NULL, 1, "no previous snapshot");
    temp_dir_remove(directory);
}

TEST(environment_without_directory_is_checked_and_no_lock_file_made)
{
    char *directory = temp_dir_make(), *path = path_join(directory, "file"), *lock = path_join(directory, "file-lock");

    mdb_env_close(env_open_new(path, MDB_NOSUBDIR, map_size, 0));
    tool_expect(directory, path, "-n", NULL, 0, "0 faults\n");
    CHECK_EQ(unlink(lock), 0);
    tool_expect(directory, path, "-n", NULL, 0, "0 faults\n");
    CHECK(access(lock, F_OK) != 0);
    free(path);
    free(lock);
    temp_dir_remove(directory);
}

static int line_count(const char *line, void *context)
{
    int *count = context;

    (void)line;
    ++*count;
    return 0;
}

/* The number of slots in use only grows, so it tells whether there were two readers at a time. */
static void readers_expect(MDB_env *env, unsigned slots, int listed)
{
    MDB_envinfo info;
    int lines = 0;

    CHECK_OK(mdb_env_info(env, &info));
    CHECK_EQ(info.me_numreaders, slots);
    CHECK(mdb_reader_list(env, line_count, &lines) >= 0);
    CHECK_EQ(lines, listed + 1); /* and a headline */
}

TEST(reader_slot_is_taken_and_given_back)
{
    char *directory = temp_dir_make();
    MDB_env *env;
    MDB_txn *reader, *writer;

    sample_make(directory);
    env = env_open_again(directory, MDB_NOTLS, map_size, DATABASES);
    CHECK_OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &reader));
    CHECK_OK(mdb_txn_begin(env, NULL, 0, &writer));
    plain_put(writer, database_make(writer, "plain", 0), 0);
    tool_expect(directory, directory, "-L", NULL, 0, "0 faults\n");
    readers_expect(env, 1, 1);
    tool_expect(directory, directory, NULL, NULL, 0, "0 faults\n");
    readers_expect(env, 2, 1);
    tool_expect(directory, directory, "-v", NULL, 0, "0 faults\n");
    readers_expect(env, 2, 1);
    mdb_txn_abort(writer);
    mdb_txn_abort(reader);
    mdb_env_close(env);
    temp_dir_remove(directory);
}

TEST(full_reader_table_is_an_error_but_not_without_a_slot)
{
    char *directory = temp_dir_make();
    MDB_txn *reader;
    MDB_env *env;

    CHECK_OK(mdb_env_create(&env));
    CHECK_OK(mdb_env_set_maxreaders(env, 1));
    CHECK_OK(mdb_env_open(env, directory, 0, 0664));
    CHECK_OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &reader));
    tool_expect(directory, directory, NULL, NULL, 1, "-L checks without a reader slot");
    tool_expect(directory, directory, "-L", NULL, 0, "0 faults\n");
    mdb_txn_abort(reader);
    mdb_env_close(env);
    temp_dir_remove(directory);
}

TEST(environment_that_the_library_cannot_open_is_checked)
{
    char *directory = temp_dir_make(), *lock = path_join(directory, "lock.mdb");

    sample_make(directory);
    CHECK_EQ(unlink(lock), 0);
    CHECK_EQ(mkdir(lock, 0700), 0);
    tool_expect(directory, directory, NULL, NULL, 0, "no reader slot");
    tool_expect(directory, directory, NULL, NULL, 0, " free, 0 faults\n");
    free(lock);
    temp_dir_remove(directory);
}

TEST(damage_of_an_open_environment_is_reported)
{
    char *directory = temp_dir_make(), *path = path_join(directory, "data.mdb");
    struct image image;
    MDB_env *env;
    int file;

    sample_make(directory);
    env = env_open_again(directory, 0, map_size, DATABASES);
    image = image_read(directory);
    magic_is_wrong(&image);
    file = open(path, O_WRONLY);
    CHECK(file >= 0);
    CHECK_EQ(pwrite(file, image.bytes, image.size, 0), image.size);
    close(file);
    tool_expect(directory, directory, NULL, NULL, 1, "(meta): magic number 0xbeefc0df");
    mdb_env_close(env);
    free(image.bytes);
    free(path);
    temp_dir_remove(directory);
}

/* ==== Options and errors ================================================= */

static int compare_backwards(const MDB_val *left, const MDB_val *right)
{
    return memcmp(right->mv_data, left->mv_data, left->mv_size);
}

TEST(custom_order_is_a_fault_unless_order_is_not_checked)
{
    char *directory = temp_dir_make();
    MDB_env *env = env_open_new(directory, 0, map_size, DATABASES);
    MDB_txn *txn;
    MDB_dbi dbi;
    unsigned i;

    CHECK_OK(mdb_txn_begin(env, NULL, 0, &txn));
    dbi = database_make(txn, "backwards", 0);
    CHECK_OK(mdb_set_compare(txn, dbi, compare_backwards));
    for (i = 0; i < 2000; i++)
        plain_put(txn, dbi, i);
    CHECK_OK(mdb_txn_commit(txn));
    mdb_env_close(env);
    tool_expect(directory, directory, NULL, NULL, 1, "key not above its predecessor");
    tool_expect(directory, directory, "-c", NULL, 0, " 0 faults\n");
    temp_dir_remove(directory);
}

TEST(previous_snapshot_is_another_one)
{
    char *directory = temp_dir_make(), *path = path_join(directory, "data.mdb");
    struct image image;

    sample_make(directory);
    image = image_read(directory);
    plain_root(&image)->flags = 0;
    file_write(path, image.bytes, image.size);
    tool_expect(directory, directory, "-L", NULL, 1, "page flags 0x0");
    tool_expect(directory, directory, "-vL", NULL, 0, " 0 faults\n");
    memset(image_page(&image, image.newest), 0, image.page_size);
    file_write(path, image.bytes, image.size);
    tool_expect(directory, directory, "-vL", NULL, 1, "no previous snapshot");
    free(image.bytes);
    free(path);
    temp_dir_remove(directory);
}

TEST(quiet_run_prints_nothing)
{
    char *directory = temp_dir_make(), *path = path_join(directory, "damaged"), *printed;
    struct image image;

    sample_make(directory);
    CHECK_EQ(tool_run(directory, &printed, directory, "-q", NULL), 0);
    CHECK_TEXT(printed, "");
    free(printed);
    image = image_read(directory);
    keys_are_swapped(&image);
    file_write(path, image.bytes, image.size);
    CHECK_EQ(tool_run(directory, &printed, path, "-nLq", NULL), 1);
    CHECK_TEXT(printed, "");
    free(printed);
    free(image.bytes);
    free(path);
    temp_dir_remove(directory);
}

static unsigned lines_with(const char *text, const char *part)
{
    unsigned count = 0;

    while ((text = strstr(text, part)) != NULL) {
        count++;
        text += strlen(part);
    }
    return count;
}

TEST(faults_are_counted_beyond_those_printed)
{
    char *directory = temp_dir_make(), *path = path_join(directory, "damaged"), *printed;
    struct image image;
    unsigned i;

    sample_make(directory);
    image = image_read(directory);
    for (i = 0; i < 3; i++)
        slots_swap(database_root(&image, "ints"), 3 * i, 3 * i + 1);
    file_write(path, image.bytes, image.size);
    CHECK_EQ(tool_run(directory, &printed, path, "-nL", "-a2"), 1);
    CHECK_EQ(lines_with(printed, "key not above its predecessor\n"), 2);
    CHECK_EQ(lines_with(printed, "\n1 more faults\n"), 1);
    CHECK_EQ(lines_with(printed, " free, 3 faults\n"), 1);
    free(printed);
    free(image.bytes);
    free(path);
    temp_dir_remove(directory);
}

TEST(truncated_file_is_reported)
{
    char *directory = temp_dir_make(), *path = path_join(directory, "damaged");
    struct image image;
    size_t half;

    sample_make(directory);
    image = image_read(directory);
    half = (image.meta->last_pgno + 1) / 2 * image.page_size;
    file_write(path, image.bytes, half);
    tool_expect(directory, path, "-nL", NULL, 1, "lies beyond the end of the file");
    file_write(path, image.bytes, image.page_size);
    tool_expect(directory, path, "-nL", NULL, 1, "page 1 (meta): cannot be read");
    file_write(path, image.bytes, 100);
    tool_expect(directory, path, "-nL", NULL, 1, "no valid meta page");
    file_write(path, image.bytes, 0);
    tool_expect(directory, path, "-nL", NULL, 1, "no valid meta page");
    free(image.bytes);
    free(path);
    temp_dir_remove(directory);
}

static int pgno_compare_descending(const void *left, const void *right)
{
    pgno_t left_pgno = *(const pgno_t *)left, right_pgno = *(const pgno_t *)right;

    return left_pgno > right_pgno ? -1 : left_pgno < right_pgno;
}

/* Makes one record of the free list, that of transaction 1, with two pages more than all records had before. */
static void free_list_rewrite(struct image *image, pgno_t more, pgno_t even_more)
{
    struct page *leaf = free_leaf(image);
    pgno_t numbers[64] = { 0, more, even_more }; /* the count, then the pages */
    txnid_t txnid = 1;
    struct node *node;
    size_t size;
    unsigned i, j;

    numbers[0] = 2;
    for (i = 0; i < page_count(leaf); i++) {
        for (j = 1; j <= free_number(image, i, 0); j++) {
            CHECK(numbers[0] + 1 < TEST_COUNT(numbers));
            numbers[++numbers[0]] = free_number(image, i, j);
        }
    }
    qsort(numbers + 1, numbers[0], sizeof(numbers[0]), pgno_compare_descending);
    size = (numbers[0] + 1) * sizeof(numbers[0]);
    CHECK(NODE_HEADER + sizeof(txnid) + size <= node_size_max(image->page_size));
    leaf->lower = PAGE_HEADER + SLOT_SIZE;
    leaf->upper = (uint16_t)(image->page_size - NODE_HEADER - sizeof(txnid) - size);
    leaf->offsets[0] = leaf->upper;
    node = page_node(leaf, 0);
    node->flags = 0;
    node->ksize = sizeof(txnid);
    node_set_data_size(node, size);
    memcpy(node->bytes, &txnid, sizeof(txnid));
    memcpy(node_data(node), numbers, size);
    image->meta->dbs[FREE_DBI].entries = 1;
}

/* Free pages at the end need never have been written, but are counted like any other. */
TEST(file_may_lack_free_pages_at_its_end)
{
    static const struct {
        unsigned more, even_more, last; /* two free pages and the last one, counted from the end of the file */
        int status;
        const char *text;
    } rows[] = {
        { 1, 2, 2, 0, " free, 0 faults\n" },
        { 1, 1, 2, 1, ": in the free list twice\n" },
        { 2, 2, 2, 1, ": neither in use nor free\n" },
        { 1, 2, 4, 1, " free, 1 faults\n" },
    };
    char *directory = temp_dir_make(), *path = path_join(directory, "damaged");
    size_t i;

    sample_make(directory);
    for (i = 0; i < TEST_COUNT(rows); i++) {
        struct image image = image_read(directory);
        pgno_t last = image.meta->last_pgno;

        free_list_rewrite(&image, last + rows[i].more, last + rows[i].even_more);
        image.meta->last_pgno = last + rows[i].last;
        file_write(path, image.bytes, (last + 1) * image.page_size);
        tool_expect(directory, path, "-nL", NULL, rows[i].status, rows[i].text);
        free(image.bytes);
    }
    free(path);
    temp_dir_remove(directory);
}

TEST(wrong_arguments_and_missing_files_are_errors)
{
    char *directory = temp_dir_make(), *missing = path_join(directory, "missing");

    tool_expect(directory, missing, NULL, NULL, 1, "No such file or directory");
    tool_expect(directory, missing, "-n", NULL, 1, "No such file or directory");
    tool_expect(directory, directory, "-n", NULL, 1, "not a regular file");
    tool_expect(directory, NULL, NULL, NULL, 1, "usage: ");
    tool_expect(directory, directory, "-x", NULL, 1, "usage: ");
    tool_expect(directory, directory, "-a", "many", 1, "usage: ");
    tool_expect(directory, directory, directory, NULL, 1, "usage: ");
    tool_expect(directory, NULL, "-V", NULL, 0, mdb_version(NULL, NULL, NULL));
    free(missing);
    temp_dir_remove(directory);
}

/* ==== Any bytes ========================================================== */

static void random_damage(struct random *random, const struct image *image)
{
    unsigned changes = random_one_in(random, 2) ? 1 : 1 + (unsigned)random_below(random, 30), i;
    size_t pages = image->size / image->page_size;

    for (i = 0; i < changes; i++) {
        unsigned char *bytes = page_bytes(image_page(image, random_below(random, pages)));
        /* Most at the beginning of pages, where headers and slots are. */
        size_t end = random_one_in(random, 2) ? 64 : image->page_size;

        if (random_one_in(random, 10))
            memcpy(bytes, image_page(image, random_below(random, pages)), image->page_size);
        else if (random_one_in(random, 2))
            bytes[random_below(random, end)] ^= (unsigned char)(1u << random_below(random, 8));
        else
            random_fill(random, bytes + random_below(random, end - 8), 1 + random_below(random, 8));
    }
}

TEST(any_bytes_are_judged_without_a_crash)
{
    char *directory = temp_dir_make(), *path = path_join(directory, "damaged"), *printed;
    struct random random = { test_seed() };
    unsigned i;

    sample_make(directory);
    for (i = 0; i < RANDOM_DAMAGES * test_scale(); i++) {
        struct image image = image_read(directory);
        int status;

        random_damage(&random, &image);
        file_write(path, image.bytes, random_one_in(&random, 8) ? random_below(&random, image.size) : image.size);
        status = tool_run(directory, &printed, path, "-nL", random_one_in(&random, 4) ? "-c" : NULL);
        if (status != (strstr(printed, " free, 0 faults\n") != NULL ? 0 : 1)
            || (strstr(printed, " faults\n") == NULL && strstr(printed, "no valid meta page") == NULL))
            test_fail(__FILE__, __LINE__, "damage %u: exit status %d, and:\n%s", i, status, printed);
        free(printed);
        free(image.bytes);
    }
    free(path);
    temp_dir_remove(directory);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(sample_is_sound),
        TEST_ENTRY(new_environment_is_sound_and_has_no_previous_snapshot),
        TEST_ENTRY(environment_without_directory_is_checked_and_no_lock_file_made),
        TEST_ENTRY(reader_slot_is_taken_and_given_back),
        TEST_ENTRY(full_reader_table_is_an_error_but_not_without_a_slot),
        TEST_ENTRY(environment_that_the_library_cannot_open_is_checked),
        TEST_ENTRY(damage_of_an_open_environment_is_reported),
        TEST_ENTRY(damaged_pages_and_nodes_are_reported),
        TEST_ENTRY(damaged_keys_and_branches_are_reported),
        TEST_ENTRY(damaged_database_records_are_reported),
        TEST_ENTRY(damaged_duplicates_are_reported),
        TEST_ENTRY(damaged_overflow_runs_are_reported),
        TEST_ENTRY(damaged_free_list_is_reported),
        TEST_ENTRY(damaged_meta_pages_are_reported),
        TEST_ENTRY(custom_order_is_a_fault_unless_order_is_not_checked),
        TEST_ENTRY(previous_snapshot_is_another_one),
        TEST_ENTRY(quiet_run_prints_nothing),
        TEST_ENTRY(faults_are_counted_beyond_those_printed),
        TEST_ENTRY(truncated_file_is_reported),
        TEST_ENTRY(file_may_lack_free_pages_at_its_end),
        TEST_ENTRY(wrong_arguments_and_missing_files_are_errors),
        TEST_ENTRY(any_bytes_are_judged_without_a_crash),
    };
    return test_main(argc, argv, tests, TEST_COUNT(tests));
}
