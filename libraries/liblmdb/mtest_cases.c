/* Twenty small inputs that are known to have broken libraries of this kind. Each is one or more tests. */
#include "mtest_fault.h"

#include <sched.h>
#include <sys/mount.h>

#include "mtest_script.h"

/* ==== 1. MDB_MULTIPLE with values that are there already ================= */

static unsigned number_at(const void *bytes)
{
    uint32_t number;

    memcpy(&number, bytes, sizeof(number));
    return number;
}

static void put_number(struct scene *scene, uint32_t number)
{
    MDB_val key = val_text("key"), data = val_of(&number, sizeof(number));

    CHECK_OK(mdb_put(scene->txn, scene->dbi, &key, &data, 0));
}

/* One call with 5 6 7 8, when `count` numbers from `first` are there. */
static void multiple_over(unsigned first, unsigned count, int committed)
{
    static const uint32_t batch[] = { 5, 6, 7, 8 };
    struct scene scene;
    unsigned char expected[9000] = { 0 };
    MDB_val key = val_text("key"), data[2], found;
    MDB_cursor *cursor;
    unsigned i;

    scene_open(&scene, MDB_NOSYNC, MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP);
    for (i = first; i < first + count; i++) {
        put_number(&scene, i);
        expected[i] = 1;
    }
    if (committed)
        scene_commit(&scene);
    cursor = scene_cursor(&scene);
    data[0] = val_of(batch, sizeof(batch[0]));
    data[1] = (MDB_val){ 4, NULL };
    test_note("%u numbers from %u, committed: %d", count, first, committed);
    CHECK_OK(mdb_cursor_put(cursor, &key, data, MDB_MULTIPLE));
    CHECK_EQ(data[1].mv_size, 4);
    for (i = 5; i <= 8; i++)
        expected[i] = 1;
    CHECK_OK(mdb_cursor_get(cursor, &key, &found, MDB_FIRST));
    for (i = 0; i < sizeof(expected); i++) {
        if (!expected[i])
            continue;
        CHECK_EQ(number_at(found.mv_data), i);
        mdb_cursor_get(cursor, &key, &found, MDB_NEXT);
    }
    CHECK_RC(mdb_cursor_get(cursor, &key, &found, MDB_NEXT), MDB_NOTFOUND);
    walk_both(scene.txn, scene.dbi);
    scene_close(&scene);
}

TEST(case_01_multiple_stores_what_is_not_there_yet)
{
    static const struct {
        unsigned first, count;
    } cases[] = {
        { 5, 1 }, { 8, 1 }, { 6, 1 }, { 5, 2 }, { 7, 2 }, { 8, 2 }, { 4, 6 }, { 5, 5000 }, { 0, 5000 }, { 8, 5000 },
        { 0, 0 }, { 100, 1 }, { 100, 5000 },
    };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(cases); i++) {
        multiple_over(cases[i].first, cases[i].count, 0);
        multiple_over(cases[i].first, cases[i].count, 1);
    }
}

/* ==== 2. MDB_APPENDDUP out of order ====================================== */

TEST(case_02_appenddup_out_of_order_is_keyexist_and_harmless)
{
    static const unsigned env_kinds[] = { 0, MDB_WRITEMAP };
    static const unsigned db_kinds[] = {
        MDB_DUPSORT, MDB_DUPSORT | MDB_DUPFIXED, MDB_DUPSORT | MDB_REVERSEKEY, MDB_DUPSORT | MDB_REVERSEDUP,
        MDB_DUPSORT | MDB_DUPFIXED | MDB_REVERSEDUP | MDB_REVERSEKEY,
    };
    static const unsigned put_kinds[] = { 0, MDB_NODUPDATA, MDB_APPEND };
    static const char *const wrong[] = { "v5", "v0", "v9" };
    size_t env_kind, db_kind, put_kind, i;

    for (env_kind = 0; env_kind < ARRAY_COUNT(env_kinds); env_kind++) {
        for (db_kind = 0; db_kind < ARRAY_COUNT(db_kinds); db_kind++) {
            for (put_kind = 0; put_kind < ARRAY_COUNT(put_kinds); put_kind++) {
                struct scene scene;
                MDB_cursor *cursor;
                char value[] = "v0";

                scene_open(&scene, env_kinds[env_kind] | MDB_NOSYNC, db_kinds[db_kind]);
                cursor = scene_cursor(&scene);
                for (value[1] = '0'; value[1] <= '9'; value[1]++)
                    CHECK_OK(put_text(scene.txn, scene.dbi, "k", value, MDB_APPENDDUP));
                for (i = 0; i < ARRAY_COUNT(wrong); i++) {
                    unsigned flags = MDB_APPENDDUP | put_kinds[put_kind];

                    test_note("kinds %zu %zu %zu, %s", env_kind, db_kind, put_kind, wrong[i]);
                    CHECK_RC(put_text(scene.txn, scene.dbi, "k", wrong[i], flags), MDB_KEYEXIST);
                    CHECK_RC(cursor_put_text(cursor, "k", wrong[i], flags), MDB_KEYEXIST);
                }
                CHECK_OK(put_text(scene.txn, scene.dbi, "l", "w0", 0));
                scene_commit(&scene);
                CHECK_CONTENTS(scene.txn, scene.dbi, "k=v0 k=v1 k=v2 k=v3 k=v4 k=v5 k=v6 k=v7 k=v8 k=v9 l=w0");
                scene_close(&scene);
            }
        }
    }
}

/* ==== 3. Deleting when full ============================================== */

/* 256 KiB of 4096-byte pages; as many of others. */
static size_t small_map_size(void)
{
    return 64 * (size_t)test_page_size();
}

/* One put for each transaction, until the map is full; gives how many there are. */
static unsigned fill_map(MDB_env *env, MDB_dbi dbi)
{
    unsigned count;

    for (count = 0;; count++) {
        struct numeral numeral = numeral_of(count);
        unsigned char bytes[1000];
        MDB_val key = val_text(numeral.text), data = val_of(bytes, sizeof(bytes));
        MDB_txn *txn = begin_write(env);
        int rc;

        pattern_fill(bytes, sizeof(bytes), count);
        rc = mdb_put(txn, dbi, &key, &data, 0);
        if (rc == MDB_SUCCESS)
            rc = mdb_txn_commit(txn);
        else
            mdb_txn_abort(txn);
        if (rc == MDB_MAP_FULL)
            return count;
        CHECK_OK(rc);
    }
}

static void check_left(MDB_env *env, MDB_dbi dbi, const unsigned char *present, unsigned count)
{
    MDB_txn *txn = begin_read(env);
    unsigned i, left = 0;

    for (i = 0; i < count; i++) {
        if (present[i])
            check_number(txn, dbi, i, 1000);
        left += present[i];
    }
    CHECK_EQ(walk_both(txn, dbi), left);
    mdb_txn_abort(txn);
}

static MDB_env *full_env(const char *dir, MDB_dbi *dbi, unsigned *count)
{
    MDB_env *env = env_open_new(dir, MDB_NOSYNC, small_map_size(), 0);
    MDB_txn *txn = begin_write(env);

    *dbi = dbi_of(txn, NULL, 0);
    CHECK_OK(mdb_txn_commit(txn));
    *count = fill_map(env, *dbi);
    /* More than a handful of pages can be used before the map counts as full. */
    CHECK(*count >= 10);
    return env;
}

TEST(case_03_small_deletes_succeed_on_a_full_map)
{
    enum { ORDERS = 3 };
    int order;

    for (order = 0; order < ORDERS; order++) {
        char *dir = temp_dir_make();
        struct random random = { test_seed() };
        unsigned count, i, *numbers;
        unsigned char *present;
        MDB_dbi dbi;
        MDB_env *env = full_env(dir, &dbi, &count);

        present = malloc(count);
        CHECK(present != NULL);
        memset(present, 1, count);
        numbers = numbers_shuffled(&random, count);
        for (i = 0; i < count; i++) {
            unsigned number = order == 0 ? i : order == 1 ? count - 1 - i : numbers[i];
            struct numeral numeral = numeral_of(number);
            MDB_txn *txn = begin_write(env);

            test_note("order %d, delete %u of %u", order, i, count);
            CHECK_OK(del_text(txn, dbi, numeral.text, NULL));
            CHECK_OK(mdb_txn_commit(txn));
            present[number] = 0;
            if (i % 16 == 0)
                check_left(env, dbi, present, count);
        }
        check_left(env, dbi, present, count);
        free(numbers);
        free(present);
        mdb_env_close(env);
        run_check_tool(dir);
        temp_dir_remove(dir);
    }
}

TEST(case_03_deleting_all_or_dropping_or_growing_succeeds_on_a_full_map)
{
    enum { WAYS = 3 };
    int way;

    for (way = 0; way < WAYS; way++) {
        char *dir = temp_dir_make();
        unsigned count, i;
        MDB_dbi dbi;
        MDB_env *env = full_env(dir, &dbi, &count);
        MDB_txn *txn;

        if (way == 2) {
            CHECK_OK(mdb_env_set_mapsize(env, 2 * small_map_size()));
            i = fill_map(env, dbi);
            CHECK(i > count + count / 2);
            count = i;
        }
        txn = begin_write(env);
        if (way == 1)
            CHECK_OK(mdb_drop(txn, dbi, 0));
        for (i = 0; way != 1 && i < count; i++)
            CHECK_OK(del_text(txn, dbi, numeral_of(i).text, NULL));
        CHECK_OK(mdb_txn_commit(txn));
        /* What a transaction frees can be used by the next but one: then all the room is there again. */
        for (i = 0; i < 3; i++) {
            txn = begin_write(env);
            CHECK_OK(put_text(txn, dbi, "0", numeral_of(i).text, 0));
            CHECK_OK(mdb_txn_commit(txn));
        }
        CHECK(fill_map(env, dbi) + 8 >= count);
        mdb_env_close(env);
        run_check_tool(dir);
        temp_dir_remove(dir);
    }
}

/* ==== 4. One cursor for a whole write transaction ======================== */

