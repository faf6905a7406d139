/* What damaged data files do to the library: they give errors, and nothing else.
 *
 * Samples of all kinds of databases are built once and kept in memory with an index of what stands where. Each case
 * copies one, changes a few things that the index names (a field of a page, a page number, a whole page, ...), writes
 * it to a file and has a child process read it, change it and copy it. A child that dies by a signal, answers with a
 * code that no file should cause, hands out bytes that lie outside their page, or does not come to an end, fails the
 * test, which prints how to repeat that case:
 *
 *     mtest_corrupt --seed S --only N [--count M] [--verbose]
 *
 * runs the cases N to N + M - 1 (one if there is no --count) of seed S. With MDB_TEST_KEEP set the file stays where it
 * was. */
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "mtest_common.h"

#include "mdb_format.h"

enum {
    DAMAGED_FILES = 3000,
    CASES_PER_CHILD = 50,
    CPU_SECONDS_MAX = 10,   /* for one case */
    SECONDS_MAX = 120,      /* the same, waiting for whatever included */
    FAILURES_SHOWN = 20,
    WALK_STEPS_MAX = 400,
    FILE_SIZE_MAX = 32 << 20,
    DATABASES_MAX = 8,
    VALUE_SIZE_MAX = 1 << 14,
    DESCRIPTION_SIZE = 1024
};

/* ==== Databases and their records ======================================== */

/* Record n of a database has a key and values that follow from the numbers alone. */
struct database {
    const char *name;       /* NULL: the main one */
    unsigned flags;
    unsigned keys;          /* on pages of 512 bytes; more on larger ones */
    unsigned key_size;      /* 0: differs from key to key */
    unsigned value_size;    /* of DUPFIXED databases; 0: differs */
};

static const struct database plain_main[] = {
    { NULL, 0, 200, 0, 0 },
};
static const struct database plain_named[] = {
    { "deep", 0, 160, 100, 0 },
    { "plain", 0, 30, 0, 0 },
    { "ints", MDB_INTEGERKEY, 80, 8, 0 },
    { "reverse", MDB_REVERSEKEY, 30, 0, 0 },
    { "empty", 0, 0, 0, 0 },
};
static const struct database dups_main[] = {
    { NULL, MDB_DUPSORT, 40, 0, 0 },
};
static const struct database dups_named[] = {
    { "dups", MDB_DUPSORT, 25, 0, 0 },
    { "reverse", MDB_DUPSORT | MDB_REVERSEKEY | MDB_REVERSEDUP, 10, 0, 0 },
    { "plain", 0, 10, 0, 0 },
};
static const struct database fixed_named[] = {
    { "fixed", MDB_DUPSORT | MDB_DUPFIXED, 25, 0, 5 },
    { "wide", MDB_DUPSORT | MDB_DUPFIXED, 15, 4, 60 },
    { "ints", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP | MDB_INTEGERKEY, 25, 4, 8 },
    { "dups", MDB_DUPSORT, 8, 0, 0 },
};

struct sample_kind {
    const char *name;
    const struct database *databases;
    unsigned count;
    unsigned env_flags;
};

#define SAMPLE_KIND(name, databases, flags) { name, databases, ARRAY_COUNT(databases), flags }

static const struct sample_kind sample_kinds[] = {
    SAMPLE_KIND("plain records in the main database", plain_main, 0),
    SAMPLE_KIND("databases of plain records", plain_named, 0),
    SAMPLE_KIND("duplicates in the main database", dups_main, 0),
    SAMPLE_KIND("databases of duplicates", dups_named, 0),
    SAMPLE_KIND("databases of duplicates of one size", fixed_named, 0),
};

enum { SAMPLE_KINDS = ARRAY_COUNT(sample_kinds), PAGE_SIZES = 2, SAMPLES = SAMPLE_KINDS * PAGE_SIZES };

static const unsigned page_sizes[PAGE_SIZES] = { 512, 4096 };

/* Where an MDB_val of a record is made. */
struct room {
    unsigned char bytes[VALUE_SIZE_MAX];
};

static MDB_val number_make(struct room *room, unsigned number, size_t size)
{
    uint64_t wide = number;
    uint32_t narrow = number;

    if (size == sizeof(wide))
        memcpy(room->bytes, &wide, sizeof(wide));
    else
        memcpy(room->bytes, &narrow, sizeof(narrow));
    return val_of(room->bytes, size);
}

/* Text that sorts as its number does, of this size. */
static MDB_val text_make(struct room *room, unsigned number, size_t size)
{
    char digits[16];
    size_t i;

    snprintf(digits, sizeof(digits), "%06u", number);
    for (i = 0; i < size; i++)
        room->bytes[i] = i < 6 ? (unsigned char)digits[i] : (unsigned char)('a' + (number + i) % 26);
    return val_of(room->bytes, size);
}

static MDB_val key_make(struct room *room, const struct database *database, unsigned number)
{
    if ((database->flags & MDB_INTEGERKEY) != 0)
        return number_make(room, number, database->key_size);
    return text_make(room, number, database->key_size > 0 ? database->key_size : 6 + number * 7 % 23);
}

/* Without duplicates: now and then a value that takes pages of its own. */
static MDB_val value_make(struct room *room, const struct database *database, unsigned page_size, unsigned number)
{
    if ((database->flags & MDB_INTEGERDUP) != 0)
        return number_make(room, number, database->value_size);
    if (database->value_size > 0)
        return text_make(room, number, database->value_size);
    if ((database->flags & MDB_DUPSORT) == 0 && number % 11 == 5)
        return text_make(room, number, page_size / 2 + number * 13 % (page_size * 5 / 2));
    return text_make(room, number, 6 + number * 5 % 31);
}

/* How many values a key has: one, some on a sub-page, or many in a tree. */
static unsigned values_of(const struct database *database, unsigned page_size, unsigned key)
{
    if ((database->flags & MDB_DUPSORT) == 0 || key % 4 == 1)
        return 1;
    return key % 8 == 3 ? page_size / 12 : 2 + key % 4;
}

static unsigned keys_of(const struct database *database, unsigned page_size)
{
    return page_size > 512 ? database->keys * 2 : database->keys;
}

/* ==== Samples ============================================================ */

enum target_kind {
    TARGET_META,
    TARGET_BRANCH,
    TARGET_LEAF,
    TARGET_FIXED_LEAF,
    TARGET_RUN,
    TARGET_SUB_PAGE,
    TARGET_NODE,        /* of a leaf or a sub-page */
    TARGET_CHILD,       /* node of a branch page */
    TARGET_RECORD,      /* of a database or a tree of duplicates */
    TARGET_FREE,        /* the value of a free-list record */
    TARGET_KINDS
};

static const char *const target_names[TARGET_KINDS] = {
    "meta", "branch", "leaf", "fixed leaf", "run", "sub-page", "node", "child", "record", "free-list record",
};

/* Bytes of the file that mean something. */
struct target {
    size_t at;
    size_t size;
    pgno_t page;        /* that they lie on */
};

struct targets {
    struct target *items;
    size_t count, room;
};

struct sample {
    const struct sample_kind *kind;
    unsigned page_size;
    struct bytes file;
    struct targets targets[TARGET_KINDS];
};

static struct sample samples[SAMPLES];

