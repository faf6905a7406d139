/* Nested transactions: what commits and what aborts at any depth, with databases, cursors, large values, and a writable
 * map. */
#include "mtest_common.h"

enum { DEPTH = 8 };

static const unsigned env_kinds[] = { MDB_NOSYNC, MDB_NOSYNC | MDB_WRITEMAP };

/* ==== All patterns of commit and abort =================================== */

/* What the levels leave, by number of the record: 0 is none, else who put it (level + 1). */
struct pattern_model {
    unsigned char shared, own[DEPTH], victim[DEPTH];
};

static void pattern_level_run(MDB_txn *txn, MDB_dbi dbi, unsigned level, struct pattern_model *model)
{
    char key[16], value[16];

    snprintf(value, sizeof(value), "%u", level + 1);
    CHECK_OK(put_text(txn, dbi, "shared", value, 0));
    model->shared = (unsigned char)(level + 1);
    snprintf(key, sizeof(key), "own%u", level);
    CHECK_OK(put_text(txn, dbi, key, value, 0));
    model->own[level] = (unsigned char)(level + 1);
    snprintf(key, sizeof(key), "victim%u", level);
    CHECK_OK(del_text(txn, dbi, key, NULL));
    model->victim[level] = 0;
}

static void pattern_check_one(MDB_txn *txn, MDB_dbi dbi, const char *key, unsigned char level)
{
    char value[16];

    snprintf(value, sizeof(value), "%u", level);
    CHECK_TEXT(get_text(txn, dbi, key), level == 0 ? "NOTFOUND" : level == 0xff ? "old" : value);
}

static void pattern_check(MDB_txn *txn, MDB_dbi dbi, const struct pattern_model *model)
{
    char key[16];
    unsigned i;

    pattern_check_one(txn, dbi, "shared", model->shared);
    for (i = 0; i < DEPTH; i++) {
        snprintf(key, sizeof(key), "own%u", i);
        pattern_check_one(txn, dbi, key, model->own[i]);
        snprintf(key, sizeof(key), "victim%u", i);
        pattern_check_one(txn, dbi, key, model->victim[i]);
    }
    walk_both(txn, dbi);
}

/* Opens all levels, then ends them from the innermost on: level i commits if bit i is set. */
static void pattern_run(MDB_env *env, MDB_txn *outer, MDB_dbi dbi, unsigned commits, struct pattern_model *model)
{
    struct pattern_model before[DEPTH];
    MDB_txn *txns[DEPTH];
    unsigned i;

    for (i = 0; i < DEPTH; i++) {
        before[i] = *model;
        txns[i] = begin_nested(env, i == 0 ? outer : txns[i - 1]);
        pattern_level_run(txns[i], dbi, i, model);
        pattern_check(txns[i], dbi, model);
    }
    for (i = DEPTH; i-- > 0;) {
        if (commits >> i & 1) {
            CHECK_OK(mdb_txn_commit(txns[i]));
        } else {
            mdb_txn_abort(txns[i]);
            *model = before[i];
        }
        pattern_check(i == 0 ? outer : txns[i - 1], dbi, model);
    }
}

TEST(eight_levels_commit_and_abort_in_every_pattern)
{
    size_t kind;
    unsigned commits;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        for (commits = 0; commits < 1u << DEPTH; commits += 1 + commits % 3) {
            struct pattern_model model;
            struct scene scene;
            char key[16];
            unsigned i;

            memset(&model, 0, sizeof(model));
            memset(model.victim, 0xff, sizeof(model.victim));
            scene_open(&scene, env_kinds[kind], 0);
            for (i = 0; i < DEPTH; i++) {
                snprintf(key, sizeof(key), "victim%u", i);
                CHECK_OK(put_text(scene.txn, scene.dbi, key, "old", 0));
            }
            test_note("kind %zu, pattern %#x", kind, commits);
            pattern_run(scene.env, scene.txn, scene.dbi, commits, &model);
            scene_commit(&scene);
            pattern_check(scene.txn, scene.dbi, &model);
            scene_close(&scene);
        }
    }
}

