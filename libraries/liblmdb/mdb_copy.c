/* mdb_copy: copies an environment, while others may use it, into a directory, a file or stdout.
 *
 * The library writes the copy into a pipe, in a thread of its own, and the main thread carries it on to the target.
 * So progress can be shown and a signal can stop us although the library copies everything in one call.
 *
 * A copy on disk grows under a temporary name beside its final one, which it gets by a link when it is complete and
 * synced. A link, unlike a rename, fails if the name is taken. */
#define _GNU_SOURCE /* renameat2 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "mdb_tool.h"

#define DATA_FILE_NAME "/data.mdb"
#define TEMPORARY_SUFFIX ".XXXXXX"

enum { PIPE_READ, PIPE_WRITE };

struct producer {
    MDB_env *env;
    unsigned flags;             /* for mdb_env_copyfd2 */
    int pipe[2];
    int rc;                     /* its result; to be read after the thread has been joined */
};

struct target {
    char *final_name;           /* NULL: stdout, and then the two below are NULL too */
    char *temporary_name;
    char *directory;
    int fd;
    bool temporary_exists;
};

/* ==== The target ======================================================== */

static char *string_join(const char *first, size_t first_length, const char *second)
{
    char *joined = malloc(first_length + strlen(second) + 1);

    if (joined == NULL)
        return NULL;
    memcpy(joined, first, first_length);
    strcpy(joined + first_length, second);
    return joined;
}

/* Derives the names from the operand: a directory, or with MDB_NOSUBDIR the file itself. */
static int target_names_set(struct target *target, const char *path)
{
    const char *suffix = tool.env_flags & MDB_NOSUBDIR ? "" : DATA_FILE_NAME;
    const char *slash;

    target->final_name = string_join(path, strlen(path), suffix);
    if (target->final_name == NULL)
        return ENOMEM;
    target->temporary_name = string_join(target->final_name, strlen(target->final_name), TEMPORARY_SUFFIX);
    slash = strrchr(target->final_name, '/');
    if (slash == NULL)
        target->directory = string_join(".", 1, "");
    else if (slash == target->final_name)
        target->directory = string_join("/", 1, "");
    else
        target->directory = string_join(target->final_name, (size_t)(slash - target->final_name), "");
    return target->temporary_name != NULL && target->directory != NULL ? 0 : ENOMEM;
}

/* mkstemp lets nobody else in; a copy is as open as any new file. */
static int mode_set(int fd)
{
    mode_t mask = umask(0);

    umask(mask);
    return fchmod(fd, 0666 & ~mask) == 0 ? 0 : errno;
}

/* Opens the temporary file. That the final name is free is checked here only to spare the user a long copy in vain. */
static int target_open(struct target *target, const char *path)
{
    struct stat status;
    int rc = target_names_set(target, path);

    if (rc != 0)
        return rc;
    if (lstat(target->final_name, &status) == 0)
        return EEXIST;
    target->fd = mkstemp(target->temporary_name);
    if (target->fd < 0)
        return errno;
    target->temporary_exists = true;
    return mode_set(target->fd);
}

/* What cannot be synced, as a pipe or a terminal, says EINVAL. */
static int fd_sync(int fd)
{
    return fsync(fd) == 0 || errno == EINVAL || errno == EROFS ? 0 : errno;
}

static int directory_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc;

    if (fd < 0)
        return errno;
    rc = fd_sync(fd);
    close(fd);
    return rc;
}

/* Gives the final name, for file systems without hard links by a rename that refuses to replace. */
static int final_name_give(struct target *target)
{
    if (link(target->temporary_name, target->final_name) == 0)
        return 0;
#ifdef RENAME_NOREPLACE
    if (errno != EEXIST &&
        renameat2(AT_FDCWD, target->temporary_name, AT_FDCWD, target->final_name, RENAME_NOREPLACE) == 0) {
        target->temporary_exists = false;
        return 0;
    }
#endif
    return errno;
}

/* Makes a complete copy durable and visible. */
static int target_publish(struct target *target)
{
    int rc = fd_sync(target->fd);

    if (rc != 0 || target->final_name == NULL)
        return rc;
    rc = close(target->fd) == 0 ? 0 : errno;
    target->fd = -1;
    if (rc == 0)
        rc = final_name_give(target);
    if (rc == 0)
        rc = directory_sync(target->directory);
    return rc;
}

/* Ends the use of the target. Without target_publish before, nothing of a copy on disk stays. */
static void target_close(struct target *target)
{
    if (target->fd >= 0)
        close(target->fd);
    if (target->temporary_exists)
        unlink(target->temporary_name);
    free(target->final_name);
    free(target->temporary_name);
    free(target->directory);
}

