/* Faults of the system: the n-th write, flush, resize, mapping or allocation fails, for all n. No call crashes, leaks
 * or lies: what failed changed nothing, what succeeded is there, and what comes next works. */
#include "mtest_fault.h"

#include "mtest_common.h"

/* The kinds of faults, and the error that the system would give. */
static const struct {
    enum fault_kind kind;
    int error;
    const char *name;
} faults[] = {
    { FAULT_WRITE, ENOSPC, "write" },
    { FAULT_WRITE, EIO, "write" },
    { FAULT_SYNC, EIO, "sync" },
    { FAULT_RESIZE, ENOSPC, "resize" },
    { FAULT_MAP, ENOMEM, "map" },
#if FAULT_HAS_MEMORY
    { FAULT_MEMORY, ENOMEM, "memory" },
#endif
};

static const unsigned env_kinds[] = { 0, MDB_WRITEMAP, MDB_NOTLS | MDB_NOMETASYNC };

/* ==== A state that shows whether it is whole =============================
 * All records hold the number of the generation that wrote them. Nothing here allocates: that would be struck too. */

enum { RECORDS = 60, VALUES = 300, LARGE_SIZE = 30000 };

struct handles {
    MDB_dbi plain, dup;
};

static int handles_open(MDB_txn *txn, unsigned flags, struct handles *handles)
{
    int rc = mdb_dbi_open(txn, "plain", flags, &handles->plain);

    return rc == MDB_SUCCESS ? mdb_dbi_open(txn, "dup", flags != 0 ? flags | MDB_DUPSORT : 0, &handles->dup) : rc;
}

static int generation_records(MDB_txn *txn, const struct handles *handles, unsigned generation)
{
    unsigned char bytes[400];
    unsigned i;
    int rc = MDB_SUCCESS;

    for (i = 0; rc == MDB_SUCCESS && i < RECORDS; i++) {
        struct numeral key_text = numeral_of(i), value_text = numeral_of(generation);
        MDB_val key = val_text(key_text.text), data = val_of(bytes, 50 + i * generation % 300);

        memset(bytes, 'x', sizeof(bytes));
        memcpy(bytes, value_text.text, 8);
        rc = mdb_put(txn, handles->plain, &key, &data, 0);
    }
    return rc;
}

static int generation_values(MDB_txn *txn, const struct handles *handles, unsigned generation)
{
    MDB_val key = val_text("set"), data;
    MDB_cursor *cursor;
    unsigned i;
    int rc = mdb_del(txn, handles->dup, &key, NULL);

    if (rc != MDB_SUCCESS && rc != MDB_NOTFOUND)
        return rc;
    if ((rc = mdb_cursor_open(txn, handles->dup, &cursor)) != MDB_SUCCESS)
        return rc;
    for (i = 0; rc == MDB_SUCCESS && i < VALUES; i++) {
        char text[32];

        snprintf(text, sizeof(text), "%08u%08u", generation, i * 7 % VALUES);
        data = val_of(text, 16);
        rc = mdb_cursor_put(cursor, &key, &data, 0);
    }
    mdb_cursor_close(cursor);
    return rc;
}

static int generation_large(MDB_txn *txn, const struct handles *handles, unsigned generation)
{
    MDB_val key = val_text("large"), data = { LARGE_SIZE, NULL };
    int rc = mdb_put(txn, handles->plain, &key, &data, MDB_RESERVE);

    if (rc == MDB_SUCCESS)
        memset(data.mv_data, (int)generation, LARGE_SIZE);
    return rc;
}

/* A part of the work in a nested transaction, which another one, that aborts, precedes. */
static int generation_nested(MDB_env *env, MDB_txn *parent, const struct handles *handles, unsigned generation)
{
    MDB_txn *child;
    int rc;

    if ((rc = mdb_txn_begin(env, parent, 0, &child)) != MDB_SUCCESS)
        return rc;
    rc = generation_records(child, handles, generation + 1000);
    mdb_txn_abort(child);
    if (rc != MDB_SUCCESS || (rc = mdb_txn_begin(env, parent, 0, &child)) != MDB_SUCCESS)
        return rc;
    rc = generation_values(child, handles, generation);
    if (rc == MDB_SUCCESS)
        return mdb_txn_commit(child);
    mdb_txn_abort(child);
    return rc;
}

