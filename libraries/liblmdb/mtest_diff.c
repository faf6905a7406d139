/* Differential test: the same random histories on this library and on another liblmdb (LMDB 0.9, as Debian installs
 * it), both loaded with dlopen. After every call the results are compared: return code, key, value, counts, where the
 * cursors stand. Every so often both close, the files are checked, and each goes on with the file of the other.
 *
 * The histories keep away from what LMDB 0.9 is known to get wrong, so that every difference counts:
 *  - MDB_MULTIPLE with values that the key has already: it drops others. Batches here are new values, all different.
 *  - A cursor after a search that found nothing, or, with MDB_DUPSORT, after its record was deleted: it may skip,
 *    repeat or fail. Such a cursor is placed anew before it is used (STANDS_NOWHERE).
 *  - A cursor at the last record, or the last value of a key, when records are put behind it: it does not find them.
 *    It is placed anew after the put. MDB_FIRST_DUP and MDB_NEXT_DUP are not called on such a cursor.
 *  - A cursor after MDB_NEXT_NODUP found no further key: it does not move on in the set where it is. Placed anew.
 *  - A cursor on a key whose set of values others changed: it counts, deletes and finds the ends of the set by what it
 *    remembers (is_stale).
 *  - MDB_PREV and its kin from nowhere with MDB_DUPSORT: MDB_PAGE_NOTFOUND.
 *  - MDB_FIRST_DUP and MDB_LAST_DUP do not set the key: it is not compared.
 *  - MDB_GET_MULTIPLE for a single value sets nothing; it is called for sets of two and more, from their first value.
 *  - MDB_APPENDDUP for a new key with a value so long that it gets a tree of its own: it crashes. Only called on pages
 *    large enough for the longest.
 *  - MDB_CURRENT with another value among duplicates: it may put the value out of order or cut it. Not called.
 *  - Duplicates of size 0: counted, but not found. Values of another width with MDB_DUPFIXED, keys of another width
 *    with MDB_INTEGERKEY: taken, cut, or read past their end. There are none.
 *  - Keys and values that point into the database: damaged while it moves them. All are copies.
 *  - Nested transactions with MDB_WRITEMAP: refused. There are none.
 * Page numbers, depths and page counts may differ: the two split and merge in different ways. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "mtest_history.h"

enum {
    SIDES = 2,
    LEVELS_MAX = 3,
    CURSORS_MAX = 5,
    HISTORY_STEPS = 300,
    MULTIPLE_MAX = 500,
    WALK_MAX = 1000000          /* a walk that is longer does not end */
};

static const size_t map_size = (size_t)128 << 20;

/* ==== The two libraries ================================================== */

#define LIBRARY_CALLS(call) \
    call(char *, version, (int *, int *, int *)) \
    call(int, env_create, (MDB_env **)) \
    call(int, env_open, (MDB_env *, const char *, unsigned, mdb_mode_t)) \
    call(int, env_set_mapsize, (MDB_env *, size_t)) \
    call(int, env_set_maxdbs, (MDB_env *, MDB_dbi)) \
    call(int, env_set_assert, (MDB_env *, MDB_assert_func *)) \
    call(void, env_close, (MDB_env *)) \
    call(int, txn_begin, (MDB_env *, MDB_txn *, unsigned, MDB_txn **)) \
    call(int, txn_commit, (MDB_txn *)) \
    call(void, txn_abort, (MDB_txn *)) \
    call(int, dbi_open, (MDB_txn *, const char *, unsigned, MDB_dbi *)) \
    call(int, stat, (MDB_txn *, MDB_dbi, MDB_stat *)) \
    call(int, drop, (MDB_txn *, MDB_dbi, int)) \
    call(int, set_compare, (MDB_txn *, MDB_dbi, MDB_cmp_func *)) \
    call(int, set_dupsort, (MDB_txn *, MDB_dbi, MDB_cmp_func *)) \
    call(int, get, (MDB_txn *, MDB_dbi, MDB_val *, MDB_val *)) \
    call(int, put, (MDB_txn *, MDB_dbi, MDB_val *, MDB_val *, unsigned)) \
    call(int, del, (MDB_txn *, MDB_dbi, MDB_val *, MDB_val *)) \
    call(int, cursor_open, (MDB_txn *, MDB_dbi, MDB_cursor **)) \
    call(void, cursor_close, (MDB_cursor *)) \
    call(int, cursor_get, (MDB_cursor *, MDB_val *, MDB_val *, MDB_cursor_op)) \
    call(int, cursor_put, (MDB_cursor *, MDB_val *, MDB_val *, unsigned)) \
    call(int, cursor_del, (MDB_cursor *, unsigned)) \
    call(int, cursor_count, (MDB_cursor *, size_t *)) \
    call(int, cmp, (MDB_txn *, MDB_dbi, const MDB_val *, const MDB_val *)) \
    call(int, dcmp, (MDB_txn *, MDB_dbi, const MDB_val *, const MDB_val *))

#define LIBRARY_MEMBER(type, name, arguments) type (*name) arguments;

struct library {
    const char *title;
    void *handle;
    int (*env_set_pagesize)(MDB_env *, int);    /* NULL: this library cannot choose */
    LIBRARY_CALLS(LIBRARY_MEMBER)
};

static struct library ours = { .title = "ours" }, theirs = { .title = "theirs" };

/* The address sanitizer refuses RTLD_DEEPBIND. Without it each library still finds its own functions first, since this
 * program exports none. */
#if TEST_CATCHES_SIGNALS
enum { LOAD_FLAGS = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND };
#else
enum { LOAD_FLAGS = RTLD_NOW | RTLD_LOCAL };
#endif

static void library_find(const struct library *library, const char *name, void *function, size_t size)
{
    void *found = dlsym(library->handle, name);

    if (found == NULL)
        test_fail(__FILE__, __LINE__, "%s: no function %s", library->title, name);
    memcpy(function, &found, size);
}

