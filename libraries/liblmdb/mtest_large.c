/* Large values: pages of their own, their number, their reuse, sizes around every limit, up to the largest. */
#include <sys/statvfs.h>

#include "mtest_common.h"

/* The pages that the value of an 8-byte key needs beside its leaf. */
static size_t overflow_pages(size_t size)
{
    if (((8 + 8 + size + 1) & ~(size_t)1) <= node_max(test_page_size()))
        return 0;
    return (16 + size + test_page_size() - 1) / test_page_size();
}

static void check_overflow(MDB_txn *txn, MDB_dbi dbi, size_t pages)
{
    MDB_stat stat;

    CHECK_OK(mdb_stat(txn, dbi, &stat));
    CHECK_EQ(stat.ms_overflow_pages, pages);
}

/* ==== Sizes ============================================================== */

/* Sizes around the limit of a node, and around multiples of the page. */
static unsigned interesting_sizes(size_t *sizes)
{
    size_t page_size = test_page_size(), limit = node_max((unsigned)page_size) - 16, size;
    unsigned count = 0, pages;

    for (size = limit - 4; size <= limit + 4; size++)
        sizes[count++] = size;
    for (pages = 1; pages <= 4; pages++) {
        for (size = pages * page_size - 20; size <= pages * page_size + 4; size += size % 2 == 0 ? 1 : 3)
            sizes[count++] = size;
    }
    return count;
}

TEST(values_of_every_size_around_the_limits_are_kept)
{
    static const unsigned env_flags[] = { 0, MDB_WRITEMAP };
    size_t sizes[200], kind, pages = 0;
    unsigned count = interesting_sizes(sizes), i;

    for (kind = 0; kind < ARRAY_COUNT(env_flags); kind++) {
        struct scene scene;

        scene_open(&scene, env_flags[kind] | MDB_NOSYNC, 0);
        pages = 0;
        for (i = 0; i < count; i++) {
            put_numbers(scene.txn, scene.dbi, i, 1, sizes[i]);
            pages += overflow_pages(sizes[i]);
            test_note("size %zu", sizes[i]);
            check_overflow(scene.txn, scene.dbi, pages);
        }
        for (i = 0; i < count; i++)
            check_number(scene.txn, scene.dbi, i, sizes[i]);
        scene_commit(&scene);
        for (i = 0; i < count; i++)
            check_number(scene.txn, scene.dbi, i, sizes[i]);
        for (i = 0; i < count; i++) {
            CHECK_OK(del_text(scene.txn, scene.dbi, numeral_of(i).text, NULL));
            pages -= overflow_pages(sizes[i]);
            test_note("size %zu", sizes[i]);
            check_overflow(scene.txn, scene.dbi, pages);
        }
        CHECK_EQ(pages, 0);
        scene_close(&scene);
    }
}

/* From each of these sizes to each other one, in the same transaction, in the next, and in a nested one that aborts. */
TEST(values_are_replaced_by_every_other_size)
{
    size_t sizes[200];
    unsigned count = interesting_sizes(sizes), step = count > 14 ? count / 14 : 1, from, to;
    struct scene scene;

    scene_open(&scene, MDB_NOSYNC, 0);
    put_numbers(scene.txn, scene.dbi, 100, 3, 50);
    for (from = 0; from < count; from += step) {
        for (to = 0; to < count; to += step) {
            MDB_txn *child, *parent = scene.txn;

            test_note("from %zu to %zu", sizes[from], sizes[to]);
            put_numbers(scene.txn, scene.dbi, 7, 1, sizes[from]);
            check_number(scene.txn, scene.dbi, 7, sizes[from]);
            if (to % 3 == 0) {
                scene_commit(&scene);
                parent = scene.txn;
            }
            child = begin_nested(scene.env, parent);
            put_numbers(child, scene.dbi, 7, 1, sizes[to]);
            check_number(child, scene.dbi, 7, sizes[to]);
            mdb_txn_abort(child);
            check_number(scene.txn, scene.dbi, 7, sizes[from]);
            put_numbers(scene.txn, scene.dbi, 7, 1, sizes[to]);
            check_number(scene.txn, scene.dbi, 7, sizes[to]);
            test_note("from %zu to %zu", sizes[from], sizes[to]);
            check_overflow(scene.txn, scene.dbi, overflow_pages(sizes[to]));
            CHECK_EQ(entries_count(scene.txn, scene.dbi), 4);
        }
    }
    scene_close(&scene);
}

