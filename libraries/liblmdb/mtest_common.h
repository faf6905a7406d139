/* What the named tests share: an environment with a database and a transaction, records as text, files as bytes, and
 * other processes.
 *
 * Records and results are compared as text: "key=value" for a record, the name of the code for an error. So a table of
 * expectations reads like the answers themselves, and a failing check prints both. */
#ifndef MTEST_COMMON_H
#define MTEST_COMMON_H

#include "mtest.h"

enum { TEXT_SIZE_MAX = 1 << 16 };

#define ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ==== Results as text ==================================================== */

static inline const char *code_text(int rc)
{
    static const struct {
        int code;
        const char *name;
    } codes[] = {
        { MDB_SUCCESS, "ok" },
        { MDB_KEYEXIST, "KEYEXIST" },
        { MDB_NOTFOUND, "NOTFOUND" },
        { MDB_CORRUPTED, "CORRUPTED" },
        { MDB_MAP_FULL, "MAP_FULL" },
        { MDB_INCOMPATIBLE, "INCOMPATIBLE" },
        { MDB_BAD_TXN, "BAD_TXN" },
        { MDB_BAD_VALSIZE, "BAD_VALSIZE" },
        { MDB_BAD_DBI, "BAD_DBI" },
        { EINVAL, "EINVAL" },
        { EACCES, "EACCES" },
    };
    static char number[128];
    size_t i;

    for (i = 0; i < ARRAY_COUNT(codes); i++) {
        if (codes[i].code == rc)
            return codes[i].name;
    }
    snprintf(number, sizeof(number), "%d (%s)", rc, mdb_strerror(rc));
    return number;
}

/* Appends "key=value" at end, which has room until limit; gives the new end. */
static inline char *record_append(char *end, const char *limit, const MDB_val *key, const MDB_val *data)
{
    CHECK((size_t)(limit - end) > key->mv_size + data->mv_size + 2);
    memcpy(end, key->mv_data, key->mv_size);
    end += key->mv_size;
    *end++ = '=';
    if (data->mv_size > 0)
        memcpy(end, data->mv_data, data->mv_size);
    end += data->mv_size;
    *end = '\0';
    return end;
}

/* What mdb_cursor_get answers for op: the record or the name of the code. The text holds until the next such call. */
static inline const char *cursor_text(MDB_cursor *cursor, MDB_cursor_op op)
{
    static char text[TEXT_SIZE_MAX];
    MDB_val key = val_text("?"), data = val_text("?");
    int rc = mdb_cursor_get(cursor, &key, &data, op);

    if (rc != MDB_SUCCESS)
        return code_text(rc);
    record_append(text, text + sizeof(text), &key, &data);
    return text;
}

/* The same for the operations that look for a key, or for a key and a value. */
static inline const char *seek_text(MDB_cursor *cursor, MDB_cursor_op op, const char *key_text, const char *data_text)
{
    static char text[TEXT_SIZE_MAX];
    MDB_val key = val_text(key_text), data = val_text(data_text);
    int rc = mdb_cursor_get(cursor, &key, &data, op);

    if (rc != MDB_SUCCESS)
        return code_text(rc);
    record_append(text, text + sizeof(text), &key, &data);
    return text;
}

#define CHECK_CODE(call, text) CHECK_TEXT(code_text(call), (text))
#define CHECK_AT(cursor, op, text) CHECK_TEXT(cursor_text((cursor), (op)), (text))
#define CHECK_SEEK(cursor, op, key, data, text) CHECK_TEXT(seek_text((cursor), (op), (key), (data)), (text))

/* ==== Records as text ==================================================== */

static inline int put_text(MDB_txn *txn, MDB_dbi dbi, const char *key_text, const char *data_text, unsigned flags)
{
    MDB_val key = val_text(key_text), data = val_text(data_text);

    return mdb_put(txn, dbi, &key, &data, flags);
}

static inline int del_text(MDB_txn *txn, MDB_dbi dbi, const char *key_text, const char *data_text)
{
    MDB_val key = val_text(key_text), data = val_text(data_text != NULL ? data_text : "");

    return mdb_del(txn, dbi, &key, data_text != NULL ? &data : NULL);
}

static inline int cursor_put_text(MDB_cursor *cursor, const char *key_text, const char *data_text, unsigned flags)
{
    MDB_val key = val_text(key_text), data = val_text(data_text);

    return mdb_cursor_put(cursor, &key, &data, flags);
}