#define LIBRARY_FIND(type, name, arguments) \
    library_find(library, "mdb_" #name, &library->name, sizeof(library->name));

static void library_load(struct library *library)
{
    LIBRARY_CALLS(LIBRARY_FIND)
}

static void ours_load(void)
{
    if (ours.handle != NULL)
        return;
    ours.handle = dlopen("./liblmdb.so", LOAD_FLAGS);
    if (ours.handle == NULL)
        test_fail(__FILE__, __LINE__, "%s", dlerror());
    library_load(&ours);
    library_find(&ours, "mdb_env_set_pagesize", &ours.env_set_pagesize, sizeof(ours.env_set_pagesize));
}

/* Loads the other library from where systems put it; 0 if there is none. */
static int theirs_load(void)
{
    static const char *const paths[] = {
        "/usr/lib/x86_64-linux-gnu/liblmdb.so.0", "/usr/lib/aarch64-linux-gnu/liblmdb.so.0", "/usr/lib64/liblmdb.so.0",
        "/usr/lib/liblmdb.so.0", "/lib/liblmdb.so.0",
    };
    size_t i;

    for (i = 0; theirs.handle == NULL && i < sizeof(paths) / sizeof(paths[0]); i++)
        theirs.handle = dlopen(paths[i], LOAD_FLAGS);
    if (theirs.handle == NULL)
        return 0;
    library_load(&theirs);
    return strstr(theirs.version(NULL, NULL, NULL), "DLMDB") == NULL;   /* else this one is installed there */
}

/* ==== Histories ========================================================== */

struct side {
    const struct library *library;
    char *path;                 /* of its environment */
    MDB_env *env;
    MDB_txn *txns[LEVELS_MAX];
    MDB_txn *reader;
    MDB_dbi dbi;
    MDB_cursor *cursors[CURSORS_MAX];
};

enum stands { STANDS_NOWHERE, STANDS_ON, STANDS_IN_GAP };

/* What is known of a cursor that both sides have. */
struct tracked {
    int is_open;
    unsigned level;             /* of its transaction */
    enum stands stands;
    int is_at_end;              /* of the data or of a set: LMDB remembers it wrongly after puts */
    int is_stale;               /* the set was changed by others: LMDB does not know */
    size_t key_size, value_size;
    unsigned char key[KEY_SIZE_MAX + 1], value[KEY_SIZE_MAX + 1];       /* the value only with duplicates */
};

struct history {
    struct plan plan;
    struct contents contents;
    char *directories[SIDES];
    struct side sides[SIDES];
    unsigned depth;
    struct tracked cursors[CURSORS_MAX];
    struct tracked saved[LEVELS_MAX][CURSORS_MAX];      /* as each transaction began */
    uint64_t snapshot;          /* what the readers must see: a sum over a walk */
};

/* What one side answered. */
struct answer {
    int rc;
    MDB_val key, value;
    size_t count;
};

static MDB_txn *side_txn(const struct history *history, const struct side *side)
{
    return side->txns[history->depth - 1];
}

static int vals_are_equal(const MDB_val *a, const MDB_val *b)
{
    return a->mv_size == b->mv_size && (a->mv_size == 0 || memcmp(a->mv_data, b->mv_data, a->mv_size) == 0);
}

/* LMDB says EINVAL where a cursor stands nowhere, MDB_NOTFOUND where it stands behind the last record; which of the two
 * it is after the last record was deleted is no matter. */
static int codes_agree(int a, int b)
{
    return a == b || ((a == EINVAL || a == MDB_NOTFOUND) && (b == EINVAL || b == MDB_NOTFOUND));
}

static void answers_compare(const struct answer *answers, const char *what)
{
    char first[SHOWN_TEXT_SIZE], second[SHOWN_TEXT_SIZE];
    const struct answer *a = &answers[0], *b = &answers[1];

    EXPECT(codes_agree(a->rc, b->rc), "%s: ours gives %d, theirs %d", what, a->rc, b->rc);
    EXPECT(a->count == b->count, "%s: ours gives %zu, theirs %zu", what, a->count, b->count);
    EXPECT(vals_are_equal(&a->key, &b->key), "%s: ours gives key %s, theirs %s", what,
           bytes_show(first, a->key.mv_data, a->key.mv_size), bytes_show(second, b->key.mv_data, b->key.mv_size));
    EXPECT(vals_are_equal(&a->value, &b->value), "%s: ours gives value %s, theirs %s", what,
           bytes_show(first, a->value.mv_data, a->value.mv_size),
           bytes_show(second, b->value.mv_data, b->value.mv_size));
}

/* ==== Cursors ============================================================ */

static void tracked_set(struct tracked *cursor, const MDB_val *key, const MDB_val *value)
{
    cursor->stands = STANDS_ON;
    cursor->is_at_end = 0;
    cursor->is_stale = 0;
    cursor->key_size = key->mv_size;
    memcpy(cursor->key, key->mv_data, key->mv_size);
    cursor->value_size = 0;
    if (value != NULL && value->mv_size <= KEY_SIZE_MAX) {
        cursor->value_size = value->mv_size;
        memcpy(cursor->value, value->mv_data, value->mv_size);
    }
}

static int tracked_has_key(const struct tracked *cursor, const MDB_val *key)
{
    return cursor->key_size == key->mv_size && memcmp(cursor->key, key->mv_data, key->mv_size) == 0;
}

/* A put through this cursor gave rc. What it remembers of the end of the data it does not forget in a put. */
static void tracked_follow_own_put(const struct history *history, struct tracked *cursor, int rc, const MDB_val *key,
                                   const MDB_val *value)
{
    int was_at_end = cursor->is_at_end;

    if (rc != MDB_SUCCESS || (was_at_end && contents_have_dups(&history->contents))) {
        cursor->stands = STANDS_NOWHERE;
    } else {
        tracked_set(cursor, key, value);
        cursor->is_at_end = was_at_end;
    }
}

/* A record of this key was put, by cursor `number` or, if that is -1, by none. */
static void cursors_follow_put(struct history *history, int number, const MDB_val *key)
{
    int i;

    for (i = 0; i < CURSORS_MAX; i++) {
        struct tracked *cursor = &history->cursors[i];

        if (i == number)
            continue;
        if (cursor->is_at_end || cursor->stands == STANDS_IN_GAP)
            cursor->stands = STANDS_NOWHERE;
        if (contents_have_dups(&history->contents) && tracked_has_key(cursor, key))
            cursor->is_stale = 1;
    }
}

/* The record with this key and value was deleted; value NULL: all records of the key. */
static void cursors_follow_delete(struct history *history, const MDB_val *key, const MDB_val *value)
{
    int has_dups = contents_have_dups(&history->contents);
    unsigned i;

    for (i = 0; i < CURSORS_MAX; i++) {
        struct tracked *cursor = &history->cursors[i];

        if (cursor->stands != STANDS_ON || !tracked_has_key(cursor, key))
            continue;
        cursor->is_stale = 1;
        if (!has_dups)
            cursor->stands = STANDS_IN_GAP;
        else if (value == NULL || (cursor->value_size == value->mv_size &&
                                   memcmp(cursor->value, value->mv_data, value->mv_size) == 0))
            cursor->stands = STANDS_NOWHERE;
    }
}

/* These may come to the last value of a set. */
static int op_goes_back(MDB_cursor_op op)
{
    return op == MDB_LAST_DUP || op == MDB_PREV || op == MDB_PREV_DUP || op == MDB_PREV_NODUP;
}

/* One call of mdb_cursor_get on both sides; key and value are what it looks for, NULL if it does not. */
static void cursor_move(struct history *history, unsigned number, MDB_cursor_op op, const MDB_val *key,
                        const MDB_val *value)
{
    struct tracked *cursor = &history->cursors[number];
    struct answer answers[SIDES];
    char key_text[SHOWN_TEXT_SIZE] = "", value_text[SHOWN_TEXT_SIZE] = "", what[64];
    int i, is_absolute = key != NULL || op == MDB_FIRST || op == MDB_LAST, is_stale;

    for (i = 0; i < SIDES; i++) {
        struct side *side = &history->sides[i];

        memset(&answers[i], 0, sizeof(answers[i]));
        if (key != NULL)
            answers[i].key = *key;
        if (value != NULL)
            answers[i].value = *value;
        answers[i].rc = side->library->cursor_get(side->cursors[number], &answers[i].key, &answers[i].value, op);
        if (answers[i].rc != MDB_SUCCESS || op == MDB_FIRST_DUP || op == MDB_LAST_DUP)
            answers[i].key = val_of(cursor->key, cursor->key_size);
        if (answers[i].rc != MDB_SUCCESS)
            answers[i].value = val_of(NULL, 0);
    }
    snprintf(what, sizeof(what), "cursor %u, %s", number, cursor_op_name(op));
    trace("%s %s = %d, %d: %s", what, bytes_show(key_text, answers[0].key.mv_data, answers[0].key.mv_size),
          answers[0].rc, answers[1].rc, bytes_show(value_text, answers[0].value.mv_data, answers[0].value.mv_size));
    answers_compare(answers, what);
    if (answers[0].rc == MDB_SUCCESS) {
        is_stale = cursor->is_stale && !is_absolute && tracked_has_key(cursor, &answers[0].key);
        if (op == MDB_GET_CURRENT && cursor->stands == STANDS_ON)
            EXPECT(tracked_has_key(cursor, &answers[0].key), "%s: the cursor left its record", what);
        else
            tracked_set(cursor, &answers[0].key, &answers[0].value);
        cursor->is_stale = is_stale;
        cursor->is_at_end |= op == MDB_LAST || (contents_have_dups(&history->contents) && op_goes_back(op));
    } else {
        if (is_absolute || cursor->stands == STANDS_IN_GAP || op == MDB_NEXT_NODUP)
            cursor->stands = STANDS_NOWHERE;
        cursor->is_at_end = 1;
    }
}

/* Where others changed the database, the cursors of the innermost transaction stand on the same records on both sides,
 * and have not left theirs. */
static void cursors_check(struct history *history, struct random *random)
{
    unsigned i;

    for (i = 0; i < CURSORS_MAX; i++) {
        struct tracked *cursor = &history->cursors[i];

        if (cursor->is_open && cursor->level == history->depth && cursor->stands != STANDS_NOWHERE &&
            (cursor->stands == STANDS_ON || random_one_in(random, 3)))
            cursor_move(history, i, MDB_GET_CURRENT, NULL, NULL);
    }
}

static void cursor_close(struct history *history, unsigned number)
{
    int i;

    for (i = 0; i < SIDES; i++)
        history->sides[i].library->cursor_close(history->sides[i].cursors[number]);
    memset(&history->cursors[number], 0, sizeof(history->cursors[number]));
}

/* A cursor of the innermost transaction, open; -1 if all are in use elsewhere. */
static int cursor_pick(struct history *history, struct random *random)
{
    unsigned number = (unsigned)random_below(random, CURSORS_MAX);
    struct tracked *cursor = &history->cursors[number];
    int i;

    if (cursor->is_open)
        return cursor->level == history->depth ? (int)number : -1;
    for (i = 0; i < SIDES; i++) {
        struct side *side = &history->sides[i];

        EXPECT_OK(side->library->cursor_open(side_txn(history, side), side->dbi, &side->cursors[number]));
    }
    trace("open cursor %u", number);
    cursor->is_open = 1;
    cursor->level = history->depth;
    return (int)number;
}

/* ==== Walks ============================================================== */

static uint64_t sum_bytes(uint64_t sum, const MDB_val *val)
{
    const unsigned char *byte = val->mv_data;
    size_t i;

    for (i = 0; i < val->mv_size; i++)
        sum = (sum ^ byte[i]) * UINT64_C(0x100000001b3);
    return sum * 31 + val->mv_size;
}

/* Walks the databases of both sides in one direction and compares record by record; returns a sum over all. */
static uint64_t walks_compare(struct history *history, MDB_txn *txns[SIDES], MDB_cursor_op op)
{
    struct answer answers[SIDES];
    MDB_cursor *cursors[SIDES];
    MDB_stat stat;
    uint64_t sum = 0;
    int i;

    for (i = 0; i < SIDES; i++)
        EXPECT_OK(history->sides[i].library->cursor_open(txns[i], history->sides[i].dbi, &cursors[i]));
    memset(answers, 0, sizeof(answers));
    do {
        MDB_cursor_op now = answers[0].count == 0 ? (op == MDB_NEXT ? MDB_FIRST : MDB_LAST) : op;

        for (i = 0; i < SIDES; i++) {
            struct answer *answer = &answers[i];

            answer->rc = history->sides[i].library->cursor_get(cursors[i], &answer->key, &answer->value, now);
            answer->count += answer->rc == MDB_SUCCESS;
        }
        answers_compare(answers, cursor_op_name(op));
        if (answers[0].rc == MDB_SUCCESS)
            sum = sum_bytes(sum_bytes(sum, &answers[0].key), &answers[0].value);
    } while (answers[0].rc == MDB_SUCCESS && answers[0].count < WALK_MAX);
    EXPECT_CODE(answers[0].rc, MDB_NOTFOUND);
    for (i = 0; i < SIDES; i++) {
        history->sides[i].library->cursor_close(cursors[i]);
        EXPECT_OK(history->sides[i].library->stat(txns[i], history->sides[i].dbi, &stat));
        EXPECT(stat.ms_entries == answers[i].count, "%s states %zu entries, a walk meets %zu",
               history->sides[i].library->title, stat.ms_entries, answers[i].count);
    }
    return sum;
}

static void step_walk(struct history *history, struct random *random)
{
    MDB_txn *txns[SIDES] = { side_txn(history, &history->sides[0]), side_txn(history, &history->sides[1]) };

    walks_compare(history, txns, random_one_in(random, 2) ? MDB_NEXT : MDB_PREV);
}

/* ==== Keys and values ==================================================== */

static MDB_val key_pick(const struct history *history, struct random *random, unsigned char *bytes)
{
    return pool_pick(&history->contents.keys, random, bytes);
}

static MDB_val value_pick(const struct history *history, struct random *random, unsigned char *bytes)
{
    if (contents_have_dups(&history->contents))
        return pool_pick(&history->contents.values, random, bytes);
    return value_make(random, history->plan.page_size, bytes);
}

/* Key and value where a cursor stands, in buffers of KEY_SIZE_MAX + 1 bytes; 0 if no cursor stands on a record. */
static int record_pick(const struct history *history, struct random *random, MDB_val *key, MDB_val *value)
{
    const struct tracked *cursor = &history->cursors[random_below(random, CURSORS_MAX)];

    if (!cursor->is_open || cursor->stands != STANDS_ON)
        return 0;
    *key = val_of(cursor->key, cursor->key_size);
    *value = val_of(cursor->value, cursor->value_size);
    return 1;
}

/* ==== Puts =============================================================== */

/* A put on both sides, through cursor `number` or, if that is -1, without. */
static void put_compare(struct history *history, int number, const MDB_val *key, const MDB_val *value, unsigned flags)
{
    char key_text[SHOWN_TEXT_SIZE], value_text[SHOWN_TEXT_SIZE], flags_text[PUT_FLAGS_TEXT_SIZE];
    struct answer answers[SIDES];
    int i;

    for (i = 0; i < SIDES; i++) {
        struct side *side = &history->sides[i];
        struct answer *answer = &answers[i];

        memset(answer, 0, sizeof(*answer));
        answer->key = *key;
        answer->value = *value;
        if (number >= 0)
            answer->rc = side->library->cursor_put(side->cursors[number], &answer->key, &answer->value, flags);
        else
            answer->rc = side->library->put(side_txn(history, side), side->dbi, &answer->key, &answer->value, flags);
        if (answer->rc == MDB_SUCCESS && (flags & MDB_RESERVE) && value->mv_size > 0)
            memcpy(answer->value.mv_data, value->mv_data, value->mv_size);
    }
    trace("put by cursor %d: %s = %s, %s = %d, %d", number, bytes_show(key_text, key->mv_data, key->mv_size),
          bytes_show(value_text, value->mv_data, value->mv_size), put_flags_show(flags_text, flags), answers[0].rc,
          answers[1].rc);
    EXPECT_CODE(answers[0].rc, answers[1].rc);
    answers_compare(answers, "put");
    if (number >= 0)
        tracked_follow_own_put(history, &history->cursors[number], answers[0].rc, key, value);
    if (answers[0].rc == MDB_SUCCESS)
        cursors_follow_put(history, number, key);
}

static unsigned put_flags_pick(const struct history *history, struct random *random)
{
    static const unsigned plain[] = {
        0, 0, MDB_NODUPDATA, MDB_NOOVERWRITE, MDB_APPEND, MDB_RESERVE, MDB_RESERVE | MDB_NOOVERWRITE, MDB_APPENDDUP,
    };
    static const unsigned dups[] = {
        0, 0, 0, MDB_NOOVERWRITE, MDB_NODUPDATA, MDB_NODUPDATA | MDB_NOOVERWRITE, MDB_APPEND, MDB_APPENDDUP,
    };

    unsigned flags = (contents_have_dups(&history->contents) ? dups : plain)[random_below(random, 8)];

    return flags == MDB_APPENDDUP && history->plan.page_size < 4096 ? 0 : flags;
}

static int cursor_pick_or_none(struct history *history, struct random *random)
{
    return random_one_in(random, 2) ? cursor_pick(history, random) : -1;
}

static void step_put(struct history *history, struct random *random)
{
    unsigned char key_bytes[KEY_SIZE_MAX + 1];
    static unsigned char value_bytes[VALUE_SIZE_MAX];
    MDB_val key = key_pick(history, random, key_bytes), value = value_pick(history, random, value_bytes);

    put_compare(history, cursor_pick_or_none(history, random), &key, &value, put_flags_pick(history, random));
}

static void step_put_many(struct history *history, struct random *random)
{
    static const unsigned counts[] = { 10, 30, 60, 100, 150, 600 };
    unsigned char key_bytes[KEY_SIZE_MAX + 1];
    static unsigned char value_bytes[VALUE_SIZE_MAX];
    int one_key = contents_have_dups(&history->contents) && !random_one_in(random, 3);
    int number = cursor_pick_or_none(history, random);
    uint64_t count = 1 + random_below(random, counts[random_below(random, 6)]), i;
    uint64_t first = random_below(random, 3000), order = random_below(random, 3);
    MDB_val key = key_pick(history, random, key_bytes), value;

    for (i = 0; i < count; i++) {
        uint64_t place = first + (order == 0 ? i : order == 1 ? count - i : i * 7919 % count);

        if (!one_key)
            key = pool_get(&history->contents.keys, place, key_bytes);
        if (one_key)
            value = pool_get(&history->contents.values, place, value_bytes);
        else
            value = value_pick(history, random, value_bytes);
        put_compare(history, number, &key, &value, 0);
    }
}

static void step_replace_current(struct history *history, struct random *random)
{
    static unsigned char value_bytes[VALUE_SIZE_MAX];
    int number = cursor_pick(history, random);
    MDB_val key, value;

    if (number < 0 || history->cursors[number].stands != STANDS_ON || contents_have_dups(&history->contents))
        return;
    key = val_of(history->cursors[number].key, history->cursors[number].key_size);
    value = value_make(random, history->plan.page_size, value_bytes);
    put_compare(history, number, &key, &value, MDB_CURRENT);
}

/* Whether a pair is in the database, or in the first `count` values of a batch. */
static int value_is_known(struct history *history, const MDB_val *key, const unsigned char *batch, size_t count,
                          const MDB_val *value)
{
    struct side *side = &history->sides[0];
    MDB_val found_key = *key, found_value = *value;
    MDB_cursor *cursor;
    size_t i;
    int rc;

    for (i = 0; i < count; i++) {
        if (memcmp(batch + i * value->mv_size, value->mv_data, value->mv_size) == 0)
            return 1;
    }
    EXPECT_OK(side->library->cursor_open(side_txn(history, side), side->dbi, &cursor));
    rc = side->library->cursor_get(cursor, &found_key, &found_value, MDB_GET_BOTH);
    side->library->cursor_close(cursor);
    return rc == MDB_SUCCESS;
}

static void step_put_multiple(struct history *history, struct random *random)
{
    static unsigned char batch[MULTIPLE_MAX * KEY_SIZE_MAX];
    unsigned char key_bytes[KEY_SIZE_MAX + 1];
    int number = cursor_pick(history, random), i;
    MDB_val key = key_pick(history, random, key_bytes);
    size_t count = 0, width = history->contents.values.width, tries;
    struct answer answers[SIDES];

    if (number < 0 || !contents_are_fixed(&history->contents))
        return;
    for (tries = 1 + random_below(random, random_one_in(random, 4) ? MULTIPLE_MAX : 20); tries > 0; tries--) {
        MDB_val value = pool_pick(&history->contents.values, random, batch + count * width);

        count += !value_is_known(history, &key, batch, count, &value);
    }
    if (count == 0)
        return;
    memset(answers, 0, sizeof(answers));
    for (i = 0; i < SIDES; i++) {
        MDB_val values[2] = { val_of(batch, width), val_of(NULL, count) }, key_given = key;
        struct side *side = &history->sides[i];

        answers[i].rc = side->library->cursor_put(side->cursors[number], &key_given, values, MDB_MULTIPLE);
        answers[i].count = values[1].mv_size;
    }
    trace("put of %zu values = %d, %d", count, answers[0].rc, answers[1].rc);
    answers_compare(answers, "MDB_MULTIPLE");
    EXPECT_OK(answers[0].rc);
    cursors_follow_put(history, number, &key);
    history->cursors[number].stands = STANDS_NOWHERE;
}

/* ==== Deletes ============================================================ */

static void delete_compare(struct history *history, const MDB_val *key, const MDB_val *value)
{
    unsigned char key_bytes[KEY_SIZE_MAX + 1], value_bytes[KEY_SIZE_MAX + 1];
    char key_text[SHOWN_TEXT_SIZE], value_text[SHOWN_TEXT_SIZE] = "all";
    MDB_val kept_key, kept_value = val_of(NULL, 0);
    int i, codes[SIDES];

    /* The arguments may be those of a tracked cursor, which forgets them in cursors_follow_delete. */
    memcpy(key_bytes, key->mv_data, key->mv_size);
    kept_key = val_of(key_bytes, key->mv_size);
    if (value != NULL && value->mv_size <= KEY_SIZE_MAX) {
        memcpy(value_bytes, value->mv_data, value->mv_size);
        kept_value = val_of(value_bytes, value->mv_size);
        bytes_show(value_text, value_bytes, value->mv_size);
    }
    for (i = 0; i < SIDES; i++) {
        struct side *side = &history->sides[i];
        MDB_val key_given = kept_key, value_given = kept_value;

        codes[i] = side->library->del(side_txn(history, side), side->dbi, &key_given,
                                      value != NULL ? &value_given : NULL);
    }
    trace("delete %s, %s = %d, %d", bytes_show(key_text, key_bytes, kept_key.mv_size), value_text, codes[0], codes[1]);
    EXPECT_CODE(codes[0], codes[1]);
    if (codes[0] == MDB_SUCCESS)
        cursors_follow_delete(history, &kept_key, value != NULL ? &kept_value : NULL);
}

static void step_delete(struct history *history, struct random *random)
{
    unsigned char key_bytes[KEY_SIZE_MAX + 1];
    static unsigned char value_bytes[VALUE_SIZE_MAX];
    MDB_val key, value;

    if (random_one_in(random, 3) || !record_pick(history, random, &key, &value)) {
        key = key_pick(history, random, key_bytes);
        value = value_pick(history, random, value_bytes);
    }
    delete_compare(history, &key, random_one_in(random, 4) ? NULL : &value);
}

/* Records next to each other, from the front, from the back or from a key on. */
static void step_delete_many(struct history *history, struct random *random)
{
    unsigned char key_bytes[KEY_SIZE_MAX + 1];
    int number = cursor_pick(history, random), from = (int)random_below(random, 3);
    uint64_t left = 1 + random_below(random, random_one_in(random, 4) ? 1000 : 80);
    struct tracked *cursor;
    MDB_val key = key_pick(history, random, key_bytes), value;

    if (number < 0)
        return;
    cursor = &history->cursors[number];
    while (left-- > 0) {
        cursor_move(history, (unsigned)number, from == 0 ? MDB_FIRST : from == 1 ? MDB_LAST : MDB_SET_RANGE,
                    from == 2 ? &key : NULL, NULL);
        if (cursor->stands != STANDS_ON)
            break;
        key = val_of(memcpy(key_bytes, cursor->key, cursor->key_size), cursor->key_size);
        value = val_of(cursor->value, cursor->value_size);
        delete_compare(history, &key, &value);
    }
}

static void step_cursor_delete(struct history *history, struct random *random)
{
    int number = cursor_pick(history, random), i, codes[SIDES], has_dups = contents_have_dups(&history->contents);
    unsigned flags = has_dups && random_one_in(random, 4) ? MDB_NODUPDATA : 0;
    unsigned char key_bytes[KEY_SIZE_MAX + 1], value_bytes[KEY_SIZE_MAX + 1];
    struct tracked *cursor;
    MDB_val key, value;

    if (number < 0)
        return;
    cursor = &history->cursors[number];
    if (cursor->stands != STANDS_ON || (has_dups && (cursor->is_stale || cursor->is_at_end)))
        return;
    key = val_of(memcpy(key_bytes, cursor->key, cursor->key_size), cursor->key_size);
    value = val_of(memcpy(value_bytes, cursor->value, cursor->value_size), cursor->value_size);
    for (i = 0; i < SIDES; i++)
        codes[i] = history->sides[i].library->cursor_del(history->sides[i].cursors[number], flags);
    trace("delete by cursor %d%s = %d, %d", number, flags != 0 ? ", NODUPDATA" : "", codes[0], codes[1]);
    EXPECT_CODE(codes[0], codes[1]);
    EXPECT_OK(codes[0]);
    cursors_follow_delete(history, &key, flags != 0 ? NULL : &value);
}

static void step_empty(struct history *history, struct random *random)
{
    unsigned i;

    (void)random;
    for (i = 0; i < SIDES; i++)
        EXPECT_OK(history->sides[i].library->drop(side_txn(history, &history->sides[i]), history->sides[i].dbi, 0));
    trace("empty");
    for (i = 0; i < CURSORS_MAX; i++)
        history->cursors[i].stands = STANDS_NOWHERE;
}

/* ==== Reads ============================================================== */

static MDB_cursor_op op_pick(const struct history *history, const struct tracked *cursor, struct random *random)
{
    static const MDB_cursor_op absolute[] = {
        MDB_FIRST, MDB_LAST, MDB_SET, MDB_SET_KEY, MDB_SET_RANGE, MDB_GET_BOTH, MDB_GET_BOTH_RANGE,
    };
    static const MDB_cursor_op relative[] = {
        MDB_NEXT, MDB_NEXT, MDB_NEXT, MDB_PREV, MDB_PREV, MDB_PREV, MDB_NEXT_NODUP, MDB_PREV_NODUP,
        MDB_PREV_DUP, MDB_LAST_DUP, MDB_NEXT_DUP, MDB_FIRST_DUP,
    };

    if (cursor->stands == STANDS_NOWHERE || random_one_in(random, 4))
        return absolute[random_below(random, contents_have_dups(&history->contents) ? 7 : 5)];
    if (!contents_have_dups(&history->contents))
        return relative[random_below(random, 8)];
    return relative[random_below(random, cursor->is_stale ? 9 : cursor->is_at_end ? 10 : 12)];
}

static void step_cursor_get(struct history *history, struct random *random)
{
    unsigned char key_bytes[KEY_SIZE_MAX + 1];
    static unsigned char value_bytes[VALUE_SIZE_MAX];
    int number = cursor_pick(history, random);
    uint64_t left = 1 + random_below(random, 5);

    while (number >= 0 && left-- > 0) {
        MDB_cursor_op op = op_pick(history, &history->cursors[number], random);
        MDB_val key = key_pick(history, random, key_bytes), value = value_pick(history, random, value_bytes);
        int by_pair = op == MDB_GET_BOTH || op == MDB_GET_BOTH_RANGE;
        int by_key = by_pair || op == MDB_SET || op == MDB_SET_KEY || op == MDB_SET_RANGE;

        cursor_move(history, (unsigned)number, op, by_key ? &key : NULL, by_pair ? &value : NULL);
    }
}

static void step_get(struct history *history, struct random *random)
{
    unsigned char key_bytes[KEY_SIZE_MAX + 1], other_bytes[KEY_SIZE_MAX + 1];
    MDB_val key = key_pick(history, random, key_bytes), other = key_pick(history, random, other_bytes);
    struct answer answers[SIDES];
    int i, order[SIDES];

    for (i = 0; i < SIDES; i++) {
        struct side *side = &history->sides[i];
        MDB_txn *txn = side_txn(history, side);

        memset(&answers[i], 0, sizeof(answers[i]));
        answers[i].rc = side->library->get(txn, side->dbi, &key, &answers[i].value);
        if (answers[i].rc != MDB_SUCCESS)
            answers[i].value = val_of(NULL, 0);
        order[i] = side->library->cmp(txn, side->dbi, &key, &other);
        order[i] = (order[i] > 0) - (order[i] < 0);
    }
    answers_compare(answers, "get");
    EXPECT_CODE(order[0], order[1]);
}

static void step_cursor_count(struct history *history, struct random *random)
{
    int number = cursor_pick(history, random), i;
    struct answer answers[SIDES];

    if (number < 0 || history->cursors[number].stands != STANDS_ON || history->cursors[number].is_stale)
        return;
    memset(answers, 0, sizeof(answers));
    for (i = 0; i < SIDES; i++)
        answers[i].rc = history->sides[i].library->cursor_count(history->sides[i].cursors[number], &answers[i].count);
    trace("count of cursor %d: %zu, %zu", number, answers[0].count, answers[1].count);
    answers_compare(answers, "mdb_cursor_count");
}

/* The sum over the values of the set of `key`, read by chunks; `count` is how many there are. */
static uint64_t set_sum(struct history *history, struct side *side, const MDB_val *key, size_t *count)
{
    MDB_val found_key = *key, chunk;
    uint64_t sum = 0;
    MDB_cursor *cursor;
    size_t width = history->contents.values.width, i;
    int rc;

    EXPECT_OK(side->library->cursor_open(side_txn(history, side), side->dbi, &cursor));
    rc = side->library->cursor_get(cursor, &found_key, &chunk, MDB_SET_KEY);
    if (rc == MDB_SUCCESS)
        EXPECT_OK(side->library->cursor_count(cursor, count));
    if (*count > 1) {
        for (rc = side->library->cursor_get(cursor, &found_key, &chunk, MDB_GET_MULTIPLE); rc == MDB_SUCCESS;
             rc = side->library->cursor_get(cursor, &found_key, &chunk, MDB_NEXT_MULTIPLE)) {
            for (i = 0; i < chunk.mv_size / width; i++) {
                MDB_val value = val_of((char *)chunk.mv_data + i * width, width);

                sum = sum_bytes(sum, &value);
            }
        }
        EXPECT_CODE(rc, MDB_NOTFOUND);
    }
    side->library->cursor_close(cursor);
    return sum;
}

static void step_read_set(struct history *history, struct random *random)
{
    unsigned char key_bytes[KEY_SIZE_MAX + 1];
    MDB_val key = key_pick(history, random, key_bytes), value;
    size_t counts[SIDES] = { 0, 0 };
    uint64_t sums[SIDES];
    int i;

    if (!contents_are_fixed(&history->contents))
        return;
    record_pick(history, random, &key, &value);
    for (i = 0; i < SIDES; i++)
        sums[i] = set_sum(history, &history->sides[i], &key, &counts[i]);
    EXPECT(counts[0] == counts[1], "a set has %zu values, with theirs %zu", counts[0], counts[1]);
    EXPECT(sums[0] == sums[1], "the chunks of a set of %zu values differ", counts[0]);
}

/* ==== Transactions ======================================================= */

static void transaction_begin(struct history *history)
{
    int i;

    for (i = 0; i < SIDES; i++) {
        struct side *side = &history->sides[i];
        MDB_txn *parent = history->depth > 0 ? side_txn(history, side) : NULL;

        EXPECT_OK(side->library->txn_begin(side->env, parent, 0, &side->txns[history->depth]));
    }
    memcpy(history->saved[history->depth], history->cursors, sizeof(history->cursors));
    history->depth++;
    trace("begin, level %u", history->depth);
}

static void transaction_close_cursors(struct history *history)
{
    unsigned i;

    for (i = 0; i < CURSORS_MAX; i++) {
        if (history->cursors[i].is_open && history->cursors[i].level == history->depth)
            cursor_close(history, i);
    }
}

static void transaction_commit(struct history *history)
{
    int i;

    transaction_close_cursors(history);
    trace("commit, level %u", history->depth);
    for (i = 0; i < SIDES; i++)
        EXPECT_OK(history->sides[i].library->txn_commit(side_txn(history, &history->sides[i])));
    history->depth--;
}

static void transaction_abort(struct history *history)
{
    int i;

    transaction_close_cursors(history);
    trace("abort, level %u", history->depth);
    for (i = 0; i < SIDES; i++)
        history->sides[i].library->txn_abort(side_txn(history, &history->sides[i]));
    history->depth--;
    memcpy(history->cursors, history->saved[history->depth], sizeof(history->cursors));
}

static void step_nest(struct history *history, struct random *random)
{
    (void)random;
    if (history->depth < LEVELS_MAX && !(history->plan.env_kind->flags & MDB_WRITEMAP))
        transaction_begin(history);
}

static void step_commit(struct history *history, struct random *random)
{
    (void)random;
    transaction_commit(history);
}

static void step_abort(struct history *history, struct random *random)
{
    (void)random;
    transaction_abort(history);
}

/* Readers begin, or look whether they still see the same, and end. */
static void step_reader(struct history *history, struct random *random)
{
    MDB_txn *txns[SIDES];
    int i, begins = history->sides[0].reader == NULL;
    uint64_t sum;

    (void)random;
    if (!(history->plan.env_kind->flags & MDB_NOTLS))
        return;
    for (i = 0; i < SIDES; i++) {
        struct side *side = &history->sides[i];

        if (begins)
            EXPECT_OK(side->library->txn_begin(side->env, NULL, MDB_RDONLY, &side->reader));
        txns[i] = side->reader;
    }
    sum = walks_compare(history, txns, MDB_NEXT);
    if (begins) {
        history->snapshot = sum;
        return;
    }
    EXPECT(sum == history->snapshot, "a snapshot changed");
    for (i = 0; i < SIDES; i++) {
        history->sides[i].library->txn_abort(history->sides[i].reader);
        history->sides[i].reader = NULL;
    }
}

/* ==== Opening, closing, exchanging files ================================= */

static void assert_failed(MDB_env *env, const char *message)
{
    (void)env;
    history_fail(__FILE__, __LINE__, "an assertion of a library failed: %s", message);
}

static void side_open_env(const struct history *history, struct side *side, unsigned page_size)
{
    const struct library *library = side->library;

    EXPECT_OK(library->env_create(&side->env));
    EXPECT_OK(library->env_set_assert(side->env, assert_failed));
    EXPECT_OK(library->env_set_mapsize(side->env, map_size));
    EXPECT_OK(library->env_set_maxdbs(side->env, 2));
    if (page_size > 0)
        EXPECT_OK(library->env_set_pagesize(side->env, (int)page_size));
    EXPECT_OK(library->env_open(side->env, side->path, history->plan.env_kind->flags, 0664));
}

/* Opens the environment and the database, in a transaction of its own, so that readers may use the handle. */
static void side_open(struct history *history, struct side *side)
{
    const struct contents *contents = &history->contents;
    const struct library *library = side->library;
    MDB_txn *txn;
    MDB_stat stat;

    side_open_env(history, side, 0);
    EXPECT_OK(library->txn_begin(side->env, NULL, 0, &txn));
    EXPECT_OK(library->dbi_open(txn, history->plan.is_named ? "database" : NULL,
                                contents_flags(contents) | MDB_CREATE, &side->dbi));
    if (contents->key_kind->is_custom)
        EXPECT_OK(library->set_compare(txn, side->dbi, contents->key_kind->order));
    if (contents->value_kind->is_custom)
        EXPECT_OK(library->set_dupsort(txn, side->dbi, contents->value_kind->order));
    EXPECT_OK(library->stat(txn, side->dbi, &stat));
    EXPECT(stat.ms_psize == history->plan.page_size, "%s has page size %u", library->title, stat.ms_psize);
    EXPECT_OK(library->txn_commit(txn));
}

/* Ends what is going on and closes both environments, which must be sound. */
static void sides_close(struct history *history, struct random *random)
{
    int i;

    if (history->sides[0].reader != NULL)
        step_reader(history, random);
    while (history->depth > 0)
        transaction_commit(history);
    for (i = 0; i < SIDES; i++)
        history->sides[i].library->env_close(history->sides[i].env);
    for (i = 0; i < SIDES; i++) {
        trace("check what %s wrote", history->sides[i].library->title);
        run_check_tool_on(history->sides[i].path, contents_are_custom(&history->contents));
    }
}

/* Opens both environments; they must hold the same. */
static void sides_open(struct history *history)
{
    MDB_txn *txns[SIDES];
    int i;

    for (i = 0; i < SIDES; i++) {
        side_open(history, &history->sides[i]);
        EXPECT_OK(history->sides[i].library->txn_begin(history->sides[i].env, NULL, MDB_RDONLY, &txns[i]));
    }
    walks_compare(history, txns, MDB_NEXT);
    walks_compare(history, txns, MDB_PREV);
    for (i = 0; i < SIDES; i++)
        history->sides[i].library->txn_abort(txns[i]);
}

/* Each side goes on with the file that the other wrote. */
static void step_exchange(struct history *history, struct random *random)
{
    char *path;

    sides_close(history, random);
    trace("exchange");
    path = history->sides[0].path;
    history->sides[0].path = history->sides[1].path;
    history->sides[1].path = path;
    sides_open(history);
}

/* ==== Running a history ================================================== */

static const struct step_kind {
    unsigned weight;
    void (*run)(struct history *, struct random *);
} step_kinds[] = {
    { 20, step_put }, { 7, step_put_many }, { 4, step_put_multiple }, { 6, step_replace_current }, { 14, step_delete },
    { 6, step_delete_many }, { 10, step_cursor_delete }, { 26, step_cursor_get }, { 4, step_cursor_count },
    { 5, step_get }, { 3, step_read_set }, { 3, step_walk }, { 5, step_nest }, { 8, step_commit }, { 3, step_abort },
    { 3, step_reader }, { 1, step_empty }, { 3, step_exchange },
};

enum { STEP_KINDS = sizeof(step_kinds) / sizeof(step_kinds[0]) };

static void history_run_step(struct history *history, unsigned step)
{
    struct random random = plan_random(&history->plan, step);
    unsigned weights = 0, chosen, i;

    for (i = 0; i < STEP_KINDS; i++)
        weights += step_kinds[i].weight;
    chosen = (unsigned)random_below(&random, weights);
    for (i = 0; chosen >= step_kinds[i].weight; i++)
        chosen -= step_kinds[i].weight;
    if (history->depth == 0)
        transaction_begin(history);
    step_kinds[i].run(history, &random);
    if (history->depth > 0)
        cursors_check(history, &random);
}

/* Makes the two environments. Only ours can choose the page size, so it makes both where that is not the system's;
 * else each makes the one that it begins with. */
static void history_init(struct history *history, const struct plan *plan)
{
    struct random random = { plan->seed };
    size_t key_max = plan->page_size < 2048 ? ((plan->page_size - 16) / 2 & ~(size_t)1) - 58 : KEY_SIZE_MAX;
    int i, ours_makes_both = plan->page_size != (unsigned)sysconf(_SC_PAGESIZE);

    memset(history, 0, sizeof(*history));
    history->plan = *plan;
    contents_init(&history->contents, plan->key_kind, plan->value_kind, &random, key_max);
    history->contents.values.size_min = 1;
    for (i = 0; i < SIDES; i++) {
        struct side *side = &history->sides[i];
        size_t size;

        history->directories[i] = temp_dir_make();
        size = strlen(history->directories[i]) + sizeof("/data");
        side->path = malloc(size);
        CHECK(side->path != NULL);
        snprintf(side->path, size, "%s%s", history->directories[i],
                 plan->env_kind->flags & MDB_NOSUBDIR ? "/data" : "");
        side->library = &ours;
        if (i == 0 || ours_makes_both) {
            side_open_env(history, side, plan->page_size);
            ours.env_close(side->env);
        }
        side->library = i == 0 ? &ours : &theirs;
    }
}

static void history_run(const struct plan *plan)
{
    static struct history history;
    struct random random = { plan->seed };
    unsigned step;
    int i;

    ours_load();
    if (!theirs_load())
        test_skip("no other liblmdb is installed");
    plan_note(plan, 0);
    history_init(&history, plan);
    sides_open(&history);
    for (step = 1; step <= plan->steps; step++) {
        plan_note(plan, step);
        if (plan_wants(plan, step))
            history_run_step(&history, step);
    }
    step_exchange(&history, &random);
    sides_close(&history, &random);
    for (i = 0; i < SIDES; i++) {
        free(history.sides[i].path);
        temp_dir_remove(history.directories[i]);
    }
}

/* ==== The tests ========================================================== */

/* The system's page size or, as often, another. */
static unsigned page_size_pick(struct random *random)
{
    static const unsigned sizes[] = { 512, 1024, 2048, 4096, 8192, 16384, 32768 };

    if (random_one_in(random, 2))
        return (unsigned)sysconf(_SC_PAGESIZE);
    return sizes[random_below(random, sizeof(sizes) / sizeof(sizes[0]))];
}

static void histories_run(const struct value_kind *value_kind)
{
    unsigned scale = test_scale(), count = KEY_KINDS * ENV_KINDS * 2 * scale, i;
    struct random random = { test_seed() };
    struct plan plan;

    for (i = 0; i < count; i++) {
        memset(&plan, 0, sizeof(plan));
        plan.value_kind = value_kind;
        plan.is_named = i % 2 == 0;
        plan.key_kind = &key_kinds[i / 2 % KEY_KINDS];
        plan.env_kind = &env_kinds[i / 2 / KEY_KINDS % ENV_KINDS];
        plan.page_size = page_size_pick(&random);
        plan.seed = test_seed() * 1000003 + i;
        plan.steps = HISTORY_STEPS;
        history_run(&plan);
    }
}

TEST(single_values_are_as_in_lmdb)
{
    histories_run(&value_kinds[0]);
}

TEST(duplicates_are_as_in_lmdb)
{
    histories_run(&value_kinds[1]);
}

TEST(fixed_duplicates_are_as_in_lmdb)
{
    histories_run(&value_kinds[2]);
}

TEST(integer_duplicates_are_as_in_lmdb)
{
    histories_run(&value_kinds[3]);
}

TEST(reversed_duplicates_are_as_in_lmdb)
{
    histories_run(&value_kinds[4]);
}

TEST(duplicates_in_custom_order_are_as_in_lmdb)
{
    histories_run(&value_kinds[5]);
}

TEST(fixed_duplicates_in_custom_order_are_as_in_lmdb)
{
    histories_run(&value_kinds[6]);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(single_values_are_as_in_lmdb),
        TEST_ENTRY(duplicates_are_as_in_lmdb),
        TEST_ENTRY(fixed_duplicates_are_as_in_lmdb),
        TEST_ENTRY(integer_duplicates_are_as_in_lmdb),
        TEST_ENTRY(reversed_duplicates_are_as_in_lmdb),
        TEST_ENTRY(duplicates_in_custom_order_are_as_in_lmdb),
        TEST_ENTRY(fixed_duplicates_in_custom_order_are_as_in_lmdb),
    };

    return history_main(argc, argv, tests, TEST_COUNT(tests), history_run);
}
