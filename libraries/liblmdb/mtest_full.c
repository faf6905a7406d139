/* A full map: which call says so, what still works, and how it is enlarged while others read. */
#include "mtest_script.h"

/* A map of so many pages, whatever their size is. */
static size_t map_of(size_t pages)
{
    return pages * (size_t)test_page_size();
}

static const unsigned env_kinds[] = { MDB_NOSYNC, MDB_NOSYNC | MDB_WRITEMAP };

static struct scene small_scene(unsigned env_flags, unsigned db_flags, size_t pages)
{
    struct scene scene = { .dir = temp_dir_make() };

    scene.env = env_open_new(scene.dir, env_flags, map_of(pages), SCENE_DBS);
    scene.txn = begin_write(scene.env);
    scene.dbi = dbi_of(scene.txn, "data", MDB_CREATE | db_flags);
    put_records(scene.txn, scene.dbi, "old=1");
    scene_commit(&scene);
    return scene;
}

/* ==== The call that hits it ============================================== */

enum filler { FILL_SMALL, FILL_LARGE, FILL_RESERVED, FILL_VALUES, FILL_CURSOR, FILL_DATABASES, FILLERS };

/* One call that takes room. */
static int fill_one(struct scene *scene, MDB_cursor *cursor, enum filler filler, unsigned number)
{
    struct numeral numeral = numeral_of(number);
    unsigned char bytes[3000] = { 0 };
    MDB_val key = val_text(numeral.text), data = val_of(bytes, 180), set = val_text("set");
    MDB_dbi dbi;

    switch (filler) {
    case FILL_SMALL:
        return mdb_put(scene->txn, scene->dbi, &key, &data, 0);
    case FILL_LARGE:
        data.mv_size = 3000;
        return mdb_put(scene->txn, scene->dbi, &key, &data, 0);
    case FILL_RESERVED:
        data = (MDB_val){ 5 * test_page_size(), NULL };
        return mdb_put(scene->txn, scene->dbi, &key, &data, MDB_RESERVE);
    case FILL_VALUES:
        memcpy(bytes, numeral.text, 8);
        return mdb_put(scene->txn, scene->dbi, &set, &data, 0);
    case FILL_CURSOR:
        return mdb_cursor_put(cursor, &key, &data, 0);
    default:
        return mdb_dbi_open(scene->txn, numeral.text, MDB_CREATE, &dbi);
    }
}

TEST(map_full_comes_from_the_call_that_hits_it)
{
    size_t kind;
    int filler;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        for (filler = 0; filler < FILL_DATABASES; filler++) {
            struct scene scene = small_scene(env_kinds[kind], filler == FILL_VALUES ? MDB_DUPSORT : 0, 200);
            MDB_cursor *cursor = scene_cursor(&scene);
            unsigned number = 0;
            int rc, round;

            for (round = 0; round < 3; round++) {
                if (round > 0)
                    cursor = scene_cursor(&scene);
                number = 0;
                do
                    rc = fill_one(&scene, cursor, (enum filler)filler, number++);
                while (rc == MDB_SUCCESS && number < 1000000);
                test_note("kind %zu, filler %d, call %u", kind, filler, number);
                CHECK_RC(rc, MDB_MAP_FULL);
                CHECK(number > 10);
                /* Only abort is left. */
                CHECK_RC(fill_one(&scene, cursor, (enum filler)filler, number), MDB_BAD_TXN);
                CHECK_RC(put_text(scene.txn, scene.dbi, "x", "y", 0), MDB_BAD_TXN);
                CHECK_RC(del_text(scene.txn, scene.dbi, "old", NULL), MDB_BAD_TXN);
                if (round % 2 == 0) {
                    mdb_txn_abort(scene.txn);
                } else {
                    CHECK_RC(mdb_txn_commit(scene.txn), MDB_BAD_TXN);
                }
                scene.txn = begin_write(scene.env);
                CHECK_CONTENTS(scene.txn, scene.dbi, "old=1");
                put_records(scene.txn, scene.dbi, "new=2");
                CHECK_OK(del_text(scene.txn, scene.dbi, "new", NULL));
                scene_commit(&scene);
            }
            scene_close(&scene);
        }
    }
}

