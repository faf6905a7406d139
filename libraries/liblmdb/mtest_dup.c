/* Duplicates: sets of values that are one value, a page within a page or a tree, and the ways between. */
#include "mtest_script.h"

/* ==== One set and its model ==============================================
 * The values of the key "set" are numbers; between two keys that must not be disturbed. */

enum { VALUES_MAX = 2500, VALUE_SIZE_MAX = 511 };

struct dup_set {
    struct scene scene;
    size_t value_size;          /* 8 or more: the numeral, then bytes of filling */
    unsigned char present[VALUES_MAX];
    unsigned count;
};

static MDB_val set_value(const struct dup_set *set, unsigned number, unsigned char *bytes)
{
    memset(bytes, 'x', set->value_size);
    memcpy(bytes, numeral_of(number).text, 8);
    return val_of(bytes, set->value_size);
}

static void set_open(struct dup_set *set, unsigned env_flags, unsigned db_flags, size_t value_size)
{
    memset(set, 0, sizeof(*set));
    set->value_size = value_size;
    scene_open(&set->scene, env_flags | MDB_NOSYNC, db_flags | MDB_DUPSORT);
    if ((db_flags & MDB_DUPFIXED) == 0)
        put_records(set->scene.txn, set->scene.dbi, "seta=1 sets=1 sett=1 sett=2");
}

/* The neighbours, and as many records as there should be. */
static void set_check_database(const struct dup_set *set)
{
    CHECK_EQ(walk_both(set->scene.txn, set->scene.dbi), set->count + 4);
    CHECK_TEXT(get_text(set->scene.txn, set->scene.dbi, "seta"), "1");
    CHECK_TEXT(get_text(set->scene.txn, set->scene.dbi, "sets"), "1");
    CHECK_TEXT(get_text(set->scene.txn, set->scene.dbi, "sett"), "1");
}

/* All values in order, forward and backward, and the count. */
static void set_check(const struct dup_set *set)
{
    unsigned char bytes[VALUE_SIZE_MAX];
    MDB_cursor *cursor;
    MDB_val key = val_text("set"), data, value;
    unsigned i, seen = 0;
    mdb_size_t count;
    int rc;

    CHECK_OK(mdb_cursor_open(set->scene.txn, set->scene.dbi, &cursor));
    rc = mdb_cursor_get(cursor, &key, &data, MDB_SET);
    CHECK_RC(rc, set->count > 0 ? MDB_SUCCESS : MDB_NOTFOUND);
    for (i = 0; i < VALUES_MAX; i++) {
        if (!set->present[i])
            continue;
        value = set_value(set, i, bytes);
        CHECK_RC(rc, MDB_SUCCESS);
        CHECK_VAL(&data, value.mv_data, value.mv_size);
        if (seen++ == 0) {
            CHECK_OK(mdb_cursor_count(cursor, &count));
            CHECK_EQ(count, set->count);
        }
        rc = mdb_cursor_get(cursor, NULL, &data, MDB_NEXT_DUP);
    }
    CHECK_EQ(seen, set->count);
    CHECK_RC(rc, MDB_NOTFOUND);
    rc = set->count > 0 ? mdb_cursor_get(cursor, NULL, &data, MDB_LAST_DUP) : MDB_NOTFOUND;
    for (i = VALUES_MAX; i-- > 0;) {
        if (!set->present[i])
            continue;
        value = set_value(set, i, bytes);
        CHECK_RC(rc, MDB_SUCCESS);
        CHECK_VAL(&data, value.mv_data, value.mv_size);
        rc = mdb_cursor_get(cursor, NULL, &data, MDB_PREV_DUP);
    }
    CHECK_RC(rc, MDB_NOTFOUND);
    mdb_cursor_close(cursor);
}

static void set_put(struct dup_set *set, unsigned number, unsigned flags)
{
    unsigned char bytes[VALUE_SIZE_MAX];
    MDB_val key = val_text("set"), value = set_value(set, number, bytes);

    test_note("put %u into %u values of %zu bytes", number, set->count, set->value_size);
    CHECK_OK(mdb_put(set->scene.txn, set->scene.dbi, &key, &value, flags));
    set->count += !set->present[number];
    set->present[number] = 1;
}

static void set_del(struct dup_set *set, unsigned number)
{
    unsigned char bytes[VALUE_SIZE_MAX];
    MDB_val key = val_text("set"), value = set_value(set, number, bytes);

    test_note("delete %u of %u values of %zu bytes", number, set->count, set->value_size);
    CHECK_RC(mdb_del(set->scene.txn, set->scene.dbi, &key, &value), set->present[number] ? MDB_SUCCESS : MDB_NOTFOUND);
    set->count -= set->present[number];
    set->present[number] = 0;
}

static void set_fill(struct dup_set *set, unsigned count)
{
    unsigned i;

    for (i = 0; i < count; i++)
        set_put(set, i, 0);
}

/* Number i of count in one of three orders. */
enum order { ORDER_UP, ORDER_DOWN, ORDER_RANDOM, ORDERS };

static unsigned in_order(enum order order, const unsigned *shuffled, unsigned i, unsigned count)
{
    return order == ORDER_UP ? i : order == ORDER_DOWN ? count - 1 - i : shuffled[i];
}

/* ==== Growing and shrinking ============================================== */

