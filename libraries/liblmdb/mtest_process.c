/* Several processes on one environment, of this library and of another liblmdb (LMDB 0.9, as Debian installs it), which
 * children load by its full path: snapshots are honoured, the writer lock excludes, whoever is killed leaves nothing
 * that the next one cannot clear.
 *
 * Every test is run with each pair of libraries that is there. */
#include <dlfcn.h>
#include <sys/mman.h>

#include "mtest_common.h"

/* ==== Libraries ========================================================== */

#define LIBRARY_CALLS(CALL) \
    CALL(char *, version, (int *, int *, int *)) \
    CALL(char *, strerror, (int)) \
    CALL(int, env_create, (MDB_env **)) \
    CALL(int, env_open, (MDB_env *, const char *, unsigned, mdb_mode_t)) \
    CALL(void, env_close, (MDB_env *)) \
    CALL(int, env_info, (MDB_env *, MDB_envinfo *)) \
    CALL(int, env_set_mapsize, (MDB_env *, mdb_size_t)) \
    CALL(int, env_set_maxdbs, (MDB_env *, MDB_dbi)) \
    CALL(int, txn_begin, (MDB_env *, MDB_txn *, unsigned, MDB_txn **)) \
    CALL(mdb_size_t, txn_id, (MDB_txn *)) \
    CALL(int, txn_commit, (MDB_txn *)) \
    CALL(void, txn_abort, (MDB_txn *)) \
    CALL(int, dbi_open, (MDB_txn *, const char *, unsigned, MDB_dbi *)) \
    CALL(int, stat, (MDB_txn *, MDB_dbi, MDB_stat *)) \
    CALL(int, get, (MDB_txn *, MDB_dbi, MDB_val *, MDB_val *)) \
    CALL(int, put, (MDB_txn *, MDB_dbi, MDB_val *, MDB_val *, unsigned)) \
    CALL(int, del, (MDB_txn *, MDB_dbi, MDB_val *, MDB_val *)) \
    CALL(int, cursor_open, (MDB_txn *, MDB_dbi, MDB_cursor **)) \
    CALL(void, cursor_close, (MDB_cursor *)) \
    CALL(int, cursor_get, (MDB_cursor *, MDB_val *, MDB_val *, MDB_cursor_op)) \
    CALL(int, reader_list, (MDB_env *, MDB_msg_func *, void *)) \
    CALL(int, reader_check, (MDB_env *, int *))

#define LIBRARY_MEMBER(type, name, arguments) type (*name) arguments;

struct library {
    const char *kind;
    LIBRARY_CALLS(LIBRARY_MEMBER)
};

#define LIBRARY_OURS(type, name, arguments) .name = mdb_##name,

static const struct library ours = { .kind = "ours", LIBRARY_CALLS(LIBRARY_OURS) };

/* A pointer to a function out of the one to an object that dlsym gives. */
static void library_find(void *handle, const char *name, void *function, size_t size)
{
    void *symbol = dlsym(handle, name);

    CHECK(symbol != NULL);
    CHECK_EQ(size, sizeof(symbol));
    memcpy(function, &symbol, size);
}

#define LIBRARY_FIND(type, name, arguments) library_find(handle, "mdb_" #name, &theirs.name, sizeof(theirs.name));