TEST(handles_made_in_a_transaction_that_ran_full_are_gone)
{
    struct scene scene = small_scene(MDB_NOSYNC, 0, 200);
    MDB_val key = val_text("a"), data;
    MDB_dbi dbi, again;
    unsigned number = 0;
    int rc;

    dbi = dbi_of(scene.txn, "made", MDB_CREATE);
    put_records(scene.txn, dbi, "a=1");
    do
        rc = fill_one(&scene, NULL, FILL_LARGE, number++);
    while (rc == MDB_SUCCESS);
    CHECK_RC(rc, MDB_MAP_FULL);
    CHECK_RC(mdb_txn_commit(scene.txn), MDB_BAD_TXN);
    scene.txn = begin_write(scene.env);
    CHECK_RC(mdb_get(scene.txn, dbi, &key, &data), EINVAL);
    CHECK_RC(mdb_dbi_open(scene.txn, "made", 0, &again), MDB_NOTFOUND);
    CHECK_CONTENTS(scene.txn, scene.dbi, "old=1");
    scene_close(&scene);
}

TEST(tiny_maps_are_full_and_nothing_worse)
{
    size_t pages;

    for (pages = 1; pages < 40; pages++) {
        char *dir = temp_dir_make();
        MDB_env *env = env_open_new(dir, MDB_NOSYNC, map_of(pages), SCENE_DBS);
        unsigned i, kept = 0;

        for (i = 0; i < 60; i++) {
            MDB_txn *txn = begin_write(env);
            MDB_dbi dbi;
            int rc = mdb_dbi_open(txn, NULL, 0, &dbi);

            test_note("%zu pages, step %u", pages, i);
            if (rc == MDB_SUCCESS)
                rc = put_text(txn, dbi, numeral_of(i).text, "some value", 0);
            if (rc == MDB_SUCCESS)
                rc = mdb_txn_commit(txn);
            else
                mdb_txn_abort(txn);
            CHECK(rc == MDB_SUCCESS || rc == MDB_MAP_FULL);
            kept += rc == MDB_SUCCESS;
            txn = begin_read(env);
            CHECK_OK(mdb_dbi_open(txn, NULL, 0, &dbi));
            CHECK_EQ(walk_both(txn, dbi), kept);
            CHECK_OK(mdb_txn_commit(txn));
        }
        /* With a dozen pages there is room for a page and the bookkeeping. */
        CHECK(pages < 12 || kept > 0);
        mdb_env_close(env);
        run_check_tool(dir);
        temp_dir_remove(dir);
    }
}

/* ==== Deleting, dropping and overwriting ================================= */

/* A commit for each call until the map is full; gives how many there are. */
static unsigned fill_by_commits(struct scene *scene, enum filler filler)
{
    unsigned number = 0;

    for (;;) {
        MDB_cursor *cursor = scene_cursor(scene);
        int rc = fill_one(scene, cursor, filler, number);

        if (rc == MDB_SUCCESS)
            rc = mdb_txn_commit(scene->txn);
        else
            mdb_txn_abort(scene->txn);
        scene->txn = begin_write(scene->env);
        if (rc != MDB_SUCCESS) {
            CHECK_RC(rc, MDB_MAP_FULL);
            return number;
        }
        number++;
    }
}

TEST(every_record_can_be_deleted_from_a_full_map)
{
    static const enum filler fillers[] = { FILL_SMALL, FILL_LARGE, FILL_RESERVED, FILL_VALUES };
    size_t kind, i;
    int bulk;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        for (i = 0; i < ARRAY_COUNT(fillers); i++) {
            for (bulk = 0; bulk < 2; bulk++) {
                struct scene scene = small_scene(env_kinds[kind], fillers[i] == FILL_VALUES ? MDB_DUPSORT : 0, 128);
                unsigned count = fill_by_commits(&scene, fillers[i]), number;

                CHECK(count > 4);
                for (number = 0; number < count; number++) {
                    struct numeral numeral = numeral_of(number);
                    unsigned char bytes[180] = { 0 };
                    MDB_val key = val_text(numeral.text), data = val_of(bytes, sizeof(bytes)), set = val_text("set");

                    memcpy(bytes, numeral.text, 8);
                    test_note("kind %zu, filler %zu, bulk %d, delete %u of %u", kind, i, bulk, number, count);
                    if (fillers[i] == FILL_VALUES)
                        CHECK_OK(mdb_del(scene.txn, scene.dbi, &set, &data));
                    else
                        CHECK_OK(mdb_del(scene.txn, scene.dbi, &key, NULL));
                    if (!bulk)
                        scene_commit(&scene);
                }
                scene_commit(&scene);
                CHECK_CONTENTS(scene.txn, scene.dbi, "old=1");
                /* And there is room again. */
                scene_commit(&scene);
                put_records(scene.txn, scene.dbi, "x=1");
                scene_commit(&scene);
                put_records(scene.txn, scene.dbi, "y=1");
                scene_close(&scene);
            }
        }
    }
}