/* ==== Abort restores everything ==========================================
 * Random changes to three databases; a picture of all three before, and after. */

enum { PICTURED = 3, PICTURE_KEYS = 400 };

struct pictured {
    struct scene scene;
    MDB_dbi dbis[PICTURED];     /* plain, with duplicates, with fixed duplicates */
};

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *byte = bytes;
    size_t i;

    for (i = 0; i < size; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* A number for all that a transaction shows: statistics, and every record of each database. */
static uint64_t picture_take(const struct pictured *pictured, MDB_txn *txn)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    unsigned i;

    for (i = 0; i < PICTURED; i++) {
        MDB_cursor *cursor;
        MDB_val key, data;
        MDB_stat stat;

        CHECK_OK(mdb_stat(txn, pictured->dbis[i], &stat));
        hash = hash_bytes(hash, &stat, sizeof(stat));
        CHECK_OK(mdb_cursor_open(txn, pictured->dbis[i], &cursor));
        while (mdb_cursor_get(cursor, &key, &data, MDB_NEXT) == MDB_SUCCESS) {
            hash = hash_bytes(hash, key.mv_data, key.mv_size);
            hash = hash_bytes(hash, data.mv_data, data.mv_size);
        }
        mdb_cursor_close(cursor);
        walk_both(txn, pictured->dbis[i]);
    }
    return hash;
}

static void picture_change_one(const struct pictured *pictured, MDB_txn *txn, struct random *random)
{
    unsigned char bytes[12000];
    struct numeral numeral = numeral_of((unsigned)random_below(random, PICTURE_KEYS));
    unsigned which = (unsigned)random_below(random, PICTURED);
    MDB_val key = val_text(numeral.text), data;
    size_t size_max = which == 0 && random_one_in(random, 6) ? sizeof(bytes) : 150;
    size_t size = which == 2 ? 8 : (size_t)random_below(random, size_max);
    int rc;

    pattern_fill(bytes, size, (unsigned)random_next(random));
    data = val_of(bytes, size);
    if (which > 0 && random_one_in(random, 2)) {
        /* Few keys with many values. */
        numeral = numeral_of((unsigned)random_below(random, 4));
        key = val_text(numeral.text);
    }
    if (random_one_in(random, 3)) {
        rc = mdb_del(txn, pictured->dbis[which], &key, NULL);
        CHECK(rc == MDB_SUCCESS || rc == MDB_NOTFOUND);
    } else if (random_one_in(random, 300)) {
        CHECK_OK(mdb_drop(txn, pictured->dbis[which], 0));
    } else {
        CHECK_OK(mdb_put(txn, pictured->dbis[which], &key, &data, 0));
    }
}

/* Changes, and now and then a nested transaction, which ends in one of the two ways. */
static void picture_change(const struct pictured *pictured, MDB_txn *txn, struct random *random, unsigned depth)
{
    unsigned steps = 5 + (unsigned)random_below(random, 60);

    while (steps-- > 0) {
        if (depth < DEPTH && random_one_in(random, 12 * (depth + 1))) {
            uint64_t before = picture_take(pictured, txn);
            MDB_txn *child = begin_nested(pictured->scene.env, txn);

            picture_change(pictured, child, random, depth + 1);
            if (random_one_in(random, 2)) {
                uint64_t after = picture_take(pictured, child);

                CHECK_OK(mdb_txn_commit(child));
                CHECK_EQ(picture_take(pictured, txn), after);
            } else {
                mdb_txn_abort(child);
                CHECK_EQ(picture_take(pictured, txn), before);
            }
        } else {
            picture_change_one(pictured, txn, random);
        }
    }
}

