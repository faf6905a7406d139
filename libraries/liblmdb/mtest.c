/* Basics: environments, transactions, databases, reading and writing, and what each call answers to misuse. */
#include "mtest_common.h"

/* ==== Version and errors ================================================= */

TEST(version_is_that_of_the_header)
{
    int major = -1, minor = -1, patch = -1;

    CHECK_TEXT(mdb_version(&major, &minor, &patch), MDB_VERSION_STRING);
    CHECK_EQ(major, MDB_VERSION_MAJOR);
    CHECK_EQ(minor, MDB_VERSION_MINOR);
    CHECK_EQ(patch, MDB_VERSION_PATCH);
    CHECK_EQ(MDB_VERINT(major, minor, patch), MDB_VERSION_FULL);
    CHECK(mdb_version(NULL, NULL, NULL) != NULL);
    CHECK(strncmp(mdb_version(NULL, NULL, NULL), "LMDB-compatible DLMDB 1.1.0", 27) == 0);
}

TEST(every_code_has_a_text_of_its_own)
{
    const char *texts[64];
    int count = 0, code, i;

    CHECK_EQ(MDB_LAST_ERRCODE, MDB_KEYEXIST + 21);
    CHECK(strlen(mdb_strerror(0)) > 0);
    for (code = MDB_KEYEXIST; code <= MDB_LAST_ERRCODE; code++) {
        texts[count] = mdb_strerror(code);
        CHECK(texts[count] != NULL && strlen(texts[count]) > 0);
        for (i = 0; i < count; i++)
            CHECK(strcmp(texts[i], texts[count]) != 0);
        count++;
    }
    CHECK_TEXT(mdb_strerror(ENOENT), strerror(ENOENT));
    CHECK_TEXT(mdb_strerror(EINVAL), strerror(EINVAL));
    CHECK(mdb_strerror(-1) != NULL);
    CHECK(mdb_strerror(MDB_KEYEXIST - 1) != NULL);
    CHECK(mdb_strerror(MDB_LAST_ERRCODE + 1) != NULL);
    CHECK(mdb_strerror(123456) != NULL);
}

/* ==== Environments: arguments and states ================================= */

static int never_called(const char *text, void *context)
{
    (void)text;
    (void)context;
    CHECK(!"called");
    return 0;
}

TEST(environment_calls_refuse_null)
{
    MDB_env *env;
    MDB_stat stat;
    MDB_envinfo info;
    unsigned number;
    int fd;
    const char *path;

    CHECK_RC(mdb_env_create(NULL), EINVAL);
    CHECK_RC(mdb_env_open(NULL, ".", 0, 0644), EINVAL);
    CHECK_RC(mdb_env_copy(NULL, "."), EINVAL);
    CHECK_RC(mdb_env_copy2(NULL, ".", 0), EINVAL);
    CHECK_RC(mdb_env_copyfd(NULL, 1), EINVAL);
    CHECK_RC(mdb_env_copyfd2(NULL, 1, MDB_CP_COMPACT), EINVAL);
    CHECK_RC(mdb_env_stat(NULL, &stat), EINVAL);
    CHECK_RC(mdb_env_info(NULL, &info), EINVAL);
    CHECK_RC(mdb_env_sync(NULL, 1), EINVAL);
    CHECK_RC(mdb_env_set_flags(NULL, MDB_NOSYNC, 1), EINVAL);
    CHECK_RC(mdb_env_get_flags(NULL, &number), EINVAL);
    CHECK_RC(mdb_env_get_path(NULL, &path), EINVAL);
    CHECK_RC(mdb_env_get_fd(NULL, &fd), EINVAL);
    CHECK_RC(mdb_env_set_mapsize(NULL, 1 << 20), EINVAL);
    CHECK_RC(mdb_env_set_pagesize(NULL, 4096), EINVAL);
    CHECK_RC(mdb_env_set_maxreaders(NULL, 1), EINVAL);
    CHECK_RC(mdb_env_get_maxreaders(NULL, &number), EINVAL);
    CHECK_RC(mdb_env_set_maxdbs(NULL, 1), EINVAL);
    CHECK_EQ(mdb_env_get_maxkeysize(NULL), 0);
    CHECK_RC(mdb_env_set_userctx(NULL, &stat), EINVAL);
    CHECK(mdb_env_get_userctx(NULL) == NULL);
    CHECK_RC(mdb_env_set_assert(NULL, NULL), EINVAL);
    CHECK_RC(mdb_reader_check(NULL, NULL), EINVAL);
    CHECK_EQ(mdb_reader_list(NULL, never_called, NULL), -1);
    mdb_env_close(NULL);

    CHECK_OK(mdb_env_create(&env));
    CHECK_RC(mdb_env_open(env, NULL, 0, 0644), EINVAL);
    mdb_env_close(env);

    CHECK_OK(mdb_env_create(&env));
    CHECK_RC(mdb_env_get_flags(env, NULL), EINVAL);
    CHECK_RC(mdb_env_get_path(env, NULL), EINVAL);
    CHECK_RC(mdb_env_get_fd(env, NULL), EINVAL);
    CHECK_RC(mdb_env_get_maxreaders(env, NULL), EINVAL);
    CHECK_RC(mdb_env_set_maxreaders(env, 0), EINVAL);
    mdb_env_close(env);
}

TEST(open_environment_refuses_null_out_arguments)
{
    struct scene scene;

    scene_open(&scene, 0, 0);
    CHECK_RC(mdb_env_stat(scene.env, NULL), EINVAL);
    CHECK_RC(mdb_env_info(scene.env, NULL), EINVAL);
    CHECK_RC(mdb_env_copy(scene.env, NULL), EINVAL);
    CHECK_RC(mdb_env_copy2(scene.env, NULL, 0), EINVAL);
    CHECK_RC(mdb_env_copy2(scene.env, scene.dir, 0x80), EINVAL);
    CHECK_RC(mdb_env_copyfd2(scene.env, 1, 0x80), EINVAL);
    CHECK_EQ(mdb_reader_list(scene.env, NULL, NULL), -1);
    scene_close(&scene);
}

TEST(calls_before_open_give_einval)
{
    MDB_env *env;
    MDB_txn *txn = NULL;
    MDB_stat stat;
    MDB_envinfo info;
    const char *path = "";
    int fd = 0;

    CHECK_OK(mdb_env_create(&env));
    CHECK_RC(mdb_txn_begin(env, NULL, 0, &txn), EINVAL);
    CHECK_RC(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), EINVAL);
    CHECK_RC(mdb_env_stat(env, &stat), EINVAL);
    CHECK_RC(mdb_env_info(env, &info), EINVAL);
    CHECK_RC(mdb_env_sync(env, 1), EINVAL);
    CHECK_RC(mdb_env_copy(env, "."), EINVAL);
    CHECK_RC(mdb_env_copyfd(env, 1), EINVAL);
    CHECK_RC(mdb_reader_check(env, NULL), EINVAL);
    CHECK_EQ(mdb_reader_list(env, never_called, NULL), -1);
    CHECK_OK(mdb_env_get_path(env, &path));
    CHECK(path == NULL);
    CHECK_OK(mdb_env_get_fd(env, &fd));
    CHECK_EQ(fd, -1);
    CHECK(txn == NULL);
    mdb_env_close(env);
}

TEST(settings_after_open_give_einval)
{
    struct scene scene;

    scene_open(&scene, 0, 0);
    CHECK_RC(mdb_env_set_maxreaders(scene.env, 10), EINVAL);
    CHECK_RC(mdb_env_set_maxdbs(scene.env, 10), EINVAL);
    CHECK_RC(mdb_env_set_pagesize(scene.env, 4096), EINVAL);
    CHECK_RC(mdb_env_open(scene.env, scene.dir, 0, 0644), EINVAL);
    scene_close(&scene);
}

TEST(unknown_environment_flags_give_einval)
{
    static const unsigned flags[] = { 0x02, 0x04, 0x08, 0x100, 0x8000, 0x10000000, 0x80000000 };
    char *dir = temp_dir_make();
    size_t i;

    for (i = 0; i < ARRAY_COUNT(flags); i++) {
        MDB_env *env;

        test_note("flags %#x", flags[i]);
        CHECK_OK(mdb_env_create(&env));
        CHECK_RC(mdb_env_set_flags(env, flags[i], 1), EINVAL);
        CHECK_RC(mdb_env_open(env, dir, flags[i], 0644), EINVAL);
        mdb_env_close(env);
        CHECK(!file_exists(path_in(dir, "data.mdb")));
    }
    temp_dir_remove(dir);
}

TEST(open_tells_why_a_path_does_not_serve)
{
    char *dir = temp_dir_make();
    struct {
        const char *path;
        unsigned flags;
        int rc;
    } cases[] = {
        { path_in(dir, "missing"), 0, ENOENT },
        { path_in(dir, "missing"), MDB_RDONLY, ENOENT },
        { path_in(dir, "missing/file"), MDB_NOSUBDIR, ENOENT },
        { dir, MDB_RDONLY, ENOENT },
        { dir, MDB_RDONLY | MDB_NOLOCK, ENOENT },
    };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(cases); i++) {
        MDB_env *env;

        test_note("case %zu", i);
        CHECK_OK(mdb_env_create(&env));
        CHECK_RC(mdb_env_open(env, cases[i].path, cases[i].flags, 0644), cases[i].rc);
        mdb_env_close(env);
        CHECK(!file_exists(path_in(dir, "data.mdb")));
    }
    temp_dir_remove(dir);
}

TEST(handle_after_failed_open_can_only_be_closed)
{
    char *dir = temp_dir_make();
    MDB_env *env;
    MDB_txn *txn;

    CHECK_OK(mdb_env_create(&env));
    CHECK_RC(mdb_env_open(env, path_in(dir, "missing"), 0, 0644), ENOENT);
    CHECK_RC(mdb_txn_begin(env, NULL, 0, &txn), EINVAL);
    mdb_env_close(env);
    temp_dir_remove(dir);
}

/* ==== Environments: settings ============================================= */

TEST(environment_flags_can_be_read_and_changed)
{
    static const unsigned changeable = MDB_NOSYNC | MDB_NOMETASYNC | MDB_MAPASYNC | MDB_NOMEMINIT;
    char *dir = temp_dir_make();
    MDB_env *env;
    unsigned flags = 77, bit;

    CHECK_OK(mdb_env_create(&env));
    CHECK_OK(mdb_env_get_flags(env, &flags));
    CHECK_EQ(flags, 0);
    CHECK_OK(mdb_env_set_flags(env, MDB_NOSYNC, 1));
    CHECK_OK(mdb_env_get_flags(env, &flags));
    CHECK_EQ(flags, MDB_NOSYNC);
    CHECK_OK(mdb_env_open(env, dir, MDB_NOTLS | MDB_WRITEMAP, 0644));
    CHECK_OK(mdb_env_get_flags(env, &flags));
    CHECK_EQ(flags, MDB_NOSYNC | MDB_NOTLS | MDB_WRITEMAP);
    CHECK_OK(mdb_env_set_flags(env, MDB_NOSYNC, 0));
    for (bit = 1; bit != 0; bit <<= 1) {
        int allowed = (bit & changeable) != 0;

        test_note("flag %#x", bit);
        CHECK_RC(mdb_env_set_flags(env, bit, 1), allowed ? MDB_SUCCESS : EINVAL);
        CHECK_OK(mdb_env_get_flags(env, &flags));
        CHECK_EQ(flags, MDB_NOTLS | MDB_WRITEMAP | (allowed ? bit : 0));
        CHECK_RC(mdb_env_set_flags(env, bit, 0), allowed ? MDB_SUCCESS : EINVAL);
        CHECK_OK(mdb_env_get_flags(env, &flags));
        CHECK_EQ(flags, MDB_NOTLS | MDB_WRITEMAP);
    }
    CHECK_RC(mdb_env_set_flags(env, MDB_NOSYNC | MDB_NOTLS, 1), EINVAL);
    CHECK_OK(mdb_env_get_flags(env, &flags));
    CHECK_EQ(flags, MDB_NOTLS | MDB_WRITEMAP);
    mdb_env_close(env);
    temp_dir_remove(dir);
}

TEST(path_and_descriptor_are_those_of_the_data_file)
{
    struct scene scene;
    struct stat by_path, by_fd;
    const char *path;
    int fd;

    scene_open(&scene, 0, 0);
    CHECK_OK(mdb_env_get_path(scene.env, &path));
    CHECK_TEXT(path, scene.dir);
    CHECK_OK(mdb_env_get_fd(scene.env, &fd));
    CHECK_EQ(fstat(fd, &by_fd), 0);
    CHECK_EQ(stat(path_in(scene.dir, "data.mdb"), &by_path), 0);
    CHECK_EQ(by_fd.st_ino, by_path.st_ino);
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    scene_close(&scene);
}

TEST(files_are_made_with_the_mode_less_the_umask)
{
    char *dir = temp_dir_make();
    struct stat status;
    MDB_env *env;
    mode_t mask = umask(027);

    CHECK_OK(mdb_env_create(&env));
    CHECK_OK(mdb_env_open(env, dir, 0, 0666));
    umask(mask);
    CHECK_EQ(stat(path_in(dir, "data.mdb"), &status), 0);
    CHECK_EQ(status.st_mode & 07777, 0640);
    CHECK_EQ(stat(path_in(dir, "lock.mdb"), &status), 0);
    CHECK_EQ(status.st_mode & 07777, 0640);
    mdb_env_close(env);
    temp_dir_remove(dir);
}