/* The other library, or NULL if it is not installed. */
static const struct library *library_theirs(void)
{
    static const char *const paths[] = {
        "/usr/lib/x86_64-linux-gnu/liblmdb.so.0", "/usr/lib/aarch64-linux-gnu/liblmdb.so.0", "/usr/lib64/liblmdb.so.0",
        "/usr/lib/liblmdb.so.0",
    };
    static struct library theirs;
    void *handle = NULL;
    size_t i;

    if (theirs.kind != NULL)
        return &theirs;
    for (i = 0; handle == NULL && i < ARRAY_COUNT(paths); i++)
        handle = dlopen(paths[i], RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return NULL;
    LIBRARY_CALLS(LIBRARY_FIND)
    if (strncmp(theirs.version(NULL, NULL, NULL), "LMDB 0.9", 8) != 0)
        return NULL;
    theirs.kind = "theirs";
    return &theirs;
}

/* The two sides of a test. A child takes its library from here: it is set before the fork. */
struct pair {
    const struct library *mine, *childs;
};

static struct pair pair;

/* Runs a test with every pair of libraries. */
static void with_every_pair(void (*run)(void))
{
    const struct library *theirs = library_theirs();
    const struct pair pairs[] = { { &ours, &ours }, { &ours, theirs }, { theirs, &ours } };
    size_t i;

    if (theirs == NULL)
        printf("skipped: %s with another liblmdb: none is installed\n", test_state.running);
    for (i = 0; i < (theirs != NULL ? ARRAY_COUNT(pairs) : 1); i++) {
        pair = pairs[i];
        run();
    }
}

/* Says which pair failed; codes are named by this library, whose numbers are those of all. */
#define PAIR_NOTE() test_note("here %s, child %s", pair.mine->kind, pair.childs->kind)

/* ==== An environment with an invariant ===================================
 * Database "slots": the records 0 ... SLOTS - 1 all begin with the same number, which grows by one with each commit,
 * and are of changing sizes. Database "values", with duplicates: under "key", the last WINDOW such numbers. */

enum { SLOTS = 40, WINDOW = 150, LEDGER_MAP_SIZE = 64 << 20 };

struct ledger {
    const struct library *library;
    MDB_env *env;
    MDB_dbi slots, values;
};

static void ledger_open(struct ledger *ledger, const struct library *library, const char *path, unsigned flags)
{
    MDB_txn *txn;

    ledger->library = library;
    CHECK_OK(library->env_create(&ledger->env));
    CHECK_OK(library->env_set_mapsize(ledger->env, LEDGER_MAP_SIZE));
    CHECK_OK(library->env_set_maxdbs(ledger->env, 4));
    CHECK_OK(library->env_open(ledger->env, path, flags, 0644));
    CHECK_OK(library->txn_begin(ledger->env, NULL, flags & MDB_RDONLY, &txn));
    CHECK_OK(library->dbi_open(txn, "slots", flags & MDB_RDONLY ? 0 : MDB_CREATE, &ledger->slots));
    CHECK_OK(library->dbi_open(txn, "values", flags & MDB_RDONLY ? 0 : MDB_CREATE | MDB_DUPSORT, &ledger->values));
    CHECK_OK(library->txn_commit(txn));
}

static void ledger_close(struct ledger *ledger)
{
    ledger->library->env_close(ledger->env);
}

static MDB_txn *ledger_begin(struct ledger *ledger, unsigned flags)
{
    MDB_txn *txn;

    CHECK_OK(ledger->library->txn_begin(ledger->env, NULL, flags, &txn));
    return txn;
}

/* The number that all slots hold: 0 before the first entry. */
static uint64_t ledger_number(struct ledger *ledger, MDB_txn *txn)
{
    MDB_val key = val_text("00000000"), data;
    uint64_t number = 0;
    int rc = ledger->library->get(txn, ledger->slots, &key, &data);

    CHECK(rc == MDB_SUCCESS || rc == MDB_NOTFOUND);
    if (rc == MDB_SUCCESS)
        memcpy(&number, data.mv_data, sizeof(number));
    return number;
}

static size_t slot_size(uint64_t number, unsigned slot)
{
    struct random random = { number * SLOTS + slot };
    size_t size = (size_t)random_below(&random, 600);

    return 8 + (random_one_in(&random, 8) ? size * 20 : size);
}

/* One more entry, in a transaction of the caller's. */
static void ledger_add(struct ledger *ledger, MDB_txn *txn)
{
    uint64_t number = ledger_number(ledger, txn) + 1;
    unsigned char *bytes = malloc(20000);
    struct numeral numeral = numeral_of((unsigned)number), old = numeral_of((unsigned)(number - WINDOW));
    MDB_val key = val_text("key"), data = val_text(numeral.text);
    unsigned slot;

    CHECK(bytes != NULL);
    CHECK_OK(ledger->library->put(txn, ledger->values, &key, &data, 0));
    data = val_text(old.text);
    if (number > WINDOW)
        CHECK_OK(ledger->library->del(txn, ledger->values, &key, &data));
    for (slot = 0; slot < SLOTS; slot++) {
        numeral = numeral_of(slot);
        key = val_text(numeral.text);
        data = val_of(bytes, slot_size(number, slot));
        pattern_fill(bytes, data.mv_size, (unsigned)(number * SLOTS + slot));
        memcpy(bytes, &number, sizeof(number));
        CHECK_OK(ledger->library->put(txn, ledger->slots, &key, &data, 0));
    }
    free(bytes);
}

static void ledger_commit_one(struct ledger *ledger)
{
    MDB_txn *txn = ledger_begin(ledger, 0);

    ledger_add(ledger, txn);
    CHECK_OK(ledger->library->txn_commit(txn));
}

static void ledger_check_values(struct ledger *ledger, MDB_txn *txn, uint64_t number)
{
    uint64_t expected = number > WINDOW ? number - WINDOW + 1 : 1;
    MDB_val key, data;
    MDB_cursor *cursor;

    CHECK_OK(ledger->library->cursor_open(txn, ledger->values, &cursor));
    while (ledger->library->cursor_get(cursor, &key, &data, MDB_NEXT) == MDB_SUCCESS) {
        CHECK_VAL_TEXT(&data, numeral_of((unsigned)expected).text);
        expected++;
    }
    CHECK_EQ(expected, number + 1);
    ledger->library->cursor_close(cursor);
}

/* That everything in a snapshot is of one number; gives it. */
static uint64_t ledger_check(struct ledger *ledger, MDB_txn *txn)
{
    uint64_t number = ledger_number(ledger, txn);
    unsigned char *bytes = malloc(20000);
    unsigned slot;

    CHECK(bytes != NULL);
    for (slot = 0; number > 0 && slot < SLOTS; slot++) {
        struct numeral numeral = numeral_of(slot);
        MDB_val key = val_text(numeral.text), data;
        size_t size = slot_size(number, slot);

        pattern_fill(bytes, size, (unsigned)(number * SLOTS + slot));
        memcpy(bytes, &number, sizeof(number));
        CHECK_OK(ledger->library->get(txn, ledger->slots, &key, &data));
        CHECK_VAL(&data, bytes, size);
    }
    free(bytes);
    ledger_check_values(ledger, txn, number);
    return number;
}

static uint64_t ledger_check_now(struct ledger *ledger)
{
    MDB_txn *txn = ledger_begin(ledger, MDB_RDONLY);
    uint64_t number = ledger_check(ledger, txn);

    ledger->library->txn_abort(txn);
    return number;
}

static size_t ledger_pages(struct ledger *ledger)
{
    MDB_envinfo info;

    CHECK_OK(ledger->library->env_info(ledger->env, &info));
    return info.me_last_pgno;
}

/* A new environment with some entries, closed again. */
static char *ledger_make(unsigned entries)
{
    char *dir = temp_dir_make();
    struct ledger ledger;
    MDB_env *env = env_open_new(dir, MDB_NOSYNC, LEDGER_MAP_SIZE, 4);

    mdb_env_close(env);
    ledger_open(&ledger, pair.mine, dir, MDB_NOSYNC);
    while (entries-- > 0)
        ledger_commit_one(&ledger);
    ledger_close(&ledger);
    return dir;
}

/* Both libraries find the environment whole. */
static void ledger_check_file(const char *dir, uint64_t least, uint64_t most)
{
    const struct library *libraries[] = { pair.mine, pair.childs };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(libraries); i++) {
        struct ledger ledger;
        uint64_t number;

        ledger_open(&ledger, libraries[i], dir, MDB_NOSYNC);
        number = ledger_check_now(&ledger);
        CHECK(number >= least && number <= most);
        ledger_commit_one(&ledger);
        most++;
        ledger_close(&ledger);
    }
    run_check_tool(dir);
}