static void set_grow_and_shrink(size_t value_size, unsigned count, enum order growing, enum order shrinking,
                                unsigned commit_every)
{
    struct dup_set *set = malloc(sizeof(*set));
    struct random random = { test_seed() };
    unsigned *shuffled = numbers_shuffled(&random, count), i;

    CHECK(set != NULL);
    set_open(set, 0, 0, value_size);
    for (i = 0; i < count; i++) {
        set_put(set, in_order(growing, shuffled, i, count), growing == ORDER_UP ? MDB_APPENDDUP : 0);
        if (i < 40 || i % 50 == 0)
            set_check(set);
        if (commit_every > 0 && i % commit_every == 0)
            scene_commit(&set->scene);
    }
    set_check(set);
    set_check_database(set);
    for (i = 0; i < count; i++) {
        set_del(set, in_order(shrinking, shuffled, i, count));
        if (i > count - 40 || i % 50 == 0)
            set_check(set);
        if (commit_every > 0 && i % commit_every == 0)
            scene_commit(&set->scene);
    }
    set_check(set);
    set_check_database(set);
    scene_close(&set->scene);
    free(shuffled);
    free(set);
}

TEST(set_grows_from_one_value_to_a_tree_and_shrinks_again)
{
    static const struct {
        size_t value_size;
        unsigned count;
    } cases[] = { { 8, 700 }, { 9, 400 }, { 31, 300 }, { 100, 200 }, { 180, 150 } };
    size_t i;
    int growing, shrinking;

    for (i = 0; i < ARRAY_COUNT(cases); i++) {
        for (growing = 0; growing < ORDERS; growing++) {
            for (shrinking = 0; shrinking < ORDERS; shrinking++)
                set_grow_and_shrink(cases[i].value_size, cases[i].count, (enum order)growing, (enum order)shrinking, 0);
        }
    }
}

TEST(set_grows_and_shrinks_over_many_commits)
{
    set_grow_and_shrink(8, 500, ORDER_RANDOM, ORDER_RANDOM, 1);
    set_grow_and_shrink(60, 200, ORDER_UP, ORDER_DOWN, 3);
    set_grow_and_shrink(150, 100, ORDER_DOWN, ORDER_UP, 2);
}

TEST(longest_values_make_sets)
{
    struct scene scene;
    MDB_env *env;
    size_t longest;
    char *dir = temp_dir_make();

    env = env_open_new(dir, 0, SCENE_MAP_SIZE, 0);
    longest = (size_t)mdb_env_get_maxkeysize(env);
    mdb_env_close(env);
    temp_dir_remove(dir);
    set_grow_and_shrink(longest, 120, ORDER_UP, ORDER_UP, 0);
    set_grow_and_shrink(longest, 120, ORDER_RANDOM, ORDER_RANDOM, 7);
    set_grow_and_shrink(longest - 1, 60, ORDER_DOWN, ORDER_RANDOM, 1);

    scene_open(&scene, 0, MDB_DUPSORT);
    {
        unsigned char bytes[600];
        MDB_val key = val_text("k"), data = val_of(bytes, longest + 1);

        memset(bytes, 'v', sizeof(bytes));
        CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, 0), MDB_BAD_VALSIZE);
        CHECK_CONTENTS(scene.txn, scene.dbi, "");
        put_records(scene.txn, scene.dbi, "k=1");
        CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, 0), MDB_BAD_VALSIZE);
        CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, MDB_APPENDDUP), MDB_BAD_VALSIZE);
        CHECK_RC(mdb_del(scene.txn, scene.dbi, &key, &data), MDB_NOTFOUND);
        CHECK_CONTENTS(scene.txn, scene.dbi, "k=1");
    }
    scene_close(&scene);
}

/* Values of all lengths in one set, so that every step of its size is passed. */
TEST(set_takes_values_of_every_length)
{
    struct scene scene;
    unsigned char bytes[VALUE_SIZE_MAX];
    size_t longest, size;
    struct random random = { test_seed() };
    unsigned *order, i;
    MDB_val key = val_text("k"), data;
    MDB_cursor *cursor;

    memset(bytes, 'v', sizeof(bytes));
    scene_open(&scene, MDB_NOSYNC, MDB_DUPSORT);
    longest = (size_t)mdb_env_get_maxkeysize(scene.env);
    order = numbers_shuffled(&random, (unsigned)longest + 1);
    for (i = 0; i <= longest; i++) {
        data = val_of(bytes, order[i]);
        test_note("length %u, step %u", order[i], i);
        CHECK_OK(mdb_put(scene.txn, scene.dbi, &key, &data, 0));
        CHECK_EQ(entries_count(scene.txn, scene.dbi), i + 1);
    }
    cursor = scene_cursor(&scene);
    for (size = 0; size <= longest; size++) {
        CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
        CHECK_VAL(&data, bytes, size);
    }
    scene_commit(&scene);
    key = val_text("k");
    for (i = 0; i <= longest; i++) {
        data = val_of(bytes, order[i]);
        test_note("length %u, step %u", order[i], i);
        CHECK_OK(mdb_del(scene.txn, scene.dbi, &key, &data));
        CHECK_EQ(walk_both(scene.txn, scene.dbi), longest - i);
    }
    free(order);
    scene_close(&scene);
}