TEST(user_context_is_kept)
{
    MDB_env *env;
    int context;

    CHECK_OK(mdb_env_create(&env));
    CHECK(mdb_env_get_userctx(env) == NULL);
    CHECK_OK(mdb_env_set_userctx(env, &context));
    CHECK(mdb_env_get_userctx(env) == &context);
    CHECK_OK(mdb_env_set_userctx(env, NULL));
    CHECK(mdb_env_get_userctx(env) == NULL);
    mdb_env_close(env);
}

static void assert_function(MDB_env *env, const char *text)
{
    (void)env;
    printf("assertion of the library: %s\n", text);
    abort();
}

TEST(assert_callback_can_be_set_and_removed)
{
    MDB_env *env;

    CHECK_OK(mdb_env_create(&env));
    CHECK_OK(mdb_env_set_assert(env, assert_function));
    CHECK_OK(mdb_env_set_assert(env, NULL));
    mdb_env_close(env);
}

TEST(reader_slots_can_be_chosen)
{
    char *dir = temp_dir_make();
    MDB_env *env;
    unsigned readers = 0;

    CHECK_OK(mdb_env_create(&env));
    CHECK_OK(mdb_env_get_maxreaders(env, &readers));
    CHECK_EQ(readers, 126);
    CHECK_OK(mdb_env_set_maxreaders(env, 7));
    CHECK_OK(mdb_env_get_maxreaders(env, &readers));
    CHECK_EQ(readers, 7);
    CHECK_OK(mdb_env_open(env, dir, 0, 0644));
    CHECK_OK(mdb_env_get_maxreaders(env, &readers));
    CHECK_EQ(readers, 7);
    mdb_env_close(env);
    temp_dir_remove(dir);
}

TEST(map_size_is_rounded_to_pages_and_remembered)
{
    char *dir = temp_dir_make();
    size_t system_page = (size_t)sysconf(_SC_PAGESIZE);
    MDB_env *env;
    MDB_envinfo info;
    MDB_txn *txn;
    MDB_dbi dbi;

    env = env_open_new(dir, 0, (size_t)9 << 20, 0);
    CHECK_OK(mdb_env_info(env, &info));
    CHECK_EQ(info.me_mapsize, 9 << 20);
    txn = begin_write(env);
    dbi = dbi_of(txn, NULL, 0);
    CHECK_OK(put_text(txn, dbi, "a", "1", 0));
    CHECK_RC(mdb_env_set_mapsize(env, (size_t)20 << 20), EINVAL);
    CHECK_OK(mdb_txn_commit(txn));
    CHECK_OK(mdb_env_set_mapsize(env, (size_t)20 << 20));
    txn = begin_write(env);
    CHECK_OK(put_text(txn, dbi, "b", "2", 0));
    CHECK_OK(mdb_txn_commit(txn));
    mdb_env_close(env);

    /* Without a size, what the file says. */
    CHECK_OK(mdb_env_create(&env));
    CHECK_OK(mdb_env_open(env, dir, 0, 0644));
    CHECK_OK(mdb_env_info(env, &info));
    CHECK_EQ(info.me_mapsize, 20 << 20);
    CHECK_EQ(info.me_mapsize % system_page, 0);

    /* Never less than what is in use. */
    CHECK_OK(mdb_env_set_mapsize(env, 1));
    CHECK_OK(mdb_env_info(env, &info));
    CHECK(info.me_mapsize >= (info.me_last_pgno + 1) * test_page_size());
    txn = begin_read(env);
    dbi = dbi_of(txn, NULL, 0);
    CHECK_CONTENTS(txn, dbi, "a=1 b=2");
    mdb_txn_abort(txn);
    mdb_env_close(env);
    temp_dir_remove(dir);
}

/* ==== Page sizes ========================================================= */

TEST(page_size_can_be_chosen_for_a_new_environment)
{
    static const struct {
        int size, key_size_max;
    } cases[] = {
        { 512, 190 }, { 1024, 446 }, { 2048, 511 }, { 4096, 511 }, { 8192, 511 }, { 16384, 511 }, { 32768, 511 },
    };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(cases); i++) {
        char *dir = temp_dir_make();
        MDB_env *env;
        MDB_txn *txn;
        MDB_stat stat;
        MDB_dbi dbi;

        test_note("page size %d", cases[i].size);
        env = env_open_sized(dir, 0, (size_t)64 << 20, 0, (unsigned)cases[i].size);
        CHECK_EQ(mdb_env_get_maxkeysize(env), cases[i].key_size_max);
        CHECK_OK(mdb_env_stat(env, &stat));
        CHECK_EQ(stat.ms_psize, cases[i].size);
        txn = begin_write(env);
        dbi = dbi_of(txn, NULL, 0);
        put_numbers(txn, dbi, 0, 500, 100);
        put_numbers(txn, dbi, 500, 3, 100000);
        CHECK_OK(mdb_txn_commit(txn));
        mdb_env_close(env);
        run_check_tool(dir);

        /* The file's page size rules, whatever is asked for. */
        env = env_open_sized(dir, 0, (size_t)64 << 20, 0, 8192);
        CHECK_OK(mdb_env_stat(env, &stat));
        CHECK_EQ(stat.ms_psize, cases[i].size);
        CHECK_EQ(mdb_env_get_maxkeysize(env), cases[i].key_size_max);
        CHECK_EQ(stat.ms_entries, 503);
        txn = begin_write(env);
        check_numbers(txn, dbi, 0, 500, 100);
        check_numbers(txn, dbi, 500, 3, 100000);
        put_numbers(txn, dbi, 600, 100, 50);
        CHECK_OK(mdb_txn_commit(txn));
        mdb_env_close(env);
        run_check_tool(dir);
        temp_dir_remove(dir);
    }
}

TEST(other_page_sizes_give_einval)
{
    static const int sizes[] = { 0, 1, -512, 256, 511, 513, 1000, 4095, 65536, 1 << 30 };
    MDB_env *env;
    size_t i;

    CHECK_OK(mdb_env_create(&env));
    for (i = 0; i < ARRAY_COUNT(sizes); i++) {
        test_note("size %d", sizes[i]);
        CHECK_RC(mdb_env_set_pagesize(env, sizes[i]), EINVAL);
    }
    CHECK_OK(mdb_env_set_pagesize(env, 512));
    CHECK_EQ(mdb_env_get_maxkeysize(env), 190);
    CHECK_OK(mdb_env_set_pagesize(env, 4096));
    CHECK_EQ(mdb_env_get_maxkeysize(env), 511);
    mdb_env_close(env);
}

/* ==== Environments: ways to open ========================================= */

TEST(data_survives_every_combination_of_open_flags)
{
    static const unsigned flags[] = {
        0, MDB_NOSYNC, MDB_NOMETASYNC, MDB_WRITEMAP, MDB_WRITEMAP | MDB_MAPASYNC, MDB_WRITEMAP | MDB_NOSYNC, MDB_NOTLS,
        MDB_NOLOCK, MDB_NORDAHEAD, MDB_NOMEMINIT, MDB_WRITEMAP | MDB_NOMETASYNC, MDB_MAPASYNC,
        MDB_NOSYNC | MDB_NOMETASYNC | MDB_NOTLS | MDB_NOLOCK | MDB_NORDAHEAD | MDB_NOMEMINIT,
    };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(flags); i++) {
        struct scene scene;
        unsigned found;

        test_note("flags %#x", flags[i]);
        scene_open(&scene, flags[i], 0);
        put_numbers(scene.txn, scene.dbi, 0, 300, 100);
        scene_commit(&scene);
        put_numbers(scene.txn, scene.dbi, 300, 10, 20000);
        CHECK_OK(mdb_txn_commit(scene.txn));
        CHECK_OK(mdb_env_sync(scene.env, 0));
        CHECK_OK(mdb_env_sync(scene.env, 1));
        CHECK_OK(mdb_env_get_flags(scene.env, &found));
        CHECK_EQ(found, flags[i]);
        CHECK_EQ(file_exists(path_in(scene.dir, "lock.mdb")), (flags[i] & MDB_NOLOCK) == 0);
        mdb_env_close(scene.env);
        run_check_tool(scene.dir);

        scene.env = env_open_again(scene.dir, flags[i] | MDB_RDONLY, 0, SCENE_DBS);
        scene.txn = begin_read(scene.env);
        scene.dbi = dbi_of(scene.txn, "data", 0);
        check_numbers(scene.txn, scene.dbi, 0, 300, 100);
        check_numbers(scene.txn, scene.dbi, 300, 10, 20000);
        CHECK_EQ(walk_both(scene.txn, scene.dbi), 310);
        mdb_txn_abort(scene.txn);
        mdb_env_close(scene.env);
        temp_dir_remove(scene.dir);
    }
}

TEST(nosubdir_names_the_data_file_itself)
{
    char *dir = temp_dir_make();
    char path[4096];
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;

    snprintf(path, sizeof(path), "%s/some.file", dir);
    env = env_open_new(path, MDB_NOSUBDIR, SCENE_MAP_SIZE, 0);
    txn = begin_write(env);
    dbi = dbi_of(txn, NULL, 0);
    CHECK_OK(put_text(txn, dbi, "a", "1", 0));
    CHECK_OK(mdb_txn_commit(txn));
    mdb_env_close(env);
    CHECK(file_exists(path));
    CHECK(file_exists(path_in(dir, "some.file-lock")));
    run_check_tool(path);
    env = env_open_again(path, MDB_NOSUBDIR | MDB_RDONLY, 0, 0);
    txn = begin_read(env);
    dbi = dbi_of(txn, NULL, 0);
    CHECK_CONTENTS(txn, dbi, "a=1");
    mdb_txn_abort(txn);
    mdb_env_close(env);
    temp_dir_remove(dir);
}

TEST(fixed_map_stays_at_its_address)
{
    struct scene scene;
    MDB_envinfo first, second;
    MDB_val key = val_text("key"), data;
    const void *where;

    scene_open(&scene, MDB_FIXEDMAP, 0);
    CHECK_OK(put_text(scene.txn, scene.dbi, "key", "value", 0));
    CHECK_OK(mdb_txn_commit(scene.txn));
    CHECK_OK(mdb_env_info(scene.env, &first));
    CHECK(first.me_mapaddr != NULL);
    scene.txn = begin_read(scene.env);
    CHECK_OK(mdb_get(scene.txn, scene.dbi, &key, &data));
    where = data.mv_data;
    mdb_txn_abort(scene.txn);
    mdb_env_close(scene.env);

    scene.env = env_open_again(scene.dir, MDB_FIXEDMAP, 0, SCENE_DBS);
    CHECK_OK(mdb_env_info(scene.env, &second));
    CHECK(second.me_mapaddr == first.me_mapaddr);
    scene.txn = begin_write(scene.env);
    CHECK_OK(mdb_dbi_open(scene.txn, "data", 0, &scene.dbi));
    CHECK_OK(mdb_get(scene.txn, scene.dbi, &key, &data));
    CHECK(data.mv_data == where);
    scene_close(&scene);
}

TEST(read_only_environment_refuses_writing)
{
    struct scene scene;
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_stat stat;

    scene_open(&scene, 0, 0);
    CHECK_OK(put_text(scene.txn, scene.dbi, "a", "1", 0));
    CHECK_OK(mdb_txn_commit(scene.txn));
    mdb_env_close(scene.env);

    scene.env = env_open_again(scene.dir, MDB_RDONLY, 0, SCENE_DBS);
    CHECK_RC(mdb_txn_begin(scene.env, NULL, 0, &txn), EACCES);
    CHECK_RC(mdb_env_sync(scene.env, 1), EACCES);
    scene.txn = begin_read(scene.env);
    scene.dbi = dbi_of(scene.txn, "data", 0);
    CHECK_RC(mdb_dbi_open(scene.txn, "new", MDB_CREATE, &dbi), EACCES);
    CHECK_RC(mdb_dbi_open(scene.txn, "new", 0, &dbi), MDB_NOTFOUND);
    CHECK_RC(put_text(scene.txn, scene.dbi, "a", "2", 0), EACCES);
    CHECK_RC(del_text(scene.txn, scene.dbi, "a", NULL), EACCES);
    CHECK_RC(mdb_drop(scene.txn, scene.dbi, 0), EACCES);
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1");
    CHECK_OK(mdb_env_stat(scene.env, &stat));
    CHECK_EQ(stat.ms_entries, 1);
    CHECK_OK(mdb_txn_commit(scene.txn));
    mdb_env_close(scene.env);
    temp_dir_remove(scene.dir);
}