static void pictured_open(struct pictured *pictured, unsigned env_flags)
{
    scene_open(&pictured->scene, env_flags, 0);
    pictured->dbis[0] = pictured->scene.dbi;
    pictured->dbis[1] = dbi_of(pictured->scene.txn, "dup", MDB_CREATE | MDB_DUPSORT);
    pictured->dbis[2] = dbi_of(pictured->scene.txn, "fixed", MDB_CREATE | MDB_DUPSORT | MDB_DUPFIXED);
}

TEST(abort_restores_every_record_and_every_count)
{
    size_t kind;
    unsigned run, runs = 6 * test_scale(), commits;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        for (run = 0; run < runs; run++) {
            struct pictured pictured;
            struct random random = { test_seed() * 1000 + run };

            pictured_open(&pictured, env_kinds[kind]);
            for (commits = 0; commits < 6; commits++) {
                uint64_t before = picture_take(&pictured, pictured.scene.txn), after;

                test_note("kind %zu, run %u, commit %u", kind, run, commits);
                picture_change(&pictured, pictured.scene.txn, &random, 0);
                after = picture_take(&pictured, pictured.scene.txn);
                if (commits % 3 == 2) {
                    scene_abort(&pictured.scene);
                    CHECK_EQ(picture_take(&pictured, pictured.scene.txn), before);
                } else {
                    scene_commit(&pictured.scene);
                    CHECK_EQ(picture_take(&pictured, pictured.scene.txn), after);
                }
            }
            scene_close(&pictured.scene);
        }
    }
}

TEST(aborted_children_leave_no_pages_behind)
{
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        struct pictured pictured;
        MDB_envinfo info;
        size_t pages = 0;
        unsigned round, i;

        pictured_open(&pictured, env_kinds[kind]);
        put_numbers(pictured.scene.txn, pictured.dbis[0], 0, 100, 500);
        scene_commit(&pictured.scene);
        for (round = 0; round < 30; round++) {
            for (i = 0; i < 5; i++) {
                MDB_txn *child = begin_nested(pictured.scene.env, pictured.scene.txn);

                put_numbers(child, pictured.dbis[0], 0, 300, 800);
                put_numbers(child, pictured.dbis[0], 1000, 4, 60000);
                mdb_txn_abort(child);
            }
            put_numbers(pictured.scene.txn, pictured.dbis[0], round, 1, 400);
            scene_commit(&pictured.scene);
            CHECK_OK(mdb_env_info(pictured.scene.env, &info));
            if (round == 10)
                pages = info.me_last_pgno;
            CHECK(round <= 10 || info.me_last_pgno <= pages + 5);
        }
        scene_close(&pictured.scene);
    }
}

/* ==== Databases ========================================================== */

TEST(database_created_in_a_child_is_its_parents_after_commit)
{
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        struct scene scene;
        MDB_txn *child, *grandchild;
        MDB_dbi dbi;

        scene_open(&scene, env_kinds[kind], 0);
        child = begin_nested(scene.env, scene.txn);
        grandchild = begin_nested(scene.env, child);
        dbi = dbi_of(grandchild, "created", MDB_CREATE | MDB_DUPSORT);
        put_records(grandchild, dbi, "a=1 a=2");
        CHECK_OK(mdb_txn_commit(grandchild));
        CHECK_CONTENTS(child, dbi, "a=1 a=2");
        put_records(child, dbi, "b=3");
        CHECK_OK(mdb_txn_commit(child));
        CHECK_CONTENTS(scene.txn, dbi, "a=1 a=2 b=3");
        scene_commit(&scene);
        CHECK_CONTENTS(scene.txn, dbi, "a=1 a=2 b=3");
        CHECK_EQ(dbi_of(scene.txn, "created", 0), dbi);
        scene_close(&scene);
    }
}

