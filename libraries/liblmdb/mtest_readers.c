/* Readers: their table and its slots, threads, parked transactions, snapshots while others write, and the rules of one
 * thread and one process. */
#include "mtest_common.h"

/* ==== The list of readers ================================================ */

struct listed {
    char text[4096];
    unsigned lines;
    int stop_at;                /* number of the call that returns negative; 0: none */
};

static int list_line(const char *text, void *context)
{
    struct listed *listed = context;

    CHECK(strlen(listed->text) + strlen(text) < sizeof(listed->text));
    CHECK(strlen(text) > 0 && text[strlen(text) - 1] == '\n');
    strcat(listed->text, text);
    listed->lines++;
    return listed->stop_at > 0 && (int)listed->lines >= listed->stop_at ? -7 : 0;
}

static unsigned lines_with(const struct listed *listed, const char *part)
{
    const char *at = listed->text;
    unsigned count = 0;

    for (; (at = strstr(at, part)) != NULL; at += strlen(part))
        count++;
    return count;
}

TEST(reader_list_tells_who_reads)
{
    struct scene scene;
    MDB_txn *first, *second;
    struct listed none = { .lines = 0 }, two = { .lines = 0 }, parked = { .lines = 0 }, stopped = { .stop_at = 1 };
    char pid[32];

    snprintf(pid, sizeof(pid), "%d ", (int)getpid());
    scene_open(&scene, MDB_NOTLS, 0);
    scene_commit(&scene);
    CHECK(mdb_reader_list(scene.env, list_line, &none) >= 0);
    CHECK_EQ(none.lines, 1);
    CHECK_EQ(lines_with(&none, pid), 0);
    first = begin_read(scene.env);
    second = begin_read(scene.env);
    CHECK(mdb_reader_list(scene.env, list_line, &two) >= 0);
    CHECK_EQ(two.lines, 3);
    CHECK_EQ(lines_with(&two, pid), 2);
    mdb_txn_reset(first);
    CHECK(mdb_reader_list(scene.env, list_line, &parked) >= 0);
    CHECK_EQ(lines_with(&parked, pid), 2);
    CHECK_EQ(lines_with(&parked, " -\n"), 1);
    CHECK_EQ(mdb_reader_list(scene.env, list_line, &stopped), -7);
    CHECK_EQ(stopped.lines, 1);
    mdb_txn_abort(first);
    mdb_txn_abort(second);
    scene_close(&scene);
}

TEST(environment_without_lock_file_has_no_readers_to_list)
{
    struct scene scene;
    struct listed listed = { .lines = 0 };
    MDB_txn *reader;
    int dead = -1;

    scene_open(&scene, MDB_NOLOCK, 0);
    put_records(scene.txn, scene.dbi, "a=1");
    CHECK_OK(mdb_txn_commit(scene.txn));
    reader = begin_read(scene.env);
    CHECK_CONTENTS(reader, scene.dbi, "a=1");
    CHECK(mdb_reader_list(scene.env, list_line, &listed) >= 0);
    CHECK_EQ(listed.lines, 1);
    CHECK_OK(mdb_reader_check(scene.env, &dead));
    CHECK_EQ(dead, 0);
    mdb_txn_reset(reader);
    CHECK_OK(mdb_txn_renew(reader));
    CHECK_CONTENTS(reader, scene.dbi, "a=1");
    mdb_txn_abort(reader);
    scene.txn = begin_write(scene.env);
    scene_close(&scene);
}

TEST(reader_check_clears_nobody_who_lives)
{
    struct scene scene;
    MDB_txn *reader;
    int dead = -1;

    scene_open(&scene, 0, 0);
    put_records(scene.txn, scene.dbi, "a=1");
    scene_commit(&scene);
    reader = begin_read(scene.env);
    CHECK_OK(mdb_reader_check(scene.env, &dead));
    CHECK_EQ(dead, 0);
    CHECK_OK(mdb_reader_check(scene.env, NULL));
    CHECK_CONTENTS(reader, scene.dbi, "a=1");
    mdb_txn_abort(reader);
    scene_close(&scene);
}

/* ==== Slots ============================================================== */

static unsigned slots_used(MDB_env *env)
{
    MDB_envinfo info;

    CHECK_OK(mdb_env_info(env, &info));
    return info.me_numreaders;
}