TEST(previous_snapshot_can_be_read_and_brought_back)
{
    struct scene scene;
    MDB_env *env;
    mdb_size_t id;

    scene_open(&scene, 0, 0);
    CHECK_OK(put_text(scene.txn, scene.dbi, "a", "1", 0));
    scene_commit(&scene);
    CHECK_OK(put_text(scene.txn, scene.dbi, "b", "2", 0));
    id = mdb_txn_id(scene.txn);
    CHECK_OK(mdb_txn_commit(scene.txn));
    mdb_env_close(scene.env);

    scene.env = env_open_again(scene.dir, MDB_PREVSNAPSHOT | MDB_RDONLY, 0, SCENE_DBS);
    scene.txn = begin_read(scene.env);
    CHECK_EQ(mdb_txn_id(scene.txn), id - 1);
    scene.dbi = dbi_of(scene.txn, "data", 0);
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1");
    mdb_txn_abort(scene.txn);
    mdb_env_close(scene.env);

    /* Closing without a commit changes nothing. */
    scene.env = env_open_again(scene.dir, MDB_PREVSNAPSHOT, 0, SCENE_DBS);
    mdb_env_close(scene.env);
    scene.env = env_open_again(scene.dir, 0, 0, SCENE_DBS);
    scene.txn = begin_read(scene.env);
    scene.dbi = dbi_of(scene.txn, "data", 0);
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1 b=2");
    mdb_txn_abort(scene.txn);
    mdb_env_close(scene.env);

    scene.env = env_open_again(scene.dir, MDB_PREVSNAPSHOT, 0, SCENE_DBS);
    scene.txn = begin_write(scene.env);
    CHECK_EQ(mdb_txn_id(scene.txn), id);
    CHECK_OK(mdb_dbi_open(scene.txn, "data", 0, &scene.dbi));
    CHECK_OK(put_text(scene.txn, scene.dbi, "c", "3", 0));
    scene_commit(&scene);
    CHECK_OK(put_text(scene.txn, scene.dbi, "d", "4", 0));
    CHECK_OK(mdb_txn_commit(scene.txn));
    mdb_env_close(scene.env);

    scene.env = env_open_again(scene.dir, 0, 0, SCENE_DBS);
    scene.txn = begin_write(scene.env);
    CHECK_OK(mdb_dbi_open(scene.txn, "data", 0, &scene.dbi));
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1 c=3 d=4");
    scene_close(&scene);

    /* A new environment has no state before. */
    scene.dir = temp_dir_make();
    env = env_open_new(scene.dir, 0, SCENE_MAP_SIZE, 0);
    mdb_env_close(env);
    CHECK_OK(mdb_env_create(&env));
    CHECK_RC(mdb_env_open(env, scene.dir, MDB_PREVSNAPSHOT, 0644), MDB_CORRUPTED);
    mdb_env_close(env);
    temp_dir_remove(scene.dir);
}

TEST(info_and_stat_tell_what_was_written)
{
    char *dir = temp_dir_make();
    MDB_env *env = env_open_new(dir, 0, SCENE_MAP_SIZE, 0);
    MDB_envinfo info;
    MDB_stat stat, of_txn;
    MDB_txn *txn;
    MDB_dbi dbi;

    CHECK_OK(mdb_env_info(env, &info));
    CHECK(info.me_mapaddr == NULL);
    CHECK_EQ(info.me_mapsize, SCENE_MAP_SIZE);
    CHECK_EQ(info.me_last_pgno, 1);
    CHECK_EQ(info.me_last_txnid, 0);
    CHECK_EQ(info.me_maxreaders, 126);
    CHECK_EQ(info.me_numreaders, 0);
    CHECK_OK(mdb_env_stat(env, &stat));
    CHECK_EQ(stat.ms_psize, test_page_size());
    CHECK_EQ(stat.ms_depth, 0);
    CHECK_EQ(stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages + stat.ms_entries, 0);

    txn = begin_write(env);
    dbi = dbi_of(txn, NULL, 0);
    CHECK_EQ(dbi, 1);
    CHECK_OK(put_text(txn, dbi, "a", "1", 0));
    CHECK_OK(mdb_stat(txn, dbi, &of_txn));
    CHECK_EQ(of_txn.ms_entries, 1);
    CHECK_OK(mdb_env_stat(env, &stat));
    CHECK_EQ(stat.ms_entries, 0);
    CHECK_OK(mdb_txn_commit(txn));
    CHECK_OK(mdb_env_stat(env, &stat));
    CHECK_EQ(stat.ms_entries, 1);
    CHECK_EQ(stat.ms_depth, 1);
    CHECK_EQ(stat.ms_leaf_pages, 1);
    CHECK_OK(mdb_env_info(env, &info));
    CHECK_EQ(info.me_last_txnid, 1);
    CHECK_EQ(info.me_last_pgno, 2);

    txn = begin_write(env);
    put_numbers(txn, dbi, 0, 2000, 200);
    put_numbers(txn, dbi, 2000, 1, 3 * test_page_size());
    CHECK_OK(mdb_stat(txn, dbi, &of_txn));
    CHECK_EQ(of_txn.ms_entries, 2002);
    CHECK(of_txn.ms_depth >= 2);
    CHECK(of_txn.ms_branch_pages >= 1);
    CHECK(of_txn.ms_leaf_pages >= 2000 * 200 / test_page_size());
    CHECK_EQ(of_txn.ms_overflow_pages, 4);
    CHECK_OK(mdb_txn_commit(txn));
    CHECK_OK(mdb_env_stat(env, &stat));
    CHECK(memcmp(&stat, &of_txn, sizeof(stat)) == 0);
    txn = begin_read(env);
    CHECK_OK(mdb_env_info(env, &info));
    CHECK_EQ(info.me_last_txnid, 2);
    CHECK_EQ(info.me_numreaders, 1);
    mdb_txn_abort(txn);
    mdb_env_close(env);
    temp_dir_remove(dir);
}

/* ==== Transactions ======================================================= */

TEST(transaction_calls_refuse_null)
{
    struct scene scene;
    MDB_txn *txn = NULL;

    CHECK_RC(mdb_txn_begin(NULL, NULL, 0, &txn), EINVAL);
    CHECK_RC(mdb_txn_commit(NULL), EINVAL);
    CHECK_RC(mdb_txn_renew(NULL), EINVAL);
    CHECK(mdb_txn_env(NULL) == NULL);
    CHECK_EQ(mdb_txn_id(NULL), 0);
    mdb_txn_abort(NULL);
    mdb_txn_reset(NULL);
    scene_open(&scene, 0, 0);
    CHECK_RC(mdb_txn_begin(scene.env, scene.txn, 0, NULL), EINVAL);
    CHECK_RC(mdb_txn_begin(scene.env, NULL, MDB_RDONLY, NULL), EINVAL);
    CHECK_RC(mdb_txn_begin(scene.env, NULL, 0x1, &txn), EINVAL);
    scene_close(&scene);
}

TEST(transaction_ids_count_commits)
{
    char *dir = temp_dir_make();
    MDB_env *env = env_open_new(dir, MDB_NOTLS, SCENE_MAP_SIZE, 0);
    MDB_txn *txn, *reader, *child;
    MDB_dbi dbi;
    mdb_size_t i;

    reader = begin_read(env);
    CHECK_EQ(mdb_txn_id(reader), 0);
    CHECK(mdb_txn_env(reader) == env);
    for (i = 1; i <= 5; i++) {
        txn = begin_write(env);
        CHECK(mdb_txn_env(txn) == env);
        CHECK_EQ(mdb_txn_id(txn), i);
        dbi = dbi_of(txn, NULL, 0);
        child = begin_nested(env, txn);
        CHECK_EQ(mdb_txn_id(child), i);
        CHECK_OK(put_text(child, dbi, numeral_of((unsigned)i).text, "", 0));
        CHECK_OK(mdb_txn_commit(child));
        CHECK_OK(mdb_txn_commit(txn));
    }
    /* An aborted one does not count, nor one that changed nothing. */
    txn = begin_write(env);
    CHECK_EQ(mdb_txn_id(txn), 6);
    CHECK_OK(put_text(txn, dbi, "x", "", 0));
    mdb_txn_abort(txn);
    txn = begin_write(env);
    CHECK_EQ(mdb_txn_id(txn), 6);
    CHECK_OK(mdb_txn_commit(txn));
    txn = begin_write(env);
    CHECK_EQ(mdb_txn_id(txn), 6);
    mdb_txn_abort(txn);
    CHECK_EQ(mdb_txn_id(reader), 0);
    mdb_txn_reset(reader);
    CHECK_OK(mdb_txn_renew(reader));
    CHECK_EQ(mdb_txn_id(reader), 5);
    CHECK_OK(mdb_txn_commit(reader));
    mdb_env_close(env);
    temp_dir_remove(dir);
}

TEST(commit_keeps_and_abort_discards)
{
    struct scene scene;
    MDB_txn *reader;

    scene_open(&scene, MDB_NOTLS, 0);
    put_records(scene.txn, scene.dbi, "a=1 b=2");
    scene_commit(&scene);
    reader = begin_read(scene.env);
    put_records(scene.txn, scene.dbi, "b=3 c=4");
    CHECK_OK(del_text(scene.txn, scene.dbi, "a", NULL));
    CHECK_CONTENTS(scene.txn, scene.dbi, "b=3 c=4");
    CHECK_CONTENTS(reader, scene.dbi, "a=1 b=2");
    scene_abort(&scene);
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1 b=2");
    put_records(scene.txn, scene.dbi, "d=5");
    scene_commit(&scene);
    CHECK_CONTENTS(reader, scene.dbi, "a=1 b=2");
    mdb_txn_abort(reader);
    reader = begin_read(scene.env);
    CHECK_CONTENTS(reader, scene.dbi, "a=1 b=2 d=5");
    mdb_txn_abort(reader);
    scene_close(&scene);
}

TEST(reset_transaction_can_only_be_renewed_or_ended)
{
    struct scene scene;
    MDB_txn *reader;
    MDB_val key = val_text("a"), data;
    MDB_cursor *cursor = NULL;
    int rc;

    scene_open(&scene, 0, 0);
    put_records(scene.txn, scene.dbi, "a=1");
    scene_commit(&scene);
    reader = begin_read(scene.env);
    CHECK_RC(mdb_txn_renew(reader), EINVAL);
    mdb_txn_reset(reader);
    rc = mdb_get(reader, scene.dbi, &key, &data);
    CHECK(rc == EINVAL || rc == MDB_BAD_TXN);
    rc = mdb_cursor_open(reader, scene.dbi, &cursor);
    CHECK(rc == EINVAL || rc == MDB_BAD_TXN);
    CHECK(cursor == NULL);
    mdb_txn_reset(reader);
    put_records(scene.txn, scene.dbi, "b=2");
    scene_commit(&scene);
    CHECK_OK(mdb_txn_renew(reader));
    CHECK_CONTENTS(reader, scene.dbi, "a=1 b=2");
    mdb_txn_reset(reader);
    mdb_txn_abort(reader);
    /* Of a write transaction: reset leaves it as it is, renew refuses. */
    mdb_txn_reset(scene.txn);
    CHECK_RC(mdb_txn_renew(scene.txn), EINVAL);
    put_records(scene.txn, scene.dbi, "c=3");
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1 b=2 c=3");
    scene_close(&scene);
}

TEST(read_transactions_cannot_nest)
{
    struct scene scene;
    MDB_txn *reader, *txn = NULL;

    scene_open(&scene, MDB_NOTLS, 0);
    scene_commit(&scene);
    reader = begin_read(scene.env);
    CHECK_RC(mdb_txn_begin(scene.env, reader, 0, &txn), EINVAL);
    CHECK_RC(mdb_txn_begin(scene.env, scene.txn, MDB_RDONLY, &txn), MDB_BAD_TXN);
    CHECK(txn == NULL);
    mdb_txn_abort(reader);
    scene_close(&scene);
}

TEST(parent_rests_while_its_child_lives)
{
    struct scene scene;
    MDB_txn *child, *other = NULL;
    MDB_cursor *cursor;
    MDB_val key = val_text("a"), data = val_text("x");
    MDB_stat stat;
    MDB_dbi dbi;

    scene_open(&scene, 0, 0);
    put_records(scene.txn, scene.dbi, "a=1");
    cursor = scene_cursor(&scene);
    CHECK_AT(cursor, MDB_FIRST, "a=1");
    child = begin_nested(scene.env, scene.txn);
    CHECK_RC(mdb_get(scene.txn, scene.dbi, &key, &data), MDB_BAD_TXN);
    CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, 0), MDB_BAD_TXN);
    CHECK_RC(mdb_del(scene.txn, scene.dbi, &key, NULL), MDB_BAD_TXN);
    CHECK_RC(mdb_drop(scene.txn, scene.dbi, 0), MDB_BAD_TXN);
    CHECK_RC(mdb_stat(scene.txn, scene.dbi, &stat), MDB_BAD_TXN);
    CHECK_RC(mdb_dbi_open(scene.txn, "other", MDB_CREATE, &dbi), MDB_BAD_TXN);
    CHECK_RC(mdb_txn_begin(scene.env, scene.txn, 0, &other), MDB_BAD_TXN);
    CHECK_CONTENTS(child, scene.dbi, "a=1");
    mdb_txn_abort(child);
    CHECK_AT(cursor, MDB_GET_CURRENT, "a=1");
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1");
    scene_close(&scene);
}

TEST(ending_a_parent_ends_its_child)
{
    struct scene scene;
    MDB_txn *child;

    scene_open(&scene, 0, 0);
    child = begin_nested(scene.env, scene.txn);
    CHECK_OK(put_text(child, scene.dbi, "a", "1", 0));
    scene_commit(&scene);
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1");
    child = begin_nested(scene.env, scene.txn);
    CHECK_OK(put_text(child, scene.dbi, "b", "2", 0));
    child = begin_nested(scene.env, child);
    CHECK_OK(put_text(child, scene.dbi, "c", "3", 0));
    scene_abort(&scene);
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1");
    scene_close(&scene);
}

TEST(durability_of_one_commit_can_be_chosen)
{
    static const unsigned flags[] = { MDB_NOSYNC, MDB_NOMETASYNC, MDB_NOSYNC | MDB_NOMETASYNC };
    struct scene scene;
    MDB_txn *txn;
    size_t i;

    scene_open(&scene, 0, 0);
    CHECK_OK(mdb_txn_commit(scene.txn));
    for (i = 0; i < ARRAY_COUNT(flags); i++) {
        CHECK_OK(mdb_txn_begin(scene.env, NULL, flags[i], &txn));
        put_numbers(txn, scene.dbi, (unsigned)i, 1, 100);
        CHECK_OK(mdb_txn_commit(txn));
    }
    scene.txn = begin_write(scene.env);
    check_numbers(scene.txn, scene.dbi, 0, 3, 100);
    scene_close(&scene);
}