/* Memory that the test and its children share. */
struct shared {
    atomic_int inside;          /* of the writer lock */
    atomic_int done;
    atomic_int started;
};

static struct shared *shared;

static void shared_make(void)
{
    if (shared == NULL) {
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(shared != MAP_FAILED);
    }
    atomic_store(&shared->inside, 0);
    atomic_store(&shared->done, 0);
    atomic_store(&shared->started, 0);
}

/* ==== Readers are honoured =============================================== */

/* Holds a snapshot, with pointers into it, until told to end. */
static void snapshot_holder(struct parent *parent, const char *path)
{
    struct ledger ledger;
    MDB_txn *txn;
    MDB_val key = val_text("00000007"), data;
    uint64_t number;
    unsigned char copy[20000];

    ledger_open(&ledger, pair.childs, path, MDB_NOSYNC);
    txn = ledger_begin(&ledger, MDB_RDONLY);
    number = ledger_check(&ledger, txn);
    CHECK_OK(ledger.library->get(txn, ledger.slots, &key, &data));
    memcpy(copy, data.mv_data, data.mv_size);
    PARENT_SEND(parent, 'r');
    PARENT_WAIT(parent, 'c');
    CHECK_VAL(&data, copy, data.mv_size);
    CHECK_EQ(ledger_check(&ledger, txn), number);
    ledger.library->txn_abort(txn);
    PARENT_SEND(parent, 'e');
    PARENT_WAIT(parent, 'n');
    CHECK(ledger_check_now(&ledger) > number);
    ledger_close(&ledger);
}

struct listing {
    const char *pid;
    int found;
};

static int listing_line(const char *text, void *context)
{
    struct listing *listing = context;

    listing->found += strstr(text, listing->pid) != NULL;
    return 0;
}

static void reader_is_honoured(void)
{
    char *dir = ledger_make(30);
    struct child child = child_start(snapshot_holder, dir);
    struct ledger ledger;
    char pid[32];
    struct listing listing = { pid, 0 };
    size_t held, before, after;
    unsigned i;

    PAIR_NOTE();
    CHILD_WAIT(&child, 'r');
    ledger_open(&ledger, pair.mine, dir, MDB_NOSYNC);
    snprintf(pid, sizeof(pid), "%d", (int)child.pid);
    CHECK(ledger.library->reader_list(ledger.env, listing_line, &listing) >= 0);
    CHECK_EQ(listing.found, 1);
    before = ledger_pages(&ledger);
    for (i = 0; i < 60; i++)
        ledger_commit_one(&ledger);
    held = ledger_pages(&ledger);
    CHECK(held > before + 60 * 10);
    CHILD_SEND(&child, 'c');
    CHILD_WAIT(&child, 'e');
    for (i = 0; i < 60; i++)
        ledger_commit_one(&ledger);
    after = ledger_pages(&ledger);
    /* The pages that the snapshot held are used again. */
    CHECK(after <= held + 40);
    CHILD_SEND(&child, 'n');
    child_finish(&child);
    CHECK_EQ(ledger_check_now(&ledger), 150);
    ledger_close(&ledger);
    ledger_check_file(dir, 150, 150);
    temp_dir_remove(dir);
}

TEST(snapshot_of_a_reader_is_honoured_by_writers_of_another_process)
{
    with_every_pair(reader_is_honoured);
}

/* ==== The writer lock ==================================================== */

enum { WRITER_COMMITS = 60 };

static void exclusive_writer_run(struct ledger *ledger)
{
    unsigned i;

    for (i = 0; i < WRITER_COMMITS; i++) {
        MDB_txn *txn = ledger_begin(ledger, 0);

        CHECK_EQ(atomic_fetch_add(&shared->inside, 1), 0);
        ledger_add(ledger, txn);
        CHECK_EQ(atomic_fetch_sub(&shared->inside, 1), 1);
        if (i % 7 == 3) {
            ledger->library->txn_abort(txn);
            continue;
        }
        CHECK_OK(ledger->library->txn_commit(txn));
        if (i % 10 == 0)
            ledger_check_now(ledger);
    }
}

