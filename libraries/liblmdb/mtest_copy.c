/* Copies: of every kind of environment, plain and compact, to a path, a file and a pipe, while others write. */
#include "mtest_common.h"

/* For the thread sanitizer: a plain copy takes all pages as they are, also those that its snapshot does not show, into
 * which a writer with MDB_WRITEMAP may be writing. What of them the copy gets does not matter. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:copy_plain\n";
}

/* ==== An environment with everything in it =============================== */

static const struct {
    const char *name;
    unsigned flags;
} copied[] = {
    { "plain", 0 },
    { "reversed", MDB_REVERSEKEY },
    { "integers", MDB_INTEGERKEY },
    { "dup", MDB_DUPSORT },
    { "fixed", MDB_DUPSORT | MDB_DUPFIXED },
    { "integers of integers", MDB_INTEGERKEY | MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP },
    { "large", 0 },
    { "empty", 0 },
};

static void copied_fill(MDB_txn *txn, size_t which, MDB_dbi dbi, unsigned first, unsigned count)
{
    unsigned char bytes[200];
    unsigned i, k;

    for (i = first; i < first + count; i++) {
        struct numeral numeral = numeral_of(i);
        size_t integer = i * 1000;
        MDB_val key = copied[which].flags & MDB_INTEGERKEY ? val_of(&integer, sizeof(integer)) : val_text(numeral.text);
        /* Mostly a few values; under some keys more than a page of them. */
        unsigned values = copied[which].flags & MDB_DUPSORT ? (i % 50 == 7 ? 800 : 1 + i % 4) : 1;

        if (strcmp(copied[which].name, "large") == 0) {
            if (i % 10 == 0)
                put_numbers(txn, dbi, i, 1, 1000 + i * 77);
            continue;
        }
        for (k = 0; k < values; k++) {
            MDB_val data = val_of(bytes, copied[which].flags & MDB_DUPFIXED ? 8 : 20 + i % 100);
            size_t number = k * 3 + i;

            pattern_fill(bytes, sizeof(bytes), i);
            memcpy(bytes, &number, sizeof(number));
            CHECK_OK(mdb_put(txn, dbi, &key, &data, 0));
        }
    }
}

/* All kinds of databases, with free pages between: what was put twice, and dropped. */
static MDB_env *copied_env(const char *path, unsigned env_flags)
{
    MDB_env *env = env_open_new(path, env_flags, SCENE_MAP_SIZE, SCENE_DBS);
    MDB_txn *txn = begin_write(env);
    MDB_dbi dbi;
    size_t i;

    for (i = 0; i < ARRAY_COUNT(copied); i++) {
        dbi = dbi_of(txn, copied[i].name, copied[i].flags | MDB_CREATE);
        if (strcmp(copied[i].name, "empty") != 0)
            copied_fill(txn, i, dbi, 0, 400);
    }
    dbi = dbi_of(txn, "dropped", MDB_CREATE);
    put_numbers(txn, dbi, 0, 300, 3000);
    CHECK_OK(put_text(txn, dbi_of(txn, NULL, 0), "plain record", "of the main database", 0));
    CHECK_OK(mdb_txn_commit(txn));
    txn = begin_write(env);
    CHECK_OK(mdb_drop(txn, dbi, 1));
    for (i = 0; i < ARRAY_COUNT(copied); i++) {
        if (strcmp(copied[i].name, "empty") != 0)
            copied_fill(txn, i, dbi_of(txn, copied[i].name, 0), 200, 50);
    }
    CHECK_OK(mdb_txn_commit(txn));
    return env;
}