/* ==== Snapshots ========================================================== */

enum { CHURN_RECORDS = 200, CHURN_ROUNDS = 40 };

static void churn(struct scene *scene, unsigned round)
{
    struct random random = { round };
    unsigned i;

    for (i = 0; i < 60; i++) {
        struct numeral numeral = numeral_of((unsigned)random_below(&random, CHURN_RECORDS * 2));
        unsigned char bytes[3000];
        size_t size = (size_t)random_below(&random, random_one_in(&random, 5) ? sizeof(bytes) : 200);
        MDB_val key = val_text(numeral.text), data = val_of(bytes, size);
        int rc;

        pattern_fill(bytes, sizeof(bytes), round * 1000 + i);
        if (random_one_in(&random, 3)) {
            rc = mdb_del(scene->txn, scene->dbi, &key, NULL);
            CHECK(rc == MDB_SUCCESS || rc == MDB_NOTFOUND);
        } else {
            CHECK_OK(mdb_put(scene->txn, scene->dbi, &key, &data, 0));
        }
    }
}

TEST(pointers_of_a_read_transaction_stay_valid_while_others_write)
{
    static const unsigned env_flags[] = { MDB_NOSYNC | MDB_NOTLS, MDB_NOSYNC | MDB_NOTLS | MDB_WRITEMAP };
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(env_flags); kind++) {
        struct scene scene;
        MDB_val keys[CHURN_RECORDS], values[CHURN_RECORDS];
        unsigned char *bytes = malloc(5000);
        MDB_cursor *cursor;
        MDB_txn *reader;
        unsigned i;

        CHECK(bytes != NULL);
        scene_open(&scene, env_flags[kind], 0);
        for (i = 0; i < CHURN_RECORDS; i++)
            put_numbers(scene.txn, scene.dbi, i, 1, i % 10 == 0 ? 5000 : i);
        scene_commit(&scene);
        reader = begin_read(scene.env);
        CHECK_OK(mdb_cursor_open(reader, scene.dbi, &cursor));
        for (i = 0; i < CHURN_RECORDS; i++)
            CHECK_OK(mdb_cursor_get(cursor, &keys[i], &values[i], MDB_NEXT));
        for (i = 0; i < CHURN_ROUNDS; i++) {
            churn(&scene, i);
            scene_commit(&scene);
        }
        CHECK_OK(mdb_drop(scene.txn, scene.dbi, 0));
        scene_commit(&scene);
        for (i = 0; i < CHURN_ROUNDS; i++) {
            churn(&scene, i);
            scene_commit(&scene);
        }
        for (i = 0; i < CHURN_RECORDS; i++) {
            size_t size = i % 10 == 0 ? 5000 : i;

            pattern_fill(bytes, size, i);
            CHECK_VAL_TEXT(&keys[i], numeral_of(i).text);
            CHECK_VAL(&values[i], bytes, size);
            check_number(reader, scene.dbi, i, size);
        }
        mdb_cursor_close(cursor);
        mdb_txn_abort(reader);
        free(bytes);
        scene_close(&scene);
    }
}

/* ==== Arguments that point into the database ============================= */

TEST(put_takes_key_and_value_out_of_the_same_database)
{
    static const unsigned env_flags[] = { 0, MDB_WRITEMAP };
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(env_flags); kind++) {
        struct scene scene;
        MDB_cursor *cursor;
        unsigned i;

        scene_open(&scene, env_flags[kind], 0);
        put_numbers(scene.txn, scene.dbi, 0, 400, 150);
        /* Each value becomes the next record's, out of the page where it stands. */
        for (i = 0; i < 399; i++) {
            MDB_val source = val_text(numeral_of(i).text), target = val_text(numeral_of(i + 1).text), data;

            if (i % 20 == 0)
                scene_commit(&scene);
            test_note("record %u", i);
            CHECK_OK(mdb_get(scene.txn, scene.dbi, &source, &data));
            CHECK_OK(mdb_put(scene.txn, scene.dbi, &target, &data, 0));
        }
        for (i = 0; i < 400; i++) {
            MDB_val key = val_text(numeral_of(i).text), data;
            unsigned char bytes[150];

            pattern_fill(bytes, sizeof(bytes), 0);
            CHECK_OK(mdb_get(scene.txn, scene.dbi, &key, &data));
            CHECK_VAL(&data, bytes, sizeof(bytes));
        }
        /* A key of the database, with its own value, but shorter; and a value that is a part of a key. */
        cursor = scene_cursor(&scene);
        for (i = 0; i < 400; i++) {
            MDB_val key, data;

            CHECK_OK(mdb_cursor_get(cursor, &key, &data, i == 0 ? MDB_FIRST : MDB_NEXT));
            data.mv_data = (char *)data.mv_data + 50;
            data.mv_size = 10 + i % 50;
            CHECK_OK(mdb_put(scene.txn, scene.dbi, &key, &data, 0));
            CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
            CHECK_VAL_TEXT(&key, numeral_of(i).text);
            CHECK_EQ(data.mv_size, 10 + i % 50);
        }
        for (i = 0; i < 400; i++) {
            MDB_val key, data;
            unsigned char bytes[150];

            pattern_fill(bytes, sizeof(bytes), 0);
            CHECK_OK(mdb_cursor_get(cursor, &key, &data, i == 0 ? MDB_FIRST : MDB_NEXT));
            CHECK_VAL(&data, bytes + 50, 10 + i % 50);
            CHECK_OK(mdb_cursor_put(cursor, &key, &key, MDB_CURRENT));
            CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_CURRENT));
            CHECK_VAL_TEXT(&data, numeral_of(i).text);
        }
        scene_close(&scene);
    }
}

TEST(put_takes_large_values_out_of_the_same_database)
{
    struct scene scene;
    size_t size = 3 * test_page_size();
    unsigned i;

    scene_open(&scene, 0, 0);
    put_numbers(scene.txn, scene.dbi, 0, 20, size);
    for (i = 0; i < 19; i++) {
        MDB_val source = val_text(numeral_of(i).text), target = val_text(numeral_of(i + 1).text), data;

        if (i % 5 == 0)
            scene_commit(&scene);
        CHECK_OK(mdb_get(scene.txn, scene.dbi, &source, &data));
        data.mv_data = (char *)data.mv_data + 1;
        data.mv_size--;
        CHECK_OK(mdb_put(scene.txn, scene.dbi, &target, &data, 0));
    }
    for (i = 0; i < 20; i++) {
        MDB_val key = val_text(numeral_of(i).text), data;
        unsigned char *bytes = malloc(size);

        CHECK(bytes != NULL);
        pattern_fill(bytes, size, 0);
        CHECK_OK(mdb_get(scene.txn, scene.dbi, &key, &data));
        CHECK_VAL(&data, bytes + i, size - i);
        free(bytes);
    }
    /* A value that shrinks into a part of itself. */
    for (i = 0; i < 20; i++) {
        MDB_val key = val_text(numeral_of(i).text), data;
        unsigned char bytes[2000];

        pattern_fill(bytes, sizeof(bytes), 0);
        CHECK_OK(mdb_get(scene.txn, scene.dbi, &key, &data));
        data.mv_size = 100;
        CHECK_OK(mdb_put(scene.txn, scene.dbi, &key, &data, 0));
        CHECK_OK(mdb_get(scene.txn, scene.dbi, &key, &data));
        CHECK_VAL(&data, bytes + i, 100);
    }
    scene_close(&scene);
}

TEST(del_takes_the_key_out_of_the_record_that_it_deletes)
{
    struct scene scene;
    MDB_cursor *cursor;
    MDB_val key, data;
    unsigned deleted = 0;

    scene_open(&scene, 0, MDB_DUPSORT);
    put_records(scene.txn, scene.dbi, "a=1 a=2 a=3 b=1 c=1 c=2");
    scene_commit(&scene);
    cursor = scene_cursor(&scene);
    while (mdb_cursor_get(cursor, &key, &data, MDB_FIRST) == MDB_SUCCESS) {
        CHECK_OK(mdb_del(scene.txn, scene.dbi, &key, &data));
        deleted++;
    }
    CHECK_EQ(deleted, 6);
    CHECK_CONTENTS(scene.txn, scene.dbi, "");
    scene_close(&scene);
}

/* ==== get, put, del ====================================================== */

TEST(record_calls_refuse_null_and_unknown_flags)
{
    struct scene scene;
    MDB_val key = val_text("a"), data = val_text("1"), nothing = { 1, NULL };
    unsigned bit;

    scene_open(&scene, 0, 0);
    CHECK_RC(mdb_get(NULL, scene.dbi, &key, &data), EINVAL);
    CHECK_RC(mdb_get(scene.txn, scene.dbi, NULL, &data), EINVAL);
    CHECK_RC(mdb_get(scene.txn, scene.dbi, &key, NULL), EINVAL);
    CHECK_RC(mdb_put(NULL, scene.dbi, &key, &data, 0), EINVAL);
    CHECK_RC(mdb_put(scene.txn, scene.dbi, NULL, &data, 0), EINVAL);
    CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, NULL, 0), EINVAL);
    CHECK_RC(mdb_put(scene.txn, scene.dbi, &nothing, &data, 0), EINVAL);
    CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &nothing, 0), EINVAL);
    CHECK_RC(mdb_del(NULL, scene.dbi, &key, NULL), EINVAL);
    CHECK_RC(mdb_del(scene.txn, scene.dbi, NULL, NULL), EINVAL);
    CHECK_CONTENTS(scene.txn, scene.dbi, "");
    for (bit = 1; bit != 0; bit <<= 1) {
        const unsigned known = MDB_NOOVERWRITE | MDB_NODUPDATA | MDB_RESERVE | MDB_APPEND | MDB_APPENDDUP;

        test_note("flag %#x", bit);
        if ((bit & known) == 0)
            CHECK_RC(put_text(scene.txn, scene.dbi, "a", "1", bit), EINVAL);
    }
    CHECK_CONTENTS(scene.txn, scene.dbi, "");
    scene_close(&scene);
}

TEST(handles_that_are_none_give_einval)
{
    static const MDB_dbi handles[] = { 7, SCENE_DBS + 2, 1000000, (MDB_dbi)-1 };
    struct scene scene;
    MDB_val key = val_text("a"), data = val_text("1");
    MDB_cursor *cursor = NULL;
    MDB_stat stat;
    unsigned flags;
    size_t i;

    scene_open(&scene, 0, 0);
    for (i = 0; i < ARRAY_COUNT(handles); i++) {
        test_note("handle %u", handles[i]);
        CHECK_RC(mdb_get(scene.txn, handles[i], &key, &data), EINVAL);
        CHECK_RC(mdb_put(scene.txn, handles[i], &key, &data, 0), EINVAL);
        CHECK_RC(mdb_del(scene.txn, handles[i], &key, NULL), EINVAL);
        CHECK_RC(mdb_drop(scene.txn, handles[i], 0), EINVAL);
        CHECK_RC(mdb_stat(scene.txn, handles[i], &stat), EINVAL);
        CHECK_RC(mdb_dbi_flags(scene.txn, handles[i], &flags), EINVAL);
        CHECK_RC(mdb_cursor_open(scene.txn, handles[i], &cursor), EINVAL);
        CHECK_RC(mdb_set_compare(scene.txn, handles[i], NULL), EINVAL);
        CHECK_RC(mdb_set_dupsort(scene.txn, handles[i], NULL), EINVAL);
        CHECK_RC(mdb_set_relfunc(scene.txn, handles[i], NULL), EINVAL);
        CHECK_RC(mdb_set_relctx(scene.txn, handles[i], NULL), EINVAL);
        CHECK_EQ(mdb_cmp(scene.txn, handles[i], &key, &data), 0);
        CHECK_EQ(mdb_dcmp(scene.txn, handles[i], &key, &data), 0);
        mdb_dbi_close(scene.env, handles[i]);
    }
    CHECK(cursor == NULL);
    mdb_dbi_close(scene.env, 0);
    mdb_dbi_close(scene.env, 1);
    CHECK_OK(mdb_put(scene.txn, scene.dbi, &key, &data, 0));
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1");
    scene_close(&scene);
}

TEST(free_list_can_be_read_but_not_written)
{
    struct scene scene;
    MDB_val key = val_text("12345678"), data = val_text("1");
    MDB_cursor *cursor;
    MDB_stat stat;
    MDB_txn *reader;

    scene_open(&scene, MDB_NOTLS, 0);
    put_numbers(scene.txn, scene.dbi, 0, 100, 100);
    scene_commit(&scene);
    put_numbers(scene.txn, scene.dbi, 0, 100, 100);
    scene_commit(&scene);
    CHECK_RC(mdb_put(scene.txn, 0, &key, &data, 0), EINVAL);
    CHECK_RC(mdb_del(scene.txn, 0, &key, NULL), EINVAL);
    CHECK_RC(mdb_drop(scene.txn, 0, 0), EINVAL);
    CHECK_RC(mdb_cursor_open(scene.txn, 0, &cursor), EINVAL);
    reader = begin_read(scene.env);
    CHECK_OK(mdb_stat(reader, 0, &stat));
    CHECK(stat.ms_entries > 0);
    CHECK_EQ(walk_count(reader, 0, MDB_FIRST, MDB_NEXT), stat.ms_entries);
    mdb_txn_abort(reader);
    scene_close(&scene);
}