static void exclusive_writer(struct parent *parent, const char *path)
{
    struct ledger ledger;

    ledger_open(&ledger, pair.childs, path, MDB_NOSYNC);
    PARENT_SEND(parent, 'o');
    PARENT_WAIT(parent, 'g');
    exclusive_writer_run(&ledger);
    ledger_close(&ledger);
}

static void writers_exclude_each_other(void)
{
    enum { CHILDREN = 3 };
    unsigned kept = WRITER_COMMITS - (WRITER_COMMITS + 3) / 7, i;
    struct child children[CHILDREN];
    struct ledger ledger;
    char *dir;

    shared_make();
    dir = ledger_make(1);
    PAIR_NOTE();
    for (i = 0; i < CHILDREN; i++)
        children[i] = child_start(exclusive_writer, dir);
    ledger_open(&ledger, pair.mine, dir, MDB_NOSYNC);
    for (i = 0; i < CHILDREN; i++)
        CHILD_WAIT(&children[i], 'o');
    for (i = 0; i < CHILDREN; i++)
        CHILD_SEND(&children[i], 'g');
    exclusive_writer_run(&ledger);
    for (i = 0; i < CHILDREN; i++)
        child_finish(&children[i]);
    CHECK_EQ(ledger_check_now(&ledger), 1 + (CHILDREN + 1) * kept);
    ledger_close(&ledger);
    ledger_check_file(dir, 1 + (CHILDREN + 1) * kept, 1 + (CHILDREN + 1) * kept);
    temp_dir_remove(dir);
}

TEST(writers_of_several_processes_exclude_each_other)
{
    with_every_pair(writers_exclude_each_other);
}

/* ==== Readers and writers at once ======================================== */

static void busy_reader(struct parent *parent, const char *path)
{
    struct ledger ledger;
    uint64_t last = 0;

    ledger_open(&ledger, pair.childs, path, MDB_RDONLY);
    PARENT_SEND(parent, 'o');
    while (!atomic_load(&shared->done)) {
        MDB_txn *txn = ledger_begin(&ledger, MDB_RDONLY);
        uint64_t number = ledger_check(&ledger, txn);

        CHECK(number >= last);
        last = number;
        CHECK_EQ(ledger_check(&ledger, txn), number);
        ledger.library->txn_abort(txn);
    }
    ledger_close(&ledger);
}

static void readers_see_whole_commits(void)
{
    struct child readers[2], writer;
    struct ledger ledger;
    unsigned i;
    char *dir;

    shared_make();
    dir = ledger_make(2);
    PAIR_NOTE();
    for (i = 0; i < 2; i++)
        readers[i] = child_start(busy_reader, dir);
    writer = child_start(exclusive_writer, dir);
    for (i = 0; i < 2; i++)
        CHILD_WAIT(&readers[i], 'o');
    CHILD_WAIT(&writer, 'o');
    CHILD_SEND(&writer, 'g');
    ledger_open(&ledger, pair.mine, dir, MDB_NOSYNC);
    exclusive_writer_run(&ledger);
    child_finish(&writer);
    atomic_store(&shared->done, 1);
    for (i = 0; i < 2; i++)
        child_finish(&readers[i]);
    ledger_close(&ledger);
    ledger_check_file(dir, 50, 200);
    temp_dir_remove(dir);
}

TEST(readers_see_whole_commits_of_writers_of_another_process)
{
    with_every_pair(readers_see_whole_commits);
}

/* ==== Killed writers ===================================================== */

/* Dies in the middle of a write transaction. */
static void writer_that_waits(struct parent *parent, const char *path)
{
    struct ledger ledger;
    MDB_txn *txn;

    ledger_open(&ledger, pair.childs, path, MDB_NOSYNC);
    PARENT_SEND(parent, 'o');
    PARENT_WAIT(parent, 'g');
    txn = ledger_begin(&ledger, 0);
    ledger_add(&ledger, txn);
    PARENT_SEND(parent, 'w');
    PARENT_WAIT(parent, 'x');
}

static void killed_writer_leaves_the_lock(void)
{
    char *dir = ledger_make(5);
    unsigned round;

    PAIR_NOTE();
    for (round = 0; round < 10; round++) {
        struct child child = child_start(writer_that_waits, dir);
        struct ledger ledger;

        /* Half of the times it is open here before, so that the lock file is not set up anew. */
        CHILD_WAIT(&child, 'o');
        if (round % 2 == 0)
            ledger_open(&ledger, pair.mine, dir, MDB_NOSYNC);
        CHILD_SEND(&child, 'g');
        CHILD_WAIT(&child, 'w');
        child_kill(&child);
        if (round % 2 != 0)
            ledger_open(&ledger, pair.mine, dir, MDB_NOSYNC);
        CHECK_EQ(ledger_check_now(&ledger), 5 + round);
        ledger_commit_one(&ledger);
        CHECK_EQ(ledger_check_now(&ledger), 6 + round);
        ledger_close(&ledger);
    }
    ledger_check_file(dir, 15, 15);
    temp_dir_remove(dir);
}