/* A whole write transaction; always ended. */
static int generation_write(MDB_env *env, unsigned generation)
{
    struct handles handles;
    MDB_txn *txn;
    int rc = mdb_txn_begin(env, NULL, 0, &txn);

    if (rc != MDB_SUCCESS)
        return rc;
    rc = handles_open(txn, MDB_CREATE, &handles);
    if (rc == MDB_SUCCESS)
        rc = generation_records(txn, &handles, generation);
    if (rc == MDB_SUCCESS)
        rc = generation_nested(env, txn, &handles, generation);
    if (rc == MDB_SUCCESS)
        rc = generation_large(txn, &handles, generation);
    if (rc == MDB_SUCCESS)
        return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return rc;
}

/* That all is of one generation; *generation tells which. Gives the code of the first call that failed. */
static int generation_read(MDB_env *env, unsigned *generation)
{
    struct handles handles;
    MDB_val key, data;
    MDB_cursor *cursor = NULL;
    MDB_txn *txn;
    unsigned i;
    int rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);

    if (rc != MDB_SUCCESS)
        return rc;
    if ((rc = handles_open(txn, 0, &handles)) != MDB_SUCCESS)
        goto done;
    key = val_text("large");
    if ((rc = mdb_get(txn, handles.plain, &key, &data)) != MDB_SUCCESS)
        goto done;
    CHECK_EQ(data.mv_size, LARGE_SIZE);
    *generation = *(unsigned char *)data.mv_data;
    CHECK_EQ(((unsigned char *)data.mv_data)[LARGE_SIZE - 1], *generation);
    for (i = 0; i < RECORDS; i++) {
        struct numeral key_text = numeral_of(i), value_text = numeral_of(*generation);

        key = val_text(key_text.text);
        if ((rc = mdb_get(txn, handles.plain, &key, &data)) != MDB_SUCCESS)
            goto done;
        CHECK_EQ(data.mv_size, 50 + i * *generation % 300);
        CHECK(memcmp(data.mv_data, value_text.text, 8) == 0);
    }
    if ((rc = mdb_cursor_open(txn, handles.dup, &cursor)) != MDB_SUCCESS)
        goto done;
    for (i = 0; i < VALUES; i++) {
        char text[32];

        if ((rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)) != MDB_SUCCESS)
            goto done;
        snprintf(text, sizeof(text), "%08u%08u", *generation, i);
        CHECK_VAL(&data, text, 16);
    }
    CHECK_RC(mdb_cursor_get(cursor, &key, &data, MDB_NEXT), MDB_NOTFOUND);
done:
    mdb_cursor_close(cursor);
    mdb_txn_abort(txn);
    return rc;
}

/* Opens without the harness, which allocates. */
static int env_open_plainly(const char *dir, unsigned flags, MDB_env **out)
{
    MDB_env *env;
    int rc = mdb_env_create(&env);

    if (rc != MDB_SUCCESS)
        return rc;
    rc = mdb_env_set_mapsize(env, SCENE_MAP_SIZE);
    if (rc == MDB_SUCCESS)
        rc = mdb_env_set_maxdbs(env, SCENE_DBS);
    if (rc == MDB_SUCCESS)
        rc = mdb_env_set_pagesize(env, (int)test_page_size());
    if (rc == MDB_SUCCESS)
        rc = mdb_env_open(env, dir, flags, 0644);
    if (rc == MDB_SUCCESS)
        *out = env;
    else
        mdb_env_close(env);
    return rc;
}

static unsigned generation_now(MDB_env *env)
{
    unsigned generation = 0;

    CHECK_OK(generation_read(env, &generation));
    return generation;
}

/* Whether a call that was struck may have given this code. */
static int is_code_of(int rc, int error)
{
    return rc == error || rc == MDB_PANIC || rc == MDB_BAD_TXN || (error == ENOMEM && rc == MDB_TLS_FULL);
}

/* One series of faults: of a kind, on an environment of a kind; only one call fails, or all behind it too. */
struct series {
    size_t fault;
    unsigned env_flags;
    int lasting;
    unsigned number, count;     /* the call that fails; how many there were */
};

static void series_set(const struct series *series)
{
    fault_set(faults[series->fault].kind, series->number, faults[series->fault].error);
    fault.lasting = series->lasting;
}