TEST(many_sets_grow_at_once)
{
    enum { KEYS = 60, VALUES = 120 };
    static const size_t sizes[] = { 4, 40 };
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(sizes); kind++) {
        struct scene scene;
        struct random random = { test_seed() };
        unsigned *order = numbers_shuffled(&random, KEYS * VALUES), i;

        scene_open(&scene, MDB_NOSYNC, MDB_DUPSORT);
        for (i = 0; i < KEYS * VALUES; i++) {
            struct numeral numeral = numeral_of(order[i] % KEYS);
            unsigned char bytes[40] = { 0 };
            unsigned number = order[i] / KEYS;
            MDB_val key = val_text(numeral.text), data = val_of(bytes, sizes[kind]);

            bytes[0] = (unsigned char)(number >> 8);
            bytes[1] = (unsigned char)number;
            CHECK_OK(mdb_put(scene.txn, scene.dbi, &key, &data, 0));
            if (i % 1000 == 0)
                scene_commit(&scene);
        }
        CHECK_EQ(walk_both(scene.txn, scene.dbi), KEYS * VALUES);
        CHECK_EQ(walk_count(scene.txn, scene.dbi, MDB_FIRST, MDB_NEXT_NODUP), KEYS);
        for (i = 0; i < KEYS * VALUES; i++) {
            struct numeral numeral = numeral_of(order[i] / VALUES);
            unsigned char bytes[40] = { 0 };
            unsigned number = order[i] % VALUES;
            MDB_val key = val_text(numeral.text), data = val_of(bytes, sizes[kind]);

            bytes[0] = (unsigned char)(number >> 8);
            bytes[1] = (unsigned char)number;
            CHECK_OK(mdb_del(scene.txn, scene.dbi, &key, &data));
            if (i % 1000 == 0)
                CHECK_EQ(walk_both(scene.txn, scene.dbi), KEYS * VALUES - i - 1);
        }
        CHECK_CONTENTS(scene.txn, scene.dbi, "");
        free(order);
        scene_close(&scene);
    }
}

TEST(deleting_a_key_frees_the_pages_of_its_set)
{
    struct dup_set *set = malloc(sizeof(*set));
    MDB_envinfo info;
    size_t pages = 0;
    MDB_stat stat;
    unsigned round;
    MDB_val key = val_text("set");

    CHECK(set != NULL);
    set_open(set, 0, 0, 50);
    for (round = 0; round < 30; round++) {
        set_fill(set, 600);
        scene_commit(&set->scene);
        if (round % 2 == 0) {
            CHECK_OK(mdb_del(set->scene.txn, set->scene.dbi, &key, NULL));
        } else {
            MDB_cursor *cursor = scene_cursor(&set->scene);

            CHECK_OK(mdb_cursor_get(cursor, &key, NULL, MDB_SET));
            CHECK_OK(mdb_cursor_del(cursor, MDB_NODUPDATA));
        }
        memset(set->present, 0, sizeof(set->present));
        set->count = 0;
        set_check(set);
        set_check_database(set);
        scene_commit(&set->scene);
        CHECK_OK(mdb_env_info(set->scene.env, &info));
        if (round == 5)
            pages = info.me_last_pgno;
        CHECK(round <= 5 || info.me_last_pgno <= pages);
    }
    CHECK_OK(mdb_stat(set->scene.txn, set->scene.dbi, &stat));
    CHECK_EQ(stat.ms_leaf_pages, 1);
    scene_close(&set->scene);
    free(set);
}

/* ==== Finding a value ==================================================== */

static void find_in_set(unsigned count, int committed)
{
    struct dup_set *set = malloc(sizeof(*set));
    MDB_cursor *cursor;
    unsigned char bytes[VALUE_SIZE_MAX];
    MDB_val key, value, data;
    unsigned i;

    CHECK(set != NULL);
    set_open(set, 0, 0, 12);
    for (i = 0; i < count; i++)
        set_put(set, 2 * i + 1, 0);
    if (committed)
        scene_commit(&set->scene);
    cursor = scene_cursor(&set->scene);
    for (i = 0; i <= 2 * count; i++) {
        int is_there = i % 2 == 1;
        unsigned above = is_there ? i : i + 1;

        test_note("value %u of %u", i, count);
        key = val_text("set");
        data = value = set_value(set, i, bytes);
        CHECK_RC(mdb_cursor_get(cursor, &key, &data, MDB_GET_BOTH), is_there ? MDB_SUCCESS : MDB_NOTFOUND);
        CHECK_VAL(&data, value.mv_data, value.mv_size);
        if (is_there)
            CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
        CHECK_VAL(&data, value.mv_data, value.mv_size);
        data = value;
        CHECK_RC(mdb_cursor_get(cursor, &key, &data, MDB_GET_BOTH_RANGE), i < 2 * count ? MDB_SUCCESS : MDB_NOTFOUND);
        if (i < 2 * count) {
            unsigned char above_bytes[VALUE_SIZE_MAX];

            value = set_value(set, above, above_bytes);
            CHECK_VAL(&data, value.mv_data, value.mv_size);
            CHECK_RC(mdb_cursor_get(cursor, &key, &data, MDB_PREV_DUP), above > 1 ? MDB_SUCCESS : MDB_NOTFOUND);
            if (above > 1) {
                value = set_value(set, above - 2, above_bytes);
                CHECK_VAL(&data, value.mv_data, value.mv_size);
            }
        } else {
            value = set_value(set, 2 * count - 1, bytes);
            CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_LAST_DUP));
            CHECK_VAL_TEXT(&key, "set");
            CHECK_VAL(&data, value.mv_data, value.mv_size);
        }
    }
    scene_close(&set->scene);
    free(set);
}

TEST(get_both_finds_every_value_and_every_gap)
{
    static const unsigned counts[] = { 1, 2, 3, 10, 100, 1000 };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(counts); i++) {
        find_in_set(counts[i], 0);
        find_in_set(counts[i], 1);
    }
}