static void target_add(struct sample *sample, enum target_kind kind, const void *start, size_t size)
{
    struct targets *targets = &sample->targets[kind];
    struct target *target;
    size_t at = (size_t)((const unsigned char *)start - sample->file.start);

    CHECK(at + size <= sample->file.size);
    if (targets->count == targets->room) {
        targets->room = targets->room * 2 + 16;
        targets->items = realloc(targets->items, targets->room * sizeof(*targets->items));
        CHECK(targets->items != NULL);
    }
    target = &targets->items[targets->count++];
    target->at = at;
    target->size = size;
    target->page = at / sample->page_size;
}

static const struct page *sample_page(const struct sample *sample, pgno_t pgno)
{
    CHECK((pgno + 1) * sample->page_size <= sample->file.size);
    return (const struct page *)(sample->file.start + pgno * sample->page_size);
}

static void tree_index(struct sample *sample, const struct db_record *record, int is_free_list);

static void node_index(struct sample *sample, const struct node *node, int is_free_list)
{
    const unsigned char *data = node_data_const(node);
    const struct page *page;
    struct db_record record;

    target_add(sample, TARGET_NODE, node, NODE_HEADER + node->ksize + node_inline_size(node));
    if ((node->flags & N_BIGDATA) != 0) {
        page = sample_page(sample, node_run(node));
        target_add(sample, TARGET_RUN, page, (size_t)page->run_pages * sample->page_size);
        data = page_bytes_const(page) + PAGE_HEADER;
    }
    if (is_free_list)
        target_add(sample, TARGET_FREE, data, node_data_size(node));
    if ((node->flags & N_SUBDATA) != 0) {
        record = node_record(node);
        target_add(sample, TARGET_RECORD, data, sizeof(record));
        tree_index(sample, &record, 0);
    } else if ((node->flags & N_DUPDATA) != 0) {
        unsigned i;

        page = node_sub_page_const(node);
        target_add(sample, TARGET_SUB_PAGE, page, node_data_size(node));
        for (i = 0; !page_is_leaf2(page) && i < page_count(page); i++)
            node_index(sample, page_node_const(page, i), 0);
    }
}

static void page_index(struct sample *sample, pgno_t pgno, int is_free_list)
{
    const struct page *page = sample_page(sample, pgno);
    unsigned i;

    if (page_is_leaf2(page)) {
        target_add(sample, TARGET_FIXED_LEAF, page, sample->page_size);
        return;
    }
    target_add(sample, page_is_branch(page) ? TARGET_BRANCH : TARGET_LEAF, page, sample->page_size);
    for (i = 0; i < page_count(page); i++) {
        const struct node *node = page_node_const(page, i);

        if (page_is_branch(page)) {
            target_add(sample, TARGET_CHILD, node, NODE_HEADER + node->ksize);
            page_index(sample, node_child(node), is_free_list);
        } else {
            node_index(sample, node, is_free_list);
        }
    }
}

static void tree_index(struct sample *sample, const struct db_record *record, int is_free_list)
{
    if (record->root != PGNO_NONE)
        page_index(sample, record->root, is_free_list);
}

static void sample_index(struct sample *sample)
{
    const struct meta *metas[META_PAGES], *newest;
    unsigned i;

    for (i = 0; i < META_PAGES; i++)
        metas[i] = page_meta_const(sample_page(sample, i));
    newest = metas[1]->txnid > metas[0]->txnid ? metas[1] : metas[0];
    target_add(sample, TARGET_META, metas[0], sizeof(struct meta));
    target_add(sample, TARGET_META, metas[1], sizeof(struct meta));
    for (i = 0; i < CORE_DBS; i++) {
        target_add(sample, TARGET_RECORD, &newest->dbs[i], sizeof(newest->dbs[i]));
        tree_index(sample, &newest->dbs[i], i == FREE_DBI);
    }
}

static void database_fill(MDB_txn *txn, const struct database *database, unsigned page_size)
{
    static struct room key_room, value_room;
    MDB_dbi dbi;
    unsigned i, j;

    CHECK_OK(mdb_dbi_open(txn, database->name, database->flags | (database->name != NULL ? MDB_CREATE : 0), &dbi));
    for (i = 0; i < keys_of(database, page_size); i++) {
        MDB_val key = key_make(&key_room, database, i);

        for (j = 0; j < values_of(database, page_size, i); j++) {
            MDB_val value = value_make(&value_room, database, page_size, i + j);

            CHECK_OK(mdb_put(txn, dbi, &key, &value, 0));
        }
    }
}

/* Replaces a record, so that each transaction frees some pages; every other one many. */
static void database_stir(MDB_txn *txn, const struct database *database, unsigned page_size, unsigned round)
{
    static struct room key_room, value_room;
    unsigned keys = keys_of(database, page_size), i;
    MDB_dbi dbi;

    CHECK_OK(mdb_dbi_open(txn, database->name, 0, &dbi));
    for (i = round % 7; i < keys; i += round % 2 != 0 ? 3 : keys) {
        MDB_val key = key_make(&key_room, database, i);
        MDB_val value = value_make(&value_room, database, page_size, i);

        CHECK_OK(mdb_del(txn, dbi, &key, &value));
        CHECK_OK(mdb_put(txn, dbi, &key, &value, 0));
    }
}

/* A reader keeps what the transactions free from being used again, so that there are many free-list records. */
static void sample_write(const struct sample_kind *kind, const char *path, unsigned page_size)
{
    MDB_env *env = env_open_sized(path, MDB_NOSUBDIR | MDB_NOTLS | MDB_NOSYNC | kind->env_flags, (size_t)16 << 20,
                                  DATABASES_MAX, page_size);
    MDB_txn *txn = begin_write(env), *reader;
    unsigned round, i;

    for (i = 0; i < kind->count; i++)
        database_fill(txn, &kind->databases[i], page_size);
    CHECK_OK(mdb_txn_commit(txn));
    reader = begin_read(env);
    for (round = 0; round < 16; round++) {
        txn = begin_write(env);
        database_stir(txn, &kind->databases[round % kind->count], page_size, round);
        CHECK_OK(mdb_txn_commit(txn));
    }
    mdb_txn_abort(reader);
    mdb_env_close(env);
}

static void samples_make(void)
{
    unsigned i;

    for (i = 0; i < SAMPLES && samples[i].kind == NULL; i++) {
        struct sample *sample = &samples[i];
        char *dir = temp_dir_make();
        const char *path = path_in(dir, "sample");

        sample->kind = &sample_kinds[i / PAGE_SIZES];
        sample->page_size = page_sizes[i % PAGE_SIZES];
        sample_write(sample->kind, path, sample->page_size);
        sample->file = file_read(path);
        sample_index(sample);
        temp_dir_remove(dir);
    }
}

/* ==== What the child tells its parent ==================================== */

/* Lies in memory that both see. */
struct progress {
    unsigned number;                /* of the case */
    const char *stage;              /* what the child does with the file; texts are at the same place in both */
    char description[DESCRIPTION_SIZE];
    unsigned opened, refused, corrupted, committed;
    int unexpected;                 /* the code that no file should cause */
};

static struct progress *progress;

static int verbose;

static void stage_begin(const char *stage)
{
    progress->stage = stage;
    if (verbose) {
        printf("  %s\n", stage);
        fflush(stdout);
    }
}

static void __attribute__((format(printf, 1, 2))) describe(const char *format, ...)
{
    size_t size = strlen(progress->description);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(progress->description + size, DESCRIPTION_SIZE - size, format, arguments);
    va_end(arguments);
}

/* ==== Damage ============================================================= */

struct damage {
    struct random *random;
    const struct sample *sample;
    unsigned char *bytes;
    size_t size;                    /* of the file; may be less than the sample's */
};

