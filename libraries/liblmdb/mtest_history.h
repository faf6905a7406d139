/* What the tests with random histories share: the kinds of databases and environments, their orders, random keys and
 * values, plans, traces, and repeating a history that failed.
 *
 * Every order here is total on bytes: two keys that compare equal are the same bytes. */
#ifndef MTEST_HISTORY_H
#define MTEST_HISTORY_H

#include "mtest.h"

/* ==== Orders ============================================================= */

static inline int order_by_size(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

static inline int order_bytes(const MDB_val *a, const MDB_val *b)
{
    size_t common = a->mv_size < b->mv_size ? a->mv_size : b->mv_size;
    int difference = common > 0 ? memcmp(a->mv_data, b->mv_data, common) : 0;

    return difference != 0 ? difference : order_by_size(a->mv_size, b->mv_size);
}

/* Bytes from the last to the first. */
static inline int order_reversed(const MDB_val *a, const MDB_val *b)
{
    const unsigned char *a_bytes = a->mv_data, *b_bytes = b->mv_data;
    size_t i;

    for (i = 1; i <= a->mv_size && i <= b->mv_size; i++) {
        int difference = a_bytes[a->mv_size - i] - b_bytes[b->mv_size - i];

        if (difference != 0)
            return difference;
    }
    return order_by_size(a->mv_size, b->mv_size);
}

static inline uint64_t integer_of(const MDB_val *val)
{
    uint32_t small;
    uint64_t large;

    if (val->mv_size == sizeof(small)) {
        memcpy(&small, val->mv_data, sizeof(small));
        return small;
    }
    memcpy(&large, val->mv_data, sizeof(large));
    return large;
}

static inline int order_integers(const MDB_val *a, const MDB_val *b)
{
    uint64_t a_integer = integer_of(a), b_integer = integer_of(b);

    return (a_integer > b_integer) - (a_integer < b_integer);
}

/* Custom orders, that no flag gives. */

static inline int order_descending(const MDB_val *a, const MDB_val *b)
{
    return order_bytes(b, a);
}

static inline int order_size_first(const MDB_val *a, const MDB_val *b)
{
    int difference = order_by_size(a->mv_size, b->mv_size);

    return difference != 0 ? difference : order_bytes(a, b);
}

/* ==== Kinds of databases and environments ================================ */

struct key_kind {
    const char *name;
    unsigned flags;
    size_t width;               /* of every key; 0: they differ */
    MDB_cmp_func *order;
    int is_custom;              /* the order must be set with mdb_set_compare */
};

static const struct key_kind key_kinds[] = {
    { "bytes", 0, 0, order_bytes, 0 },
    { "reversed", MDB_REVERSEKEY, 0, order_reversed, 0 },
    { "integer4", MDB_INTEGERKEY, 4, order_integers, 0 },
    { "integer8", MDB_INTEGERKEY, 8, order_integers, 0 },
    { "custom", 0, 0, order_descending, 1 },
};

struct value_kind {
    const char *name;
    unsigned flags;
    int is_integer;
    MDB_cmp_func *order;        /* of duplicates; NULL without MDB_DUPSORT */
    int is_custom;              /* the order must be set with mdb_set_dupsort */
};

static const struct value_kind value_kinds[] = {
    { "plain", 0, 0, NULL, 0 },
    { "dups", MDB_DUPSORT, 0, order_bytes, 0 },
    { "fixed", MDB_DUPSORT | MDB_DUPFIXED, 0, order_bytes, 0 },
    { "integers", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP, 1, order_integers, 0 },
    { "reversed", MDB_DUPSORT | MDB_REVERSEDUP, 0, order_reversed, 0 },
    { "custom", MDB_DUPSORT, 0, order_size_first, 1 },
    { "fixedcustom", MDB_DUPSORT | MDB_DUPFIXED, 0, order_descending, 1 },
};

struct env_kind {
    const char *name;
    unsigned flags;
};

static const struct env_kind env_kinds[] = {
    { "default", 0 },
    { "writemap", MDB_WRITEMAP },
    { "notls+nosync", MDB_NOTLS | MDB_NOSYNC },
    { "writemap+nosync", MDB_WRITEMAP | MDB_NOSYNC | MDB_NOTLS },
    { "nometasync+nomeminit", MDB_NOMETASYNC | MDB_NOMEMINIT },
    { "writemap+mapasync", MDB_WRITEMAP | MDB_MAPASYNC },
    { "nosubdir+nordahead", MDB_NOSUBDIR | MDB_NOSYNC | MDB_NOTLS | MDB_NORDAHEAD },
    { "nolock", MDB_NOLOCK | MDB_NOSYNC },
};

enum {
    KEY_KINDS = sizeof(key_kinds) / sizeof(key_kinds[0]),
    VALUE_KINDS = sizeof(value_kinds) / sizeof(value_kinds[0]),
    ENV_KINDS = sizeof(env_kinds) / sizeof(env_kinds[0])
};

/* ==== Random keys and values =============================================
 * They come from pools: number n of a pool is always the same bytes, so that a history meets a record again. */

enum bytes_shape { SHAPE_COUNTER, SHAPE_SHORT, SHAPE_LONG, SHAPE_PREFIXED, SHAPE_BINARY, SHAPES };

struct pool {
    uint64_t seed;
    uint64_t count;
    enum bytes_shape shape;
    size_t size_min, size_max;
    size_t width;               /* of all of them; 0: they differ */
    int is_integer;
};

/* What a database holds. */
struct contents {
    const struct key_kind *key_kind;
    const struct value_kind *value_kind;
    struct pool keys;
    struct pool values;         /* the duplicates; unused without MDB_DUPSORT */
};

enum { KEY_SIZE_MAX = 511, VALUE_SIZE_MAX = 48 * 1024 };

static inline unsigned contents_flags(const struct contents *contents)
{
    return contents->key_kind->flags | contents->value_kind->flags;
}

static inline int contents_have_dups(const struct contents *contents)
{
    return contents->value_kind->order != NULL;
}

static inline int contents_are_fixed(const struct contents *contents)
{
    return (contents->value_kind->flags & MDB_DUPFIXED) != 0;
}

static inline int contents_are_custom(const struct contents *contents)
{
    return contents->key_kind->is_custom || contents->value_kind->is_custom;
}

static inline size_t bytes_make_shaped(const struct pool *pool, uint64_t number, unsigned char *bytes)
{
    static const unsigned char extremes[] = { 0x00, 0xff, 0x7f, 0x80, 0x01 };
    struct random random = { pool->seed ^ number * UINT64_C(0xd1342543de82ef95) };
    size_t size = 0, i;

    switch (pool->shape) {
    case SHAPE_SHORT:
        size = 1 + random_below(&random, 8);
        for (i = 0; i < size; i++)
            bytes[i] = (unsigned char)('a' + random_below(&random, 4));
        break;
    case SHAPE_LONG:
        size = 1 + random_below(&random, pool->size_max);
        for (i = 0; i < size; i++)
            bytes[i] = (unsigned char)('a' + random_below(&random, 26));
        break;
    case SHAPE_BINARY:
        size = 1 + random_below(&random, 6);
        for (i = 0; i < size; i++)
            bytes[i] = extremes[random_below(&random, sizeof(extremes))];
        break;
    case SHAPE_PREFIXED:
        size = pool->seed % (pool->size_max - 8);
        memset(bytes, 'p', size);
        /* fall through */
    default:
        size += (size_t)sprintf((char *)bytes + size, "%08u", (unsigned)number % 100000000);
        break;
    }
    return size;
}

/* Number `number` of a pool, in a buffer of KEY_SIZE_MAX + 1 bytes. */
static inline MDB_val pool_get(const struct pool *pool, uint64_t number, unsigned char *bytes)
{
    size_t size;

    if (pool->is_integer) {
        /* Some are dense, some need all their bits. */
        uint64_t large = pool->seed % 2 == 0 ? number : number * UINT64_C(0x9e3779b97f4a7c15);
        uint32_t small = (uint32_t)large;

        memcpy(bytes, pool->width == sizeof(small) ? (const void *)&small : (const void *)&large, pool->width);
        return val_of(bytes, pool->width);
    }
    if (pool->width > 0) {
        struct random random = { pool->seed ^ number };

        random_fill(&random, bytes, pool->width);
        return val_of(bytes, pool->width);
    }
    size = bytes_make_shaped(pool, number, bytes);
    if (pool->size_min == 0 && number % 16 == 5)
        size = 0;
    return val_of(bytes, size);
}

static inline MDB_val pool_pick(const struct pool *pool, struct random *random, unsigned char *bytes)
{
    return pool_get(pool, random_below(random, pool->count), bytes);
}

static inline void pool_init(struct pool *pool, struct random *random, size_t size_min, size_t size_max)
{
    static const unsigned counts[] = { 4, 30, 300, 3000 };

    memset(pool, 0, sizeof(*pool));
    pool->seed = random_next(random);
    pool->count = counts[random_below(random, sizeof(counts) / sizeof(counts[0]))];
    pool->shape = (enum bytes_shape)random_below(random, SHAPES);
    pool->size_min = size_min;
    pool->size_max = size_max;
}

/* What a database of these kinds holds in a history of this seed; key_max: the longest key there can be. */
static inline void contents_init(struct contents *contents, const struct key_kind *key_kind,
                                 const struct value_kind *value_kind, struct random *random, size_t key_max)
{
    static const unsigned char widths[] = { 1, 2, 3, 4, 7, 8, 16, 31, 100, 190 };

    contents->key_kind = key_kind;
    contents->value_kind = value_kind;
    pool_init(&contents->keys, random, 1, key_max);
    contents->keys.width = key_kind->width;
    contents->keys.is_integer = key_kind->width > 0;
    pool_init(&contents->values, random, 0, key_max);
    if (value_kind->is_integer) {
        contents->values.width = random_one_in(random, 2) ? 4 : 8;
        contents->values.is_integer = 1;
    } else if (contents_are_fixed(contents)) {
        contents->values.width = widths[random_below(random, sizeof(widths))];
    }
}

/* A value of a database without duplicates, in a buffer of VALUE_SIZE_MAX bytes: often small, sometimes near the size
 * where it leaves its leaf, sometimes of many pages. */
static inline MDB_val value_make(struct random *random, size_t page_size, unsigned char *bytes)
{
    uint64_t kind = random_below(random, 20), first = random_next(random);
    size_t size, i;

    if (kind < 11)
        size = random_below(random, 40);
    else if (kind < 15)
        size = random_below(random, 300);
    else if (kind < 17)
        size = page_size / 2 - 60 + random_below(random, 60);
    else if (kind < 19)
        size = page_size * (1 + random_below(random, 3)) - 30 + random_below(random, 40);
    else
        size = random_below(random, 8 * page_size);
    if (size > VALUE_SIZE_MAX)
        size = VALUE_SIZE_MAX - size % 64;
    for (i = 0; i < size; i++)
        bytes[i] = (unsigned char)(first + i * 7 + i / 251);
    return val_of(bytes, size);
}

/* ==== Names for traces =================================================== */

static inline const char *cursor_op_name(MDB_cursor_op op)
{
    static const char *const names[] = {
        "MDB_FIRST", "MDB_FIRST_DUP", "MDB_GET_BOTH", "MDB_GET_BOTH_RANGE", "MDB_GET_CURRENT", "MDB_GET_MULTIPLE",
        "MDB_LAST", "MDB_LAST_DUP", "MDB_NEXT", "MDB_NEXT_DUP", "MDB_NEXT_MULTIPLE", "MDB_NEXT_NODUP", "MDB_PREV",
        "MDB_PREV_DUP", "MDB_PREV_NODUP", "MDB_SET", "MDB_SET_KEY", "MDB_SET_RANGE", "MDB_PREV_MULTIPLE",
    };

    return names[op];
}

/* The flags of a put, in a buffer of PUT_FLAGS_TEXT_SIZE. */
enum { PUT_FLAGS_TEXT_SIZE = 128 };

static inline const char *put_flags_show(char *text, unsigned flags)
{
    static const struct {
        unsigned flag;
        const char *name;
    } names[] = {
        { MDB_NOOVERWRITE, "|NOOVERWRITE" }, { MDB_NODUPDATA, "|NODUPDATA" }, { MDB_CURRENT, "|CURRENT" },
        { MDB_RESERVE, "|RESERVE" }, { MDB_APPEND, "|APPEND" }, { MDB_APPENDDUP, "|APPENDDUP" },
        { MDB_MULTIPLE, "|MULTIPLE" },
    };
    size_t i;

    strcpy(text, "|0");
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (flags & names[i].flag) {
            if (text[1] == '0')
                text[0] = '\0';
            strcat(text, names[i].name);
        }
    }
    return text + 1;
}