TEST(values_are_found_and_counted)
{
    static const struct script_case cases[] = {
        { MDB_DUPSORT, "a=1 a=3 b=2",
          "GET_BOTH a 1 a=1, GET_BOTH a 3 a=3, GET_BOTH a 2 NOTFOUND, GET_BOTH b 1 NOTFOUND", NULL },
        { MDB_DUPSORT, "a=1 a=3 b=2", "GET_BOTH_RANGE a 2 a=3, GET_BOTH_RANGE a 0 a=1, GET_BOTH_RANGE b 1 b=2", NULL },
        { MDB_DUPSORT, "a=1 a=3 b=2", "GET_BOTH_RANGE a 4 NOTFOUND, LAST_DUP a=3, PREV_DUP a=1", NULL },
        { MDB_DUPSORT, "a=1 a=3 b=2", "GET_BOTH_RANGE a 4 NOTFOUND, FIRST_DUP a=1", NULL },
        { MDB_DUPSORT, "a=1 b=2", "GET_BOTH_RANGE a 4 NOTFOUND, LAST_DUP a=1, NEXT b=2", NULL },
        { MDB_DUPSORT, "a=1 c=2", "GET_BOTH_RANGE b 0 NOTFOUND, GET_BOTH b 2 NOTFOUND, GET_BOTH_RANGE d 0 NOTFOUND",
          NULL },
        { MDB_DUPSORT, "a=1 a=2 a=3 b=1", "FIRST a=1, count 3, NEXT a=2, count 3, LAST b=1, count 1", NULL },
        { MDB_DUPSORT, "a=1 a=2", "FIRST a=1, put a=3 ok, count 3, mdel a=1 ok, count 2, mdel a=2 ok, count 1", "a=3" },
        { MDB_DUPSORT, "a=1 a=2", "GET_BOTH a - NOTFOUND, GET_BOTH_RANGE a - a=1", NULL },
        { MDB_DUPSORT, "a=1 a=2", "GET_BOTH - 1 BAD_VALSIZE, GET_BOTH_RANGE - 1 BAD_VALSIZE", NULL },
        { MDB_DUPSORT, "a=1 a=2 b=1", "LAST_DUP EINVAL, SET b b=1, FIRST_DUP b=1, LAST_DUP b=1, NEXT_DUP NOTFOUND",
          NULL },
    };

    script_cases_run(cases, ARRAY_COUNT(cases));
}

/* ==== Flags of put ======================================================= */

TEST(put_of_a_duplicate_obeys_each_flag)
{
    static const struct {
        const char *before, *key, *value;
        unsigned flags;
        const char *code, *after;
    } cases[] = {
        { "a=1", "a", "1", 0, "ok", "a=1" },
        { "a=1 a=2 a=3", "a", "2", 0, "ok", "a=1 a=2 a=3" },
        { "a=1", "a", "1", MDB_NODUPDATA, "KEYEXIST", "a=1" },
        { "a=1", "a", "2", MDB_NODUPDATA, "ok", "a=1 a=2" },
        { "a=1 a=2 a=3", "a", "2", MDB_NODUPDATA, "KEYEXIST", "a=1 a=2 a=3" },
        { "a=1 a=3", "a", "2", MDB_NODUPDATA, "ok", "a=1 a=2 a=3" },
        { "a=1", "a", "2", MDB_NOOVERWRITE, "KEYEXIST", "a=1" },
        { "a=1 a=2", "a", "3", MDB_NOOVERWRITE, "KEYEXIST", "a=1 a=2" },
        { "a=1", "b", "2", MDB_NOOVERWRITE, "ok", "a=1 b=2" },
        { "a=1", "a", "2", MDB_APPENDDUP, "ok", "a=1 a=2" },
        { "a=2", "a", "1", MDB_APPENDDUP, "KEYEXIST", "a=2" },
        { "a=2", "a", "2", MDB_APPENDDUP, "KEYEXIST", "a=2" },
        { "a=1 a=3", "a", "2", MDB_APPENDDUP, "KEYEXIST", "a=1 a=3" },
        { "a=1 a=3", "a", "3", MDB_APPENDDUP, "KEYEXIST", "a=1 a=3" },
        { "a=1 a=3", "a", "4", MDB_APPENDDUP, "ok", "a=1 a=3 a=4" },
        { "a=1 a=3", "a", "4", MDB_APPENDDUP | MDB_NODUPDATA, "ok", "a=1 a=3 a=4" },
        { "a=1 a=3", "a", "3", MDB_APPENDDUP | MDB_NODUPDATA, "KEYEXIST", "a=1 a=3" },
        { "a=1 a=3", "b", "1", MDB_APPENDDUP, "ok", "a=1 a=3 b=1" },
        { "a=1 a=3", "b", "1", MDB_APPEND, "ok", "a=1 a=3 b=1" },
        { "b=1 b=3", "a", "1", MDB_APPEND, "KEYEXIST", "b=1 b=3" },
    };
    static const unsigned kinds[] = { MDB_DUPSORT, MDB_DUPSORT | MDB_DUPFIXED };
    size_t i, kind;

    for (kind = 0; kind < ARRAY_COUNT(kinds); kind++) {
        for (i = 0; i < ARRAY_COUNT(cases); i++) {
            struct scene scene;
            MDB_cursor *cursor;
            int through_cursor, rc;

            for (through_cursor = 0; through_cursor < 2; through_cursor++) {
                scene_open(&scene, MDB_NOSYNC, kinds[kind]);
                put_records(scene.txn, scene.dbi, cases[i].before);
                test_note("kind %zu, case %zu, through a cursor: %d", kind, i, through_cursor);
                if (through_cursor) {
                    cursor = scene_cursor(&scene);
                    rc = cursor_put_text(cursor, cases[i].key, cases[i].value, cases[i].flags);
                } else {
                    rc = put_text(scene.txn, scene.dbi, cases[i].key, cases[i].value, cases[i].flags);
                }
                CHECK_CODE(rc, cases[i].code);
                CHECK_CONTENTS(scene.txn, scene.dbi, cases[i].after);
                put_records(scene.txn, scene.dbi, "z=9");
                scene_close(&scene);
            }
        }
    }
}

