/* The data file, byte by byte: what is written stands where it should, files made by hand are read, and files that lie
 * are refused or answered with an error, never with a signal.
 *
 * This program reads and writes the bytes by offsets of its own, not through mdb_format.h: a mistake there shows here.
 *
 *     page       0 pgno u64, 8 pad u16, 10 flags u16, 12 lower u16, 14 upper u16 (overflow: 12 pages u32), 16 ...
 *     node       0 lo u16, 2 hi u16, 4 flags u16, 6 key size u16, 8 key, data
 *     record     0 pad u32, 4 flags u16, 6 depth u16, 8 branch, 16 leaf, 24 overflow, 32 entries, 40 root
 *     meta page  16 magic u32, 20 version u32, 24 address, 32 map size, 40 free list, 88 main, 136 last page,
 *                144 transaction id */
#include "mtest_common.h"

enum {
    BRANCH = 1, LEAF = 2, OVERFLOW = 4, META = 8, DIRTY = 0x10, LEAF2 = 0x20, SUBP = 0x40, LOOSE = 0x4000,
    KEEP = 0x8000,
    BIGDATA = 1, SUBDATA = 2, DUPDATA = 4,
    AT_FLAGS = 10, AT_LOWER = 12, AT_UPPER = 14, AT_BODY = 16,
    RECORD_SIZE = 48, RECORD_FLAGS = 4, RECORD_DEPTH = 6, RECORD_BRANCH = 8, RECORD_LEAF = 16, RECORD_OVERFLOW = 24,
    RECORD_ENTRIES = 32, RECORD_ROOT = 40,
    META_MAGIC = 16, META_VERSION = 20, META_MAPSIZE = 32, META_FREE = 40, META_MAIN = 88, META_LAST = 136,
    META_TXNID = 144
};

#define NO_PAGE UINT64_MAX

static unsigned get16(const unsigned char *at)
{
    uint16_t number;

    memcpy(&number, at, sizeof(number));
    return number;
}

static uint32_t get32(const unsigned char *at)
{
    uint32_t number;

    memcpy(&number, at, sizeof(number));
    return number;
}

static uint64_t get64(const unsigned char *at)
{
    uint64_t number;

    memcpy(&number, at, sizeof(number));
    return number;
}

static void set16(unsigned char *at, unsigned number)
{
    uint16_t bytes = (uint16_t)number;

    memcpy(at, &bytes, sizeof(bytes));
}

static void set32(unsigned char *at, uint32_t number)
{
    memcpy(at, &number, sizeof(number));
}

static void set64(unsigned char *at, uint64_t number)
{
    memcpy(at, &number, sizeof(number));
}

/* ==== Reading a file =====================================================
 * Walks all trees and checks every fact about every page on the way. */

struct raw {
    struct bytes file;
    size_t page_size;
    unsigned char *meta;        /* the newest */
    unsigned char *used;        /* by page: how often it was met, free or in use */
};

struct raw_counts {
    uint64_t branch, leaf, overflow, entries;
};

static unsigned char *raw_page(const struct raw *raw, uint64_t pgno)
{
    CHECK((pgno + 1) * raw->page_size <= raw->file.size);
    return raw->file.start + pgno * raw->page_size;
}

static struct raw raw_open(const char *dir)
{
    struct raw raw = { .file = file_read(path_in(dir, "data.mdb")) };
    const unsigned char *second;

    raw.page_size = get32(raw.file.start + META_FREE);
    CHECK(raw.page_size >= 512 && raw.page_size <= 32768 && raw.file.size >= 2 * raw.page_size);
    second = raw.file.start + raw.page_size;
    raw.meta = raw.file.start + (get64(second + META_TXNID) > get64(raw.file.start + META_TXNID) ? raw.page_size : 0);
    raw.used = calloc(1, get64(raw.meta + META_LAST) + 1);
    CHECK(raw.used != NULL);
    raw.used[0] = raw.used[1] = 1;
    return raw;
}

static void raw_close(struct raw *raw)
{
    free(raw->used);
    bytes_free(&raw->file);
}

static void raw_use(struct raw *raw, uint64_t pgno)
{
    test_note("page %llu", (unsigned long long)pgno);
    CHECK(pgno >= 2 && pgno <= get64(raw->meta + META_LAST));
    CHECK_EQ(raw->used[pgno], 0);
    raw->used[pgno] = 1;
}

static unsigned raw_count(const unsigned char *page)
{
    return (get16(page + AT_LOWER) - AT_BODY) / 2;
}

static unsigned char *raw_node(unsigned char *page, unsigned index)
{
    return page + get16(page + AT_BODY + 2 * index);
}

static size_t raw_data_size(const unsigned char *node)
{
    return get16(node) | (size_t)get16(node + 2) << 16;
}

static uint64_t raw_child(const unsigned char *node)
{
    return get16(node) | (uint64_t)get16(node + 2) << 16 | (uint64_t)get16(node + 4) << 32;
}

static unsigned char *raw_data(unsigned char *node)
{
    return node + 8 + get16(node + 6);
}

/* The bytes that a node takes: an even number. */
static size_t raw_node_size(const unsigned char *node, int is_branch)
{
    size_t size = 8 + get16(node + 6);

    if (!is_branch)
        size += get16(node + 4) & BIGDATA ? 8 : raw_data_size(node);
    return (size + 1) & ~(size_t)1;
}

/* Slots and nodes of a page or sub-page of `size` bytes: even offsets, no holes, the heap ends at the end. */
static void raw_check_heap(unsigned char *page, size_t size)
{
    unsigned lower = get16(page + AT_LOWER), upper = get16(page + AT_UPPER), i;
    size_t sum = 0;

    CHECK(lower % 2 == 0 && lower > AT_BODY && lower <= upper && upper <= size && upper % 2 == 0);
    for (i = 0; i < raw_count(page); i++) {
        unsigned offset = get16(page + AT_BODY + 2 * i);

        CHECK(offset % 2 == 0 && offset >= upper);
        CHECK(offset + raw_node_size(page + offset, get16(page + AT_FLAGS) & BRANCH) <= size);
        sum += raw_node_size(page + offset, get16(page + AT_FLAGS) & BRANCH);
    }
    CHECK_EQ(upper + sum, size);
}

/* A leaf of keys of one width, back to back. */
static void raw_check_fixed(const unsigned char *page, size_t size, unsigned width)
{
    unsigned count = raw_count(page);
    size_t used = AT_BODY + (size_t)count * width;

    CHECK_EQ(get16(page + 8), width);
    CHECK(used <= size);
    CHECK_EQ((uint16_t)(get16(page + AT_UPPER) - get16(page + AT_LOWER)), (uint16_t)(size - used));
}

static void raw_walk_tree(struct raw *raw, const unsigned char *record, unsigned db_flags, struct raw_counts *counts);

/* Duplicates inside a node; gives how many. */
static uint64_t raw_check_sub_page(unsigned char *sub_page, size_t size, unsigned db_flags)
{
    unsigned flags = get16(sub_page + AT_FLAGS);

    CHECK_EQ(flags, db_flags & MDB_DUPFIXED ? LEAF | DIRTY | SUBP | LEAF2 : LEAF | DIRTY | SUBP);
    CHECK_EQ(size % 2, 0);
    if (flags & LEAF2)
        raw_check_fixed(sub_page, size, get16(sub_page + 8));
    else
        raw_check_heap(sub_page, size);
    return raw_count(sub_page);
}

/* A node of a leaf; gives how many records it stands for. */
static uint64_t raw_check_node(struct raw *raw, unsigned char *node, unsigned db_flags, struct raw_counts *counts)
{
    unsigned flags = get16(node + 4);
    struct raw_counts inner = { 0, 0, 0, 0 };
    const unsigned char *run;
    uint64_t pgno, pages, i;

    CHECK(8 + get16(node + 6) + (flags & BIGDATA ? 8 : raw_data_size(node)) <= node_max((unsigned)raw->page_size));
    switch (flags) {
    case 0:
        return 1;
    case BIGDATA:
        CHECK_EQ(db_flags & MDB_DUPSORT, 0);
        pgno = get64(raw_data(node));
        run = raw_page(raw, pgno);
        pages = get32(run + 12);
        CHECK_EQ(get64(run), pgno);
        CHECK_EQ(get16(run + AT_FLAGS), OVERFLOW);
        CHECK(pages * raw->page_size >= 16 + raw_data_size(node));
        CHECK(8 + get16(node + 6) + raw_data_size(node) > node_max((unsigned)raw->page_size));
        for (i = 0; i < pages; i++)
            raw_use(raw, pgno + i);
        counts->overflow += pages;
        return 1;
    case SUBDATA:
        CHECK_EQ(raw_data_size(node), RECORD_SIZE);
        return 1;
    case DUPDATA:
        CHECK(db_flags & MDB_DUPSORT);
        return raw_check_sub_page(raw_data(node), raw_data_size(node), db_flags);
    default:
        CHECK_EQ(flags, SUBDATA | DUPDATA);
        CHECK(db_flags & MDB_DUPSORT);
        CHECK_EQ(raw_data_size(node), RECORD_SIZE);
        CHECK_EQ(get16(raw_data(node) + RECORD_FLAGS), (db_flags & MDB_DUPFIXED)
                 | ((db_flags & MDB_DUPFIXED) && (db_flags & MDB_INTEGERDUP) ? MDB_INTEGERKEY : 0));
        raw_walk_tree(raw, raw_data(node), get16(raw_data(node) + RECORD_FLAGS), &inner);
        return inner.entries;
    }
}