static void check_neighbours(MDB_cursor *cursor, const unsigned char *present, unsigned count)
{
    unsigned first = 0, last = count - 1, before_last, second;
    MDB_val key, data;

    while (!present[first])
        first++;
    while (!present[last])
        last--;
    CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_LAST));
    CHECK_VAL_TEXT(&key, numeral_of(last).text);
    CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_FIRST));
    CHECK_VAL_TEXT(&key, numeral_of(first).text);
    if (first == last) {
        CHECK_RC(mdb_cursor_get(cursor, &key, &data, MDB_PREV), MDB_NOTFOUND);
        CHECK_RC(mdb_cursor_get(cursor, &key, &data, MDB_NEXT), MDB_NOTFOUND);
        return;
    }
    for (second = first + 1; !present[second];)
        second++;
    for (before_last = last - 1; !present[before_last];)
        before_last--;
    CHECK_RC(mdb_cursor_get(cursor, &key, &data, MDB_PREV), MDB_NOTFOUND);
    CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
    CHECK_VAL_TEXT(&key, numeral_of(second).text);
    CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_LAST));
    CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_PREV));
    CHECK_VAL_TEXT(&key, numeral_of(before_last).text);
    CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
    CHECK_VAL_TEXT(&key, numeral_of(last).text);
    CHECK_RC(mdb_cursor_get(cursor, &key, &data, MDB_NEXT), MDB_NOTFOUND);
}

TEST(case_04_long_lived_cursor_sees_every_put)
{
    enum { COUNT = 2000 };
    static const size_t sizes[] = { 0, 20, 300 };
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(sizes); kind++) {
        struct scene scene;
        struct random random = { test_seed() };
        unsigned *order = numbers_shuffled(&random, COUNT), i;
        unsigned char present[COUNT] = { 0 };
        MDB_cursor *cursor;

        scene_open(&scene, MDB_NOSYNC, 0);
        cursor = scene_cursor(&scene);
        for (i = 0; i < COUNT; i++) {
            put_numbers(scene.txn, scene.dbi, order[i], 1, sizes[kind]);
            present[order[i]] = 1;
            test_note("put %u, values of %zu bytes", i, sizes[kind]);
            check_neighbours(cursor, present, COUNT);
        }
        free(order);
        scene_close(&scene);
    }
}

/* ==== 5. Two cursors in one duplicate set ================================ */

TEST(case_05_two_cursors_in_a_set_of_two)
{
    static const struct script_case cases[] = {
        { MDB_DUPSORT, "a=x a=y", "1:FIRST a=x, 2:FIRST a=x, 1:del - ok, 2:GET_CURRENT a=y, 2:NEXT NOTFOUND", "a=y" },
        { MDB_DUPSORT, "a=x a=y b=z", "1:FIRST a=x, 2:FIRST a=x, 1:del - ok, 2:NEXT a=y, 2:NEXT b=z", "a=y b=z" },
        { MDB_DUPSORT, "a=x a=y",
          "1:FIRST a=x, 2:FIRST a=x, 1:del - ok, 1:del - ok, 2:NEXT NOTFOUND, 2:FIRST NOTFOUND", "" },
        { MDB_DUPSORT, "a=x a=y", "1:FIRST a=x, 2:LAST a=y, 1:del - ok, 2:GET_CURRENT a=y, 2:count 1", "a=y" },
        { MDB_DUPSORT, "a=x a=y", "1:LAST a=y, 2:FIRST a=x, 1:del - ok, 2:GET_CURRENT a=x, 2:NEXT NOTFOUND", "a=x" },
        { MDB_DUPSORT, "a=x a=y", "1:FIRST a=x, 2:FIRST a=x, 1:delall - ok, 2:NEXT NOTFOUND", "" },
        { MDB_DUPSORT | MDB_DUPFIXED, "a=x a=y",
          "1:FIRST a=x, 2:FIRST a=x, 1:del - ok, 2:GET_CURRENT a=y, 2:NEXT NOTFOUND", "a=y" },
    };

    script_cases_run(cases, ARRAY_COUNT(cases));
}

/* The set shrinks from the front, to one value and to none, under the eyes of a second cursor. */
TEST(case_05_two_cursors_in_a_set_that_shrinks)
{
    static const unsigned counts[] = { 3, 200, 5000 };
    static const unsigned db_kinds[] = { MDB_DUPSORT, MDB_DUPSORT | MDB_DUPFIXED };
    size_t i, kind;
    int committed;

    for (i = 0; i < ARRAY_COUNT(counts) * ARRAY_COUNT(db_kinds); i++) {
        unsigned count = counts[i % ARRAY_COUNT(counts)];

        kind = i / ARRAY_COUNT(counts);
        for (committed = 0; committed < 2; committed++) {
            struct scene scene;
            MDB_cursor *deleting, *watching;
            MDB_val key, data;
            unsigned n;

            scene_open(&scene, MDB_NOSYNC, db_kinds[kind]);
            for (n = 0; n < count; n++)
                CHECK_OK(put_text(scene.txn, scene.dbi, "a", numeral_of(n).text, 0));
            CHECK_OK(put_text(scene.txn, scene.dbi, "b", numeral_of(7).text, 0));
            if (committed)
                scene_commit(&scene);
            deleting = scene_cursor(&scene);
            watching = scene_cursor(&scene);
            CHECK_OK(mdb_cursor_get(deleting, &key, &data, MDB_FIRST));
            CHECK_OK(mdb_cursor_get(watching, &key, &data, MDB_FIRST));
            for (n = 1; n <= count; n++) {
                test_note("%u of %u values deleted", n, count);
                CHECK_OK(mdb_cursor_del(deleting, 0));
                CHECK_OK(mdb_cursor_get(watching, &key, &data, MDB_GET_CURRENT));
                CHECK_VAL_TEXT(&key, n < count ? "a" : "b");
                CHECK_VAL_TEXT(&data, numeral_of(n < count ? n : 7).text);
            }
            CHECK_RC(mdb_cursor_get(watching, &key, &data, MDB_PREV), MDB_NOTFOUND);
            CHECK_EQ(walk_both(scene.txn, scene.dbi), 1);
            scene_close(&scene);
        }
    }
}

/* ==== 6. MDB_GET_BOTH_RANGE ============================================== */

TEST(case_06_get_both_range_stays_on_its_key)
{
    static const struct script_case cases[] = {
        { MDB_DUPSORT, "k1=v1 k1=v2 k1=v3", "GET_BOTH_RANGE k0 v0 NOTFOUND", NULL },
        { MDB_DUPSORT, "k1=v1 k1=v2 k1=v3", "GET_BOTH_RANGE k1 v15 k1=v2, GET_CURRENT k1=v2", NULL },
        { MDB_DUPSORT, "k1=v1 k1=v2 k1=v3", "GET_BOTH_RANGE k1 v4 NOTFOUND, LAST_DUP k1=v3", NULL },
        { MDB_DUPSORT, "k1=v1 k1=v2 k1=v3 k3=v9", "GET_BOTH_RANGE k1 v4 NOTFOUND, FIRST_DUP k1=v1", NULL },
        { MDB_DUPSORT, "k1=v1 k1=v2 k1=v3", "GET_BOTH_RANGE k2 v NOTFOUND", NULL },
        { MDB_DUPSORT, "k1=v1 k1=v2 k1=v3 k3=v", "GET_BOTH_RANGE k2 v NOTFOUND", NULL },
        { MDB_DUPSORT, "k1=v2", "GET_BOTH_RANGE k0 v NOTFOUND, GET_BOTH_RANGE k1 v1 k1=v2, GET_BOTH_RANGE k1 v2 k1=v2",
          NULL },
        { MDB_DUPSORT, "k1=v2", "GET_BOTH_RANGE k1 v3 NOTFOUND, FIRST_DUP k1=v2, LAST_DUP k1=v2", NULL },
        { MDB_DUPSORT, "k1=v2 k3=v3", "GET_BOTH_RANGE k1 v3 NOTFOUND, LAST_DUP k1=v2, NEXT k3=v3", NULL },
        { MDB_DUPSORT, "k1=v2", "GET_BOTH_RANGE k2 v NOTFOUND", NULL },
    };
    struct scene scene;
    MDB_cursor *cursor;
    MDB_val key, data;
    unsigned i;

    script_cases_run(cases, ARRAY_COUNT(cases));
    scene_open(&scene, MDB_NOSYNC, MDB_DUPSORT);
    for (i = 0; i < 5000; i++)
        CHECK_OK(put_text(scene.txn, scene.dbi, "k1", numeral_of(2 * i).text, 0));
    cursor = scene_cursor(&scene);
    for (i = 0; i < 9999; i += 37) {
        struct numeral numeral = numeral_of(i);

        key = val_text("k1");
        data = val_text(numeral.text);
        CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_BOTH_RANGE));
        CHECK_VAL_TEXT(&data, numeral_of(i + i % 2).text);
    }
    key = val_text("k1");
    data = val_text("00009999");
    CHECK_RC(mdb_cursor_get(cursor, &key, &data, MDB_GET_BOTH_RANGE), MDB_NOTFOUND);
    CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_LAST_DUP));
    CHECK_VAL_TEXT(&key, "k1");
    CHECK_VAL_TEXT(&data, "00009998");
    scene_close(&scene);
}

/* ==== 7. Deletes that make the tree grow ================================= */

enum { GROUP = 8, GROUPED_MAX = 3000 };

/* Keys of a group share all but their last byte, and may be long: a separator within a group is as long as its keys,
 * one between groups is short. */
static MDB_val grouped_key(unsigned number, size_t longest, unsigned char *bytes)
{
    struct random random = { number / GROUP };
    struct numeral numeral = numeral_of(number / GROUP);
    size_t size = 9 + (size_t)random_below(&random, longest - 8);

    if (random_one_in(&random, 2))
        size = longest;
    memset(bytes, 'g', size);
    memcpy(bytes, numeral.text, 8);
    bytes[size - 1] = (unsigned char)('0' + number % GROUP);
    return val_of(bytes, size);
}

static void grouped_check(struct scene *scene, const unsigned char *present, unsigned count, size_t longest)
{
    MDB_cursor *cursor = scene_cursor(scene);
    unsigned char bytes[512];
    MDB_val key, data, expected;
    unsigned i, left = 0;

    for (i = 0; i < count; i++) {
        if (!present[i])
            continue;
        expected = grouped_key(i, longest, bytes);
        CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
        CHECK_VAL(&key, expected.mv_data, expected.mv_size);
        CHECK_OK(mdb_get(scene->txn, scene->dbi, &expected, &data));
        left++;
    }
    CHECK_EQ(walk_both(scene->txn, scene->dbi), left);
    mdb_cursor_close(cursor);
}