TEST(flags_of_put_hold_in_sets_of_every_shape)
{
    static const unsigned counts[] = { 1, 2, 8, 200, 1500 };
    size_t i;
    int committed;

    for (i = 0; i < ARRAY_COUNT(counts); i++) {
        for (committed = 0; committed < 2; committed++) {
            struct dup_set *set = malloc(sizeof(*set));
            unsigned char bytes[VALUE_SIZE_MAX];
            MDB_val key = val_text("set"), first, value;
            unsigned k;

            CHECK(set != NULL);
            set_open(set, 0, 0, 10);
            set_fill(set, counts[i]);
            if (committed)
                scene_commit(&set->scene);
            for (k = 0; k < counts[i]; k += 1 + counts[i] / 20) {
                value = set_value(set, k, bytes);
                CHECK_OK(mdb_put(set->scene.txn, set->scene.dbi, &key, &value, 0));
                CHECK_RC(mdb_put(set->scene.txn, set->scene.dbi, &key, &value, MDB_NODUPDATA), MDB_KEYEXIST);
                CHECK_RC(mdb_put(set->scene.txn, set->scene.dbi, &key, &value, MDB_APPENDDUP), MDB_KEYEXIST);
                CHECK_EQ(entries_count(set->scene.txn, set->scene.dbi), set->count + 4);
            }
            value = set_value(set, counts[i] + 5, bytes);
            CHECK_RC(mdb_put(set->scene.txn, set->scene.dbi, &key, &value, MDB_NOOVERWRITE), MDB_KEYEXIST);
            first = set_value(set, 0, bytes);
            CHECK_VAL(&value, first.mv_data, first.mv_size);
            set_put(set, counts[i] + 3, MDB_APPENDDUP);
            set_put(set, counts[i] + 1, MDB_NODUPDATA);
            set_check(set);
            set_check_database(set);
            scene_close(&set->scene);
            free(set);
        }
    }
}

TEST(appenddup_loads_sorted_values_and_fills_pages)
{
    enum { COUNT = 20000 };
    struct scene scene;
    MDB_envinfo info;
    unsigned i;

    scene_open(&scene, MDB_NOSYNC, MDB_DUPSORT);
    for (i = 0; i < COUNT; i++)
        CHECK_OK(put_text(scene.txn, scene.dbi, "key", numeral_of(i).text, MDB_APPENDDUP));
    CHECK_EQ(walk_both(scene.txn, scene.dbi), COUNT);
    scene_commit(&scene);
    CHECK_OK(mdb_env_info(scene.env, &info));
    /* 8 of header, 8 of value, 2 of slot for each; no page but the last is much less than full. */
    CHECK(info.me_last_pgno < (COUNT * 18 / (test_page_size() - 50)) * 11 / 10 + 8);
    CHECK_RC(put_text(scene.txn, scene.dbi, "key", numeral_of(7).text, MDB_APPENDDUP), MDB_KEYEXIST);
    scene_close(&scene);
}

/* ==== The empty value ==================================================== */

TEST(empty_value_is_a_value_like_any_other)
{
    static const struct script_case cases[] = {
        { MDB_DUPSORT, "a=", "FIRST a=, count 1, NEXT_DUP NOTFOUND, GET_BOTH a - a=, del - ok, FIRST NOTFOUND", "" },
        { MDB_DUPSORT, "a= a=1", "FIRST a=, count 2, NEXT_DUP a=1, PREV_DUP a=, NEXT a=1, NEXT NOTFOUND", NULL },
        { MDB_DUPSORT, "a=1", "put a=- ok, FIRST a=, NEXT a=1, count 2", "a= a=1" },
        { MDB_DUPSORT, "a= a=1", "GET_BOTH a - a=, del - ok, GET_CURRENT a=1, count 1", "a=1" },
        { MDB_DUPSORT, "a= a=1", "mdel a=- ok, FIRST a=1", "a=1" },
        { MDB_DUPSORT, "a= a=1", "mdel a=1 ok, FIRST a=, count 1", "a=" },
        { MDB_DUPSORT, "a= a=1 a=2 b=", "mdel a=- ok, GET_BOTH a - NOTFOUND, GET_BOTH_RANGE a - a=1, LAST b=, PREV a=2",
          "a=1 a=2 b=" },
        { MDB_DUPSORT, "a=1 a=2", "SET a a=1, ccurrent a=- ok, FIRST a=, NEXT a=2", "a= a=2" },
        { MDB_DUPSORT, "a= b=1", "SET a a=, ccurrent a=x ok, FIRST a=x, count 1", "a=x b=1" },
    };
    static const unsigned counts[] = { 1, 2, 50, 1000 };
    size_t i;

    script_cases_run(cases, ARRAY_COUNT(cases));
    for (i = 0; i < ARRAY_COUNT(counts); i++) {
        struct dup_set *set = malloc(sizeof(*set));
        MDB_val key = val_text("set"), empty = val_text(""), data;
        MDB_cursor *cursor;

        CHECK(set != NULL);
        set_open(set, 0, 0, 20);
        set_fill(set, counts[i]);
        scene_commit(&set->scene);
        test_note("with %u values", counts[i]);
        CHECK_OK(mdb_put(set->scene.txn, set->scene.dbi, &key, &empty, 0));
        CHECK_RC(mdb_put(set->scene.txn, set->scene.dbi, &key, &empty, MDB_NODUPDATA), MDB_KEYEXIST);
        CHECK_OK(mdb_put(set->scene.txn, set->scene.dbi, &key, &empty, 0));
        CHECK_EQ(walk_both(set->scene.txn, set->scene.dbi), counts[i] + 5);
        scene_commit(&set->scene);
        CHECK_OK(mdb_get(set->scene.txn, set->scene.dbi, &key, &data));
        CHECK_EQ(data.mv_size, 0);
        cursor = scene_cursor(&set->scene);
        data = empty;
        CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_BOTH));
        CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT_DUP));
        CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_PREV_DUP));
        CHECK_EQ(data.mv_size, 0);
        CHECK_OK(mdb_del(set->scene.txn, set->scene.dbi, &key, &empty));
        set_check(set);
        set_check_database(set);
        scene_close(&set->scene);
        free(set);
    }
}