/* Ends the fault. Gives 0 if none struck: then the series is through, and the call must have succeeded. */
static int series_end(struct series *series, int rc)
{
    series->count = fault_end();
    test_note("flags %#x, %s error %d, lasting %d, call %u of %u, gave %d", series->env_flags,
              faults[series->fault].name, faults[series->fault].error, series->lasting, series->number, series->count,
              rc);
    if (series->count < series->number) {
        CHECK_OK(rc);
        return 0;
    }
    CHECK(rc == MDB_SUCCESS || is_code_of(rc, faults[series->fault].error));
    return 1;
}

typedef void series_function(struct series *series);

static void every_series(series_function *run)
{
    struct series series;
    size_t kind;

    for (series.fault = 0; series.fault < ARRAY_COUNT(faults); series.fault++) {
        for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
            for (series.lasting = 0; series.lasting < 2; series.lasting++) {
                series.env_flags = env_kinds[kind];
                series.number = 1;
                run(&series);
            }
        }
    }
}

/* ==== Creating and opening =============================================== */

static void create_under(struct series *series)
{
    long before = 0;
    int more = 1;

    for (; more; series->number++) {
        char *dir = temp_dir_make();
        MDB_env *env;
        int rc;

        series_set(series);
        rc = env_open_plainly(dir, series->env_flags, &env);
        more = series_end(series, rc);
        if (rc == MDB_SUCCESS)
            mdb_env_close(env);
        /* Whatever was left: the next one completes it. */
        CHECK_OK(env_open_plainly(dir, series->env_flags, &env));
        CHECK_OK(generation_write(env, 1));
        CHECK_EQ(generation_now(env), 1);
        mdb_env_close(env);
        run_check_tool(dir);
        temp_dir_remove(dir);
        if (series->number > 1)
            CHECK_EQ(fault_blocks_live(), before);
        before = fault_blocks_live();
    }
}

TEST(creation_that_fails_leaves_nothing_or_what_the_next_open_completes)
{
    every_series(create_under);
}

/* The writes of a creation are cut short, and then one fails: what a full disk does. */
TEST(creation_cut_short_is_completed_by_the_next_open)
{
    unsigned number, count;

    for (number = 1, count = 1; number <= count; number++) {
        char *dir = temp_dir_make();
        MDB_env *env;
        int rc;

        fault_set(FAULT_WRITE, number, ENOSPC);
        fault.lasting = fault.cut_short = 1;
        rc = env_open_plainly(dir, 0, &env);
        count = fault_end();
        test_note("write %u of %u gave %d", number, count, rc);
        if (rc == MDB_SUCCESS)
            mdb_env_close(env);
        else
            CHECK_RC(rc, ENOSPC);
        CHECK_OK(env_open_plainly(dir, 0, &env));
        CHECK_OK(generation_write(env, 1));
        CHECK_EQ(generation_now(env), 1);
        mdb_env_close(env);
        run_check_tool(dir);
        temp_dir_remove(dir);
    }
}

static void open_under(struct series *series)
{
    char *dir = temp_dir_make();
    MDB_env *env;
    long before = 0;
    unsigned generation = 0;
    int more = 1, rc;

    CHECK_OK(env_open_plainly(dir, series->env_flags, &env));
    CHECK_OK(generation_write(env, 1));
    mdb_env_close(env);
    for (; more; series->number++) {
        series_set(series);
        rc = env_open_plainly(dir, series->env_flags, &env);
        if (rc == MDB_SUCCESS) {
            rc = generation_read(env, &generation);
            mdb_env_close(env);
        }
        more = series_end(series, rc);
        CHECK_OK(env_open_plainly(dir, series->env_flags | MDB_RDONLY, &env));
        CHECK_EQ(generation_now(env), 1);
        mdb_env_close(env);
        if (series->number > 1)
            CHECK_EQ(fault_blocks_live(), before);
        before = fault_blocks_live();
    }
    run_check_tool(dir);
    temp_dir_remove(dir);
}

TEST(open_and_read_that_fail_leave_the_environment_usable)
{
    every_series(open_under);
}

/* ==== Writing ============================================================ */

