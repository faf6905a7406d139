/* Transactions larger than the memory that they may use: pages are written early, read again, and dirtied again.
 *
 * The library is compiled into this program with a small budget, so that transactions of a few megabytes exceed it. */
#define MDB_DIRTY_BYTES_MAX ((size_t)1 << 20)
#include "mdb.c"

#include <malloc.h>

#include "mtest_common.h"

static const unsigned env_kinds[] = { MDB_NOSYNC, MDB_NOSYNC | MDB_WRITEMAP };

/* Bytes that malloc has given out. */
static size_t memory_used(void)
{
#if TEST_CATCHES_SIGNALS
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
#else
    return 0;
#endif
}

/* Sizes of values: most are small, some have pages of their own. */
static size_t size_of(unsigned number, unsigned round)
{
    unsigned mixed = number * 7919 + round * 104729;

    return mixed % 37 == 0 ? 20000 + mixed % 30000 : mixed % 400;
}

TEST(transaction_many_times_the_budget_keeps_every_record)
{
    enum { COUNT = 20000 };
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        struct scene scene;
        struct random random = { test_seed() };
        unsigned *order = numbers_shuffled(&random, COUNT), i, round;
        size_t before;

        scene_open(&scene, env_kinds[kind], 0);
        scene_commit(&scene);
        before = memory_used();
        for (round = 0; round < 2; round++) {
            for (i = 0; i < COUNT; i++)
                put_numbers(scene.txn, scene.dbi, order[i], 1, size_of(order[i], round));
            CHECK_EQ(walk_both(scene.txn, scene.dbi), COUNT);
            for (i = 0; i < COUNT; i += 13)
                check_number(scene.txn, scene.dbi, order[i], size_of(order[i], round));
        }
        for (i = 0; i < COUNT; i += 2)
            CHECK_OK(del_text(scene.txn, scene.dbi, numeral_of(order[i]).text, NULL));
        /* Twenty times the budget or more was written; the memory in use is of the budget's order. */
        CHECK(memory_used() < before + 12 * MDB_DIRTY_BYTES_MAX);
        for (i = 1; i < COUNT; i += 2)
            check_number(scene.txn, scene.dbi, order[i], size_of(order[i], 1));
        scene_commit(&scene);
        CHECK_EQ(walk_both(scene.txn, scene.dbi), COUNT / 2);
        for (i = 1; i < COUNT; i += 2)
            check_number(scene.txn, scene.dbi, order[i], size_of(order[i], 1));
        free(order);
        scene_close(&scene);
    }
}

TEST(large_values_count_in_the_budget)
{
    struct scene scene;
    size_t before;
    unsigned i;

    scene_open(&scene, MDB_NOSYNC, 0);
    scene_commit(&scene);
    before = memory_used();
    for (i = 0; i < 400; i++) {
        put_numbers(scene.txn, scene.dbi, i, 1, 200000);
        CHECK(memory_used() < before + 12 * MDB_DIRTY_BYTES_MAX);
    }
    for (i = 0; i < 400; i += 3)
        put_numbers(scene.txn, scene.dbi, i, 1, 150000);
    for (i = 0; i < 400; i++)
        check_number(scene.txn, scene.dbi, i, i % 3 == 0 ? 150000 : 200000);
    scene_commit(&scene);
    for (i = 0; i < 400; i++)
        check_number(scene.txn, scene.dbi, i, i % 3 == 0 ? 150000 : 200000);
    scene_close(&scene);
}

/* A single value beyond the whole budget. */
TEST(value_larger_than_the_budget_is_kept)
{
    struct scene scene;

    scene_open(&scene, MDB_NOSYNC, 0);
    put_numbers(scene.txn, scene.dbi, 0, 3, 10 * MDB_DIRTY_BYTES_MAX);
    put_numbers(scene.txn, scene.dbi, 3, 100, 1000);
    check_numbers(scene.txn, scene.dbi, 0, 3, 10 * MDB_DIRTY_BYTES_MAX);
    scene_commit(&scene);
    check_numbers(scene.txn, scene.dbi, 0, 3, 10 * MDB_DIRTY_BYTES_MAX);
    check_numbers(scene.txn, scene.dbi, 3, 100, 1000);
    scene_close(&scene);
}