/* ==== Replacing by MDB_CURRENT =========================================== */

TEST(current_replaces_one_value)
{
    static const struct script_case cases[] = {
        { MDB_DUPSORT, "a=1 a=3 a=5", "GET_BOTH a 3 a=3, ccurrent a=4 ok, GET_CURRENT a=4, NEXT a=5, count 3",
          "a=1 a=4 a=5" },
        { MDB_DUPSORT, "a=1 a=3 a=5", "GET_BOTH a 3 a=3, ccurrent a=3 ok, GET_CURRENT a=3, count 3", NULL },
        { MDB_DUPSORT, "a=1 a=3 a=5", "GET_BOTH a 3 a=3, ccurrent a=33 ok, GET_CURRENT a=33, NEXT a=5",
          "a=1 a=33 a=5" },
        { MDB_DUPSORT, "a=1 a=3 a=5", "GET_BOTH a 3 a=3, ccurrent a=7 ok, GET_CURRENT a=7, PREV a=5", "a=1 a=5 a=7" },
        { MDB_DUPSORT, "a=1 a=3 a=5", "GET_BOTH a 3 a=3, ccurrent a=0 ok, GET_CURRENT a=0, NEXT a=1", "a=0 a=1 a=5" },
        { MDB_DUPSORT, "a=1 a=33 a=5", "GET_BOTH a 33 a=33, ccurrent a=2 ok, GET_CURRENT a=2", "a=1 a=2 a=5" },
        { MDB_DUPSORT, "a=1 b=2", "FIRST a=1, ccurrent a=2 ok, GET_CURRENT a=2, count 1, NEXT b=2", "a=2 b=2" },
        { MDB_DUPSORT, "a=1 b=2", "FIRST a=1, ccurrent a=longer ok, GET_CURRENT a=longer, NEXT b=2", "a=longer b=2" },
        { MDB_DUPSORT | MDB_DUPFIXED, "a=1 a=3 a=5", "GET_BOTH a 3 a=3, ccurrent a=4 ok, GET_CURRENT a=4, NEXT a=5",
          "a=1 a=4 a=5" },
        { MDB_DUPSORT | MDB_DUPFIXED, "a=1 a=3 a=5", "GET_BOTH a 3 a=3, ccurrent a=7 ok, GET_CURRENT a=7, PREV a=5",
          "a=1 a=5 a=7" },
        { MDB_DUPSORT | MDB_DUPFIXED, "a=1 a=3", "GET_BOTH a 3 a=3, ccurrent a=33 BAD_VALSIZE, LAST a=3", NULL },
    };

    script_cases_run(cases, ARRAY_COUNT(cases));
}

TEST(current_replaces_values_in_sets_of_every_shape)
{
    static const unsigned counts[] = { 1, 2, 10, 100, 1000 };
    static const size_t sizes[] = { 8, 9, 40, 120 };
    size_t i, k;

    for (i = 0; i < ARRAY_COUNT(counts); i++) {
        struct dup_set *set = malloc(sizeof(*set));

        CHECK(set != NULL);
        for (k = 0; k < ARRAY_COUNT(sizes); k++) {
            unsigned char bytes[VALUE_SIZE_MAX];
            MDB_cursor *cursor;
            MDB_val key = val_text("set"), value, data;
            unsigned n;

            set_open(set, 0, 0, 20);
            set_fill(set, counts[i]);
            scene_commit(&set->scene);
            cursor = scene_cursor(&set->scene);
            for (n = 0; n < counts[i]; n++) {
                set->value_size = 20;
                value = set_value(set, n, bytes);
                test_note("%u values, number %u to %zu bytes", counts[i], n, sizes[k]);
                CHECK_OK(mdb_cursor_get(cursor, &key, &value, MDB_GET_BOTH));
                set->value_size = sizes[k];
                value = set_value(set, n, bytes);
                CHECK_OK(mdb_cursor_put(cursor, &key, &value, MDB_CURRENT));
                CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
                CHECK_VAL(&data, value.mv_data, value.mv_size);
                CHECK_EQ(entries_count(set->scene.txn, set->scene.dbi), counts[i] + 4);
            }
            set_check(set);
            set_check_database(set);
            scene_close(&set->scene);
        }
        free(set);
    }
}

/* ==== Other cursors in the set =========================================== */