TEST(database_created_in_a_child_is_gone_after_abort)
{
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        struct scene scene;
        MDB_txn *child, *grandchild;
        MDB_val key = val_text("a"), data;
        MDB_dbi dbi, other;

        scene_open(&scene, env_kinds[kind], 0);
        child = begin_nested(scene.env, scene.txn);
        dbi = dbi_of(child, "created", MDB_CREATE);
        put_numbers(child, dbi, 0, 200, 100);
        mdb_txn_abort(child);
        CHECK_RC(mdb_get(scene.txn, dbi, &key, &data), EINVAL);
        CHECK_RC(mdb_dbi_open(scene.txn, "created", 0, &other), MDB_NOTFOUND);
        /* Another one, perhaps with the same handle. */
        other = dbi_of(scene.txn, "other", MDB_CREATE | MDB_DUPSORT);
        put_records(scene.txn, other, "x=1 x=2");
        CHECK_CONTENTS(scene.txn, other, "x=1 x=2");

        /* Committed by a grandchild, aborted by the child. */
        child = begin_nested(scene.env, scene.txn);
        grandchild = begin_nested(scene.env, child);
        dbi = dbi_of(grandchild, "created", MDB_CREATE);
        put_records(grandchild, dbi, "a=1");
        CHECK_OK(mdb_txn_commit(grandchild));
        CHECK_CONTENTS(child, dbi, "a=1");
        mdb_txn_abort(child);
        CHECK_RC(mdb_dbi_open(scene.txn, "created", 0, &dbi), MDB_NOTFOUND);
        CHECK_CONTENTS(scene.txn, other, "x=1 x=2");
        scene_close(&scene);
    }
}

TEST(database_dropped_in_a_child_is_there_again_after_abort)
{
    size_t kind;
    int del;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        for (del = 0; del < 2; del++) {
            struct scene scene;
            MDB_txn *child;
            MDB_dbi dbi;
            unsigned committed;

            for (committed = 0; committed < 2; committed++) {
                scene_open(&scene, env_kinds[kind], 0);
                put_numbers(scene.txn, scene.dbi, 0, 300, 100);
                put_numbers(scene.txn, scene.dbi, 300, 3, 40000);
                if (committed)
                    scene_commit(&scene);
                child = begin_nested(scene.env, scene.txn);
                CHECK_OK(mdb_drop(child, scene.dbi, del));
                if (del) {
                    CHECK_RC(mdb_dbi_open(child, "data", 0, &dbi), MDB_NOTFOUND);
                } else {
                    CHECK_CONTENTS(child, scene.dbi, "");
                    put_records(child, scene.dbi, "new=1");
                }
                mdb_txn_abort(child);
                scene.dbi = dbi_of(scene.txn, "data", 0);
                check_numbers(scene.txn, scene.dbi, 0, 300, 100);
                check_numbers(scene.txn, scene.dbi, 300, 3, 40000);
                CHECK_EQ(walk_both(scene.txn, scene.dbi), 303);
                put_numbers(scene.txn, scene.dbi, 400, 1, 100);
                scene_commit(&scene);
                CHECK_EQ(walk_both(scene.txn, scene.dbi), 304);
                scene_close(&scene);
            }
        }
    }
}

TEST(database_dropped_in_a_child_is_gone_after_commit)
{
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        struct scene scene;
        MDB_txn *child;
        MDB_val key = val_text("a"), data;
        MDB_dbi dbi;

        scene_open(&scene, env_kinds[kind], 0);
        put_numbers(scene.txn, scene.dbi, 0, 300, 100);
        scene_commit(&scene);
        child = begin_nested(scene.env, scene.txn);
        CHECK_OK(mdb_drop(child, scene.dbi, 1));
        CHECK_OK(mdb_txn_commit(child));
        CHECK(mdb_get(scene.txn, scene.dbi, &key, &data) != MDB_SUCCESS);
        CHECK_RC(mdb_dbi_open(scene.txn, "data", 0, &dbi), MDB_NOTFOUND);
        dbi = dbi_of(scene.txn, "data", MDB_CREATE | MDB_DUPSORT);
        put_records(scene.txn, dbi, "a=1 a=2");
        scene_commit(&scene);
        CHECK_CONTENTS(scene.txn, dbi, "a=1 a=2");
        scene_close(&scene);
    }
}