TEST(abort_of_a_spilled_transaction_leaves_the_old_data)
{
    size_t kind;
    unsigned round;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        struct scene scene;
        MDB_envinfo info;
        size_t pages = 0;

        scene_open(&scene, env_kinds[kind], 0);
        put_numbers(scene.txn, scene.dbi, 0, 5000, 100);
        scene_commit(&scene);
        for (round = 0; round < 4; round++) {
            put_numbers(scene.txn, scene.dbi, 2500, 10000, 300);
            put_numbers(scene.txn, scene.dbi, 0, 20, 100000);
            scene_abort(&scene);
            check_numbers(scene.txn, scene.dbi, 0, 5000, 100);
            CHECK_EQ(walk_both(scene.txn, scene.dbi), 5000);
            put_numbers(scene.txn, scene.dbi, 0, 1, 100);
            scene_commit(&scene);
            CHECK_OK(mdb_env_info(scene.env, &info));
            /* A small commit takes a path of new pages, deep at small page sizes; an abort that lost pages would lose
             * thousands. */
            CHECK(round == 0 || info.me_last_pgno <= pages + 16);
            pages = info.me_last_pgno;
        }
        scene_close(&scene);
    }
}

TEST(cursors_stay_on_their_records_while_pages_are_spilled)
{
    enum { COUNT = 8000, WATCHED = 40, STEP = COUNT / WATCHED };
    static const unsigned db_kinds[] = { 0, MDB_DUPSORT, MDB_DUPSORT | MDB_DUPFIXED };
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(db_kinds); kind++) {
        struct scene scene;
        struct random random = { test_seed() };
        unsigned *order = numbers_shuffled(&random, COUNT), i, w;
        MDB_cursor *cursors[WATCHED];
        unsigned char filling[300] = { 0 };

        scene_open(&scene, MDB_NOSYNC, db_kinds[kind]);
        for (i = 0; i < COUNT; i++) {
            /* With duplicates: keys of a thousand values. */
            struct numeral key_text = numeral_of(db_kinds[kind] == 0 ? order[i] : order[i] / 1000);
            MDB_val key = val_text(key_text.text), data = val_of(filling, 180);

            memcpy(filling, numeral_of(order[i]).text, 8);
            CHECK_OK(mdb_put(scene.txn, scene.dbi, &key, &data, 0));
        }
        for (w = 0; w < WATCHED; w++) {
            struct numeral key_text = numeral_of(db_kinds[kind] == 0 ? w * STEP : w * STEP / 1000);
            MDB_val key = val_text(key_text.text), data = val_of(filling, 180);

            cursors[w] = scene_cursor(&scene);
            memcpy(filling, numeral_of(w * STEP).text, 8);
            CHECK_OK(mdb_cursor_get(cursors[w], &key, &data, db_kinds[kind] == 0 ? MDB_SET : MDB_GET_BOTH));
        }
        for (i = 0; i < COUNT; i++) {
            struct numeral key_text = numeral_of(db_kinds[kind] == 0 ? order[i] : order[i] / 1000);
            MDB_val key = val_text(key_text.text), data = val_of(filling, 180);

            if (order[i] % STEP == 0)
                continue;
            memcpy(filling, numeral_of(order[i]).text, 8);
            CHECK_OK(mdb_del(scene.txn, scene.dbi, &key, &data));
            w = i % WATCHED;
            CHECK_OK(mdb_cursor_get(cursors[w], &key, &data, MDB_GET_CURRENT));
            CHECK_VAL(&data, memcpy(filling, numeral_of(w * STEP).text, 8), 180);
        }
        CHECK_EQ(walk_both(scene.txn, scene.dbi), WATCHED);
        free(order);
        scene_close(&scene);
    }
}

