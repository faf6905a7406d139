/* The test harness of the mtest programs: registration, checks, temporary environments, random numbers.
 *
 * A test is a function without arguments whose name is a sentence; main lists the tests and runs them:
 *
 *     TEST(empty_key_is_refused)
 *     {
 *         char *dir = temp_dir_make();
 *         MDB_env *env = env_open_new(dir, 0, 1 << 20, 0);
 *         ...
 *         CHECK_RC(mdb_put(txn, dbi, &key, &data, 0), MDB_BAD_VALSIZE);
 *         ...
 *         mdb_env_close(env);
 *         temp_dir_remove(dir);
 *     }
 *
 *     int main(int argc, char **argv)
 *     {
 *         static const struct test tests[] = {
 *             TEST_ENTRY(empty_key_is_refused),
 *         };
 *         return test_main(argc, argv, tests, TEST_COUNT(tests));
 *     }
 *
 * The first check that fails ends its test: in the thread that runs the test by a jump back to test_main, in another
 * thread by ending that thread, in a forked child by _exit(1). Helpers may therefore check as freely as tests do.
 *
 * A program runs the tests named as arguments, or all; -l lists them, -v names each before it runs. Environment:
 *     MDB_TEST_SEED       seed of the random numbers (default 1); printed when a test fails
 *     MDB_TEST_PAGESIZE   page size of the environments that env_open_new makes (default: the system's)
 *     MDB_TEST_LONG       multiplies the work of tests that ask test_scale
 *     MDB_TEST_KEEP       if set, temporary directories stay
 *     MDB_CHECK           the checking tool that run_check_tool starts (default ./mdb_check, if it exists) */
#ifndef MTEST_H
#define MTEST_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lmdb.h"

/* ==== Tests and their state ============================================== */

struct test {
    const char *name;
    void (*run)(void);
};

#define TEST(name) static void name(void)
#define TEST_ENTRY(name) { #name, name }
#define TEST_COUNT(tests) (sizeof(tests) / sizeof((tests)[0]))

enum { TEMP_DIRS_MAX = 64 };

static struct {
    const char *running;        /* name of the running test, NULL between tests */
    pthread_t thread;           /* the thread that runs the tests */
    pid_t process;              /* the process that runs the tests: a forked child differs */
    jmp_buf end_of_test;        /* valid while a test runs */
    atomic_int failed_checks;   /* of the running test, all threads */
    unsigned passed, failed;
    char *temp_dirs[TEMP_DIRS_MAX];     /* made and not yet removed */
    char note[512];             /* printed when the running test fails or crashes: how to repeat it */
} test_state;

enum test_end { TEST_END_FAILED = 1, TEST_END_SKIPPED };

/* Ends the running test, or what of it the calling thread or process does. */
static inline void __attribute__((noreturn)) test_end_now(enum test_end how)
{
    fflush(stdout);
    if (getpid() != test_state.process)
        _exit(how == TEST_END_FAILED ? 1 : 0);
    if (!pthread_equal(pthread_self(), test_state.thread))
        pthread_exit(NULL);
    longjmp(test_state.end_of_test, how);
}

static inline uint64_t test_seed(void)
{
    const char *text = getenv("MDB_TEST_SEED");

    return text != NULL && *text != '\0' ? strtoull(text, NULL, 0) : 1;
}

/* The factor by which long-running tests multiply their work: at least 1. */
static inline unsigned test_scale(void)
{
    const char *text = getenv("MDB_TEST_LONG");
    unsigned long scale = text != NULL ? strtoul(text, NULL, 0) : 1;

    return scale > 0 ? (unsigned)scale : 1;
}

/* Keeps a line to print if the running test fails, until the next note or the end of the test. */
static inline void __attribute__((format(printf, 1, 2))) test_note(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(test_state.note, sizeof(test_state.note), format, arguments);
    va_end(arguments);
}

/* Prints why the running test fails and ends it. */
static inline void __attribute__((noreturn, format(printf, 3, 4)))
test_fail(const char *file, int line, const char *format, ...)
{
    va_list arguments;

    atomic_fetch_add(&test_state.failed_checks, 1);
    printf("%s:%d: %s: ", file, line, test_state.running != NULL ? test_state.running : "outside any test");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf(" (seed %llu)\n", (unsigned long long)test_seed());
    if (test_state.note[0] != '\0')
        printf("    %s\n", test_state.note);
    test_end_now(TEST_END_FAILED);
}

/* Ends the running test without a verdict, for want of something that the system lacks. */
static inline void __attribute__((noreturn)) test_skip(const char *reason)
{
    printf("skipped: %s: %s\n", test_state.running, reason);
    test_end_now(TEST_END_SKIPPED);
}

/* ==== Checks ============================================================= */