/* The value of a key or the name of the code. The text holds until the next call. */
static inline const char *get_text(MDB_txn *txn, MDB_dbi dbi, const char *key_text)
{
    static char text[TEXT_SIZE_MAX];
    MDB_val key = val_text(key_text), data;
    int rc = mdb_get(txn, dbi, &key, &data);

    if (rc != MDB_SUCCESS)
        return code_text(rc);
    CHECK(data.mv_size < sizeof(text));
    if (data.mv_size > 0)
        memcpy(text, data.mv_data, data.mv_size);
    text[data.mv_size] = '\0';
    return text;
}

/* Puts the records of a text such as "a=1 a=2 b=". */
static inline void put_records(MDB_txn *txn, MDB_dbi dbi, const char *text)
{
    while (*text != '\0') {
        size_t size = strcspn(text, " ");
        const char *equal = memchr(text, '=', size);
        MDB_val key, data;

        CHECK(equal != NULL);
        key = val_of(text, (size_t)(equal - text));
        data = val_of(equal + 1, size - key.mv_size - 1);
        CHECK_OK(mdb_put(txn, dbi, &key, &data, 0));
        text += size;
        text += strspn(text, " ");
    }
}

/* How many records a walk from `first` by `step` finds. */
static inline size_t walk_count(MDB_txn *txn, MDB_dbi dbi, MDB_cursor_op first, MDB_cursor_op step)
{
    MDB_cursor *cursor;
    MDB_val key, data;
    size_t count = 0;
    int rc;

    CHECK_OK(mdb_cursor_open(txn, dbi, &cursor));
    for (rc = mdb_cursor_get(cursor, &key, &data, first); rc == MDB_SUCCESS;
         rc = mdb_cursor_get(cursor, &key, &data, step))
        count++;
    CHECK_RC(rc, MDB_NOTFOUND);
    mdb_cursor_close(cursor);
    return count;
}

/* Checks that walks in both directions find as many records as the database says it has; gives the number. */
static inline size_t walk_both(MDB_txn *txn, MDB_dbi dbi)
{
    MDB_stat stat;

    CHECK_OK(mdb_stat(txn, dbi, &stat));
    CHECK_EQ(walk_count(txn, dbi, MDB_FIRST, MDB_NEXT), stat.ms_entries);
    CHECK_EQ(walk_count(txn, dbi, MDB_LAST, MDB_PREV), stat.ms_entries);
    return stat.ms_entries;
}

/* All records in order, as put_records takes them. The text holds until the next call. */
static inline const char *contents_text(MDB_txn *txn, MDB_dbi dbi)
{
    static char text[TEXT_SIZE_MAX];
    MDB_cursor *cursor;
    MDB_val key, data;
    char *end = text;
    int rc;

    walk_both(txn, dbi);
    *end = '\0';
    CHECK_OK(mdb_cursor_open(txn, dbi, &cursor));
    while ((rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)) == MDB_SUCCESS) {
        if (end != text)
            *end++ = ' ';
        end = record_append(end, text + sizeof(text) - 1, &key, &data);
    }
    CHECK_RC(rc, MDB_NOTFOUND);
    mdb_cursor_close(cursor);
    return text;
}

#define CHECK_CONTENTS(txn, dbi, text) CHECK_TEXT(contents_text((txn), (dbi)), (text))

static inline size_t entries_count(MDB_txn *txn, MDB_dbi dbi)
{
    MDB_stat stat;

    CHECK_OK(mdb_stat(txn, dbi, &stat));
    return stat.ms_entries;
}

/* ==== Many records ======================================================= */

/* A text of one size for each number, so that texts sort as numbers do. */
struct numeral {
    char text[16];
};

static inline struct numeral numeral_of(unsigned number)
{
    struct numeral numeral;

    snprintf(numeral.text, sizeof(numeral.text), "%08u", number);
    return numeral;
}

/* Bytes that differ for each number and place. */
static inline void pattern_fill(unsigned char *bytes, size_t size, unsigned number)
{
    struct random random = { number };
    size_t i;

    for (i = 0; i + 8 <= size; i += 8) {
        uint64_t next = random_next(&random);

        memcpy(bytes + i, &next, 8);
    }
    for (; i < size; i++)
        bytes[i] = (unsigned char)random_next(&random);
}