static void grouped_run(unsigned page_size, uint64_t seed, unsigned count)
{
    struct scene scene = { .dir = temp_dir_make() };
    struct random random = { seed };
    unsigned *order = numbers_shuffled(&random, count), i;
    unsigned char present[GROUPED_MAX], bytes[512];
    MDB_val key, data = val_text("v");
    size_t longest;

    scene.env = env_open_sized(scene.dir, MDB_NOSYNC, SCENE_MAP_SIZE, 4, page_size);
    longest = (size_t)mdb_env_get_maxkeysize(scene.env);
    scene.txn = begin_write(scene.env);
    scene.dbi = dbi_of(scene.txn, "data", MDB_CREATE);
    for (i = 0; i < count; i++) {
        key = grouped_key(random_one_in(&random, 3) ? i : order[i], longest, bytes);
        CHECK_OK(mdb_put(scene.txn, scene.dbi, &key, &data, 0));
        key = grouped_key(order[i], longest, bytes);
        CHECK_OK(mdb_put(scene.txn, scene.dbi, &key, &data, 0));
    }
    memset(present, 1, sizeof(present));
    scene_commit(&scene);
    for (i = 0; i < count; i++) {
        /* The first keys of groups first: where a leaf begins with one, its separator becomes a longer one. */
        unsigned number = i < count / GROUP ? order[i] / GROUP * GROUP : order[i];

        if (!present[number])
            continue;
        test_note("page size %u, seed %llu, step %u", page_size, (unsigned long long)seed, i);
        key = grouped_key(number, longest, bytes);
        CHECK_OK(mdb_del(scene.txn, scene.dbi, &key, NULL));
        present[number] = 0;
        if (i % 150 == 0)
            grouped_check(&scene, present, count, longest);
        if (i % 400 == 0)
            scene_commit(&scene);
    }
    grouped_check(&scene, present, count, longest);
    free(order);
    scene_close(&scene);
}

TEST(case_07_deletes_that_lengthen_separators_split_upward)
{
    static const unsigned page_sizes[] = { 512, 1024, 2048, 4096, 8192, 16384, 32768 };
    size_t i;
    uint64_t seed;

    for (i = 0; i < ARRAY_COUNT(page_sizes); i++) {
        for (seed = test_seed(); seed < test_seed() + 2 * test_scale(); seed++)
            grouped_run(page_sizes[i], seed, i < 3 ? 1200 : 2400);
    }
}

/* ==== 8. Nothing left at commit ========================================== */

/* Every page is in use or free, exactly once: as many as there are in all. */
static void check_pages_add_up(MDB_env *env)
{
    MDB_txn *txn = begin_read(env);
    MDB_dbi root = dbi_of(txn, NULL, 0);
    MDB_stat main_stat, free_stat;
    MDB_envinfo info;
    MDB_cursor *cursor;
    MDB_val key, data;
    size_t free_pages = 0, count;

    CHECK_OK(mdb_stat(txn, root, &main_stat));
    CHECK_OK(mdb_stat(txn, 0, &free_stat));
    CHECK_OK(mdb_env_info(env, &info));
    CHECK_OK(mdb_cursor_open(txn, 0, &cursor));
    while (mdb_cursor_get(cursor, &key, &data, MDB_NEXT) == MDB_SUCCESS) {
        CHECK_EQ(key.mv_size, sizeof(size_t));
        memcpy(&count, data.mv_data, sizeof(count));
        CHECK(data.mv_size >= (count + 1) * sizeof(count));
        free_pages += count;
    }
    mdb_cursor_close(cursor);
    CHECK_EQ(main_stat.ms_branch_pages + main_stat.ms_leaf_pages + main_stat.ms_overflow_pages
             + free_stat.ms_branch_pages + free_stat.ms_leaf_pages + free_stat.ms_overflow_pages + free_pages + 2,
             info.me_last_pgno + 1);
    CHECK(info.me_last_pgno < 10);
    CHECK_OK(mdb_txn_commit(txn));
}

TEST(case_08_transactions_that_leave_nothing_use_no_pages)
{
    static const unsigned env_kinds[] = { 0, MDB_WRITEMAP };
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        char *dir = temp_dir_make();
        MDB_env *env = env_open_new(dir, env_kinds[kind], SCENE_MAP_SIZE, 0);
        MDB_txn *txn;
        MDB_dbi dbi;
        unsigned i;

        for (i = 0; i < 40; i++) {
            txn = begin_write(env);
            dbi = dbi_of(txn, NULL, 0);
            if (i % 5 != 4)
                CHECK_OK(put_text(txn, dbi, "k", "v", 0));
            if (i % 5 != 3)
                CHECK_OK(del_text(txn, dbi, "k", NULL));
            CHECK_OK(mdb_txn_commit(txn));
            test_note("step %u", i);
            check_pages_add_up(env);
        }
        mdb_env_close(env);
        run_check_tool(dir);
        temp_dir_remove(dir);
    }
}

/* ==== 9. Another process grew the map ==================================== */

enum { GROWN_RECORDS = 100, GROWN_SIZE = 100000 };

static void growing_process(struct parent *parent, const char *path)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;

    PARENT_WAIT(parent, 'g');
    env = env_open_again(path, MDB_NOSYNC, (size_t)64 << 20, 4);
    txn = begin_write(env);
    dbi = dbi_of(txn, "data", 0);
    put_numbers(txn, dbi, 1000, GROWN_RECORDS, GROWN_SIZE);
    CHECK_OK(mdb_txn_commit(txn));
    mdb_env_close(env);
    PARENT_SEND(parent, 'd');
}

TEST(case_09_map_grown_by_another_process_is_adopted)
{
    char *dir = temp_dir_make();
    struct child child = child_start(growing_process, dir);
    size_t small = (size_t)1 << 20, least = 64 * (size_t)test_page_size();
    MDB_env *env = env_open_new(dir, MDB_NOTLS, small > least ? small : least, 4);
    MDB_txn *txn = begin_write(env), *reader;
    MDB_dbi dbi = dbi_of(txn, "data", MDB_CREATE);
    MDB_val key = val_text("00000003"), data;
    unsigned char bytes[300];

    put_numbers(txn, dbi, 0, 50, 300);
    CHECK_OK(mdb_txn_commit(txn));
    reader = begin_read(env);
    CHECK_OK(mdb_get(reader, dbi, &key, &data));
    CHILD_SEND(&child, 'g');
    CHILD_WAIT(&child, 'd');
    CHECK_RC(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), MDB_MAP_RESIZED);
    CHECK_RC(mdb_txn_begin(env, NULL, 0, &txn), MDB_MAP_RESIZED);
    CHECK_EQ(walk_both(reader, dbi), 50);
    CHECK_OK(mdb_env_set_mapsize(env, 0));
    txn = begin_read(env);
    check_numbers(txn, dbi, 0, 50, 300);
    check_numbers(txn, dbi, 1000, GROWN_RECORDS, GROWN_SIZE);
    mdb_txn_abort(txn);
    txn = begin_write(env);
    put_numbers(txn, dbi, 0, 50, 200);
    CHECK_OK(mdb_txn_commit(txn));
    /* The old transaction has its snapshot, and its pointers, still. */
    pattern_fill(bytes, sizeof(bytes), 3);
    CHECK_VAL(&data, bytes, sizeof(bytes));
    CHECK_EQ(walk_both(reader, dbi), 50);
    check_numbers(reader, dbi, 0, 50, 300);
    mdb_txn_abort(reader);
    child_finish(&child);
    mdb_env_close(env);
    run_check_tool(dir);
    temp_dir_remove(dir);
}

/* ==== 10. Reader slots =================================================== */

static MDB_env *four_slots(const char *dir, unsigned flags)
{
    MDB_env *env;

    CHECK_OK(mdb_env_create(&env));
    CHECK_OK(mdb_env_set_maxreaders(env, 4));
    CHECK_OK(mdb_env_open(env, dir, flags, 0644));
    return env;
}

TEST(case_10_second_reader_of_a_thread_is_bad_rslot)
{
    char *dir = temp_dir_make();
    MDB_env *env = four_slots(dir, 0);
    MDB_txn *first = begin_read(env), *second;

    CHECK_RC(mdb_txn_begin(env, NULL, MDB_RDONLY, &second), MDB_BAD_RSLOT);
    mdb_txn_abort(first);
    second = begin_read(env);
    mdb_txn_reset(second);
    CHECK_OK(mdb_txn_renew(second));
    mdb_txn_abort(second);
    mdb_env_close(env);
    temp_dir_remove(dir);
}

TEST(case_10_four_slots_without_tls_serve_four_readers)
{
    char *dir = temp_dir_make();
    MDB_env *env = four_slots(dir, MDB_NOTLS);
    MDB_txn *readers[4], *fifth;
    unsigned i;

    for (i = 0; i < 4; i++)
        readers[i] = begin_read(env);
    CHECK_RC(mdb_txn_begin(env, NULL, MDB_RDONLY, &fifth), MDB_READERS_FULL);
    mdb_txn_abort(readers[2]);
    fifth = begin_read(env);
    CHECK_RC(mdb_txn_begin(env, NULL, MDB_RDONLY, &readers[2]), MDB_READERS_FULL);
    /* Reset and renew keep their slot: nobody can take it meanwhile. */
    mdb_txn_reset(readers[0]);
    CHECK_RC(mdb_txn_begin(env, NULL, MDB_RDONLY, &readers[2]), MDB_READERS_FULL);
    CHECK_OK(mdb_txn_renew(readers[0]));
    mdb_txn_abort(fifth);
    for (i = 0; i < 4; i++) {
        if (i != 2)
            mdb_txn_abort(readers[i]);
    }
    mdb_env_close(env);
    temp_dir_remove(dir);
}

static void *read_once(void *argument)
{
    MDB_env *env = argument;

    mdb_txn_abort(begin_read(env));
    return NULL;
}