TEST(cursors_in_a_set_stay_on_their_values_and_see_its_count)
{
    static const size_t value_sizes[] = { 8, 60 };
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(value_sizes); kind++) {
        enum { WATCHED = 12, COUNT = 900, STEP = COUNT / WATCHED };
        struct dup_set *set = malloc(sizeof(*set));
        MDB_cursor *cursors[WATCHED];
        unsigned char bytes[VALUE_SIZE_MAX];
        MDB_val key = val_text("set"), value, data;
        struct random random = { test_seed() };
        unsigned *order = numbers_shuffled(&random, COUNT), i, w, round;
        mdb_size_t count;

        CHECK(set != NULL);
        set_open(set, 0, 0, value_sizes[kind]);
        for (w = 0; w < WATCHED; w++)
            set_put(set, w * STEP, 0);
        for (w = 0; w < WATCHED; w++) {
            cursors[w] = scene_cursor(&set->scene);
            value = set_value(set, w * STEP, bytes);
            CHECK_OK(mdb_cursor_get(cursors[w], &key, &value, MDB_GET_BOTH));
        }
        for (round = 0; round < 2; round++) {
            for (i = 0; i < COUNT; i++) {
                if (order[i] % STEP == 0)
                    continue;
                if (round == 0)
                    set_put(set, order[i], 0);
                else
                    set_del(set, order[i]);
                w = i % WATCHED;
                value = set_value(set, w * STEP, bytes);
                CHECK_OK(mdb_cursor_get(cursors[w], &key, &data, MDB_GET_CURRENT));
                CHECK_VAL(&data, value.mv_data, value.mv_size);
                CHECK_OK(mdb_cursor_count(cursors[w], &count));
                CHECK_EQ(count, set->count);
                w = (i + 5) % WATCHED;
                CHECK_OK(mdb_cursor_count(cursors[w], &count));
                CHECK_EQ(count, set->count);
            }
            set_check(set);
        }
        /* All but one go; each cursor then stands where its value was. */
        for (w = 1; w < WATCHED; w++)
            set_del(set, w * STEP);
        CHECK_OK(mdb_cursor_get(cursors[0], &key, &data, MDB_GET_CURRENT));
        value = set_value(set, 0, bytes);
        CHECK_VAL(&data, value.mv_data, value.mv_size);
        CHECK_OK(mdb_cursor_count(cursors[0], &count));
        CHECK_EQ(count, 1);
        for (w = 1; w < WATCHED; w++)
            CHECK_TEXT(cursor_text(cursors[w], MDB_NEXT), "seta=1");
        free(order);
        scene_close(&set->scene);
        free(set);
    }
}

TEST(bulk_append_moves_no_other_cursor)
{
    struct dup_set *set = malloc(sizeof(*set));
    MDB_cursor *first, *last, *writer;
    unsigned char bytes[VALUE_SIZE_MAX];
    MDB_val key = val_text("set"), value, data;
    mdb_size_t count;
    unsigned i;

    CHECK(set != NULL);
    set_open(set, 0, 0, 30);
    set_fill(set, 2);
    first = scene_cursor(&set->scene);
    last = scene_cursor(&set->scene);
    writer = scene_cursor(&set->scene);
    CHECK_OK(mdb_cursor_get(first, &key, &data, MDB_SET));
    CHECK_OK(mdb_cursor_get(last, &key, &data, MDB_SET));
    CHECK_OK(mdb_cursor_get(last, &key, &data, MDB_LAST_DUP));
    for (i = 2; i < 1500; i++) {
        value = set_value(set, i, bytes);
        key = val_text("set");
        CHECK_OK(mdb_cursor_put(writer, &key, &value, MDB_APPENDDUP));
        set->present[i] = 1;
        set->count++;
        CHECK_OK(mdb_cursor_get(last, NULL, &data, MDB_NEXT_DUP));
        CHECK_VAL(&data, value.mv_data, value.mv_size);
        CHECK_OK(mdb_cursor_get(first, NULL, &data, MDB_GET_CURRENT));
        value = set_value(set, 0, bytes);
        CHECK_VAL(&data, value.mv_data, value.mv_size);
        CHECK_OK(mdb_cursor_count(first, &count));
        CHECK_EQ(count, i + 1);
    }
    set_check(set);
    scene_close(&set->scene);
    free(set);
}

/* ==== Orders of values =================================================== */

TEST(values_sort_by_their_bytes)
{
    static const struct script_case cases[] = {
        { MDB_DUPSORT, "k=ab k=a k=abc k=b k=aa", "FIRST k=a", "k=a k=aa k=ab k=abc k=b" },
        { MDB_DUPSORT, "k=\xff k=\x01 k=\x80 k=\x7f k=\x7f\xff", "FIRST k=\x01",
          "k=\x01 k=\x7f k=\x7f\xff k=\x80 k=\xff" },
        { MDB_DUPSORT | MDB_REVERSEDUP, "k=ab k=ba k=c k=aa", "FIRST k=aa", "k=aa k=ba k=ab k=c" },
        { MDB_DUPSORT | MDB_REVERSEDUP | MDB_DUPFIXED, "k=ab k=ba k=cc k=aa", "FIRST k=aa", "k=aa k=ba k=ab k=cc" },
    };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(cases); i++) {
        struct scene scene;

        scene_open(&scene, MDB_NOSYNC, cases[i].db_flags);
        put_records(scene.txn, scene.dbi, cases[i].before);
        script_run(scene.txn, scene.dbi, cases[i].steps);
        CHECK_CONTENTS(scene.txn, scene.dbi, cases[i].after);
        scene_close(&scene);
    }
}

TEST(integer_values_sort_as_integers_and_have_one_width)
{
    static const size_t widths[] = { 4, 8 };
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(widths); kind++) {
        enum { COUNT = 1000 };
        struct scene scene;
        struct random random = { test_seed() };
        unsigned *order = numbers_shuffled(&random, COUNT), i;
        MDB_cursor *cursor;
        MDB_val key = val_text("k"), data;
        uint64_t number;

        scene_open(&scene, MDB_NOSYNC, MDB_DUPSORT | MDB_INTEGERDUP);
        for (i = 0; i < COUNT; i++) {
            number = (uint64_t)order[i] * 257;
            data = val_of(&number, widths[kind]);
            CHECK_OK(mdb_put(scene.txn, scene.dbi, &key, &data, 0));
            if (i == 0 || i == 1 || i == 20 || i == COUNT - 1) {
                data = val_of(&number, 12 - widths[kind]);
                test_note("width %zu after %u", 12 - widths[kind], i);
                CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, 0), MDB_BAD_VALSIZE);
                data = val_of(&number, 3);
                CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, 0), MDB_BAD_VALSIZE);
                CHECK_RC(mdb_del(scene.txn, scene.dbi, &key, &data), MDB_BAD_VALSIZE);
            }
        }
        cursor = scene_cursor(&scene);
        for (i = 0; i < COUNT; i++) {
            number = (uint64_t)i * 257;
            CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
            CHECK_VAL(&data, &number, widths[kind]);
        }
        CHECK_EQ(walk_both(scene.txn, scene.dbi), COUNT);
        free(order);
        scene_close(&scene);
    }
}

