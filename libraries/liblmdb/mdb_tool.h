/** @file mdb_tool.h
 * What the command-line tools share: options, messages, progress, signals, opening an environment.
 *
 * Each tool is one translation unit and includes this file once. Conventions:
 * - Messages go to stderr and begin with the name under which the tool was called.
 * - A function that can fail has said so on stderr when it returns; its code only steers what happens next.
 * - The exit status is 0 or EXIT_FAILURE, which is 1.
 */
#ifndef MDB_TOOL_H
#define MDB_TOOL_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lmdb.h"

/** Handles for named databases; the tools close each one before they open the next. */
#define TOOL_DATABASES_MAX 4
#define TOOL_PROGRESS_WIDTH 76
#define TOOL_PROGRESS_SECONDS 0.2

static struct {
    const char *name;      /**< base name of argv[0] */
    const char *usage;     /**< options and operands */
    unsigned env_flags;    /**< for mdb_env_open, from options */
    bool quiet;            /**< -q */
    bool progress;         /**< show progress; decided by tool_progress_allow */
    bool progress_shown;   /**< the last line on the terminal is ours, to be wiped before anything else is said */
    double progress_next;  /**< when to show it again */
} tool;

/* ---- signals -------------------------------------------------------------------------------------------------- */

/** The signal that asked us to stop; 0: none. Read in loops, through tool_stopping. */
static volatile sig_atomic_t tool_signal;

/** Set while we wait for the writer lock: no signal ends that, and nothing needs to be cleaned up, so the process may
 *  end at once. */
static volatile sig_atomic_t tool_waiting;

/** What to say in that case. Changed only while tool_waiting is 0. */
static char tool_last_words[256];

/** Notes the signal. It interrupts a system call that blocks, but may come just before one, or make it return early and
 *  be called again. So SIGALRM follows each second, until somebody has looked. */
static inline void tool_signal_take(int number)
{
    ssize_t written;

    if (number != SIGALRM)
        tool_signal = number;
    if (tool_waiting != 0) {
        written = write(STDERR_FILENO, tool_last_words, strlen(tool_last_words));
        (void)written; /* there is nobody left to tell */
        _exit(EXIT_FAILURE);
    }
    alarm(1);
}