/* What one transaction frees can be used by the next but one; but there must be a next one, though nothing is left that
 * could be deleted. */
TEST(put_works_after_a_full_map_was_emptied_at_once)
{
    static const unsigned value_pages[] = { 0, 3, 7, 20, 40 };
    size_t pages, i;

    for (pages = 24; pages <= 256; pages += pages / 8) {
        for (i = 0; i < ARRAY_COUNT(value_pages); i++) {
            struct scene scene = { .dir = temp_dir_make() };
            size_t size = value_pages[i] == 0 ? 100 : map_of(value_pages[i]);
            unsigned count = 0, number;
            int rc, dropped;

            scene.env = env_open_new(scene.dir, MDB_NOSYNC, map_of(pages), 0);
            for (rc = MDB_SUCCESS; rc == MDB_SUCCESS; count++) {
                struct numeral numeral = numeral_of(count);
                MDB_val key = val_text(numeral.text), data = { size, NULL };

                scene.txn = begin_write(scene.env);
                scene.dbi = dbi_of(scene.txn, NULL, 0);
                rc = mdb_put(scene.txn, scene.dbi, &key, &data, MDB_RESERVE);
                if (rc == MDB_SUCCESS)
                    rc = mdb_txn_commit(scene.txn);
                else
                    mdb_txn_abort(scene.txn);
            }
            CHECK_RC(rc, MDB_MAP_FULL);
            count--;
            dropped = (int)(pages + i) % 2;
            test_note("map of %zu pages, values of %zu bytes, %u records, dropped: %d", pages, size, count, dropped);
            scene.txn = begin_write(scene.env);
            if (dropped)
                CHECK_OK(mdb_drop(scene.txn, scene.dbi, 0));
            for (number = 0; !dropped && number < count; number++)
                CHECK_OK(del_text(scene.txn, scene.dbi, numeral_of(number).text, NULL));
            scene_commit(&scene);
            CHECK_OK(put_text(scene.txn, scene.dbi, "x", "1", 0));
            scene_commit(&scene);
            CHECK_OK(put_text(scene.txn, scene.dbi, "y", "2", 0));
            scene_commit(&scene);
            CHECK_CONTENTS(scene.txn, scene.dbi, "x=1 y=2");
            scene_close(&scene);
        }
    }
}

TEST(databases_are_dropped_from_a_full_map)
{
    size_t kind;
    int del;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        for (del = 0; del < 2; del++) {
            struct scene scene = small_scene(env_kinds[kind], 0, 300);
            MDB_dbi other = dbi_of(scene.txn, "other", MDB_CREATE | MDB_DUPSORT);
            unsigned i, count;

            for (i = 0; i < 300; i++)
                CHECK_OK(put_text(scene.txn, other, numeral_of(i / 30).text, numeral_of(i).text, 0));
            scene_commit(&scene);
            count = fill_by_commits(&scene, FILL_SMALL);
            CHECK(count > 20);
            CHECK_OK(mdb_drop(scene.txn, scene.dbi, del));
            scene_commit(&scene);
            CHECK_EQ(walk_both(scene.txn, other), 300);
            CHECK_OK(mdb_drop(scene.txn, other, del));
            scene_commit(&scene);
            scene.dbi = dbi_of(scene.txn, "data", MDB_CREATE);
            for (i = 0; i < 3; i++) {
                CHECK_OK(put_text(scene.txn, scene.dbi, "0", numeral_of(i).text, 0));
                scene_commit(&scene);
            }
            CHECK(fill_by_commits(&scene, FILL_SMALL) + 40 > count);
            scene_close(&scene);
        }
    }
}