static void check_same_database(MDB_txn *first_txn, MDB_txn *second_txn, const char *name)
{
    MDB_dbi first = dbi_of(first_txn, name, 0), second = dbi_of(second_txn, name, 0);
    MDB_cursor *cursors[2];
    MDB_val key, data, other_key, other_data;
    MDB_stat first_stat, second_stat;
    unsigned first_flags, second_flags;

    test_note("database %s", name != NULL ? name : "main");
    CHECK_OK(mdb_dbi_flags(first_txn, first, &first_flags));
    CHECK_OK(mdb_dbi_flags(second_txn, second, &second_flags));
    CHECK_EQ(second_flags, first_flags);
    CHECK_OK(mdb_stat(first_txn, first, &first_stat));
    CHECK_OK(mdb_stat(second_txn, second, &second_stat));
    CHECK(memcmp(&first_stat, &second_stat, sizeof(first_stat)) == 0);
    CHECK_OK(mdb_cursor_open(first_txn, first, &cursors[0]));
    CHECK_OK(mdb_cursor_open(second_txn, second, &cursors[1]));
    while (mdb_cursor_get(cursors[0], &key, &data, MDB_NEXT) == MDB_SUCCESS) {
        CHECK_OK(mdb_cursor_get(cursors[1], &other_key, &other_data, MDB_NEXT));
        CHECK_VAL(&other_key, key.mv_data, key.mv_size);
        CHECK_EQ(other_data.mv_size, data.mv_size);
        /* A record of the main database names the root of its tree, which a compact copy moves. */
        if (name != NULL || data.mv_size != 48)
            CHECK_VAL(&other_data, data.mv_data, data.mv_size);
    }
    CHECK_RC(mdb_cursor_get(cursors[1], &other_key, &other_data, MDB_NEXT), MDB_NOTFOUND);
    mdb_cursor_close(cursors[0]);
    mdb_cursor_close(cursors[1]);
    walk_both(second_txn, second);
    test_state.note[0] = '\0';
}

/* The copy holds what the environment does, is sound, and can be written. */
static void check_copy(MDB_env *env, const char *copy_path, unsigned copy_flags, unsigned env_flags)
{
    unsigned subdir = env_flags & MDB_NOSUBDIR;
    MDB_env *copy;
    MDB_txn *txns[2];
    MDB_envinfo info, copy_info;
    size_t i;

    run_check_tool(copy_path);
    copy = env_open_again(copy_path, subdir, 0, SCENE_DBS);
    txns[0] = begin_read(env);
    txns[1] = begin_read(copy);
    for (i = 0; i < ARRAY_COUNT(copied); i++)
        check_same_database(txns[0], txns[1], copied[i].name);
    check_same_database(txns[0], txns[1], NULL);
    mdb_txn_abort(txns[0]);
    mdb_txn_abort(txns[1]);
    CHECK_OK(mdb_env_info(env, &info));
    CHECK_OK(mdb_env_info(copy, &copy_info));
    CHECK_EQ(copy_info.me_mapsize, info.me_mapsize);
    if (copy_flags & MDB_CP_COMPACT)
        CHECK(copy_info.me_last_pgno < info.me_last_pgno);
    else
        CHECK_EQ(copy_info.me_last_pgno, info.me_last_pgno);
    txns[1] = begin_write(copy);
    for (i = 0; i < ARRAY_COUNT(copied); i++)
        copied_fill(txns[1], i, dbi_of(txns[1], copied[i].name, 0), 380, 60);
    CHECK_OK(mdb_txn_commit(txns[1]));
    mdb_env_close(copy);
    run_check_tool(copy_path);
}

static const unsigned copy_kinds[] = { 0, MDB_CP_COMPACT };

TEST(copies_of_every_kind_of_environment_hold_the_same)
{
    static const unsigned env_kinds[] = {
        0, MDB_NOTLS, MDB_WRITEMAP, MDB_NOLOCK, MDB_NOSUBDIR, MDB_NOSYNC | MDB_NOMEMINIT, MDB_NORDAHEAD,
        MDB_WRITEMAP | MDB_MAPASYNC,
    };
    size_t kind, way;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        char *dir = temp_dir_make();
        char path[4096];
        MDB_env *env;

        snprintf(path, sizeof(path), "%s%s", dir, env_kinds[kind] & MDB_NOSUBDIR ? "/file" : "");
        env = copied_env(path, env_kinds[kind]);
        for (way = 0; way < ARRAY_COUNT(copy_kinds); way++) {
            char *copy_dir = temp_dir_make();
            char copy_path[4096];

            snprintf(copy_path, sizeof(copy_path), "%s%s", copy_dir, env_kinds[kind] & MDB_NOSUBDIR ? "/copy" : "");
            CHECK_OK(mdb_env_copy2(env, copy_path, copy_kinds[way]));
            CHECK(!file_exists(path_in(copy_dir, env_kinds[kind] & MDB_NOSUBDIR ? "copy-lock" : "lock.mdb")));
            check_copy(env, copy_path, copy_kinds[way], env_kinds[kind]);
            temp_dir_remove(copy_dir);
        }
        mdb_env_close(env);
        temp_dir_remove(dir);
    }
}