/** What is ignored on entry, as by nohup, stays ignored. System calls are not restarted. */
static inline void tool_signals_catch(void)
{
    static const int numbers[] = { SIGHUP, SIGINT, SIGPIPE, SIGTERM };
    struct sigaction action;
    struct sigaction inherited;
    size_t i;

    memset(&action, 0, sizeof(action));
    action.sa_handler = tool_signal_take;
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (sigaction(numbers[i], NULL, &inherited) == 0 && inherited.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
}

static inline bool tool_stopping(void)
{
    return tool_signal != 0;
}

/** Sets what is said if a signal ends the wait for the writer lock: how far we got. */
static inline void tool_last_words_set(const char *state)
{
    snprintf(tool_last_words, sizeof(tool_last_words), "%s: stopped by a signal%s%s\n", tool.name,
             *state != '\0' ? ", " : "", state);
}

/* ---- progress and messages ------------------------------------------------------------------------------------ */

static inline double tool_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/** Progress is shown on a terminal only, and not where our own output would run through it. */
static inline void tool_progress_allow(bool stdout_has_text)
{
    tool.progress = !tool.quiet && isatty(STDERR_FILENO) && !(stdout_has_text && isatty(STDOUT_FILENO));
}

/** Shows how much is done, now and then. Cheap enough for every record. @param total  0: not known */
static inline void tool_progress(const char *unit, uint64_t done, uint64_t total)
{
    char text[TOOL_PROGRESS_WIDTH + 1];
    double now;

    if (!tool.progress || (now = tool_seconds()) < tool.progress_next)
        return;
    tool.progress_next = now + TOOL_PROGRESS_SECONDS;
    tool.progress_shown = true;
    if (total != 0 && done <= total)
        snprintf(text, sizeof(text), "%s: %ju of %ju %s (%.0f %%)", tool.name, (uintmax_t)done, (uintmax_t)total, unit,
                 100.0 * (double)done / (double)total);
    else
        snprintf(text, sizeof(text), "%s: %ju %s", tool.name, (uintmax_t)done, unit);
    fprintf(stderr, "\r%-*s", TOOL_PROGRESS_WIDTH, text);
}

static inline void tool_progress_wipe(void)
{
    if (tool.progress_shown)
        fprintf(stderr, "\r%*s\r", TOOL_PROGRESS_WIDTH, "");
    tool.progress_shown = false;
}

/** Says that a call failed, or that a signal stopped us. Returns the code.
 *  @param function  what failed
 *  @param rc        an MDB or errno code
 *  @param where     file or database; NULL: the call says it all */
static inline int tool_failed(const char *function, int rc, const char *where)
{
    tool_progress_wipe();
    if (rc == EINTR && tool_stopping())
        fprintf(stderr, "%s: stopped by a signal (%s)\n", tool.name, strsignal((int)tool_signal));
    else if (where == NULL)
        fprintf(stderr, "%s: %s failed, error %d %s\n", tool.name, function, rc, mdb_strerror(rc));
    else
        fprintf(stderr, "%s: %s failed, error %d %s (%s)\n", tool.name, function, rc, mdb_strerror(rc), where);
    return rc;
}

/** Flushes and checks stdout, where `name` tells what it is connected to: without this a full disk is not noticed. */
static inline int tool_output_finish(const char *name)
{
    int rc = 0;

    errno = 0;
    if (tool_stopping())
        rc = EINTR;
    else if (fflush(stdout) != 0 || ferror(stdout))
        rc = tool_stopping() ? EINTR : errno != 0 ? errno : EIO;
    return rc == 0 ? 0 : tool_failed("write", rc, name);
}

/** The exit status for the result of all work. After a signal this does not return, for the end of main would flush
 *  stdout, and whoever should read it may have stopped doing so. */
static inline int tool_exit_status(int rc)
{
    if (tool_stopping())
        _exit(EXIT_FAILURE);
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- command line --------------------------------------------------------------------------------------------- */

static inline int tool_usage(void)
{
    fprintf(stderr, "usage: %s %s\n", tool.name, tool.usage);
    return EXIT_FAILURE;
}

static inline void tool_start(char **arguments, const char *usage)
{
    const char *slash = strrchr(arguments[0], '/');

    tool.name = slash != NULL ? slash + 1 : arguments[0];
    tool.usage = usage;
    tool_last_words_set("");
    tool_signals_catch();
}

/** Handles the options that have one meaning in all tools. False: not one of them. */
static inline bool tool_option(int option)
{
    switch (option) {
    case 'V':
        printf("%s\n", mdb_version(NULL, NULL, NULL));
        exit(tool_exit_status(tool_output_finish("stdout")));
    case 'n':
        tool.env_flags |= MDB_NOSUBDIR;
        return true;
    case 'v':
        tool.env_flags |= MDB_PREVSNAPSHOT;
        return true;
    case 'q':
        tool.quiet = true;
        return true;
    default:
        return false;
    }
}

/* ---- environments and databases ------------------------------------------------------------------------------- */

/** Creates a handle, to be closed by the caller. NULL: failed. */
static inline MDB_env *tool_env_create(void)
{
    MDB_env *env;
    int rc = mdb_env_create(&env);

    if (rc != 0) {
        tool_failed("mdb_env_create", rc, NULL);
        return NULL;
    }
    rc = mdb_env_set_maxdbs(env, TOOL_DATABASES_MAX);
    if (rc != 0) {
        tool_failed("mdb_env_set_maxdbs", rc, NULL);
        mdb_env_close(env);
        return NULL;
    }
    return env;
}

static inline int tool_env_open(MDB_env *env, const char *path, unsigned flags)
{
    int rc = mdb_env_open(env, path, tool.env_flags | flags, 0664);

    return rc == 0 ? 0 : tool_failed("mdb_env_open", rc, path);
}

/** Begins a write transaction; without a message. */
static inline int tool_write_begin(MDB_env *env, MDB_txn **txn)
{
    int rc;

    if (tool_stopping())
        return EINTR;
    tool_waiting = 1;
    rc = mdb_txn_begin(env, NULL, 0, txn);
    tool_waiting = 0;
    return rc;
}

static inline int tool_read_begin(MDB_env *env, MDB_txn **txn)
{
    int rc = mdb_txn_begin(env, NULL, MDB_RDONLY, txn);

    return rc == 0 ? 0 : tool_failed("mdb_txn_begin", rc, NULL);
}

/** Opens an environment read-only. NULL: failed. */
static inline MDB_env *tool_env_open_readonly(const char *path)
{
    MDB_env *env = tool_env_create();

    if (env != NULL && tool_env_open(env, path, MDB_RDONLY) != 0) {
        mdb_env_close(env);
        return NULL;
    }
    return env;
}

/** Called with each named database, open. A code other than 0 ends the enumeration; its cause has been said. */
typedef int tool_visit_func(MDB_txn *txn, const char *name, MDB_dbi dbi, void *context);

/** What an enumeration of the main database met. */
struct tool_names {
    size_t candidates; /**< keys that could be names: without NUL */
    size_t databases;  /**< those that are */
};

/** Visits the database that a key of the main database names, if it does name one. */
static inline int tool_visit_key(MDB_txn *txn, const MDB_val *key, tool_visit_func *visit, void *context,
                                 struct tool_names *names)
{
    MDB_dbi dbi;
    char *name;
    int rc;

    if (memchr(key->mv_data, '\0', key->mv_size) != NULL)
        return 0;
    names->candidates++;
    name = malloc(key->mv_size + 1);
    if (name == NULL)
        return tool_failed("malloc", ENOMEM, NULL);
    memcpy(name, key->mv_data, key->mv_size);
    name[key->mv_size] = '\0';
    rc = mdb_dbi_open(txn, name, 0, &dbi);
    if (rc == 0) {
        names->databases++;
        rc = visit(txn, name, dbi, context);
        mdb_dbi_close(mdb_txn_env(txn), dbi);
    } else if (rc == MDB_INCOMPATIBLE || rc == MDB_NOTFOUND) { /* a plain record; LMDB's code for it with MDB_DUPSORT */
        rc = 0;
    } else {
        tool_failed("mdb_dbi_open", rc, name);
    }
    free(name);
    return rc;
}

/** Moves a cursor, unless a signal asked us to stop. MDB_NOTFOUND, the end, is the one failure without a message. */
static inline int tool_next(MDB_cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op operation)
{
    int rc = tool_stopping() ? EINTR : mdb_cursor_get(cursor, key, data, operation);

    return rc == 0 || rc == MDB_NOTFOUND ? rc : tool_failed("mdb_cursor_get", rc, NULL);
}

/** Visits all named databases in key order. */
static inline int tool_each_database(MDB_txn *txn, tool_visit_func *visit, void *context, struct tool_names *names)
{
    MDB_cursor *cursor;
    MDB_dbi main_dbi;
    MDB_val key, data;
    int rc;

    memset(names, 0, sizeof(*names));
    rc = mdb_dbi_open(txn, NULL, 0, &main_dbi);
    if (rc != 0)
        return tool_failed("mdb_dbi_open", rc, NULL);
    rc = mdb_cursor_open(txn, main_dbi, &cursor);
    if (rc != 0)
        return tool_failed("mdb_cursor_open", rc, NULL);
    while ((rc = tool_next(cursor, &key, &data, MDB_NEXT_NODUP)) == 0) {
        rc = tool_visit_key(txn, &key, visit, context, names);
        if (rc != 0)
            goto done;
    }
    if (rc == MDB_NOTFOUND)
        rc = 0;
done:
    mdb_cursor_close(cursor);
    return rc;
}

#endif