static void raw_walk_page(struct raw *raw, uint64_t pgno, unsigned depth, unsigned db_flags,
                          const unsigned char *record, struct raw_counts *counts)
{
    unsigned char *page = raw_page(raw, pgno);
    unsigned flags = get16(page + AT_FLAGS), i;

    raw_use(raw, pgno);
    CHECK_EQ(get64(page), pgno);
    if (depth > 1) {
        CHECK_EQ(flags, BRANCH);
        raw_check_heap(page, raw->page_size);
        CHECK(raw_count(page) >= 2);
        CHECK_EQ(get16(raw_node(page, 0) + 6), 0);
        counts->branch++;
        for (i = 0; i < raw_count(page); i++)
            raw_walk_page(raw, raw_child(raw_node(page, i)), depth - 1, db_flags, record, counts);
        return;
    }
    counts->leaf++;
    if (flags & LEAF2) {
        CHECK_EQ(flags, LEAF | LEAF2);
        CHECK(raw_count(page) >= 1);
        raw_check_fixed(page, raw->page_size, get32(record));
        counts->entries += raw_count(page);
        return;
    }
    CHECK_EQ(flags, LEAF);
    raw_check_heap(page, raw->page_size);
    for (i = 0; i < raw_count(page); i++)
        counts->entries += raw_check_node(raw, raw_node(page, i), db_flags, counts);
}

/* A tree; adds what it has to the counts, and checks those of its record. */
static void raw_walk_tree(struct raw *raw, const unsigned char *record, unsigned db_flags, struct raw_counts *counts)
{
    struct raw_counts mine = { 0, 0, 0, 0 };

    if (get64(record + RECORD_ROOT) == NO_PAGE)
        CHECK_EQ(get16(record + RECORD_DEPTH), 0);
    else
        raw_walk_page(raw, get64(record + RECORD_ROOT), get16(record + RECORD_DEPTH), db_flags, record, &mine);
    CHECK_EQ(get64(record + RECORD_BRANCH), mine.branch);
    CHECK_EQ(get64(record + RECORD_LEAF), mine.leaf);
    CHECK_EQ(get64(record + RECORD_OVERFLOW), mine.overflow);
    CHECK_EQ(get64(record + RECORD_ENTRIES), mine.entries);
    counts->entries += mine.entries;
}

/* The first leaf page, or with it all leaves through `visit`, of a tree. */
typedef void leaf_visit(struct raw *raw, unsigned char *page, void *context);

static void raw_visit_leaves(struct raw *raw, uint64_t pgno, unsigned depth, leaf_visit *visit, void *context)
{
    unsigned char *page = raw_page(raw, pgno);
    unsigned i;

    if (depth == 1) {
        visit(raw, page, context);
        return;
    }
    for (i = 0; i < raw_count(page); i++)
        raw_visit_leaves(raw, raw_child(raw_node(page, i)), depth - 1, visit, context);
}

static void raw_visit(struct raw *raw, const unsigned char *record, leaf_visit *visit, void *context)
{
    if (get64(record + RECORD_ROOT) != NO_PAGE)
        raw_visit_leaves(raw, get64(record + RECORD_ROOT), get16(record + RECORD_DEPTH), visit, context);
}

/* Records of the free list: a transaction id, a count and as many page numbers, descending. */
static void free_leaf_check(struct raw *raw, unsigned char *page, void *context)
{
    uint64_t *last_id = context, txnid = get64(raw->meta + META_TXNID);
    unsigned i;

    for (i = 0; i < raw_count(page); i++) {
        unsigned char *node = raw_node(page, i), *data = raw_data(node);
        uint64_t id, count, previous = NO_PAGE, k;

        CHECK_EQ(get16(node + 6), 8);
        id = get64(node + 8);
        CHECK(id > *last_id && id >= 1 && id <= txnid);
        *last_id = id;
        if (get16(node + 4) & BIGDATA)
            data = raw_page(raw, get64(data)) + AT_BODY;
        count = get64(data);
        CHECK(raw_data_size(node) >= 8 * (count + 1));
        for (k = 1; k <= count; k++) {
            uint64_t pgno = get64(data + 8 * k);

            CHECK(pgno < previous);
            previous = pgno;
            raw_use(raw, pgno);
        }
    }
}

/* Named databases: their trees. */
static void main_leaf_check(struct raw *raw, unsigned char *page, void *context)
{
    struct raw_counts counts = { 0, 0, 0, 0 };
    unsigned i;

    (void)context;
    for (i = 0; i < raw_count(page); i++) {
        unsigned char *node = raw_node(page, i);

        if (get16(node + 4) == SUBDATA)
            raw_walk_tree(raw, raw_data(node), get16(raw_data(node) + RECORD_FLAGS), &counts);
    }
}

/* Every fact about a file: metas, trees, the free list, and that each page is in use or free, once. */
static void raw_check_file(const char *dir)
{
    struct raw raw = raw_open(dir);
    struct raw_counts counts = { 0, 0, 0, 0 };
    uint64_t last_id = 0, pgno, txnid = get64(raw.meta + META_TXNID);
    unsigned i;

    for (i = 0; i < 2; i++) {
        const unsigned char *page = raw_page(&raw, i);

        CHECK_EQ(get64(page), i);
        CHECK_EQ(get16(page + AT_FLAGS), META);
        CHECK_EQ(get32(page + META_MAGIC), 0xBEEFC0DE);
        CHECK_EQ(get32(page + META_VERSION), 1);
        CHECK_EQ(get32(page + META_FREE), raw.page_size);
        CHECK(get16(page + META_FREE + RECORD_FLAGS) & MDB_INTEGERKEY);
        CHECK(txnid == 0 || get64(page + META_TXNID) == ((txnid & 1) == i ? txnid : txnid - 1));
    }
    raw_walk_tree(&raw, raw.meta + META_FREE, get16(raw.meta + META_FREE + RECORD_FLAGS), &counts);
    raw_walk_tree(&raw, raw.meta + META_MAIN, get16(raw.meta + META_MAIN + RECORD_FLAGS), &counts);
    raw_visit(&raw, raw.meta + META_MAIN, main_leaf_check, NULL);
    raw_visit(&raw, raw.meta + META_FREE, free_leaf_check, &last_id);
    for (pgno = 0; pgno <= get64(raw.meta + META_LAST); pgno++) {
        test_note("page %llu", (unsigned long long)pgno);
        CHECK_EQ(raw.used[pgno], 1);
    }
    test_state.note[0] = '\0';
    raw_close(&raw);
}

/* ==== What is written ==================================================== */

TEST(new_file_has_two_empty_metas)
{
    char *dir = temp_dir_make();
    MDB_env *env = env_open_new(dir, 0, (size_t)16 << 20, 0);
    struct bytes file;
    unsigned i;

    mdb_env_close(env);
    file = file_read(path_in(dir, "data.mdb"));
    CHECK_EQ(file.size, 2 * test_page_size());
    for (i = 0; i < 2; i++) {
        const unsigned char *page = file.start + i * test_page_size();

        CHECK_EQ(get64(page), i);
        CHECK_EQ(get16(page + AT_FLAGS), META);
        CHECK_EQ(get32(page + META_MAGIC), 0xBEEFC0DE);
        CHECK_EQ(get32(page + META_VERSION), 1);
        CHECK_EQ(get64(page + 24), 0);
        CHECK_EQ(get64(page + META_MAPSIZE), 16 << 20);
        CHECK_EQ(get32(page + META_FREE), test_page_size());
        CHECK_EQ(get16(page + META_FREE + RECORD_FLAGS), MDB_INTEGERKEY);
        CHECK_EQ(get16(page + META_MAIN + RECORD_FLAGS), 0);
        CHECK_EQ(get64(page + META_FREE + RECORD_ROOT), NO_PAGE);
        CHECK_EQ(get64(page + META_MAIN + RECORD_ROOT), NO_PAGE);
        CHECK_EQ(get64(page + META_FREE + RECORD_ENTRIES) + get64(page + META_MAIN + RECORD_ENTRIES), 0);
        CHECK_EQ(get64(page + META_LAST), 1);
        CHECK_EQ(get64(page + META_TXNID), 0);
    }
    bytes_free(&file);
    temp_dir_remove(dir);
}

TEST(each_commit_writes_the_meta_of_its_number)
{
    static const unsigned env_flags[] = { 0, MDB_WRITEMAP, MDB_NOSYNC, MDB_NOMETASYNC };
    size_t kind;
    uint64_t id;

    for (kind = 0; kind < ARRAY_COUNT(env_flags); kind++) {
        char *dir = temp_dir_make();
        MDB_env *env = env_open_new(dir, env_flags[kind], SCENE_MAP_SIZE, 0);

        for (id = 1; id <= 12; id++) {
            MDB_txn *txn = begin_write(env);
            struct bytes file;

            CHECK_OK(put_text(txn, dbi_of(txn, NULL, 0), numeral_of((unsigned)id).text, "", 0));
            CHECK_OK(mdb_txn_commit(txn));
            file = file_read(path_in(dir, "data.mdb"));
            CHECK_EQ(get64(file.start + (id & 1) * test_page_size() + META_TXNID), id);
            CHECK_EQ(get64(file.start + !(id & 1) * test_page_size() + META_TXNID), id - 1);
            bytes_free(&file);
            raw_check_file(dir);
        }
        mdb_env_close(env);
        temp_dir_remove(dir);
    }
}