TEST(copy_without_flags_is_a_plain_copy)
{
    char *dir = temp_dir_make(), *copy_dir = temp_dir_make();
    MDB_env *env = copied_env(dir, MDB_NOSYNC);

    CHECK_OK(mdb_env_copy(env, copy_dir));
    check_copy(env, copy_dir, 0, 0);
    mdb_env_close(env);
    temp_dir_remove(copy_dir);
    temp_dir_remove(dir);
}

TEST(environment_opened_for_reading_can_be_copied)
{
    size_t way;

    for (way = 0; way < ARRAY_COUNT(copy_kinds); way++) {
        char *dir = temp_dir_make(), *copy_dir = temp_dir_make();
        MDB_env *env = copied_env(dir, MDB_NOSYNC);

        mdb_env_close(env);
        env = env_open_again(dir, MDB_RDONLY, 0, SCENE_DBS);
        CHECK_OK(mdb_env_copy2(env, copy_dir, copy_kinds[way]));
        check_copy(env, copy_dir, copy_kinds[way], 0);
        mdb_env_close(env);
        temp_dir_remove(copy_dir);
        temp_dir_remove(dir);
    }
}

TEST(compact_copy_has_no_free_pages)
{
    char *dir = temp_dir_make(), *copy_dir = temp_dir_make(), *again_dir = temp_dir_make();
    MDB_env *env = copied_env(dir, MDB_NOSYNC), *copy;
    MDB_txn *txn;
    MDB_stat stat;

    CHECK_OK(mdb_env_copy2(env, copy_dir, MDB_CP_COMPACT));
    mdb_env_close(env);
    copy = env_open_again(copy_dir, 0, 0, SCENE_DBS);
    txn = begin_read(copy);
    CHECK_OK(mdb_stat(txn, 0, &stat));
    CHECK_EQ(stat.ms_entries, 0);
    mdb_txn_abort(txn);
    /* So a compact copy of it is as large. */
    CHECK_OK(mdb_env_copy2(copy, again_dir, MDB_CP_COMPACT));
    CHECK_EQ(file_size(path_in(again_dir, "data.mdb")), file_size(path_in(copy_dir, "data.mdb")));
    mdb_env_close(copy);
    temp_dir_remove(again_dir);
    temp_dir_remove(copy_dir);
    temp_dir_remove(dir);
}

TEST(environment_of_records_in_the_main_database_only_is_copied)
{
    static const unsigned kinds[] = { 0, MDB_DUPSORT, MDB_INTEGERKEY, MDB_DUPSORT | MDB_DUPFIXED };
    size_t kind, way;

    for (kind = 0; kind < ARRAY_COUNT(kinds); kind++) {
        for (way = 0; way < ARRAY_COUNT(copy_kinds); way++) {
            char *dir = temp_dir_make(), *copy_dir = temp_dir_make();
            MDB_env *env = env_open_new(dir, MDB_NOSYNC, SCENE_MAP_SIZE, 0), *copy;
            MDB_txn *txns[2] = { begin_write(env), NULL };
            MDB_dbi dbi = dbi_of(txns[0], NULL, kinds[kind]);
            unsigned i;

            for (i = 0; i < 500; i++) {
                struct numeral key = numeral_of(kinds[kind] & MDB_DUPSORT ? i / 100 : i);

                CHECK_OK(put_text(txns[0], dbi, key.text, numeral_of(i).text, 0));
            }
            CHECK_OK(mdb_txn_commit(txns[0]));
            CHECK_OK(mdb_env_copy2(env, copy_dir, copy_kinds[way]));
            run_check_tool(copy_dir);
            copy = env_open_again(copy_dir, 0, 0, 0);
            txns[0] = begin_read(env);
            txns[1] = begin_read(copy);
            check_same_database(txns[0], txns[1], NULL);
            mdb_txn_abort(txns[0]);
            mdb_txn_abort(txns[1]);
            mdb_env_close(env);
            mdb_env_close(copy);
            temp_dir_remove(copy_dir);
            temp_dir_remove(dir);
        }
    }
}