TEST(overwriting_goes_on_for_ever_in_a_map_that_is_half_full)
{
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        struct scene scene = small_scene(env_kinds[kind], 0, 400);
        struct random random = { test_seed() };
        unsigned count = (unsigned)(map_of(400) / 3 / 200), i;

        put_numbers(scene.txn, scene.dbi, 0, count, 150);
        scene_commit(&scene);
        for (i = 0; i < 600; i++) {
            put_numbers(scene.txn, scene.dbi, (unsigned)random_below(&random, count), 1, 150);
            test_note("step %u", i);
            scene_commit(&scene);
        }
        check_numbers(scene.txn, scene.dbi, 0, count, 150);
        scene_close(&scene);
    }
}

TEST(reader_that_holds_pages_fills_the_map_and_frees_it)
{
    struct scene scene = small_scene(MDB_NOSYNC | MDB_NOTLS, 0, 200);
    MDB_txn *reader;
    unsigned i;
    int rc = MDB_SUCCESS;

    put_numbers(scene.txn, scene.dbi, 0, 10, 150);
    scene_commit(&scene);
    reader = begin_read(scene.env);
    for (i = 0; i < 1000 && rc == MDB_SUCCESS; i++) {
        rc = fill_one(&scene, NULL, FILL_SMALL, i % 10);
        if (rc == MDB_SUCCESS)
            rc = mdb_txn_commit(scene.txn);
        else
            mdb_txn_abort(scene.txn);
        scene.txn = begin_write(scene.env);
    }
    CHECK_RC(rc, MDB_MAP_FULL);
    check_numbers(reader, scene.dbi, 0, 10, 150);
    mdb_txn_abort(reader);
    for (i = 0; i < 300; i++) {
        CHECK_OK(fill_one(&scene, NULL, FILL_SMALL, i % 10));
        scene_commit(&scene);
    }
    scene_close(&scene);
}

/* ==== Growing ============================================================ */

/* How many mappings of the data file this process has. */
static unsigned mappings_count(const char *dir)
{
    char line[4096];
    unsigned count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");

    CHECK(maps != NULL);
    while (fgets(line, sizeof(line), maps) != NULL)
        count += strstr(line, dir) != NULL && strstr(line, "data.mdb") != NULL;
    fclose(maps);
    return count;
}

TEST(map_grows_while_readers_keep_the_one_they_began_with)
{
    enum { READERS = 6 };
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        struct scene scene = small_scene(env_kinds[kind] | MDB_NOTLS, 0, 200);
        MDB_txn *readers[READERS];
        MDB_val key = val_text("old"), values[READERS], data;
        unsigned i, k, alone;

        alone = mappings_count(scene.dir);
        for (i = 0; i < READERS; i++) {
            readers[i] = begin_read(scene.env);
            CHECK_OK(mdb_get(readers[i], scene.dbi, &key, &values[i]));
            CHECK_RC(mdb_env_set_mapsize(scene.env, map_of(4000)), EINVAL);
            mdb_txn_abort(scene.txn);
            CHECK_OK(mdb_env_set_mapsize(scene.env, map_of(400 * (i + 1))));
            scene.txn = begin_write(scene.env);
            put_numbers(scene.txn, scene.dbi, 1000 * i, (unsigned)(map_of(100) / 300), 150);
            CHECK_OK(put_text(scene.txn, scene.dbi, "old", numeral_of(i).text, 0));
            scene_commit(&scene);
            for (k = 0; k <= i; k++) {
                CHECK_VAL_TEXT(&values[k], k == 0 ? "1" : numeral_of(k - 1).text);
                CHECK_OK(mdb_get(readers[k], scene.dbi, &key, &data));
                CHECK(data.mv_data == values[k].mv_data);
                walk_both(readers[k], scene.dbi);
            }
        }
        for (i = 0; i < READERS; i++)
            mdb_txn_abort(readers[(i * 5 + 2) % READERS]);
        CHECK_TEXT(get_text(scene.txn, scene.dbi, "old"), numeral_of(READERS - 1).text);
        scene_commit(&scene);
        /* What ended readers left for the next one is given up at the latest when that begins. */
        mdb_txn_abort(begin_read(scene.env));
        CHECK_EQ(mappings_count(scene.dir), alone);
        scene_close(&scene);
    }
}

