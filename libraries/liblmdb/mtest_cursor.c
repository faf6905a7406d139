/* Cursors: every operation in every state, staying on a record while others change the database, deleting on a walk. */
#include "mtest_script.h"

/* ==== Arguments ========================================================== */

TEST(cursor_calls_refuse_null)
{
    struct scene scene;
    MDB_cursor *cursor;
    MDB_val key = val_text("a"), data = val_text("1");
    mdb_size_t count;

    CHECK(mdb_cursor_txn(NULL) == NULL);
    CHECK_EQ(mdb_cursor_dbi(NULL), 0);
    mdb_cursor_close(NULL);
    CHECK_RC(mdb_cursor_get(NULL, &key, &data, MDB_FIRST), EINVAL);
    CHECK_RC(mdb_cursor_put(NULL, &key, &data, 0), EINVAL);
    CHECK_RC(mdb_cursor_del(NULL, 0), EINVAL);
    CHECK_RC(mdb_cursor_count(NULL, &count), EINVAL);
    scene_open(&scene, 0, MDB_DUPSORT);
    put_records(scene.txn, scene.dbi, "a=1 b=2");
    CHECK_RC(mdb_cursor_open(NULL, scene.dbi, &cursor), EINVAL);
    CHECK_RC(mdb_cursor_open(scene.txn, scene.dbi, NULL), EINVAL);
    cursor = scene_cursor(&scene);
    CHECK_RC(mdb_cursor_renew(NULL, cursor), EINVAL);
    CHECK_RC(mdb_cursor_renew(scene.txn, NULL), EINVAL);
    CHECK_RC(mdb_cursor_get(cursor, NULL, &data, MDB_SET), EINVAL);
    CHECK_RC(mdb_cursor_get(cursor, NULL, &data, MDB_SET_KEY), EINVAL);
    CHECK_RC(mdb_cursor_get(cursor, NULL, &data, MDB_SET_RANGE), EINVAL);
    CHECK_RC(mdb_cursor_get(cursor, NULL, &data, MDB_GET_BOTH), EINVAL);
    CHECK_RC(mdb_cursor_get(cursor, &key, NULL, MDB_GET_BOTH), EINVAL);
    CHECK_RC(mdb_cursor_get(cursor, &key, NULL, MDB_GET_BOTH_RANGE), EINVAL);
    CHECK_RC(mdb_cursor_put(cursor, NULL, &data, 0), EINVAL);
    CHECK_RC(mdb_cursor_put(cursor, &key, NULL, 0), EINVAL);
    CHECK_AT(cursor, MDB_FIRST, "a=1");
    CHECK_RC(mdb_cursor_count(cursor, NULL), EINVAL);
    CHECK_RC(mdb_cursor_put(cursor, NULL, &data, MDB_CURRENT), EINVAL);
    CHECK_AT(cursor, MDB_GET_CURRENT, "a=1");
    scene_close(&scene);
}

TEST(unknown_operations_and_flags_give_einval)
{
    struct scene scene;
    MDB_cursor *cursor;
    MDB_val key = val_text("a"), data = val_text("1");
    int op;
    unsigned bit;

    scene_open(&scene, 0, 0);
    put_records(scene.txn, scene.dbi, "a=1");
    cursor = scene_cursor(&scene);
    CHECK_AT(cursor, MDB_FIRST, "a=1");
    for (op = MDB_PREV_MULTIPLE + 1; op < MDB_PREV_MULTIPLE + 20; op++)
        CHECK_RC(mdb_cursor_get(cursor, &key, &data, (MDB_cursor_op)op), EINVAL);
    for (bit = 1; bit != 0; bit <<= 1) {
        const unsigned known = MDB_NOOVERWRITE | MDB_NODUPDATA | MDB_CURRENT | MDB_RESERVE | MDB_APPEND
                             | MDB_APPENDDUP | MDB_MULTIPLE;

        test_note("flag %#x", bit);
        if ((bit & known) == 0)
            CHECK_RC(cursor_put_text(cursor, "b", "2", bit), EINVAL);
        if (bit != MDB_NODUPDATA)
            CHECK_RC(mdb_cursor_del(cursor, bit), EINVAL);
    }
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1");
    scene_close(&scene);
}

TEST(out_arguments_that_are_not_wanted_may_be_null)
{
    static const MDB_cursor_op ops[] = {
        MDB_FIRST, MDB_LAST, MDB_NEXT, MDB_PREV, MDB_GET_CURRENT, MDB_NEXT_NODUP, MDB_PREV_NODUP, MDB_FIRST_DUP,
        MDB_LAST_DUP, MDB_NEXT_DUP, MDB_PREV_DUP,
    };
    struct scene scene;
    MDB_cursor *cursor;
    MDB_val key = val_text("b"), data;
    size_t i;

    scene_open(&scene, 0, MDB_DUPSORT);
    put_records(scene.txn, scene.dbi, "a=1 b=1 b=2 b=3 c=1");
    cursor = scene_cursor(&scene);
    for (i = 0; i < ARRAY_COUNT(ops); i++) {
        test_note("operation %d", (int)ops[i]);
        CHECK_SEEK(cursor, MDB_GET_BOTH, "b", "2", "b=2");
        CHECK_OK(mdb_cursor_get(cursor, NULL, NULL, ops[i]));
        CHECK_SEEK(cursor, MDB_GET_BOTH, "b", "2", "b=2");
        CHECK_OK(mdb_cursor_get(cursor, &key, NULL, ops[i]));
        CHECK_SEEK(cursor, MDB_GET_BOTH, "b", "2", "b=2");
        CHECK_OK(mdb_cursor_get(cursor, NULL, &data, ops[i]));
    }
    key = val_text("b");
    CHECK_OK(mdb_cursor_get(cursor, &key, NULL, MDB_SET));
    CHECK_AT(cursor, MDB_GET_CURRENT, "b=1");
    CHECK_OK(mdb_cursor_get(cursor, &key, NULL, MDB_SET_KEY));
    CHECK_OK(mdb_cursor_get(cursor, &key, NULL, MDB_SET_RANGE));
    CHECK_AT(cursor, MDB_GET_CURRENT, "b=1");
    scene_close(&scene);
}

TEST(cursor_knows_its_transaction_and_database)
{
    struct scene scene;
    MDB_cursor *cursor;
    MDB_txn *reader;

    scene_open(&scene, MDB_NOTLS, 0);
    scene_commit(&scene);
    cursor = scene_cursor(&scene);
    CHECK(mdb_cursor_txn(cursor) == scene.txn);
    CHECK_EQ(mdb_cursor_dbi(cursor), scene.dbi);
    mdb_cursor_close(cursor);
    reader = begin_read(scene.env);
    CHECK_OK(mdb_cursor_open(reader, 0, &cursor));
    CHECK(mdb_cursor_txn(cursor) == reader);
    CHECK_EQ(mdb_cursor_dbi(cursor), 0);
    mdb_cursor_close(cursor);
    mdb_txn_abort(reader);
    scene_close(&scene);
}

/* ==== Every operation in every state ===================================== */

TEST(cursor_moves_in_an_empty_database)
{
    static const struct script_case cases[] = {
        { 0, "", "FIRST NOTFOUND, LAST NOTFOUND, NEXT NOTFOUND, PREV NOTFOUND", NULL },
        { 0, "", "NEXT NOTFOUND", NULL },
        { 0, "", "PREV NOTFOUND", NULL },
        { 0, "", "SET a NOTFOUND, SET_KEY a NOTFOUND, SET_RANGE a NOTFOUND, NEXT NOTFOUND", NULL },
        { 0, "", "GET_CURRENT EINVAL", NULL },
        { 0, "", "del - EINVAL", NULL },
        { 0, "", "ccurrent a=1 EINVAL", NULL },
        { 0, "", "NEXT_NODUP NOTFOUND, PREV_NODUP NOTFOUND", NULL },
        { MDB_DUPSORT, "", "FIRST NOTFOUND, LAST NOTFOUND, NEXT NOTFOUND, PREV NOTFOUND", NULL },
        { MDB_DUPSORT, "", "NEXT_DUP NOTFOUND, PREV_DUP NOTFOUND, NEXT_NODUP NOTFOUND, PREV_NODUP NOTFOUND", NULL },
        { MDB_DUPSORT, "", "GET_BOTH a 1 NOTFOUND, GET_BOTH_RANGE a 1 NOTFOUND", NULL },
        { MDB_DUPSORT, "", "GET_CURRENT EINVAL, FIRST_DUP EINVAL, LAST_DUP EINVAL, count EINVAL, del - EINVAL", NULL },
        { MDB_DUPSORT | MDB_DUPFIXED, "", "GET_MULTIPLE EINVAL, NEXT_MULTIPLE NOTFOUND, PREV_MULTIPLE NOTFOUND", NULL },
        { 0, "", "FIRST NOTFOUND, put a=1 ok, NEXT a=1", "a=1" },
        { 0, "", "FIRST NOTFOUND, cput a=1 ok, GET_CURRENT a=1, del - ok, FIRST NOTFOUND, NEXT NOTFOUND", "" },
    };

    script_cases_run(cases, ARRAY_COUNT(cases));
}