static size_t damage_below(struct damage *damage, size_t bound)
{
    return (size_t)random_below(damage->random, bound);
}

static int damage_one_in(struct damage *damage, unsigned chances)
{
    return random_one_in(damage->random, chances);
}

static pgno_t damage_pages(const struct damage *damage)
{
    return damage->sample->file.size / damage->sample->page_size;
}

static const struct target *target_pick(struct damage *damage, enum target_kind kind)
{
    const struct targets *targets = &damage->sample->targets[kind];

    return targets->count > 0 ? &targets->items[damage_below(damage, targets->count)] : NULL;
}

static struct page *damage_page(struct damage *damage, pgno_t pgno)
{
    return (struct page *)(damage->bytes + pgno * damage->sample->page_size);
}

static uint64_t number_load(const unsigned char *bytes, unsigned width)
{
    uint64_t number = 0;

    memcpy(&number, bytes, width);  /* little-endian, as are all machines that these tests are run on; else: others */
    return number;
}

/* Some number for a field: near what it was, near a limit, or anything. */
static uint64_t number_pick(struct damage *damage, uint64_t old)
{
    uint64_t page_size = damage->sample->page_size;

    switch (damage_below(damage, 12)) {
    case 0:
        return old + 1;
    case 1:
        return old - 1;
    case 2:
        return old + 2;
    case 3:
        return old - 2;
    case 4:
        return 0;
    case 5:
        return 1;
    case 6:
        return UINT64_MAX;
    case 7:
        return old ^ (uint64_t)1 << damage_below(damage, 16);
    case 8:
        return old ^ (uint64_t)1 << damage_below(damage, 64);
    case 9:
        return page_size + 2 - damage_below(damage, 5);
    case 10:
        return damage_below(damage, page_size);
    default:
        return random_next(damage->random);
    }
}

/* Some page: of this kind, any one, or one that cannot be. */
static uint64_t pgno_pick(struct damage *damage, uint64_t old, pgno_t self)
{
    static const enum target_kind kinds[] = { TARGET_BRANCH, TARGET_LEAF, TARGET_FIXED_LEAF, TARGET_RUN };
    const struct target *target;

    switch (damage_below(damage, 10)) {
    case 0:
        return self;
    case 1:
        return damage_below(damage, META_PAGES);
    case 2:
        return damage_pages(damage) - 1 + damage_below(damage, 4);
    case 3:
        return damage_below(damage, damage_pages(damage));
    case 4:
        return number_pick(damage, old);
    case 5:
        return PGNO_NONE;
    default:
        target = target_pick(damage, kinds[damage_below(damage, ARRAY_COUNT(kinds))]);
        return target != NULL ? target->page : old;
    }
}

static uint64_t flags_pick(struct damage *damage, uint64_t old)
{
    switch (damage_below(damage, 6)) {
    case 0:
        return random_next(damage->random);
    case 1:
        return damage_below(damage, 128);
    case 2:
        return old ^ (uint64_t)1 << damage_below(damage, 7) ^ (uint64_t)1 << damage_below(damage, 7);
    case 3:
        return old ^ (uint64_t)1 << damage_below(damage, 16);
    default:
        return old ^ (uint64_t)1 << damage_below(damage, 7);
    }
}

enum field_type { FIELD_NUMBER, FIELD_PGNO, FIELD_FLAGS };

struct field {
    const char *name;
    size_t offset;
    unsigned width;
    enum field_type type;
};