TEST(database_in_an_order_of_the_callers_is_copied)
{
    /* Any order will do: a copy does not compare. Here the records stand in the reversed one. */
    size_t way;

    for (way = 0; way < ARRAY_COUNT(copy_kinds); way++) {
        char *dir = temp_dir_make(), *copy_dir = temp_dir_make();
        struct scene scene = { .dir = dir, .env = env_open_new(dir, MDB_NOSYNC, SCENE_MAP_SIZE, SCENE_DBS) };
        MDB_env *copy;
        MDB_txn *txn;
        MDB_cursor *cursor;
        MDB_val key, data;
        unsigned i;

        scene.txn = begin_write(scene.env);
        scene.dbi = dbi_of(scene.txn, "data", MDB_CREATE | MDB_REVERSEKEY);
        put_numbers(scene.txn, scene.dbi, 0, 1000, 30);
        CHECK_OK(mdb_txn_commit(scene.txn));
        CHECK_OK(mdb_env_copy2(scene.env, copy_dir, copy_kinds[way]));
        mdb_env_close(scene.env);
        copy = env_open_again(copy_dir, 0, 0, SCENE_DBS);
        txn = begin_read(copy);
        CHECK_OK(mdb_cursor_open(txn, dbi_of(txn, "data", 0), &cursor));
        for (i = 0; i < 1000; i++)
            CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
        CHECK_VAL_TEXT(&key, "00000999");
        mdb_cursor_close(cursor);
        mdb_txn_abort(txn);
        mdb_env_close(copy);
        temp_dir_remove(copy_dir);
        temp_dir_remove(dir);
    }
}

/* ==== To descriptors ===================================================== */

TEST(copy_to_a_file_begins_where_it_stands)
{
    size_t way;

    for (way = 0; way < ARRAY_COUNT(copy_kinds); way++) {
        char *dir = temp_dir_make(), *copy_dir = temp_dir_make();
        MDB_env *env = copied_env(dir, MDB_NOSYNC);
        const char *path = path_in(copy_dir, "data.mdb");
        struct bytes bytes;
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

        CHECK(fd >= 0);
        if (way == 0)
            CHECK_OK(mdb_env_copyfd(env, fd));
        else
            CHECK_OK(mdb_env_copyfd2(env, fd, copy_kinds[way]));
        CHECK_EQ(close(fd), 0);
        check_copy(env, copy_dir, copy_kinds[way], 0);

        fd = open(path_in(copy_dir, "later"), O_WRONLY | O_CREAT | O_EXCL, 0600);
        CHECK(fd >= 0);
        CHECK_EQ(write(fd, "header", 6), 6);
        CHECK_OK(mdb_env_copyfd2(env, fd, copy_kinds[way]));
        CHECK_EQ(close(fd), 0);
        bytes = file_read(path_in(copy_dir, "later"));
        CHECK(memcmp(bytes.start, "header", 6) == 0);
        CHECK_EQ(unlink(path_in(copy_dir, "data.mdb")), 0);
        CHECK_EQ(unlink(path_in(copy_dir, "lock.mdb")), 0);
        file_write(path_in(copy_dir, "data.mdb"), bytes.start + 6, bytes.size - 6);
        bytes_free(&bytes);
        check_copy(env, copy_dir, copy_kinds[way], 0);
        mdb_env_close(env);
        temp_dir_remove(copy_dir);
        temp_dir_remove(dir);
    }
}

struct piped {
    int fd;
    unsigned char *bytes;
    size_t size;
};

static void *pipe_reader(void *argument)
{
    struct piped *piped = argument;
    ssize_t size;

    while ((size = read(piped->fd, piped->bytes + piped->size, 7001)) > 0)
        piped->size += (size_t)size;
    return NULL;
}