static void write_under(struct series *series)
{
    char *dir = temp_dir_make();
    MDB_env *env;
    MDB_txn *txn;
    long before = fault_blocks_live();
    unsigned generation = 1, now;
    int more = 1, rc;

    CHECK_OK(env_open_plainly(dir, series->env_flags, &env));
    CHECK_OK(generation_write(env, generation));
    for (; more; series->number++) {
        series_set(series);
        rc = generation_write(env, generation % 200 + 1);
        more = series_end(series, rc);
        if (rc == MDB_SUCCESS) {
            generation = generation % 200 + 1;
            CHECK_EQ(generation_now(env), generation);
            continue;
        }
        rc = mdb_txn_begin(env, NULL, 0, &txn);
        if (rc == MDB_SUCCESS) {
            mdb_txn_abort(txn);
            CHECK_EQ(generation_now(env), generation);
            continue;
        }
        /* What is on the disk is unknown, until one looks. */
        CHECK_RC(rc, MDB_PANIC);
        CHECK_RC(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), MDB_PANIC);
        mdb_env_close(env);
        CHECK_OK(env_open_plainly(dir, series->env_flags, &env));
        now = generation_now(env);
        CHECK(now == generation || now == generation % 200 + 1);
        generation = now;
    }
    CHECK_OK(generation_write(env, 250));
    CHECK_EQ(generation_now(env), 250);
    mdb_env_close(env);
    run_check_tool(dir);
    temp_dir_remove(dir);
    CHECK(fault_blocks_live() <= before);
}

TEST(transaction_that_fails_leaves_the_state_before)
{
    every_series(write_under);
}

/* ==== Killed in the middle of a commit =================================== */

/* What a child is to do, and at which call it dies. */
static struct series dying;
static enum fault_death dying_when;

static void dying_writer(struct parent *parent, const char *path)
{
    MDB_env *env;
    int rc;

    (void)parent;
    CHECK_OK(env_open_plainly(path, dying.env_flags, &env));
    series_set(&dying);
    fault.death = dying_when;
    rc = generation_write(env, 2);
    fault_end();
    /* So many calls there are not. */
    CHECK_OK(rc);
    mdb_env_close(env);
}

/* Runs the child; gives whether it died. */
static int dying_writer_dies(const char *dir)
{
    struct child child = child_start(dying_writer, dir);
    int status;

    child_pipes_close(&child);
    while (waitpid(child.pid, &status, 0) < 0)
        CHECK_EQ(errno, EINTR);
    CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

/* The id of the newest meta page in the file. */
static uint64_t newest_txnid(const char *dir)
{
    struct bytes file = file_read(path_in(dir, "data.mdb"));
    uint64_t ids[2];

    memcpy(&ids[0], file.start + 144, sizeof(ids[0]));
    memcpy(&ids[1], file.start + test_page_size() + 144, sizeof(ids[1]));
    bytes_free(&file);
    return ids[0] > ids[1] ? ids[0] : ids[1];
}

/* A process dies at the n-th call of a commit, for all n, before it or right after it. Another one has the environment
 * open, reads, and writes next; or nobody has, and the next to open it does. */
static void killed_at_every(enum fault_kind kind, unsigned env_flags, int is_open)
{
    static const enum fault_death deaths[] = { DEATH_BEFORE, DEATH_AFTER };
    size_t i;

    for (dying.fault = 0; faults[dying.fault].kind != kind;)
        dying.fault++;
    dying.env_flags = env_flags;
    dying.lasting = 0;
    for (i = 0; i < ARRAY_COUNT(deaths); i++) {
        int died = 1;

        dying_when = deaths[i];
        for (dying.number = 1; died; dying.number++) {
            char *dir = temp_dir_make();
            MDB_env *env;
            MDB_txn *txn;
            unsigned now;

            CHECK_OK(env_open_plainly(dir, env_flags, &env));
            CHECK_OK(generation_write(env, 1));
            if (!is_open)
                mdb_env_close(env);
            died = dying_writer_dies(dir);
            test_note("flags %#x, kind %d, death %d at call %u, open: %d", env_flags, (int)kind, (int)dying_when,
                      dying.number, is_open);
            if (!is_open)
                CHECK_OK(env_open_plainly(dir, env_flags, &env));
            now = generation_now(env);
            CHECK(died ? now == 1 || now == 2 : now == 2);
            /* What the dead one wrote to the end counts, though it did not come to say so. */
            txn = begin_write(env);
            CHECK_EQ(mdb_txn_id(txn), newest_txnid(dir) + 1);
            mdb_txn_abort(txn);
            now = generation_now(env);
            CHECK_EQ(now == 2, newest_txnid(dir) == 2);
            CHECK_OK(generation_write(env, 3));
            CHECK_EQ(generation_now(env), 3);
            CHECK_OK(generation_write(env, 4));
            mdb_env_close(env);
            run_check_tool(dir);
            CHECK_OK(env_open_plainly(dir, env_flags | MDB_RDONLY, &env));
            CHECK_EQ(generation_now(env), 4);
            mdb_env_close(env);
            temp_dir_remove(dir);
        }
    }
}

TEST(writer_killed_at_any_call_of_its_commit_leaves_a_committed_state)
{
    static const enum fault_kind kinds[] = { FAULT_WRITE, FAULT_SYNC };
    size_t i, kind;
    int is_open;

    for (i = 0; i < ARRAY_COUNT(kinds); i++) {
        for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
            for (is_open = 0; is_open < 2; is_open++)
                killed_at_every(kinds[i], env_kinds[kind], is_open);
        }
    }
}