TEST(put_obeys_each_flag)
{
    static const struct {
        const char *before, *key, *value;
        unsigned flags;
        const char *code, *after;
    } cases[] = {
        { "", "b", "2", 0, "ok", "b=2" },
        { "b=1", "b", "2", 0, "ok", "b=2" },
        { "b=1", "b", "", 0, "ok", "b=" },
        { "b=", "b", "2", 0, "ok", "b=2" },
        { "a=1 c=3", "b", "2", 0, "ok", "a=1 b=2 c=3" },
        { "a=1 c=3", "b", "2", MDB_NOOVERWRITE, "ok", "a=1 b=2 c=3" },
        { "a=1 b=3", "b", "2", MDB_NOOVERWRITE, "KEYEXIST", "a=1 b=3" },
        { "a=1 b=3", "b", "2", MDB_NODUPDATA, "ok", "a=1 b=2" },
        { "a=1 b=2", "b", "2", MDB_NODUPDATA, "ok", "a=1 b=2" },
        { "a=1", "b", "2", MDB_APPEND, "ok", "a=1 b=2" },
        { "", "b", "2", MDB_APPEND, "ok", "b=2" },
        { "a=1 b=1", "b", "2", MDB_APPEND, "KEYEXIST", "a=1 b=1" },
        { "a=1 c=1", "b", "2", MDB_APPEND, "KEYEXIST", "a=1 c=1" },
        { "b=1", "b", "2", MDB_APPEND | MDB_NOOVERWRITE, "KEYEXIST", "b=1" },
        { "a=1", "b", "2", MDB_APPENDDUP, "ok", "a=1 b=2" },
    };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(cases); i++) {
        struct scene scene;
        int committed;

        for (committed = 0; committed < 2; committed++) {
            scene_open(&scene, 0, 0);
            put_records(scene.txn, scene.dbi, cases[i].before);
            if (committed)
                scene_commit(&scene);
            test_note("case %zu", i);
            CHECK_CODE(put_text(scene.txn, scene.dbi, cases[i].key, cases[i].value, cases[i].flags), cases[i].code);
            CHECK_CONTENTS(scene.txn, scene.dbi, cases[i].after);
            scene_commit(&scene);
            CHECK_CONTENTS(scene.txn, scene.dbi, cases[i].after);
            scene_close(&scene);
        }
    }
}

TEST(nooverwrite_shows_the_value_that_is_there)
{
    struct scene scene;
    MDB_val key = val_text("a"), data;

    scene_open(&scene, 0, 0);
    put_records(scene.txn, scene.dbi, "a=old b=2");
    data = val_text("new");
    CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, MDB_NOOVERWRITE), MDB_KEYEXIST);
    CHECK_VAL_TEXT(&data, "old");
    put_numbers(scene.txn, scene.dbi, 5, 1, 3 * test_page_size());
    key = val_text(numeral_of(5).text);
    data = val_text("new");
    CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, MDB_NOOVERWRITE), MDB_KEYEXIST);
    CHECK_EQ(data.mv_size, 3 * test_page_size());
    check_number(scene.txn, scene.dbi, 5, 3 * test_page_size());
    scene_close(&scene);
}

TEST(reserve_gives_room_to_write_into)
{
    static const unsigned env_flags[] = { 0, MDB_WRITEMAP };
    static const size_t sizes[] = { 0, 1, 2, 100, 2000, 2001, 5000, 40000, 100001 };
    size_t kind, i;

    for (kind = 0; kind < ARRAY_COUNT(env_flags); kind++) {
        struct scene scene;
        int round;

        scene_open(&scene, env_flags[kind], 0);
        for (round = 0; round < 2; round++) {
            for (i = 0; i < ARRAY_COUNT(sizes); i++) {
                MDB_val key = val_text(numeral_of((unsigned)i).text), data = { sizes[i], NULL };
                unsigned flags = MDB_RESERVE | (round == 0 ? MDB_NOOVERWRITE : 0);

                CHECK_OK(mdb_put(scene.txn, scene.dbi, &key, &data, flags));
                CHECK_EQ(data.mv_size, sizes[i]);
                pattern_fill(data.mv_data, sizes[i], (unsigned)i);
            }
            for (i = 0; i < ARRAY_COUNT(sizes); i++)
                check_number(scene.txn, scene.dbi, (unsigned)i, sizes[i]);
            scene_commit(&scene);
            for (i = 0; i < ARRAY_COUNT(sizes); i++)
                check_number(scene.txn, scene.dbi, (unsigned)i, sizes[i]);
        }
        scene_close(&scene);
    }
}

TEST(reserve_with_dupsort_is_incompatible)
{
    struct scene scene;
    MDB_val key = val_text("a"), data = { 3, NULL };
    MDB_cursor *cursor;

    scene_open(&scene, 0, MDB_DUPSORT);
    CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, MDB_RESERVE), MDB_INCOMPATIBLE);
    cursor = scene_cursor(&scene);
    CHECK_RC(mdb_cursor_put(cursor, &key, &data, MDB_RESERVE), MDB_INCOMPATIBLE);
    CHECK_OK(put_text(scene.txn, scene.dbi, "a", "1", 0));
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1");
    scene_close(&scene);
}

TEST(del_deletes_what_is_there)
{
    static const struct {
        unsigned db_flags;
        const char *before, *key, *value, *code, *after;
    } cases[] = {
        { 0, "", "a", NULL, "NOTFOUND", "" },
        { 0, "a=1", "a", NULL, "ok", "" },
        { 0, "a=1", "a", "2", "ok", "" },
        { 0, "a=1 b=2 c=3", "b", NULL, "ok", "a=1 c=3" },
        { 0, "a=1 b=2 c=3", "bb", NULL, "NOTFOUND", "a=1 b=2 c=3" },
        { 0, "a=1 b=2 c=3", "d", NULL, "NOTFOUND", "a=1 b=2 c=3" },
        { MDB_DUPSORT, "", "a", "1", "NOTFOUND", "" },
        { MDB_DUPSORT, "a=1", "a", "1", "ok", "" },
        { MDB_DUPSORT, "a=1", "a", "2", "NOTFOUND", "a=1" },
        { MDB_DUPSORT, "a=1", "a", NULL, "ok", "" },
        { MDB_DUPSORT, "a=1 a=2", "a", NULL, "ok", "" },
        { MDB_DUPSORT, "a=1 a=2", "a", "1", "ok", "a=2" },
        { MDB_DUPSORT, "a=1 a=2", "a", "2", "ok", "a=1" },
        { MDB_DUPSORT, "a=1 a=2", "a", "3", "NOTFOUND", "a=1 a=2" },
        { MDB_DUPSORT, "a=1 a=2 a=3 b=1", "a", "2", "ok", "a=1 a=3 b=1" },
        { MDB_DUPSORT, "a=1 a=2 a=3 b=1", "a", NULL, "ok", "b=1" },
        { MDB_DUPSORT, "a= a=2 b=1", "a", "", "ok", "a=2 b=1" },
    };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(cases); i++) {
        struct scene scene;

        scene_open(&scene, 0, cases[i].db_flags);
        put_records(scene.txn, scene.dbi, cases[i].before);
        scene_commit(&scene);
        test_note("case %zu", i);
        CHECK_CODE(del_text(scene.txn, scene.dbi, cases[i].key, cases[i].value), cases[i].code);
        CHECK_CONTENTS(scene.txn, scene.dbi, cases[i].after);
        scene_commit(&scene);
        CHECK_CONTENTS(scene.txn, scene.dbi, cases[i].after);
        scene_close(&scene);
    }
}

TEST(keys_may_be_as_long_as_the_environment_says)
{
    static const unsigned db_flags[] = { 0, MDB_DUPSORT, MDB_REVERSEKEY };
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(db_flags); kind++) {
        struct scene scene;
        unsigned char bytes[600];
        MDB_val key, data = val_text("1");
        size_t longest, size;

        scene_open(&scene, 0, db_flags[kind]);
        longest = (size_t)mdb_env_get_maxkeysize(scene.env);
        memset(bytes, 'k', sizeof(bytes));
        for (size = 1; size <= longest; size++) {
            key = val_of(bytes, size);
            CHECK_OK(mdb_put(scene.txn, scene.dbi, &key, &data, 0));
        }
        for (size = 1; size <= longest; size++) {
            key = val_of(bytes, size);
            CHECK_OK(mdb_get(scene.txn, scene.dbi, &key, &data));
        }
        CHECK_EQ(walk_both(scene.txn, scene.dbi), longest);
        key = val_of(bytes, longest + 1);
        CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, 0), MDB_BAD_VALSIZE);
        CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, MDB_APPEND), MDB_BAD_VALSIZE);
        CHECK_RC(mdb_get(scene.txn, scene.dbi, &key, &data), MDB_NOTFOUND);
        key = val_of(bytes, 0);
        CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, 0), MDB_BAD_VALSIZE);
        CHECK_RC(mdb_get(scene.txn, scene.dbi, &key, &data), MDB_BAD_VALSIZE);
        CHECK_RC(mdb_del(scene.txn, scene.dbi, &key, NULL), MDB_BAD_VALSIZE);
        CHECK_EQ(walk_both(scene.txn, scene.dbi), longest);
        scene_commit(&scene);
        CHECK_EQ(walk_both(scene.txn, scene.dbi), longest);
        for (size = longest; size >= 1; size--) {
            key = val_of(bytes, size);
            CHECK_OK(mdb_del(scene.txn, scene.dbi, &key, NULL));
        }
        CHECK_CONTENTS(scene.txn, scene.dbi, "");
        scene_close(&scene);
    }
}

TEST(values_longer_than_4_gib_are_refused)
{
    struct scene scene;
    MDB_val key = val_text("a"), data = val_text("1");

    scene_open(&scene, 0, 0);
    data.mv_size = (size_t)1 << 32;
    CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, 0), MDB_BAD_VALSIZE);
    CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, MDB_RESERVE), MDB_BAD_VALSIZE);
    data.mv_size = (size_t)-1;
    CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, 0), MDB_BAD_VALSIZE);
    CHECK_CONTENTS(scene.txn, scene.dbi, "");
    scene_close(&scene);
}

TEST(value_of_size_zero_may_have_no_address)
{
    struct scene scene;
    MDB_val key = val_text("a"), data = { 0, NULL };

    scene_open(&scene, 0, 0);
    CHECK_OK(mdb_put(scene.txn, scene.dbi, &key, &data, 0));
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=");
    scene_close(&scene);
    scene_open(&scene, 0, MDB_DUPSORT);
    CHECK_OK(mdb_put(scene.txn, scene.dbi, &key, &data, 0));
    CHECK_OK(put_text(scene.txn, scene.dbi, "a", "1", 0));
    CHECK_CONTENTS(scene.txn, scene.dbi, "a= a=1");
    CHECK_OK(mdb_del(scene.txn, scene.dbi, &key, &data));
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1");
    scene_close(&scene);
}

TEST(read_transaction_refuses_every_change)
{
    struct scene scene;
    MDB_txn *reader;
    MDB_cursor *cursor;
    MDB_val key = val_text("a"), data = val_text("2");
    MDB_dbi dbi;

    scene_open(&scene, MDB_NOTLS, MDB_DUPSORT);
    put_records(scene.txn, scene.dbi, "a=1");
    scene_commit(&scene);
    reader = begin_read(scene.env);
    CHECK_RC(mdb_put(reader, scene.dbi, &key, &data, 0), EACCES);
    CHECK_RC(mdb_del(reader, scene.dbi, &key, NULL), EACCES);
    CHECK_RC(mdb_drop(reader, scene.dbi, 0), EACCES);
    CHECK_RC(mdb_drop(reader, scene.dbi, 1), EACCES);
    CHECK_RC(mdb_dbi_open(reader, "other", MDB_CREATE, &dbi), EACCES);
    CHECK_OK(mdb_cursor_open(reader, scene.dbi, &cursor));
    CHECK_AT(cursor, MDB_FIRST, "a=1");
    CHECK_RC(mdb_cursor_put(cursor, &key, &data, 0), EACCES);
    CHECK_RC(mdb_cursor_put(cursor, &key, &data, MDB_CURRENT), EACCES);
    CHECK_RC(mdb_cursor_del(cursor, 0), EACCES);
    CHECK_AT(cursor, MDB_GET_CURRENT, "a=1");
    mdb_cursor_close(cursor);
    CHECK_OK(mdb_txn_commit(reader));
    scene_close(&scene);
}

/* ==== Databases ========================================================== */

TEST(database_calls_refuse_null_and_unknown_flags)
{
    struct scene scene;
    MDB_dbi dbi;
    MDB_stat stat;
    unsigned flags, bit;

    scene_open(&scene, 0, 0);
    CHECK_RC(mdb_dbi_open(NULL, "a", 0, &dbi), EINVAL);
    CHECK_RC(mdb_dbi_open(scene.txn, "a", MDB_CREATE, NULL), EINVAL);
    CHECK_RC(mdb_stat(NULL, scene.dbi, &stat), EINVAL);
    CHECK_RC(mdb_stat(scene.txn, scene.dbi, NULL), EINVAL);
    CHECK_RC(mdb_dbi_flags(NULL, scene.dbi, &flags), EINVAL);
    CHECK_RC(mdb_dbi_flags(scene.txn, scene.dbi, NULL), EINVAL);
    CHECK_RC(mdb_drop(NULL, scene.dbi, 0), EINVAL);
    CHECK_RC(mdb_drop(scene.txn, scene.dbi, 2), EINVAL);
    CHECK_RC(mdb_drop(scene.txn, scene.dbi, -1), EINVAL);
    CHECK_RC(mdb_set_compare(NULL, scene.dbi, NULL), EINVAL);
    CHECK_RC(mdb_set_dupsort(NULL, scene.dbi, NULL), EINVAL);
    CHECK_RC(mdb_set_relfunc(NULL, scene.dbi, NULL), EINVAL);
    CHECK_RC(mdb_set_relctx(NULL, scene.dbi, NULL), EINVAL);
    for (bit = 0x1; bit != 0; bit <<= 1) {
        const unsigned known = MDB_REVERSEKEY | MDB_DUPSORT | MDB_INTEGERKEY | MDB_DUPFIXED | MDB_INTEGERDUP
                             | MDB_REVERSEDUP | MDB_CREATE;

        test_note("flag %#x", bit);
        if ((bit & known) == 0 && bit != 0x80 && bit != 0x100)
            CHECK_RC(mdb_dbi_open(scene.txn, "a", MDB_CREATE | bit, &dbi), EINVAL);
    }
    CHECK_CONTENTS(scene.txn, scene.dbi, "");
    scene_close(&scene);
}