TEST(persistent_flags_and_map_sizes_stand_in_the_meta)
{
    char *dir = temp_dir_make();
    char path[4096];
    MDB_env *env;
    MDB_txn *txn;
    struct bytes file;

    snprintf(path, sizeof(path), "%s/data.mdb", dir);
    env = env_open_new(path, MDB_NOSUBDIR | MDB_NOSYNC | MDB_NOTLS, SCENE_MAP_SIZE, 0);
    CHECK_OK(mdb_env_set_mapsize(env, 2 * SCENE_MAP_SIZE));
    txn = begin_write(env);
    put_numbers(txn, dbi_of(txn, NULL, MDB_REVERSEKEY), 0, 1, 10);
    CHECK_OK(mdb_txn_commit(txn));
    mdb_env_close(env);
    file = file_read(path);
    CHECK_EQ(get16(file.start + test_page_size() + META_FREE + RECORD_FLAGS), MDB_INTEGERKEY | MDB_NOSUBDIR);
    CHECK_EQ(get16(file.start + test_page_size() + META_MAIN + RECORD_FLAGS), MDB_REVERSEKEY);
    CHECK_EQ(get64(file.start + test_page_size() + META_MAPSIZE), 2 * SCENE_MAP_SIZE);
    bytes_free(&file);
    /* The size in the file only grows. */
    env = env_open_again(path, MDB_NOSUBDIR, (size_t)16 << 20, 0);
    txn = begin_write(env);
    put_numbers(txn, dbi_of(txn, NULL, 0), 1, 1, 10);
    CHECK_OK(mdb_txn_commit(txn));
    mdb_env_close(env);
    file = file_read(path);
    CHECK_EQ(get64(file.start + META_MAPSIZE), 2 * SCENE_MAP_SIZE);
    bytes_free(&file);
    temp_dir_remove(dir);
}

/* Databases of every kind. */
static const struct {
    const char *name;
    unsigned flags;
} kinds[] = {
    { "plain", 0 },
    { "reversed", MDB_REVERSEKEY },
    { "integers", MDB_INTEGERKEY },
    { "dup", MDB_DUPSORT },
    { "fixed", MDB_DUPSORT | MDB_DUPFIXED },
    { "odd", MDB_DUPSORT | MDB_DUPFIXED },
    { "reversed dup", MDB_DUPSORT | MDB_REVERSEDUP | MDB_REVERSEKEY },
    { "integer dup", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP },
    { "longest", MDB_DUPSORT },
};

static MDB_val kind_value(size_t which, unsigned number, size_t longest, unsigned char *bytes)
{
    size_t size = kinds[which].flags & MDB_DUPFIXED ? 8 : 9 + number % 30;

    if (strcmp(kinds[which].name, "odd") == 0)
        size = 5;
    if (strcmp(kinds[which].name, "longest") == 0)
        size = longest;
    memset(bytes, 'v', size);
    bytes[0] = (unsigned char)(number >> 8);
    bytes[1] = (unsigned char)number;
    return val_of(bytes, size);
}

static void kind_change(MDB_txn *txn, MDB_dbi dbi, size_t which, struct random *random)
{
    size_t longest = (size_t)mdb_env_get_maxkeysize(mdb_txn_env(txn));
    unsigned char bytes[600];
    unsigned number = (unsigned)random_below(random, 250);
    uint32_t integer = number;
    struct numeral numeral = numeral_of(number);
    MDB_val key = kinds[which].flags & MDB_INTEGERKEY ? val_of(&integer, sizeof(integer)) : val_text(numeral.text);
    MDB_val data;
    int rc;

    if (kinds[which].flags & MDB_DUPSORT && random_one_in(random, 2))
        key = val_text("many");
    data = kind_value(which, (unsigned)random_below(random, 600), longest, bytes);
    if (which == 0 && random_one_in(random, 4)) {
        put_numbers(txn, dbi, number, 1, (size_t)random_below(random, 20000));
    } else if (random_one_in(random, 3)) {
        rc = mdb_del(txn, dbi, &key, random_one_in(random, 2) ? &data : NULL);
        CHECK(rc == MDB_SUCCESS || rc == MDB_NOTFOUND);
    } else {
        CHECK_OK(mdb_put(txn, dbi, &key, &data, 0));
    }
}

TEST(every_byte_of_random_histories_stands_as_the_format_says)
{
    static const unsigned env_flags[] = { MDB_NOSYNC, MDB_NOSYNC | MDB_WRITEMAP };
    size_t way;
    unsigned commits, i, k;

    for (way = 0; way < ARRAY_COUNT(env_flags); way++) {
        char *dir = temp_dir_make();
        MDB_env *env = env_open_new(dir, env_flags[way], SCENE_MAP_SIZE, SCENE_DBS);
        struct random random = { test_seed() };

        for (commits = 0; commits < 25; commits++) {
            MDB_txn *txn = begin_write(env);

            for (i = 0; i < ARRAY_COUNT(kinds); i++) {
                MDB_dbi dbi = dbi_of(txn, kinds[i].name, kinds[i].flags | MDB_CREATE);
                unsigned steps = (unsigned)random_below(&random, 200);

                for (k = 0; k < steps; k++)
                    kind_change(txn, dbi, i, &random);
                if (random_one_in(&random, 40))
                    CHECK_OK(mdb_drop(txn, dbi, (int)random_below(&random, 2)));
            }
            CHECK_OK(mdb_txn_commit(txn));
            raw_check_file(dir);
        }
        mdb_env_close(env);
        run_check_tool(dir);
        temp_dir_remove(dir);
    }
}

TEST(transactions_that_leave_nothing_leave_an_exact_free_list)
{
    char *dir = temp_dir_make();
    MDB_env *env = env_open_new(dir, 0, SCENE_MAP_SIZE, 0);
    unsigned i;

    for (i = 0; i < 60; i++) {
        MDB_txn *txn = begin_write(env);
        MDB_dbi dbi = dbi_of(txn, NULL, 0);
        struct raw raw;

        if (i % 5 != 4)
            CHECK_OK(put_text(txn, dbi, "k", "v", 0));
        if (i % 5 != 3)
            CHECK_OK(del_text(txn, dbi, "k", NULL));
        CHECK_OK(mdb_txn_commit(txn));
        raw_check_file(dir);
        raw = raw_open(dir);
        CHECK(get64(raw.meta + META_LAST) < 10);
        raw_close(&raw);
    }
    mdb_env_close(env);
    temp_dir_remove(dir);
}

/* Separators are the shortest that do, but not shorter than a few bytes. */
struct separators {
    size_t longest, count;
};

static void separators_collect(struct raw *raw, uint64_t pgno, unsigned depth, struct separators *found)
{
    unsigned char *page = raw_page(raw, pgno);
    unsigned i;

    for (i = 0; depth > 1 && i < raw_count(page); i++) {
        size_t size = get16(raw_node(page, i) + 6);

        if (i > 0 && size > found->longest)
            found->longest = size;
        found->count += i > 0;
        separators_collect(raw, raw_child(raw_node(page, i)), depth - 1, found);
    }
}

TEST(separators_are_short_where_keys_differ_early)
{
    char *dir = temp_dir_make();
    MDB_env *env = env_open_new(dir, MDB_NOSYNC, SCENE_MAP_SIZE, 0);
    MDB_txn *txn = begin_write(env);
    MDB_dbi dbi = dbi_of(txn, NULL, 0);
    struct separators found = { 0, 0 };
    struct random random = { test_seed() };
    const unsigned char *record;
    struct raw raw;
    unsigned i;

    for (i = 0; i < 2000; i++) {
        unsigned char bytes[150];
        MDB_val key = val_of(bytes, sizeof(bytes)), data = val_text("");

        random_fill(&random, bytes, sizeof(bytes));
        CHECK_OK(mdb_put(txn, dbi, &key, &data, 0));
    }
    CHECK_OK(mdb_txn_commit(txn));
    mdb_env_close(env);
    raw_check_file(dir);
    raw = raw_open(dir);
    record = raw.meta + META_MAIN;
    separators_collect(&raw, get64(record + RECORD_ROOT), get16(record + RECORD_DEPTH), &found);
    CHECK(found.count > 5);
    CHECK(found.longest <= 12);
    raw_close(&raw);
    temp_dir_remove(dir);
}

/* ==== Files made by hand ================================================= */

struct builder {
    size_t page_size;
    uint64_t pages;
    unsigned char *bytes;
};

static struct builder builder_start(size_t page_size, uint64_t pages)
{
    struct builder builder = { page_size, pages, calloc(pages, page_size) };

    CHECK(builder.bytes != NULL);
    return builder;
}

static unsigned char *builder_page(struct builder *builder, uint64_t pgno, unsigned flags)
{
    unsigned char *page = builder->bytes + pgno * builder->page_size;

    set64(page, pgno);
    set16(page + AT_FLAGS, flags);
    set16(page + AT_LOWER, AT_BODY);
    set16(page + AT_UPPER, (unsigned)builder->page_size);
    return page;
}

/* Room for a node at the front of the heap, with the slot behind the last one. */
static unsigned char *builder_node(unsigned char *page, const void *key, size_t key_size, size_t data_size)
{
    unsigned lower = get16(page + AT_LOWER);
    unsigned upper = get16(page + AT_UPPER) - (unsigned)((8 + key_size + data_size + 1) & ~(size_t)1);
    unsigned char *node = page + upper;

    CHECK(lower + 2 <= upper);
    set16(page + lower, upper);
    set16(page + AT_LOWER, lower + 2);
    set16(page + AT_UPPER, upper);
    set16(node + 6, (unsigned)key_size);
    memcpy(node + 8, key, key_size);
    return node;
}