TEST(cursor_moves_from_nowhere)
{
    static const struct script_case cases[] = {
        { 0, "a=1 b=2 c=3", "FIRST a=1", NULL },
        { 0, "a=1 b=2 c=3", "LAST c=3", NULL },
        { 0, "a=1 b=2 c=3", "NEXT a=1, NEXT b=2", NULL },
        { 0, "a=1 b=2 c=3", "PREV c=3, PREV b=2", NULL },
        { 0, "a=1 b=2 c=3", "NEXT_NODUP a=1, NEXT_NODUP b=2", NULL },
        { 0, "a=1 b=2 c=3", "PREV_NODUP c=3, PREV_NODUP b=2", NULL },
        { 0, "a=1 b=2 c=3", "GET_CURRENT EINVAL, del - EINVAL, ccurrent a=1 EINVAL, NEXT a=1", NULL },
        { MDB_DUPSORT, "a=1 a=2 b=2 b=3", "NEXT a=1, NEXT a=2", NULL },
        { MDB_DUPSORT, "a=1 a=2 b=2 b=3", "PREV b=3, PREV b=2, PREV a=2", NULL },
        { MDB_DUPSORT, "a=1 a=2 b=2 b=3", "NEXT_DUP a=1, NEXT_DUP a=2, NEXT_DUP NOTFOUND", NULL },
        { MDB_DUPSORT, "a=1 a=2 b=2 b=3", "PREV_DUP b=3, PREV_DUP b=2, PREV_DUP NOTFOUND", NULL },
        { MDB_DUPSORT, "a=1 a=2 b=2 b=3", "NEXT_NODUP a=1, NEXT_NODUP b=2, NEXT_NODUP NOTFOUND", NULL },
        { MDB_DUPSORT, "a=1 a=2 b=2 b=3", "PREV_NODUP b=3, PREV_NODUP a=2, PREV_NODUP NOTFOUND", NULL },
        { MDB_DUPSORT, "a=1 a=2 b=2 b=3", "FIRST_DUP EINVAL, LAST_DUP EINVAL, GET_CURRENT EINVAL, count EINVAL", NULL },
        { MDB_DUPSORT, "a=1 a=2 b=2 b=3", "del - EINVAL, delall - EINVAL, ccurrent a=1 EINVAL", NULL },
        { MDB_DUPSORT | MDB_DUPFIXED, "a=1 a=2 b=2 b=3", "GET_MULTIPLE EINVAL, NEXT_MULTIPLE 12", NULL },
    };

    script_cases_run(cases, ARRAY_COUNT(cases));
}

TEST(cursor_moves_between_the_ends)
{
    static const struct script_case cases[] = {
        { 0, "a=1 b=2 c=3", "LAST c=3, NEXT NOTFOUND, GET_CURRENT c=3, NEXT NOTFOUND, PREV b=2, PREV a=1", NULL },
        { 0, "a=1 b=2 c=3", "LAST c=3, NEXT NOTFOUND, NEXT NOTFOUND, NEXT NOTFOUND, PREV b=2, NEXT c=3", NULL },
        { 0, "a=1 b=2 c=3", "FIRST a=1, PREV NOTFOUND, GET_CURRENT a=1, PREV NOTFOUND, NEXT b=2, NEXT c=3", NULL },
        { 0, "a=1", "FIRST a=1, NEXT NOTFOUND, PREV NOTFOUND, GET_CURRENT a=1, NEXT NOTFOUND", NULL },
        { 0, "a=1 b=2", "FIRST a=1, GET_CURRENT a=1, GET_CURRENT a=1, NEXT b=2, LAST b=2, FIRST a=1", NULL },
        { 0, "a=1 b=2", "LAST b=2, NEXT_NODUP NOTFOUND, PREV_NODUP a=1, PREV_NODUP NOTFOUND, NEXT_NODUP b=2", NULL },
        { MDB_DUPSORT, "a=1 a=2 b=3",
          "FIRST a=1, NEXT a=2, NEXT b=3, NEXT NOTFOUND, GET_CURRENT b=3, PREV a=2, PREV a=1, PREV NOTFOUND, NEXT a=2",
          NULL },
        { MDB_DUPSORT, "a=1 b=2 b=3 b=4 c=5",
          "SET b b=2, NEXT_DUP b=3, NEXT_DUP b=4, NEXT_DUP NOTFOUND, GET_CURRENT b=4, PREV_DUP b=3, PREV_DUP b=2, "
          "PREV_DUP NOTFOUND, GET_CURRENT b=2, LAST_DUP b=4, FIRST_DUP b=2, PREV a=1, NEXT b=2, NEXT_NODUP c=5, "
          "PREV_NODUP b=4, PREV_NODUP a=1, PREV_NODUP NOTFOUND, GET_CURRENT a=1", NULL },
        { MDB_DUPSORT, "a=1 b=2 c=3", "SET b b=2, NEXT_DUP NOTFOUND, PREV_DUP NOTFOUND, FIRST_DUP b=2, LAST_DUP b=2, "
          "count 1, NEXT c=3, NEXT_DUP NOTFOUND, PREV b=2", NULL },
        { MDB_DUPSORT, "a=1 a=2 b=3 b=4", "LAST b=4, FIRST a=1, LAST_DUP a=2, NEXT b=3, PREV a=2", NULL },
        { MDB_DUPSORT, "a=1 a=2", "LAST a=2, NEXT NOTFOUND, GET_CURRENT a=2, PREV a=1, PREV NOTFOUND, NEXT a=2", NULL },
    };

    script_cases_run(cases, ARRAY_COUNT(cases));
}

TEST(cursor_searches)
{
    static const struct script_case cases[] = {
        { 0, "b=1 d=2 f=3", "SET b b=1, SET d d=2, SET f f=3, SET a NOTFOUND, SET c NOTFOUND, SET g NOTFOUND", NULL },
        { 0, "b=1 d=2 f=3", "SET_KEY b b=1, SET_KEY f f=3, SET_KEY e NOTFOUND, SET_KEY d d=2, NEXT f=3", NULL },
        { 0, "b=1 d=2 f=3", "SET_RANGE a b=1, SET_RANGE b b=1, SET_RANGE c d=2, SET_RANGE e f=3, SET_RANGE f f=3",
          NULL },
        { 0, "b=1 d=2 f=3", "SET_RANGE d d=2, NEXT f=3, PREV d=2, PREV b=1", NULL },
        { 0, "b=1 d=2 f=3", "SET_RANGE c d=2, PREV b=1", NULL },
        { 0, "b=1 d=2 f=3", "SET_RANGE g NOTFOUND, PREV f=3, PREV d=2", NULL },
        { 0, "b=1 d=2 f=3", "SET_RANGE g NOTFOUND, NEXT NOTFOUND", NULL },
        { 0, "b=1 d=2 f=3", "SET_RANGE g NOTFOUND, GET_CURRENT NOTFOUND, SET_RANGE a b=1", NULL },
        { 0, "b=1 d=2 f=3", "FIRST b=1, SET_RANGE g NOTFOUND, FIRST b=1, LAST f=3, SET_RANGE a b=1", NULL },
        { 0, "b=1 d=2", "SET - BAD_VALSIZE, SET_KEY - BAD_VALSIZE, SET_RANGE - BAD_VALSIZE, FIRST b=1", NULL },
        { 0, "b=1 d=2", "GET_BOTH b 1 INCOMPATIBLE, GET_BOTH_RANGE b 1 INCOMPATIBLE, FIRST b=1", NULL },
        { 0, "b=1 d=2", "FIRST b=1, FIRST_DUP INCOMPATIBLE, LAST_DUP INCOMPATIBLE, count INCOMPATIBLE", NULL },
        { 0, "b=1 d=2",
          "FIRST b=1, GET_MULTIPLE INCOMPATIBLE, NEXT_MULTIPLE INCOMPATIBLE, PREV_MULTIPLE INCOMPATIBLE", NULL },
        { MDB_DUPSORT, "b=1 b=2",
          "FIRST b=1, GET_MULTIPLE INCOMPATIBLE, NEXT_MULTIPLE INCOMPATIBLE, PREV_MULTIPLE INCOMPATIBLE", NULL },
        { MDB_DUPSORT, "b=1 b=2 d=3 d=4", "SET b b=1, LAST_DUP b=2, SET b b=1, SET_KEY d d=3, SET_RANGE c d=3", NULL },
        { MDB_DUPSORT, "b=1 b=2 d=3 d=4", "SET_RANGE e NOTFOUND, PREV d=4, PREV d=3, PREV b=2", NULL },
        { MDB_DUPSORT, "b=1 b=2 d=3 d=4", "SET_RANGE c d=3, PREV b=2, NEXT d=3, NEXT d=4", NULL },
    };

    script_cases_run(cases, ARRAY_COUNT(cases));
}