TEST(databases_keep_their_flags)
{
    static const unsigned flags[] = {
        0, MDB_REVERSEKEY, MDB_DUPSORT, MDB_INTEGERKEY, MDB_DUPSORT | MDB_DUPFIXED,
        MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP, MDB_DUPSORT | MDB_REVERSEDUP, MDB_DUPSORT | MDB_INTEGERDUP,
        MDB_DUPSORT | MDB_INTEGERKEY, MDB_DUPSORT | MDB_REVERSEKEY | MDB_REVERSEDUP | MDB_DUPFIXED,
    };
    struct scene scene;
    MDB_dbi dbis[ARRAY_COUNT(flags)];
    unsigned found;
    size_t i;

    scene_open(&scene, 0, 0);
    for (i = 0; i < ARRAY_COUNT(flags); i++) {
        dbis[i] = dbi_of(scene.txn, numeral_of((unsigned)i).text, flags[i] | MDB_CREATE);
        CHECK_OK(mdb_dbi_flags(scene.txn, dbis[i], &found));
        CHECK_EQ(found, flags[i]);
    }
    CHECK_OK(mdb_txn_commit(scene.txn));
    mdb_env_close(scene.env);
    scene.env = env_open_again(scene.dir, 0, 0, SCENE_DBS);
    scene.txn = begin_write(scene.env);
    for (i = 0; i < ARRAY_COUNT(flags); i++) {
        /* What the database was made with rules. */
        dbis[i] = dbi_of(scene.txn, numeral_of((unsigned)i).text, i % 2 == 0 ? 0 : MDB_CREATE);
        CHECK_OK(mdb_dbi_flags(scene.txn, dbis[i], &found));
        CHECK_EQ(found, flags[i]);
    }
    scene_close(&scene);
}

TEST(same_name_gives_the_same_handle)
{
    struct scene scene;
    MDB_dbi first, again;

    scene_open(&scene, 0, 0);
    first = dbi_of(scene.txn, "first", MDB_CREATE);
    CHECK(first > 1 && first != scene.dbi);
    again = dbi_of(scene.txn, "first", 0);
    CHECK_EQ(again, first);
    CHECK_EQ(dbi_of(scene.txn, NULL, 0), 1);
    scene_commit(&scene);
    CHECK_EQ(dbi_of(scene.txn, "first", 0), first);
    CHECK_EQ(dbi_of(scene.txn, "data", MDB_CREATE), scene.dbi);
    scene_close(&scene);
}

TEST(too_many_databases_give_dbs_full)
{
    char *dir = temp_dir_make();
    MDB_env *env = env_open_new(dir, 0, SCENE_MAP_SIZE, 3);
    MDB_txn *txn = begin_write(env);
    MDB_dbi dbis[3], dbi = 99;
    int i;

    for (i = 0; i < 3; i++)
        dbis[i] = dbi_of(txn, numeral_of((unsigned)i).text, MDB_CREATE);
    CHECK_RC(mdb_dbi_open(txn, "one more", MDB_CREATE, &dbi), MDB_DBS_FULL);
    CHECK_EQ(dbi, 99);
    CHECK_OK(put_text(txn, dbis[2], "a", "1", 0));
    CHECK_OK(mdb_txn_commit(txn));
    mdb_dbi_close(env, dbis[1]);
    txn = begin_write(env);
    dbi = dbi_of(txn, "one more", MDB_CREATE);
    CHECK_EQ(dbi, dbis[1]);
    CHECK_RC(mdb_dbi_open(txn, numeral_of(1).text, 0, &dbi), MDB_DBS_FULL);
    CHECK_OK(mdb_txn_commit(txn));
    mdb_env_close(env);
    run_check_tool(dir);

    /* Without mdb_env_set_maxdbs there are none. */
    env = env_open_again(dir, 0, 0, 0);
    txn = begin_write(env);
    CHECK_RC(mdb_dbi_open(txn, "one more", 0, &dbi), MDB_DBS_FULL);
    CHECK_OK(mdb_dbi_open(txn, NULL, 0, &dbi));
    mdb_txn_abort(txn);
    mdb_env_close(env);
    temp_dir_remove(dir);
}

TEST(closed_handle_is_none)
{
    struct scene scene;
    MDB_val key = val_text("a"), data;

    scene_open(&scene, 0, 0);
    put_records(scene.txn, scene.dbi, "a=1");
    CHECK_OK(mdb_txn_commit(scene.txn));
    mdb_dbi_close(scene.env, scene.dbi);
    scene.txn = begin_write(scene.env);
    CHECK_RC(mdb_get(scene.txn, scene.dbi, &key, &data), EINVAL);
    scene.dbi = dbi_of(scene.txn, "data", 0);
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1");
    scene_close(&scene);
}

TEST(database_names_have_limits)
{
    struct scene scene;
    char name[600];
    MDB_dbi dbi;
    int longest;

    scene_open(&scene, 0, 0);
    longest = mdb_env_get_maxkeysize(scene.env);
    memset(name, 'n', sizeof(name));
    name[longest + 1] = '\0';
    CHECK_RC(mdb_dbi_open(scene.txn, name, MDB_CREATE, &dbi), MDB_BAD_VALSIZE);
    name[longest] = '\0';
    CHECK_OK(mdb_dbi_open(scene.txn, name, MDB_CREATE, &dbi));
    put_numbers(scene.txn, dbi, 0, 50, 100);
    CHECK_RC(mdb_dbi_open(scene.txn, "", MDB_CREATE, &dbi), MDB_BAD_VALSIZE);
    scene_commit(&scene);
    CHECK_EQ(walk_both(scene.txn, dbi), 50);
    scene_close(&scene);
}

TEST(named_database_is_a_record_of_the_main_one)
{
    struct scene scene;
    MDB_val key = val_text("data"), data = val_text("x");
    MDB_cursor *cursor;
    MDB_dbi root, dbi;

    scene_open(&scene, 0, 0);
    put_records(scene.txn, scene.dbi, "a=1");
    root = dbi_of(scene.txn, NULL, 0);
    CHECK_OK(put_text(scene.txn, root, "plain", "record", 0));
    scene_commit(&scene);
    CHECK_EQ(walk_both(scene.txn, root), 2);
    CHECK_OK(mdb_get(scene.txn, root, &key, &data));
    CHECK_EQ(data.mv_size, 48);
    data = val_text("x");
    CHECK_RC(mdb_put(scene.txn, root, &key, &data, 0), MDB_INCOMPATIBLE);
    CHECK_RC(mdb_del(scene.txn, root, &key, NULL), MDB_INCOMPATIBLE);
    CHECK_OK(mdb_cursor_open(scene.txn, root, &cursor));
    CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_SET));
    data = val_text("x");
    CHECK_RC(mdb_cursor_put(cursor, &key, &data, MDB_CURRENT), MDB_INCOMPATIBLE);
    CHECK_RC(mdb_cursor_del(cursor, 0), MDB_INCOMPATIBLE);
    CHECK_RC(mdb_dbi_open(scene.txn, "plain", 0, &dbi), MDB_INCOMPATIBLE);
    CHECK_RC(mdb_dbi_open(scene.txn, "plain", MDB_CREATE, &dbi), MDB_INCOMPATIBLE);
    CHECK_TEXT(get_text(scene.txn, root, "plain"), "record");
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1");
    scene_close(&scene);
}

TEST(main_database_with_special_keys_holds_no_databases)
{
    static const unsigned flags[] = { MDB_DUPSORT, MDB_INTEGERKEY };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(flags); i++) {
        char *dir = temp_dir_make();
        MDB_env *env = env_open_new(dir, 0, SCENE_MAP_SIZE, 4);
        MDB_txn *txn = begin_write(env);
        MDB_dbi root, dbi;

        CHECK_OK(mdb_dbi_open(txn, NULL, flags[i], &root));
        CHECK_RC(mdb_dbi_open(txn, "name", MDB_CREATE, &dbi), MDB_INCOMPATIBLE);
        CHECK_OK(put_text(txn, root, "12345678", "1", 0));
        CHECK_OK(mdb_txn_commit(txn));
        mdb_env_close(env);
        run_check_tool(dir);
        env = env_open_again(dir, 0, 0, 4);
        txn = begin_read(env);
        CHECK_OK(mdb_dbi_open(txn, NULL, 0, &root));
        CHECK_CONTENTS(txn, root, "12345678=1");
        mdb_txn_abort(txn);
        mdb_env_close(env);
        temp_dir_remove(dir);
    }
}

TEST(handle_opened_in_an_aborted_transaction_is_none)
{
    struct scene scene;
    MDB_txn *reader;
    MDB_val key = val_text("a"), data;
    MDB_dbi created, opened;

    scene_open(&scene, MDB_NOTLS, 0);
    put_records(scene.txn, scene.dbi, "a=1");
    created = dbi_of(scene.txn, "other", MDB_CREATE);
    put_records(scene.txn, created, "b=2");
    scene_commit(&scene);
    mdb_txn_abort(scene.txn);
    mdb_env_close(scene.env);

    scene.env = env_open_again(scene.dir, MDB_NOTLS, 0, SCENE_DBS);
    scene.txn = begin_write(scene.env);
    created = dbi_of(scene.txn, "created", MDB_CREATE);
    opened = dbi_of(scene.txn, "data", 0);
    put_records(scene.txn, created, "c=3");
    CHECK_CONTENTS(scene.txn, opened, "a=1");
    scene_abort(&scene);
    CHECK_RC(mdb_get(scene.txn, created, &key, &data), EINVAL);
    CHECK_RC(mdb_get(scene.txn, opened, &key, &data), EINVAL);
    CHECK_RC(mdb_dbi_open(scene.txn, "created", 0, &created), MDB_NOTFOUND);
    mdb_txn_abort(scene.txn);

    /* A handle of a read transaction: commit keeps it, abort does not. */
    reader = begin_read(scene.env);
    opened = dbi_of(reader, "other", 0);
    mdb_txn_abort(reader);
    reader = begin_read(scene.env);
    CHECK_RC(mdb_get(reader, opened, &key, &data), EINVAL);
    opened = dbi_of(reader, "other", 0);
    CHECK_OK(mdb_txn_commit(reader));
    reader = begin_read(scene.env);
    CHECK_CONTENTS(reader, opened, "b=2");
    mdb_txn_abort(reader);

    scene.txn = begin_write(scene.env);
    scene.dbi = dbi_of(scene.txn, "data", 0);
    CHECK(scene.dbi != opened);
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1");
    scene_close(&scene);
}

TEST(drop_empties_or_deletes)
{
    static const unsigned db_flags[] = { 0, MDB_DUPSORT, MDB_DUPSORT | MDB_DUPFIXED };
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(db_flags); kind++) {
        struct scene scene;
        MDB_val key = val_text("a"), data;
        MDB_cursor *cursor;
        MDB_stat stat;
        MDB_dbi dbi;
        unsigned i, flags;

        test_note("database flags %#x", db_flags[kind]);
        scene_open(&scene, 0, db_flags[kind]);
        for (i = 0; i < 300; i++) {
            CHECK_OK(put_text(scene.txn, scene.dbi, numeral_of(i / 3).text, numeral_of(i).text, 0));
            CHECK_OK(put_text(scene.txn, scene.dbi, "many", numeral_of(i).text, 0));
        }
        if (db_flags[kind] == 0)
            put_numbers(scene.txn, scene.dbi, 1000, 5, 50000);
        scene_commit(&scene);
        cursor = scene_cursor(&scene);
        CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_LAST));
        CHECK_OK(mdb_drop(scene.txn, scene.dbi, 0));
        CHECK_OK(mdb_stat(scene.txn, scene.dbi, &stat));
        CHECK_EQ(stat.ms_entries + stat.ms_depth + stat.ms_leaf_pages + stat.ms_branch_pages, 0);
        CHECK_EQ(stat.ms_overflow_pages, 0);
        CHECK_AT(cursor, MDB_NEXT, "NOTFOUND");
        CHECK_AT(cursor, MDB_FIRST, "NOTFOUND");
        CHECK_CONTENTS(scene.txn, scene.dbi, "");
        put_records(scene.txn, scene.dbi, "a=1 b=2");
        CHECK_AT(cursor, MDB_FIRST, "a=1");
        scene_commit(&scene);
        CHECK_CONTENTS(scene.txn, scene.dbi, "a=1 b=2");
        CHECK_OK(mdb_dbi_flags(scene.txn, scene.dbi, &flags));
        CHECK_EQ(flags, db_flags[kind]);

        CHECK_OK(mdb_drop(scene.txn, scene.dbi, 1));
        CHECK(mdb_get(scene.txn, scene.dbi, &key, &data) != MDB_SUCCESS);
        CHECK_RC(mdb_dbi_open(scene.txn, "data", 0, &dbi), MDB_NOTFOUND);
        scene_abort(&scene);
        CHECK_OK(mdb_dbi_open(scene.txn, "data", 0, &scene.dbi));
        CHECK_CONTENTS(scene.txn, scene.dbi, "a=1 b=2");
        CHECK_OK(mdb_drop(scene.txn, scene.dbi, 1));
        scene_commit(&scene);
        CHECK_RC(mdb_get(scene.txn, scene.dbi, &key, &data), EINVAL);
        CHECK_RC(mdb_dbi_open(scene.txn, "data", 0, &dbi), MDB_NOTFOUND);
        CHECK_EQ(walk_both(scene.txn, dbi_of(scene.txn, NULL, 0)), 0);
        scene_close(&scene);
    }
}