static unsigned char *builder_leaf(unsigned char *page, const void *key, size_t key_size, const void *data,
                                   size_t data_size, unsigned flags)
{
    unsigned char *node = builder_node(page, key, key_size, data_size);

    set16(node, (unsigned)data_size & 0xffff);
    set16(node + 2, (unsigned)(data_size >> 16));
    set16(node + 4, flags);
    memcpy(node + 8 + key_size, data, data_size);
    return node;
}

static void builder_branch(unsigned char *page, const void *key, size_t key_size, uint64_t child)
{
    unsigned char *node = builder_node(page, key, key_size, 0);

    set16(node, (unsigned)child & 0xffff);
    set16(node + 2, (unsigned)(child >> 16) & 0xffff);
    set16(node + 4, (unsigned)(child >> 32) & 0xffff);
}

struct built_tree {
    unsigned pad, flags, depth;
    uint64_t branch, leaf, overflow, entries, root;
};

static const struct built_tree no_tree = { .root = NO_PAGE };

static void builder_record(unsigned char *at, const struct built_tree *tree)
{
    set32(at, tree->pad);
    set16(at + RECORD_FLAGS, tree->flags);
    set16(at + RECORD_DEPTH, tree->depth);
    set64(at + RECORD_BRANCH, tree->branch);
    set64(at + RECORD_LEAF, tree->leaf);
    set64(at + RECORD_OVERFLOW, tree->overflow);
    set64(at + RECORD_ENTRIES, tree->entries);
    set64(at + RECORD_ROOT, tree->root);
}

/* Two metas: an empty state, and behind it transaction txnid with these trees. */
static void builder_metas(struct builder *builder, uint64_t txnid, const struct built_tree *free_list,
                          const struct built_tree *main_tree)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        unsigned char *page = builder_page(builder, i, META);
        int is_newest = (txnid & 1) == i;
        struct built_tree free_tree = is_newest ? *free_list : no_tree;

        free_tree.pad = (unsigned)builder->page_size;
        free_tree.flags = MDB_INTEGERKEY;
        set32(page + META_MAGIC, 0xBEEFC0DE);
        set32(page + META_VERSION, 1);
        set64(page + META_MAPSIZE, (size_t)64 << 20);
        builder_record(page + META_FREE, &free_tree);
        builder_record(page + META_MAIN, is_newest ? main_tree : &no_tree);
        set64(page + META_LAST, is_newest ? builder->pages - 1 : 1);
        set64(page + META_TXNID, is_newest ? txnid : txnid - 1);
    }
}

/* Writes the file, less its last pages, and frees the builder. */
static void builder_finish(struct builder *builder, const char *dir, uint64_t pages_left_out)
{
    file_write(path_in(dir, "data.mdb"), builder->bytes, (builder->pages - pages_left_out) * builder->page_size);
    free(builder->bytes);
}

/* Thirty-four children; the last seven separators are as long as keys can be, and the put needs one more of them. A
 * split by number would leave the half with these too full. */
TEST(branch_with_separators_of_very_different_lengths_splits)
{
    enum { CHILDREN = 34, LONG = 7, SHORT = CHILDREN - LONG, PAGE_SIZE = 4096 };
    char *dir = temp_dir_make();
    struct builder builder = builder_start(PAGE_SIZE, 3 + CHILDREN);
    struct built_tree main_tree = { .depth = 2, .branch = 1, .leaf = CHILDREN, .root = 2, .entries = SHORT + LONG * 7 };
    unsigned char *root = builder_page(&builder, 2, BRANCH), key[511];
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_val key_val, data;
    unsigned i, k;

    for (i = 0; i < CHILDREN; i++) {
        unsigned char *leaf = builder_page(&builder, 3 + i, LEAF);

        if (i < SHORT) {
            key[0] = (unsigned char)(i + 1);
            builder_leaf(leaf, key, 1, "v", 1, 0);
            builder_branch(root, key, i == 0 ? 0 : 1, 3 + i);
            continue;
        }
        memset(key, 'z', sizeof(key));
        for (k = 0; k < 7; k++) {
            key[510] = (unsigned char)(0x20 + 8 * (i - SHORT) + k);
            builder_leaf(leaf, key, sizeof(key), "v", 1, 0);
        }
        key[510] = (unsigned char)(0x20 + 8 * (i - SHORT));
        builder_branch(root, key, sizeof(key), 3 + i);
    }
    builder_metas(&builder, 1, &no_tree, &main_tree);
    builder_finish(&builder, dir, 0);
    run_check_tool(dir);

    env = env_open_again(dir, 0, 0, 0);
    txn = begin_write(env);
    dbi = dbi_of(txn, NULL, 0);
    CHECK_EQ(walk_both(txn, dbi), SHORT + LONG * 7);
    memset(key, 'z', sizeof(key));
    for (i = 0; i < LONG; i++) {
        key[510] = (unsigned char)(0x20 + 8 * i + 7);
        key_val = val_of(key, sizeof(key));
        data = val_text("new");
        test_note("put %u", i);
        CHECK_OK(mdb_put(txn, dbi, &key_val, &data, 0));
        CHECK_EQ(walk_both(txn, dbi), SHORT + LONG * 7 + i + 1);
    }
    CHECK_OK(mdb_txn_commit(txn));
    mdb_env_close(env);
    raw_check_file(dir);
    run_check_tool(dir);
    temp_dir_remove(dir);
}

/* What other writers may leave, legally: odd separators, flags without meaning, slack, spare pages. */
TEST(legal_oddities_are_read_and_written)
{
    enum { PAGES = 16, PAGE_SIZE = 4096 };
    char *dir = temp_dir_make();
    struct builder builder = builder_start(PAGE_SIZE, PAGES);
    struct built_tree main_tree = { .depth = 1, .leaf = 1, .root = 2, .entries = 3 };
    struct built_tree plain = { .depth = 2, .branch = 1, .leaf = 3, .overflow = 3, .entries = 7, .root = 3 };
    struct built_tree dup = { .flags = MDB_DUPSORT, .depth = 1, .leaf = 1, .entries = 5, .root = 7 };
    struct built_tree one = { .depth = 1, .leaf = 1, .entries = 1, .root = 8 };
    struct built_tree fixed = { .flags = MDB_DUPSORT | MDB_DUPFIXED, .depth = 1, .leaf = 1, .entries = 2, .root = 9 };
    struct built_tree free_list = { .depth = 1, .leaf = 1, .entries = 2, .root = 13 };
    unsigned char record[RECORD_SIZE], sub_page[80], *page;
    uint64_t id, numbers[6];
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;

    page = builder_page(&builder, 2, LEAF);
    builder_record(record, &dup);
    builder_leaf(page, "dup", 3, record, sizeof(record), SUBDATA);
    builder_record(record, &fixed);
    builder_leaf(page, "fixed", 5, record, sizeof(record), SUBDATA);
    builder_record(record, &plain);
    builder_leaf(page, "plain", 5, record, sizeof(record), SUBDATA);

    /* The first entry of a branch may have a key, which means nothing; separators need not be keys. */
    page = builder_page(&builder, 3, BRANCH | DIRTY | KEEP);
    builder_branch(page, "zzz", 3, 4);
    builder_branch(page, "b5", 2, 5);
    builder_branch(page, "d\xff\xff", 3, 6);
    page = builder_page(&builder, 4, LEAF | LOOSE);
    builder_leaf(page, "a", 1, "1", 1, 0);
    builder_leaf(page, "b", 1, "2", 1, 0);
    page = builder_page(&builder, 5, LEAF);
    builder_leaf(page, "c", 1, "3", 1, 0);
    builder_leaf(page, "d", 1, "4", 1, 0);
    page = builder_page(&builder, 6, LEAF);
    builder_leaf(page, "e", 1, "5", 1, 0);
    /* A value of 3000 bytes in three pages, where one would do. */
    id = 10;
    set16(builder_leaf(page, "f", 1, &id, sizeof(id), BIGDATA), 3000);
    builder_leaf(page, "g", 1, "", 0, 0);
    page = builder_page(&builder, 10, OVERFLOW);
    set32(page + 12, 3);
    memset(page + AT_BODY, 'f', 3000);

    /* A sub-page at an odd address, with slack and a page number that means nothing; then a tree of one value. */
    page = builder_page(&builder, 7, LEAF);
    memset(sub_page, 0, sizeof(sub_page));
    set64(sub_page, 4711);
    set16(sub_page + AT_FLAGS, LEAF | DIRTY | SUBP);
    set16(sub_page + AT_LOWER, AT_BODY);
    set16(sub_page + AT_UPPER, sizeof(sub_page));
    builder_leaf(sub_page, "v1", 2, "", 0, 0);
    builder_leaf(sub_page, "v2", 2, "", 0, 0);
    builder_leaf(sub_page, "v3", 2, "", 0, 0);
    builder_leaf(page, "k", 1, sub_page, sizeof(sub_page), DUPDATA);
    builder_leaf(page, "l", 1, "single", 6, 0);
    builder_record(record, &one);
    builder_leaf(page, "m", 1, record, sizeof(record), DUPDATA | SUBDATA);
    page = builder_page(&builder, 8, LEAF);
    builder_leaf(page, "only", 4, "", 0, 0);

    /* Fixed values in a sub-page with room for more. */
    page = builder_page(&builder, 9, LEAF);
    memset(sub_page, 0, sizeof(sub_page));
    set16(sub_page + 8, 4);
    set16(sub_page + AT_FLAGS, LEAF | DIRTY | SUBP | LEAF2);
    set16(sub_page + AT_LOWER, AT_BODY + 2 * 2);
    set16(sub_page + AT_UPPER, (unsigned)sizeof(sub_page) - 2 * 2);
    memcpy(sub_page + AT_BODY, "aaaabbbb", 8);
    builder_leaf(page, "k", 1, sub_page, sizeof(sub_page), DUPDATA);

    /* Free lists with a count of 0, and with one that is less than what the data holds. */
    page = builder_page(&builder, 13, LEAF);
    memset(numbers, 0, sizeof(numbers));
    id = 3;
    builder_leaf(page, &id, sizeof(id), numbers, 3 * sizeof(numbers[0]), 0);
    id = 4;
    numbers[0] = 2;
    numbers[1] = 15;
    numbers[2] = 14;
    builder_leaf(page, &id, sizeof(id), numbers, sizeof(numbers), 0);

    builder_metas(&builder, 9, &free_list, &main_tree);
    /* The last two pages are free and were never written: the file ends before them. */
    builder_finish(&builder, dir, 2);

    env = env_open_again(dir, 0, 0, 4);
    txn = begin_write(env);
    dbi = dbi_of(txn, "plain", 0);
    CHECK_EQ(walk_both(txn, dbi), 7);
    CHECK_TEXT(get_text(txn, dbi, "b"), "2");
    CHECK_TEXT(get_text(txn, dbi, "c"), "3");
    CHECK_TEXT(get_text(txn, dbi, "d"), "4");
    CHECK_TEXT(get_text(txn, dbi, "e"), "5");
    CHECK_TEXT(get_text(txn, dbi, "b5"), "NOTFOUND");
    CHECK_EQ(strspn(get_text(txn, dbi, "f"), "f"), 3000);
    CHECK_CONTENTS(txn, dbi_of(txn, "dup", 0), "k=v1 k=v2 k=v3 l=single m=only");
    CHECK_CONTENTS(txn, dbi_of(txn, "fixed", 0), "k=aaaa k=bbbb");
    put_records(txn, dbi_of(txn, "dup", 0), "k=v25 k=v0 l=first m=many m=none");
    put_records(txn, dbi_of(txn, "fixed", 0), "k=abba k=cccc k=dddd");
    CHECK_OK(put_text(txn, dbi, "f", "short", 0));
    CHECK_OK(del_text(txn, dbi, "a", NULL));
    CHECK_OK(del_text(txn, dbi, "b", NULL));
    CHECK_OK(mdb_txn_commit(txn));
    txn = begin_write(env);
    CHECK_CONTENTS(txn, dbi, "c=3 d=4 e=5 f=short g=");
    CHECK_CONTENTS(txn, dbi_of(txn, "dup", 0), "k=v0 k=v1 k=v2 k=v25 k=v3 l=first l=single m=many m=none m=only");
    CHECK_CONTENTS(txn, dbi_of(txn, "fixed", 0), "k=aaaa k=abba k=bbbb k=cccc k=dddd");
    put_numbers(txn, dbi, 0, 200, 100);
    CHECK_OK(mdb_txn_commit(txn));
    mdb_env_close(env);
    run_check_tool(dir);
    temp_dir_remove(dir);
}