/* ==== Arguments that point into the set ================================== */

TEST(values_may_come_out_of_the_set_itself)
{
    static const unsigned counts[] = { 1, 3, 100, 1000 };
    static const unsigned env_flags[] = { 0, MDB_WRITEMAP };
    size_t i, kind;

    for (kind = 0; kind < ARRAY_COUNT(env_flags); kind++) {
        for (i = 0; i < ARRAY_COUNT(counts); i++) {
            struct dup_set *set = malloc(sizeof(*set));
            MDB_cursor *cursor;
            MDB_val key, data;
            unsigned n;

            CHECK(set != NULL);
            set_open(set, env_flags[kind], 0, 40);
            set_fill(set, counts[i]);
            scene_commit(&set->scene);
            cursor = scene_cursor(&set->scene);
            /* The filling of each value, less a byte at each step, is put under the same key. */
            for (n = 0; n < 30; n++) {
                unsigned char expected[32];

                memset(expected, 'x', sizeof(expected));
                key = val_text("set");
                CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_SET_KEY));
                data.mv_data = (unsigned char *)data.mv_data + 8;
                data.mv_size = 32 - n;
                CHECK_OK(mdb_put(set->scene.txn, set->scene.dbi, &key, &data, 0));
                data = val_of(expected, 32 - n);
                key = val_text("set");
                test_note("%u values, %zu bytes", counts[i], data.mv_size);
                CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_BOTH));
                /* And the record itself, by pointers to it. */
                CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
                CHECK_OK(mdb_cursor_put(cursor, &key, &data, MDB_CURRENT));
                CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
                CHECK_OK(mdb_cursor_put(cursor, &key, &data, 0));
                CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
                CHECK_VAL_TEXT(&key, "set");
                CHECK_VAL(&data, expected, 32 - n);
                CHECK_OK(mdb_del(set->scene.txn, set->scene.dbi, &key, &data));
            }
            set_check(set);
            set_check_database(set);
            scene_close(&set->scene);
            free(set);
        }
    }
}

/* ==== Nested transactions ================================================ */

TEST(abort_restores_sets_of_every_shape)
{
    static const unsigned counts[] = { 0, 1, 2, 20, 1000 };
    static const unsigned env_flags[] = { 0, MDB_WRITEMAP };
    size_t from, to, kind;

    for (kind = 0; kind < ARRAY_COUNT(env_flags); kind++) {
        for (from = 0; from < ARRAY_COUNT(counts); from++) {
            struct dup_set *set = malloc(sizeof(*set)), *saved = malloc(sizeof(*saved));

            CHECK(set != NULL && saved != NULL);
            set_open(set, env_flags[kind], 0, 16);
            set_fill(set, counts[from]);
            for (to = 0; to < ARRAY_COUNT(counts); to++) {
                MDB_txn *parent = set->scene.txn;
                unsigned i;

                memcpy(saved, set, sizeof(*set));
                set->scene.txn = begin_nested(set->scene.env, parent);
                for (i = 0; i < counts[to]; i++)
                    set_put(set, i, 0);
                for (i = counts[to]; i < VALUES_MAX; i++) {
                    if (set->present[i])
                        set_del(set, i);
                }
                set_check(set);
                mdb_txn_abort(set->scene.txn);
                memcpy(set, saved, sizeof(*set));
                test_note("from %u to %u", counts[from], counts[to]);
                set_check(set);
                set_check_database(set);
            }
            scene_close(&set->scene);
            free(saved);
            free(set);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(set_grows_from_one_value_to_a_tree_and_shrinks_again),
        TEST_ENTRY(set_grows_and_shrinks_over_many_commits),
        TEST_ENTRY(longest_values_make_sets),
        TEST_ENTRY(set_takes_values_of_every_length),
        TEST_ENTRY(many_sets_grow_at_once),
        TEST_ENTRY(deleting_a_key_frees_the_pages_of_its_set),
        TEST_ENTRY(get_both_finds_every_value_and_every_gap),
        TEST_ENTRY(values_are_found_and_counted),
        TEST_ENTRY(put_of_a_duplicate_obeys_each_flag),
        TEST_ENTRY(flags_of_put_hold_in_sets_of_every_shape),
        TEST_ENTRY(appenddup_loads_sorted_values_and_fills_pages),
        TEST_ENTRY(empty_value_is_a_value_like_any_other),
        TEST_ENTRY(current_replaces_one_value),
        TEST_ENTRY(current_replaces_values_in_sets_of_every_shape),
        TEST_ENTRY(cursors_in_a_set_stay_on_their_values_and_see_its_count),
        TEST_ENTRY(bulk_append_moves_no_other_cursor),
        TEST_ENTRY(values_sort_by_their_bytes),
        TEST_ENTRY(integer_values_sort_as_integers_and_have_one_width),
        TEST_ENTRY(values_may_come_out_of_the_set_itself),
        TEST_ENTRY(abort_restores_sets_of_every_shape),
    };

    return test_main(argc, argv, tests, TEST_COUNT(tests));
}