TEST(drop_and_create_anew_with_other_flags_in_one_transaction)
{
    struct scene scene;
    unsigned flags;

    scene_open(&scene, 0, 0);
    put_numbers(scene.txn, scene.dbi, 0, 200, 100);
    scene_commit(&scene);
    CHECK_OK(mdb_drop(scene.txn, scene.dbi, 1));
    CHECK_OK(mdb_dbi_open(scene.txn, "data", MDB_CREATE | MDB_DUPSORT, &scene.dbi));
    put_records(scene.txn, scene.dbi, "a=1 a=2");
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1 a=2");
    scene_commit(&scene);
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1 a=2");
    CHECK_OK(mdb_dbi_flags(scene.txn, scene.dbi, &flags));
    CHECK_EQ(flags, MDB_DUPSORT);
    scene_close(&scene);
}

/* What the transaction remembers of the old database must not be taken for the new one. */
TEST(database_that_was_written_is_dropped_and_made_anew_with_other_flags)
{
    static const unsigned kinds[] = { 0, MDB_DUPSORT, MDB_DUPSORT | MDB_DUPFIXED, MDB_REVERSEKEY };
    size_t from, to;

    for (from = 0; from < ARRAY_COUNT(kinds); from++) {
        for (to = 0; to < ARRAY_COUNT(kinds); to++) {
            struct scene scene;
            MDB_cursor *cursor;
            MDB_val key = val_text("a"), data = val_text("1");
            unsigned flags;

            scene_open(&scene, MDB_NOSYNC, kinds[from]);
            test_note("from %#x to %#x", kinds[from], kinds[to]);
            put_records(scene.txn, scene.dbi, "ab=1 ba=2");
            CHECK_OK(del_text(scene.txn, scene.dbi, "ab", NULL));
            cursor = scene_cursor(&scene);
            CHECK_AT(cursor, MDB_FIRST, "ba=2");
            CHECK_OK(mdb_drop(scene.txn, scene.dbi, 1));
            CHECK_OK(mdb_dbi_open(scene.txn, "data", MDB_CREATE | kinds[to], &scene.dbi));
            CHECK_OK(mdb_dbi_flags(scene.txn, scene.dbi, &flags));
            CHECK_EQ(flags, kinds[to]);
            put_records(scene.txn, scene.dbi, "ab=1 ba=2 ab=3");
            CHECK_CONTENTS(scene.txn, scene.dbi, kinds[to] & MDB_DUPSORT ? "ab=1 ab=3 ba=2"
                                                 : kinds[to] == MDB_REVERSEKEY ? "ba=2 ab=3" : "ab=3 ba=2");
            /* A cursor from before: it may serve or refuse, but do no harm. */
            mdb_cursor_get(cursor, &key, &data, MDB_FIRST);
            mdb_cursor_get(cursor, &key, &data, MDB_LAST);
            mdb_cursor_close(cursor);
            scene_commit(&scene);
            CHECK_EQ(walk_both(scene.txn, scene.dbi), kinds[to] & MDB_DUPSORT ? 3 : 2);
            scene_close(&scene);
        }
    }
}

TEST(drop_of_the_main_database_deletes_the_named_ones)
{
    struct scene scene;
    MDB_val key = val_text("a"), data;
    MDB_dbi root, dbi, second;
    int del;

    for (del = 0; del < 2; del++) {
        scene_open(&scene, 0, 0);
        root = dbi_of(scene.txn, NULL, 0);
        second = dbi_of(scene.txn, "second", MDB_CREATE | MDB_DUPSORT);
        put_numbers(scene.txn, scene.dbi, 0, 500, 300);
        put_records(scene.txn, second, "a=1 a=2 b=3");
        put_records(scene.txn, root, "plain=record");
        scene_commit(&scene);
        CHECK_OK(mdb_drop(scene.txn, root, del));
        CHECK_CONTENTS(scene.txn, root, "");
        CHECK_RC(mdb_dbi_open(scene.txn, "second", 0, &dbi), MDB_NOTFOUND);
        CHECK(mdb_get(scene.txn, scene.dbi, &key, &data) != MDB_SUCCESS);
        scene_abort(&scene);
        CHECK_EQ(walk_both(scene.txn, root), 3);
        CHECK_OK(mdb_dbi_open(scene.txn, "second", 0, &dbi));
        CHECK_CONTENTS(scene.txn, dbi, "a=1 a=2 b=3");
        CHECK_OK(mdb_drop(scene.txn, root, del));
        scene_commit(&scene);
        CHECK_CONTENTS(scene.txn, root, "");
        CHECK(mdb_get(scene.txn, scene.dbi, &key, &data) != MDB_SUCCESS);
        CHECK_OK(mdb_dbi_open(scene.txn, "second", MDB_CREATE, &dbi));
        put_records(scene.txn, dbi, "x=y");
        scene_commit(&scene);
        CHECK_CONTENTS(scene.txn, dbi, "x=y");
        scene_close(&scene);
    }
}

TEST(many_databases_in_one_transaction)
{
    enum { MANY = 300 };
    char *dir = temp_dir_make();
    MDB_env *env = env_open_new(dir, 0, SCENE_MAP_SIZE, MANY);
    MDB_txn *txn = begin_write(env);
    MDB_dbi dbis[MANY];
    unsigned i;

    for (i = 0; i < MANY; i++) {
        dbis[i] = dbi_of(txn, numeral_of(i).text, MDB_CREATE);
        put_numbers(txn, dbis[i], i, 3, 20);
    }
    CHECK_OK(mdb_txn_commit(txn));
    txn = begin_write(env);
    for (i = 0; i < MANY; i += 2)
        CHECK_OK(mdb_drop(txn, dbis[i], 1));
    for (i = 1; i < MANY; i += 2)
        put_numbers(txn, dbis[i], i + 3, 1, 20);
    CHECK_OK(mdb_txn_commit(txn));
    mdb_env_close(env);
    run_check_tool(dir);
    env = env_open_again(dir, 0, 0, MANY);
    txn = begin_read(env);
    for (i = 0; i < MANY; i++) {
        MDB_dbi dbi;

        CHECK_RC(mdb_dbi_open(txn, numeral_of(i).text, 0, &dbi), i % 2 == 0 ? MDB_NOTFOUND : MDB_SUCCESS);
        if (i % 2 != 0)
            check_numbers(txn, dbi, i, 4, 20);
    }
    mdb_txn_abort(txn);
    mdb_env_close(env);
    temp_dir_remove(dir);
}

/* ==== Orders ============================================================= */

static MDB_val val_integer(const size_t *integer)
{
    return val_of(integer, sizeof(*integer));
}

static int sign_of(int number)
{
    return (number > 0) - (number < 0);
}

TEST(cmp_and_dcmp_compare_as_the_flags_say)
{
    static const struct {
        unsigned flags;
        const char *a, *b;
        int key_order, value_order;
    } cases[] = {
        { 0, "a", "b", -1, 0 },
        { 0, "b", "a", 1, 0 },
        { 0, "a", "a", 0, 0 },
        { 0, "a", "ab", -1, 0 },
        { 0, "\x7f", "\x80", -1, 0 },
        { 0, "az", "b", -1, 0 },
        { 0, "12345678", "12345679", -1, 0 },
        { 0, "12345678x", "12345678", 1, 0 },
        { MDB_REVERSEKEY, "az", "ba", 1, 0 },
        { MDB_REVERSEKEY, "ba", "ab", -1, 0 },
        { MDB_REVERSEKEY, "a", "ba", -1, 0 },
        { MDB_REVERSEKEY, "xxxxxxxxa", "yyyyyyyyya", -1, 0 },
        { MDB_DUPSORT, "az", "ba", -1, -1 },
        { MDB_DUPSORT | MDB_REVERSEDUP, "az", "ba", -1, 1 },
        { MDB_DUPSORT | MDB_REVERSEKEY, "az", "ba", 1, -1 },
    };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(cases); i++) {
        struct scene scene;
        MDB_val a = val_text(cases[i].a), b = val_text(cases[i].b);

        scene_open(&scene, 0, cases[i].flags);
        test_note("case %zu", i);
        CHECK_EQ(sign_of(mdb_cmp(scene.txn, scene.dbi, &a, &b)), cases[i].key_order);
        CHECK_EQ(sign_of(mdb_cmp(scene.txn, scene.dbi, &b, &a)), -cases[i].key_order);
        if (cases[i].flags & MDB_DUPSORT) {
            CHECK_EQ(sign_of(mdb_dcmp(scene.txn, scene.dbi, &a, &b)), cases[i].value_order);
            CHECK_EQ(sign_of(mdb_dcmp(scene.txn, scene.dbi, &b, &a)), -cases[i].value_order);
        }
        CHECK_EQ(mdb_cmp(NULL, scene.dbi, &a, &b), 0);
        CHECK_EQ(mdb_cmp(scene.txn, scene.dbi, NULL, &b), 0);
        CHECK_EQ(mdb_cmp(scene.txn, scene.dbi, &a, NULL), 0);
        CHECK_EQ(mdb_dcmp(NULL, scene.dbi, &a, &b), 0);
        CHECK_EQ(mdb_dcmp(scene.txn, scene.dbi, NULL, &b), 0);
        scene_close(&scene);
    }
}

TEST(integer_keys_sort_as_integers)
{
    static const size_t integers[] = { 300, 1, 0, 256, 255, (size_t)-1, (size_t)1 << 40, 65536, 2, (size_t)1 << 63 };
    static const size_t sorted[] = { 0, 1, 2, 255, 256, 300, 65536, (size_t)1 << 40, (size_t)1 << 63, (size_t)-1 };
    struct scene scene;
    MDB_cursor *cursor;
    MDB_val a, b, data = val_text("v");
    size_t i;

    scene_open(&scene, 0, MDB_INTEGERKEY);
    for (i = 0; i < ARRAY_COUNT(integers); i++) {
        MDB_val key = val_integer(&integers[i]);

        CHECK_OK(mdb_put(scene.txn, scene.dbi, &key, &data, 0));
    }
    cursor = scene_cursor(&scene);
    for (i = 0; i < ARRAY_COUNT(sorted); i++) {
        MDB_val key;

        CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
        CHECK_VAL(&key, &sorted[i], sizeof(sorted[i]));
    }
    a = val_integer(&sorted[3]);
    b = val_integer(&sorted[4]);
    CHECK(mdb_cmp(scene.txn, scene.dbi, &a, &b) < 0);
    a = val_integer(&sorted[9]);
    CHECK(mdb_cmp(scene.txn, scene.dbi, &a, &b) > 0);
    scene_close(&scene);
}

TEST(integer_keys_have_the_width_of_the_first_one)
{
    static const size_t widths[] = { 4, 8 };
    static const size_t others[] = { 1, 2, 3, 4, 5, 7, 8, 9, 16 };
    size_t i, k;

    for (i = 0; i < ARRAY_COUNT(widths); i++) {
        static const unsigned char bytes[32] = { 1, 2, 3 };
        struct scene scene;
        MDB_val key = val_of(bytes, 3), data = val_text("v");

        scene_open(&scene, 0, MDB_INTEGERKEY);
        CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, 0), MDB_BAD_VALSIZE);
        key = val_of(bytes, widths[i]);
        CHECK_OK(mdb_put(scene.txn, scene.dbi, &key, &data, 0));
        for (k = 0; k < ARRAY_COUNT(others); k++) {
            MDB_cursor *cursor;
            MDB_val found;

            if (others[k] == widths[i])
                continue;
            test_note("width %zu, then %zu", widths[i], others[k]);
            key = val_of(bytes + 1, others[k]);
            CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, 0), MDB_BAD_VALSIZE);
            CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, MDB_APPEND), MDB_BAD_VALSIZE);
            CHECK_RC(mdb_get(scene.txn, scene.dbi, &key, &found), MDB_BAD_VALSIZE);
            CHECK_RC(mdb_del(scene.txn, scene.dbi, &key, NULL), MDB_BAD_VALSIZE);
            cursor = scene_cursor(&scene);
            CHECK_RC(mdb_cursor_get(cursor, &key, &found, MDB_SET), MDB_BAD_VALSIZE);
            CHECK_RC(mdb_cursor_get(cursor, &key, &found, MDB_SET_RANGE), MDB_BAD_VALSIZE);
            mdb_cursor_close(cursor);
        }
        CHECK_EQ(walk_both(scene.txn, scene.dbi), 1);
        scene_close(&scene);
    }
}