TEST(cursor_deletes_and_stands_where_the_record_was)
{
    static const struct script_case cases[] = {
        { 0, "a=1 b=2 c=3", "SET b b=2, del - ok, GET_CURRENT c=3", "a=1 c=3" },
        { 0, "a=1 b=2 c=3", "SET b b=2, del - ok, NEXT c=3, NEXT NOTFOUND", "a=1 c=3" },
        { 0, "a=1 b=2 c=3", "SET b b=2, del - ok, PREV a=1, NEXT c=3", "a=1 c=3" },
        { 0, "a=1 b=2 c=3", "FIRST a=1, del - ok, NEXT b=2, NEXT c=3", "b=2 c=3" },
        { 0, "a=1 b=2 c=3", "FIRST a=1, del - ok, PREV NOTFOUND", "b=2 c=3" },
        { 0, "a=1 b=2 c=3", "LAST c=3, del - ok, NEXT NOTFOUND", "a=1 b=2" },
        { 0, "a=1 b=2 c=3", "LAST c=3, del - ok, PREV b=2, PREV a=1", "a=1 b=2" },
        { 0, "a=1 b=2 c=3", "LAST c=3, del - ok, GET_CURRENT NOTFOUND", "a=1 b=2" },
        { 0, "a=1 b=2 c=3", "LAST c=3, del - ok, del - NOTFOUND", "a=1 b=2" },
        { 0, "a=1 b=2 c=3", "LAST c=3, del - ok, put d=4 ok, NEXT d=4", "a=1 b=2 d=4" },
        { 0, "a=1 b=2 c=3", "FIRST a=1, del - ok, del - ok, del - ok, del - error, NEXT NOTFOUND, FIRST NOTFOUND", "" },
        { 0, "a=1 b=2 c=3", "SET b b=2, mdel b ok, NEXT c=3", "a=1 c=3" },
        { 0, "a=1 b=2 c=3", "SET b b=2, mdel b ok, PREV a=1", "a=1 c=3" },
        { 0, "a=1 b=2 c=3", "SET b b=2, mdel b ok, GET_CURRENT c=3", "a=1 c=3" },
        { 0, "a=1 b=2 c=3", "SET b b=2, mdel c ok, NEXT NOTFOUND, GET_CURRENT b=2", "a=1 b=2" },
        { 0, "a=1 b=2 c=3", "SET b b=2, mdel a ok, GET_CURRENT b=2, PREV NOTFOUND", "b=2 c=3" },
        { 0, "a=1 b=2 c=3", "SET b b=2, 2:SET b b=2, 2:del - ok, NEXT c=3, 2:NEXT c=3", "a=1 c=3" },
        { 0, "a=1 b=2 c=3", "SET b b=2, 2:FIRST a=1, 2:del - ok, 2:del - ok, NEXT c=3, 2:NEXT c=3", "c=3" },
        { 0, "a=1", "FIRST a=1, del - ok, NEXT NOTFOUND, put b=2 ok, NEXT b=2", "b=2" },
        { MDB_DUPSORT, "a=1 a=2 b=3", "FIRST a=1, del - ok, NEXT a=2, NEXT b=3", "a=2 b=3" },
        { MDB_DUPSORT, "a=1 a=2 b=3", "FIRST a=1, del - ok, GET_CURRENT a=2", "a=2 b=3" },
        { MDB_DUPSORT, "a=1 a=2 b=3", "FIRST a=1, NEXT a=2, del - ok, NEXT b=3", "a=1 b=3" },
        { MDB_DUPSORT, "a=1 a=2 b=3", "FIRST a=1, NEXT a=2, del - ok, GET_CURRENT b=3", "a=1 b=3" },
        { MDB_DUPSORT, "a=1 a=2 b=3", "FIRST a=1, NEXT a=2, del - ok, PREV a=1", "a=1 b=3" },
        { MDB_DUPSORT, "a=1 a=2 b=3", "FIRST a=1, delall - ok, NEXT b=3", "b=3" },
        { MDB_DUPSORT, "a=1 a=2 b=3", "FIRST a=1, NEXT a=2, delall - ok, NEXT b=3", "b=3" },
        { MDB_DUPSORT, "a=1 a=2 b=3", "FIRST a=1, mdel a ok, NEXT b=3", "b=3" },
        { MDB_DUPSORT, "a=1 a=2 a=3 b=3", "GET_BOTH a 2 a=2, mdel a=2 ok, NEXT a=3", "a=1 a=3 b=3" },
        { MDB_DUPSORT, "a=1 a=2 a=3 b=3", "GET_BOTH a 2 a=2, mdel a=2 ok, PREV a=1", "a=1 a=3 b=3" },
        { MDB_DUPSORT, "a=1 a=2 a=3 b=3",
          "GET_BOTH a 2 a=2, mdel a=1 ok, mdel a=3 ok, GET_CURRENT a=2, count 1, NEXT b=3",
          "a=2 b=3" },
        { MDB_DUPSORT, "k1=1 k1=2 k2=3 k3=4 k3=5 k3=6", "SET k2 k2=3, del - ok, NEXT k3=4, NEXT k3=5, NEXT k3=6",
          "k1=1 k1=2 k3=4 k3=5 k3=6" },
        { MDB_DUPSORT, "k1=1 k1=2 k2=3 k3=4 k3=5 k3=6", "SET k2 k2=3, del - ok, GET_CURRENT k3=4",
          "k1=1 k1=2 k3=4 k3=5 k3=6" },
        { MDB_DUPSORT, "k1=1 k1=2 k2=3 k3=4 k3=5 k3=6", "SET k2 k2=3, del - ok, PREV k1=2, PREV k1=1",
          "k1=1 k1=2 k3=4 k3=5 k3=6" },
        { MDB_DUPSORT, "k1=1 k1=2 k2=3 k3=4 k3=5 k3=6", "SET k2 k2=3, del - ok, NEXT_NODUP k3=4",
          "k1=1 k1=2 k3=4 k3=5 k3=6" },
        { MDB_DUPSORT, "k1=1 k1=2 k2=3 k3=4 k3=5 k3=6", "SET k2 k2=3, mdel k2 ok, NEXT k3=4, NEXT k3=5",
          "k1=1 k1=2 k3=4 k3=5 k3=6" },
        { MDB_DUPSORT, "k1=1 k1=2 k2=3 k3=4 k3=5",
          "SET k1 k1=1, del - ok, del - ok, del - ok, GET_CURRENT k3=4, NEXT k3=5",
          "k3=4 k3=5" },
        { MDB_DUPSORT, "a=1 b=2 b=3", "LAST b=3, del - ok, NEXT NOTFOUND, PREV error", "a=1 b=2" },
        { MDB_DUPSORT | MDB_DUPFIXED, "k1=1 k1=2 k2=3 k3=4 k3=5", "SET k2 k2=3, del - ok, NEXT k3=4, PREV k1=2",
          "k1=1 k1=2 k3=4 k3=5" },
    };

    script_cases_run(cases, ARRAY_COUNT(cases));
}