TEST(refused_put_leaves_the_large_value)
{
    struct scene scene;
    size_t size = 5 * test_page_size();
    MDB_val key = val_text("00000007"), data = val_text("new");

    scene_open(&scene, 0, 0);
    put_numbers(scene.txn, scene.dbi, 7, 1, size);
    CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, MDB_NOOVERWRITE), MDB_KEYEXIST);
    check_number(scene.txn, scene.dbi, 7, size);
    data = val_text("new");
    CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, MDB_NOOVERWRITE | MDB_RESERVE), MDB_KEYEXIST);
    data = val_text("new");
    CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, MDB_APPEND), MDB_KEYEXIST);
    data = (MDB_val){ (size_t)1 << 32, NULL };
    CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, MDB_RESERVE), MDB_BAD_VALSIZE);
    check_number(scene.txn, scene.dbi, 7, size);
    scene_close(&scene);
}

TEST(reserved_room_can_be_filled_until_the_next_update)
{
    static const unsigned env_flags[] = { 0, MDB_WRITEMAP };
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(env_flags); kind++) {
        struct scene scene;
        size_t size = (size_t)10 << 20, i;
        MDB_val key = val_text("00000007"), data = { size, NULL }, found;

        scene_open(&scene, env_flags[kind] | MDB_NOSYNC, 0);
        put_numbers(scene.txn, scene.dbi, 0, 7, 100);
        CHECK_OK(mdb_put(scene.txn, scene.dbi, &key, &data, MDB_RESERVE));
        for (i = 0; i < size; i += 4096)
            pattern_fill((unsigned char *)data.mv_data + i, 4096, (unsigned)i);
        check_numbers(scene.txn, scene.dbi, 0, 7, 100);
        scene_commit(&scene);
        CHECK_OK(mdb_get(scene.txn, scene.dbi, &key, &found));
        CHECK_EQ(found.mv_size, size);
        for (i = 0; i < size; i += 4096) {
            unsigned char bytes[4096];

            pattern_fill(bytes, sizeof(bytes), (unsigned)i);
            CHECK(memcmp((unsigned char *)found.mv_data + i, bytes, sizeof(bytes)) == 0);
        }
        scene_close(&scene);
    }
}

/* ==== Deleting and reusing =============================================== */

TEST(deleting_large_values_gives_back_exactly_their_pages)
{
    enum { COUNT = 400, ORDERS = 3 };
    int order;

    for (order = 0; order < ORDERS; order++) {
        struct scene scene;
        struct random random = { test_seed() };
        unsigned *shuffled = numbers_shuffled(&random, COUNT), i;
        size_t pages = 0;
        MDB_stat stat;

        scene_open(&scene, MDB_NOSYNC, 0);
        for (i = 0; i < COUNT; i++) {
            put_numbers(scene.txn, scene.dbi, i, 1, 2000 + i * 31 % 9000);
            pages += overflow_pages(2000 + i * 31 % 9000);
        }
        scene_commit(&scene);
        check_overflow(scene.txn, scene.dbi, pages);
        for (i = 0; i < COUNT; i++) {
            unsigned number = order == 0 ? i : order == 1 ? COUNT - 1 - i : shuffled[i];

            CHECK_OK(del_text(scene.txn, scene.dbi, numeral_of(number).text, NULL));
            pages -= overflow_pages(2000 + number * 31 % 9000);
            test_note("order %d, step %u", order, i);
            check_overflow(scene.txn, scene.dbi, pages);
            scene_commit(&scene);
            if (i % 40 == 0) {
                unsigned k;

                for (k = 0; k < COUNT; k++) {
                    if (order == 0 ? k > number : order == 1 && k < number)
                        check_number(scene.txn, scene.dbi, k, 2000 + k * 31 % 9000);
                }
            }
        }
        CHECK_OK(mdb_stat(scene.txn, scene.dbi, &stat));
        CHECK_EQ(stat.ms_depth + stat.ms_entries, 0);
        CHECK_EQ(stat.ms_leaf_pages + stat.ms_branch_pages + stat.ms_overflow_pages, 0);
        free(shuffled);
        scene_close(&scene);
    }
}