/* ==== Files that are none ================================================ */

static int open_code(const char *dir, unsigned flags)
{
    MDB_env *env;
    int rc;

    CHECK_OK(mdb_env_create(&env));
    CHECK_OK(mdb_env_set_maxdbs(env, SCENE_DBS));
    rc = mdb_env_open(env, dir, flags, 0644);
    mdb_env_close(env);
    return rc;
}

/* That opening gives this code, in every way, and changes nothing. */
static void check_refused(const char *dir, const unsigned char *bytes, size_t size, int code)
{
    static const unsigned flags[] = { 0, MDB_RDONLY, MDB_NOLOCK, MDB_RDONLY | MDB_NOLOCK, MDB_WRITEMAP };
    const char *path = path_in(dir, "data.mdb");
    struct bytes after;
    size_t i;

    file_write(path, bytes, size);
    for (i = 0; i < ARRAY_COUNT(flags); i++) {
        CHECK_RC(open_code(dir, flags[i]), code);
        after = file_read(path);
        CHECK_EQ(after.size, size);
        CHECK(memcmp(after.start, bytes, size) == 0);
        bytes_free(&after);
    }
}

/* The bytes of a sound file with a few records; to be freed. */
static struct bytes sound_file(const char *dir)
{
    MDB_env *env = env_open_new(dir, MDB_NOSYNC, (size_t)16 << 20, 0);
    struct bytes bytes;
    unsigned i;

    for (i = 0; i < 3; i++) {
        MDB_txn *txn = begin_write(env);

        CHECK_OK(put_text(txn, dbi_of(txn, NULL, 0), numeral_of(i).text, "v", 0));
        CHECK_OK(mdb_txn_commit(txn));
    }
    mdb_env_close(env);
    bytes = file_read(path_in(dir, "data.mdb"));
    return bytes;
}

TEST(files_of_other_kinds_are_invalid)
{
    static const size_t sizes[] = { 1, 10, 151, 152, 511, 512, 1023, 1024, 4095, 4096, 8191, 8192, 100000 };
    char *dir = temp_dir_make();
    unsigned char *bytes = malloc(100000);
    struct random random = { test_seed() };
    size_t i;

    CHECK(bytes != NULL);
    for (i = 0; i < ARRAY_COUNT(sizes); i++) {
        test_note("%zu random bytes", sizes[i]);
        random_fill(&random, bytes, 100000);
        check_refused(dir, bytes, sizes[i], MDB_INVALID);
        test_note("%zu bytes of text", sizes[i]);
        memset(bytes, 'a', 100000);
        check_refused(dir, bytes, sizes[i], MDB_INVALID);
    }
    free(bytes);
    temp_dir_remove(dir);
}

TEST(file_cut_within_its_metas_is_invalid)
{
    char *dir = temp_dir_make();
    struct bytes sound = sound_file(dir);
    size_t page_size = test_page_size();
    /* Shorter ones could be what is left of the creation of a new file, which goes on then. */
    size_t sizes[] = { 152, 200, page_size - 1, page_size, page_size + 1, page_size + 151, 2 * page_size - 1 };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(sizes); i++) {
        test_note("%zu bytes of %zu", sizes[i], sound.size);
        check_refused(dir, sound.start, sizes[i], MDB_INVALID);
    }
    bytes_free(&sound);
    temp_dir_remove(dir);
}

static void damage_metas(struct bytes *file, size_t offset, uint32_t value)
{
    set32(file->start + offset, value);
    set32(file->start + test_page_size() + offset, value);
}

TEST(foreign_metas_are_refused)
{
    static const struct {
        size_t offset;
        uint32_t value;
        int code;
        const char *what;
    } cases[] = {
        { META_MAGIC, 0, MDB_INVALID, "no magic" },
        { META_MAGIC, 0xDEC0EFBE, MDB_INVALID, "magic of the other byte order" },
        { META_VERSION, 2, MDB_VERSION_MISMATCH, "version 2" },
        { META_VERSION, 0, MDB_VERSION_MISMATCH, "version 0" },
        { META_VERSION, 999, MDB_VERSION_MISMATCH, "version of a development line" },
        { META_FREE, 0, MDB_CORRUPTED, "page size 0" },
        { META_FREE, 3000, MDB_CORRUPTED, "page size 3000" },
        { META_FREE, 256, MDB_CORRUPTED, "page size 256" },
        { META_FREE, 65536, MDB_CORRUPTED, "page size 65536" },
    };
    char *dir = temp_dir_make();
    size_t i;

    for (i = 0; i < ARRAY_COUNT(cases); i++) {
        struct bytes file = sound_file(dir);

        test_note("%s", cases[i].what);
        damage_metas(&file, cases[i].offset, cases[i].value);
        check_refused(dir, file.start, file.size, cases[i].code);
        bytes_free(&file);
        CHECK_EQ(unlink(path_in(dir, "data.mdb")), 0);
    }
    temp_dir_remove(dir);
}

/* The layout of a 32-bit system: 4-byte page numbers and sizes, a 12-byte page header. */
TEST(file_of_a_32_bit_system_is_invalid)
{
    enum { PAGE_SIZE = 4096, RECORD_32 = 28 };
    char *dir = temp_dir_make();
    unsigned char *bytes = calloc(3, PAGE_SIZE);
    unsigned i;

    CHECK(bytes != NULL);
    for (i = 0; i < 2; i++) {
        unsigned char *page = bytes + i * PAGE_SIZE;

        set32(page, i);
        set16(page + 6, META);
        set32(page + 12, 0xBEEFC0DE);
        set32(page + 16, 1);
        set32(page + 24, 1 << 20);              /* map size */
        set32(page + 28, PAGE_SIZE);            /* free list: pad */
        set16(page + 32, MDB_INTEGERKEY);
        set32(page + 28 + RECORD_32 - 4, UINT32_MAX);
        set16(page + 28 + RECORD_32 + 6, i == 1);
        set32(page + 28 + 2 * RECORD_32 - 4, i == 1 ? 2 : UINT32_MAX);
        set32(page + 28 + 2 * RECORD_32, i == 1 ? 2 : 1);
        set32(page + 28 + 2 * RECORD_32 + 4, i);
    }
    set32(bytes + 2 * PAGE_SIZE, 2);
    set16(bytes + 2 * PAGE_SIZE + 6, LEAF);
    check_refused(dir, bytes, 3 * PAGE_SIZE, MDB_INVALID);
    free(bytes);
    temp_dir_remove(dir);
}