TEST(cursor_put_stands_on_the_record)
{
    static const struct script_case cases[] = {
        { 0, "a=1 c=3", "cput b=2 ok, GET_CURRENT b=2, NEXT c=3, PREV b=2, PREV a=1", "a=1 b=2 c=3" },
        { 0, "a=1 c=3", "cput c=x ok, GET_CURRENT c=x, PREV a=1", "a=1 c=x" },
        { 0, "a=1 c=3", "cput d=4 ok, GET_CURRENT d=4, NEXT NOTFOUND, PREV c=3", "a=1 c=3 d=4" },
        { 0, "b=1", "cput a=2 ok, GET_CURRENT a=2, PREV NOTFOUND, NEXT b=1", "a=2 b=1" },
        { MDB_DUPSORT, "a=1 a=3", "cput a=2 ok, GET_CURRENT a=2, NEXT a=3, count 3, PREV a=2, PREV a=1",
          "a=1 a=2 a=3" },
        { MDB_DUPSORT, "a=1 a=3", "cput a=3 ok, GET_CURRENT a=3, count 2, NEXT NOTFOUND", NULL },
        { MDB_DUPSORT, "a=1", "cput a=2 ok, GET_CURRENT a=2, PREV a=1", "a=1 a=2" },
        { MDB_DUPSORT, "a=1", "cput b=2 ok, GET_CURRENT b=2, count 1, PREV a=1", "a=1 b=2" },
        { MDB_DUPSORT | MDB_DUPFIXED, "a=1 a=3", "cput a=2 ok, GET_CURRENT a=2, NEXT a=3, count 3", "a=1 a=2 a=3" },
    };

    script_cases_run(cases, ARRAY_COUNT(cases));
}

TEST(cursor_replaces_the_current_record)
{
    static const struct script_case cases[] = {
        { 0, "a=1 b=2 c=3", "SET b b=2, ccurrent b=x ok, GET_CURRENT b=x, NEXT c=3", "a=1 b=x c=3" },
        { 0, "a=1 b=2 c=3", "SET b b=2, ccurrent b=longer ok, GET_CURRENT b=longer, NEXT c=3", "a=1 b=longer c=3" },
        { 0, "a=1 b=longer c=3", "SET b b=longer, ccurrent b=2 ok, GET_CURRENT b=2, PREV a=1", "a=1 b=2 c=3" },
        { 0, "a=1 b=2 c=3", "SET b b=2, ccurrent b=- ok, GET_CURRENT b=, NEXT c=3", "a=1 b= c=3" },
        { 0, "a=1 b=2 c=3", "LAST c=3, del - ok, ccurrent c=4 NOTFOUND", "a=1 b=2" },
        { 0, "a=1 b=2 c=3", "SET_RANGE d NOTFOUND, ccurrent c=4 NOTFOUND", NULL },
        { 0, "a=1 b=2 c=3", "SET b b=2, ccurrent a=4 EINVAL, ccurrent bb=4 EINVAL, SET b b=2, ccurrent b=4 ok",
          "a=1 b=4 c=3" },
        { MDB_DUPSORT, "a=1 b=2 b=3", "SET b b=2, ccurrent a=4 EINVAL, SET b b=2, ccurrent b=25 ok", "a=1 b=25 b=3" },
    };

    script_cases_run(cases, ARRAY_COUNT(cases));
}

TEST(record_put_behind_a_cursor_at_the_end_is_next)
{
    static const struct script_case cases[] = {
        { 0, "a=1 b=2", "LAST b=2, NEXT NOTFOUND, put c=3 ok, NEXT c=3, NEXT NOTFOUND", "a=1 b=2 c=3" },
        { 0, "a=1 b=2", "LAST b=2, NEXT NOTFOUND, 2:cput c=3 ok, NEXT c=3, 2:cput d=4 ok, NEXT d=4",
          "a=1 b=2 c=3 d=4" },
        { 0, "a=1 b=2", "LAST b=2, NEXT NOTFOUND, put aa=3 ok, NEXT NOTFOUND, PREV aa=3", "a=1 aa=3 b=2" },
        { 0, "b=2", "FIRST b=2, PREV NOTFOUND, put a=1 ok, PREV a=1", "a=1 b=2" },
        { MDB_DUPSORT, "a=1", "FIRST a=1, NEXT NOTFOUND, put a=2 ok, NEXT a=2, NEXT NOTFOUND, put b=1 ok, NEXT b=1",
          "a=1 a=2 b=1" },
        { MDB_DUPSORT, "a=1", "FIRST a=1, NEXT_DUP NOTFOUND, put a=2 ok, NEXT_DUP a=2, put a=3 ok, NEXT_DUP a=3",
          "a=1 a=2 a=3" },
        { MDB_DUPSORT, "a=2", "FIRST a=2, PREV_DUP NOTFOUND, put a=1 ok, PREV_DUP a=1", "a=1 a=2" },
    };

    script_cases_run(cases, ARRAY_COUNT(cases));
}

/* ==== Searching in trees ================================================= */

enum { SPARSE_COUNT = 1500 };

/* Every key, and every gap between keys, of a tree with several levels. */
TEST(searches_find_every_key_and_every_gap)
{
    struct scene scene;
    MDB_cursor *cursor;
    unsigned i;

    scene_open(&scene, 0, 0);
    for (i = 0; i < SPARSE_COUNT; i++)
        put_numbers(scene.txn, scene.dbi, 2 * i + 1, 1, i % 97);
    cursor = scene_cursor(&scene);
    for (i = 0; i <= 2 * SPARSE_COUNT; i++) {
        struct numeral numeral = numeral_of(i);
        MDB_val key = val_text(numeral.text), data;
        int is_there = i % 2 == 1;
        unsigned above = is_there ? i : i + 1;

        test_note("number %u", i);
        CHECK_RC(mdb_cursor_get(cursor, &key, &data, MDB_SET), is_there ? MDB_SUCCESS : MDB_NOTFOUND);
        CHECK_RC(mdb_cursor_get(cursor, &key, &data, MDB_SET_KEY), is_there ? MDB_SUCCESS : MDB_NOTFOUND);
        CHECK_RC(mdb_get(scene.txn, scene.dbi, &key, &data), is_there ? MDB_SUCCESS : MDB_NOTFOUND);
        if (above > 2 * SPARSE_COUNT) {
            CHECK_RC(mdb_cursor_get(cursor, &key, &data, MDB_SET_RANGE), MDB_NOTFOUND);
            CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_PREV));
            CHECK_VAL_TEXT(&key, numeral_of(2 * SPARSE_COUNT - 1).text);
            continue;
        }
        CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_SET_RANGE));
        CHECK_VAL_TEXT(&key, numeral_of(above).text);
        CHECK_EQ(data.mv_size, above / 2 % 97);
        CHECK_RC(mdb_cursor_get(cursor, &key, &data, MDB_PREV), above > 1 ? MDB_SUCCESS : MDB_NOTFOUND);
        if (above > 1)
            CHECK_VAL_TEXT(&key, numeral_of(above - 2).text);
    }
    scene_close(&scene);
}

/* ==== Staying on a record ================================================ */

enum { TRACKED_COUNT = 600, TRACKED_EVERY = 7 };

struct tracker {
    struct scene *scene;
    unsigned char present[2 * TRACKED_COUNT + 2];       /* by number */
    MDB_cursor *cursors[TRACKED_COUNT / TRACKED_EVERY + 1];
    unsigned numbers[TRACKED_COUNT / TRACKED_EVERY + 1];
    unsigned cursor_count;
};

/* The record of a number: alone under its key, or one of ten values of a key. */
static void tracked_record(const struct tracker *tracker, unsigned number, struct numeral texts[2], MDB_val *key,
                           MDB_val *data)
{
    unsigned flags;

    CHECK_OK(mdb_dbi_flags(tracker->scene->txn, tracker->scene->dbi, &flags));
    texts[0] = numeral_of(flags & MDB_DUPSORT ? number / 400 : number);
    texts[1] = numeral_of(number);
    *key = val_text(texts[0].text);
    *data = val_text(texts[1].text);
}

static void tracker_put(struct tracker *tracker, unsigned number)
{
    struct numeral texts[2];
    MDB_val key, data;

    tracked_record(tracker, number, texts, &key, &data);
    CHECK_OK(mdb_put(tracker->scene->txn, tracker->scene->dbi, &key, &data, 0));
    tracker->present[number] = 1;
}

static void tracker_del(struct tracker *tracker, unsigned number)
{
    struct numeral texts[2];
    MDB_val key, data;

    tracked_record(tracker, number, texts, &key, &data);
    CHECK_OK(mdb_del(tracker->scene->txn, tracker->scene->dbi, &key, &data));
    tracker->present[number] = 0;
}