#define FIELD_AT(offset, structure, member, type) \
    { #member, (offset) + offsetof(struct structure, member), sizeof(((struct structure *)0)->member), type }
#define FIELD(structure, member, type) FIELD_AT(0, structure, member, type)

static const struct field page_fields[] = {
    FIELD(page, pgno, FIELD_PGNO),
    FIELD(page, pad, FIELD_NUMBER),
    FIELD(page, flags, FIELD_FLAGS),
    FIELD(page, lower, FIELD_NUMBER),
    FIELD(page, upper, FIELD_NUMBER),
};
static const struct field run_fields[] = {
    FIELD(page, pgno, FIELD_PGNO),
    FIELD(page, flags, FIELD_FLAGS),
    FIELD(page, run_pages, FIELD_NUMBER),
    FIELD(page, run_pages, FIELD_NUMBER),
};
static const struct field node_fields[] = {
    FIELD(node, lo, FIELD_NUMBER),
    FIELD(node, hi, FIELD_NUMBER),
    FIELD(node, flags, FIELD_FLAGS),
    FIELD(node, ksize, FIELD_NUMBER),
};
static const struct field child_fields[] = {
    FIELD(node, lo, FIELD_PGNO),
    FIELD(node, lo, FIELD_PGNO),
    FIELD(node, hi, FIELD_NUMBER),
    FIELD(node, flags, FIELD_NUMBER),
    FIELD(node, ksize, FIELD_NUMBER),
};
static const struct field record_fields[] = {
    FIELD(db_record, pad, FIELD_NUMBER),
    FIELD(db_record, flags, FIELD_FLAGS),
    FIELD(db_record, flags, FIELD_FLAGS),
    FIELD(db_record, depth, FIELD_NUMBER),
    FIELD(db_record, branch_pages, FIELD_NUMBER),
    FIELD(db_record, leaf_pages, FIELD_NUMBER),
    FIELD(db_record, overflow_pages, FIELD_NUMBER),
    FIELD(db_record, entries, FIELD_NUMBER),
    FIELD(db_record, root, FIELD_PGNO),
    FIELD(db_record, root, FIELD_PGNO),
};
static const struct field meta_fields[] = {
    FIELD(meta, magic, FIELD_NUMBER),
    FIELD(meta, version, FIELD_NUMBER),
    FIELD(meta, address, FIELD_NUMBER),
    FIELD(meta, mapsize, FIELD_NUMBER),
    FIELD(meta, last_pgno, FIELD_PGNO),
    FIELD(meta, last_pgno, FIELD_NUMBER),
    FIELD(meta, txnid, FIELD_NUMBER),
    FIELD_AT(offsetof(struct meta, dbs), db_record, pad, FIELD_NUMBER),
    FIELD_AT(offsetof(struct meta, dbs), db_record, flags, FIELD_FLAGS),
};

#define FIELDS(fields) { fields, ARRAY_COUNT(fields) }

static const struct {
    const struct field *fields;
    size_t count;
} fields_of[TARGET_FREE] = {
    FIELDS(meta_fields), FIELDS(page_fields), FIELDS(page_fields), FIELDS(page_fields), FIELDS(run_fields),
    FIELDS(page_fields), FIELDS(node_fields), FIELDS(child_fields), FIELDS(record_fields),
};

static void field_change(struct damage *damage, enum target_kind kind, const struct target *target,
                         const struct field *field)
{
    unsigned char *bytes = damage->bytes + target->at + field->offset;
    uint64_t old = number_load(bytes, field->width), new;

    switch (field->type) {
    case FIELD_PGNO:
        new = pgno_pick(damage, old, target->page);
        break;
    case FIELD_FLAGS:
        new = flags_pick(damage, old);
        break;
    default:
        new = number_pick(damage, old);
        break;
    }
    memcpy(bytes, &new, field->width);
    describe("; %s at %zu (page %zu): %s %llu to %llu", target_names[kind], target->at, target->page, field->name,
             (unsigned long long)old, (unsigned long long)number_load(bytes, field->width));
}

static void some_field(struct damage *damage)
{
    static const enum target_kind kinds[] = {
        TARGET_META, TARGET_BRANCH, TARGET_LEAF, TARGET_FIXED_LEAF, TARGET_RUN, TARGET_SUB_PAGE, TARGET_SUB_PAGE,
        TARGET_NODE, TARGET_NODE, TARGET_CHILD, TARGET_CHILD, TARGET_RECORD, TARGET_RECORD, TARGET_RECORD,
    };
    enum target_kind kind = kinds[damage_below(damage, ARRAY_COUNT(kinds))];
    const struct target *target = target_pick(damage, kind);

    if (target != NULL)
        field_change(damage, kind, target, &fields_of[kind].fields[damage_below(damage, fields_of[kind].count)]);
}

/* Names the first record, those of the core databases, as often as all others together. */
static void some_record(struct damage *damage)
{
    const struct targets *records = &damage->sample->targets[TARGET_RECORD];
    const struct target *target = &records->items[damage_one_in(damage, 2) ? 0 : damage_below(damage, records->count)];

    field_change(damage, TARGET_RECORD, target, &record_fields[damage_below(damage, ARRAY_COUNT(record_fields))]);
}

/* A page, or sub-page, of nodes. */
static struct page *node_page_pick(struct damage *damage, const struct target **target)
{
    static const enum target_kind kinds[] = { TARGET_BRANCH, TARGET_LEAF, TARGET_LEAF, TARGET_SUB_PAGE };

    *target = target_pick(damage, kinds[damage_below(damage, ARRAY_COUNT(kinds))]);
    return *target != NULL ? (struct page *)(damage->bytes + (*target)->at) : NULL;
}

/* The number of a page's slots that lie inside it, whatever an earlier damage says. */
static unsigned slots_of(const struct page *page, size_t size)
{
    unsigned count = page->lower >= PAGE_HEADER ? page_count(page) : 0;
    unsigned most = (unsigned)(size - PAGE_HEADER) / SLOT_SIZE;

    return count < most ? count : most;
}

static void some_slot(struct damage *damage)
{
    const struct target *target;
    struct page *page = node_page_pick(damage, &target);
    unsigned count = page != NULL ? slots_of(page, target->size) : 0, i, j;
    uint16_t old;

    if (count == 0)
        return;
    i = (unsigned)damage_below(damage, count);
    j = (unsigned)damage_below(damage, count);
    old = page->offsets[i];
    switch (damage_below(damage, 3)) {
    case 0:
        page->offsets[i] = page->offsets[j];
        page->offsets[j] = old;
        describe("; page %zu, at %zu: nodes %u and %u swapped", target->page, target->at, i, j);
        return;
    case 1:
        page->offsets[i] = page->offsets[j];
        break;
    default:
        page->offsets[i] = (uint16_t)number_pick(damage, old);
        break;
    }
    describe("; page %zu, at %zu: slot %u %u to %u", target->page, target->at, i, old, page->offsets[i]);
}

/* One of the numbers of a free-list record: its count or a page. */
static void some_free_number(struct damage *damage)
{
    const struct target *target = target_pick(damage, TARGET_FREE);
    size_t numbers = target->size / sizeof(pgno_t), i;
    pgno_t number, old;

    i = damage_one_in(damage, 4) ? 0 : damage_below(damage, numbers);
    memcpy(&old, damage->bytes + target->at + i * sizeof(old), sizeof(old));
    number = i == 0 ? number_pick(damage, old) : pgno_pick(damage, old, target->page);
    memcpy(damage->bytes + target->at + i * sizeof(number), &number, sizeof(number));
    describe("; free-list record at %zu: number %zu from %zu to %zu", target->at, i, old, number);
}

static int pgno_compare_descending(const void *left, const void *right)
{
    pgno_t left_pgno = *(const pgno_t *)left, right_pgno = *(const pgno_t *)right;

    return left_pgno > right_pgno ? -1 : left_pgno < right_pgno;
}

/* A record that looks sound but calls pages free that are in use, or that stand in another record as well. */
static void some_free_pages_in_use(struct damage *damage)
{
    const struct target *target = target_pick(damage, TARGET_FREE);
    size_t numbers = target->size / sizeof(pgno_t), i;
    pgno_t *pages = malloc((numbers + 1) * sizeof(*pages));

    CHECK(pages != NULL);
    for (i = 1; i < numbers; i++)
        pages[i] = META_PAGES + damage_below(damage, damage_pages(damage) - META_PAGES);
    qsort(pages + 1, numbers - 1, sizeof(*pages), pgno_compare_descending);
    pages[0] = 0;
    for (i = 1; i < numbers; i++) {
        if (pages[0] == 0 || pages[i] < pages[pages[0]]) {
            pages[0]++;
            pages[pages[0]] = pages[i];
        }
    }
    memcpy(damage->bytes + target->at, pages, numbers * sizeof(*pages));
    describe("; free-list record at %zu: %zu other pages", target->at, pages[0]);
    free(pages);
}

static void some_pages_copied_or_swapped(struct damage *damage)
{
    size_t page_size = damage->sample->page_size;
    pgno_t from = damage_below(damage, damage_pages(damage)), to = damage_below(damage, damage_pages(damage));
    struct page *source = damage_page(damage, from), *target = damage_page(damage, to);
    int swap = damage_one_in(damage, 2), number_kept = damage_one_in(damage, 3);
    unsigned char *saved = malloc(page_size);

    CHECK(saved != NULL);
    memcpy(saved, target, page_size);
    memcpy(target, source, page_size);
    if (swap)
        memcpy(source, saved, page_size);
    if (!number_kept) {
        source->pgno = from;
        target->pgno = to;
    }
    describe("; page %zu %s %zu%s", from, swap ? "swapped with" : "copied to", to, number_kept ? ", numbers too" : "");
    free(saved);
}

static void some_page_filled(struct damage *damage)
{
    pgno_t pgno = damage_below(damage, damage_pages(damage));
    unsigned char *bytes = page_bytes(damage_page(damage, pgno));
    size_t page_size = damage->sample->page_size, header = damage_one_in(damage, 2) ? PAGE_HEADER : 0;

    switch (damage_below(damage, 3)) {
    case 0:
        memset(bytes + header, 0, page_size - header);
        break;
    case 1:
        memset(bytes + header, 0xff, page_size - header);
        break;
    default:
        random_fill(damage->random, bytes + header, page_size - header);
        break;
    }
    describe("; page %zu overwritten from byte %zu", pgno, header);
}

static void some_bytes(struct damage *damage)
{
    unsigned changes = 1 + (unsigned)damage_below(damage, 30), i;
    size_t page_size = damage->sample->page_size;

    for (i = 0; i < changes; i++) {
        unsigned char *bytes = page_bytes(damage_page(damage, damage_below(damage, damage_pages(damage))));
        size_t end = damage_one_in(damage, 2) ? 64 : page_size; /* headers and slots more often */

        if (damage_one_in(damage, 2))
            bytes[damage_below(damage, end)] ^= (unsigned char)(1u << damage_below(damage, 8));
        else
            random_fill(damage->random, bytes + damage_below(damage, end - 8), 1 + damage_below(damage, 8));
    }
    describe("; %u times some bytes", changes);
}

static void file_cut(struct damage *damage)
{
    size_t page_size = damage->sample->page_size;

    damage->size = damage_below(damage, damage->size + 1);
    if (damage_one_in(damage, 2))
        damage->size -= damage->size % page_size;
    describe("; cut to %zu bytes", damage->size);
}

static void some_metas(struct damage *damage)
{
    struct meta *metas[META_PAGES];
    unsigned number = (unsigned)damage_below(damage, META_PAGES);

    metas[0] = page_meta(damage_page(damage, 0));
    metas[1] = page_meta(damage_page(damage, 1));
    switch (damage_below(damage, 4)) {
    case 0:
        memcpy(metas[number], metas[1 - number], sizeof(struct meta));
        metas[number]->txnid++;
        describe("; meta %u: a copy of the other one", number);
        break;
    case 1:
        metas[number]->magic ^= 1;
        describe("; meta %u: wrong magic", number);
        break;
    case 2:
        metas[0]->txnid = metas[1]->txnid = 0;
        describe("; both metas: transaction 0");
        break;
    default:
        metas[number]->txnid = (UINT64_MAX & ~(txnid_t)7) + number;
        describe("; meta %u: the last transaction of all", number);
        break;
    }
}

/* The file asks to be mapped where this program lies. */
static void map_address_in_use(struct damage *damage)
{
    static const unsigned char inside_program;
    uintptr_t address = damage_one_in(damage, 2) ? (uintptr_t)&inside_program : (uintptr_t)&damage;
    unsigned i;

    for (i = 0; i < META_PAGES; i++) {
        struct meta *meta = page_meta(damage_page(damage, i));

        meta->address = (size_t)(address & ~(uintptr_t)0xffff);
        meta->dbs[FREE_DBI].flags |= MDB_FIXEDMAP;
    }
    describe("; to be mapped at a place in use");
}

/* A branch page of `count` children, all the same one. */
static void branch_make(struct page *branch, pgno_t pgno, size_t page_size, unsigned count, pgno_t child)
{
    unsigned i;

    memset(branch, 0, page_size);
    branch->pgno = pgno;
    branch->flags = P_BRANCH;
    branch->lower = (uint16_t)(PAGE_HEADER + count * SLOT_SIZE);
    branch->upper = (uint16_t)page_size;
    for (i = 0; i < count; i++) {
        struct node *node;

        branch->upper = (uint16_t)(branch->upper - NODE_HEADER - 2);
        branch->offsets[i] = branch->upper;
        node = page_node(branch, i);
        node_set_child(node, child);
        node->ksize = 2;
        node->bytes[0] = '0';
        node->bytes[1] = (unsigned char)(' ' + i);
    }
}

/* Few pages, but more ways through them than can ever be walked: each level's children are all the same page. */
static void tree_of_shared_branches(struct damage *damage)
{
    const struct target *record_target = target_pick(damage, TARGET_RECORD);
    const struct target *leaf = target_pick(damage, damage_one_in(damage, 3) ? TARGET_FIXED_LEAF : TARGET_LEAF);
    size_t page_size = damage->sample->page_size;
    unsigned levels = 1 + (unsigned)damage_below(damage, DEPTH_MAX - 1);
    unsigned count = 2 + (unsigned)damage_below(damage, 38), i;
    pgno_t child = leaf != NULL ? leaf->page : META_PAGES;
    struct db_record record;

    for (i = 0; i < levels; i++) {
        pgno_t pgno = META_PAGES + (child - META_PAGES + 1) % (damage_pages(damage) - META_PAGES);

        branch_make(damage_page(damage, pgno), pgno, page_size, count, child);
        child = pgno;
    }
    memcpy(&record, damage->bytes + record_target->at, sizeof(record));
    record.root = child;
    record.depth = (uint16_t)(levels + 1);
    memcpy(damage->bytes + record_target->at, &record, sizeof(record));
    describe("; record at %zu (page %zu): %u levels of %u times the same child, root %zu", record_target->at,
             record_target->page, levels, count, child);
}

typedef void damage_function(struct damage *damage);

static const struct {
    damage_function *function;
    unsigned weight;
} damages[] = {
    { some_field, 40 },
    { some_record, 10 },
    { some_slot, 12 },
    { some_free_number, 10 },
    { some_free_pages_in_use, 8 },
    { some_pages_copied_or_swapped, 10 },
    { some_page_filled, 4 },
    { some_bytes, 8 },
    { file_cut, 4 },
    { some_metas, 2 },
    { map_address_in_use, 1 },
    { tree_of_shared_branches, 3 },
};

static void damage_once(struct damage *damage)
{
    size_t total = 0, chosen, i;

    for (i = 0; i < ARRAY_COUNT(damages); i++)
        total += damages[i].weight;
    chosen = damage_below(damage, total);
    for (i = 0; chosen >= damages[i].weight; i++)
        chosen -= damages[i].weight;
    damages[i].function(damage);
}

static void damage_do(struct damage *damage)
{
    unsigned times = damage_one_in(damage, 3) ? 1 + (unsigned)damage_below(damage, 6) : 1, i;

    for (i = 0; i < times; i++)
        damage_once(damage);
}

/* ==== Using a damaged file =============================================== */

struct session {
    struct random *random;
    const struct sample *sample;
    const char *path;
    MDB_env *env;
    size_t page_size;               /* of the file: damage can make it look new */
    MDB_txn *txn;
    MDB_dbi dbis[DATABASES_MAX];    /* NO_DBI: cannot be opened */
    int undamaged;                  /* and so MDB_CORRUPTED is not expected */
    unsigned sum;                   /* of all bytes read, so that they are read */
};

#define NO_DBI ((MDB_dbi)-1)

static unsigned session_below(struct session *session, unsigned bound)
{
    return (unsigned)random_below(session->random, bound);
}

/* Takes note of a result. What damaged files may lead to is said here; the system's errors are those of files that
 * claim to be larger than fits. */
static int judge(struct session *session, int rc)
{
    switch (rc) {
    case MDB_CORRUPTED:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case ENOMEM:
    case EFBIG:
    case ENOSPC:
    case EIO:
    case EBUSY:
        progress->corrupted++;
        if (!session->undamaged)
            return rc;
        break;
    case MDB_SUCCESS:
    case MDB_NOTFOUND:
    case MDB_KEYEXIST:
    case MDB_MAP_FULL:
    case MDB_BAD_TXN:
    case MDB_BAD_VALSIZE:
    case MDB_INCOMPATIBLE:
    case MDB_BAD_DBI:
    case EINVAL:
    case EACCES:
        return rc;
    default:
        break;
    }
    progress->unexpected = rc;
    _exit(1);
}

/* Reads what a call handed out. Outside of write transactions it lies in the map, and so inside one page of the file
 * or behind the header of a run: pages are at multiples of their size in memory too. */
static void val_read(struct session *session, const MDB_val *val, int in_map)
{
    const unsigned char *bytes = val->mv_data;
    size_t offset = (uintptr_t)bytes % session->page_size, i;

    if (in_map && val->mv_size > 0 && offset != PAGE_HEADER && offset + val->mv_size > session->page_size) {
        stage_begin("given bytes that do not lie on one page");
        _exit(1);
    }
    for (i = 0; i < val->mv_size; i++)
        session->sum += bytes[i];
}

static int moved_read(struct session *session, MDB_cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op)
{
    const void *own_key = key->mv_data, *own_data = data->mv_data;
    int in_map = mdb_txn_env(mdb_cursor_txn(cursor)) == session->env && session->txn == NULL;
    int rc = judge(session, mdb_cursor_get(cursor, key, data, op));

    if (rc == MDB_SUCCESS && key->mv_data != own_key)
        val_read(session, key, in_map);
    if (rc == MDB_SUCCESS && data->mv_data != own_data)
        val_read(session, data, in_map);
    return rc;
}

static void walk(struct session *session, MDB_cursor *cursor, MDB_cursor_op first, MDB_cursor_op step)
{
    MDB_val key = val_text(""), data = val_text("");
    unsigned steps = 0;
    int rc;

    for (rc = moved_read(session, cursor, &key, &data, first); rc == MDB_SUCCESS && steps < WALK_STEPS_MAX; steps++)
        rc = moved_read(session, cursor, &key, &data, step);
}

/* A key of the database, or one next to it. */
static MDB_val some_key(struct session *session, const struct database *database, struct room *room)
{
    unsigned keys = keys_of(database, session->sample->page_size);

    return key_make(room, database, session_below(session, keys + keys / 4 + 4));
}

static MDB_val some_value(struct session *session, const struct database *database, struct room *room)
{
    unsigned keys = keys_of(database, session->sample->page_size);

    return value_make(room, database, session->sample->page_size, session_below(session, keys + keys / 4 + 30));
}

static void some_moves(struct session *session, const struct database *database, MDB_cursor *cursor, unsigned moves)
{
    static struct room key_room, value_room;
    mdb_size_t count;

    while (moves-- > 0) {
        MDB_val key = some_key(session, database, &key_room), data = some_value(session, database, &value_room);
        MDB_cursor_op op = (MDB_cursor_op)session_below(session, MDB_PREV_MULTIPLE + 1);

        moved_read(session, cursor, &key, &data, op);
        if (session_below(session, 8) == 0)
            judge(session, mdb_cursor_count(cursor, &count));
    }
}

static void some_gets(struct session *session, MDB_txn *txn, MDB_dbi dbi, const struct database *database)
{
    static struct room room;
    unsigned i;

    for (i = 0; i < 10; i++) {
        MDB_val key = some_key(session, database, &room), data;

        if (judge(session, mdb_get(txn, dbi, &key, &data)) == MDB_SUCCESS)
            val_read(session, &data, session->txn == NULL);
    }
}

static void database_read(struct session *session, MDB_txn *txn, unsigned index)
{
    const struct database *database = &session->sample->kind->databases[index];
    static const MDB_cursor_op walks[][2] = {
        { MDB_FIRST, MDB_NEXT }, { MDB_LAST, MDB_PREV }, { MDB_FIRST, MDB_NEXT_NODUP }, { MDB_LAST, MDB_PREV_NODUP },
    };
    MDB_dbi dbi = session->dbis[index];
    MDB_cursor *cursor;
    MDB_stat stat;
    unsigned flags;
    size_t i;

    if (dbi == NO_DBI || judge(session, mdb_stat(txn, dbi, &stat)) != MDB_SUCCESS
        || judge(session, mdb_dbi_flags(txn, dbi, &flags)) != MDB_SUCCESS
        || judge(session, mdb_cursor_open(txn, dbi, &cursor)) != MDB_SUCCESS)
        return;
    for (i = 0; i < ARRAY_COUNT(walks); i++)
        walk(session, cursor, walks[i][0], walks[i][1]);
    some_moves(session, database, cursor, 40);
    mdb_cursor_close(cursor);
    some_gets(session, txn, dbi, database);
}

static void databases_open(struct session *session, MDB_txn *txn)
{
    const struct sample_kind *kind = session->sample->kind;
    unsigned i;

    for (i = 0; i < kind->count; i++) {
        if (judge(session, mdb_dbi_open(txn, kind->databases[i].name, 0, &session->dbis[i])) != MDB_SUCCESS)
            session->dbis[i] = NO_DBI;
    }
}

static void databases_read(struct session *session, MDB_txn *txn)
{
    unsigned i;

    for (i = 0; i < session->sample->kind->count; i++)
        database_read(session, txn, i);
}

static void read_all(struct session *session)
{
    MDB_txn *txn;

    if (judge(session, mdb_txn_begin(session->env, NULL, MDB_RDONLY, &txn)) != MDB_SUCCESS)
        return;
    databases_open(session, txn);
    databases_read(session, txn);
    judge(session, mdb_txn_commit(txn));
}

/* ---- changes ---- */

/* A value to write into, for half of the puts without duplicates. */
static int some_put(struct session *session, MDB_dbi dbi, const struct database *database)
{
    static const unsigned choices[] = {
        0, 0, 0, MDB_NOOVERWRITE, MDB_NODUPDATA, MDB_APPEND, MDB_APPENDDUP, MDB_RESERVE, MDB_RESERVE,
    };
    static struct room key_room, value_room;
    MDB_val key = some_key(session, database, &key_room), data = some_value(session, database, &value_room);
    unsigned flags = choices[session_below(session, ARRAY_COUNT(choices))];
    int rc;

    if ((flags & MDB_RESERVE) != 0 && (database->flags & MDB_DUPSORT) != 0)
        flags = 0;
    rc = judge(session, mdb_put(session->txn, dbi, &key, &data, flags));
    if (rc == MDB_SUCCESS && (flags & MDB_RESERVE) != 0)
        memset(data.mv_data, 'r', data.mv_size);
    return rc;
}

static int some_del(struct session *session, MDB_dbi dbi, const struct database *database)
{
    static struct room key_room, value_room;
    MDB_val key = some_key(session, database, &key_room), data = some_value(session, database, &value_room);

    return judge(session, mdb_del(session->txn, dbi, &key, session_below(session, 2) != 0 ? &data : NULL));
}

static int cursor_change(struct session *session, MDB_cursor *cursor, const struct database *database)
{
    static const unsigned choices[] = { 0, 0, MDB_CURRENT, MDB_CURRENT, MDB_NODUPDATA, MDB_APPENDDUP, MDB_MULTIPLE };
    static struct room key_room, value_room;
    MDB_val key = some_key(session, database, &key_room), data[2];
    unsigned flags = choices[session_below(session, ARRAY_COUNT(choices))];

    if (session_below(session, 2) == 0)
        return judge(session, mdb_cursor_del(cursor, session_below(session, 4) == 0 ? MDB_NODUPDATA : 0));
    data[0] = some_value(session, database, &value_room);
    data[1].mv_data = NULL;
    data[1].mv_size = 4;
    if ((flags & MDB_MULTIPLE) != 0) {
        if (database->value_size == 0)
            return MDB_SUCCESS;
        pattern_fill(value_room.bytes, 4 * database->value_size, session_below(session, 1000));
    }
    return judge(session, mdb_cursor_put(cursor, &key, data, flags));
}

/* Two cursors, so that one has to follow what the other does. */
static int cursors_change(struct session *session, MDB_dbi dbi, const struct database *database)
{
    MDB_cursor *cursor, *other;
    unsigned i;
    int rc = judge(session, mdb_cursor_open(session->txn, dbi, &cursor));

    if (rc != MDB_SUCCESS)
        return rc;
    if ((rc = judge(session, mdb_cursor_open(session->txn, dbi, &other))) == MDB_SUCCESS) {
        for (i = 0; i < 12 && rc != MDB_CORRUPTED; i++) {
            some_moves(session, database, session_below(session, 2) == 0 ? cursor : other, 2);
            rc = cursor_change(session, cursor, database);
        }
        mdb_cursor_close(other);
    }
    mdb_cursor_close(cursor);
    return rc;
}

/* Ascending keys, so that pages split; or all records in a row are deleted, so that pages merge. */
static int much_change(struct session *session, MDB_dbi dbi, const struct database *database)
{
    static struct room key_room, value_room;
    unsigned from = session_below(session, keys_of(database, session->sample->page_size) + 1), i;
    MDB_cursor *cursor;
    MDB_val key, data;
    int rc = MDB_SUCCESS;

    if (session_below(session, 2) == 0) {
        for (i = from; i < from + 40 && rc != MDB_CORRUPTED; i++) {
            key = key_make(&key_room, database, i * 3);
            data = some_value(session, database, &value_room);
            rc = judge(session, mdb_put(session->txn, dbi, &key, &data, 0));
        }
        return rc;
    }
    if ((rc = judge(session, mdb_cursor_open(session->txn, dbi, &cursor))) != MDB_SUCCESS)
        return rc;
    key = key_make(&key_room, database, from);
    rc = moved_read(session, cursor, &key, &data, MDB_SET_RANGE);
    for (i = 0; i < 60 && rc == MDB_SUCCESS; i++) {
        if ((rc = judge(session, mdb_cursor_del(cursor, i % 4 == 3 ? MDB_NODUPDATA : 0))) == MDB_SUCCESS)
            rc = moved_read(session, cursor, &key, &data, session_below(session, 3) == 0 ? MDB_PREV : MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    return rc;
}

static int nested_change(struct session *session, unsigned depth);

static int some_change(struct session *session, unsigned depth)
{
    unsigned index = session_below(session, session->sample->kind->count);
    const struct database *database = &session->sample->kind->databases[index];
    MDB_dbi dbi = session->dbis[index];

    if (dbi == NO_DBI)
        return MDB_SUCCESS;
    switch (session_below(session, 24)) {
    case 0:
        return depth < 3 ? nested_change(session, depth) : MDB_SUCCESS;
    case 1:
        if (session_below(session, 3) != 0)
            return MDB_SUCCESS;
        return judge(session, mdb_drop(session->txn, dbi, (int)session_below(session, 2)));
    case 2:
        return judge(session, mdb_dbi_open(session->txn, "new", MDB_CREATE, &dbi));
    case 3:
        database_read(session, session->txn, index);
        return MDB_SUCCESS;
    case 4:
    case 5:
    case 6:
        return much_change(session, dbi, database);
    case 7:
    case 8:
    case 9:
    case 10:
        return cursors_change(session, dbi, database);
    case 11:
    case 12:
    case 13:
    case 14:
    case 15:
        return some_del(session, dbi, database);
    default:
        return some_put(session, dbi, database);
    }
}

/* Some changes; with a damage found the transaction has failed, and goes on only to see what it answers then. Gives
 * whether it has. */
static int some_changes(struct session *session, unsigned depth)
{
    unsigned changes = 1 + session_below(session, 20);
    int failed = 0;

    while (changes-- > 0) {
        if (some_change(session, depth) == MDB_CORRUPTED) {
            failed = 1;
            changes /= 4;
        }
    }
    return failed;
}

/* A transaction that found its database damaged must not be committed. */
static int changes_end(struct session *session, int failed)
{
    int rc = MDB_SUCCESS;

    if (session_below(session, 5) == 0) {
        mdb_txn_abort(session->txn);
    } else {
        rc = judge(session, mdb_txn_commit(session->txn));
        if (rc == MDB_SUCCESS && failed) {
            stage_begin("committed after MDB_CORRUPTED");
            _exit(1);
        }
        progress->committed += rc == MDB_SUCCESS;
    }
    return rc;
}

static int nested_change(struct session *session, unsigned depth)
{
    MDB_txn *parent = session->txn;
    int rc = judge(session, mdb_txn_begin(session->env, parent, 0, &session->txn));

    if (rc == MDB_SUCCESS)
        rc = changes_end(session, some_changes(session, depth + 1));
    session->txn = parent;
    return rc == MDB_CORRUPTED ? MDB_BAD_TXN : rc; /* the parent is as it was before */
}

static void write_some(struct session *session)
{
    int failed;

    if (judge(session, mdb_txn_begin(session->env, NULL, 0, &session->txn)) != MDB_SUCCESS) {
        session->txn = NULL;
        return;
    }
    databases_open(session, session->txn);
    failed = some_changes(session, 0);
    changes_end(session, failed);
    session->txn = NULL;
}

static void drop_all(struct session *session)
{
    unsigned i;

    for (i = 0; i < session->sample->kind->count; i++) {
        if (judge(session, mdb_txn_begin(session->env, NULL, 0, &session->txn)) != MDB_SUCCESS)
            break;
        databases_open(session, session->txn);
        if (session->dbis[i] != NO_DBI)
            judge(session, mdb_drop(session->txn, session->dbis[i], (int)session_below(session, 2)));
        judge(session, mdb_txn_commit(session->txn));
    }
    session->txn = NULL;
}

static void copy_all(struct session *session)
{
    static const unsigned flags[] = { 0, MDB_CP_COMPACT };
    char path[4096];
    size_t i;

    snprintf(path, sizeof(path), "%s-copy", session->path);
    for (i = 0; i < ARRAY_COUNT(flags); i++) {
        const char *target = session_below(session, 2) == 0 ? "/dev/null" : path;
        int fd = open(target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        CHECK(fd >= 0);
        judge(session, mdb_env_copyfd2(session->env, fd, flags[i]));
        close(fd);
    }
}

/* ---- sessions ---- */

static int session_open(struct session *session, unsigned flags)
{
    size_t page_size = session->sample->page_size;
    MDB_stat stat;
    int rc;

    CHECK_OK(mdb_env_create(&session->env));
    CHECK_OK(mdb_env_set_maxdbs(session->env, DATABASES_MAX));
    describe("; opened with flags 0x%x", flags);
    if (session_below(session, 3) != 0)
        CHECK_OK(mdb_env_set_mapsize(session->env, page_size << (8 + session_below(session, 3))));
    flags |= MDB_NOSUBDIR | MDB_NOTLS | (session_below(session, 16) != 0 ? MDB_NOSYNC : 0);
    rc = judge(session, mdb_env_open(session->env, session->path, flags, 0600));
    if (rc == MDB_SUCCESS) {
        CHECK_OK(mdb_env_stat(session->env, &stat));
        session->page_size = stat.ms_psize;
        progress->opened++;
    } else {
        progress->refused++;
        mdb_env_close(session->env);
    }
    return rc;
}

static void env_ask(struct session *session)
{
    MDB_envinfo info;
    int dead;

    judge(session, mdb_env_info(session->env, &info));
    judge(session, mdb_reader_check(session->env, &dead));
}

static void session_read_only(struct session *session)
{
    stage_begin("opening read-only");
    if (session_open(session, MDB_RDONLY | (session_below(session, 2) == 0 ? MDB_NOLOCK : 0)) != MDB_SUCCESS)
        return;
    env_ask(session);
    stage_begin("reading from a read-only environment");
    read_all(session);
    if (session_below(session, 3) == 0) {
        stage_begin("copying a read-only environment");
        copy_all(session);
    }
    mdb_env_close(session->env);
}

static void session_write(struct session *session)
{
    static const unsigned choices[] = { 0, 0, MDB_WRITEMAP, MDB_NOMEMINIT, MDB_PREVSNAPSHOT, MDB_NOLOCK };
    unsigned flags = choices[session_below(session, ARRAY_COUNT(choices))], i;
    MDB_txn *reader = NULL;

    stage_begin("opening");
    if (session_open(session, flags) != MDB_SUCCESS)
        return;
    env_ask(session);
    stage_begin("reading");
    read_all(session);
    /* Without a lock file writers do not know of readers. */
    if (session_below(session, 3) == 0 && flags != MDB_NOLOCK
        && judge(session, mdb_txn_begin(session->env, NULL, MDB_RDONLY, &reader)) != MDB_SUCCESS)
        reader = NULL;
    stage_begin("writing");
    for (i = 0; i < 8; i++)
        write_some(session);
    stage_begin("copying");
    if (session_below(session, 3) == 0)
        copy_all(session);
    if (reader != NULL) {
        stage_begin("reading a state from before the changes");
        databases_open(session, reader);
        databases_read(session, reader);
        mdb_txn_abort(reader);
    }
    stage_begin("dropping databases");
    if (session_below(session, 3) == 0)
        drop_all(session);
    mdb_env_close(session->env);
}

/* ==== Cases ============================================================== */

/* What a child does with case `number`: all of it follows from the seed and the number. */
static void case_run(unsigned number, const char *path, int undamaged)
{
    struct random random = { test_seed() * UINT64_C(0x100000001) + number };
    const struct sample *sample = &samples[random_below(&random, SAMPLES)];
    struct damage damage = { &random, sample, malloc(sample->file.size), sample->file.size };
    struct session session = { 0 };

    CHECK(damage.bytes != NULL);
    memcpy(damage.bytes, sample->file.start, sample->file.size);
    progress->number = number;
    progress->unexpected = 0;
    progress->description[0] = '\0';
    describe("%s, pages of %u bytes", sample->kind->name, sample->page_size);
    stage_begin("damaging");
    if (!undamaged)
        damage_do(&damage);
    if (verbose)
        printf("%u: %s\n", number, progress->description);
    file_write(path, damage.bytes, damage.size);
    free(damage.bytes);
    session.random = &random;
    session.sample = sample;
    session.path = path;
    session.undamaged = undamaged;
    if (random_one_in(&random, 2))
        session_read_only(&session);
    session_write(&session);
    if (random_one_in(&random, 3))
        session_read_only(&session);
}

/* Signals end the child, no core is left, and no file gets too large. */
static void child_prepare(void)
{
    struct rlimit none = { 0, 0 }, file_size = { FILE_SIZE_MAX, FILE_SIZE_MAX };

    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_FSIZE, &file_size);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPROF, SIG_DFL);
    signal(SIGALRM, SIG_DFL);
}

static void case_limit_time(void)
{
    struct itimerval timer = { { 0, 0 }, { CPU_SECONDS_MAX, 0 } };

    setitimer(ITIMER_PROF, &timer, NULL);
    alarm(SECONDS_MAX);
}

/* Runs cases in a child; gives its status. progress->number is the case that it was at. */
static int cases_run(unsigned first, unsigned end, const char *path, int undamaged)
{
    int status;
    pid_t child;

    fflush(stdout);
    progress->number = first;
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        child_prepare();
        for (; first < end; first++) {
            case_limit_time();
            case_run(first, path, undamaged);
        }
        fflush(stdout);
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0)
        CHECK_EQ(errno, EINTR);
    return status;
}

/* From the command line: 0 cases means as many as a test wants. */
static unsigned only_first, only_count;

static void failure_print(int status)
{
    const char *how = "ended by a failed check";
    char text[64];

    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF) {
        how = "came to no end";
    } else if (WIFSIGNALED(status)) {
        snprintf(text, sizeof(text), "killed by signal %d", WTERMSIG(status));
        how = text;
    } else if (progress->unexpected != 0) {
        snprintf(text, sizeof(text), "answered %d", progress->unexpected);
        how = text;
    }
    printf("mtest_corrupt --seed %llu --only %u: %s, while %s\n    %s\n", (unsigned long long)test_seed(),
           progress->number, how, progress->stage, progress->description);
}