static void lock_holder(struct parent *parent, const char *path)
{
    struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };
    int fd = open(path, O_RDWR);

    CHECK(fd >= 0);
    CHECK_EQ(fcntl(fd, F_SETLK, &lock), 0);
    PARENT_SEND(parent, 'l');
    PARENT_WAIT(parent, 'u');
}

TEST(foreign_lock_file_is_set_up_anew_unless_somebody_holds_it)
{
    static const struct {
        uint32_t magic, format;
        int code;
    } cases[] = {
        { 0, 0, MDB_INVALID },
        { 0x12345678, 0x00010001, MDB_INVALID },
        { 0xBEEFC0DE, 0x00010002, MDB_VERSION_MISMATCH },
        { 0xBEEFC0DE, 0x00020001, MDB_VERSION_MISMATCH },
        { 0xBEEFC0DE, 0, MDB_VERSION_MISMATCH },
    };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(cases); i++) {
        char *dir = temp_dir_make();
        struct bytes sound = sound_file(dir);
        unsigned char bytes[8192] = { 0 };
        struct child child;

        set32(bytes, cases[i].magic);
        set32(bytes + 4, cases[i].format);
        file_write(path_in(dir, "lock.mdb"), bytes, sizeof(bytes));
        child = child_start(lock_holder, path_in(dir, "lock.mdb"));
        CHILD_WAIT(&child, 'l');
        test_note("case %zu", i);
        CHECK_RC(open_code(dir, 0), cases[i].code);
        CHECK_RC(open_code(dir, MDB_RDONLY), cases[i].code);
        CHILD_SEND(&child, 'u');
        child_finish(&child);
        CHECK_RC(open_code(dir, 0), MDB_SUCCESS);
        {
            struct bytes lock = file_read(path_in(dir, "lock.mdb"));

            CHECK_EQ(get32(lock.start), 0xBEEFC0DE);
            CHECK_EQ(get32(lock.start + 4), 0x00010001);
            CHECK(lock.size >= 128 + 64 * 126);
            CHECK_EQ(get64(lock.start + 48), 3);
            bytes_free(&lock);
        }
        bytes_free(&sound);
        temp_dir_remove(dir);
    }
}

/* ==== One meta damaged =================================================== */

static void check_state(const char *dir, const char *contents)
{
    MDB_env *env = env_open_again(dir, MDB_RDONLY, 0, 0);
    MDB_txn *txn = begin_read(env);

    CHECK_CONTENTS(txn, dbi_of(txn, NULL, 0), contents);
    mdb_txn_abort(txn);
    mdb_env_close(env);
}

TEST(with_one_meta_damaged_the_other_is_used_and_a_commit_heals_it)
{
    static const struct {
        size_t offset;
        uint32_t value;
        const char *what;
    } damages[] = {
        { META_MAGIC, 0, "magic" },
        { META_VERSION, 7, "version" },
        { META_FREE, 0, "page size" },
        { AT_FLAGS, LEAF, "page flags" },
        { META_LAST, 0, "last page" },
        { META_MAIN + RECORD_ROOT, 100000, "root beyond the last page" },
    };
    size_t i;
    unsigned which;

    for (i = 0; i < ARRAY_COUNT(damages); i++) {
        for (which = 0; which < 2; which++) {
            char *dir = temp_dir_make();
            struct bytes file = sound_file(dir);        /* the newest is txn 3, in page 1 */
            unsigned char *page = file.start + which * test_page_size();
            MDB_env *env;
            MDB_txn *txn;

            test_note("%s of meta %u", damages[i].what, which);
            if (damages[i].offset == AT_FLAGS)
                set16(page + AT_FLAGS, damages[i].value);
            else
                set32(page + damages[i].offset, damages[i].value);
            file_write(path_in(dir, "data.mdb"), file.start, file.size);
            bytes_free(&file);
            check_state(dir, which == 0 ? "00000000=v 00000001=v 00000002=v" : "00000000=v 00000001=v");
            env = env_open_again(dir, 0, 0, 0);
            txn = begin_write(env);
            CHECK_OK(put_text(txn, dbi_of(txn, NULL, 0), "new", "1", 0));
            CHECK_OK(mdb_txn_commit(txn));
            txn = begin_write(env);
            CHECK_OK(put_text(txn, dbi_of(txn, NULL, 0), "new", "2", 0));
            CHECK_OK(mdb_txn_commit(txn));
            mdb_env_close(env);
            raw_check_file(dir);
            check_state(dir, which == 0 ? "00000000=v 00000001=v 00000002=v new=2" : "00000000=v 00000001=v new=2");
            run_check_tool(dir);
            temp_dir_remove(dir);
        }
    }
}

/* ==== Damaged pages ====================================================== */

/* An environment with every kind of database, closed. */
static void varied_file(const char *dir)
{
    MDB_env *env = env_open_new(dir, MDB_NOSYNC, (size_t)64 << 20, SCENE_DBS);
    struct random random = { 5 };
    unsigned commits, i, k;

    for (commits = 0; commits < 4; commits++) {
        MDB_txn *txn = begin_write(env);

        for (i = 0; i < ARRAY_COUNT(kinds); i++) {
            MDB_dbi dbi = dbi_of(txn, kinds[i].name, kinds[i].flags | MDB_CREATE);

            for (k = 0; k < 250; k++)
                kind_change(txn, dbi, i, &random);
        }
        CHECK_OK(mdb_txn_commit(txn));
    }
    mdb_env_close(env);
}

/* Codes that a damaged file may give. */
static int is_expected_code(int rc)
{
    switch (rc) {
    case MDB_SUCCESS:
    case MDB_NOTFOUND:
    case MDB_KEYEXIST:
    case MDB_CORRUPTED:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case MDB_INCOMPATIBLE:
    case MDB_BAD_TXN:
    case MDB_BAD_DBI:
    case MDB_BAD_VALSIZE:
    case MDB_MAP_FULL:
    case MDB_MAP_RESIZED:
    case ENOMEM:
    case EINVAL:
        return 1;
    default:
        return 0;
    }
}

static int checked_code(int rc, const char *call)
{
    if (!is_expected_code(rc))
        test_fail(__FILE__, __LINE__, "%s gave %d (%s)", call, rc, mdb_strerror(rc));
    return rc;
}

#define EXPECTED(call) checked_code((call), #call)

/* Touches each byte that a call returned: the map must have it. */
static unsigned bytes_sum(const MDB_val *val)
{
    const volatile unsigned char *byte = val->mv_data;
    unsigned sum = 0;
    size_t i;

    for (i = 0; i < val->mv_size; i++)
        sum += byte[i];
    return sum;
}

enum { WALK_MAX = 20000 };

static void damaged_walk(MDB_txn *txn, MDB_dbi dbi, MDB_cursor_op step)
{
    MDB_cursor *cursor;
    MDB_val key, data;
    mdb_size_t count;
    unsigned i;

    if (EXPECTED(mdb_cursor_open(txn, dbi, &cursor)) != MDB_SUCCESS)
        return;
    for (i = 0; i < WALK_MAX && EXPECTED(mdb_cursor_get(cursor, &key, &data, step)) == MDB_SUCCESS; i++) {
        bytes_sum(&key);
        bytes_sum(&data);
        if (i % 64 == 0)
            EXPECTED(mdb_cursor_count(cursor, &count));
    }
    mdb_cursor_close(cursor);
}

static void damaged_read(MDB_txn *txn, MDB_dbi dbi, unsigned flags)
{
    unsigned char bytes[600];
    MDB_stat stat;
    unsigned i;

    EXPECTED(mdb_stat(txn, dbi, &stat));
    damaged_walk(txn, dbi, MDB_NEXT);
    damaged_walk(txn, dbi, MDB_PREV);
    damaged_walk(txn, dbi, MDB_NEXT_NODUP);
    for (i = 0; i < 250; i += 7) {
        uint32_t integer = i;
        struct numeral numeral = numeral_of(i);
        MDB_val key = flags & MDB_INTEGERKEY ? val_of(&integer, sizeof(integer)) : val_text(numeral.text), data;
        MDB_cursor *cursor;

        if (EXPECTED(mdb_get(txn, dbi, &key, &data)) == MDB_SUCCESS)
            bytes_sum(&data);
        if (flags & MDB_DUPSORT && EXPECTED(mdb_cursor_open(txn, dbi, &cursor)) == MDB_SUCCESS) {
            key = val_text("many");
            data = val_of(memset(bytes, (int)i, sizeof(bytes)), flags & MDB_DUPFIXED ? 8 : 20);
            if (EXPECTED(mdb_cursor_get(cursor, &key, &data, MDB_GET_BOTH_RANGE)) == MDB_SUCCESS)
                bytes_sum(&data);
            mdb_cursor_close(cursor);
        }
    }
}