static void tracker_open(struct tracker *tracker, struct scene *scene)
{
    unsigned i;

    memset(tracker, 0, sizeof(*tracker));
    tracker->scene = scene;
    for (i = 0; i < TRACKED_COUNT; i++)
        tracker_put(tracker, 2 * i + 1);
    scene_commit(scene);
    for (i = 0; i < TRACKED_COUNT; i += TRACKED_EVERY) {
        unsigned at = tracker->cursor_count++, flags;
        struct numeral texts[2];
        MDB_val key, data;

        tracker->cursors[at] = scene_cursor(scene);
        tracker->numbers[at] = 2 * i + 1;
        tracked_record(tracker, 2 * i + 1, texts, &key, &data);
        CHECK_OK(mdb_dbi_flags(scene->txn, scene->dbi, &flags));
        CHECK_OK(mdb_cursor_get(tracker->cursors[at], &key, &data, flags & MDB_DUPSORT ? MDB_GET_BOTH : MDB_SET));
    }
}

/* The cursor stands on its number; one step forward and back finds the neighbours that are there. */
static void tracker_check(const struct tracker *tracker, unsigned at)
{
    MDB_cursor *cursor = tracker->cursors[at];
    unsigned number = tracker->numbers[at], next = number + 1;
    MDB_val key, data;

    test_note("cursor on %u", number);
    CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
    CHECK_VAL_TEXT(&data, numeral_of(number).text);
    while (next < sizeof(tracker->present) && !tracker->present[next])
        next++;
    if (next == sizeof(tracker->present)) {
        CHECK_RC(mdb_cursor_get(cursor, &key, &data, MDB_NEXT), MDB_NOTFOUND);
        CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
    } else {
        CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
        CHECK_VAL_TEXT(&data, numeral_of(next).text);
        CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_PREV));
    }
    CHECK_VAL_TEXT(&data, numeral_of(number).text);
    test_state.note[0] = '\0';
}

static void tracker_check_all(const struct tracker *tracker)
{
    unsigned at;

    for (at = 0; at < tracker->cursor_count; at++)
        tracker_check(tracker, at);
}

static int tracker_is_tracked(const struct tracker *tracker, unsigned number)
{
    unsigned at;

    for (at = 0; at < tracker->cursor_count; at++) {
        if (tracker->numbers[at] == number)
            return 1;
    }
    return 0;
}

static const unsigned tracked_db_flags[] = { 0, MDB_DUPSORT, MDB_DUPSORT | MDB_DUPFIXED };

TEST(cursors_stay_on_their_records_while_pages_split)
{
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(tracked_db_flags); kind++) {
        struct scene scene;
        struct tracker *tracker = malloc(sizeof(*tracker));
        struct random random = { test_seed() };
        unsigned *numbers = numbers_shuffled(&random, TRACKED_COUNT + 1), i;

        CHECK(tracker != NULL);
        scene_open(&scene, 0, tracked_db_flags[kind]);
        tracker_open(tracker, &scene);
        for (i = 0; i <= TRACKED_COUNT; i++) {
            tracker_put(tracker, 2 * numbers[i]);
            tracker_check(tracker, i % tracker->cursor_count);
            if (i % 50 == 0)
                tracker_check_all(tracker);
        }
        tracker_check_all(tracker);
        free(numbers);
        free(tracker);
        scene_close(&scene);
    }
}

TEST(cursors_stay_on_their_records_while_pages_merge)
{
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(tracked_db_flags); kind++) {
        struct scene scene;
        struct tracker *tracker = malloc(sizeof(*tracker));
        struct random random = { test_seed() };
        unsigned *numbers = numbers_shuffled(&random, TRACKED_COUNT), i, deleted = 0;

        CHECK(tracker != NULL);
        scene_open(&scene, 0, tracked_db_flags[kind]);
        tracker_open(tracker, &scene);
        for (i = 0; i < TRACKED_COUNT; i++) {
            unsigned number = 2 * numbers[i] + 1;

            if (tracker_is_tracked(tracker, number))
                continue;
            tracker_del(tracker, number);
            tracker_check(tracker, i % tracker->cursor_count);
            if (++deleted % 50 == 0)
                tracker_check_all(tracker);
        }
        tracker_check_all(tracker);
        CHECK_EQ(walk_both(scene.txn, scene.dbi), tracker->cursor_count);
        free(numbers);
        free(tracker);
        scene_close(&scene);
    }
}

/* From a tree of several levels to one page and back, with one cursor on the record that stays all the time. */
TEST(cursor_stays_on_its_record_while_the_root_changes)
{
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(tracked_db_flags); kind++) {
        struct scene scene;
        struct tracker *tracker = malloc(sizeof(*tracker));
        unsigned round, i;

        CHECK(tracker != NULL);
        scene_open(&scene, 0, tracked_db_flags[kind]);
        memset(tracker, 0, sizeof(*tracker));
        tracker->scene = &scene;
        tracker_put(tracker, 501);
        tracker->cursors[0] = scene_cursor(&scene);
        tracker->numbers[0] = 501;
        tracker->cursor_count = 1;
        CHECK_TEXT(strchr(cursor_text(tracker->cursors[0], MDB_FIRST), '='), "=00000501");
        for (round = 0; round < 2; round++) {
            for (i = 0; i < 1000; i++) {
                tracker_put(tracker, i * 7 % 1000 == 501 ? 501 : i * 7 % 1000);
                tracker_check(tracker, 0);
            }
            for (i = 0; i < 1000; i++) {
                if (i * 3 % 1000 != 501)
                    tracker_del(tracker, i * 3 % 1000);
                tracker_check(tracker, 0);
            }
            CHECK_EQ(walk_both(scene.txn, scene.dbi), 1);
        }
        free(tracker);
        scene_close(&scene);
    }
}

TEST(cursors_stay_on_their_records_through_nested_transactions)
{
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(tracked_db_flags); kind++) {
        struct scene scene;
        struct tracker *tracker = malloc(sizeof(*tracker));
        unsigned char before[sizeof(tracker->present)];
        unsigned i, round;
        MDB_txn *parent;

        CHECK(tracker != NULL);
        scene_open(&scene, 0, tracked_db_flags[kind]);
        tracker_open(tracker, &scene);
        for (round = 0; round < 6; round++) {
            memcpy(before, tracker->present, sizeof(before));
            parent = scene.txn;
            scene.txn = begin_nested(scene.env, parent);
            for (i = 0; i < TRACKED_COUNT; i++) {
                if ((i + round) % 3 == 0 && !tracker->present[2 * i])
                    tracker_put(tracker, 2 * i);
                else if (tracker->present[2 * i])
                    tracker_del(tracker, 2 * i);
            }
            if (round % 2 == 0) {
                CHECK_OK(mdb_txn_commit(scene.txn));
            } else {
                mdb_txn_abort(scene.txn);
                memcpy(tracker->present, before, sizeof(before));
            }
            scene.txn = parent;
            tracker_check_all(tracker);
        }
        free(tracker);
        scene_close(&scene);
    }
}

TEST(overwriting_with_other_sizes_keeps_other_cursors)
{
    struct scene scene;
    MDB_cursor *cursors[40];
    MDB_val key, data;
    unsigned i, round;

    scene_open(&scene, 0, 0);
    put_numbers(scene.txn, scene.dbi, 0, 40, 10);
    for (i = 0; i < 40; i++) {
        struct numeral numeral = numeral_of(i);

        cursors[i] = scene_cursor(&scene);
        key = val_text(numeral.text);
        CHECK_OK(mdb_cursor_get(cursors[i], &key, &data, MDB_SET));
    }
    for (round = 0; round < 12; round++) {
        size_t size = round % 3 == 0 ? 10 : round % 3 == 1 ? node_max(test_page_size()) - 40 : 5 * test_page_size();

        for (i = 0; i < 40; i++) {
            put_numbers(scene.txn, scene.dbi, i * 17 % 40, 1, size);
            CHECK_OK(mdb_cursor_get(cursors[i], &key, &data, MDB_GET_CURRENT));
            CHECK_VAL_TEXT(&key, numeral_of(i).text);
        }
        for (i = 0; i < 40; i++) {
            CHECK_OK(mdb_cursor_get(cursors[i], &key, &data, MDB_GET_CURRENT));
            CHECK_VAL_TEXT(&key, numeral_of(i).text);
            CHECK_EQ(data.mv_size, size);
            check_number(scene.txn, scene.dbi, i, size);
        }
    }
    scene_close(&scene);
}

/* ==== Deleting on a walk ================================================= */

struct walked {
    unsigned key, value;
};

enum { WALKED_MAX = 6000 };