TEST(copy_goes_through_a_pipe)
{
    size_t way;

    for (way = 0; way < ARRAY_COUNT(copy_kinds); way++) {
        char *dir = temp_dir_make(), *copy_dir = temp_dir_make();
        MDB_env *env = copied_env(dir, MDB_NOSYNC);
        struct piped piped = { .bytes = malloc((size_t)128 << 20) };
        pthread_t thread;
        int ends[2];

        CHECK(piped.bytes != NULL);
        CHECK_EQ(pipe(ends), 0);
        piped.fd = ends[0];
        CHECK_EQ(pthread_create(&thread, NULL, pipe_reader, &piped), 0);
        CHECK_OK(mdb_env_copyfd2(env, ends[1], copy_kinds[way]));
        close(ends[1]);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        close(ends[0]);
        file_write(path_in(copy_dir, "data.mdb"), piped.bytes, piped.size);
        free(piped.bytes);
        check_copy(env, copy_dir, copy_kinds[way], 0);
        mdb_env_close(env);
        temp_dir_remove(copy_dir);
        temp_dir_remove(dir);
    }
}

TEST(copy_reports_descriptors_that_do_not_serve)
{
    char *dir = temp_dir_make();
    MDB_env *env = copied_env(dir, MDB_NOSYNC);
    MDB_txn *txn;
    int ends[2];
    size_t way;

    signal(SIGPIPE, SIG_IGN);
    for (way = 0; way < ARRAY_COUNT(copy_kinds); way++) {
        CHECK_RC(mdb_env_copyfd2(env, -1, copy_kinds[way]), EBADF);
        CHECK_EQ(pipe(ends), 0);
        close(ends[0]);
        CHECK_RC(mdb_env_copyfd2(env, ends[1], copy_kinds[way]), EPIPE);
        close(ends[1]);
    }
    txn = begin_read(env);
    CHECK_EQ(entries_count(txn, dbi_of(txn, "plain", 0)), 400);
    mdb_txn_abort(txn);
    mdb_env_close(env);
    temp_dir_remove(dir);
}

/* ==== What must not be copied over ======================================= */

TEST(copy_refuses_existing_files_and_missing_directories)
{
    size_t way;

    for (way = 0; way < ARRAY_COUNT(copy_kinds); way++) {
        char *dir = temp_dir_make(), *copy_dir = temp_dir_make(), path[4096];
        MDB_env *env = copied_env(dir, MDB_NOSYNC);
        struct bytes before = file_read(path_in(dir, "data.mdb")), after;

        CHECK_RC(mdb_env_copy2(env, dir, copy_kinds[way]), EEXIST);
        after = file_read(path_in(dir, "data.mdb"));
        CHECK_EQ(after.size, before.size);
        CHECK(memcmp(after.start, before.start, before.size) == 0);
        CHECK_RC(mdb_env_copy2(env, path_in(copy_dir, "missing"), copy_kinds[way]), ENOENT);
        CHECK_OK(mdb_env_copy2(env, copy_dir, copy_kinds[way]));
        CHECK_RC(mdb_env_copy2(env, copy_dir, copy_kinds[way]), EEXIST);
        run_check_tool(copy_dir);
        bytes_free(&before);
        bytes_free(&after);
        mdb_env_close(env);

        snprintf(path, sizeof(path), "%s/single", copy_dir);
        env = copied_env(path, MDB_NOSUBDIR | MDB_NOSYNC);
        CHECK_RC(mdb_env_copy2(env, path, copy_kinds[way]), EEXIST);
        CHECK_RC(mdb_env_copy2(env, path_in(copy_dir, "data.mdb"), copy_kinds[way]), EEXIST);
        mdb_env_close(env);
        run_check_tool(path);
        temp_dir_remove(copy_dir);
        temp_dir_remove(dir);
    }
}