TEST(nested_transactions_spill_and_abort)
{
    size_t kind;
    unsigned round, i;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        struct scene scene;

        scene_open(&scene, env_kinds[kind], 0);
        put_numbers(scene.txn, scene.dbi, 0, 6000, 200);
        for (round = 0; round < 4; round++) {
            MDB_txn *child = begin_nested(scene.env, scene.txn), *grandchild;

            for (i = 0; i < 6000; i += 2)
                put_numbers(child, scene.dbi, i, 1, 300 + round);
            put_numbers(child, scene.dbi, 10000, 20, 100000);
            grandchild = begin_nested(scene.env, child);
            for (i = 1; i < 6000; i += 2)
                put_numbers(grandchild, scene.dbi, i, 1, 100 + round);
            CHECK_OK(mdb_drop(grandchild, scene.dbi, 0));
            put_numbers(grandchild, scene.dbi, 0, 2000, 50);
            mdb_txn_abort(grandchild);
            for (i = 0; i < 6000; i++)
                check_number(child, scene.dbi, i, i % 2 == 0 ? 300 + round : 200);
            if (round % 2 == 0) {
                mdb_txn_abort(child);
                for (i = 0; i < 6000; i++)
                    check_number(scene.txn, scene.dbi, i, i % 2 == 0 && round > 0 ? 299 + round : 200);
            } else {
                CHECK_OK(mdb_txn_commit(child));
                for (i = 0; i < 6000; i++)
                    check_number(scene.txn, scene.dbi, i, i % 2 == 0 ? 300 + round : 200);
                check_numbers(scene.txn, scene.dbi, 10000, 20, 100000);
            }
        }
        scene_commit(&scene);
        CHECK_EQ(walk_both(scene.txn, scene.dbi), 6020);
        scene_close(&scene);
    }
}

/* Readers must not see what is written early. */
TEST(readers_see_nothing_of_pages_that_are_spilled)
{
    struct scene scene;
    MDB_txn *reader;
    unsigned round;

    scene_open(&scene, MDB_NOSYNC | MDB_NOTLS, 0);
    put_numbers(scene.txn, scene.dbi, 0, 3000, 150);
    scene_commit(&scene);
    for (round = 0; round < 4; round++) {
        reader = begin_read(scene.env);
        put_numbers(scene.txn, scene.dbi, 0, 3000, 150 + round + 1);
        put_numbers(scene.txn, scene.dbi, 3000, 30, 100000);
        check_numbers(reader, scene.dbi, 0, 3000, 150 + round);
        scene_commit(&scene);
        check_numbers(reader, scene.dbi, 0, 3000, 150 + round);
        mdb_txn_abort(reader);
    }
    scene_close(&scene);
}

TEST(sorted_load_many_times_the_budget_fills_pages)
{
    enum { COUNT = 100000 };
    struct scene scene;
    MDB_cursor *cursor;
    MDB_stat stat;
    unsigned i;

    scene_open(&scene, MDB_NOSYNC, 0);
    cursor = scene_cursor(&scene);
    for (i = 0; i < COUNT; i++) {
        struct numeral numeral = numeral_of(i);
        MDB_val key = val_text(numeral.text), data = val_of("sixteen bytes...and four", 22);

        CHECK_OK(mdb_cursor_put(cursor, &key, &data, MDB_APPEND));
    }
    CHECK_OK(mdb_stat(scene.txn, scene.dbi, &stat));
    CHECK(stat.ms_leaf_pages <= COUNT / ((test_page_size() - 16) / 40) + 1);
    scene_commit(&scene);
    CHECK_EQ(walk_both(scene.txn, scene.dbi), COUNT);
    scene_close(&scene);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(transaction_many_times_the_budget_keeps_every_record),
        TEST_ENTRY(large_values_count_in_the_budget),
        TEST_ENTRY(value_larger_than_the_budget_is_kept),
        TEST_ENTRY(abort_of_a_spilled_transaction_leaves_the_old_data),
        TEST_ENTRY(cursors_stay_on_their_records_while_pages_are_spilled),
        TEST_ENTRY(nested_transactions_spill_and_abort),
        TEST_ENTRY(readers_see_nothing_of_pages_that_are_spilled),
        TEST_ENTRY(sorted_load_many_times_the_budget_fills_pages),
    };

    return test_main(argc, argv, tests, TEST_COUNT(tests));
}