TEST(case_10_short_lived_threads_lose_no_slot)
{
    static const unsigned flags[] = { 0, MDB_NOTLS };
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(flags); kind++) {
        char *dir = temp_dir_make();
        MDB_env *env = four_slots(dir, flags[kind]);
        MDB_envinfo info;
        unsigned i;

        for (i = 0; i < 200; i++) {
            pthread_t thread;

            CHECK_EQ(pthread_create(&thread, NULL, read_once, env), 0);
            CHECK_EQ(pthread_join(thread, NULL), 0);
            CHECK_EQ(atomic_load(&test_state.failed_checks), 0);
        }
        CHECK_OK(mdb_env_info(env, &info));
        CHECK_EQ(info.me_numreaders, 1);
        mdb_env_close(env);
        temp_dir_remove(dir);
    }
}

struct meeting {
    MDB_env *env;
    pthread_barrier_t read, closed;
};

static void *read_and_outlive(void *argument)
{
    struct meeting *meeting = argument;

    mdb_txn_abort(begin_read(meeting->env));
    pthread_barrier_wait(&meeting->read);
    pthread_barrier_wait(&meeting->closed);
    return NULL;
}

TEST(case_10_thread_that_outlives_the_environment_touches_nothing)
{
    char *dir = temp_dir_make();
    struct meeting meeting = { .env = four_slots(dir, 0) };
    pthread_t threads[3];
    MDB_env *env;
    MDB_envinfo info;
    unsigned i;

    CHECK_EQ(pthread_barrier_init(&meeting.read, NULL, 4), 0);
    CHECK_EQ(pthread_barrier_init(&meeting.closed, NULL, 4), 0);
    for (i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, read_and_outlive, &meeting), 0);
    pthread_barrier_wait(&meeting.read);
    mdb_env_close(meeting.env);
    /* The same file again, perhaps at the same addresses. */
    env = four_slots(dir, 0);
    mdb_txn_abort(begin_read(env));
    pthread_barrier_wait(&meeting.closed);
    for (i = 0; i < 3; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_OK(mdb_env_info(env, &info));
    CHECK_EQ(info.me_numreaders, 1);
    mdb_txn_abort(begin_read(env));
    mdb_env_close(env);
    pthread_barrier_destroy(&meeting.read);
    pthread_barrier_destroy(&meeting.closed);
    temp_dir_remove(dir);
}

/* ==== 11. Commit frees the handle, also when it fails ==================== */

/* After a commit that failed: the old data is whole, the next writer works. */
static void check_after_failed_commit(struct scene *scene)
{
    scene->txn = begin_write(scene->env);
    CHECK_CONTENTS(scene->txn, scene->dbi, "old=1");
    CHECK_OK(put_text(scene->txn, scene->dbi, "new", "2", 0));
    scene_commit(scene);
    CHECK_CONTENTS(scene->txn, scene->dbi, "new=2 old=1");
    CHECK_OK(del_text(scene->txn, scene->dbi, "new", NULL));
    scene_commit(scene);
}

static void failing_scene(struct scene *scene, unsigned env_flags)
{
    scene_open(scene, env_flags, 0);
    CHECK_OK(put_text(scene->txn, scene->dbi, "old", "1", 0));
    scene_commit(scene);
}

TEST(case_11_commit_that_fails_by_an_earlier_error_releases_all)
{
    struct scene scene;
    MDB_val key = val_text("huge"), data = { SCENE_MAP_SIZE, NULL };
    unsigned round;

    for (round = 0; round < 5; round++) {
        MDB_cursor *cursor;
        MDB_txn *parent;

        failing_scene(&scene, 0);
        cursor = scene_cursor(&scene);
        CHECK_AT(cursor, MDB_FIRST, "old=1");
        parent = scene.txn;
        if (round % 2 == 1)
            scene.txn = begin_nested(scene.env, parent);
        CHECK_OK(put_text(scene.txn, scene.dbi, "x", "y", 0));
        data.mv_size = SCENE_MAP_SIZE;
        CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, MDB_RESERVE), MDB_MAP_FULL);
        CHECK_RC(put_text(scene.txn, scene.dbi, "x", "y", 0), MDB_BAD_TXN);
        CHECK_RC(mdb_txn_commit(scene.txn), MDB_BAD_TXN);
        if (round % 2 == 1) {
            /* The commit of a nested transaction that failed makes its parent fail too. */
            CHECK_RC(put_text(parent, scene.dbi, "x", "y", 0), MDB_BAD_TXN);
            CHECK_RC(mdb_txn_commit(parent), MDB_BAD_TXN);
        }
        check_after_failed_commit(&scene);
        scene_close(&scene);
    }
}

/* The n-th write, flush or resize of a commit fails, for each n; with one error and with a lasting one. */
static void commit_under_fault(unsigned env_flags, enum fault_kind kind, int error, int lasting)
{
    struct scene scene;
    unsigned number;

    failing_scene(&scene, env_flags);
    for (number = 1;; number++) {
        unsigned count;
        int rc;

        put_numbers(scene.txn, scene.dbi, 0, 200, 700);
        put_numbers(scene.txn, scene.dbi, 200, 3, 100000);
        fault_set(kind, number, error);
        fault.lasting = lasting;
        rc = mdb_txn_commit(scene.txn);
        count = fault_end();
        test_note("flags %#x, kind %d, error %d, lasting %d, call %u of %u", env_flags, (int)kind, error, lasting,
                  number, count);
        if (count < number) {
            CHECK_OK(rc);
            break;
        }
        CHECK_RC(rc, rc == MDB_PANIC ? MDB_PANIC : error);
        rc = mdb_txn_begin(scene.env, NULL, 0, &scene.txn);
        if (rc == MDB_PANIC) {
            /* Only by the last step: what is on the disk is unknown, so it is looked at again. */
            mdb_env_close(scene.env);
            scene.env = env_open_again(scene.dir, env_flags, SCENE_MAP_SIZE, SCENE_DBS);
            scene.txn = begin_write(scene.env);
            CHECK_OK(mdb_dbi_open(scene.txn, "data", 0, &scene.dbi));
            if (entries_count(scene.txn, scene.dbi) != 1) {
                check_numbers(scene.txn, scene.dbi, 0, 200, 700);
                CHECK_EQ(walk_both(scene.txn, scene.dbi), 204);
                CHECK_OK(mdb_drop(scene.txn, scene.dbi, 0));
                CHECK_OK(put_text(scene.txn, scene.dbi, "old", "1", 0));
            }
            scene_commit(&scene);
            mdb_txn_abort(scene.txn);
        } else {
            CHECK_OK(rc);
            mdb_txn_abort(scene.txn);
        }
        check_after_failed_commit(&scene);
    }
    scene.txn = begin_write(scene.env);
    CHECK_EQ(walk_both(scene.txn, scene.dbi), 204);
    scene_close(&scene);
}

TEST(case_11_commit_that_fails_by_a_fault_of_the_disk_leaves_the_old_data)
{
    static const unsigned env_flags[] = { 0, MDB_NOMETASYNC, MDB_NOSYNC, MDB_WRITEMAP, MDB_WRITEMAP | MDB_MAPASYNC };
    static const enum fault_kind kinds[] = { FAULT_WRITE, FAULT_SYNC, FAULT_RESIZE };
    static const int errors[] = { ENOSPC, EIO };
    size_t i, kind, error;

    for (i = 0; i < ARRAY_COUNT(env_flags); i++) {
        for (kind = 0; kind < ARRAY_COUNT(kinds); kind++) {
            for (error = 0; error < ARRAY_COUNT(errors); error++) {
                /* A file that cannot grow by much may still grow by little: that is no failure. */
                if (kinds[kind] != FAULT_RESIZE)
                    commit_under_fault(env_flags[i], kinds[kind], errors[error], 0);
                commit_under_fault(env_flags[i], kinds[kind], errors[error], 1);
            }
        }
    }
}

TEST(case_11_short_writes_are_resumed)
{
    struct scene scene;

    scene_open(&scene, 0, 0);
    put_numbers(scene.txn, scene.dbi, 0, 500, 300);
    put_numbers(scene.txn, scene.dbi, 500, 3, 300000);
    fault_set(FAULT_WRITE, 0, 0);
    fault.cut_short = 1;
    CHECK_OK(mdb_txn_commit(scene.txn));
    CHECK(fault_end() > 20);
    mdb_env_close(scene.env);
    run_check_tool(scene.dir);
    scene.env = env_open_again(scene.dir, 0, SCENE_MAP_SIZE, SCENE_DBS);
    scene.txn = begin_write(scene.env);
    CHECK_OK(mdb_dbi_open(scene.txn, "data", 0, &scene.dbi));
    check_numbers(scene.txn, scene.dbi, 0, 500, 300);
    check_numbers(scene.txn, scene.dbi, 500, 3, 300000);
    scene_close(&scene);
}

/* ==== 12. Media that cannot be written =================================== */

/* Runs a function in a child that is not the super-user, who may write everywhere. */
static void run_unprivileged(child_function *function, const char *dir)
{
    struct child child = child_start(function, dir);

    child_finish(&child);
}

static void privileges_drop(void)
{
    if (geteuid() == 0) {
        CHECK_EQ(setgid(65534), 0);
        CHECK_EQ(setuid(65534), 0);
    }
}

/* That the records of the environment can be read with these flags. */
static void check_readable(const char *dir, unsigned flags)
{
    MDB_env *env = env_open_again(dir, flags, 0, 0);
    MDB_txn *txn = begin_read(env);
    MDB_dbi dbi = dbi_of(txn, NULL, 0);

    CHECK_CONTENTS(txn, dbi, "a=1 b=2");
    mdb_txn_abort(txn);
    CHECK_RC(mdb_txn_begin(env, NULL, 0, &txn), EACCES);
    mdb_env_close(env);
}

static int open_code(const char *dir, unsigned flags)
{
    MDB_env *env;
    int rc;

    CHECK_OK(mdb_env_create(&env));
    rc = mdb_env_open(env, dir, flags, 0644);
    mdb_env_close(env);
    return rc;
}