TEST(reader_after_reader_uses_one_slot)
{
    static const unsigned flags[] = { 0, MDB_NOTLS };
    size_t kind;
    unsigned i;

    for (kind = 0; kind < ARRAY_COUNT(flags); kind++) {
        struct scene scene;

        scene_open(&scene, flags[kind], 0);
        scene_commit(&scene);
        for (i = 0; i < 3000; i++) {
            MDB_txn *reader = begin_read(scene.env);

            if (i % 3 == 0)
                CHECK_OK(mdb_txn_commit(reader));
            else
                mdb_txn_abort(reader);
        }
        CHECK_EQ(slots_used(scene.env), 1);
        scene_close(&scene);
    }
}

TEST(as_many_readers_as_slots_and_no_more)
{
    enum { SLOTS = 126 };
    struct scene scene;
    MDB_txn *readers[SLOTS], *more;
    unsigned i;

    scene_open(&scene, MDB_NOTLS, 0);
    scene_commit(&scene);
    for (i = 0; i < SLOTS; i++)
        readers[i] = begin_read(scene.env);
    CHECK_RC(mdb_txn_begin(scene.env, NULL, MDB_RDONLY, &more), MDB_READERS_FULL);
    CHECK_EQ(slots_used(scene.env), SLOTS);
    for (i = 0; i < SLOTS; i += 2)
        mdb_txn_abort(readers[i]);
    for (i = 0; i < SLOTS; i += 2)
        readers[i] = begin_read(scene.env);
    CHECK_RC(mdb_txn_begin(scene.env, NULL, MDB_RDONLY, &more), MDB_READERS_FULL);
    for (i = 0; i < SLOTS; i++)
        mdb_txn_abort(readers[i]);
    scene_close(&scene);
}

static void table_of_ten(struct parent *parent, const char *path)
{
    MDB_env *env;

    CHECK_OK(mdb_env_create(&env));
    CHECK_OK(mdb_env_set_maxreaders(env, 10));
    CHECK_OK(mdb_env_open(env, path, 0, 0644));
    PARENT_SEND(parent, 'o');
    PARENT_WAIT(parent, 'c');
    mdb_env_close(env);
}

TEST(table_has_the_slots_of_who_set_it_up)
{
    char *dir = temp_dir_make();
    struct child child = child_start(table_of_ten, dir);
    MDB_txn *readers[10], *more;
    MDB_env *env;
    unsigned slots, i;

    CHILD_WAIT(&child, 'o');
    CHECK_OK(mdb_env_create(&env));
    CHECK_OK(mdb_env_set_maxreaders(env, 50));
    CHECK_OK(mdb_env_open(env, dir, MDB_NOTLS, 0644));
    CHECK_OK(mdb_env_get_maxreaders(env, &slots));
    CHECK_EQ(slots, 10);
    for (i = 0; i < 10; i++)
        readers[i] = begin_read(env);
    CHECK_RC(mdb_txn_begin(env, NULL, MDB_RDONLY, &more), MDB_READERS_FULL);
    for (i = 0; i < 10; i++)
        mdb_txn_abort(readers[i]);
    CHILD_SEND(&child, 'c');
    child_finish(&child);
    mdb_env_close(env);

    /* Alone, one sets it up anew; it never shrinks. */
    CHECK_OK(mdb_env_create(&env));
    CHECK_OK(mdb_env_set_maxreaders(env, 50));
    CHECK_OK(mdb_env_open(env, dir, MDB_NOTLS, 0644));
    CHECK_OK(mdb_env_get_maxreaders(env, &slots));
    CHECK_EQ(slots, 50);
    mdb_env_close(env);
    CHECK_OK(mdb_env_create(&env));
    CHECK_OK(mdb_env_set_maxreaders(env, 3));
    CHECK_OK(mdb_env_open(env, dir, MDB_NOTLS, 0644));
    CHECK_OK(mdb_env_get_maxreaders(env, &slots));
    CHECK_EQ(slots, 50);
    mdb_env_close(env);
    temp_dir_remove(dir);
}

/* ==== Threads ============================================================ */

struct thread_task {
    struct scene *scene;
    MDB_txn *txn;
    pthread_barrier_t *barrier;
};