TEST(database_created_and_dropped_at_several_levels)
{
    struct scene scene;
    MDB_txn *child, *grandchild;
    MDB_dbi dbi, again;

    scene_open(&scene, 0, 0);
    dbi = dbi_of(scene.txn, "cycled", MDB_CREATE);
    put_records(scene.txn, dbi, "level=0");
    child = begin_nested(scene.env, scene.txn);
    CHECK_OK(mdb_drop(child, dbi, 1));
    grandchild = begin_nested(scene.env, child);
    again = dbi_of(grandchild, "cycled", MDB_CREATE | MDB_DUPSORT);
    put_records(grandchild, again, "level=2 level=3");
    CHECK_CONTENTS(grandchild, again, "level=2 level=3");
    mdb_txn_abort(grandchild);
    CHECK_RC(mdb_dbi_open(child, "cycled", 0, &again), MDB_NOTFOUND);
    grandchild = begin_nested(scene.env, child);
    again = dbi_of(grandchild, "cycled", MDB_CREATE);
    put_records(grandchild, again, "level=2");
    CHECK_OK(mdb_txn_commit(grandchild));
    CHECK_CONTENTS(child, again, "level=2");
    mdb_txn_abort(child);
    dbi = dbi_of(scene.txn, "cycled", 0);
    CHECK_CONTENTS(scene.txn, dbi, "level=0");
    scene_commit(&scene);
    CHECK_CONTENTS(scene.txn, dbi, "level=0");
    scene_close(&scene);
}

TEST(many_databases_are_changed_by_children)
{
    enum { MANY = 60 };
    char *dir = temp_dir_make();
    MDB_env *env = env_open_new(dir, MDB_NOSYNC, SCENE_MAP_SIZE, MANY);
    MDB_txn *txn = begin_write(env), *child;
    MDB_dbi dbis[MANY];
    unsigned i, round;

    for (i = 0; i < MANY; i++) {
        dbis[i] = dbi_of(txn, numeral_of(i).text, MDB_CREATE);
        put_numbers(txn, dbis[i], 0, 5, 20);
    }
    for (round = 1; round < 8; round++) {
        child = begin_nested(env, txn);
        for (i = round; i < MANY; i += round + 1)
            put_numbers(child, dbis[i], round * 10, 3, 100);
        if (round % 2 == 0)
            mdb_txn_abort(child);
        else
            CHECK_OK(mdb_txn_commit(child));
        for (i = 0; i < MANY; i++) {
            unsigned expected = 5, past;

            for (past = 1; past <= round; past++)
                expected += past % 2 == 1 && i >= past && (i - past) % (past + 1) == 0 ? 3 : 0;
            CHECK_EQ(entries_count(txn, dbis[i]), expected);
        }
    }
    CHECK_OK(mdb_txn_commit(txn));
    mdb_env_close(env);
    run_check_tool(dir);
    temp_dir_remove(dir);
}

/* ==== Cursors of the parent ============================================== */