/* ==== Plans: a configuration, a seed, a number of steps ==================
 * Step n of a history draws its random numbers from the seed and n alone. So any selection of the steps of a history is
 * a history too, and one that fails can be shortened. */

struct plan {
    const struct key_kind *key_kind;
    const struct value_kind *value_kind;
    const struct env_kind *env_kind;
    int is_named;               /* a named database, else the main one */
    unsigned page_size;
    uint64_t seed;
    unsigned steps;
    const unsigned char *wanted;        /* by step, from 1: 0 leaves it out; NULL: all are wanted */
};

static inline int plan_wants(const struct plan *plan, unsigned step)
{
    return plan->wanted == NULL || plan->wanted[step];
}

static inline struct random plan_random(const struct plan *plan, unsigned step)
{
    struct random random = { plan->seed * UINT64_C(0x9e3779b97f4a7c15) + step };

    return random;
}

/* The part of text up to the next '/', which ends there. */
static inline char *part_take(char **text)
{
    char *part = *text, *end = strchr(part, '/');

    *text = end != NULL ? end + 1 : part + strlen(part);
    if (end != NULL)
        *end = '\0';
    return part;
}

/* Reads keys/values/environment/named|main/pagesize; 0 if it is not that. */
static inline int plan_parse(struct plan *plan, char *text)
{
    const char *keys = part_take(&text), *values = part_take(&text), *env = part_take(&text);
    size_t i;

    for (i = 0; i < KEY_KINDS; i++)
        plan->key_kind = strcmp(key_kinds[i].name, keys) == 0 ? &key_kinds[i] : plan->key_kind;
    for (i = 0; i < VALUE_KINDS; i++)
        plan->value_kind = strcmp(value_kinds[i].name, values) == 0 ? &value_kinds[i] : plan->value_kind;
    for (i = 0; i < ENV_KINDS; i++)
        plan->env_kind = strcmp(env_kinds[i].name, env) == 0 ? &env_kinds[i] : plan->env_kind;
    plan->is_named = strcmp(part_take(&text), "named") == 0;
    plan->page_size = (unsigned)strtoul(text, NULL, 0);
    return plan->key_kind != NULL && plan->value_kind != NULL && plan->env_kind != NULL && plan->page_size > 0;
}