/* How many values the keys have: the shape repeats. */
struct shape {
    unsigned db_flags;
    unsigned key_count;
    unsigned counts[4];         /* up to the first 0 */
    size_t value_size;          /* of databases without duplicates; 0: the numeral */
};

static const struct shape shapes[] = {
    { 0, 1000, { 1 }, 0 },
    { 0, 300, { 1 }, 200 },
    { 0, 60, { 1 }, 9000 },
    { MDB_REVERSEKEY, 500, { 1 }, 0 },
    { MDB_INTEGERKEY, 1000, { 1 }, 0 },
    { MDB_DUPSORT, 600, { 1 }, 0 },
    { MDB_DUPSORT, 3, { 2, 1, 3 }, 0 },
    { MDB_DUPSORT, 300, { 2, 1, 3 }, 0 },
    { MDB_DUPSORT, 200, { 1, 5, 20 }, 0 },
    { MDB_DUPSORT, 3, { 1000 }, 0 },
    { MDB_DUPSORT, 5, { 1, 1200, 2 }, 0 },
    { MDB_DUPSORT, 40, { 1, 300, 1, 3 }, 0 },
    { MDB_DUPSORT | MDB_DUPFIXED, 300, { 2, 1, 3 }, 0 },
    { MDB_DUPSORT | MDB_DUPFIXED, 5, { 1, 1200, 2 }, 0 },
    { MDB_DUPSORT | MDB_DUPFIXED, 40, { 1, 300, 1, 3 }, 0 },
    { MDB_DUPSORT | MDB_REVERSEDUP, 40, { 1, 300, 1, 3 }, 0 },
};

/* Which records a walk deletes. */
enum choice { CHOICE_ALL, CHOICE_SECOND, CHOICE_THIRD, CHOICE_KEY_FIRST, CHOICE_KEY_LAST, CHOICE_MIDDLE, CHOICES };

/* How it deletes them. */
enum way { WAY_CURSOR, WAY_MDB_DEL, WAY_OTHER_CURSOR, WAYS };

struct walk {
    const struct shape *shape;
    struct scene scene;
    struct walked records[WALKED_MAX];
    unsigned count;
};

static MDB_val walk_key(const struct walk *walk, const struct walked *record, unsigned char *bytes)
{
    size_t integer = record->key;

    if (walk->shape->db_flags & MDB_INTEGERKEY) {
        memcpy(bytes, &integer, sizeof(integer));
        return val_of(bytes, sizeof(integer));
    }
    /* The last digits come first in the order of MDB_REVERSEKEY too, as all keys have one length. */
    if (walk->shape->db_flags & MDB_REVERSEKEY) {
        bytes[0] = (unsigned char)record->key;
        bytes[1] = (unsigned char)(record->key >> 8);
        return val_of(bytes, 2);
    }
    return val_of(memcpy(bytes, numeral_of(record->key).text, 8), 8);
}

static MDB_val walk_value(const struct walk *walk, const struct walked *record, unsigned char *bytes)
{
    if (walk->shape->value_size > 0) {
        memset(bytes, (int)record->value, walk->shape->value_size);
        return val_of(bytes, walk->shape->value_size);
    }
    if (walk->shape->db_flags & MDB_REVERSEDUP) {
        bytes[0] = (unsigned char)record->value;
        bytes[1] = (unsigned char)(record->value >> 8);
        return val_of(bytes, 2);
    }
    return val_of(memcpy(bytes, numeral_of(record->value).text, 8), 8);
}

static void walk_open(struct walk *walk, const struct shape *shape)
{
    unsigned key, i, at = 0;

    walk->shape = shape;
    walk->count = 0;
    scene_open(&walk->scene, 0, shape->db_flags);
    for (key = 0; key < shape->key_count; key++) {
        for (i = 0; i < shape->counts[at]; i++) {
            struct walked record = { key, i };
            unsigned char key_bytes[16], value_bytes[10000];
            MDB_val key_val = walk_key(walk, &record, key_bytes), value = walk_value(walk, &record, value_bytes);

            CHECK(walk->count < WALKED_MAX);
            walk->records[walk->count++] = record;
            CHECK_OK(mdb_put(walk->scene.txn, walk->scene.dbi, &key_val, &value, 0));
        }
        at = at == 3 || shape->counts[at + 1] == 0 ? 0 : at + 1;
    }
}

static void walk_check_at(const struct walk *walk, unsigned index, const MDB_val *key, const MDB_val *data)
{
    unsigned char key_bytes[16], value_bytes[10000];
    MDB_val key_expected = walk_key(walk, &walk->records[index], key_bytes);
    MDB_val value_expected = walk_value(walk, &walk->records[index], value_bytes);

    CHECK_VAL(key, key_expected.mv_data, key_expected.mv_size);
    CHECK_VAL(data, value_expected.mv_data, value_expected.mv_size);
}

static int walk_chooses(const struct walk *walk, unsigned index, enum choice choice)
{
    const struct walked *record = &walk->records[index];
    int key_ends = index + 1 == walk->count || walk->records[index + 1].key != record->key;

    switch (choice) {
    case CHOICE_ALL:
        return 1;
    case CHOICE_SECOND:
        return index % 2 == 0;
    case CHOICE_THIRD:
        return index % 3 == 1;
    case CHOICE_KEY_FIRST:
        return record->value == 0;
    case CHOICE_KEY_LAST:
        return key_ends;
    default:
        return index > walk->count / 4 && index < walk->count * 3 / 4;
    }
}

/* The other cursor stays where it deleted: another witness of the delete. */
static void walk_delete(const struct walk *walk, MDB_cursor *cursor, MDB_cursor *other, unsigned index, enum way way)
{
    unsigned char key_bytes[16], value_bytes[10000];
    MDB_val key = walk_key(walk, &walk->records[index], key_bytes);
    MDB_val value = walk_value(walk, &walk->records[index], value_bytes);
    int has_dups = (walk->shape->db_flags & MDB_DUPSORT) != 0;

    if (way == WAY_CURSOR) {
        CHECK_OK(mdb_cursor_del(cursor, 0));
    } else if (way == WAY_MDB_DEL) {
        CHECK_OK(mdb_del(walk->scene.txn, walk->scene.dbi, &key, has_dups ? &value : NULL));
    } else {
        CHECK_OK(mdb_cursor_get(other, &key, &value, has_dups ? MDB_GET_BOTH : MDB_SET));
        CHECK_OK(mdb_cursor_del(other, 0));
    }
}

static void walk_run(struct walk *walk, MDB_cursor_op step, enum choice choice, enum way way)
{
    MDB_cursor *cursor = scene_cursor(&walk->scene), *other = scene_cursor(&walk->scene);
    MDB_val key, data;
    unsigned visited = 0, left = 0, i;
    int rc;

    while ((rc = mdb_cursor_get(cursor, &key, &data, step)) == MDB_SUCCESS) {
        unsigned index = step == MDB_NEXT ? visited : walk->count - 1 - visited;

        test_note("flags %#x, %u records, %s, choice %d, way %d, record %u", walk->shape->db_flags, walk->count,
                  step == MDB_NEXT ? "forward" : "backward", (int)choice, (int)way, index);
        CHECK(visited < walk->count);
        walk_check_at(walk, index, &key, &data);
        if (walk_chooses(walk, index, choice))
            walk_delete(walk, cursor, other, index, way);
        visited++;
    }
    CHECK_RC(rc, MDB_NOTFOUND);
    CHECK_EQ(visited, walk->count);
    mdb_cursor_close(other);
    mdb_cursor_close(cursor);

    cursor = scene_cursor(&walk->scene);
    for (i = 0; i < walk->count; i++) {
        if (walk_chooses(walk, i, choice))
            continue;
        CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
        walk_check_at(walk, i, &key, &data);
        left++;
    }
    CHECK_EQ(walk_both(walk->scene.txn, walk->scene.dbi), left);
    test_state.note[0] = '\0';
}

/* All choices on one set of records: a nested transaction for each, to take it back. */
static void deleting_walks(MDB_cursor_op step, enum way way)
{
    struct walk *walk = malloc(sizeof(*walk));
    size_t kind;
    int choice;

    CHECK(walk != NULL);
    for (kind = 0; kind < ARRAY_COUNT(shapes); kind++) {
        walk_open(walk, &shapes[kind]);
        scene_commit(&walk->scene);
        for (choice = 0; choice < CHOICES; choice++) {
            walk_run(walk, step, (enum choice)choice, way);
            scene_abort(&walk->scene);
        }
        walk_run(walk, step, CHOICE_SECOND, way);
        scene_close(&walk->scene);
    }
    free(walk);
}