TEST(cursors_of_the_parent_stand_where_they_stood_after_abort)
{
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        struct scene scene;
        MDB_cursor *on_b, *on_dup, *nowhere, *of_child;
        MDB_txn *child;

        scene_open(&scene, env_kinds[kind], MDB_DUPSORT);
        put_records(scene.txn, scene.dbi, "a=1 b=1 b=2 b=3 c=1");
        on_b = scene_cursor(&scene);
        on_dup = scene_cursor(&scene);
        nowhere = scene_cursor(&scene);
        CHECK_SEEK(on_b, MDB_GET_BOTH, "b", "1", "b=1");
        CHECK_SEEK(on_dup, MDB_GET_BOTH, "b", "2", "b=2");
        child = begin_nested(scene.env, scene.txn);
        CHECK_OK(mdb_cursor_open(child, scene.dbi, &of_child));
        CHECK_SEEK(of_child, MDB_SET_KEY, "b", "", "b=1");
        CHECK_OK(mdb_cursor_del(of_child, MDB_NODUPDATA));
        put_records(child, scene.dbi, "aa=1 ab=2 bb=5");
        mdb_txn_abort(child);
        CHECK_AT(on_b, MDB_GET_CURRENT, "b=1");
        CHECK_AT(on_b, MDB_NEXT, "b=2");
        CHECK_AT(on_dup, MDB_GET_CURRENT, "b=2");
        CHECK_AT(on_dup, MDB_PREV, "b=1");
        CHECK_AT(nowhere, MDB_GET_CURRENT, "EINVAL");
        CHECK_AT(nowhere, MDB_NEXT, "a=1");
        CHECK_CONTENTS(scene.txn, scene.dbi, "a=1 b=1 b=2 b=3 c=1");
        scene_close(&scene);
    }
}

TEST(cursors_of_the_parent_follow_what_a_child_commits)
{
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        struct scene scene;
        MDB_cursor *on_b, *on_c, *mine;
        MDB_txn *child, *grandchild;
        unsigned i;

        scene_open(&scene, env_kinds[kind], MDB_DUPSORT);
        put_records(scene.txn, scene.dbi, "a=1 b=1 b=2 b=3 c=1 d=1");
        scene_commit(&scene);
        on_b = scene_cursor(&scene);
        on_c = scene_cursor(&scene);
        CHECK_SEEK(on_b, MDB_GET_BOTH, "b", "2", "b=2");
        CHECK_SEEK(on_c, MDB_SET_KEY, "c", "", "c=1");
        child = begin_nested(scene.env, scene.txn);
        put_records(child, scene.dbi, "aa=1 b=15 b=25");
        grandchild = begin_nested(scene.env, child);
        for (i = 0; i < 500; i++)
            CHECK_OK(put_text(grandchild, scene.dbi, "bb", numeral_of(i).text, 0));
        CHECK_OK(mdb_cursor_open(grandchild, scene.dbi, &mine));
        CHECK_SEEK(mine, MDB_SET_KEY, "c", "", "c=1");
        CHECK_OK(mdb_cursor_del(mine, 0));
        CHECK_OK(mdb_txn_commit(grandchild));
        CHECK_OK(mdb_txn_commit(child));
        CHECK_AT(on_b, MDB_GET_CURRENT, "b=2");
        CHECK_AT(on_b, MDB_NEXT, "b=25");
        CHECK_AT(on_c, MDB_NEXT, "d=1");
        CHECK_AT(on_c, MDB_PREV, "bb=00000499");
        scene_close(&scene);
    }
}

TEST(cursors_of_the_parent_survive_a_drop_by_a_child)
{
    struct scene scene;
    MDB_cursor *cursor;
    MDB_txn *child;

    scene_open(&scene, 0, 0);
    put_numbers(scene.txn, scene.dbi, 0, 400, 50);
    cursor = scene_cursor(&scene);
    CHECK_OK(mdb_cursor_get(cursor, NULL, NULL, MDB_LAST));
    child = begin_nested(scene.env, scene.txn);
    CHECK_OK(mdb_drop(child, scene.dbi, 0));
    mdb_txn_abort(child);
    {
        MDB_val key, data;

        CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
        CHECK_VAL_TEXT(&key, numeral_of(399).text);
        CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_PREV));
        CHECK_VAL_TEXT(&key, numeral_of(398).text);
    }
    child = begin_nested(scene.env, scene.txn);
    CHECK_OK(mdb_drop(child, scene.dbi, 0));
    put_records(child, scene.dbi, "a=1");
    CHECK_OK(mdb_txn_commit(child));
    CHECK_AT(cursor, MDB_FIRST, "a=1");
    CHECK_AT(cursor, MDB_NEXT, "NOTFOUND");
    scene_close(&scene);
}