TEST(fixed_map_grows_at_its_address)
{
    struct scene scene = small_scene(MDB_NOSYNC | MDB_FIXEDMAP, 0, 300);
    MDB_envinfo before, after;
    unsigned i;

    put_numbers(scene.txn, scene.dbi, 0, 50, 100);
    CHECK_OK(mdb_txn_commit(scene.txn));
    CHECK_OK(mdb_env_info(scene.env, &before));
    for (i = 1; i < 4; i++) {
        int rc = mdb_env_set_mapsize(scene.env, map_of(300 * (i + 1)));

        /* The addresses behind may be taken: then all stays as it was. */
        CHECK(rc == MDB_SUCCESS || rc == EBUSY || rc == ENOMEM);
        CHECK_OK(mdb_env_info(scene.env, &after));
        CHECK(after.me_mapaddr == before.me_mapaddr);
        CHECK_EQ(after.me_mapsize, rc == MDB_SUCCESS ? map_of(300 * (i + 1)) : before.me_mapsize);
        before = after;
        scene.txn = begin_write(scene.env);
        check_numbers(scene.txn, scene.dbi, 0, 50 * i, 100);
        put_numbers(scene.txn, scene.dbi, 50 * i, 50, 100);
        CHECK_OK(mdb_txn_commit(scene.txn));
    }
    scene.txn = begin_write(scene.env);
    check_numbers(scene.txn, scene.dbi, 0, 200, 100);
    scene_close(&scene);
}

TEST(map_is_grown_again_and_again_within_one_task)
{
    struct scene scene = small_scene(MDB_NOSYNC, 0, 64);
    size_t pages = 64;
    unsigned done = 0, grown = 0;

    /* As programs do: abort, ten times the map, the whole again. */
    while (done < 20000) {
        int rc = MDB_SUCCESS;

        for (done = 0; done < 20000 && rc == MDB_SUCCESS; done++)
            rc = fill_one(&scene, NULL, FILL_SMALL, done);
        if (rc == MDB_SUCCESS)
            rc = mdb_txn_commit(scene.txn);
        else
            mdb_txn_abort(scene.txn);
        if (rc == MDB_MAP_FULL) {
            done = 0;
            pages *= 10;
            grown++;
            CHECK_OK(mdb_env_set_mapsize(scene.env, map_of(pages)));
        } else {
            CHECK_OK(rc);
        }
        scene.txn = begin_write(scene.env);
    }
    CHECK(grown >= (test_page_size() > 4096 ? 1 : 2));
    CHECK_EQ(walk_both(scene.txn, scene.dbi), 20001);
    scene_close(&scene);
}

TEST(map_does_not_shrink_below_what_is_in_use)
{
    struct scene scene = small_scene(MDB_NOSYNC, 0, 1000);
    MDB_envinfo info;

    put_numbers(scene.txn, scene.dbi, 0, 1000, 150);
    scene_commit(&scene);
    mdb_txn_abort(scene.txn);
    CHECK_OK(mdb_env_set_mapsize(scene.env, map_of(1)));
    CHECK_OK(mdb_env_info(scene.env, &info));
    CHECK(info.me_mapsize >= (info.me_last_pgno + 1) * test_page_size());
    CHECK(info.me_mapsize < map_of(1000) || test_page_size() < 4096);
    scene.txn = begin_write(scene.env);
    check_numbers(scene.txn, scene.dbi, 0, 1000, 150);
    mdb_txn_abort(scene.txn);
    /* Back to what the file says: the largest so far. */
    CHECK_OK(mdb_env_set_mapsize(scene.env, 0));
    CHECK_OK(mdb_env_info(scene.env, &info));
    CHECK(info.me_mapsize >= map_of(1000));
    scene.txn = begin_write(scene.env);
    put_numbers(scene.txn, scene.dbi, 1000, 500, 150);
    scene_close(&scene);
}