/* ==== Traces and failures ================================================ */

enum { TRACE_LINES = 30, TRACE_SIZE = 240 };

/* Of the running history: there is one at a time. */
static struct {
    const char *program;
    unsigned step;
    int is_printed;             /* all lines, at once; else the last ones, when it fails */
    unsigned count;
    char lines[TRACE_LINES][TRACE_SIZE];
} history_trace;

/* At the begin of a step: what to print if it fails. */
static inline void plan_note(const struct plan *plan, unsigned step)
{
    history_trace.step = step;
    if (step == 0)
        history_trace.count = 0;
    test_note("repeat: %s --config %s/%s/%s/%s/%u --seed %llu --steps %u", history_trace.program,
              plan->key_kind->name, plan->value_kind->name, plan->env_kind->name, plan->is_named ? "named" : "main",
              plan->page_size, (unsigned long long)plan->seed, step);
}

static inline void __attribute__((format(printf, 1, 2))) trace(const char *format, ...)
{
    char *line = history_trace.lines[history_trace.count++ % TRACE_LINES];
    va_list arguments;
    int size = snprintf(line, TRACE_SIZE, "step %u: ", history_trace.step);

    va_start(arguments, format);
    vsnprintf(line + size, TRACE_SIZE - (size_t)size, format, arguments);
    va_end(arguments);
    if (history_trace.is_printed) {
        printf("%s\n", line);
        fflush(stdout);
    }
}