/* An environment with two records, whose directory others may not write to. */
static char *protected_env(int keep_lock)
{
    char *dir = temp_dir_make();
    MDB_env *env = env_open_new(dir, 0, SCENE_MAP_SIZE, 0);
    MDB_txn *txn = begin_write(env);

    put_records(txn, dbi_of(txn, NULL, 0), "a=1 b=2");
    CHECK_OK(mdb_txn_commit(txn));
    mdb_env_close(env);
    if (!keep_lock)
        CHECK_EQ(unlink(path_in(dir, "lock.mdb")), 0);
    else
        CHECK_EQ(chmod(path_in(dir, "lock.mdb"), 0444), 0);
    CHECK_EQ(chmod(path_in(dir, "data.mdb"), 0444), 0);
    CHECK_EQ(chmod(dir, 0555), 0);
    return dir;
}

static void protected_env_remove(char *dir)
{
    CHECK_EQ(chmod(dir, 0755), 0);
    temp_dir_remove(dir);
}

static void open_without_permission(struct parent *parent, const char *dir)
{
    (void)parent;
    privileges_drop();
    check_readable(dir, MDB_RDONLY | MDB_NOLOCK);
    CHECK_RC(open_code(dir, MDB_RDONLY), EACCES);
    CHECK_RC(open_code(dir, 0), EACCES);
}

TEST(case_12_reading_without_permission_to_write_needs_nolock)
{
    int keep_lock;

    for (keep_lock = 0; keep_lock < 2; keep_lock++) {
        char *dir = protected_env(keep_lock);

        run_unprivileged(open_without_permission, dir);
        CHECK_EQ(file_exists(path_in(dir, "lock.mdb")), keep_lock);
        protected_env_remove(dir);
    }
}

/* In a name space of its own, where the directory is on a file system that nobody can write to. */
static void open_on_read_only_media(struct parent *parent, const char *dir)
{
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0
        || mount(dir, dir, NULL, MS_BIND, NULL) != 0
        || mount(NULL, dir, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) != 0) {
        PARENT_SEND(parent, 's');
        return;
    }
    PARENT_SEND(parent, 'm');
    check_readable(dir, MDB_RDONLY);
    check_readable(dir, MDB_RDONLY | MDB_NOLOCK);
    CHECK_RC(open_code(dir, 0), EROFS);
}

TEST(case_12_reading_works_where_nobody_can_write)
{
    int keep_lock;

    for (keep_lock = 0; keep_lock < 2; keep_lock++) {
        char *dir = protected_env(keep_lock), answer = 0;
        struct child child = child_start(open_on_read_only_media, dir);

        CHECK_EQ(read(child.from_child, &answer, 1), 1);
        child_finish(&child);
        protected_env_remove(dir);
        if (answer == 's')
            test_skip("read-only file systems cannot be mounted here");
    }
}

TEST(case_12_empty_file_opened_for_reading_is_invalid)
{
    char *dir = temp_dir_make();

    file_write(path_in(dir, "data.mdb"), "", 0);
    CHECK_RC(open_code(dir, MDB_RDONLY), MDB_INVALID);
    CHECK_RC(open_code(dir, MDB_RDONLY | MDB_NOLOCK), MDB_INVALID);
    CHECK_EQ(file_size(path_in(dir, "data.mdb")), 0);
    /* For writing it becomes an environment. */
    CHECK_RC(open_code(dir, 0), MDB_SUCCESS);
    CHECK_RC(open_code(dir, MDB_RDONLY), MDB_SUCCESS);
    temp_dir_remove(dir);
}

/* ==== 13. Files of another word size ===================================== */

static const char other_word_size_source[] =
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "#include \"lmdb.h\"\n"
    "int main(int argc, char **argv)\n"
    "{\n"
    "    MDB_env *env; MDB_txn *txn; MDB_dbi dbi; MDB_val key = { 1, \"k\" }, data = { 1, \"v\" };\n"
    "    int rc = mdb_env_create(&env);\n"
    "    if (rc == 0) rc = mdb_env_open(env, argv[2], (unsigned)strtoul(argv[3], NULL, 0), 0644);\n"
    "    if (rc == 0 && argv[1][0] == 'w') {\n"
    "        rc = mdb_txn_begin(env, NULL, 0, &txn);\n"
    "        if (rc == 0) rc = mdb_dbi_open(txn, NULL, 0, &dbi);\n"
    "        if (rc == 0) rc = mdb_put(txn, dbi, &key, &data, 0);\n"
    "        if (rc == 0) rc = mdb_txn_commit(txn);\n"
    "    }\n"
    "    mdb_env_close(env);\n"
    "    printf(\"%d\\n\", rc);\n"
    "    return argc == 4 ? 0 : 1;\n"
    "}\n";

static int shell(const char *output, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int shell(const char *output, const char *format, ...)
{
    char command[8192], program[] = "/bin/sh", option[] = "-c";
    char *arguments[] = { program, option, command, NULL };
    va_list list;

    va_start(list, format);
    vsnprintf(command, sizeof(command), format, list);
    va_end(list);
    return program_run(arguments, output);
}

/* Builds the program above with this library for 32-bit systems; 0 if the compiler cannot. */
static int other_word_size_build(const char *dir)
{
    char source[4096], *end;
    const char *output = path_in(dir, "output");

    snprintf(source, sizeof(source), "%s", __FILE__);
    end = strrchr(source, '/');
    if (end != NULL)
        *end = '\0';
    else
        strcpy(source, ".");
    file_write(path_in(dir, "other.c"), other_word_size_source, strlen(other_word_size_source));
    file_write(path_in(dir, "try.c"), "int main(void) { return 0; }", 28);
    if (shell(output, "gcc -m32 -pthread '%s/try.c' -o '%s/try'", dir, dir) != 0)
        return 0;
    if (shell(output, "gcc -m32 -O0 -pthread -w -I '%s' -o '%s/other' '%s/other.c' '%s/mdb.c' '%s/midl.c'", source, dir,
              dir, source, source) != 0) {
        file_print(output);
        test_fail(__FILE__, __LINE__, "the library does not compile for 32-bit systems");
    }
    return 1;
}

/* What the other program's mdb_env_open, and with 'w' its writing, gave. */
static int other_word_size_run(const char *dir, char what, const char *env_dir, unsigned flags)
{
    const char *output = path_in(dir, "output");
    struct bytes bytes;
    int rc;

    CHECK_EQ(shell(output, "'%s/other' %c '%s' %u", dir, what, env_dir, flags), 0);
    bytes = file_read(output);
    bytes.start[bytes.size] = '\0';
    rc = atoi((char *)bytes.start);
    bytes_free(&bytes);
    return rc;
}

static void check_file_is(const char *path, const struct bytes *expected)
{
    struct bytes found = file_read(path);

    CHECK_EQ(found.size, expected->size);
    CHECK(memcmp(found.start, expected->start, found.size) == 0);
    bytes_free(&found);
}

TEST(case_13_file_of_another_word_size_is_refused_unchanged)
{
    static const unsigned flags[] = { MDB_RDONLY, MDB_RDONLY | MDB_NOLOCK, 0, MDB_NOLOCK, MDB_WRITEMAP };
    char *dir = temp_dir_make(), *of_32 = temp_dir_make(), *of_64 = temp_dir_make();
    struct scene scene;
    struct bytes data_32, data_64;
    size_t i;

    if (sizeof(void *) != 8 || !other_word_size_build(dir))
        test_skip("gcc -m32 is not there");
    CHECK_EQ(other_word_size_run(dir, 'w', of_32, 0), 0);
    CHECK_EQ(other_word_size_run(dir, 'r', of_32, MDB_RDONLY), 0);
    scene.env = env_open_new(of_64, 0, (size_t)1 << 24, 0);
    scene.txn = begin_write(scene.env);
    put_records(scene.txn, dbi_of(scene.txn, NULL, 0), "a=1");
    CHECK_OK(mdb_txn_commit(scene.txn));
    mdb_env_close(scene.env);
    data_32 = file_read(path_in(of_32, "data.mdb"));
    data_64 = file_read(path_in(of_64, "data.mdb"));
    for (i = 0; i < ARRAY_COUNT(flags); i++) {
        test_note("flags %#x", flags[i]);
        CHECK_RC(open_code(of_32, flags[i]), MDB_INVALID);
        CHECK_RC(other_word_size_run(dir, 'r', of_64, flags[i]), MDB_INVALID);
        check_file_is(path_in(of_32, "data.mdb"), &data_32);
        check_file_is(path_in(of_64, "data.mdb"), &data_64);
    }
    /* Each can still be used by its own kind. */
    CHECK_EQ(other_word_size_run(dir, 'w', of_32, 0), 0);
    CHECK_RC(open_code(of_64, 0), MDB_SUCCESS);
    bytes_free(&data_32);
    bytes_free(&data_64);
    temp_dir_remove(of_64);
    temp_dir_remove(of_32);
    temp_dir_remove(dir);
}

/* ==== 14. Dump and load are exact ======================================== */

static const struct {
    const char *name;
    unsigned flags;
} dumped[] = {
    { "plain", 0 },
    { "with spaces in it", 0 },
    { "binary \x01\xff\n\\ bytes", MDB_REVERSEKEY },
    { "dup", MDB_DUPSORT },
    { "fixed", MDB_DUPSORT | MDB_DUPFIXED },
    { "integers", MDB_INTEGERKEY },
    { "integers of integers", MDB_INTEGERKEY | MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP },
    { "reversed", MDB_REVERSEKEY | MDB_DUPSORT | MDB_REVERSEDUP },
    { "empty", MDB_DUPSORT },
};

static void dumped_fill(MDB_txn *txn, MDB_dbi dbi, unsigned flags, size_t longest)
{
    static const size_t key_sizes[] = { 1, 2, 20 }, value_sizes[] = { 0, 1, 20, 511, 100000 };
    unsigned char *bytes = malloc(100000);
    unsigned i, k;

    CHECK(bytes != NULL);
    for (i = 0; i < 100000; i++)
        bytes[i] = (unsigned char)(i * 7);
    for (i = 0; i < 300; i++) {
        unsigned char key_bytes[512];
        size_t size = key_sizes[i % 3], value_size = value_sizes[i % 5], integer = i * 255;
        MDB_val key, data;

        /* All 256 byte values, backslash and line end among them. */
        for (k = 0; k < sizeof(key_bytes); k++)
            key_bytes[k] = (unsigned char)(i + k);
        if (i == 7 || i == 8)
            size = longest;
        key = flags & MDB_INTEGERKEY ? val_of(&integer, sizeof(integer)) : val_of(key_bytes, size);
        if ((flags & MDB_DUPSORT) && value_size > longest)
            value_size = longest;
        if (flags & MDB_DUPFIXED)
            value_size = 8;
        data = val_of(bytes + i, value_size == 100000 ? 100000 - i : value_size);
        CHECK_OK(mdb_put(txn, dbi, &key, &data, 0));
        for (k = 1; (flags & MDB_DUPSORT) && k < i % 4; k++) {
            data = val_of(bytes + i + k, flags & MDB_DUPFIXED ? 8 : k * 3);
            CHECK_OK(mdb_put(txn, dbi, &key, &data, 0));
        }
    }
    free(bytes);
}

/* Walks a database of both environments at once: the same records, in the same order. */
static void check_same_records(MDB_txn *first_txn, MDB_dbi first, MDB_txn *second_txn, MDB_dbi second)
{
    MDB_cursor *cursors[2];
    MDB_val key, data, other_key, other_data;
    unsigned first_flags, second_flags;
    int rc;

    CHECK_OK(mdb_dbi_flags(first_txn, first, &first_flags));
    CHECK_OK(mdb_dbi_flags(second_txn, second, &second_flags));
    CHECK_EQ(second_flags, first_flags);
    CHECK_OK(mdb_cursor_open(first_txn, first, &cursors[0]));
    CHECK_OK(mdb_cursor_open(second_txn, second, &cursors[1]));
    while ((rc = mdb_cursor_get(cursors[0], &key, &data, MDB_NEXT)) == MDB_SUCCESS) {
        CHECK_OK(mdb_cursor_get(cursors[1], &other_key, &other_data, MDB_NEXT));
        CHECK_VAL(&other_key, key.mv_data, key.mv_size);
        CHECK_VAL(&other_data, data.mv_data, data.mv_size);
    }
    CHECK_RC(mdb_cursor_get(cursors[1], &other_key, &other_data, MDB_NEXT), MDB_NOTFOUND);
    mdb_cursor_close(cursors[0]);
    mdb_cursor_close(cursors[1]);
}

static void check_same_databases(const char *first_dir, const char *second_dir)
{
    MDB_env *envs[2] = {
        env_open_again(first_dir, MDB_RDONLY, 0, SCENE_DBS), env_open_again(second_dir, MDB_RDONLY, 0, SCENE_DBS),
    };
    MDB_txn *txns[2] = { begin_read(envs[0]), begin_read(envs[1]) };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(dumped); i++) {
        test_note("database %s", dumped[i].name);
        check_same_records(txns[0], dbi_of(txns[0], dumped[i].name, 0), txns[1], dbi_of(txns[1], dumped[i].name, 0));
    }
    CHECK_EQ(entries_count(txns[1], dbi_of(txns[1], NULL, 0)), ARRAY_COUNT(dumped));
    for (i = 0; i < 2; i++) {
        mdb_txn_abort(txns[i]);
        mdb_env_close(envs[i]);
    }
}