/* Records numbered first, first + 1, ... : the key is the numeral, the value a pattern of the given size. */
static inline void put_numbers(MDB_txn *txn, MDB_dbi dbi, unsigned first, unsigned count, size_t size)
{
    unsigned char *bytes = malloc(size + 1);
    unsigned i;

    CHECK(bytes != NULL);
    for (i = first; i < first + count; i++) {
        struct numeral numeral = numeral_of(i);
        MDB_val key = val_text(numeral.text), data = val_of(bytes, size);

        pattern_fill(bytes, size, i);
        CHECK_OK(mdb_put(txn, dbi, &key, &data, 0));
    }
    free(bytes);
}

/* Checks one of these records. */
static inline void check_number(MDB_txn *txn, MDB_dbi dbi, unsigned number, size_t size)
{
    struct numeral numeral = numeral_of(number);
    MDB_val key = val_text(numeral.text), data;
    unsigned char *bytes = malloc(size + 1);

    CHECK(bytes != NULL);
    pattern_fill(bytes, size, number);
    test_note("record %u of %zu bytes", number, size);
    CHECK_OK(mdb_get(txn, dbi, &key, &data));
    CHECK_VAL(&data, bytes, size);
    test_state.note[0] = '\0';
    free(bytes);
}

static inline void check_numbers(MDB_txn *txn, MDB_dbi dbi, unsigned first, unsigned count, size_t size)
{
    unsigned i;

    for (i = first; i < first + count; i++)
        check_number(txn, dbi, i, size);
}

/* The numbers below count, in random order. To be freed. */
static inline unsigned *numbers_shuffled(struct random *random, unsigned count)
{
    unsigned *numbers = malloc((count + 1) * sizeof(*numbers));
    unsigned i;

    CHECK(numbers != NULL);
    for (i = 0; i < count; i++) {
        unsigned other = (unsigned)random_below(random, i + 1);

        numbers[i] = numbers[other];
        numbers[other] = i;
    }
    return numbers;
}

/* ==== A place to test in ================================================= */

/* An environment with a named database and a write transaction. */
struct scene {
    char *dir;
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
};

enum { SCENE_DBS = 16 };
#define SCENE_MAP_SIZE ((size_t)256 << 20)

static inline void scene_open(struct scene *scene, unsigned env_flags, unsigned db_flags)
{
    scene->dir = temp_dir_make();
    scene->env = env_open_new(scene->dir, env_flags, SCENE_MAP_SIZE, SCENE_DBS);
    CHECK_OK(mdb_txn_begin(scene->env, NULL, 0, &scene->txn));
    CHECK_OK(mdb_dbi_open(scene->txn, "data", db_flags | MDB_CREATE, &scene->dbi));
}

static inline void scene_commit(struct scene *scene)
{
    CHECK_OK(mdb_txn_commit(scene->txn));
    CHECK_OK(mdb_txn_begin(scene->env, NULL, 0, &scene->txn));
}

static inline void scene_abort(struct scene *scene)
{
    mdb_txn_abort(scene->txn);
    CHECK_OK(mdb_txn_begin(scene->env, NULL, 0, &scene->txn));
}

/* Commits, closes and lets the checking tool look at what is left. */
static inline void scene_close(struct scene *scene)
{
    CHECK_OK(mdb_txn_commit(scene->txn));
    mdb_env_close(scene->env);
    run_check_tool(scene->dir);
    temp_dir_remove(scene->dir);
}

/* The same for databases whose order only this program knows. */
static inline void scene_close_unchecked(struct scene *scene)
{
    CHECK_OK(mdb_txn_commit(scene->txn));
    mdb_env_close(scene->env);
    temp_dir_remove(scene->dir);
}

static inline MDB_cursor *scene_cursor(struct scene *scene)
{
    MDB_cursor *cursor;

    CHECK_OK(mdb_cursor_open(scene->txn, scene->dbi, &cursor));
    return cursor;
}

/* The largest node that stays on a page; a value goes to pages of its own when its node would be larger. */
static inline size_t node_max(unsigned page_size)
{
    return (((page_size - 16) / 2) & ~1u) - 2;
}

static inline MDB_txn *begin_read(MDB_env *env)
{
    MDB_txn *txn;

    CHECK_OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
    return txn;
}

static inline MDB_txn *begin_write(MDB_env *env)
{
    MDB_txn *txn;

    CHECK_OK(mdb_txn_begin(env, NULL, 0, &txn));
    return txn;
}