static inline void __attribute__((noreturn, format(printf, 3, 4)))
history_fail(const char *file, int line, const char *format, ...)
{
    unsigned i = history_trace.count > TRACE_LINES ? history_trace.count - TRACE_LINES : 0;
    char message[TRACE_SIZE * 2];
    va_list arguments;

    for (; !history_trace.is_printed && i < history_trace.count; i++)
        printf("%s\n", history_trace.lines[i % TRACE_LINES]);
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    test_fail(file, line, "step %u: %s", history_trace.step, message);
}

/* As CHECK and CHECK_RC, with the trace before the message. */
#define EXPECT(condition, ...) \
    do { \
        if (!(condition)) \
            history_fail(__FILE__, __LINE__, __VA_ARGS__); \
    } while (0)

#define EXPECT_CODE(call, expected) expect_code(__FILE__, __LINE__, #call, (call), (expected))
#define EXPECT_OK(call) EXPECT_CODE(call, MDB_SUCCESS)

static inline void expect_code(const char *file, int line, const char *what, int found, int expected)
{
    if (found != expected)
        history_fail(file, line, "%s gave %d, expected %d", what, found, expected);
}

/* ==== Repeating and shortening one history ===============================
 * The command line of the programs with histories, besides that of test_main. */

static struct {
    struct plan plan;
    void (*run)(const struct plan *);
} repeated;

static inline void repeated_history(void)
{
    repeated.run(&repeated.plan);
}

static inline int repeated_run(char **argv)
{
    static const struct test tests[] = { TEST_ENTRY(repeated_history) };

    return test_main(1, argv, tests, TEST_COUNT(tests));
}