/* ==== Copying =========================================================== */

static void *producer_run(void *argument)
{
    struct producer *producer = argument;

    producer->rc = mdb_env_copyfd2(producer->env, producer->pipe[PIPE_WRITE], producer->flags);
    close(producer->pipe[PIPE_WRITE]); /* the end of the copy, for the reader */
    return NULL;
}

/* Starts the thread with all signals blocked: they are for the main thread, whose system calls they interrupt. */
static int producer_start(struct producer *producer, pthread_t *thread)
{
    sigset_t all, before;
    int rc;

    if (pipe(producer->pipe) != 0)
        return errno;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(thread, NULL, producer_run, producer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        close(producer->pipe[PIPE_READ]);
        close(producer->pipe[PIPE_WRITE]);
    }
    return rc;
}

static int write_exactly(int fd, const char *bytes, size_t size)
{
    ssize_t written;

    while (size > 0) {
        if (tool_stopping())
            return EINTR;
        written = write(fd, bytes, size);
        if (written >= 0) {
            bytes += written;
            size -= (size_t)written;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

/* Carries the copy from the pipe to the target. @param total  expected bytes; 0: not known */
static int bytes_carry(int from, int to, uint64_t *received, uint64_t total)
{
    static char buffer[1 << 16];
    ssize_t size;
    int rc;

    for (;;) {
        if (tool_stopping())
            return EINTR;
        size = read(from, buffer, sizeof(buffer));
        if (size == 0)
            return 0;
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0)
            return errno;
        *received += (uint64_t)size;
        rc = write_exactly(to, buffer, (size_t)size);
        if (rc != 0)
            return rc;
        tool_progress("bytes", *received, total);
    }
}

/* The size of a plain copy. That of a compact one shows only when it is done. */
static uint64_t copy_size(MDB_env *env, unsigned flags)
{
    MDB_envinfo info;
    MDB_stat tree;

    if (flags & MDB_CP_COMPACT || mdb_env_info(env, &info) != 0 || mdb_env_stat(env, &tree) != 0)
        return 0;
    return (uint64_t)(info.me_last_pgno + 1) * tree.ms_psize;
}

/* Copies everything. After a signal before the first byte the producer may be waiting for the writer lock, who knows
 * how long. Then the process ends at once; its reader slot is cleared by whoever finds its owner gone. */
static int copy_run(MDB_env *env, unsigned flags, struct target *target)
{
    struct producer producer = { env, flags, { -1, -1 }, 0 };
    pthread_t thread;
    uint64_t received = 0;
    int rc = producer_start(&producer, &thread);

    if (rc != 0)
        return rc;
    rc = bytes_carry(producer.pipe[PIPE_READ], target->fd, &received, copy_size(env, flags));
    if (tool_stopping())
        rc = EINTR;
    if (rc == EINTR && received == 0) {
        target_close(target);
        tool_failed("copying", rc, NULL);
        _exit(EXIT_FAILURE);
    }
    close(producer.pipe[PIPE_READ]); /* if this is early, the producer fails with EPIPE */
    pthread_join(thread, NULL);
    return rc != 0 ? rc : producer.rc;
}

/* Copies to the path, or to stdout if it is NULL. */
static int copy_to(MDB_env *env, unsigned flags, const char *path)
{
    struct target target = { NULL, NULL, NULL, STDOUT_FILENO, false };
    int rc = 0;

    if (path != NULL) {
        target.fd = -1;
        rc = target_open(&target, path);
    }
    if (rc == 0)
        rc = copy_run(env, flags, &target);
    if (rc == 0)
        rc = target_publish(&target);
    if (rc != 0)
        tool_failed("copying", rc, path != NULL ? target.final_name : "stdout");
    target_close(&target);
    return rc;
}

int main(int count, char **arguments)
{
    unsigned flags = 0;
    MDB_env *env;
    int option, rc;

    tool_start(arguments, "[-V] [-q] [-c] [-n] [-v] srcpath [dstpath]");
    while ((option = getopt(count, arguments, "Vnvqc")) != -1) {
        if (option == 'c')
            flags |= MDB_CP_COMPACT;
        else if (!tool_option(option))
            return tool_usage();
    }
    if (optind != count - 1 && optind != count - 2)
        return tool_usage();
    tool_progress_allow(false);
    env = tool_env_open_readonly(arguments[optind]);
    if (env == NULL)
        return EXIT_FAILURE;
    rc = copy_to(env, flags, arguments[optind + 1]); /* the vector ends with NULL */
    tool_progress_wipe();
    mdb_env_close(env);
    return tool_exit_status(rc);
}