static inline MDB_txn *begin_nested(MDB_env *env, MDB_txn *parent)
{
    MDB_txn *txn;

    CHECK_OK(mdb_txn_begin(env, parent, 0, &txn));
    return txn;
}

static inline MDB_dbi dbi_of(MDB_txn *txn, const char *name, unsigned flags)
{
    MDB_dbi dbi;

    CHECK_OK(mdb_dbi_open(txn, name, flags, &dbi));
    return dbi;
}

/* ==== Files ============================================================== */

/* The path of a file in a directory; the text holds until the fourth next call. */
static inline const char *path_in(const char *dir, const char *name)
{
    static char paths[4][4096];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
    return path;
}

struct bytes {
    unsigned char *start;
    size_t size;
};

/* All of a file. To be freed by bytes_free. */
static inline struct bytes file_read(const char *path)
{
    struct bytes bytes;
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    test_note("file %s", path);
    CHECK(fd >= 0);
    CHECK_EQ(fstat(fd, &status), 0);
    bytes.size = (size_t)status.st_size;
    bytes.start = malloc(bytes.size + 1);
    CHECK(bytes.start != NULL);
    CHECK_EQ(read(fd, bytes.start, bytes.size), bytes.size);
    close(fd);
    test_state.note[0] = '\0';
    return bytes;
}

static inline void bytes_free(struct bytes *bytes)
{
    free(bytes->start);
    bytes->start = NULL;
}

/* Makes a file, or replaces what is in it. */
static inline void file_write(const char *path, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    CHECK(fd >= 0);
    CHECK_EQ(write(fd, bytes, size), size);
    CHECK_EQ(close(fd), 0);
}

static inline size_t file_size(const char *path)
{
    struct stat status;

    CHECK_EQ(stat(path, &status), 0);
    return (size_t)status.st_size;
}

static inline int file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* ==== Other processes ====================================================
 * A child of fork that runs a function of the test. The two talk through two pipes, a byte at a time: no sleeping, and
 * when one dies the other one's wait fails. Start children before the parent opens an environment, unless that is what
 * is tested. */

struct child {
    pid_t pid;
    int to_child, from_child;
};

/* The child's end of the pipes. */
struct parent {
    int to_parent, from_parent;
};

static inline void step_send(int fd, char step)
{
    ssize_t size;

    do
        size = write(fd, &step, 1);
    while (size < 0 && errno == EINTR);
    CHECK_EQ(size, 1);
}

static inline void step_wait(int fd, char expected)
{
    char step = 0;
    ssize_t size;

    do
        size = read(fd, &step, 1);
    while (size < 0 && errno == EINTR);
    CHECK_EQ(size, 1);
    CHECK_EQ(step, expected);
}

#define CHILD_SEND(child, step) step_send((child)->to_child, (step))
#define CHILD_WAIT(child, step) step_wait((child)->from_child, (step))
#define PARENT_SEND(parent, step) step_send((parent)->to_parent, (step))
#define PARENT_WAIT(parent, step) step_wait((parent)->from_parent, (step))

typedef void child_function(struct parent *parent, const char *path);

static inline struct child child_start(child_function *function, const char *path)
{
    struct child child;
    struct parent parent;
    int down[2], up[2];

    CHECK_EQ(pipe(down), 0);
    CHECK_EQ(pipe(up), 0);
    fflush(stdout);
    signal(SIGPIPE, SIG_IGN);
    child.pid = fork();
    CHECK(child.pid >= 0);
    if (child.pid == 0) {
        close(down[1]);
        close(up[0]);
        parent.from_parent = down[0];
        parent.to_parent = up[1];
        function(&parent, path);
        fflush(stdout);
        _exit(0);
    }
    close(down[0]);
    close(up[1]);
    child.to_child = down[1];
    child.from_child = up[0];
    return child;
}

static inline void child_pipes_close(struct child *child)
{
    close(child->to_child);
    close(child->from_child);
}

/* Waits for the child's end, which must be a success. */
static inline void child_finish(struct child *child)
{
    child_pipes_close(child);
    child_must_succeed(child->pid);
}

static inline void child_kill(struct child *child)
{
    int status;

    CHECK_EQ(kill(child->pid, SIGKILL), 0);
    while (waitpid(child->pid, &status, 0) < 0)
        CHECK_EQ(errno, EINTR);
    child_pipes_close(child);
}

#endif