TEST(lock_of_a_killed_writer_is_taken_over)
{
    with_every_pair(killed_writer_leaves_the_lock);
}

/* A process that waits for the lock gets it when the owner is killed. */
static void waiting_writer(struct parent *parent, const char *path)
{
    struct ledger ledger;

    ledger_open(&ledger, pair.mine, path, MDB_NOSYNC);
    PARENT_SEND(parent, 'o');
    PARENT_WAIT(parent, 'g');
    ledger_commit_one(&ledger);
    ledger_close(&ledger);
}

static void waiting_writer_gets_the_lock(void)
{
    char *dir = ledger_make(5);
    unsigned round;

    PAIR_NOTE();
    for (round = 0; round < 6; round++) {
        struct child waiting = child_start(waiting_writer, dir), owner;

        CHILD_WAIT(&waiting, 'o');
        owner = child_start(writer_that_waits, dir);
        CHILD_WAIT(&owner, 'o');
        CHILD_SEND(&owner, 'g');
        CHILD_WAIT(&owner, 'w');
        CHILD_SEND(&waiting, 'g');
        child_kill(&owner);
        child_finish(&waiting);
    }
    ledger_check_file(dir, 11, 11);
    temp_dir_remove(dir);
}

TEST(waiting_writer_gets_the_lock_of_a_killed_one)
{
    with_every_pair(waiting_writer_gets_the_lock);
}

/* Commits without end, and tells of each. */
static void writer_without_end(struct parent *parent, const char *path)
{
    struct ledger ledger;

    ledger_open(&ledger, pair.childs, path, MDB_NOSYNC);
    for (;;) {
        ledger_commit_one(&ledger);
        PARENT_SEND(parent, 'c');
    }
}

/* The kill falls anywhere in the commit that follows the last one that was told of. */
static void writers_killed_at_any_moment(void)
{
    char *dir = ledger_make(1);
    struct random random = { test_seed() };
    struct ledger ledger;
    uint64_t number = 1;
    unsigned round, rounds = 25 * test_scale();

    PAIR_NOTE();
    for (round = 0; round < rounds; round++) {
        struct child child = child_start(writer_without_end, dir);
        uint64_t told = 0, now, work = random_below(&random, 100000), i;
        unsigned commits = (unsigned)random_below(&random, 6);
        atomic_uint spun = 0;

        while (told < commits) {
            CHILD_WAIT(&child, 'c');
            told++;
        }
        for (i = 0; i < work; i++)
            atomic_fetch_add(&spun, 1);
        child_kill(&child);
        ledger_open(&ledger, round % 2 == 0 ? pair.mine : pair.childs, dir, MDB_NOSYNC);
        now = ledger_check_now(&ledger);
        CHECK(now >= number + told);
        ledger_commit_one(&ledger);
        CHECK_EQ(ledger_check_now(&ledger), now + 1);
        number = now + 1;
        ledger_close(&ledger);
        if (round % 5 == 0)
            run_check_tool(dir);
    }
    ledger_check_file(dir, number, number);
    temp_dir_remove(dir);
}

TEST(writers_killed_at_any_moment_lose_nothing_that_was_committed)
{
    with_every_pair(writers_killed_at_any_moment);
}

/* ==== Killed readers ===================================================== */

static void reader_that_waits(struct parent *parent, const char *path)
{
    struct ledger ledger;
    MDB_txn *txn;

    ledger_open(&ledger, pair.childs, path, MDB_NOSYNC);
    txn = ledger_begin(&ledger, MDB_RDONLY);
    ledger_check(&ledger, txn);
    PARENT_SEND(parent, 'r');
    PARENT_WAIT(parent, 'x');
}

static void killed_reader_is_cleared(void)
{
    char *dir = ledger_make(20);
    unsigned round;

    PAIR_NOTE();
    for (round = 0; round < 6; round++) {
        struct child killed = child_start(reader_that_waits, dir), living = child_start(reader_that_waits, dir);
        struct ledger ledger;
        int dead = -1;
        unsigned i;
        size_t held;

        ledger_open(&ledger, pair.mine, dir, MDB_NOSYNC);
        CHILD_WAIT(&killed, 'r');
        CHILD_WAIT(&living, 'r');
        CHECK_OK(ledger.library->reader_check(ledger.env, &dead));
        CHECK_EQ(dead, 0);
        child_kill(&killed);
        CHECK_OK(ledger.library->reader_check(ledger.env, &dead));
        CHECK_EQ(dead, 1);
        CHECK_OK(ledger.library->reader_check(ledger.env, &dead));
        CHECK_EQ(dead, 0);
        child_kill(&living);
        CHECK_OK(ledger.library->reader_check(ledger.env, &dead));
        CHECK_EQ(dead, 1);
        for (i = 0; i < 20; i++)
            ledger_commit_one(&ledger);
        held = ledger_pages(&ledger);
        for (i = 0; i < 20; i++)
            ledger_commit_one(&ledger);
        CHECK(ledger_pages(&ledger) <= held + 20);
        ledger_close(&ledger);
    }
    run_check_tool(dir);
    temp_dir_remove(dir);
}

TEST(slot_of_a_killed_reader_can_be_cleared)
{
    with_every_pair(killed_reader_is_cleared);
}