/* ==== Copying ============================================================ */

static void copy_under(struct series *series)
{
    static const unsigned copy_kinds[] = { 0, MDB_CP_COMPACT };
    char *dir = temp_dir_make();
    MDB_env *env, *copy;
    size_t way;

    CHECK_OK(env_open_plainly(dir, series->env_flags, &env));
    CHECK_OK(generation_write(env, 1));
    CHECK_OK(generation_write(env, 2));
    for (way = 0; way < ARRAY_COUNT(copy_kinds); way++) {
        int more = 1;

        for (series->number = 1; more; series->number++) {
            char *copy_dir = temp_dir_make();
            int rc;

            series_set(series);
            rc = mdb_env_copy2(env, copy_dir, copy_kinds[way]);
            more = series_end(series, rc);
            CHECK_EQ(file_exists(path_in(copy_dir, "data.mdb")), rc == MDB_SUCCESS);
            if (rc == MDB_SUCCESS) {
                run_check_tool(copy_dir);
                CHECK_OK(env_open_plainly(copy_dir, 0, &copy));
                CHECK_EQ(generation_now(copy), 2);
                mdb_env_close(copy);
            }
            temp_dir_remove(copy_dir);
            CHECK_EQ(generation_now(env), 2);
        }
    }
    mdb_env_close(env);
    temp_dir_remove(dir);
}

TEST(copy_that_fails_leaves_no_file)
{
    every_series(copy_under);
}

/* ==== Growing the map, dropping, syncing ================================= */

static void grow_under(struct series *series)
{
    char *dir = temp_dir_make();
    MDB_env *env;
    MDB_envinfo info;
    size_t size = SCENE_MAP_SIZE;
    int more = 1, rc;

    CHECK_OK(env_open_plainly(dir, series->env_flags, &env));
    CHECK_OK(generation_write(env, 1));
    for (; more; series->number++) {
        series_set(series);
        rc = mdb_env_set_mapsize(env, size + (1 << 20));
        more = series_end(series, rc);
        if (rc == MDB_SUCCESS)
            size += 1 << 20;
        CHECK_OK(mdb_env_info(env, &info));
        CHECK_EQ(info.me_mapsize, size);
        CHECK_EQ(generation_now(env), series->number % 200);
        CHECK_OK(generation_write(env, (series->number + 1) % 200));
    }
    mdb_env_close(env);
    run_check_tool(dir);
    temp_dir_remove(dir);
}

TEST(map_that_cannot_be_enlarged_stays)
{
    every_series(grow_under);
}

static int drop_all(MDB_env *env)
{
    struct handles handles;
    MDB_txn *txn;
    int rc = mdb_txn_begin(env, NULL, 0, &txn);

    if (rc != MDB_SUCCESS)
        return rc;
    rc = handles_open(txn, 0, &handles);
    if (rc == MDB_SUCCESS)
        rc = mdb_drop(txn, handles.plain, 1);
    if (rc == MDB_SUCCESS)
        rc = mdb_drop(txn, handles.dup, 0);
    if (rc == MDB_SUCCESS)
        return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return rc;
}