TEST(deleting_on_a_walk_forward_visits_every_record_once)
{
    deleting_walks(MDB_NEXT, WAY_CURSOR);
}

TEST(deleting_on_a_walk_backward_visits_every_record_once)
{
    deleting_walks(MDB_PREV, WAY_CURSOR);
}

TEST(mdb_del_on_a_walk_forward_visits_every_record_once)
{
    deleting_walks(MDB_NEXT, WAY_MDB_DEL);
}

TEST(mdb_del_on_a_walk_backward_visits_every_record_once)
{
    deleting_walks(MDB_PREV, WAY_MDB_DEL);
}

TEST(deleting_by_another_cursor_on_a_walk_visits_every_record_once)
{
    deleting_walks(MDB_NEXT, WAY_OTHER_CURSOR);
    deleting_walks(MDB_PREV, WAY_OTHER_CURSOR);
}

TEST(deleting_whole_keys_on_a_walk_visits_every_key_once)
{
    static const MDB_cursor_op steps[] = { MDB_NEXT_NODUP, MDB_PREV_NODUP };
    struct walk *walk = malloc(sizeof(*walk));
    size_t kind, direction;

    CHECK(walk != NULL);
    for (kind = 0; kind < ARRAY_COUNT(shapes); kind++) {
        for (direction = 0; direction < 2; direction++) {
            MDB_cursor *cursor;
            MDB_val key, data;
            unsigned visited = 0;
            int rc;

            walk_open(walk, &shapes[kind]);
            cursor = scene_cursor(&walk->scene);
            while ((rc = mdb_cursor_get(cursor, &key, &data, steps[direction])) == MDB_SUCCESS) {
                struct walked record = { direction == 0 ? visited : shapes[kind].key_count - 1 - visited, 0 };
                unsigned char bytes[16];
                MDB_val expected = walk_key(walk, &record, bytes);

                test_note("shape %zu, key %u", kind, record.key);
                CHECK_VAL(&key, expected.mv_data, expected.mv_size);
                if (record.key % 3 != 0)
                    CHECK_OK(mdb_cursor_del(cursor, MDB_NODUPDATA));
                visited++;
            }
            CHECK_RC(rc, MDB_NOTFOUND);
            CHECK_EQ(visited, shapes[kind].key_count);
            CHECK_EQ(walk_count(walk->scene.txn, walk->scene.dbi, MDB_FIRST, MDB_NEXT_NODUP),
                     (shapes[kind].key_count + 2) / 3);
            scene_close(&walk->scene);
        }
    }
    free(walk);
}

TEST(inserting_on_a_walk_visits_what_is_put_ahead)
{
    struct scene scene;
    MDB_cursor *cursor;
    MDB_val key, data;
    unsigned expected = 0;

    scene_open(&scene, 0, 0);
    put_numbers(scene.txn, scene.dbi, 0, 1, 30);
    cursor = scene_cursor(&scene);
    while (mdb_cursor_get(cursor, &key, &data, MDB_NEXT) == MDB_SUCCESS) {
        CHECK_VAL_TEXT(&key, numeral_of(expected).text);
        if (expected < 2000)
            put_numbers(scene.txn, scene.dbi, expected + 1, 1, 30);
        expected++;
    }
    CHECK_EQ(expected, 2001);
    scene_close(&scene);
}

/* ==== Renewing, and the end of transactions ============================== */

TEST(cursor_is_renewed_in_another_read_transaction)
{
    struct scene scene;
    MDB_txn *first, *second;
    MDB_cursor *cursor;

    scene_open(&scene, MDB_NOTLS, MDB_DUPSORT);
    put_records(scene.txn, scene.dbi, "a=1 a=2");
    scene_commit(&scene);
    first = begin_read(scene.env);
    CHECK_OK(mdb_cursor_open(first, scene.dbi, &cursor));
    CHECK_AT(cursor, MDB_LAST, "a=2");
    put_records(scene.txn, scene.dbi, "a=3 b=4");
    scene_commit(&scene);
    CHECK_AT(cursor, MDB_NEXT, "NOTFOUND");
    second = begin_read(scene.env);
    CHECK_OK(mdb_cursor_renew(second, cursor));
    CHECK(mdb_cursor_txn(cursor) == second);
    CHECK_EQ(mdb_cursor_dbi(cursor), scene.dbi);
    CHECK_AT(cursor, MDB_GET_CURRENT, "EINVAL");
    CHECK_AT(cursor, MDB_NEXT, "a=1");
    CHECK_AT(cursor, MDB_LAST, "b=4");
    CHECK_OK(mdb_cursor_renew(first, cursor));
    CHECK_AT(cursor, MDB_LAST, "a=2");

    mdb_txn_reset(second);
    put_records(scene.txn, scene.dbi, "c=5");
    scene_commit(&scene);
    CHECK_OK(mdb_txn_renew(second));
    CHECK_OK(mdb_cursor_renew(second, cursor));
    CHECK_AT(cursor, MDB_LAST, "c=5");
    mdb_txn_abort(first);
    CHECK_AT(cursor, MDB_PREV, "b=4");
    mdb_cursor_close(cursor);
    mdb_txn_abort(second);
    scene_close(&scene);
}

TEST(renew_refuses_write_transactions_and_their_cursors)
{
    struct scene scene;
    MDB_txn *reader;
    MDB_cursor *of_reader, *of_writer;

    scene_open(&scene, MDB_NOTLS, 0);
    put_records(scene.txn, scene.dbi, "a=1");
    scene_commit(&scene);
    reader = begin_read(scene.env);
    CHECK_OK(mdb_cursor_open(reader, scene.dbi, &of_reader));
    of_writer = scene_cursor(&scene);
    CHECK_AT(of_writer, MDB_FIRST, "a=1");
    CHECK_RC(mdb_cursor_renew(scene.txn, of_reader), EINVAL);
    CHECK_RC(mdb_cursor_renew(reader, of_writer), EINVAL);
    CHECK_RC(mdb_cursor_renew(scene.txn, of_writer), EINVAL);
    CHECK_AT(of_writer, MDB_GET_CURRENT, "a=1");
    mdb_cursor_close(of_reader);
    mdb_txn_abort(reader);
    scene_close(&scene);
}

TEST(thousands_of_renewals_find_the_same)
{
    struct scene scene;
    MDB_txn *reader;
    MDB_cursor *cursor;
    unsigned i;

    scene_open(&scene, MDB_NOTLS | MDB_NOSYNC, MDB_DUPSORT);
    put_records(scene.txn, scene.dbi, "a=1 a=2 b=1");
    scene_commit(&scene);
    reader = begin_read(scene.env);
    CHECK_OK(mdb_cursor_open(reader, scene.dbi, &cursor));
    for (i = 0; i < 5000; i++) {
        mdb_txn_reset(reader);
        CHECK_OK(mdb_txn_renew(reader));
        CHECK_OK(mdb_cursor_renew(reader, cursor));
        CHECK_SEEK(cursor, MDB_GET_BOTH, "a", "2", "a=2");
        CHECK_AT(cursor, MDB_NEXT, "b=1");
    }
    mdb_cursor_close(cursor);
    mdb_txn_abort(reader);
    scene_close(&scene);
}

TEST(cursors_of_a_write_transaction_end_with_it)
{
    struct scene scene;
    unsigned i;

    scene_open(&scene, 0, MDB_DUPSORT);
    put_records(scene.txn, scene.dbi, "a=1 a=2");
    for (i = 0; i < 20; i++) {
        MDB_cursor *cursor = scene_cursor(&scene);

        CHECK_AT(cursor, MDB_FIRST, "a=1");
        cursor = scene_cursor(&scene);
        CHECK_AT(cursor, MDB_LAST, "a=2");
        if (i % 3 == 0)
            mdb_cursor_close(cursor);
        if (i % 2 == 0)
            scene_commit(&scene);
        else
            scene_abort(&scene);
    }
    scene_close(&scene);
}