static void damaged_write(MDB_env *env, unsigned seed)
{
    struct random random = { seed };
    MDB_txn *txn, *child;
    unsigned i, k, round;

    for (round = 0; round < 3; round++) {
        if (EXPECTED(mdb_txn_begin(env, NULL, 0, &txn)) != MDB_SUCCESS)
            return;
        for (i = 0; i < ARRAY_COUNT(kinds); i++) {
            unsigned char bytes[600];
            MDB_dbi dbi;

            if (EXPECTED(mdb_dbi_open(txn, kinds[i].name, 0, &dbi)) != MDB_SUCCESS)
                continue;
            child = NULL;
            if (round == 1 && EXPECTED(mdb_txn_begin(env, txn, 0, &child)) != MDB_SUCCESS)
                break;
            for (k = 0; k < 25; k++) {
                struct numeral numeral = numeral_of((unsigned)random_below(&random, 250));
                uint32_t integer = (uint32_t)random_below(&random, 250);
                MDB_val key = val_text(numeral.text);
                MDB_val data = kind_value(i, (unsigned)random_below(&random, 600), (size_t)mdb_env_get_maxkeysize(env),
                                          bytes);

                if (kinds[i].flags & MDB_INTEGERKEY)
                    key = val_of(&integer, sizeof(integer));

                if (random_one_in(&random, 2))
                    EXPECTED(mdb_put(child != NULL ? child : txn, dbi, &key, &data, 0));
                else
                    EXPECTED(mdb_del(child != NULL ? child : txn, dbi, &key, random_one_in(&random, 2) ? &data : NULL));
            }
            if (random_one_in(&random, 4))
                EXPECTED(mdb_drop(child != NULL ? child : txn, dbi, (int)random_below(&random, 2)));
            if (child != NULL && random_one_in(&random, 2))
                EXPECTED(mdb_txn_commit(child));
            else if (child != NULL)
                mdb_txn_abort(child);
        }
        if (round == 0)
            mdb_txn_abort(txn);
        else
            EXPECTED(mdb_txn_commit(txn));
    }
}

/* Everything that one can do with a file. */
static void use_damaged(const char *dir, unsigned seed)
{
    char *copy_dir = temp_dir_make();
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    size_t i;

    CHECK_OK(mdb_env_create(&env));
    CHECK_OK(mdb_env_set_maxdbs(env, SCENE_DBS));
    if (EXPECTED(mdb_env_open(env, dir, MDB_NOSYNC | (seed % 3 == 2 ? MDB_WRITEMAP : 0), 0644)) == MDB_SUCCESS) {
        if (EXPECTED(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn)) == MDB_SUCCESS) {
            for (i = 0; i < ARRAY_COUNT(kinds); i++) {
                if (EXPECTED(mdb_dbi_open(txn, kinds[i].name, 0, &dbi)) == MDB_SUCCESS)
                    damaged_read(txn, dbi, kinds[i].flags);
            }
            damaged_read(txn, 0, MDB_INTEGERKEY);
            if (EXPECTED(mdb_dbi_open(txn, NULL, 0, &dbi)) == MDB_SUCCESS)
                damaged_read(txn, dbi, 0);
            EXPECTED(mdb_txn_commit(txn));
        }
        EXPECTED(mdb_env_copy2(env, copy_dir, MDB_CP_COMPACT));
        damaged_write(env, seed);
    }
    mdb_env_close(env);
    temp_dir_remove(copy_dir);
}

TEST(truncated_files_give_errors)
{
    char *dir = temp_dir_make();
    struct bytes whole;
    size_t page_size = test_page_size(), pages, cut;

    varied_file(dir);
    whole = file_read(path_in(dir, "data.mdb"));
    pages = whole.size / page_size;
    for (cut = 2; cut < pages; cut += 1 + pages / 40) {
        size_t size = cut * page_size + (cut % 3 == 0 ? page_size / 2 : 0);

        test_note("cut to %zu pages of %zu", cut, pages);
        file_write(path_in(dir, "data.mdb"), whole.start, size);
        use_damaged(dir, (unsigned)cut);
    }
    bytes_free(&whole);
    temp_dir_remove(dir);
}

/* Flips bits, and overwrites numbers with others that are near or far. */
static void damage_bytes(struct random *random, struct bytes *file, size_t page_size)
{
    unsigned times = 1 + (unsigned)random_below(random, 6);

    while (times-- > 0) {
        size_t page = random_below(random, file->size / page_size);
        /* Headers and slots are worth more than the middle of values. */
        size_t offset = page * page_size + random_below(random, random_one_in(random, 2) ? 32 : page_size);
        unsigned char *at = file->start + (offset + 8 <= file->size ? offset : file->size - 8);

        switch (random_below(random, 6)) {
        case 0:
            *at ^= (unsigned char)(1u << random_below(random, 8));
            break;
        case 1:
            *at = (unsigned char)random_next(random);
            break;
        case 2:
            set16(at, (unsigned)random_below(random, page_size + 8));
            break;
        case 3:
            set64(at, random_below(random, file->size / page_size + 2));
            break;
        case 4:
            memset(at, random_one_in(random, 2) ? 0 : 0xff, 8);
            break;
        default:
            /* A whole page out of another one. */
            memcpy(file->start + page * page_size,
                   file->start + random_below(random, file->size / page_size) * page_size, page_size);
            break;
        }
    }
}

TEST(randomly_damaged_files_give_errors)
{
    char *dir = temp_dir_make();
    struct bytes whole;
    unsigned round, rounds = 120 * test_scale();

    varied_file(dir);
    whole = file_read(path_in(dir, "data.mdb"));
    for (round = 0; round < rounds; round++) {
        struct bytes damaged = { malloc(whole.size), whole.size };
        struct random random = { test_seed() * 100000 + round };

        CHECK(damaged.start != NULL);
        memcpy(damaged.start, whole.start, whole.size);
        damage_bytes(&random, &damaged, test_page_size());
        test_note("round %u", round);
        file_write(path_in(dir, "data.mdb"), damaged.start, damaged.size);
        bytes_free(&damaged);
        use_damaged(dir, round);
    }
    bytes_free(&whole);
    temp_dir_remove(dir);
}

/* ==== Damage of one kind each ============================================ */

/* A file with two databases: "hit" will be damaged, "other" must stay readable. Depth 2 or more; large values at the
 * end. */
struct hit {
    char *dir;
    struct bytes file;
    uint64_t root, leaf, run;   /* pages of "hit" */
};

static unsigned char *hit_page(const struct hit *hit, uint64_t pgno)
{
    return hit->file.start + pgno * test_page_size();
}

static struct hit hit_make(void)
{
    struct hit hit = { .dir = temp_dir_make() };
    MDB_env *env = env_open_new(hit.dir, MDB_NOSYNC, (size_t)64 << 20, SCENE_DBS);
    MDB_txn *txn = begin_write(env);
    MDB_dbi dbi = dbi_of(txn, "hit", MDB_CREATE), other = dbi_of(txn, "other", MDB_CREATE);
    MDB_val key = val_text("hit"), data;
    unsigned char *page;
    unsigned depth;

    put_numbers(txn, dbi, 0, (unsigned)(test_page_size() / 10), 30);
    put_numbers(txn, dbi, 100000, 3, 3 * test_page_size());
    put_numbers(txn, other, 0, 100, 30);
    CHECK_OK(mdb_txn_commit(txn));
    txn = begin_read(env);
    CHECK_OK(mdb_get(txn, 1, &key, &data));
    hit.root = get64((unsigned char *)data.mv_data + RECORD_ROOT);
    depth = get16((unsigned char *)data.mv_data + RECORD_DEPTH);
    CHECK(depth >= 2);
    mdb_txn_abort(txn);
    mdb_env_close(env);
    hit.file = file_read(path_in(hit.dir, "data.mdb"));
    /* Down the first children, and down the last ones, where the large values are. */
    for (hit.leaf = hit.root; get16(hit_page(&hit, hit.leaf) + AT_FLAGS) == BRANCH;)
        hit.leaf = raw_child(raw_node(hit_page(&hit, hit.leaf), 0));
    for (page = hit_page(&hit, hit.root); get16(page + AT_FLAGS) == BRANCH;)
        page = hit_page(&hit, raw_child(raw_node(page, raw_count(page) - 1)));
    CHECK(get16(raw_node(page, raw_count(page) - 1) + 4) & BIGDATA);
    hit.run = get64(raw_data(raw_node(page, raw_count(page) - 1)));
    return hit;
}

enum expected_at { AT_FIRST_KEY, AT_LAST_KEY };

/* Reading the key gives MDB_CORRUPTED, "other" can be read; a write that meets the damage fails the transaction, and
 * the file is left as it is. */
static void hit_check(struct hit *hit, enum expected_at where, const char *what)
{
    const char *key_text = where == AT_FIRST_KEY ? "00000000" : "00100002";
    MDB_val key = val_text(key_text), data = val_text("new");
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi, other;
    struct bytes after;

    test_note("%s", what);
    file_write(path_in(hit->dir, "data.mdb"), hit->file.start, hit->file.size);
    env = env_open_again(hit->dir, MDB_NOSYNC, 0, SCENE_DBS);
    txn = begin_read(env);
    dbi = dbi_of(txn, "hit", 0);
    other = dbi_of(txn, "other", 0);
    CHECK_RC(mdb_get(txn, dbi, &key, &data), MDB_CORRUPTED);
    test_note("%s: the other database", what);
    CHECK_EQ(walk_both(txn, other), 100);
    check_numbers(txn, other, 0, 100, 30);
    test_note("%s", what);
    CHECK_RC(mdb_get(txn, dbi, &key, &data), MDB_CORRUPTED);
    CHECK_OK(mdb_txn_commit(txn));
    txn = begin_write(env);
    if (where == AT_FIRST_KEY) {
        data = val_text("new");
        CHECK_RC(mdb_put(txn, dbi, &key, &data, 0), MDB_CORRUPTED);
    } else {
        CHECK_RC(mdb_del(txn, dbi, &key, NULL), MDB_CORRUPTED);
    }
    CHECK_RC(put_text(txn, other, "x", "y", 0), MDB_BAD_TXN);
    CHECK_RC(mdb_txn_commit(txn), MDB_BAD_TXN);
    after = file_read(path_in(hit->dir, "data.mdb"));
    CHECK(memcmp(after.start, hit->file.start, hit->file.size) == 0);
    bytes_free(&after);
    txn = begin_write(env);
    CHECK_OK(put_text(txn, other, "x", "y", 0));
    CHECK_OK(mdb_txn_commit(txn));
    mdb_env_close(env);
    bytes_free(&hit->file);
    temp_dir_remove(hit->dir);
}