TEST(case_14_dump_and_load_are_exact)
{
    static const char *const options[] = { "", "-p" };
    char *dir = temp_dir_make();
    MDB_env *env;
    MDB_txn *txn;
    size_t i;

    if (access("./mdb_dump", X_OK) != 0 || access("./mdb_load", X_OK) != 0)
        test_skip("./mdb_dump and ./mdb_load are not there");
    env = env_open_new(dir, 0, SCENE_MAP_SIZE, SCENE_DBS);
    txn = begin_write(env);
    for (i = 0; i < ARRAY_COUNT(dumped); i++) {
        MDB_dbi dbi = dbi_of(txn, dumped[i].name, dumped[i].flags | MDB_CREATE);

        if (strcmp(dumped[i].name, "empty") != 0)
            dumped_fill(txn, dbi, dumped[i].flags, (size_t)mdb_env_get_maxkeysize(env));
    }
    CHECK_OK(mdb_txn_commit(txn));
    mdb_env_close(env);
    for (i = 0; i < ARRAY_COUNT(options); i++) {
        char *loaded = temp_dir_make();
        const char *output = path_in(dir, "output"), *dump = path_in(dir, "dump");

        test_note("options %s", options[i]);
        CHECK_EQ(shell(output, "./mdb_dump -a %s -f '%s' '%s'", options[i], dump, dir), 0);
        CHECK_EQ(file_size(output), 0);
        CHECK_EQ(shell(output, "./mdb_load -f '%s' '%s'", dump, loaded), 0);
        CHECK_EQ(file_size(output), 0);
        check_same_databases(dir, loaded);
        run_check_tool(loaded);
        temp_dir_remove(loaded);

        loaded = temp_dir_make();
        CHECK_EQ(shell(output, "./mdb_dump -a %s '%s' | ./mdb_load '%s'", options[i], dir, loaded), 0);
        CHECK_EQ(file_size(output), 0);
        check_same_databases(dir, loaded);
        temp_dir_remove(loaded);
    }
    temp_dir_remove(dir);
}

/* ==== 15. Overwriting large values ======================================= */

static const size_t overwritten_sizes[] = {
    100, 5000, 4000, 4100, 12000, 12001, 3, 9000, 2000, 19999, 0, 4080, 4081, 8176, 1, 19999, 20000, 8176, 8177, 100,
};

/* The pages that the value of an 8-byte key needs beside its leaf. */
static size_t overflow_pages(size_t size)
{
    unsigned page_size = test_page_size();

    if (((8 + 8 + size + 1) & ~(size_t)1) <= node_max(page_size))
        return 0;
    return (16 + size + page_size - 1) / page_size;
}

static void check_overwritten(MDB_txn *txn, MDB_dbi dbi, unsigned number, size_t size)
{
    struct numeral numeral = numeral_of(0);
    MDB_val key = val_text(numeral.text), data;
    unsigned char *bytes = malloc(size + 1);
    MDB_stat stat;

    CHECK(bytes != NULL);
    pattern_fill(bytes, size, number);
    CHECK_OK(mdb_get(txn, dbi, &key, &data));
    CHECK_VAL(&data, bytes, size);
    CHECK_OK(mdb_stat(txn, dbi, &stat));
    CHECK_EQ(stat.ms_overflow_pages, overflow_pages(size));
    CHECK_EQ(stat.ms_entries, 1);
    free(bytes);
}

static void overwrite(MDB_txn *txn, MDB_dbi dbi, unsigned number, size_t size, unsigned flags)
{
    struct numeral numeral = numeral_of(0);
    MDB_val key = val_text(numeral.text), data;
    unsigned char *bytes = malloc(size + 1);

    CHECK(bytes != NULL);
    pattern_fill(bytes, size, number);
    data = val_of(bytes, size);
    CHECK_OK(mdb_put(txn, dbi, &key, &data, flags));
    if (flags & MDB_RESERVE)
        memcpy(data.mv_data, bytes, size);
    free(bytes);
}

/* Ways to go through the sizes. */
enum { ONE_TRANSACTION = 1, RESERVED = 2, NESTED = 4, ABORTED = 8, THROUGH_CURSOR = 16 };

static void overwrite_all(unsigned env_flags, unsigned ways)
{
    struct scene scene;
    unsigned i, put_flags = ways & RESERVED ? MDB_RESERVE : 0;

    scene_open(&scene, env_flags | MDB_NOSYNC, 0);
    for (i = 0; i < ARRAY_COUNT(overwritten_sizes); i++) {
        size_t size = overwritten_sizes[i];
        struct numeral numeral = numeral_of(0);
        MDB_val key = val_text(numeral.text), data = val_text("new");
        MDB_txn *parent = scene.txn;

        test_note("flags %#x, ways %#x, size %zu, number %u", env_flags, ways, size, i);
        if (ways & ABORTED) {
            MDB_txn *child = begin_nested(scene.env, parent);

            overwrite(child, scene.dbi, 1000 + i, size + 1000, put_flags);
            overwrite(child, scene.dbi, 2000 + i, size, put_flags);
            mdb_txn_abort(child);
            if (i > 0)
                check_overwritten(scene.txn, scene.dbi, i - 1, overwritten_sizes[i - 1]);
        }
        if (ways & NESTED)
            scene.txn = begin_nested(scene.env, parent);
        if (ways & THROUGH_CURSOR && i > 0) {
            MDB_cursor *cursor = scene_cursor(&scene);
            unsigned char *bytes = malloc(size + 1);

            CHECK(bytes != NULL);
            pattern_fill(bytes, size, i);
            CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_FIRST));
            data = val_of(bytes, size);
            CHECK_OK(mdb_cursor_put(cursor, &key, &data, MDB_CURRENT));
            mdb_cursor_close(cursor);
            free(bytes);
        } else {
            overwrite(scene.txn, scene.dbi, i, size, put_flags);
        }
        check_overwritten(scene.txn, scene.dbi, i, size);
        key = val_text(numeral.text);
        data = val_text("new");
        CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, MDB_NOOVERWRITE), MDB_KEYEXIST);
        CHECK_EQ(data.mv_size, size);
        check_overwritten(scene.txn, scene.dbi, i, size);
        if (ways & NESTED) {
            CHECK_OK(mdb_txn_commit(scene.txn));
            scene.txn = parent;
            check_overwritten(scene.txn, scene.dbi, i, size);
        }
        if ((ways & ONE_TRANSACTION) == 0) {
            scene_commit(&scene);
            check_overwritten(scene.txn, scene.dbi, i, size);
        }
    }
    scene_close(&scene);
}

TEST(case_15_overwriting_large_values_keeps_values_and_counts)
{
    static const unsigned env_flags[] = { 0, MDB_WRITEMAP };
    size_t i;
    unsigned ways;

    for (i = 0; i < ARRAY_COUNT(env_flags); i++) {
        for (ways = 0; ways < 32; ways++)
            overwrite_all(env_flags[i], ways);
    }
}

/* ==== 16. Read-only cursors outlive their transaction ==================== */