/* Reads step numbers with commas between. */
static inline void wanted_parse(unsigned char *wanted, unsigned steps, const char *text)
{
    char *end;

    memset(wanted, 0, steps + 1);
    while (*text != '\0') {
        unsigned long step = strtoul(text, &end, 10);

        if (end == text)
            break;
        if (step <= steps)
            wanted[step] = 1;
        text = end + (*end == ',');
    }
}

/* Whether the history fails with the steps wanted, tried in a child without output. */
static inline int repeated_fails(char **argv)
{
    pid_t child = fork();
    int status, null;

    if (child == 0) {
        null = open("/dev/null", O_WRONLY);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        history_trace.is_printed = 0;
        alarm(60);
        exit(repeated_run(argv));
    }
    waitpid(child, &status, 0);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* Leaves out the steps from first on, `count` of them, if the history fails without them too. */
static inline void repeated_try_without(char **argv, unsigned char *wanted, unsigned first, unsigned count)
{
    unsigned steps = repeated.plan.steps, left = 0, i;
    unsigned char *before = malloc(steps + 1);

    CHECK(before != NULL);
    memcpy(before, wanted, steps + 1);
    for (i = first; i < first + count && i <= steps; i++) {
        left += wanted[i];
        wanted[i] = 0;
    }
    if (left > 0 && !repeated_fails(argv))
        memcpy(wanted, before, steps + 1);
    free(before);
}

static inline void repeated_minimize(char **argv, unsigned char *wanted)
{
    char directory[] = "/tmp/mtest-XXXXXX";     /* not by temp_dir_make: the children would remove it */
    unsigned steps = repeated.plan.steps, count, first, printed = 0;

    CHECK(mkdtemp(directory) != NULL);
    setenv("TMPDIR", directory, 1);
    for (count = (steps + 1) / 2; count > 0; count = count == 1 ? 0 : (count + 1) / 2) {
        for (first = 1; first <= steps; first += count)
            repeated_try_without(argv, wanted, first, count);
    }
    directory_remove(directory);
    unsetenv("TMPDIR");
    printf("--only ");
    for (first = 1; first <= steps; first++) {
        if (wanted[first])
            printf("%s%u", printed++ > 0 ? "," : "", first);
    }
    printf("\n");
    fflush(stdout);
}

static inline int history_usage(const char *program)
{
    fprintf(stderr, "usage: %s [-l | -v] [test]...\n"
            "       %s --config keys/values/environment/named|main/pagesize [--seed N] [--steps N]\n"
            "           [--only step,step...] [--trace] [--minimize]\n", program, program);
    return 2;
}

enum { REPEATED_STEPS_MAX = 1000000 };

/* Reads the options of a history to repeat; 0 if they are wrong. */
static inline int repeated_parse(int argc, char **argv, const char **only, int *minimize)
{
    struct plan *plan = &repeated.plan;
    int i;

    plan->seed = 1;
    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--trace") == 0) {
            history_trace.is_printed = 1;
        } else if (strcmp(argv[i], "--minimize") == 0) {
            *minimize = 1;
        } else if (i + 1 == argc) {
            return 0;
        } else if (strcmp(argv[i], "--config") == 0) {
            if (!plan_parse(plan, argv[++i]))
                return 0;
        } else if (strcmp(argv[i], "--seed") == 0) {
            plan->seed = strtoull(argv[++i], NULL, 0);
        } else if (strcmp(argv[i], "--steps") == 0) {
            plan->steps = (unsigned)strtoul(argv[++i], NULL, 0);
        } else if (strcmp(argv[i], "--only") == 0) {
            *only = argv[++i];
        } else {
            return 0;
        }
    }
    return plan->key_kind != NULL && plan->steps > 0 && plan->steps < REPEATED_STEPS_MAX;
}

/* What main returns: runs the tests, or repeats one history with `run`. */
static inline int history_main(int argc, char **argv, const struct test *tests, size_t count,
                               void (*run)(const struct plan *))
{
    static unsigned char wanted[REPEATED_STEPS_MAX];
    const char *only = NULL;
    int minimize = 0;

    history_trace.program = argv[0];
    if (argc < 2 || strncmp(argv[1], "--", 2) != 0)
        return test_main(argc, argv, tests, count);
    repeated.run = run;
    repeated.plan.steps = 1000;
    if (!repeated_parse(argc, argv, &only, &minimize))
        return history_usage(argv[0]);
    memset(wanted, 1, sizeof(wanted));
    if (only != NULL)
        wanted_parse(wanted, repeated.plan.steps, only);
    repeated.plan.wanted = wanted;
    if (minimize)
        repeated_minimize(argv, wanted);
    return repeated_run(argv);
}

#endif