TEST(churn_of_large_values_does_not_make_the_file_grow)
{
    static const unsigned env_flags[] = { MDB_NOSYNC, MDB_NOSYNC | MDB_WRITEMAP };
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(env_flags); kind++) {
        struct scene scene;
        struct random random = { test_seed() };
        size_t sizes[50], pages = 0, used = 0;
        MDB_envinfo info;
        unsigned i, round;

        scene_open(&scene, env_flags[kind], 0);
        for (i = 0; i < 50; i++) {
            sizes[i] = (size_t)random_below(&random, 40 * test_page_size());
            put_numbers(scene.txn, scene.dbi, i, 1, sizes[i]);
        }
        scene_commit(&scene);
        for (round = 0; round < 400; round++) {
            i = (unsigned)random_below(&random, 50);
            sizes[i] = (size_t)random_below(&random, 40 * test_page_size());
            put_numbers(scene.txn, scene.dbi, i, 1, sizes[i]);
            if (round % 4 == 3)
                scene_commit(&scene);
            CHECK_OK(mdb_env_info(scene.env, &info));
            if (round == 200)
                pages = info.me_last_pgno;
        }
        for (i = 0; i < 50; i++) {
            check_number(scene.txn, scene.dbi, i, sizes[i]);
            used += overflow_pages(sizes[i]);
        }
        /* Runs of different lengths leave gaps, but not without end. */
        CHECK(info.me_last_pgno < pages + pages / 4);
        CHECK(info.me_last_pgno < 4 * used + 200);
        scene_close(&scene);
    }
}

/* The key of a large value becomes the first of its page, the last, or moves to another page. */
TEST(large_values_stay_with_their_keys_while_pages_split_and_merge)
{
    struct scene scene;
    struct random random = { test_seed() };
    unsigned *order = numbers_shuffled(&random, 1200), i;
    size_t large = 3 * (size_t)test_page_size() + 5;

    scene_open(&scene, MDB_NOSYNC, 0);
    for (i = 0; i < 1200; i++)
        put_numbers(scene.txn, scene.dbi, order[i], 1, order[i] % 6 == 0 ? large : order[i] % 100);
    scene_commit(&scene);
    for (i = 0; i < 1200; i++) {
        if (order[i] % 12 != 0)
            CHECK_OK(del_text(scene.txn, scene.dbi, numeral_of(order[i]).text, NULL));
        if (i % 200 == 0) {
            walk_both(scene.txn, scene.dbi);
            scene_commit(&scene);
        }
    }
    check_overflow(scene.txn, scene.dbi, 100 * overflow_pages(large));
    for (i = 0; i < 1200; i += 12)
        check_number(scene.txn, scene.dbi, i, large);
    free(order);
    scene_close(&scene);
}