/* After all are dead, who opens next begins with an empty table. */
static void table_is_set_up_anew(void)
{
    char *dir = ledger_make(3);
    struct child children[5];
    struct ledger ledger;
    MDB_envinfo info;
    unsigned i;

    PAIR_NOTE();
    for (i = 0; i < 5; i++)
        children[i] = child_start(reader_that_waits, dir);
    for (i = 0; i < 5; i++)
        CHILD_WAIT(&children[i], 'r');
    for (i = 0; i < 5; i++)
        child_kill(&children[i]);
    CHECK(file_exists(path_in(dir, "lock.mdb")));
    CHECK_OK(pair.mine->env_create(&ledger.env));
    CHECK_OK(pair.mine->env_open(ledger.env, dir, MDB_NOSYNC, 0644));
    CHECK_OK(pair.mine->env_info(ledger.env, &info));
    CHECK_EQ(info.me_numreaders, 0);
    pair.mine->env_close(ledger.env);
    CHECK(file_exists(path_in(dir, "lock.mdb")));
    ledger_check_file(dir, 3, 3);
    temp_dir_remove(dir);
}

TEST(reader_table_of_the_dead_is_set_up_anew)
{
    with_every_pair(table_is_set_up_anew);
}

/* The table has three slots. With this library here, the dead are cleared before a reader would find none. */
static void dead_readers_do_not_fill_the_table(void)
{
    struct ledger ledger = { .library = &ours };
    char *dir;
    MDB_txn *txn;
    unsigned i;

    if (pair.mine != &ours)
        return;
    dir = temp_dir_make();
    PAIR_NOTE();
    CHECK_OK(mdb_env_create(&ledger.env));
    CHECK_OK(mdb_env_set_maxreaders(ledger.env, 3));
    CHECK_OK(mdb_env_set_maxdbs(ledger.env, 4));
    CHECK_OK(mdb_env_set_mapsize(ledger.env, LEDGER_MAP_SIZE));
    CHECK_OK(mdb_env_open(ledger.env, dir, MDB_NOSYNC | MDB_NOTLS, 0644));
    txn = begin_write(ledger.env);
    ledger.slots = dbi_of(txn, "slots", MDB_CREATE);
    ledger.values = dbi_of(txn, "values", MDB_CREATE | MDB_DUPSORT);
    CHECK_OK(mdb_txn_commit(txn));
    for (i = 0; i < 3; i++) {
        struct child children[3];
        unsigned k;

        for (k = 0; k < 3; k++) {
            children[k] = child_start(reader_that_waits, dir);
            CHILD_WAIT(&children[k], 'r');
        }
        CHECK_RC(mdb_txn_begin(ledger.env, NULL, MDB_RDONLY, &txn), MDB_READERS_FULL);
        for (k = 0; k < 3; k++)
            child_kill(&children[k]);
        ledger_commit_one(&ledger);
        txn = begin_read(ledger.env);
        CHECK_EQ(ledger_check(&ledger, txn), i + 1);
        mdb_txn_abort(txn);
    }
    ledger_close(&ledger);
    run_check_tool(dir);
    temp_dir_remove(dir);
}

TEST(dead_readers_are_cleared_before_readers_full)
{
    with_every_pair(dead_readers_do_not_fill_the_table);
}

/* Keeps a snapshot until it is killed; meanwhile the writer here runs out of pages. */
static void dead_readers_do_not_fill_the_map(void)
{
    const size_t map_size = 512 * (size_t)sysconf(_SC_PAGESIZE);
    struct child child;
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    unsigned i;
    char *dir;
    int rc = MDB_SUCCESS;

    if (pair.mine != &ours)
        return;
    dir = temp_dir_make();
    PAIR_NOTE();
    env = env_open_new(dir, MDB_NOSYNC, map_size, 4);
    txn = begin_write(env);
    dbi = dbi_of(txn, "churned", MDB_CREATE);
    put_numbers(txn, dbi, 0, 100, 2000);
    CHECK_OK(mdb_txn_commit(txn));
    child = child_start(reader_that_waits, dir);
    CHILD_WAIT(&child, 'r');
    for (i = 0; i < 100 && rc == MDB_SUCCESS; i++) {
        unsigned char bytes[2000] = { (unsigned char)i };
        struct numeral numeral = numeral_of(i);
        MDB_val key = val_text(numeral.text), data = val_of(bytes, sizeof(bytes));

        txn = begin_write(env);
        rc = mdb_put(txn, dbi, &key, &data, 0);
        if (rc == MDB_SUCCESS)
            rc = mdb_txn_commit(txn);
        else
            mdb_txn_abort(txn);
    }
    /* With the reader alive there is no room for this. */
    txn = begin_write(env);
    for (i = 0; i < 300 && rc == MDB_SUCCESS; i++) {
        unsigned char bytes[2000] = { 0 };
        struct numeral numeral = numeral_of(1000 + i);
        MDB_val key = val_text(numeral.text), data = val_of(bytes, sizeof(bytes));

        rc = mdb_put(txn, dbi, &key, &data, 0);
    }
    CHECK_RC(rc, MDB_MAP_FULL);
    mdb_txn_abort(txn);
    child_kill(&child);
    for (i = 0; i < 20; i++) {
        txn = begin_write(env);
        put_numbers(txn, dbi, i, 5, 2000);
        CHECK_OK(mdb_txn_commit(txn));
    }
    mdb_env_close(env);
    run_check_tool(dir);
    temp_dir_remove(dir);
}