/* Runs cases, CASES_PER_CHILD in each child. What fails is run once more in a child of its own. */
static void cases_run_all(unsigned first, unsigned end, int undamaged)
{
    char *dir = temp_dir_make();
    const char *path = path_in(dir, "damaged");
    unsigned failures = 0;

    while (first < end) {
        unsigned batch_end = end - first < CASES_PER_CHILD ? end : first + CASES_PER_CHILD;
        int status = cases_run(first, batch_end, path, undamaged);

        if (status == 0) {
            first = batch_end;
            continue;
        }
        if (failures++ < FAILURES_SHOWN || only_count > 0) {
            unsigned number = progress->number;

            failure_print(status);
            if (number > first && cases_run(number, number + 1, path, undamaged) == 0)
                printf("    but not alone: --only %u --count %u\n", first, number - first + 1);
            progress->number = number;
        }
        first = progress->number + 1;
    }
    temp_dir_remove(dir);
    CHECK_EQ(failures, 0);
}

static void progress_make(void)
{
    progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(progress != MAP_FAILED);
}

TEST(samples_have_all_that_is_damaged)
{
    unsigned i, kind;
    size_t counts[TARGET_KINDS] = { 0 };

    samples_make();
    for (i = 0; i < SAMPLES; i++) {
        for (kind = 0; kind < TARGET_KINDS; kind++)
            counts[kind] += samples[i].targets[kind].count;
        test_note("%s, pages of %u bytes", samples[i].kind->name, samples[i].page_size);
        CHECK(samples[i].targets[TARGET_FREE].count >= 8);
        CHECK(samples[i].targets[TARGET_BRANCH].count >= 1);
    }
    for (kind = 0; kind < TARGET_KINDS; kind++) {
        test_note("%s", target_names[kind]);
        CHECK(counts[kind] >= 10);
    }
}