TEST(values_of_many_megabytes_are_kept)
{
    static const unsigned env_flags[] = { MDB_NOSYNC, MDB_NOSYNC | MDB_WRITEMAP };
    static const size_t sizes[] = { 1 << 20, (1 << 24) - 1, 50000000, 3 };
    size_t kind;
    unsigned i;

    for (kind = 0; kind < ARRAY_COUNT(env_flags); kind++) {
        struct scene scene;

        scene_open(&scene, env_flags[kind], 0);
        for (i = 0; i < ARRAY_COUNT(sizes); i++)
            put_numbers(scene.txn, scene.dbi, i, 1, sizes[i]);
        scene_commit(&scene);
        for (i = 0; i < ARRAY_COUNT(sizes); i++)
            check_number(scene.txn, scene.dbi, i, sizes[i]);
        /* In reversed sizes, then away. */
        for (i = 0; i < ARRAY_COUNT(sizes); i++)
            put_numbers(scene.txn, scene.dbi, i, 1, sizes[ARRAY_COUNT(sizes) - 1 - i]);
        scene_commit(&scene);
        for (i = 0; i < ARRAY_COUNT(sizes); i++)
            check_number(scene.txn, scene.dbi, i, sizes[ARRAY_COUNT(sizes) - 1 - i]);
        for (i = 0; i < ARRAY_COUNT(sizes); i++)
            CHECK_OK(del_text(scene.txn, scene.dbi, numeral_of(i).text, NULL));
        check_overflow(scene.txn, scene.dbi, 0);
        scene_close(&scene);
    }
}

/* ==== The largest value ================================================== */

TEST(value_of_4_gib_less_one_is_kept)
{
    static const unsigned env_flags[] = { MDB_NOSYNC, MDB_NOSYNC | MDB_WRITEMAP };
    const size_t size = 0xffffffff, map_size = (size_t)5 << 30;
    struct statvfs room;
    size_t kind, i;

    if (test_scale() < 2)
        test_skip("only with MDB_TEST_LONG: it needs 5 GiB of disk and of memory");
    for (kind = 0; kind < ARRAY_COUNT(env_flags); kind++) {
        char *dir = temp_dir_make();
        MDB_env *env;
        MDB_txn *txn;
        MDB_dbi dbi;
        MDB_val key = val_text("largest"), data = { size, NULL };

        CHECK_EQ(statvfs(dir, &room), 0);
        if ((uint64_t)room.f_bavail * room.f_frsize < map_size)
            test_skip("5 GiB of disk are not there");
        env = env_open_new(dir, env_flags[kind], map_size, 0);
        txn = begin_write(env);
        dbi = dbi_of(txn, NULL, 0);
        CHECK_OK(mdb_put(txn, dbi, &key, &data, MDB_RESERVE));
        for (i = 0; i < size; i += 4096)
            memcpy((unsigned char *)data.mv_data + i, &i, i + 8 <= size ? 8 : 1);
        CHECK_OK(mdb_txn_commit(txn));
        mdb_env_close(env);
        run_check_tool(dir);
        env = env_open_again(dir, env_flags[kind], 0, 0);
        txn = begin_write(env);
        CHECK_OK(mdb_get(txn, dbi, &key, &data));
        CHECK_EQ(data.mv_size, size);
        for (i = 0; i + 8 <= size; i += 4096)
            CHECK(memcmp((unsigned char *)data.mv_data + i, &i, 8) == 0);
        CHECK_OK(mdb_del(txn, dbi, &key, NULL));
        CHECK_OK(mdb_txn_commit(txn));
        mdb_env_close(env);
        temp_dir_remove(dir);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(values_of_every_size_around_the_limits_are_kept),
        TEST_ENTRY(values_are_replaced_by_every_other_size),
        TEST_ENTRY(refused_put_leaves_the_large_value),
        TEST_ENTRY(reserved_room_can_be_filled_until_the_next_update),
        TEST_ENTRY(deleting_large_values_gives_back_exactly_their_pages),
        TEST_ENTRY(churn_of_large_values_does_not_make_the_file_grow),
        TEST_ENTRY(large_values_stay_with_their_keys_while_pages_split_and_merge),
        TEST_ENTRY(values_of_many_megabytes_are_kept),
        TEST_ENTRY(value_of_4_gib_less_one_is_kept),
    };

    return test_main(argc, argv, tests, TEST_COUNT(tests));
}