/* A copy has a reader of its own, also where a thread can have but one. */
TEST(copy_works_beside_a_reader_of_the_same_thread)
{
    static const unsigned env_kinds[] = { MDB_NOSYNC, MDB_NOSYNC | MDB_NOTLS };
    size_t kind, way;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        for (way = 0; way < ARRAY_COUNT(copy_kinds); way++) {
            char *dir = temp_dir_make(), *copy_dir = temp_dir_make();
            MDB_env *env = copied_env(dir, env_kinds[kind]);
            MDB_txn *txn = begin_read(env);

            CHECK_OK(mdb_env_copy2(env, copy_dir, copy_kinds[way]));
            CHECK_EQ(walk_both(txn, dbi_of(txn, "plain", 0)), 400);
            mdb_txn_abort(txn);
            check_copy(env, copy_dir, copy_kinds[way], 0);
            mdb_env_close(env);
            temp_dir_remove(copy_dir);
            temp_dir_remove(dir);
        }
    }
}

/* ==== While others write ================================================= */

enum { BUSY_RECORDS = 400 };

struct busy {
    MDB_env *env;
    MDB_dbi dbi;
    atomic_int done;
};

/* All records get the number of the commit, and a length that depends on it. */
static void busy_commit(struct busy *busy, unsigned number)
{
    MDB_txn *txn = begin_write(busy->env);
    unsigned i;

    for (i = 0; i < BUSY_RECORDS; i++) {
        struct numeral numeral = numeral_of(i);
        unsigned char bytes[9000];
        size_t size = i % 50 == 3 ? 9000 - number % 5000 : 8 + (number * 13 + i) % 300;
        MDB_val key = val_text(numeral.text), data = val_of(bytes, size);

        memset(bytes, (int)number, sizeof(bytes));
        memcpy(bytes, numeral_of(number).text, 8);
        if ((number + i) % 9 == 0 && i % 50 != 3)
            mdb_del(txn, busy->dbi, &key, NULL);
        else
            CHECK_OK(mdb_put(txn, busy->dbi, &key, &data, 0));
    }
    CHECK_OK(mdb_txn_commit(txn));
}

static void busy_check(const char *copy_dir)
{
    MDB_env *env = env_open_again(copy_dir, MDB_RDONLY, 0, SCENE_DBS);
    MDB_txn *txn = begin_read(env);
    MDB_cursor *cursor;
    MDB_val key, data;
    char first[9] = "";
    unsigned count = 0;

    CHECK_OK(mdb_cursor_open(txn, dbi_of(txn, "busy", 0), &cursor));
    while (mdb_cursor_get(cursor, &key, &data, MDB_NEXT) == MDB_SUCCESS) {
        if (count++ == 0)
            memcpy(first, data.mv_data, 8);
        CHECK(memcmp(data.mv_data, first, 8) == 0);
        CHECK(data.mv_size == 8 || ((unsigned char *)data.mv_data)[data.mv_size - 1] == (unsigned char)atoi(first));
    }
    CHECK(count > BUSY_RECORDS / 2);
    mdb_cursor_close(cursor);
    mdb_txn_abort(txn);
    mdb_env_close(env);
}

static void *busy_writer(void *argument)
{
    struct busy *busy = argument;
    unsigned number;

    for (number = 2; !atomic_load(&busy->done); number++)
        busy_commit(busy, number);
    return NULL;
}

TEST(copies_beside_a_writing_thread_are_snapshots)
{
    static const unsigned env_kinds[] = { MDB_NOSYNC, MDB_NOSYNC | MDB_WRITEMAP };
    size_t kind;
    unsigned i;

    for (kind = 0; kind < ARRAY_COUNT(env_kinds); kind++) {
        char *dir = temp_dir_make();
        struct busy busy = { .env = env_open_new(dir, env_kinds[kind], SCENE_MAP_SIZE, SCENE_DBS) };
        MDB_txn *txn = begin_write(busy.env);
        pthread_t thread;

        busy.dbi = dbi_of(txn, "busy", MDB_CREATE);
        CHECK_OK(mdb_txn_commit(txn));
        busy_commit(&busy, 1);
        CHECK_EQ(pthread_create(&thread, NULL, busy_writer, &busy), 0);
        for (i = 0; i < 16; i++) {
            char *copy_dir = temp_dir_make();

            CHECK_OK(mdb_env_copy2(busy.env, copy_dir, copy_kinds[i % 2]));
            run_check_tool(copy_dir);
            busy_check(copy_dir);
            temp_dir_remove(copy_dir);
        }
        atomic_store(&busy.done, 1);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(atomic_load(&test_state.failed_checks), 0);
        mdb_env_close(busy.env);
        run_check_tool(dir);
        temp_dir_remove(dir);
    }
}