TEST(integers_as_arguments_may_stand_at_odd_addresses)
{
    struct scene scene;
    unsigned char bytes[64];
    uint32_t i;

    scene_open(&scene, 0, MDB_INTEGERKEY | MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP);
    for (i = 0; i < 500; i++) {
        uint32_t number = i * 7919 % 500;
        MDB_val key = val_of(bytes + 1 + i % 5, sizeof(number)), data = val_of(bytes + 21 + i % 3, sizeof(number));

        memcpy(bytes + 1 + i % 5, &number, sizeof(number));
        memcpy(bytes + 21 + i % 3, &i, sizeof(i));
        CHECK_OK(mdb_put(scene.txn, scene.dbi, &key, &data, 0));
    }
    CHECK_EQ(walk_both(scene.txn, scene.dbi), 500);
    scene_close(&scene);
}

static int order_last_byte(const MDB_val *a, const MDB_val *b)
{
    const unsigned char *a_bytes = a->mv_data, *b_bytes = b->mv_data;
    int a_last = a->mv_size > 0 ? a_bytes[a->mv_size - 1] : -1, b_last = b->mv_size > 0 ? b_bytes[b->mv_size - 1] : -1;

    return a_last - b_last;
}

static int order_backwards(const MDB_val *a, const MDB_val *b)
{
    size_t common = a->mv_size < b->mv_size ? a->mv_size : b->mv_size;
    int difference = memcmp(b->mv_data, a->mv_data, common);

    return difference != 0 ? difference : (b->mv_size > a->mv_size) - (b->mv_size < a->mv_size);
}

TEST(compare_functions_of_the_caller_rule)
{
    struct scene scene;
    MDB_val a = val_text("x1"), b = val_text("a2");
    MDB_dbi dbi;

    scene_open(&scene, 0, MDB_DUPSORT);
    CHECK_OK(mdb_set_compare(scene.txn, scene.dbi, order_last_byte));
    CHECK_OK(mdb_set_dupsort(scene.txn, scene.dbi, order_backwards));
    CHECK(mdb_cmp(scene.txn, scene.dbi, &a, &b) < 0);
    CHECK(mdb_dcmp(scene.txn, scene.dbi, &a, &b) < 0);
    put_records(scene.txn, scene.dbi, "z1=a y2=b x3=c z1=b z1=c y2=z");
    CHECK_CONTENTS(scene.txn, scene.dbi, "z1=c z1=b z1=a y2=z y2=b x3=c");
    CHECK_TEXT(get_text(scene.txn, scene.dbi, "q3"), "c");
    scene_commit(&scene);
    CHECK_CONTENTS(scene.txn, scene.dbi, "z1=c z1=b z1=a y2=z y2=b x3=c");
    CHECK_OK(del_text(scene.txn, scene.dbi, "-1", "b"));
    CHECK_CONTENTS(scene.txn, scene.dbi, "z1=c z1=a y2=z y2=b x3=c");

    /* NULL: back to the order of the flags. */
    dbi = dbi_of(scene.txn, "second", MDB_CREATE | MDB_DUPSORT);
    CHECK_OK(mdb_set_compare(scene.txn, dbi, order_backwards));
    CHECK_OK(mdb_set_compare(scene.txn, dbi, NULL));
    CHECK_OK(mdb_set_dupsort(scene.txn, dbi, order_backwards));
    CHECK_OK(mdb_set_dupsort(scene.txn, dbi, NULL));
    put_records(scene.txn, dbi, "b=2 a=1 b=1");
    CHECK_CONTENTS(scene.txn, dbi, "a=1 b=1 b=2");
    scene_close_unchecked(&scene);
}

TEST(custom_order_holds_with_many_records)
{
    struct scene scene;
    struct random random = { test_seed() };
    unsigned *numbers = numbers_shuffled(&random, 2000);
    MDB_cursor *cursor;
    MDB_val key, data;
    unsigned i;

    scene_open(&scene, 0, 0);
    CHECK_OK(mdb_set_compare(scene.txn, scene.dbi, order_backwards));
    for (i = 0; i < 2000; i++)
        put_numbers(scene.txn, scene.dbi, numbers[i], 1, 40);
    scene_commit(&scene);
    cursor = scene_cursor(&scene);
    for (i = 0; i < 2000; i++) {
        CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
        CHECK_VAL_TEXT(&key, numeral_of(1999 - i).text);
    }
    check_numbers(scene.txn, scene.dbi, 0, 2000, 40);
    for (i = 0; i < 1999; i++)
        CHECK_OK(del_text(scene.txn, scene.dbi, numeral_of(numbers[i]).text, NULL));
    CHECK_EQ(walk_both(scene.txn, scene.dbi), 1);
    free(numbers);
    scene_close_unchecked(&scene);
}

static void relative_function(MDB_val *item, void *old_pointer, void *new_pointer, void *context)
{
    (void)item;
    (void)old_pointer;
    (void)new_pointer;
    (void)context;
    CHECK(!"called");
}

TEST(relocation_functions_can_be_set_and_are_not_called)
{
    struct scene scene;
    int context = 0;

    scene_open(&scene, 0, 0);
    CHECK_OK(mdb_set_relfunc(scene.txn, scene.dbi, relative_function));
    CHECK_OK(mdb_set_relctx(scene.txn, scene.dbi, &context));
    put_numbers(scene.txn, scene.dbi, 0, 300, 100);
    CHECK_OK(mdb_set_relfunc(scene.txn, scene.dbi, NULL));
    CHECK_OK(mdb_set_relctx(scene.txn, scene.dbi, NULL));
    scene_close(&scene);
}

/* ==== Failed calls ======================================================= */

TEST(harmless_errors_leave_the_transaction_good)
{
    struct scene scene;
    MDB_val empty = val_text(""), data = val_text("1");
    MDB_cursor *cursor;
    MDB_dbi dbi;

    scene_open(&scene, 0, 0);
    put_records(scene.txn, scene.dbi, "a=1 b=2");
    cursor = scene_cursor(&scene);
    CHECK_RC(put_text(scene.txn, scene.dbi, "a", "2", MDB_NOOVERWRITE), MDB_KEYEXIST);
    CHECK_RC(put_text(scene.txn, scene.dbi, "a", "2", MDB_APPEND), MDB_KEYEXIST);
    CHECK_RC(del_text(scene.txn, scene.dbi, "x", NULL), MDB_NOTFOUND);
    CHECK_RC(mdb_put(scene.txn, scene.dbi, &empty, &data, 0), MDB_BAD_VALSIZE);
    CHECK_RC(mdb_put(scene.txn, 9, &data, &data, 0), EINVAL);
    CHECK_RC(mdb_cursor_del(cursor, 0), EINVAL);
    CHECK_RC(mdb_dbi_open(scene.txn, "missing", 0, &dbi), MDB_NOTFOUND);
    CHECK_RC(put_text(scene.txn, 1, "data", "x", 0), MDB_INCOMPATIBLE);
    CHECK_RC(mdb_env_set_mapsize(scene.env, SCENE_MAP_SIZE * 2), EINVAL);
    put_records(scene.txn, scene.dbi, "c=3");
    scene_commit(&scene);
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1 b=2 c=3");
    scene_close(&scene);
}

TEST(failed_calls_leave_their_out_arguments_alone)
{
    struct scene scene;
    MDB_txn *txn, *const txn_before = (MDB_txn *)&scene;
    MDB_cursor *cursor, *const cursor_before = (MDB_cursor *)&scene;
    MDB_val key = val_text("x"), data = val_text("before");
    MDB_dbi dbi = 4711;

    scene_open(&scene, 0, 0);
    put_records(scene.txn, scene.dbi, "a=1");
    CHECK_RC(mdb_get(scene.txn, scene.dbi, &key, &data), MDB_NOTFOUND);
    CHECK_VAL_TEXT(&data, "before");
    CHECK_RC(mdb_dbi_open(scene.txn, "missing", 0, &dbi), MDB_NOTFOUND);
    CHECK_EQ(dbi, 4711);
    txn = txn_before;
    CHECK_RC(mdb_txn_begin(scene.env, scene.txn, MDB_RDONLY, &txn), MDB_BAD_TXN);
    CHECK(txn == txn_before);
    cursor = cursor_before;
    CHECK_RC(mdb_cursor_open(scene.txn, 9, &cursor), EINVAL);
    CHECK(cursor == cursor_before);
    cursor = scene_cursor(&scene);
    CHECK_RC(mdb_cursor_get(cursor, &key, &data, MDB_SET_KEY), MDB_NOTFOUND);
    CHECK_VAL_TEXT(&key, "x");
    CHECK_VAL_TEXT(&data, "before");
    scene_close(&scene);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(version_is_that_of_the_header),
        TEST_ENTRY(every_code_has_a_text_of_its_own),
        TEST_ENTRY(environment_calls_refuse_null),
        TEST_ENTRY(open_environment_refuses_null_out_arguments),
        TEST_ENTRY(calls_before_open_give_einval),
        TEST_ENTRY(settings_after_open_give_einval),
        TEST_ENTRY(unknown_environment_flags_give_einval),
        TEST_ENTRY(open_tells_why_a_path_does_not_serve),
        TEST_ENTRY(handle_after_failed_open_can_only_be_closed),
        TEST_ENTRY(environment_flags_can_be_read_and_changed),
        TEST_ENTRY(path_and_descriptor_are_those_of_the_data_file),
        TEST_ENTRY(files_are_made_with_the_mode_less_the_umask),
        TEST_ENTRY(user_context_is_kept),
        TEST_ENTRY(assert_callback_can_be_set_and_removed),
        TEST_ENTRY(reader_slots_can_be_chosen),
        TEST_ENTRY(map_size_is_rounded_to_pages_and_remembered),
        TEST_ENTRY(page_size_can_be_chosen_for_a_new_environment),
        TEST_ENTRY(other_page_sizes_give_einval),
        TEST_ENTRY(data_survives_every_combination_of_open_flags),
        TEST_ENTRY(nosubdir_names_the_data_file_itself),
        TEST_ENTRY(fixed_map_stays_at_its_address),
        TEST_ENTRY(read_only_environment_refuses_writing),
        TEST_ENTRY(previous_snapshot_can_be_read_and_brought_back),
        TEST_ENTRY(info_and_stat_tell_what_was_written),
        TEST_ENTRY(transaction_calls_refuse_null),
        TEST_ENTRY(transaction_ids_count_commits),
        TEST_ENTRY(commit_keeps_and_abort_discards),
        TEST_ENTRY(reset_transaction_can_only_be_renewed_or_ended),
        TEST_ENTRY(read_transactions_cannot_nest),
        TEST_ENTRY(parent_rests_while_its_child_lives),
        TEST_ENTRY(ending_a_parent_ends_its_child),
        TEST_ENTRY(durability_of_one_commit_can_be_chosen),
        TEST_ENTRY(pointers_of_a_read_transaction_stay_valid_while_others_write),
        TEST_ENTRY(put_takes_key_and_value_out_of_the_same_database),
        TEST_ENTRY(put_takes_large_values_out_of_the_same_database),
        TEST_ENTRY(del_takes_the_key_out_of_the_record_that_it_deletes),
        TEST_ENTRY(record_calls_refuse_null_and_unknown_flags),
        TEST_ENTRY(handles_that_are_none_give_einval),
        TEST_ENTRY(free_list_can_be_read_but_not_written),
        TEST_ENTRY(put_obeys_each_flag),
        TEST_ENTRY(nooverwrite_shows_the_value_that_is_there),
        TEST_ENTRY(reserve_gives_room_to_write_into),
        TEST_ENTRY(reserve_with_dupsort_is_incompatible),
        TEST_ENTRY(del_deletes_what_is_there),
        TEST_ENTRY(keys_may_be_as_long_as_the_environment_says),
        TEST_ENTRY(values_longer_than_4_gib_are_refused),
        TEST_ENTRY(value_of_size_zero_may_have_no_address),
        TEST_ENTRY(read_transaction_refuses_every_change),
        TEST_ENTRY(database_calls_refuse_null_and_unknown_flags),
        TEST_ENTRY(databases_keep_their_flags),
        TEST_ENTRY(same_name_gives_the_same_handle),
        TEST_ENTRY(too_many_databases_give_dbs_full),
        TEST_ENTRY(closed_handle_is_none),
        TEST_ENTRY(database_names_have_limits),
        TEST_ENTRY(named_database_is_a_record_of_the_main_one),
        TEST_ENTRY(main_database_with_special_keys_holds_no_databases),
        TEST_ENTRY(handle_opened_in_an_aborted_transaction_is_none),
        TEST_ENTRY(drop_empties_or_deletes),
        TEST_ENTRY(drop_and_create_anew_with_other_flags_in_one_transaction),
        TEST_ENTRY(database_that_was_written_is_dropped_and_made_anew_with_other_flags),
        TEST_ENTRY(drop_of_the_main_database_deletes_the_named_ones),
        TEST_ENTRY(many_databases_in_one_transaction),
        TEST_ENTRY(cmp_and_dcmp_compare_as_the_flags_say),
        TEST_ENTRY(integer_keys_sort_as_integers),
        TEST_ENTRY(integer_keys_have_the_width_of_the_first_one),
        TEST_ENTRY(integers_as_arguments_may_stand_at_odd_addresses),
        TEST_ENTRY(compare_functions_of_the_caller_rule),
        TEST_ENTRY(custom_order_holds_with_many_records),
        TEST_ENTRY(relocation_functions_can_be_set_and_are_not_called),
        TEST_ENTRY(harmless_errors_leave_the_transaction_good),
        TEST_ENTRY(failed_calls_leave_their_out_arguments_alone),
    };

    return test_main(argc, argv, tests, TEST_COUNT(tests));
}