#define CHECK(condition) \
    do { \
        if (!(condition)) \
            test_fail(__FILE__, __LINE__, "%s does not hold", #condition); \
    } while (0)

/* Integers of any type; the value found comes first. */
#define CHECK_EQ(found, expected) \
    test_check_equal(__FILE__, __LINE__, #found, (long long)(found), (long long)(expected))

/* Return codes of the library. */
#define CHECK_RC(call, expected) test_check_code(__FILE__, __LINE__, #call, (call), (expected))
#define CHECK_OK(call) CHECK_RC(call, MDB_SUCCESS)

/* Text that ends with a NUL. */
#define CHECK_TEXT(found, expected) test_check_text(__FILE__, __LINE__, #found, (found), (expected))

/* The size and bytes of an MDB_val, given by address. */
#define CHECK_VAL(val, bytes, size) test_check_val(__FILE__, __LINE__, #val, (val), (bytes), (size))
#define CHECK_VAL_TEXT(val, text) test_check_val(__FILE__, __LINE__, #val, (val), (text), strlen(text))

static inline void
test_check_equal(const char *file, int line, const char *what, long long found, long long expected)
{
    if (found != expected)
        test_fail(file, line, "%s is %lld, expected %lld", what, found, expected);
}

static inline void test_check_code(const char *file, int line, const char *what, int found, int expected)
{
    char found_text[128];

    if (found == expected)
        return;
    snprintf(found_text, sizeof(found_text), "%s", mdb_strerror(found));
    test_fail(file, line, "%s gave %d (%s), expected %d (%s)", what, found, found_text, expected,
              mdb_strerror(expected));
}

static inline void
test_check_text(const char *file, int line, const char *what, const char *found, const char *expected)
{
    if (strcmp(found, expected) != 0)
        test_fail(file, line, "%s is \"%s\", expected \"%s\"", what, found, expected);
}

enum { SHOWN_BYTES_MAX = 24, SHOWN_TEXT_SIZE = SHOWN_BYTES_MAX * 4 + 32 };

/* Bytes as readable text in a buffer of SHOWN_TEXT_SIZE: the first ones, others than printable as \xx, and the size. */
static inline const char *bytes_show(char *text, const void *bytes, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *byte = bytes;
    char *end = text;
    size_t i;

    *end++ = '"';
    for (i = 0; i < size && i < SHOWN_BYTES_MAX; i++) {
        if (byte[i] > ' ' && byte[i] < 0x7f && byte[i] != '\\' && byte[i] != '"') {
            *end++ = (char)byte[i];
        } else {
            *end++ = '\\';
            *end++ = digits[byte[i] >> 4];
            *end++ = digits[byte[i] & 15];
        }
    }
    sprintf(end, "\"%s, %zu bytes", size > SHOWN_BYTES_MAX ? "..." : "", size);
    return text;
}

static inline void
test_check_val(const char *file, int line, const char *what, const MDB_val *found, const void *bytes, size_t size)
{
    char found_text[SHOWN_TEXT_SIZE], expected_text[SHOWN_TEXT_SIZE];

    if (found->mv_size == size && (size == 0 || memcmp(found->mv_data, bytes, size) == 0))
        return;
    test_fail(file, line, "%s is %s, expected %s", what, bytes_show(found_text, found->mv_data, found->mv_size),
              bytes_show(expected_text, bytes, size));
}

/* ==== Random numbers =====================================================
 * A 64-bit counter with a mixing function: any seed is a good one, equal seeds give equal numbers. */

struct random {
    uint64_t state;
};

static inline uint64_t random_next(struct random *random)
{
    uint64_t mixed;

    random->state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = random->state;
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

/* A number below bound, which is not 0. */
static inline uint64_t random_below(struct random *random, uint64_t bound)
{
    return random_next(random) % bound;
}

static inline int random_one_in(struct random *random, uint64_t chances)
{
    return random_below(random, chances) == 0;
}

static inline void random_fill(struct random *random, void *bytes, size_t size)
{
    unsigned char *byte = bytes;
    size_t i;

    for (i = 0; i < size; i++)
        byte[i] = (unsigned char)random_next(random);
}

/* ==== Values ============================================================= */

static inline MDB_val val_of(const void *bytes, size_t size)
{
    MDB_val val;

    val.mv_size = size;
    memcpy(&val.mv_data, &bytes, sizeof(val.mv_data));  /* the library does not write through arguments */
    return val;
}

static inline MDB_val val_text(const char *text)
{
    return val_of(text, strlen(text));
}

/* ==== Temporary directories ============================================== */

/* Makes a directory below $TMPDIR or /tmp. temp_dir_remove frees the name; test_main removes what a test left. */
static inline char *temp_dir_make(void)
{
    const char *base = getenv("TMPDIR");
    char *path;
    int i;

    if (base == NULL || *base == '\0')
        base = "/tmp";
    path = malloc(strlen(base) + sizeof("/mtest-XXXXXX"));
    CHECK(path != NULL);
    sprintf(path, "%s/mtest-XXXXXX", base);
    if (mkdtemp(path) == NULL) {
        perror(path);
        free(path);
        test_fail(__FILE__, __LINE__, "cannot make a temporary directory");
    }
    for (i = 0; i < TEMP_DIRS_MAX; i++) {
        if (test_state.temp_dirs[i] == NULL) {
            test_state.temp_dirs[i] = path;
            break;
        }
    }
    return path;
}

/* Removes a directory with all that is in it. */
static inline void directory_remove(const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    struct stat status;
    char child[4096];

    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (snprintf(child, sizeof(child), "%s/%s", path, entry->d_name) >= (int)sizeof(child))
            continue;
        if (lstat(child, &status) == 0 && S_ISDIR(status.st_mode))
            directory_remove(child);
        else
            unlink(child);
    }
    if (directory != NULL)
        closedir(directory);
    rmdir(path);
}

static inline void temp_dir_remove(char *path)
{
    int i;

    for (i = 0; i < TEMP_DIRS_MAX; i++) {
        if (test_state.temp_dirs[i] == path)
            test_state.temp_dirs[i] = NULL;
    }
    if (getenv("MDB_TEST_KEEP") != NULL)
        printf("kept: %s\n", path);
    else
        directory_remove(path);
    free(path);
}

/* ==== Environments ======================================================= */

/* The page size of the environments that env_open_new makes. */
static inline unsigned test_page_size(void)
{
    const char *text = getenv("MDB_TEST_PAGESIZE");

    return text != NULL && *text != '\0' ? (unsigned)strtoul(text, NULL, 0) : (unsigned)sysconf(_SC_PAGESIZE);
}

/* Opens the environment at path, which exists or is made; page_size 0: the library chooses. */
static inline MDB_env *
env_open_sized(const char *path, unsigned flags, size_t map_size, unsigned dbs_max, unsigned page_size)
{
    MDB_env *env;

    CHECK_OK(mdb_env_create(&env));
    CHECK_OK(mdb_env_set_mapsize(env, map_size));
    if (dbs_max > 0)
        CHECK_OK(mdb_env_set_maxdbs(env, dbs_max));
    if (page_size > 0)
        CHECK_OK(mdb_env_set_pagesize(env, (int)page_size));
    CHECK_OK(mdb_env_open(env, path, flags, 0664));
    return env;
}

/* Makes and opens an environment of the page size that MDB_TEST_PAGESIZE names. */
static inline MDB_env *env_open_new(const char *path, unsigned flags, size_t map_size, unsigned dbs_max)
{
    unsigned page_size = getenv("MDB_TEST_PAGESIZE") != NULL ? test_page_size() : 0;

    return env_open_sized(path, flags, map_size, dbs_max, page_size);
}

/* Opens an environment that exists. */
static inline MDB_env *env_open_again(const char *path, unsigned flags, size_t map_size, unsigned dbs_max)
{
    return env_open_sized(path, flags, map_size, dbs_max, 0);
}

/* ==== Other programs ===================================================== */

/* Runs a program with its output in the file output; gives its exit status, or -1 if it did not exit by itself. */
static inline int program_run(char *const arguments[], const char *output)
{
    extern char **environ;
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status, rc;

    CHECK_EQ(posix_spawn_file_actions_init(&actions), 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    rc = posix_spawn(&child, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    CHECK_EQ(rc, 0);
    while (waitpid(child, &status, 0) < 0)
        CHECK_EQ(errno, EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline void file_print(const char *path)
{
    char bytes[4096];
    size_t size;
    FILE *file = fopen(path, "r");

    while (file != NULL && (size = fread(bytes, 1, sizeof(bytes), file)) > 0)
        fwrite(bytes, 1, size, stdout);
    if (file != NULL)
        fclose(file);
}

/* Lets the checking tool, if it exists, walk the environment at path: a directory, or the data file itself. The
 * environment may be open here, between transactions or with readers. Faults fail the test. With order_is_custom,
 * functions of the program order the records, and the tool does not judge their order. */
static inline void run_check_tool_on(const char *path, int order_is_custom)
{
    const char *tool = getenv("MDB_CHECK");
    char tool_path[4096], path_copy[4096], no_subdir[] = "-n", custom_order[] = "-c";
    char *arguments[5], *directory, *output;
    struct stat status;
    int next = 0, exit_status;

    snprintf(tool_path, sizeof(tool_path), "%s", tool != NULL && *tool != '\0' ? tool : "./mdb_check");
    if (access(tool_path, X_OK) != 0)
        return;
    snprintf(path_copy, sizeof(path_copy), "%s", path);
    arguments[next++] = tool_path;
    if (stat(path, &status) == 0 && S_ISREG(status.st_mode))
        arguments[next++] = no_subdir;
    if (order_is_custom)
        arguments[next++] = custom_order;
    arguments[next++] = path_copy;
    arguments[next] = NULL;
    directory = temp_dir_make();
    output = malloc(strlen(directory) + sizeof("/output"));
    CHECK(output != NULL);
    sprintf(output, "%s/output", directory);
    exit_status = program_run(arguments, output);
    if (exit_status != 0)
        file_print(output);
    free(output);
    temp_dir_remove(directory);
    CHECK_EQ(exit_status, 0);
}

static inline void run_check_tool(const char *path)
{
    run_check_tool_on(path, 0);
}

/* Waits for a forked child, which must end with status 0. */
static inline void child_must_succeed(pid_t child)
{
    int status;

    while (waitpid(child, &status, 0) < 0)
        CHECK_EQ(errno, EINTR);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
}

/* ==== Running the tests ================================================== */

/* A signal that ends the program is a failure of the running test; say so before the program goes down. */
static inline void test_killed(int number)
{
    char text[1024];
    int size;

    if (getpid() == test_state.process) {
        size = snprintf(text, sizeof(text), "%s: killed by signal %d (seed %llu)\n    %s\n%u passed, %u failed\n",
                        test_state.running != NULL ? test_state.running : "outside any test", number,
                        (unsigned long long)test_seed(), test_state.note, test_state.passed, test_state.failed + 1);
        if (write(STDOUT_FILENO, text, (size_t)size) != size)
            _exit(1);
    }
    raise(number);
}

/* The sanitizers report such signals better than we could. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_CATCHES_SIGNALS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TEST_CATCHES_SIGNALS 0
#endif
#endif
#ifndef TEST_CATCHES_SIGNALS
#define TEST_CATCHES_SIGNALS 1
#endif

static inline void test_signals_catch(void)
{
    static const int numbers[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL };
    struct sigaction action;
    size_t i;

    memset(&action, 0, sizeof(action));
    action.sa_handler = test_killed;
    action.sa_flags = (int)(SA_RESETHAND | SA_NODEFER);
    for (i = 0; TEST_CATCHES_SIGNALS && i < sizeof(numbers) / sizeof(numbers[0]); i++)
        sigaction(numbers[i], &action, NULL);
}

static inline void test_run(const struct test *test)
{
    int end, i;

    test_state.running = test->name;
    test_state.note[0] = '\0';
    atomic_store(&test_state.failed_checks, 0);
    end = setjmp(test_state.end_of_test);
    if (end == 0)
        test->run();
    if (atomic_load(&test_state.failed_checks) > 0)
        test_state.failed++;
    else if (end != TEST_END_SKIPPED)
        test_state.passed++;
    test_state.running = NULL;
    for (i = 0; i < TEMP_DIRS_MAX; i++) {
        if (test_state.temp_dirs[i] != NULL)
            temp_dir_remove(test_state.temp_dirs[i]);
    }
    fflush(stdout);
}

static inline const struct test *test_find(const struct test *tests, size_t count, const char *name)
{
    size_t i;

    for (i = 0; i < count; i++) {
        if (strcmp(tests[i].name, name) == 0)
            return &tests[i];
    }
    return NULL;
}

static inline void test_run_verbosely(const struct test *test, int verbose)
{
    if (verbose) {
        printf("%s\n", test->name);
        fflush(stdout);
    }
    test_run(test);
}

/* What main returns: 0 if every test that ran passed. */
static inline int test_main(int argc, char **argv, const struct test *tests, size_t count)
{
    int first = 1, verbose = 0, argument;
    size_t i;

    if (argc > first && strcmp(argv[first], "-l") == 0) {
        for (i = 0; i < count; i++)
            printf("%s\n", tests[i].name);
        return 0;
    }
    if (argc > first && strcmp(argv[first], "-v") == 0) {
        verbose = 1;
        first++;
    }
    for (argument = first; argument < argc; argument++) {
        if (test_find(tests, count, argv[argument]) == NULL) {
            fprintf(stderr, "%s: no test named %s\n", argv[0], argv[argument]);
            return 2;
        }
    }
    test_state.thread = pthread_self();
    test_state.process = getpid();
    test_signals_catch();
    for (argument = first; argument < argc; argument++)
        test_run_verbosely(test_find(tests, count, argv[argument]), verbose);
    for (i = 0; argc == first && i < count; i++)
        test_run_verbosely(&tests[i], verbose);
    printf("%u passed, %u failed\n", test_state.passed, test_state.failed);
    return test_state.failed == 0 ? 0 : 1;
}

#endif