/* So that what the other test sees is the damage, and not what is done with the files. */
TEST(undamaged_files_pass_every_step)
{
    samples_make();
    progress_make();
    cases_run_all(0, DAMAGED_FILES / 10 * test_scale(), 1);
    CHECK_EQ(progress->refused, 0);
    CHECK(progress->committed > progress->opened);
    munmap(progress, sizeof(*progress));
}

TEST(damaged_files_lead_to_errors_only)
{
    unsigned count = only_count > 0 ? only_count : DAMAGED_FILES * test_scale();

    samples_make();
    progress_make();
    cases_run_all(only_first, only_first + count, 0);
    if (only_count == 0) { /* many are noticed, and many are not */
        CHECK(progress->corrupted > count);
        CHECK(progress->opened > count);
        CHECK(progress->refused > 0);
        CHECK(progress->committed > count);
    }
    munmap(progress, sizeof(*progress));
}

/* Takes the program's own options away from the arguments, and gives how many are left. */
static int options_take(int argc, char **argv)
{
    static char name[] = "damaged_files_lead_to_errors_only";
    int only = 0, i;

    for (i = 1; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";

        if (strcmp(argv[i], "--verbose") == 0) {
            verbose = 1;
            continue;
        }
        if (strcmp(argv[i], "--seed") == 0) {
            setenv("MDB_TEST_SEED", value, 1);
        } else if (strcmp(argv[i], "--only") == 0) {
            only_first = (unsigned)strtoul(value, NULL, 0);
            only = 1;
        } else if (strcmp(argv[i], "--count") == 0) {
            only_count = (unsigned)strtoul(value, NULL, 0);
        } else {
            break;
        }
        i++;
    }
    if (only || only_count > 0) {
        only_count = only_count > 0 ? only_count : 1;
        argv[1] = name;
        return 2;
    }
    if (i < argc)
        memmove(argv + 1, argv + i, (size_t)(argc - i) * sizeof(*argv));
    return i < argc ? argc - i + 1 : 1;
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(samples_have_all_that_is_damaged),
        TEST_ENTRY(undamaged_files_pass_every_step),
        TEST_ENTRY(damaged_files_lead_to_errors_only),
    };

    argc = options_take(argc, argv);
    return test_main(argc, argv, tests, TEST_COUNT(tests));
}