TEST(cursors_can_be_closed_in_any_order)
{
    struct scene scene;
    MDB_cursor *cursors[30];
    struct random random = { test_seed() };
    unsigned *order = numbers_shuffled(&random, 30), i;

    scene_open(&scene, 0, 0);
    put_numbers(scene.txn, scene.dbi, 0, 300, 50);
    for (i = 0; i < 30; i++) {
        struct numeral numeral = numeral_of(i * 10);
        MDB_val key = val_text(numeral.text), data;

        cursors[i] = scene_cursor(&scene);
        CHECK_OK(mdb_cursor_get(cursors[i], &key, &data, MDB_SET));
    }
    for (i = 0; i < 30; i++) {
        unsigned k;

        mdb_cursor_close(cursors[order[i]]);
        put_numbers(scene.txn, scene.dbi, 300 + i * 20, 20, 50);
        for (k = i + 1; k < 30; k++) {
            MDB_val key, data;

            CHECK_OK(mdb_cursor_get(cursors[order[k]], &key, &data, MDB_GET_CURRENT));
            CHECK_VAL_TEXT(&key, numeral_of(order[k] * 10).text);
        }
    }
    free(order);
    scene_close(&scene);
}

TEST(cursor_of_a_dropped_database_answers_without_harm)
{
    struct scene scene;
    MDB_cursor *cursor;
    MDB_val key, data;

    scene_open(&scene, 0, 0);
    put_records(scene.txn, scene.dbi, "a=1 b=2");
    scene_commit(&scene);
    cursor = scene_cursor(&scene);
    CHECK_AT(cursor, MDB_LAST, "b=2");
    CHECK_OK(mdb_drop(scene.txn, scene.dbi, 1));
    CHECK(mdb_cursor_get(cursor, &key, &data, MDB_FIRST) != MDB_SUCCESS);
    CHECK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT) != MDB_SUCCESS);
    CHECK(cursor_put_text(cursor, "c", "3", 0) != MDB_SUCCESS);
    mdb_cursor_close(cursor);
    scene_close(&scene);
}

/* ==== Puts near the cursor =============================================== */

/* Wherever a cursor stands, a put or a search through it finds the same place as one from the root. */
TEST(puts_and_searches_do_not_depend_on_where_the_cursor_stands)
{
    struct scene scene;
    struct random random = { test_seed() };
    unsigned char present[4000] = { 0 };
    MDB_cursor *cursor;
    MDB_val key, data;
    unsigned i;

    scene_open(&scene, 0, 0);
    cursor = scene_cursor(&scene);
    for (i = 0; i < 6000; i++) {
        unsigned number = (unsigned)random_below(&random, sizeof(present));
        unsigned near = (unsigned)random_below(&random, sizeof(present));
        struct numeral numeral = numeral_of(random_one_in(&random, 2) ? number : near);
        int rc;

        test_note("step %u, number %u, near %u", i, number, near);
        switch (random_below(&random, 4)) {
        case 0:
            key = val_text(numeral.text);
            mdb_cursor_get(cursor, &key, &data, MDB_SET_RANGE);
            break;
        case 1:
            mdb_cursor_get(cursor, &key, &data, random_one_in(&random, 2) ? MDB_LAST : MDB_FIRST);
            break;
        case 2:
            mdb_cursor_get(cursor, &key, &data, random_one_in(&random, 2) ? MDB_NEXT : MDB_PREV);
            break;
        default:
            break;
        }
        numeral = numeral_of(number);
        key = val_text(numeral.text);
        data = val_of(&number, sizeof(number));
        rc = mdb_cursor_put(cursor, &key, &data, MDB_NOOVERWRITE);
        CHECK_RC(rc, present[number] ? MDB_KEYEXIST : MDB_SUCCESS);
        if (rc == MDB_KEYEXIST) {
            CHECK_VAL(&data, &number, sizeof(number));
            if (random_one_in(&random, 2)) {
                CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_SET));
                CHECK_OK(mdb_cursor_del(cursor, 0));
                present[number] = 0;
            }
        } else {
            present[number] = 1;
            CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
            CHECK_VAL_TEXT(&key, numeral.text);
        }
    }
    for (i = 0; i < sizeof(present); i++) {
        struct numeral numeral = numeral_of(i);

        key = val_text(numeral.text);
        CHECK_RC(mdb_get(scene.txn, scene.dbi, &key, &data), present[i] ? MDB_SUCCESS : MDB_NOTFOUND);
    }
    walk_both(scene.txn, scene.dbi);
    scene_close(&scene);
}

TEST(append_through_a_cursor_fills_pages)
{
    struct scene scene;
    MDB_cursor *cursor;
    MDB_stat stat;
    unsigned i;

    scene_open(&scene, 0, 0);
    cursor = scene_cursor(&scene);
    for (i = 0; i < 5000; i++)
        CHECK_OK(cursor_put_text(cursor, numeral_of(i).text, "some bytes of a value", MDB_APPEND));
    CHECK_RC(cursor_put_text(cursor, numeral_of(4999).text, "x", MDB_APPEND), MDB_KEYEXIST);
    CHECK_RC(cursor_put_text(cursor, numeral_of(7).text, "x", MDB_APPEND), MDB_KEYEXIST);
    CHECK_OK(mdb_stat(scene.txn, scene.dbi, &stat));
    CHECK_EQ(stat.ms_entries, 5000);
    /* 8 of header, 8 of key, 21 of value, 2 of slot, and evened: 40 for each record. */
    CHECK(stat.ms_leaf_pages <= 5000 / ((test_page_size() - 16) / 40) + 1);
    CHECK_EQ(walk_both(scene.txn, scene.dbi), 5000);
    scene_close(&scene);
}

TEST(count_demands_duplicates)
{
    struct scene scene;
    MDB_cursor *cursor;
    mdb_size_t count = 99;

    scene_open(&scene, 0, 0);
    put_records(scene.txn, scene.dbi, "a=1");
    cursor = scene_cursor(&scene);
    CHECK_AT(cursor, MDB_FIRST, "a=1");
    CHECK_RC(mdb_cursor_count(cursor, &count), MDB_INCOMPATIBLE);
    CHECK_EQ(count, 99);
    scene_close(&scene);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(cursor_calls_refuse_null),
        TEST_ENTRY(unknown_operations_and_flags_give_einval),
        TEST_ENTRY(out_arguments_that_are_not_wanted_may_be_null),
        TEST_ENTRY(cursor_knows_its_transaction_and_database),
        TEST_ENTRY(cursor_moves_in_an_empty_database),
        TEST_ENTRY(cursor_moves_from_nowhere),
        TEST_ENTRY(cursor_moves_between_the_ends),
        TEST_ENTRY(cursor_searches),
        TEST_ENTRY(cursor_deletes_and_stands_where_the_record_was),
        TEST_ENTRY(cursor_put_stands_on_the_record),
        TEST_ENTRY(cursor_replaces_the_current_record),
        TEST_ENTRY(record_put_behind_a_cursor_at_the_end_is_next),
        TEST_ENTRY(searches_find_every_key_and_every_gap),
        TEST_ENTRY(cursors_stay_on_their_records_while_pages_split),
        TEST_ENTRY(cursors_stay_on_their_records_while_pages_merge),
        TEST_ENTRY(cursor_stays_on_its_record_while_the_root_changes),
        TEST_ENTRY(cursors_stay_on_their_records_through_nested_transactions),
        TEST_ENTRY(overwriting_with_other_sizes_keeps_other_cursors),
        TEST_ENTRY(deleting_on_a_walk_forward_visits_every_record_once),
        TEST_ENTRY(deleting_on_a_walk_backward_visits_every_record_once),
        TEST_ENTRY(mdb_del_on_a_walk_forward_visits_every_record_once),
        TEST_ENTRY(mdb_del_on_a_walk_backward_visits_every_record_once),
        TEST_ENTRY(deleting_by_another_cursor_on_a_walk_visits_every_record_once),
        TEST_ENTRY(deleting_whole_keys_on_a_walk_visits_every_key_once),
        TEST_ENTRY(inserting_on_a_walk_visits_what_is_put_ahead),
        TEST_ENTRY(cursor_is_renewed_in_another_read_transaction),
        TEST_ENTRY(renew_refuses_write_transactions_and_their_cursors),
        TEST_ENTRY(thousands_of_renewals_find_the_same),
        TEST_ENTRY(cursors_of_a_write_transaction_end_with_it),
        TEST_ENTRY(cursors_can_be_closed_in_any_order),
        TEST_ENTRY(cursor_of_a_dropped_database_answers_without_harm),
        TEST_ENTRY(puts_and_searches_do_not_depend_on_where_the_cursor_stands),
        TEST_ENTRY(append_through_a_cursor_fills_pages),
        TEST_ENTRY(count_demands_duplicates),
    };

    return test_main(argc, argv, tests, TEST_COUNT(tests));
}