TEST(dead_readers_are_cleared_before_map_full)
{
    with_every_pair(dead_readers_do_not_fill_the_map);
}

/* ==== Writers in turn ==================================================== */

static void one_turn(struct parent *parent, const char *path)
{
    struct ledger ledger;
    unsigned i;

    (void)parent;
    ledger_open(&ledger, pair.childs, path, MDB_NOSYNC);
    for (i = 0; i < 3; i++)
        ledger_commit_one(&ledger);
    ledger_check_now(&ledger);
    ledger_close(&ledger);
}

static void writers_in_turn(void)
{
    char *dir = ledger_make(1);
    struct ledger ledger;
    unsigned round;
    size_t pages = 0;

    PAIR_NOTE();
    for (round = 0; round < 20; round++) {
        struct child child = child_start(one_turn, dir);

        child_finish(&child);
        ledger_open(&ledger, pair.mine, dir, MDB_NOSYNC);
        CHECK_EQ(ledger_check_now(&ledger), 4 + round * 5);
        ledger_commit_one(&ledger);
        ledger_commit_one(&ledger);
        if (round == 8)
            pages = ledger_pages(&ledger);
        /* What both free, both use again. */
        CHECK(round <= 8 || ledger_pages(&ledger) <= pages + pages / 2);
        ledger_close(&ledger);
        run_check_tool(dir);
    }
    ledger_check_file(dir, 101, 101);
    temp_dir_remove(dir);
}

TEST(writers_in_turn_leave_a_sound_free_list)
{
    with_every_pair(writers_in_turn);
}

static void turn_on_request(struct parent *parent, const char *path)
{
    struct ledger ledger;
    unsigned i;

    ledger_open(&ledger, pair.childs, path, MDB_NOSYNC);
    for (i = 0; i < 40; i++) {
        PARENT_WAIT(parent, 't');
        CHECK_EQ(ledger_check_now(&ledger), 2 + 2 * i);
        ledger_commit_one(&ledger);
        PARENT_SEND(parent, 't');
    }
    ledger_close(&ledger);
}

/* Both keep the environment open: each must see the other's commit at once. */
static void writers_alternate(void)
{
    char *dir = ledger_make(1);
    struct child child = child_start(turn_on_request, dir);
    struct ledger ledger;
    unsigned i;

    PAIR_NOTE();
    ledger_open(&ledger, pair.mine, dir, MDB_NOSYNC);
    for (i = 0; i < 40; i++) {
        ledger_commit_one(&ledger);
        CHILD_SEND(&child, 't');
        CHILD_WAIT(&child, 't');
        CHECK_EQ(ledger_check_now(&ledger), 3 + 2 * i);
    }
    child_finish(&child);
    ledger_close(&ledger);
    ledger_check_file(dir, 81, 81);
    temp_dir_remove(dir);
}

TEST(each_sees_the_commits_of_the_other_at_once)
{
    with_every_pair(writers_alternate);
}

/* ==== Opening ============================================================ */

enum { CREATORS = 6 };

static void creator(struct parent *parent, const char *path)
{
    struct ledger ledger;

    PARENT_SEND(parent, 'o');
    while (!atomic_load(&shared->started))
        continue;
    ledger_open(&ledger, pair.childs, path, MDB_NOSYNC);
    ledger_commit_one(&ledger);
    ledger_close(&ledger);
}

static void many_create_at_once(void)
{
    unsigned round, i;

    shared_make();
    PAIR_NOTE();
    for (round = 0; round < 8; round++) {
        char *dir = temp_dir_make();
        struct child children[CREATORS];
        struct ledger ledger;

        atomic_store(&shared->started, 0);
        for (i = 0; i < CREATORS; i++)
            children[i] = child_start(creator, dir);
        for (i = 0; i < CREATORS; i++)
            CHILD_WAIT(&children[i], 'o');
        atomic_store(&shared->started, 1);
        ledger_open(&ledger, pair.mine, dir, MDB_NOSYNC);
        ledger_commit_one(&ledger);
        for (i = 0; i < CREATORS; i++)
            child_finish(&children[i]);
        CHECK_EQ(ledger_check_now(&ledger), CREATORS + 1);
        ledger_close(&ledger);
        run_check_tool(dir);
        temp_dir_remove(dir);
    }
}

TEST(many_processes_create_one_environment_at_once)
{
    with_every_pair(many_create_at_once);
}

/* Grows the environment beyond the other one's map. */
static void grower(struct parent *parent, const char *path)
{
    struct ledger ledger;
    MDB_txn *txn;
    MDB_val key = val_text("large"), data;
    unsigned char *bytes = calloc(1, 10 << 20);

    CHECK(bytes != NULL);
    data = val_of(bytes, 10 << 20);
    ledger_open(&ledger, pair.childs, path, MDB_NOSYNC);
    PARENT_WAIT(parent, 'g');
    CHECK_OK(ledger.library->env_set_mapsize(ledger.env, 256 << 20));
    txn = ledger_begin(&ledger, 0);
    while (ledger.library->put(txn, ledger.slots, &key, &data, MDB_NOOVERWRITE) == MDB_SUCCESS
           && ((char *)key.mv_data)[0] < 'z') {
        static char name[] = "large";

        name[0]++;
        key = val_text(name);
        data = val_of(bytes, 10 << 20);
    }
    CHECK_OK(ledger.library->txn_commit(txn));
    PARENT_SEND(parent, 'd');
    PARENT_WAIT(parent, 'e');
    ledger_close(&ledger);
    free(bytes);
}