static void busy_process(struct parent *parent, const char *path)
{
    struct busy busy = { .env = env_open_again(path, MDB_NOSYNC, 0, SCENE_DBS) };
    MDB_txn *txn = begin_write(busy.env);
    unsigned number = 2;

    busy.dbi = dbi_of(txn, "busy", 0);
    CHECK_OK(mdb_txn_commit(txn));
    for (;;) {
        busy_commit(&busy, number++);
        if (number == 5)
            PARENT_SEND(parent, 'w');
    }
}

TEST(copies_beside_a_writing_process_are_snapshots)
{
    char *dir = temp_dir_make();
    struct busy busy = { .env = env_open_new(dir, MDB_NOSYNC, SCENE_MAP_SIZE, SCENE_DBS) };
    MDB_txn *txn = begin_write(busy.env);
    struct child child;
    unsigned i;

    busy.dbi = dbi_of(txn, "busy", MDB_CREATE);
    CHECK_OK(mdb_txn_commit(txn));
    busy_commit(&busy, 1);
    mdb_env_close(busy.env);
    child = child_start(busy_process, dir);
    busy.env = env_open_again(dir, MDB_NOSYNC, 0, SCENE_DBS);
    CHILD_WAIT(&child, 'w');
    for (i = 0; i < 16; i++) {
        char *copy_dir = temp_dir_make();

        CHECK_OK(mdb_env_copy2(busy.env, copy_dir, copy_kinds[i % 2]));
        run_check_tool(copy_dir);
        busy_check(copy_dir);
        temp_dir_remove(copy_dir);
    }
    child_kill(&child);
    mdb_env_close(busy.env);
    run_check_tool(dir);
    temp_dir_remove(dir);
}

/* The copy's own reader must not stay behind, and pages are used again afterwards. */
TEST(copies_leave_no_reader_behind)
{
    struct scene scene;
    MDB_envinfo info;
    size_t pages = 0;
    unsigned i;

    scene_open(&scene, MDB_NOSYNC, 0);
    put_numbers(scene.txn, scene.dbi, 0, 500, 100);
    scene_commit(&scene);
    for (i = 0; i < 30; i++) {
        char *copy_dir = temp_dir_make();

        CHECK_OK(mdb_env_copy2(scene.env, copy_dir, copy_kinds[i % 2]));
        temp_dir_remove(copy_dir);
        put_numbers(scene.txn, scene.dbi, 0, 500, 100);
        scene_commit(&scene);
        CHECK_OK(mdb_env_info(scene.env, &info));
        if (i == 10)
            pages = info.me_last_pgno;
        CHECK(i <= 10 || info.me_last_pgno <= pages + 2);
        CHECK(info.me_numreaders <= 1);
    }
    scene_close(&scene);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(copies_of_every_kind_of_environment_hold_the_same),
        TEST_ENTRY(copy_without_flags_is_a_plain_copy),
        TEST_ENTRY(environment_opened_for_reading_can_be_copied),
        TEST_ENTRY(compact_copy_has_no_free_pages),
        TEST_ENTRY(environment_of_records_in_the_main_database_only_is_copied),
        TEST_ENTRY(database_in_an_order_of_the_callers_is_copied),
        TEST_ENTRY(copy_to_a_file_begins_where_it_stands),
        TEST_ENTRY(copy_goes_through_a_pipe),
        TEST_ENTRY(copy_reports_descriptors_that_do_not_serve),
        TEST_ENTRY(copy_refuses_existing_files_and_missing_directories),
        TEST_ENTRY(copy_works_beside_a_reader_of_the_same_thread),
        TEST_ENTRY(copies_beside_a_writing_thread_are_snapshots),
        TEST_ENTRY(copies_beside_a_writing_process_are_snapshots),
        TEST_ENTRY(copies_leave_no_reader_behind),
    };

    return test_main(argc, argv, tests, TEST_COUNT(tests));
}