TEST(case_16_cursor_of_a_reader_is_closed_or_renewed_after_its_end)
{
    static const unsigned env_flags[] = { 0, MDB_NOTLS };
    size_t kind;
    unsigned i;

    for (kind = 0; kind < ARRAY_COUNT(env_flags); kind++) {
        struct scene scene;
        MDB_cursor *cursors[8];

        scene_open(&scene, env_flags[kind], MDB_DUPSORT);
        put_records(scene.txn, scene.dbi, "a=1 a=2 b=3");
        CHECK_OK(mdb_txn_commit(scene.txn));
        for (i = 0; i < 8; i++) {
            MDB_txn *reader = begin_read(scene.env);

            CHECK_OK(mdb_cursor_open(reader, scene.dbi, &cursors[i]));
            CHECK_AT(cursors[i], MDB_LAST, "b=3");
            if (i % 2 == 0)
                mdb_txn_abort(reader);
            else
                CHECK_OK(mdb_txn_commit(reader));
            if (i % 4 < 2)
                mdb_cursor_close(cursors[i]);
        }
        scene.txn = begin_read(scene.env);
        for (i = 0; i < 8; i++) {
            if (i % 4 < 2)
                continue;
            CHECK_OK(mdb_cursor_renew(scene.txn, cursors[i]));
            CHECK_AT(cursors[i], MDB_NEXT, "a=1");
            CHECK_AT(cursors[i], MDB_NEXT, "a=2");
        }
        mdb_txn_abort(scene.txn);
        for (i = 0; i < 8; i++) {
            if (i % 4 >= 2)
                mdb_cursor_close(cursors[i]);
        }
        scene.txn = begin_write(scene.env);
        /* Those of a write transaction are closed before its end, or with it. */
        cursors[0] = scene_cursor(&scene);
        cursors[1] = scene_cursor(&scene);
        CHECK_AT(cursors[1], MDB_FIRST, "a=1");
        mdb_cursor_close(cursors[0]);
        scene_close(&scene);
    }
}

/* ==== 17. Cursor at the end, then growth ================================= */

TEST(case_17_cursor_at_the_end_sees_what_is_put_behind)
{
    static const struct script_case cases[] = {
        { 0, "a=1 b=2", "LAST b=2, NEXT NOTFOUND, put c=3 ok, NEXT c=3", "a=1 b=2 c=3" },
        { 0, "a=1 b=2",
          "LAST b=2, NEXT NOTFOUND, put c=3 ok, NEXT c=3, cput d=4 ok, GET_CURRENT d=4, PREV c=3, NEXT d=4",
          "a=1 b=2 c=3 d=4" },
        { 0, "a=1 b=2", "LAST b=2, NEXT NOTFOUND, cput d=4 ok, GET_CURRENT d=4, PREV b=2, NEXT d=4", "a=1 b=2 d=4" },
        { 0, "a=1 b=2", "LAST b=2, NEXT NOTFOUND, cput aa=4 ok, GET_CURRENT aa=4, PREV a=1, NEXT aa=4",
          "a=1 aa=4 b=2" },
        { MDB_DUPSORT, "a=1 a=2", "LAST a=2, NEXT NOTFOUND, put a=3 ok, NEXT a=3, FIRST_DUP a=1, LAST_DUP a=3",
          "a=1 a=2 a=3" },
        { MDB_DUPSORT, "a=1", "LAST a=1, NEXT NOTFOUND, put a=2 ok, FIRST_DUP a=1, NEXT a=2", "a=1 a=2" },
        { MDB_DUPSORT, "a=1 a=2", "LAST a=2, NEXT NOTFOUND, put a=3 ok, FIRST_DUP a=1, NEXT a=2, NEXT a=3",
          "a=1 a=2 a=3" },
        { MDB_DUPSORT, "a=1 a=2", "LAST a=2, NEXT NOTFOUND, cput a=4 ok, GET_CURRENT a=4, PREV a=2, NEXT a=4",
          "a=1 a=2 a=4" },
        { MDB_DUPSORT, "a=1 a=2", "LAST a=2, NEXT NOTFOUND, put b=1 ok, NEXT b=1, FIRST_DUP b=1, PREV a=2",
          "a=1 a=2 b=1" },
        { MDB_DUPSORT | MDB_DUPFIXED, "a=1 a=2", "LAST a=2, NEXT NOTFOUND, put a=3 ok, NEXT a=3, FIRST_DUP a=1",
          "a=1 a=2 a=3" },
    };

    script_cases_run(cases, ARRAY_COUNT(cases));
}

/* ==== 18. Copies of nothing ============================================== */

static const unsigned copy_flags[] = { 0, MDB_CP_COMPACT };

TEST(case_18_copy_of_an_empty_environment_can_be_opened_and_written)
{
    size_t i;
    int was_opened_twice;

    for (i = 0; i < ARRAY_COUNT(copy_flags); i++) {
        for (was_opened_twice = 0; was_opened_twice < 2; was_opened_twice++) {
            char *dir = temp_dir_make(), *copy = temp_dir_make();
            MDB_env *env = env_open_new(dir, 0, SCENE_MAP_SIZE, 0);
            MDB_txn *txn;
            MDB_dbi dbi;

            if (was_opened_twice) {
                mdb_env_close(env);
                env = env_open_again(dir, 0, 0, 0);
            }
            CHECK_OK(mdb_env_copy2(env, copy, copy_flags[i]));
            mdb_env_close(env);
            run_check_tool(copy);
            env = env_open_again(copy, 0, 0, 0);
            txn = begin_write(env);
            dbi = dbi_of(txn, NULL, 0);
            CHECK_CONTENTS(txn, dbi, "");
            put_records(txn, dbi, "a=1 b=2");
            CHECK_OK(mdb_txn_commit(txn));
            mdb_env_close(env);
            run_check_tool(copy);
            temp_dir_remove(copy);
            temp_dir_remove(dir);
        }
    }
}

TEST(case_18_copy_over_an_existing_file_is_eexist)
{
    size_t i;

    for (i = 0; i < ARRAY_COUNT(copy_flags); i++) {
        char *dir = temp_dir_make(), *copy = temp_dir_make();
        MDB_env *env = env_open_new(dir, 0, SCENE_MAP_SIZE, 0);
        struct bytes bytes;

        file_write(path_in(copy, "data.mdb"), "precious", 8);
        CHECK_RC(mdb_env_copy2(env, copy, copy_flags[i]), EEXIST);
        bytes = file_read(path_in(copy, "data.mdb"));
        CHECK_EQ(bytes.size, 8);
        CHECK(memcmp(bytes.start, "precious", 8) == 0);
        bytes_free(&bytes);
        mdb_env_close(env);
        temp_dir_remove(copy);
        temp_dir_remove(dir);
    }
}

enum { COPIED_RECORDS = 300 };

struct copied {
    MDB_env *env;
    MDB_dbi dbi;
    atomic_int done;
};

/* Each commit gives all records another value. */
static void copied_commit(struct copied *copied, unsigned round)
{
    MDB_txn *txn = begin_write(copied->env);
    unsigned i;

    for (i = 0; i < COPIED_RECORDS; i++) {
        struct numeral numeral = numeral_of(i);
        unsigned char bytes[400];
        MDB_val key = val_text(numeral.text), data = val_of(bytes, 8 + (round * 13 + i) % 390);

        memset(bytes, (int)round, sizeof(bytes));
        CHECK_OK(mdb_put(txn, copied->dbi, &key, &data, 0));
    }
    CHECK_OK(mdb_txn_commit(txn));
}

static void *copied_writer(void *argument)
{
    struct copied *copied = argument;
    unsigned round;

    for (round = 2; !atomic_load(&copied->done); round++)
        copied_commit(copied, round % 200);
    return NULL;
}

TEST(case_18_copy_while_a_writer_commits_is_one_snapshot)
{
    char *dir = temp_dir_make();
    struct copied copied = { .env = env_open_new(dir, MDB_NOSYNC, SCENE_MAP_SIZE, 0) };
    MDB_txn *txn = begin_write(copied.env);
    pthread_t thread;
    unsigned i, k;

    copied.dbi = dbi_of(txn, NULL, 0);
    CHECK_OK(mdb_txn_commit(txn));
    copied_commit(&copied, 1);
    CHECK_EQ(pthread_create(&thread, NULL, copied_writer, &copied), 0);
    for (i = 0; i < 12; i++) {
        char *copy = temp_dir_make();
        MDB_env *env;
        MDB_cursor *cursor;
        MDB_val key, data;
        int first = -1;

        CHECK_OK(mdb_env_copy2(copied.env, copy, copy_flags[i % 2]));
        run_check_tool(copy);
        env = env_open_again(copy, MDB_RDONLY, 0, 0);
        txn = begin_read(env);
        CHECK_OK(mdb_cursor_open(txn, dbi_of(txn, NULL, 0), &cursor));
        for (k = 0; k < COPIED_RECORDS; k++) {
            CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
            if (first < 0)
                first = *(unsigned char *)data.mv_data;
            CHECK_EQ(*(unsigned char *)data.mv_data, first);
            CHECK_EQ(((unsigned char *)data.mv_data)[data.mv_size - 1], first);
        }
        CHECK_RC(mdb_cursor_get(cursor, &key, &data, MDB_NEXT), MDB_NOTFOUND);
        mdb_cursor_close(cursor);
        mdb_txn_abort(txn);
        mdb_env_close(env);
        temp_dir_remove(copy);
    }
    atomic_store(&copied.done, 1);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    mdb_env_close(copied.env);
    run_check_tool(dir);
    temp_dir_remove(dir);
}

/* ==== 19. One path opened twice in a process ============================= */

/* In another process: that somebody holds the lock file's lock. */
static void lock_is_held(struct parent *parent, const char *dir)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };
    int fd = open(path_in(dir, "lock.mdb"), O_RDWR);

    (void)parent;
    CHECK(fd >= 0);
    CHECK_EQ(fcntl(fd, F_GETLK, &lock), 0);
    CHECK_EQ(lock.l_type, F_RDLCK);
    CHECK_EQ(lock.l_pid, getppid());
}

static void check_lock_is_held(const char *dir)
{
    struct child child = child_start(lock_is_held, dir);

    child_finish(&child);
}