TEST(cursors_of_a_child_end_with_it)
{
    struct scene scene;
    unsigned i, k;

    scene_open(&scene, 0, MDB_DUPSORT);
    put_records(scene.txn, scene.dbi, "a=1 a=2 b=1");
    for (i = 0; i < 20; i++) {
        MDB_txn *child = begin_nested(scene.env, scene.txn);
        MDB_cursor *cursors[5], *of_parent = NULL;

        for (k = 0; k < 5; k++) {
            CHECK_OK(mdb_cursor_open(child, scene.dbi, &cursors[k]));
            CHECK_AT(cursors[k], MDB_LAST, "b=1");
        }
        mdb_cursor_close(cursors[i % 5]);
        if (i % 2 == 0)
            CHECK_OK(mdb_txn_commit(child));
        else
            mdb_txn_abort(child);
        CHECK_OK(mdb_cursor_open(scene.txn, scene.dbi, &of_parent));
        CHECK_AT(of_parent, MDB_FIRST, "a=1");
    }
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1 a=2 b=1");
    scene_close(&scene);
}

/* ==== Large values ======================================================= */

TEST(abort_restores_large_values)
{
    static const size_t sizes[] = { 100, 3000, 9000, 40000, 40001, 0, 200000 };
    size_t kind, from, to;
    int committed;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        for (from = 0; from < ARRAY_COUNT(sizes); from++) {
            for (committed = 0; committed < 2; committed++) {
                struct scene scene;

                scene_open(&scene, env_kinds[kind], 0);
                put_numbers(scene.txn, scene.dbi, 0, 5, sizes[from]);
                if (committed)
                    scene_commit(&scene);
                for (to = 0; to < ARRAY_COUNT(sizes); to++) {
                    MDB_txn *child = begin_nested(scene.env, scene.txn), *grandchild;
                    MDB_val key = val_text("00000003"), data = { sizes[to], NULL };

                    test_note("from %zu to %zu", sizes[from], sizes[to]);
                    put_numbers(child, scene.dbi, 0, 1, sizes[to]);
                    CHECK_OK(del_text(child, scene.dbi, numeral_of(1).text, NULL));
                    grandchild = begin_nested(scene.env, child);
                    put_numbers(grandchild, scene.dbi, 2, 1, sizes[to]);
                    CHECK_OK(mdb_put(grandchild, scene.dbi, &key, &data, MDB_RESERVE));
                    memset(data.mv_data, 'r', sizes[to]);
                    put_numbers(grandchild, scene.dbi, 4, 1, sizes[from]);
                    if (to % 2 == 0)
                        CHECK_OK(mdb_txn_commit(grandchild));
                    else
                        mdb_txn_abort(grandchild);
                    check_number(child, scene.dbi, 0, sizes[to]);
                    check_number(child, scene.dbi, 2, to % 2 == 0 ? sizes[to] : sizes[from]);
                    mdb_txn_abort(child);
                    check_numbers(scene.txn, scene.dbi, 0, 5, sizes[from]);
                }
                scene_close(&scene);
            }
        }
    }
}

/* ==== Failures and misuse ================================================ */