TEST(damaged_leaf_is_corrupted_and_others_stay_readable)
{
    static const struct {
        const char *what;
        unsigned offset, value;
    } cases[] = {
        { "page number", 0, 7777 },
        { "branch flag", AT_FLAGS, BRANCH },
        { "overflow flag", AT_FLAGS, OVERFLOW },
        { "no flags", AT_FLAGS, 0 },
        { "unknown flag", AT_FLAGS, LEAF | 0x1000 },
        { "lower within the header", AT_LOWER, 4 },
        { "no entries", AT_LOWER, AT_BODY },
        { "lower above upper", AT_LOWER, 0xfffe },
        { "upper beyond the page", AT_UPPER, 0xfffe },
        { "upper below lower", AT_UPPER, AT_BODY },
        { "first offset beyond the page", AT_BODY, 0xfffe },
        { "first offset in the header", AT_BODY, 2 },
        { "LEAF2 flag", AT_FLAGS, LEAF | LEAF2 },
    };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(cases); i++) {
        struct hit hit = hit_make();

        set16(hit_page(&hit, hit.leaf) + cases[i].offset, cases[i].value);
        hit_check(&hit, AT_FIRST_KEY, cases[i].what);
    }
}

TEST(damaged_branch_is_corrupted_and_others_stay_readable)
{
    static const struct {
        const char *what;
        uint64_t child;
    } cases[] = {
        { "child beyond the end", 1000000 },
        { "child beyond all numbers", UINT64_C(0xffffffffffff) },
        { "meta page as child", 0 },
        { "other meta page as child", 1 },
    };
    struct hit hit;
    unsigned char *node;
    size_t i;

    for (i = 0; i < ARRAY_COUNT(cases); i++) {
        hit = hit_make();
        node = raw_node(hit_page(&hit, hit.root), 0);
        set16(node, (unsigned)cases[i].child & 0xffff);
        set16(node + 2, (unsigned)(cases[i].child >> 16) & 0xffff);
        set16(node + 4, (unsigned)(cases[i].child >> 32) & 0xffff);
        hit_check(&hit, AT_FIRST_KEY, cases[i].what);
    }
    /* A circle. */
    hit = hit_make();
    node = raw_node(hit_page(&hit, hit.root), 0);
    set16(node, (unsigned)hit.root & 0xffff);
    set16(node + 2, (unsigned)(hit.root >> 16));
    hit_check(&hit, AT_FIRST_KEY, "root as its own child");
    hit = hit_make();
    set16(hit_page(&hit, hit.root) + AT_FLAGS, LEAF);
    hit_check(&hit, AT_FIRST_KEY, "root that is a leaf");
    hit = hit_make();
    set16(hit_page(&hit, hit.root) + AT_BODY, 0xfffe);
    hit_check(&hit, AT_FIRST_KEY, "offset in the root");
}

TEST(damaged_overflow_run_is_corrupted_and_others_stay_readable)
{
    static const struct {
        const char *what;
        unsigned offset;
        uint32_t value;
    } cases[] = {
        { "page number", 0, 7777 },
        { "flags", 8, LEAF << 16 },
        { "no pages", 12, 0 },
        { "fewer pages than the value needs", 12, 1 },
        { "pages beyond the end", 12, 0x7fffffff },
        { "pages beyond all numbers", 12, 0xffffffff },
    };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(cases); i++) {
        struct hit hit = hit_make();

        set32(hit_page(&hit, hit.run) + cases[i].offset, cases[i].value);
        hit_check(&hit, AT_LAST_KEY, cases[i].what);
    }
}

TEST(damaged_record_of_a_database_is_corrupted_and_others_stay_readable)
{
    static const struct {
        const char *what;
        unsigned offset, size;
        uint64_t value;
    } cases[] = {
        { "root beyond the end", RECORD_ROOT, 8, 1000000 },
        { "root in the metas", RECORD_ROOT, 8, 1 },
        { "depth of a leaf", RECORD_DEPTH, 2, 1 },
        { "depth 0", RECORD_DEPTH, 2, 0 },
        { "depth 200", RECORD_DEPTH, 2, 200 },
        { "depth 65535", RECORD_DEPTH, 2, 65535 },
    };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(cases); i++) {
        struct hit hit = hit_make();
        struct raw raw = { .file = hit.file, .page_size = test_page_size() };
        unsigned char *meta = hit.file.start + test_page_size(), *page, *record;
        MDB_env *env;
        MDB_txn *txn;
        MDB_dbi dbi, other;
        int rc;

        page = raw_page(&raw, get64(meta + META_MAIN + RECORD_ROOT));
        record = raw_data(raw_node(page, 0));
        if (cases[i].size == 8)
            set64(record + cases[i].offset, cases[i].value);
        else
            set16(record + cases[i].offset, (unsigned)cases[i].value);
        file_write(path_in(hit.dir, "data.mdb"), hit.file.start, hit.file.size);
        test_note("%s", cases[i].what);
        env = env_open_again(hit.dir, MDB_NOSYNC, 0, SCENE_DBS);
        txn = begin_read(env);
        rc = mdb_dbi_open(txn, "hit", 0, &dbi);
        if (rc == MDB_SUCCESS) {
            MDB_val key = val_text("00000000"), data;

            rc = mdb_get(txn, dbi, &key, &data);
        }
        CHECK_RC(rc, MDB_CORRUPTED);
        other = dbi_of(txn, "other", 0);
        CHECK_EQ(walk_both(txn, other), 100);
        mdb_txn_abort(txn);
        mdb_env_close(env);
        bytes_free(&hit.file);
        temp_dir_remove(hit.dir);
    }
}

/* The free list lies: the writer notices, or is none the worse for it. */
TEST(damaged_free_list_gives_errors)
{
    char *dir = temp_dir_make();
    struct bytes whole;
    struct random random = { test_seed() };
    unsigned char *meta;
    uint64_t root;
    unsigned round;

    varied_file(dir);
    whole = file_read(path_in(dir, "data.mdb"));
    meta = whole.start + (get64(whole.start + test_page_size() + META_TXNID) > get64(whole.start + META_TXNID)
                          ? test_page_size() : 0);
    root = get64(meta + META_FREE + RECORD_ROOT);
    CHECK(root != NO_PAGE);
    for (round = 0; round < 60; round++) {
        struct bytes damaged = { malloc(whole.size), whole.size };
        unsigned char *page, *node;

        CHECK(damaged.start != NULL);
        memcpy(damaged.start, whole.start, whole.size);
        page = damaged.start + root * test_page_size();
        node = raw_node(page, (unsigned)random_below(&random, raw_count(page)));
        switch (round % 6) {
        case 0:
            set64(raw_data(node), UINT64_MAX - random_below(&random, 3));
            break;
        case 1:
            set64(raw_data(node), raw_data_size(node) / 8 + random_below(&random, 3));
            break;
        case 2:
            set64(raw_data(node) + 8, random_one_in(&random, 2) ? 0 : UINT64_MAX);
            break;
        case 3:
            set64(node + 8, random_one_in(&random, 2) ? 0 : UINT64_MAX);
            break;
        case 4:
            set16(node + 6, (unsigned)random_below(&random, 20));
            break;
        default:
            set16(node, (unsigned)random_below(&random, 20));
            break;
        }
        test_note("round %u", round);
        file_write(path_in(dir, "data.mdb"), damaged.start, damaged.size);
        bytes_free(&damaged);
        use_damaged(dir, round);
    }
    bytes_free(&whole);
    temp_dir_remove(dir);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(new_file_has_two_empty_metas),
        TEST_ENTRY(each_commit_writes_the_meta_of_its_number),
        TEST_ENTRY(persistent_flags_and_map_sizes_stand_in_the_meta),
        TEST_ENTRY(every_byte_of_random_histories_stands_as_the_format_says),
        TEST_ENTRY(transactions_that_leave_nothing_leave_an_exact_free_list),
        TEST_ENTRY(separators_are_short_where_keys_differ_early),
        TEST_ENTRY(branch_with_separators_of_very_different_lengths_splits),
        TEST_ENTRY(legal_oddities_are_read_and_written),
        TEST_ENTRY(files_of_other_kinds_are_invalid),
        TEST_ENTRY(file_cut_within_its_metas_is_invalid),
        TEST_ENTRY(foreign_metas_are_refused),
        TEST_ENTRY(file_of_a_32_bit_system_is_invalid),
        TEST_ENTRY(foreign_lock_file_is_set_up_anew_unless_somebody_holds_it),
        TEST_ENTRY(with_one_meta_damaged_the_other_is_used_and_a_commit_heals_it),
        TEST_ENTRY(truncated_files_give_errors),
        TEST_ENTRY(randomly_damaged_files_give_errors),
        TEST_ENTRY(damaged_leaf_is_corrupted_and_others_stay_readable),
        TEST_ENTRY(damaged_branch_is_corrupted_and_others_stay_readable),
        TEST_ENTRY(damaged_overflow_run_is_corrupted_and_others_stay_readable),
        TEST_ENTRY(damaged_record_of_a_database_is_corrupted_and_others_stay_readable),
        TEST_ENTRY(damaged_free_list_gives_errors),
    };

    return test_main(argc, argv, tests, TEST_COUNT(tests));
}