static void *thread_holds_a_slot(void *argument)
{
    struct thread_task *task = argument;
    MDB_txn *reader = begin_read(task->scene->env);

    mdb_txn_abort(reader);
    pthread_barrier_wait(task->barrier);
    pthread_barrier_wait(task->barrier);
    return NULL;
}

TEST(thread_gives_its_slot_back_when_it_ends)
{
    enum { THREADS = 8 };
    struct scene scene;
    pthread_barrier_t barrier;
    struct thread_task task = { .scene = &scene, .barrier = &barrier };
    unsigned round, i;

    scene_open(&scene, 0, 0);
    scene_commit(&scene);
    CHECK_EQ(pthread_barrier_init(&barrier, NULL, THREADS + 1), 0);
    for (round = 0; round < 10; round++) {
        struct listed living = { .lines = 0 }, ended = { .lines = 0 };
        pthread_t threads[THREADS];

        for (i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_create(&threads[i], NULL, thread_holds_a_slot, &task), 0);
        pthread_barrier_wait(&barrier);
        /* Each holds its slot, though its transaction has ended. */
        CHECK(mdb_reader_list(scene.env, list_line, &living) >= 0);
        CHECK_EQ(living.lines, THREADS + 1);
        pthread_barrier_wait(&barrier);
        for (i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
        CHECK(mdb_reader_list(scene.env, list_line, &ended) >= 0);
        CHECK_EQ(ended.lines, 1);
        CHECK_EQ(slots_used(scene.env), THREADS);
    }
    pthread_barrier_destroy(&barrier);
    scene_close(&scene);
}

static void *thread_ends_anothers_reader(void *argument)
{
    struct thread_task *task = argument;

    CHECK_CONTENTS(task->txn, task->scene->dbi, "a=1");
    mdb_txn_reset(task->txn);
    CHECK_OK(mdb_txn_renew(task->txn));
    mdb_txn_abort(task->txn);
    return NULL;
}

TEST(reader_without_tls_moves_from_thread_to_thread)
{
    struct scene scene;
    struct thread_task task = { .scene = &scene };
    pthread_t thread;
    unsigned i;

    scene_open(&scene, MDB_NOTLS, 0);
    put_records(scene.txn, scene.dbi, "a=1");
    scene_commit(&scene);
    for (i = 0; i < 20; i++) {
        task.txn = begin_read(scene.env);
        CHECK_EQ(pthread_create(&thread, NULL, thread_ends_anothers_reader, &task), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(atomic_load(&test_state.failed_checks), 0);
    }
    CHECK_EQ(slots_used(scene.env), 1);
    scene_close(&scene);
}

/* What the threads of the next tests share: all records hold the number of their commit. */
enum { SHARED_RECORDS = 100 };

struct shared_work {
    struct scene scene;
    atomic_int done;
    atomic_uint reads;
    unsigned commits;
};

static void shared_commit(struct shared_work *work, unsigned number)
{
    MDB_txn *txn = begin_write(work->scene.env);
    unsigned i;

    for (i = 0; i < SHARED_RECORDS; i++) {
        struct numeral key_text = numeral_of(i);
        unsigned char bytes[1200];
        size_t size = 8 + (number * 37 + i * 11) % 300 + (i % 20 == 0 ? 800 : 0);
        MDB_val key = val_text(key_text.text), data = val_of(bytes, size);

        memset(bytes, 0, sizeof(bytes));
        memcpy(bytes, numeral_of(number).text, 8);
        CHECK_OK(mdb_put(txn, work->scene.dbi, &key, &data, 0));
    }
    CHECK_OK(mdb_txn_commit(txn));
}

/* All records of a snapshot hold the same number; gives it. */
static unsigned shared_check(struct shared_work *work, MDB_txn *txn)
{
    MDB_cursor *cursor;
    MDB_val key, data;
    char first[9] = "", here[9] = "";
    unsigned count = 0;

    CHECK_OK(mdb_cursor_open(txn, work->scene.dbi, &cursor));
    while (mdb_cursor_get(cursor, &key, &data, MDB_NEXT) == MDB_SUCCESS) {
        memcpy(here, data.mv_data, 8);
        if (count++ == 0)
            memcpy(first, here, sizeof(first));
        CHECK_TEXT(here, first);
    }
    mdb_cursor_close(cursor);
    CHECK_EQ(count, SHARED_RECORDS);
    return (unsigned)strtoul(first, NULL, 10);
}

static void *shared_reader(void *argument)
{
    struct shared_work *work = argument;
    unsigned last = 0;

    while (!atomic_load(&work->done)) {
        MDB_txn *reader = begin_read(work->scene.env);
        unsigned number = shared_check(work, reader);

        CHECK(number >= last);
        last = number;
        CHECK_EQ(shared_check(work, reader), number);
        mdb_txn_abort(reader);
        atomic_fetch_add(&work->reads, 1);
    }
    return NULL;
}

/* One transaction for all reads, parked between. */
static void *shared_parking_reader(void *argument)
{
    struct shared_work *work = argument;
    MDB_txn *reader = begin_read(work->scene.env);

    while (!atomic_load(&work->done)) {
        shared_check(work, reader);
        mdb_txn_reset(reader);
        CHECK_OK(mdb_txn_renew(reader));
        atomic_fetch_add(&work->reads, 1);
    }
    mdb_txn_abort(reader);
    return NULL;
}

static void *shared_writer(void *argument)
{
    struct shared_work *work = argument;
    unsigned i;

    for (i = 0; i < work->commits; i++) {
        MDB_txn *reader = begin_read(work->scene.env);
        unsigned number = shared_check(work, reader);

        mdb_txn_abort(reader);
        shared_commit(work, number + 1);
    }
    return NULL;
}

TEST(readers_of_many_threads_see_whole_commits)
{
    static const unsigned flags[] = { MDB_NOSYNC, MDB_NOSYNC | MDB_NOTLS, MDB_NOSYNC | MDB_WRITEMAP };
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(flags); kind++) {
        enum { READERS = 4 };
        struct shared_work work = { .commits = 150 };
        pthread_t readers[READERS], writer;
        unsigned i;

        scene_open(&work.scene, flags[kind], 0);
        CHECK_OK(mdb_txn_commit(work.scene.txn));
        shared_commit(&work, 1);
        for (i = 0; i < READERS; i++) {
            CHECK_EQ(pthread_create(&readers[i], NULL, i % 2 == 0 ? shared_reader : shared_parking_reader, &work), 0);
        }
        CHECK_EQ(pthread_create(&writer, NULL, shared_writer, &work), 0);
        CHECK_EQ(pthread_join(writer, NULL), 0);
        atomic_store(&work.done, 1);
        for (i = 0; i < READERS; i++)
            CHECK_EQ(pthread_join(readers[i], NULL), 0);
        CHECK_EQ(atomic_load(&test_state.failed_checks), 0);
        CHECK(atomic_load(&work.reads) > 0);
        work.scene.txn = begin_write(work.scene.env);
        CHECK_EQ(shared_check(&work, work.scene.txn), 151);
        scene_close(&work.scene);
    }
}

static void *counting_writer(void *argument)
{
    struct shared_work *work = argument;
    unsigned i;

    for (i = 0; i < work->commits; i++) {
        MDB_txn *txn = begin_write(work->scene.env);
        MDB_val key = val_text("counter"), data;
        unsigned number;

        CHECK_OK(mdb_get(txn, work->scene.dbi, &key, &data));
        memcpy(&number, data.mv_data, sizeof(number));
        number++;
        data = val_of(&number, sizeof(number));
        CHECK_OK(mdb_put(txn, work->scene.dbi, &key, &data, 0));
        if (i % 5 == 4) {
            mdb_txn_abort(txn);
            continue;
        }
        CHECK_OK(mdb_txn_commit(txn));
    }
    return NULL;
}

TEST(writers_of_many_threads_take_turns)
{
    enum { WRITERS = 5 };
    struct shared_work work = { .commits = 100 };
    pthread_t writers[WRITERS];
    MDB_val key = val_text("counter"), data;
    unsigned i, number = 0;

    scene_open(&work.scene, MDB_NOSYNC, 0);
    data = val_of(&number, sizeof(number));
    CHECK_OK(mdb_put(work.scene.txn, work.scene.dbi, &key, &data, 0));
    CHECK_OK(mdb_txn_commit(work.scene.txn));
    for (i = 0; i < WRITERS; i++)
        CHECK_EQ(pthread_create(&writers[i], NULL, counting_writer, &work), 0);
    for (i = 0; i < WRITERS; i++)
        CHECK_EQ(pthread_join(writers[i], NULL), 0);
    CHECK_EQ(atomic_load(&test_state.failed_checks), 0);
    work.scene.txn = begin_write(work.scene.env);
    CHECK_OK(mdb_get(work.scene.txn, work.scene.dbi, &key, &data));
    memcpy(&number, data.mv_data, sizeof(number));
    CHECK_EQ(number, WRITERS * 80);
    scene_close(&work.scene);
}

/* ==== One thread ========================================================= */

TEST(second_write_transaction_of_a_thread_is_edeadlk)
{
    struct scene scene, other;
    MDB_txn *second = NULL, *child;

    scene_open(&scene, 0, 0);
    put_records(scene.txn, scene.dbi, "a=1");
    CHECK_RC(mdb_txn_begin(scene.env, NULL, 0, &second), EDEADLK);
    CHECK(second == NULL);
    child = begin_nested(scene.env, scene.txn);
    CHECK_RC(mdb_txn_begin(scene.env, NULL, 0, &second), EDEADLK);
    put_records(child, scene.dbi, "b=2");
    CHECK_OK(mdb_txn_commit(child));
    /* Another environment is another lock; a read transaction takes none. */
    scene_open(&other, 0, 0);
    scene_close(&other);
    second = begin_read(scene.env);
    CHECK_RC(mdb_txn_begin(scene.env, NULL, 0, &child), EDEADLK);
    mdb_txn_abort(second);
    scene_commit(&scene);
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1 b=2");
    scene_close(&scene);
}

static void *begins_when_it_can(void *argument)
{
    struct thread_task *task = argument;
    MDB_txn *txn;

    pthread_barrier_wait(task->barrier);
    txn = begin_write(task->scene->env);
    CHECK_CONTENTS(txn, task->scene->dbi, "a=1");
    put_records(txn, task->scene->dbi, "b=2");
    CHECK_OK(mdb_txn_commit(txn));
    return NULL;
}

TEST(write_transaction_of_another_thread_waits)
{
    struct scene scene;
    pthread_barrier_t barrier;
    struct thread_task task = { .scene = &scene, .barrier = &barrier };
    pthread_t thread;

    scene_open(&scene, 0, 0);
    scene_commit(&scene);
    CHECK_EQ(pthread_barrier_init(&barrier, NULL, 2), 0);
    CHECK_EQ(pthread_create(&thread, NULL, begins_when_it_can, &task), 0);
    pthread_barrier_wait(&barrier);
    put_records(scene.txn, scene.dbi, "a=1");
    CHECK_OK(mdb_txn_commit(scene.txn));
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(atomic_load(&test_state.failed_checks), 0);
    pthread_barrier_destroy(&barrier);
    scene.txn = begin_write(scene.env);
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1 b=2");
    scene_close(&scene);
}

static void *begins_and_ends_in_it(void *argument)
{
    struct thread_task *task = argument;
    MDB_txn *txn = begin_write(task->scene->env);

    put_records(txn, task->scene->dbi, "lost=1");
    return NULL;
}

/* What the thread had taken is lost, so a process of its own does this. */
static void loses_a_thread(struct parent *parent, const char *path)
{
    struct scene scene = { .env = env_open_again(path, 0, 0, SCENE_DBS) };
    struct thread_task task = { .scene = &scene };
    pthread_t thread;
    MDB_txn *txn = begin_write(scene.env);
    unsigned i;

    (void)parent;
    scene.dbi = dbi_of(txn, "data", 0);
    CHECK_OK(mdb_txn_commit(txn));
    CHECK_EQ(pthread_create(&thread, NULL, begins_and_ends_in_it, &task), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    for (i = 0; i < 3; i++)
        CHECK_RC(mdb_txn_begin(scene.env, NULL, 0, &txn), MDB_PANIC);
    mdb_env_close(scene.env);
    scene.env = env_open_again(path, 0, 0, SCENE_DBS);
    txn = begin_write(scene.env);
    scene.dbi = dbi_of(txn, "data", 0);
    CHECK_CONTENTS(txn, scene.dbi, "a=1");
    put_records(txn, scene.dbi, "b=2");
    CHECK_OK(mdb_txn_commit(txn));
    mdb_env_close(scene.env);
}

/* Nobody can end the transaction of a thread that is no more; so the environment must be opened anew. */
TEST(thread_that_ends_inside_its_write_transaction_leaves_a_panic)
{
    struct scene scene;
    struct child child;

    scene_open(&scene, 0, 0);
    put_records(scene.txn, scene.dbi, "a=1");
    CHECK_OK(mdb_txn_commit(scene.txn));
    mdb_env_close(scene.env);
    child = child_start(loses_a_thread, scene.dir);
    child_finish(&child);
    scene.env = env_open_again(scene.dir, 0, 0, SCENE_DBS);
    scene.txn = begin_write(scene.env);
    CHECK_OK(mdb_dbi_open(scene.txn, "data", 0, &scene.dbi));
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1 b=2");
    scene_close(&scene);
}

TEST(second_read_transaction_of_a_thread_needs_notls)
{
    struct scene scene;
    MDB_txn *first, *second, *parked;

    scene_open(&scene, 0, 0);
    put_records(scene.txn, scene.dbi, "a=1");
    scene_commit(&scene);
    first = begin_read(scene.env);
    CHECK_RC(mdb_txn_begin(scene.env, NULL, MDB_RDONLY, &second), MDB_BAD_RSLOT);
    CHECK_CONTENTS(first, scene.dbi, "a=1");
    mdb_txn_abort(first);
    /* One that is parked has the thread's slot too, until another transaction takes it. */
    parked = begin_read(scene.env);
    mdb_txn_reset(parked);
    CHECK_OK(mdb_txn_renew(parked));
    CHECK_CONTENTS(parked, scene.dbi, "a=1");
    mdb_txn_abort(parked);
    scene_close(&scene);
}

TEST(writer_reads_beside_its_write_transaction)
{
    struct scene scene;
    MDB_txn *reader;

    scene_open(&scene, 0, 0);
    put_records(scene.txn, scene.dbi, "a=1");
    scene_commit(&scene);
    put_records(scene.txn, scene.dbi, "b=2");
    reader = begin_read(scene.env);
    CHECK_CONTENTS(reader, scene.dbi, "a=1");
    scene_commit(&scene);
    CHECK_CONTENTS(reader, scene.dbi, "a=1");
    mdb_txn_reset(reader);
    CHECK_OK(mdb_txn_renew(reader));
    CHECK_CONTENTS(reader, scene.dbi, "a=1 b=2");
    mdb_txn_abort(reader);
    scene_close(&scene);
}

/* ==== Parked transactions ================================================ */

TEST(parked_reader_keeps_its_slot_but_no_pages)
{
    struct scene scene;
    MDB_txn *reader;
    MDB_envinfo info;
    size_t held, pages;
    unsigned i;

    scene_open(&scene, MDB_NOTLS | MDB_NOSYNC, 0);
    put_numbers(scene.txn, scene.dbi, 0, 200, 100);
    scene_commit(&scene);
    reader = begin_read(scene.env);
    for (i = 0; i < 30; i++) {
        put_numbers(scene.txn, scene.dbi, 0, 200, 100 + i);
        scene_commit(&scene);
    }
    CHECK_OK(mdb_env_info(scene.env, &info));
    held = info.me_last_pgno;
    check_numbers(reader, scene.dbi, 0, 200, 100);
    mdb_txn_reset(reader);
    CHECK_EQ(slots_used(scene.env), 1);
    for (i = 0; i < 30; i++) {
        put_numbers(scene.txn, scene.dbi, 0, 200, 100 + i);
        scene_commit(&scene);
    }
    CHECK_OK(mdb_env_info(scene.env, &info));
    pages = info.me_last_pgno;
    CHECK(pages <= held + 4);
    CHECK_OK(mdb_txn_renew(reader));
    check_numbers(reader, scene.dbi, 0, 200, 129);
    mdb_txn_abort(reader);
    scene_close(&scene);
}

TEST(renewed_reader_sees_the_newest_snapshot)
{
    struct scene scene;
    MDB_txn *reader;
    unsigned i;

    scene_open(&scene, MDB_NOSYNC, 0);
    put_records(scene.txn, scene.dbi, "a=0");
    scene_commit(&scene);
    reader = begin_read(scene.env);
    for (i = 1; i < 500; i++) {
        mdb_size_t id = mdb_txn_id(reader);

        CHECK_OK(put_text(scene.txn, scene.dbi, "a", numeral_of(i).text, 0));
        scene_commit(&scene);
        CHECK_EQ(mdb_txn_id(reader), id);
        mdb_txn_reset(reader);
        CHECK_OK(mdb_txn_renew(reader));
        CHECK_EQ(mdb_txn_id(reader), id + 1);
        CHECK_TEXT(get_text(reader, scene.dbi, "a"), numeral_of(i).text);
    }
    mdb_txn_abort(reader);
    scene_close(&scene);
}

/* A database handle that was opened by a reader, and databases that come and go between two renewals. */
TEST(renewed_reader_sees_databases_come_and_go)
{
    struct scene scene;
    MDB_txn *reader;
    MDB_val key = val_text("a"), data;
    MDB_dbi dbi, found;

    scene_open(&scene, MDB_NOTLS, 0);
    scene_commit(&scene);
    reader = begin_read(scene.env);
    CHECK_RC(mdb_dbi_open(reader, "later", 0, &found), MDB_NOTFOUND);
    dbi = dbi_of(scene.txn, "later", MDB_CREATE);
    put_records(scene.txn, dbi, "a=1");
    scene_commit(&scene);
    CHECK(mdb_get(reader, dbi, &key, &data) != MDB_SUCCESS);
    mdb_txn_reset(reader);
    CHECK_OK(mdb_txn_renew(reader));
    CHECK_CONTENTS(reader, dbi, "a=1");
    CHECK_OK(mdb_drop(scene.txn, dbi, 1));
    scene_commit(&scene);
    mdb_txn_reset(reader);
    CHECK_OK(mdb_txn_renew(reader));
    CHECK(mdb_get(reader, dbi, &key, &data) != MDB_SUCCESS);
    CHECK_RC(mdb_dbi_open(reader, "later", 0, &found), MDB_NOTFOUND);
    mdb_txn_abort(reader);
    scene_close(&scene);
}

/* ==== Opening beside others ============================================== */

static void reads_and_writes(struct parent *parent, const char *path)
{
    MDB_env *env = env_open_again(path, 0, 0, SCENE_DBS);
    MDB_txn *txn = begin_read(env);
    MDB_dbi dbi = dbi_of(txn, "data", 0);

    CHECK_CONTENTS(txn, dbi, "a=1");
    PARENT_SEND(parent, 'r');
    PARENT_WAIT(parent, 'w');
    CHECK_CONTENTS(txn, dbi, "a=1");
    CHECK_OK(mdb_txn_commit(txn));
    txn = begin_write(env);
    CHECK_CONTENTS(txn, dbi, "a=1 b=2");
    put_records(txn, dbi, "c=3");
    CHECK_OK(mdb_txn_commit(txn));
    mdb_env_close(env);
}

TEST(readers_of_two_processes_have_slots_of_their_own)
{
    struct scene scene;
    struct listed listed = { .lines = 0 };
    struct child child;
    MDB_txn *reader;

    scene_open(&scene, 0, 0);
    put_records(scene.txn, scene.dbi, "a=1");
    scene_commit(&scene);
    child = child_start(reads_and_writes, scene.dir);
    CHILD_WAIT(&child, 'r');
    reader = begin_read(scene.env);
    CHECK(mdb_reader_list(scene.env, list_line, &listed) >= 0);
    CHECK_EQ(listed.lines, 3);
    put_records(scene.txn, scene.dbi, "b=2");
    CHECK_OK(mdb_txn_commit(scene.txn));
    CHILD_SEND(&child, 'w');
    child_finish(&child);
    CHECK_CONTENTS(reader, scene.dbi, "a=1");
    mdb_txn_abort(reader);
    scene.txn = begin_write(scene.env);
    CHECK_CONTENTS(scene.txn, scene.dbi, "a=1 b=2 c=3");
    scene_close(&scene);
}

TEST(environments_are_opened_and_closed_many_times)
{
    char *dir = temp_dir_make();
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    unsigned i;

    for (i = 0; i < 1500; i++) {
        env = env_open_new(dir, MDB_NOSYNC | (i % 2 == 0 ? MDB_NOTLS : 0), SCENE_MAP_SIZE, 0);
        if (i % 100 == 0) {
            txn = begin_write(env);
            dbi = dbi_of(txn, NULL, 0);
            CHECK_OK(put_text(txn, dbi, numeral_of(i).text, "", 0));
            CHECK_OK(mdb_txn_commit(txn));
        }
        txn = begin_read(env);
        CHECK_EQ(entries_count(txn, dbi_of(txn, NULL, 0)), i / 100 + 1);
        mdb_txn_abort(txn);
        mdb_env_close(env);
    }
    run_check_tool(dir);
    temp_dir_remove(dir);
}

TEST(many_environments_are_open_at_once)
{
    enum { MANY = 60 };
    char *dirs[MANY];
    MDB_env *envs[MANY];
    unsigned i;

    for (i = 0; i < MANY; i++) {
        MDB_txn *txn;

        dirs[i] = temp_dir_make();
        envs[i] = env_open_new(dirs[i], MDB_NOSYNC, (size_t)1 << 24, 0);
        txn = begin_write(envs[i]);
        CHECK_OK(put_text(txn, dbi_of(txn, NULL, 0), "number", numeral_of(i).text, 0));
        CHECK_OK(mdb_txn_commit(txn));
    }
    for (i = 0; i < MANY; i++) {
        MDB_txn *txn = begin_read(envs[i]);

        CHECK_TEXT(get_text(txn, dbi_of(txn, NULL, 0), "number"), numeral_of(i).text);
        mdb_txn_abort(txn);
    }
    for (i = 0; i < MANY; i++) {
        mdb_env_close(envs[(i * 7) % MANY]);
        temp_dir_remove(dirs[(i * 7) % MANY]);
    }
}

static void *opens_an_environment(void *argument)
{
    char *dir = argument;
    unsigned i;

    for (i = 0; i < 20; i++) {
        MDB_env *env;
        int rc;

        CHECK_OK(mdb_env_create(&env));
        rc = mdb_env_open(env, dir, MDB_NOSYNC, 0644);
        CHECK(rc == MDB_SUCCESS || rc == EBUSY);
        if (rc == MDB_SUCCESS) {
            MDB_txn *txn = begin_write(env);

            CHECK_OK(put_text(txn, dbi_of(txn, NULL, 0), "a", "1", 0));
            CHECK_OK(mdb_txn_commit(txn));
        }
        mdb_env_close(env);
    }
    return NULL;
}

/* Only one of them has it open at a time; the others are refused, and nothing is harmed. */
TEST(threads_that_open_one_path_at_once_are_served_or_refused)
{
    enum { THREADS = 4 };
    char *dir = temp_dir_make();
    pthread_t threads[THREADS];
    unsigned i;

    for (i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, opens_an_environment, dir), 0);
    for (i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(atomic_load(&test_state.failed_checks), 0);
    run_check_tool(dir);
    temp_dir_remove(dir);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(reader_list_tells_who_reads),
        TEST_ENTRY(environment_without_lock_file_has_no_readers_to_list),
        TEST_ENTRY(reader_check_clears_nobody_who_lives),
        TEST_ENTRY(reader_after_reader_uses_one_slot),
        TEST_ENTRY(as_many_readers_as_slots_and_no_more),
        TEST_ENTRY(table_has_the_slots_of_who_set_it_up),
        TEST_ENTRY(thread_gives_its_slot_back_when_it_ends),
        TEST_ENTRY(reader_without_tls_moves_from_thread_to_thread),
        TEST_ENTRY(readers_of_many_threads_see_whole_commits),
        TEST_ENTRY(writers_of_many_threads_take_turns),
        TEST_ENTRY(second_write_transaction_of_a_thread_is_edeadlk),
        TEST_ENTRY(write_transaction_of_another_thread_waits),
        TEST_ENTRY(thread_that_ends_inside_its_write_transaction_leaves_a_panic),
        TEST_ENTRY(second_read_transaction_of_a_thread_needs_notls),
        TEST_ENTRY(writer_reads_beside_its_write_transaction),
        TEST_ENTRY(parked_reader_keeps_its_slot_but_no_pages),
        TEST_ENTRY(renewed_reader_sees_the_newest_snapshot),
        TEST_ENTRY(renewed_reader_sees_databases_come_and_go),
        TEST_ENTRY(readers_of_two_processes_have_slots_of_their_own),
        TEST_ENTRY(environments_are_opened_and_closed_many_times),
        TEST_ENTRY(many_environments_are_open_at_once),
        TEST_ENTRY(threads_that_open_one_path_at_once_are_served_or_refused),
    };

    return test_main(argc, argv, tests, TEST_COUNT(tests));
}