TEST(child_that_runs_out_of_room_fails_alone)
{
    char *dir = temp_dir_make();
    MDB_env *env = env_open_new(dir, MDB_NOSYNC, 200 * (size_t)test_page_size(), 0);
    MDB_txn *txn = begin_write(env), *child;
    MDB_dbi dbi = dbi_of(txn, NULL, 0);
    unsigned char bytes[2000] = { 0 };
    MDB_val data = val_of(bytes, sizeof(bytes));
    int rc = MDB_SUCCESS;
    unsigned i;

    put_numbers(txn, dbi, 0, 10, 50);
    child = begin_nested(env, txn);
    for (i = 100; rc == MDB_SUCCESS; i++) {
        struct numeral numeral = numeral_of(i);
        MDB_val key = val_text(numeral.text);

        rc = mdb_put(child, dbi, &key, &data, 0);
    }
    CHECK_RC(rc, MDB_MAP_FULL);
    CHECK_RC(put_text(child, dbi, "x", "y", 0), MDB_BAD_TXN);
    mdb_txn_abort(child);
    check_numbers(txn, dbi, 0, 10, 50);
    CHECK_EQ(walk_both(txn, dbi), 10);
    put_numbers(txn, dbi, 10, 5, 50);
    child = begin_nested(env, txn);
    put_numbers(child, dbi, 15, 5, 50);
    CHECK_OK(mdb_txn_commit(child));
    CHECK_OK(mdb_txn_commit(txn));
    txn = begin_read(env);
    check_numbers(txn, dbi, 0, 20, 50);
    CHECK_EQ(walk_both(txn, dbi), 20);
    mdb_txn_abort(txn);
    mdb_env_close(env);
    run_check_tool(dir);
    temp_dir_remove(dir);
}

TEST(parent_must_be_a_live_writer_of_the_same_environment)
{
    struct scene scene, other;
    MDB_txn *child = NULL;

    scene_open(&scene, MDB_NOTLS, 0);
    scene_open(&other, 0, 0);
    CHECK_RC(mdb_txn_begin(other.env, scene.txn, 0, &child), EINVAL);
    CHECK(child == NULL);
    child = begin_nested(scene.env, scene.txn);
    mdb_txn_abort(child);
    scene_close(&other);
    scene_close(&scene);
}

TEST(only_the_outermost_commit_is_seen_by_readers)
{
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        struct scene scene;
        MDB_txn *child, *reader;

        scene_open(&scene, env_kinds[kind] | MDB_NOTLS, 0);
        put_records(scene.txn, scene.dbi, "a=1");
        scene_commit(&scene);
        child = begin_nested(scene.env, scene.txn);
        put_records(child, scene.dbi, "b=2");
        CHECK_OK(mdb_txn_commit(child));
        reader = begin_read(scene.env);
        CHECK_CONTENTS(reader, scene.dbi, "a=1");
        mdb_txn_abort(reader);
        scene_commit(&scene);
        reader = begin_read(scene.env);
        CHECK_CONTENTS(reader, scene.dbi, "a=1 b=2");
        mdb_txn_abort(reader);
        scene_close(&scene);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(eight_levels_commit_and_abort_in_every_pattern),
        TEST_ENTRY(abort_restores_every_record_and_every_count),
        TEST_ENTRY(aborted_children_leave_no_pages_behind),
        TEST_ENTRY(database_created_in_a_child_is_its_parents_after_commit),
        TEST_ENTRY(database_created_in_a_child_is_gone_after_abort),
        TEST_ENTRY(database_dropped_in_a_child_is_there_again_after_abort),
        TEST_ENTRY(database_dropped_in_a_child_is_gone_after_commit),
        TEST_ENTRY(database_created_and_dropped_at_several_levels),
        TEST_ENTRY(many_databases_are_changed_by_children),
        TEST_ENTRY(cursors_of_the_parent_stand_where_they_stood_after_abort),
        TEST_ENTRY(cursors_of_the_parent_follow_what_a_child_commits),
        TEST_ENTRY(cursors_of_the_parent_survive_a_drop_by_a_child),
        TEST_ENTRY(cursors_of_a_child_end_with_it),
        TEST_ENTRY(abort_restores_large_values),
        TEST_ENTRY(child_that_runs_out_of_room_fails_alone),
        TEST_ENTRY(parent_must_be_a_live_writer_of_the_same_environment),
        TEST_ENTRY(only_the_outermost_commit_is_seen_by_readers),
    };

    return test_main(argc, argv, tests, TEST_COUNT(tests));
}