static void growth_is_noticed(void)
{
    char *dir = ledger_make(3);
    struct child child = child_start(grower, dir);
    struct ledger ledger;
    MDB_txn *txn;

    PAIR_NOTE();
    ledger_open(&ledger, pair.mine, dir, MDB_NOSYNC);
    CHECK_EQ(ledger_check_now(&ledger), 3);
    CHILD_SEND(&child, 'g');
    CHILD_WAIT(&child, 'd');
    CHECK_RC(ledger.library->txn_begin(ledger.env, NULL, MDB_RDONLY, &txn), MDB_MAP_RESIZED);
    CHECK_RC(ledger.library->txn_begin(ledger.env, NULL, 0, &txn), MDB_MAP_RESIZED);
    CHECK_OK(ledger.library->env_set_mapsize(ledger.env, 0));
    CHECK_EQ(ledger_check_now(&ledger), 3);
    ledger_commit_one(&ledger);
    CHECK_EQ(ledger_check_now(&ledger), 4);
    CHILD_SEND(&child, 'e');
    child_finish(&child);
    ledger_close(&ledger);
    run_check_tool(dir);
    temp_dir_remove(dir);
}

TEST(growth_by_another_process_is_noticed_and_adopted)
{
    with_every_pair(growth_is_noticed);
}

static void idle_user(struct parent *parent, const char *path)
{
    struct ledger ledger;

    ledger_open(&ledger, pair.childs, path, MDB_NOSYNC);
    PARENT_SEND(parent, 'o');
    PARENT_WAIT(parent, 'x');
    ledger_close(&ledger);
}

/* Going back a commit needs the environment alone: others would read what is overwritten. */
static void previous_snapshot_needs_to_be_alone(void)
{
    struct child child;
    struct ledger ledger;
    MDB_env *env;
    char *dir;

    if (pair.mine != &ours)
        return;
    dir = ledger_make(4);
    PAIR_NOTE();
    child = child_start(idle_user, dir);
    CHILD_WAIT(&child, 'o');
    CHECK_OK(mdb_env_create(&env));
    CHECK_RC(mdb_env_open(env, dir, MDB_PREVSNAPSHOT | MDB_NOSYNC, 0644), EAGAIN);
    mdb_env_close(env);
    CHILD_SEND(&child, 'x');
    child_finish(&child);
    CHECK_OK(mdb_env_create(&env));
    CHECK_OK(mdb_env_set_maxdbs(env, 4));
    CHECK_OK(mdb_env_open(env, dir, MDB_PREVSNAPSHOT | MDB_NOSYNC, 0644));
    ledger = (struct ledger){ .library = &ours, .env = env };
    {
        MDB_txn *txn = begin_write(env);

        ledger.slots = dbi_of(txn, "slots", 0);
        ledger.values = dbi_of(txn, "values", 0);
        CHECK_EQ(ledger_check(&ledger, txn), 3);
        ledger_add(&ledger, txn);
        CHECK_OK(mdb_txn_commit(txn));
    }
    /* From the first commit on others may use it again. */
    child = child_start(one_turn, dir);
    child_finish(&child);
    CHECK_EQ(ledger_check_now(&ledger), 7);
    mdb_env_close(env);
    ledger_check_file(dir, 7, 7);
    temp_dir_remove(dir);
}

TEST(previous_snapshot_is_only_written_by_one_who_is_alone)
{
    with_every_pair(previous_snapshot_needs_to_be_alone);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(snapshot_of_a_reader_is_honoured_by_writers_of_another_process),
        TEST_ENTRY(writers_of_several_processes_exclude_each_other),
        TEST_ENTRY(readers_see_whole_commits_of_writers_of_another_process),
        TEST_ENTRY(lock_of_a_killed_writer_is_taken_over),
        TEST_ENTRY(waiting_writer_gets_the_lock_of_a_killed_one),
        TEST_ENTRY(writers_killed_at_any_moment_lose_nothing_that_was_committed),
        TEST_ENTRY(slot_of_a_killed_reader_can_be_cleared),
        TEST_ENTRY(reader_table_of_the_dead_is_set_up_anew),
        TEST_ENTRY(dead_readers_are_cleared_before_readers_full),
        TEST_ENTRY(dead_readers_are_cleared_before_map_full),
        TEST_ENTRY(writers_in_turn_leave_a_sound_free_list),
        TEST_ENTRY(each_sees_the_commits_of_the_other_at_once),
        TEST_ENTRY(many_processes_create_one_environment_at_once),
        TEST_ENTRY(growth_by_another_process_is_noticed_and_adopted),
        TEST_ENTRY(previous_snapshot_is_only_written_by_one_who_is_alone),
    };

    return test_main(argc, argv, tests, TEST_COUNT(tests));
}