static void grow_by_another(struct parent *parent, const char *path)
{
    unsigned round;

    for (round = 0; round < 5; round++) {
        MDB_env *env;
        MDB_txn *txn;
        MDB_dbi dbi;

        PARENT_WAIT(parent, 'g');
        env = env_open_again(path, MDB_NOSYNC, map_of(1200 * (round + 1)), SCENE_DBS);
        txn = begin_write(env);
        dbi = dbi_of(txn, "data", 0);
        put_numbers(txn, dbi, 10000 + round, 1, map_of(1100));
        CHECK_OK(mdb_txn_commit(txn));
        mdb_env_close(env);
        PARENT_SEND(parent, 'd');
    }
}

TEST(growth_by_another_process_is_reported_each_time)
{
    char *dir = temp_dir_make();
    struct child child = child_start(grow_by_another, dir);
    MDB_env *env = env_open_new(dir, MDB_NOSYNC | MDB_NOTLS, map_of(200), SCENE_DBS);
    MDB_txn *txn = begin_write(env), *readers[5], *parked;
    MDB_dbi dbi = dbi_of(txn, "data", MDB_CREATE);
    unsigned round, k;

    CHECK_OK(mdb_txn_commit(txn));
    parked = begin_read(env);
    mdb_txn_reset(parked);
    for (round = 0; round < 5; round++) {
        readers[round] = begin_read(env);
        CHECK_EQ(walk_both(readers[round], dbi), round);
        CHILD_SEND(&child, 'g');
        CHILD_WAIT(&child, 'd');
        test_note("round %u", round);
        CHECK_RC(mdb_txn_begin(env, NULL, 0, &txn), MDB_MAP_RESIZED);
        CHECK_RC(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), MDB_MAP_RESIZED);
        CHECK_RC(mdb_txn_renew(parked), MDB_MAP_RESIZED);
        /* What was refused holds no slot. */
        for (k = 0; k < 130; k++)
            CHECK_RC(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), MDB_MAP_RESIZED);
        CHECK_OK(mdb_env_set_mapsize(env, 0));
        CHECK_OK(mdb_txn_renew(parked));
        CHECK_EQ(walk_both(parked, dbi), round + 1);
        mdb_txn_reset(parked);
        for (k = 0; k <= round; k++)
            CHECK_EQ(walk_both(readers[k], dbi), k);
    }
    for (k = 0; k < 5; k++)
        mdb_txn_abort(readers[k]);
    mdb_txn_abort(parked);
    child_finish(&child);
    mdb_env_close(env);
    run_check_tool(dir);
    temp_dir_remove(dir);
}

TEST(map_size_beyond_all_addresses_is_refused_and_the_old_one_stays)
{
    struct scene scene = small_scene(MDB_NOSYNC, 0, 300);

    mdb_txn_abort(scene.txn);
    CHECK_RC(mdb_env_set_mapsize(scene.env, (size_t)1 << 60), ENOMEM);
    scene.txn = begin_write(scene.env);
    CHECK_CONTENTS(scene.txn, scene.dbi, "old=1");
    put_records(scene.txn, scene.dbi, "new=2");
    scene_commit(&scene);
    CHECK_CONTENTS(scene.txn, scene.dbi, "new=2 old=1");
    scene_close(&scene);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(map_full_comes_from_the_call_that_hits_it),
        TEST_ENTRY(handles_made_in_a_transaction_that_ran_full_are_gone),
        TEST_ENTRY(tiny_maps_are_full_and_nothing_worse),
        TEST_ENTRY(every_record_can_be_deleted_from_a_full_map),
        TEST_ENTRY(put_works_after_a_full_map_was_emptied_at_once),
        TEST_ENTRY(databases_are_dropped_from_a_full_map),
        TEST_ENTRY(overwriting_goes_on_for_ever_in_a_map_that_is_half_full),
        TEST_ENTRY(reader_that_holds_pages_fills_the_map_and_frees_it),
        TEST_ENTRY(map_grows_while_readers_keep_the_one_they_began_with),
        TEST_ENTRY(fixed_map_grows_at_its_address),
        TEST_ENTRY(map_is_grown_again_and_again_within_one_task),
        TEST_ENTRY(map_does_not_shrink_below_what_is_in_use),
        TEST_ENTRY(growth_by_another_process_is_reported_each_time),
        TEST_ENTRY(map_size_beyond_all_addresses_is_refused_and_the_old_one_stays),
    };

    return test_main(argc, argv, tests, TEST_COUNT(tests));
}