static void drop_under(struct series *series)
{
    char *dir = temp_dir_make();
    MDB_env *env;
    unsigned generation = 1;
    int more = 1, rc;

    CHECK_OK(env_open_plainly(dir, series->env_flags, &env));
    CHECK_OK(generation_write(env, 1));
    for (; more; series->number++) {
        series_set(series);
        rc = drop_all(env);
        more = series_end(series, rc);
        if (rc != MDB_SUCCESS) {
            unsigned now = 0;
            int found = generation_read(env, &now);

            if (found == MDB_PANIC) {
                mdb_env_close(env);
                CHECK_OK(env_open_plainly(dir, series->env_flags, &env));
                found = generation_read(env, &now);
                CHECK(found == MDB_SUCCESS || found == MDB_NOTFOUND);
            } else {
                CHECK_OK(found);
            }
            CHECK(found != MDB_SUCCESS || now == generation);
        } else {
            unsigned now;

            CHECK_RC(generation_read(env, &now), MDB_NOTFOUND);
        }
        generation = generation % 200 + 1;
        CHECK_OK(generation_write(env, generation));
    }
    mdb_env_close(env);
    run_check_tool(dir);
    temp_dir_remove(dir);
}

TEST(drop_that_fails_leaves_the_databases)
{
    every_series(drop_under);
}

TEST(sync_that_fails_says_so)
{
    static const unsigned flags[] = {
        MDB_NOSYNC, MDB_NOSYNC | MDB_WRITEMAP, MDB_NOMETASYNC, MDB_WRITEMAP | MDB_MAPASYNC,
    };
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(flags); kind++) {
        char *dir = temp_dir_make();
        MDB_env *env;
        int rc;

        CHECK_OK(env_open_plainly(dir, flags[kind], &env));
        CHECK_OK(generation_write(env, 1));
        fault_set(FAULT_SYNC, 1, EIO);
        fault.lasting = 1;
        rc = mdb_env_sync(env, 1);
        CHECK(fault_end() > 0);
        test_note("flags %#x", flags[kind]);
        CHECK_RC(rc, EIO);
        CHECK_OK(mdb_env_sync(env, 1));
        CHECK_EQ(generation_now(env), 1);
        CHECK_OK(generation_write(env, 2));
        mdb_env_close(env);
        run_check_tool(dir);
        temp_dir_remove(dir);
    }
}

/* ==== Short writes ======================================================= */

TEST(writes_cut_short_are_resumed)
{
    size_t kind;
    unsigned generation;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        char *dir = temp_dir_make(), *copy_dir = temp_dir_make();
        MDB_env *env, *copy;

        fault_set(FAULT_WRITE, 0, 0);
        fault.cut_short = 1;
        CHECK_OK(env_open_plainly(dir, env_kinds[kind], &env));
        for (generation = 1; generation < 6; generation++)
            CHECK_OK(generation_write(env, generation));
        CHECK_OK(mdb_env_copy2(env, copy_dir, 0));
        CHECK(fault_end() > 0);
        CHECK_EQ(generation_now(env), 5);
        mdb_env_close(env);
        run_check_tool(dir);
        CHECK_OK(env_open_plainly(dir, 0, &env));
        CHECK_EQ(generation_now(env), 5);
        mdb_env_close(env);
        CHECK_OK(env_open_plainly(copy_dir, 0, &copy));
        CHECK_EQ(generation_now(copy), 5);
        mdb_env_close(copy);
        temp_dir_remove(copy_dir);
        temp_dir_remove(dir);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(creation_that_fails_leaves_nothing_or_what_the_next_open_completes),
        TEST_ENTRY(creation_cut_short_is_completed_by_the_next_open),
        TEST_ENTRY(open_and_read_that_fail_leave_the_environment_usable),
        TEST_ENTRY(transaction_that_fails_leaves_the_state_before),
        TEST_ENTRY(writer_killed_at_any_call_of_its_commit_leaves_a_committed_state),
        TEST_ENTRY(copy_that_fails_leaves_no_file),
        TEST_ENTRY(map_that_cannot_be_enlarged_stays),
        TEST_ENTRY(drop_that_fails_leaves_the_databases),
        TEST_ENTRY(sync_that_fails_says_so),
        TEST_ENTRY(writes_cut_short_are_resumed),
    };

    return test_main(argc, argv, tests, TEST_COUNT(tests));
}