TEST(case_19_second_open_of_a_path_is_ebusy_and_harmless)
{
    char *dir = temp_dir_make(), *links = temp_dir_make();
    char link_path[4096], hard_link[4096], direct[4096];
    MDB_env *env = env_open_new(dir, 0, SCENE_MAP_SIZE, 0);
    MDB_txn *txn;
    MDB_dbi dbi;
    size_t i;

    snprintf(link_path, sizeof(link_path), "%s/link", links);
    snprintf(hard_link, sizeof(hard_link), "%s/hard", links);
    snprintf(direct, sizeof(direct), "%s/data.mdb", dir);
    CHECK_EQ(symlink(dir, link_path), 0);
    CHECK_EQ(link(direct, hard_link), 0);
    {
        struct {
            const char *path;
            unsigned flags;
        } opens[] = {
            { dir, 0 }, { dir, MDB_RDONLY }, { dir, MDB_WRITEMAP }, { link_path, 0 }, { link_path, MDB_RDONLY },
            { direct, MDB_NOSUBDIR }, { hard_link, MDB_NOSUBDIR }, { hard_link, MDB_NOSUBDIR | MDB_RDONLY },
        };

        for (i = 0; i < ARRAY_COUNT(opens); i++) {
            test_note("open %zu", i);
            CHECK_RC(open_code(opens[i].path, opens[i].flags), EBUSY);
            check_lock_is_held(dir);
            txn = begin_read(env);
            dbi = dbi_of(txn, NULL, 0);
            CHECK_EQ(walk_both(txn, dbi), i);
            CHECK_OK(mdb_txn_commit(txn));
            txn = begin_write(env);
            CHECK_OK(put_text(txn, dbi, numeral_of((unsigned)i).text, "", 0));
            CHECK_OK(mdb_txn_commit(txn));
        }
    }
    mdb_env_close(env);
    /* Once it is closed it can be opened again, in any of these ways. */
    CHECK_RC(open_code(link_path, 0), MDB_SUCCESS);
    CHECK_RC(open_code(dir, 0), MDB_SUCCESS);
    CHECK_RC(open_code(hard_link, MDB_NOSUBDIR), MDB_SUCCESS);
    run_check_tool(dir);
    temp_dir_remove(links);
    temp_dir_remove(dir);
}

/* ==== 20. fork =========================================================== */

static struct scene forked;
static MDB_txn *forked_reader;

static void forked_open(void)
{
    scene_open(&forked, 0, 0);
    put_records(forked.txn, forked.dbi, "a=1 b=2");
    CHECK_OK(mdb_txn_commit(forked.txn));
    forked_reader = begin_read(forked.env);
    CHECK_CONTENTS(forked_reader, forked.dbi, "a=1 b=2");
}

/* The parent has lost nothing: its snapshot, its slot, its locks, its map. */
static void forked_check_and_close(void)
{
    MDB_envinfo info;
    int dead = -1;

    CHECK_CONTENTS(forked_reader, forked.dbi, "a=1 b=2");
    CHECK_OK(mdb_reader_check(forked.env, &dead));
    CHECK_EQ(dead, 0);
    CHECK_OK(mdb_env_info(forked.env, &info));
    CHECK_EQ(info.me_numreaders >= 1, 1);
    check_lock_is_held(forked.dir);
    forked.txn = begin_write(forked.env);
    put_records(forked.txn, forked.dbi, "c=3");
    CHECK_OK(mdb_txn_commit(forked.txn));
    CHECK_CONTENTS(forked_reader, forked.dbi, "a=1 b=2");
    mdb_txn_abort(forked_reader);
    forked.txn = begin_write(forked.env);
    CHECK_TEXT(get_text(forked.txn, forked.dbi, "c"), "3");
    scene_close(&forked);
}

static void child_closes(struct parent *parent, const char *path)
{
    (void)parent;
    (void)path;
    mdb_env_close(forked.env);
}

TEST(case_20_child_that_closes_leaves_the_parent_unharmed)
{
    struct child child;

    forked_open();
    child = child_start(child_closes, forked.dir);
    child_finish(&child);
    forked_check_and_close();
}

static void child_begins(struct parent *parent, const char *path)
{
    MDB_txn *txn;
    MDB_stat stat;
    MDB_envinfo info;

    (void)parent;
    CHECK_RC(mdb_txn_begin(forked.env, NULL, MDB_RDONLY, &txn), EPERM);
    CHECK_RC(mdb_txn_begin(forked.env, NULL, 0, &txn), EPERM);
    CHECK_RC(mdb_env_stat(forked.env, &stat), EPERM);
    CHECK_RC(mdb_env_info(forked.env, &info), EPERM);
    CHECK_RC(mdb_env_sync(forked.env, 1), EPERM);
    CHECK_RC(mdb_env_set_mapsize(forked.env, SCENE_MAP_SIZE), EPERM);
    CHECK_RC(mdb_env_copy(forked.env, path), EPERM);
    CHECK_RC(mdb_env_copyfd(forked.env, 1), EPERM);
    CHECK_RC(mdb_reader_check(forked.env, NULL), EPERM);
    mdb_env_close(forked.env);
}

TEST(case_20_child_that_uses_the_environment_gets_eperm)
{
    struct child child;

    forked_open();
    child = child_start(child_begins, forked.dir);
    child_finish(&child);
    forked_check_and_close();
}

static void child_opens_anew(struct parent *parent, const char *path)
{
    MDB_env *env = env_open_again(path, 0, 0, SCENE_DBS);
    MDB_txn *txn = begin_write(env);
    MDB_dbi dbi = dbi_of(txn, "data", 0);

    (void)parent;
    CHECK_CONTENTS(txn, dbi, "a=1 b=2");
    put_records(txn, dbi, "x=9");
    CHECK_OK(mdb_txn_commit(txn));
    txn = begin_read(env);
    CHECK_CONTENTS(txn, dbi, "a=1 b=2 x=9");
    mdb_txn_abort(txn);
    mdb_env_close(env);
}

static void child_closes_and_opens_anew(struct parent *parent, const char *path)
{
    mdb_env_close(forked.env);
    child_opens_anew(parent, path);
}

TEST(case_20_child_opens_the_path_for_itself)
{
    struct child child;

    forked_open();
    child = child_start(child_opens_anew, forked.dir);
    child_finish(&child);
    forked_check_and_close();
    forked_open();
    child = child_start(child_closes_and_opens_anew, forked.dir);
    child_finish(&child);
    forked_check_and_close();
}

static void *only_returns(void *argument)
{
    return argument;
}

/* Ends by exit, with the handlers of the library, if there were any, and those of its threads. */
static void child_exits(struct parent *parent, const char *path)
{
    pthread_t thread;

    (void)parent;
    (void)path;
    CHECK_EQ(pthread_create(&thread, NULL, only_returns, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    exit(0);
}

TEST(case_20_child_that_exits_touches_nothing_of_the_parent)
{
    struct child child;

    forked_open();
    child = child_start(child_exits, forked.dir);
    child_finish(&child);
    forked_check_and_close();
}

TEST(case_20_children_leave_a_live_write_transaction_alone)
{
    child_function *const functions[] = { child_closes, child_begins, child_exits };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(functions); i++) {
        struct child child;

        forked_open();
        forked.txn = begin_write(forked.env);
        put_numbers(forked.txn, forked.dbi, 0, 300, 100);
        child = child_start(functions[i], forked.dir);
        child_finish(&child);
        check_numbers(forked.txn, forked.dbi, 0, 300, 100);
        put_numbers(forked.txn, forked.dbi, 300, 300, 100);
        CHECK_OK(mdb_txn_commit(forked.txn));
        forked_check_and_close();
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(case_01_multiple_stores_what_is_not_there_yet),
        TEST_ENTRY(case_02_appenddup_out_of_order_is_keyexist_and_harmless),
        TEST_ENTRY(case_03_small_deletes_succeed_on_a_full_map),
        TEST_ENTRY(case_03_deleting_all_or_dropping_or_growing_succeeds_on_a_full_map),
        TEST_ENTRY(case_04_long_lived_cursor_sees_every_put),
        TEST_ENTRY(case_05_two_cursors_in_a_set_of_two),
        TEST_ENTRY(case_05_two_cursors_in_a_set_that_shrinks),
        TEST_ENTRY(case_06_get_both_range_stays_on_its_key),
        TEST_ENTRY(case_07_deletes_that_lengthen_separators_split_upward),
        TEST_ENTRY(case_08_transactions_that_leave_nothing_use_no_pages),
        TEST_ENTRY(case_09_map_grown_by_another_process_is_adopted),
        TEST_ENTRY(case_10_second_reader_of_a_thread_is_bad_rslot),
        TEST_ENTRY(case_10_four_slots_without_tls_serve_four_readers),
        TEST_ENTRY(case_10_short_lived_threads_lose_no_slot),
        TEST_ENTRY(case_10_thread_that_outlives_the_environment_touches_nothing),
        TEST_ENTRY(case_11_commit_that_fails_by_an_earlier_error_releases_all),
        TEST_ENTRY(case_11_commit_that_fails_by_a_fault_of_the_disk_leaves_the_old_data),
        TEST_ENTRY(case_11_short_writes_are_resumed),
        TEST_ENTRY(case_12_reading_without_permission_to_write_needs_nolock),
        TEST_ENTRY(case_12_reading_works_where_nobody_can_write),
        TEST_ENTRY(case_12_empty_file_opened_for_reading_is_invalid),
        TEST_ENTRY(case_13_file_of_another_word_size_is_refused_unchanged),
        TEST_ENTRY(case_14_dump_and_load_are_exact),
        TEST_ENTRY(case_15_overwriting_large_values_keeps_values_and_counts),
        TEST_ENTRY(case_16_cursor_of_a_reader_is_closed_or_renewed_after_its_end),
        TEST_ENTRY(case_17_cursor_at_the_end_sees_what_is_put_behind),
        TEST_ENTRY(case_18_copy_of_an_empty_environment_can_be_opened_and_written),
        TEST_ENTRY(case_18_copy_over_an_existing_file_is_eexist),
        TEST_ENTRY(case_18_copy_while_a_writer_commits_is_one_snapshot),
        TEST_ENTRY(case_19_second_open_of_a_path_is_ebusy_and_harmless),
        TEST_ENTRY(case_20_child_that_closes_leaves_the_parent_unharmed),
        TEST_ENTRY(case_20_child_that_uses_the_environment_gets_eperm),
        TEST_ENTRY(case_20_child_opens_the_path_for_itself),
        TEST_ENTRY(case_20_child_that_exits_touches_nothing_of_the_parent),
        TEST_ENTRY(case_20_children_leave_a_live_write_transaction_alone),
    };

    return test_main(argc, argv, tests, TEST_COUNT(tests));
}
