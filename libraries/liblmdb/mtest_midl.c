/* Tests of midl.c: random histories against naive models, each failure to allocate, and the number of steps that
 * operations take in small and in large structures. midl.c is compiled into this program, with its memory and its step
 * counter in our hands. */
#include "mtest.h"

#include <stdbool.h>

/* ---- memory and steps ----------------------------------------------------------------------------------------- */

#define ALLOCATIONS_UNLIMITED SIZE_MAX

static size_t allocations_left = ALLOCATIONS_UNLIMITED; /* that succeed */
static size_t allocations_refused;
static size_t blocks_alive;
static size_t steps;

static bool allocation_granted(void)
{
    if (allocations_left == 0) {
        allocations_refused++;
        return false;
    }
    if (allocations_left != ALLOCATIONS_UNLIMITED)
        allocations_left--;
    return true;
}

static void *block_counted(void *block)
{
    blocks_alive += block != NULL;
    return block;
}

static void *test_malloc(size_t size)
{
    return allocation_granted() ? block_counted(malloc(size)) : NULL;
}

static void *test_calloc(size_t count, size_t size)
{
    return allocation_granted() ? block_counted(calloc(count, size)) : NULL;
}

static void *test_realloc(void *block, size_t size)
{
    if (block == NULL)
        return test_malloc(size);
    return allocation_granted() ? realloc(block, size) : NULL;
}

static void test_free(void *block)
{
    blocks_alive -= block != NULL;
    free(block);
}

#define MIDL_STEP() (steps++)
#define malloc test_malloc
#define calloc test_calloc
#define realloc test_realloc
#define free test_free
#include "midl.c"
#undef malloc
#undef calloc
#undef realloc
#undef free

/* Every test begins with this: the one before may have failed anywhere. */
static struct random test_begin(void)
{
    struct random random = { test_seed() };

    allocations_left = ALLOCATIONS_UNLIMITED;
    allocations_refused = 0;
    blocks_alive = 0;
    steps = 0;
    return random;
}

static void must_succeed(int rc)
{
    CHECK_EQ(rc, 0);
}

/* ---- lists ---------------------------------------------------------------------------------------------------- */

static void ids_must_equal(const pgno_t *found, const pgno_t *expected, size_t count)
{
    size_t i;

    for (i = 0; i < count; i++) {
        if (found[i] != expected[i])
            test_fail(__FILE__, __LINE__, "number %zu of %zu is %zu, expected %zu", i, count, found[i], expected[i]);
    }
}

TEST(list_keeps_what_is_added_in_order)
{
    enum { ROUNDS = 400, COUNT_MAX = 20000 };
    struct random random = test_begin();
    struct page_list list = { 0 }, other = { 0 };
    pgno_t *model = calloc(COUNT_MAX, sizeof *model);
    size_t count = 0, round, n, i;

    CHECK(model != NULL);
    for (round = 0; round < ROUNDS; round++) {
        pgno_t first = (pgno_t)random_next(&random) >> 8;

        n = (size_t)random_below(&random, random_one_in(&random, 8) ? 80 : 8);
        CHECK(count + n <= COUNT_MAX);
        switch (random_below(&random, 3)) {
        case 0:
            must_succeed(page_list_add_run(&list, first, n));
            for (i = n; i > 0; i--)
                model[count++] = first + i - 1;
            break;
        case 1:
            other.count = 0;
            for (i = 0; i < n; i++)
                must_succeed(page_list_add(&other, model[count + i] = (pgno_t)random_next(&random)));
            must_succeed(page_list_append(&list, &other));
            count += n;
            break;
        default:
            must_succeed(page_list_add(&list, model[count++] = first));
        }
        CHECK_EQ(list.count, count);
        CHECK(list.capacity >= count);
    }
    ids_must_equal(list.ids, model, count);
    page_list_free(&list);
    page_list_free(&other);
    CHECK_EQ(list.count, 0);
    CHECK_EQ(blocks_alive, 0);
    free(model);
}

TEST(list_add_allocates_a_logarithmic_number_of_times)
{
    enum { COUNT = 1000000, GROWTHS_MAX = 40 };
    struct page_list list = { 0 };
    pgno_t pgno;

    test_begin();
    allocations_left = GROWTHS_MAX;
    for (pgno = 0; pgno < COUNT; pgno++)
        must_succeed(page_list_add(&list, pgno));
    CHECK(list.capacity <= 2 * (size_t)COUNT);
    page_list_free(&list);
}

TEST(list_reserve_makes_adding_safe)
{
    enum { ROOM = 1000 };
    struct page_list list = { 0 };
    size_t i;

    test_begin();
    must_succeed(page_list_add(&list, 7));
    must_succeed(page_list_reserve(&list, ROOM));
    allocations_left = 0;
    for (i = 0; i < ROOM; i++)
        must_succeed(page_list_add(&list, i));
    CHECK_EQ(list.count, ROOM + 1);
    page_list_free(&list);
}

TEST(list_is_unchanged_when_memory_is_refused)
{
    static const pgno_t expected[] = { 12, 11, 10 };
    struct page_list list = { 0 }, other = { 0 };

    test_begin();
    must_succeed(page_list_add_run(&other, 100, 50));
    allocations_left = 0;
    CHECK_EQ(page_list_add(&list, 1), ENOMEM);
    CHECK(list.ids == NULL);
    allocations_left = ALLOCATIONS_UNLIMITED;
    must_succeed(page_list_add_run(&list, 10, 3));
    allocations_left = 0;
    CHECK_EQ(page_list_add_run(&list, 100, 50), ENOMEM);
    CHECK_EQ(page_list_append(&list, &other), ENOMEM);
    CHECK_EQ(page_list_reserve(&list, 50), ENOMEM);
    CHECK_EQ(allocations_refused, 4);
    CHECK_EQ(list.count, 3);
    ids_must_equal(list.ids, expected, 3);
    allocations_left = ALLOCATIONS_UNLIMITED;
    must_succeed(page_list_append(&list, &other));
    CHECK_EQ(list.count, 53);
    page_list_free(&list);
    page_list_free(&other);
}

TEST(list_refuses_what_no_memory_can_hold)
{
    static const size_t rooms[] = { SIZE_MAX / sizeof(pgno_t), SIZE_MAX / 4, SIZE_MAX - 1, SIZE_MAX };
    struct page_list list = { 0 };
    size_t i;

    test_begin();
    must_succeed(page_list_add(&list, 1));
    for (i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        CHECK_EQ(page_list_reserve(&list, rooms[i]), ENOMEM);
        CHECK_EQ(page_list_add_run(&list, 0, rooms[i]), ENOMEM);
    }
    CHECK_EQ(list.count, 1);
    CHECK_EQ(list.ids[0], 1);
    page_list_free(&list);
}

/* Orders of page numbers that a sort may meet, or be hurt by. */
enum list_shape {
    SHAPE_RANDOM,
    SHAPE_NARROW,
    SHAPE_FEW_VALUES,
    SHAPE_EQUAL,
    SHAPE_ASCENDING,
    SHAPE_DESCENDING,
    SHAPE_ALMOST_ASCENDING,
    SHAPE_ORGAN_PIPE,
    SHAPE_SORTED_PIECES,
    SHAPE_ONE_BIT_EACH,
    SHAPE_ONE_FAR_OFF,
    SHAPES
};

static pgno_t shape_id(struct random *random, enum list_shape shape, size_t i, size_t count)
{
    switch (shape) {
    case SHAPE_RANDOM:
        return (pgno_t)random_next(random);
    case SHAPE_NARROW:
        return 1000000 + (pgno_t)random_below(random, count);
    case SHAPE_FEW_VALUES:
        return (pgno_t)random_below(random, 3) << 5 * sizeof(pgno_t);
    case SHAPE_EQUAL:
        return 5;
    case SHAPE_ASCENDING:
        return 3 + i;
    case SHAPE_DESCENDING:
        return 2 * count - i;
    case SHAPE_ALMOST_ASCENDING:
        return i == count / 2 ? 0 : 3 + i;
    case SHAPE_ORGAN_PIPE:
        return i < count / 2 ? i : count - i;
    case SHAPE_SORTED_PIECES:
        return (i % 37) * 1000 + i / 37;
    case SHAPE_ONE_BIT_EACH:
        return (pgno_t)1 << random_below(random, 8 * sizeof(pgno_t));
    case SHAPE_ONE_FAR_OFF:
        return i == 0 ? PGNO_NONE - 1 : (pgno_t)random_below(random, 100000);
    default:
        abort();
    }
}

static int ids_compare_descending(const void *left, const void *right)
{
    pgno_t a = *(const pgno_t *)left, b = *(const pgno_t *)right;

    return (a < b) - (a > b);
}

static void shape_make(struct page_list *list, struct random *random, enum list_shape shape, size_t count)
{
    size_t i;

    list->count = 0;
    for (i = 0; i < count; i++)
        must_succeed(page_list_add(list, shape_id(random, shape, i, count)));
}

TEST(list_sort_equals_a_reference_on_all_shapes)
{
    static const size_t counts[] = { 0, 1, 2, 3, 5, 31, 32, 33, 34, 100, 255, 256, 257, 1000, 30000 };
    struct random random = test_begin();
    struct page_list list = { 0 }, expected = { 0 };
    unsigned shape;
    size_t i;

    for (shape = 0; shape < SHAPES; shape++) {
        for (i = 0; i < sizeof counts / sizeof *counts; i++) {
            shape_make(&list, &random, shape, counts[i]);
            expected.count = 0;
            must_succeed(page_list_append(&expected, &list));
            if (counts[i] > 0)
                qsort(expected.ids, expected.count, sizeof(pgno_t), ids_compare_descending);
            allocations_left = 0;
            page_list_sort(&list);
            CHECK_EQ(allocations_refused, 0);
            allocations_left = ALLOCATIONS_UNLIMITED;
            CHECK_EQ(list.count, counts[i]);
            ids_must_equal(list.ids, expected.ids, counts[i]);
        }
    }
    page_list_free(&list);
    page_list_free(&expected);
}

/* A number is looked at and moved once for each of its bytes at most, and then put into place among at most
 * INSERTION_MAX others. */
TEST(list_sort_takes_a_linear_number_of_steps)
{
    static const size_t counts[] = { 1000, 30000, 300000 };
    struct random random = test_begin();
    struct page_list list = { 0 };
    unsigned shape;
    size_t i;

    for (shape = 0; shape < SHAPES; shape++) {
        for (i = 0; i < sizeof counts / sizeof *counts; i++) {
            shape_make(&list, &random, shape, counts[i]);
            steps = 0;
            page_list_sort(&list);
            if (steps > counts[i] * (2 * sizeof(pgno_t) + INSERTION_MAX / 2))
                test_fail(__FILE__, __LINE__, "shape %u: %zu steps for %zu numbers", shape, steps, counts[i]);
            if (shape == SHAPE_EQUAL || shape == SHAPE_ASCENDING || shape == SHAPE_DESCENDING)
                CHECK_EQ(steps, 0);
        }
    }
    page_list_free(&list);
}

TEST(list_is_strict_only_if_every_number_exceeds_the_next)
{
    static const struct {
        size_t count;
        pgno_t ids[4];
        bool strict;
    } cases[] = {
        { 0, { 0 }, true },
        { 1, { 0 }, true },
        { 2, { 2, 1 }, true },
        { 2, { 1, 1 }, false },
        { 2, { 1, 2 }, false },
        { 4, { 9, 8, 5, 0 }, true },
        { 4, { 9, 8, 5, 5 }, false },
        { 4, { 9, 9, 5, 4 }, false },
        { 4, { PGNO_NONE, 8, 5, 6 }, false },
    };
    size_t i, j;

    test_begin();
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct page_list list = { 0 };

        for (j = 0; j < cases[i].count; j++)
            must_succeed(page_list_add(&list, cases[i].ids[j]));
        if (page_list_is_strict(&list) != cases[i].strict)
            test_fail(__FILE__, __LINE__, "case %zu is not judged rightly", i);
        page_list_free(&list);
    }
}

/* ---- tables --------------------------------------------------------------------------------------------------- */

/* Sets of page numbers: the i-th of each. */
enum { KEY_SETS = 9 };

static pgno_t key_of(unsigned set, size_t i)
{
    struct random random = { i };

    switch (set) {
    case 0:
        return i;
    case 1:
        return PGNO_NONE - i;
    case 2:
        return i * 2;
    case 3:
        return i * 4096;
    case 4:
        return (pgno_t)i << 4 * sizeof(pgno_t);
    case 5:
        return i * 987; /* Fibonacci numbers: what multiplicative hashing likes least */
    case 6:
        return i * 46368;
    case 7:
        return (i / 100) * 100000 + i % 100;
    default:
        return (pgno_t)random_next(&random);
    }
}

/* Values are pointers into this; nothing is stored there. */
enum { MODEL_KEYS = 1500 };
static char value_space[MODEL_KEYS + 1];

struct table_model {
    void *values[MODEL_KEYS];
    size_t count;
};

static void table_must_equal(const struct page_table *table, const struct table_model *model, unsigned set)
{
    size_t iterator = 0, count = 0, i;
    pgno_t pgno;
    void *value;

    CHECK(page_table_is_valid(table));
    CHECK_EQ(table->count, model->count);
    for (i = 0; i < MODEL_KEYS; i++)
        CHECK(page_table_find(table, key_of(set, i)) == model->values[i]);
    while (page_table_next(table, &iterator, &pgno, &value)) {
        CHECK(page_table_find(table, pgno) == value);
        count++;
    }
    CHECK_EQ(count, model->count);
    CHECK(!page_table_next(table, &iterator, &pgno, &value));
}

/* One random operation on table and model; memory may be short. */
static void table_step(struct random *random, struct page_table *table, struct table_model *model, unsigned set)
{
    size_t i = (size_t)random_below(random, MODEL_KEYS);
    void *value = &value_space[1 + random_below(random, MODEL_KEYS)];
    pgno_t pgno = key_of(set, i);
    size_t refused = allocations_refused;
    int rc;

    CHECK(page_table_find(table, pgno) == model->values[i]);
    if (random_one_in(random, 4)) {
        CHECK(page_table_remove(table, pgno) == model->values[i]);
        model->count -= model->values[i] != NULL;
        model->values[i] = NULL;
    } else if (model->values[i] != NULL) {
        page_table_set(table, pgno, value);
        model->values[i] = value;
    } else {
        if (random_one_in(random, 4))
            allocations_left = 0;
        rc = page_table_insert(table, pgno, value);
        allocations_left = ALLOCATIONS_UNLIMITED;
        CHECK_EQ(rc, allocations_refused > refused ? ENOMEM : 0);
        if (rc == 0) {
            model->values[i] = value;
            model->count++;
        }
    }
    CHECK(page_table_find(table, pgno) == model->values[i]);
    CHECK_EQ(table->count, model->count);
}

TEST(table_equals_a_model_through_random_histories)
{
    enum { STEPS = 20000, CHECK_EVERY = 499 };
    struct random random = test_begin();
    unsigned set;
    size_t i;

    for (set = 0; set < KEY_SETS; set++) {
        struct page_table table = { 0 };
        struct table_model model = { { NULL }, 0 };

        for (i = 0; i < (size_t)STEPS * test_scale(); i++) {
            table_step(&random, &table, &model, set);
            if (i % CHECK_EVERY == 0)
                table_must_equal(&table, &model, set);
            if (random_one_in(&random, 3000)) {
                page_table_clear(&table);
                memset(&model, 0, sizeof model);
            }
        }
        table_must_equal(&table, &model, set);
        for (i = 0; i < MODEL_KEYS; i++)
            CHECK(page_table_remove(&table, key_of(set, i)) == model.values[i]);
        CHECK_EQ(table.count, 0);
        CHECK(page_table_is_valid(&table));
        page_table_free(&table);
    }
    CHECK(allocations_refused > 0);
    CHECK_EQ(blocks_alive, 0);
}

/* Numbers that all belong near the end of a smallest table, so that they go on at its beginning. */
static void wrapping_keys_find(pgno_t *keys, size_t count)
{
    struct page_table table = { NULL, TABLE_SLOTS_MIN - 1, 0 };
    size_t found = 0;
    pgno_t pgno;

    for (pgno = 2; found < count; pgno++) {
        if (page_table_home(&table, pgno) >= TABLE_SLOTS_MIN - 1 - found / 2)
            keys[found++] = pgno;
    }
}

static void wrapping_keys_remove(const pgno_t *keys, const unsigned *order, size_t count)
{
    struct page_table table = { 0 };
    size_t i, j;

    for (i = 0; i < count; i++)
        must_succeed(page_table_insert(&table, keys[i], &value_space[i]));
    CHECK_EQ(table.mask, TABLE_SLOTS_MIN - 1);
    for (i = 0; i < count; i++) {
        CHECK(page_table_remove(&table, keys[order[i]]) == &value_space[order[i]]);
        CHECK(page_table_is_valid(&table));
        for (j = 0; j < count; j++)
            CHECK(page_table_find(&table, keys[order[j]]) == (j > i ? &value_space[order[j]] : NULL));
    }
    page_table_free(&table);
}

TEST(table_removal_in_every_order_keeps_a_cluster_around_the_end)
{
    enum { KEYS = 7 };
    unsigned order[KEYS] = { 0, 1, 2, 3, 4, 5, 6 }, turns[KEYS] = { 0 }, i = 1, swapped;
    pgno_t keys[KEYS];

    test_begin();
    wrapping_keys_find(keys, KEYS);
    wrapping_keys_remove(keys, order, KEYS);
    /* Each exchange gives the next of the 7! orders. */
    while (i < KEYS) {
        if (turns[i] < i) {
            unsigned other = i % 2 == 0 ? 0 : turns[i];

            swapped = order[other];
            order[other] = order[i];
            order[i] = swapped;
            wrapping_keys_remove(keys, order, KEYS);
            turns[i]++;
            i = 1;
        } else {
            turns[i++] = 0;
        }
    }
    CHECK_EQ(blocks_alive, 0);
}

TEST(table_without_entries_owns_nothing_and_finds_nothing)
{
    struct page_table table = { 0 };
    size_t iterator = 0;
    pgno_t pgno;
    void *value;

    test_begin();
    allocations_left = 0;
    CHECK(page_table_is_valid(&table));
    CHECK(page_table_find(&table, 0) == NULL);
    CHECK(page_table_remove(&table, 0) == NULL);
    CHECK(!page_table_next(&table, &iterator, &pgno, &value));
    page_table_clear(&table);
    must_succeed(page_table_reserve(&table, 0));
    CHECK_EQ(steps, 0);
    CHECK_EQ(blocks_alive, 0);
    page_table_free(&table);
}

TEST(table_reserve_makes_inserting_safe)
{
    static const size_t rooms[] = { 1, 7, 8, 9, 100, 512, 513, 5000 };
    struct page_table table = { 0 };
    size_t i, j, key = 0;

    test_begin();
    for (i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        must_succeed(page_table_reserve(&table, rooms[i]));
        allocations_left = 0;
        for (j = 0; j < rooms[i]; j++)
            must_succeed(page_table_insert(&table, key++, value_space));
        allocations_left = ALLOCATIONS_UNLIMITED;
        CHECK(page_table_is_valid(&table));
    }
    CHECK_EQ(page_table_reserve(&table, SIZE_MAX), ENOMEM);
    CHECK_EQ(page_table_reserve(&table, SIZE_MAX / 2), ENOMEM);
    CHECK_EQ(table.count, key);
    page_table_free(&table);
    CHECK_EQ(blocks_alive, 0);
}

TEST(table_clear_keeps_little_memory_and_frees_much)
{
    struct page_table table = { 0 };
    size_t i;

    test_begin();
    for (i = 0; i < TABLE_SLOTS_KEPT / 2; i++)
        must_succeed(page_table_insert(&table, i, value_space));
    page_table_clear(&table);
    CHECK_EQ(table.count, 0);
    CHECK(page_table_is_valid(&table));
    allocations_left = 0;
    for (i = 0; i < TABLE_SLOTS_KEPT / 2; i++)
        must_succeed(page_table_insert(&table, 7 * i, value_space));
    CHECK_EQ(page_table_insert(&table, 1, value_space), ENOMEM);
    CHECK(page_table_find(&table, 1) == NULL);
    allocations_left = ALLOCATIONS_UNLIMITED;
    must_succeed(page_table_insert(&table, 1, value_space));
    page_table_clear(&table);
    CHECK_EQ(blocks_alive, 0);
    CHECK(page_table_is_valid(&table));
}

/* The mean over all numbers of a set; one search in a thousand may be long, all together may not. */
TEST(table_search_takes_few_steps_however_large)
{
    static const size_t counts[] = { 100, 10000, 262144 };
    unsigned set;
    size_t c, i;

    test_begin();
    for (set = 0; set < KEY_SETS; set++) {
        for (c = 0; c < sizeof counts / sizeof *counts; c++) {
            size_t count = counts[c], insert_steps, hit_steps;
            struct page_table table = { 0 };

            steps = 0;
            for (i = 0; i < count; i++)
                must_succeed(page_table_insert(&table, key_of(set, i), value_space));
            insert_steps = steps;
            steps = 0;
            for (i = 0; i < count; i++)
                CHECK(page_table_find(&table, key_of(set, i)) != NULL);
            hit_steps = steps;
            for (i = 0; i < count; i++)
                CHECK(page_table_find(&table, key_of(set, count + i)) == NULL);
            if (insert_steps > 4 * count || hit_steps > 3 * count || steps - hit_steps > 4 * count)
                test_fail(__FILE__, __LINE__, "set %u, %zu numbers: %zu steps to insert, %zu to find, %zu to miss", set,
                          count, insert_steps, hit_steps, steps - hit_steps);
            page_table_free(&table);
        }
    }
}

/* What the end of a child transaction does. In the order of the table itself, numbers come nearly sorted by home. */
TEST(table_takes_in_another_in_its_order_in_few_steps)
{
    static const size_t counts[] = { 140000, 180000, 200000, 230000, 250000, 260000 };
    size_t c, i, iterator;
    pgno_t pgno;
    void *value;

    test_begin();
    for (c = 0; c < sizeof counts / sizeof *counts; c++) {
        struct page_table from = { 0 }, to = { 0 };

        for (i = 0; i < counts[c]; i++)
            must_succeed(page_table_insert(&from, i, value_space));
        for (i = 0; i < 1000; i++)
            must_succeed(page_table_insert(&to, counts[c] + i, value_space));
        must_succeed(page_table_reserve(&to, from.count));
        steps = iterator = 0;
        while (page_table_next(&from, &iterator, &pgno, &value))
            must_succeed(page_table_insert(&to, pgno, value));
        CHECK_EQ(to.count, counts[c] + 1000);
        CHECK(steps <= 2 * counts[c]);
        page_table_free(&from);
        page_table_free(&to);
    }
}

TEST(table_check_notices_damage)
{
    struct page_table table = { 0 };
    struct page_table_slot *slot, kept;
    size_t i;

    test_begin();
    for (i = 0; i < 100; i++)
        must_succeed(page_table_insert(&table, i, value_space));
    CHECK(page_table_is_valid(&table));
    table.count++;
    CHECK(!page_table_is_valid(&table));
    table.count--;
    slot = table_slot(&table, 50);
    kept = *slot;
    slot->value = NULL;
    CHECK(!page_table_is_valid(&table));
    slot->value = kept.value;
    slot->pgno = 51;
    CHECK(!page_table_is_valid(&table));
    *slot = kept;
    table.mask--;
    CHECK(!page_table_is_valid(&table));
    table.mask++;
    CHECK(page_table_is_valid(&table));
    page_table_free(&table);
}

/* ---- runs: against a map of pages ------------------------------------------------------------------------------ */

/* One byte for each page: is it free? */
struct page_map {
    unsigned char *is_free;
    size_t size;
};

/* Where the run of free pages that begins at `first` ends. */
static size_t map_run_end(const struct page_map *map, size_t first)
{
    while (first < map->size && map->is_free[first])
        first++;
    return first;
}

static size_t map_next_run(const struct page_map *map, size_t from)
{
    while (from < map->size && !map->is_free[from])
        from++;
    return from;
}

/* Length of the shortest run of at least n pages, and of the longest run of all; 0: there is none. */
static size_t map_shortest_fit(const struct page_map *map, size_t n, size_t *longest)
{
    size_t best = 0, first, end;

    *longest = 0;
    for (first = map_next_run(map, 0); first < map->size; first = map_next_run(map, end)) {
        end = map_run_end(map, first);
        if (end - first >= n && (best == 0 || end - first < best))
            best = end - first;
        if (end - first > *longest)
            *longest = end - first;
    }
    return best;
}

static void map_must_equal(const struct page_runs *runs, const struct page_map *map)
{
    struct page_list list = { 0 };
    size_t pages = 0, first, longest;

    CHECK(page_runs_is_valid(runs));
    map_shortest_fit(map, 1, &longest);
    CHECK_EQ(page_runs_longest(runs), longest);
    must_succeed(page_runs_list(runs, &list));
    CHECK(page_list_is_strict(&list));
    for (first = 0; first < list.count; first++)
        CHECK(list.ids[first] < map->size && map->is_free[list.ids[first]]);
    for (first = 0; first < map->size; first++)
        pages += map->is_free[first];
    CHECK_EQ(list.count, pages);
    CHECK_EQ(page_runs_count(runs), pages);
    page_list_free(&list);
}

/* Adds pages, of which some may be in the set: only where that must be noticed, or all are new. */
static void map_add(struct page_runs *runs, struct page_map *map, size_t first, size_t n)
{
    bool first_is_edge = map->is_free[first] && (first == 0 || !map->is_free[first - 1] || !map->is_free[first + 1]);
    size_t refused = allocations_refused, i;
    int rc;

    for (i = 0; i < n && !map->is_free[first + i]; i++)
        ;
    if (i < n && !first_is_edge)
        return;
    rc = page_runs_add(runs, first, n);
    if (i < n) {
        CHECK_EQ(rc, EEXIST);
        return;
    }
    CHECK_EQ(rc, allocations_refused > refused ? ENOMEM : 0);
    if (rc == 0)
        memset(map->is_free + first, 1, n);
}

static void map_take(struct page_runs *runs, struct page_map *map, size_t n)
{
    size_t longest, length = map_shortest_fit(map, n, &longest);
    pgno_t first = page_runs_take(runs, n);

    if (length == 0) {
        CHECK_EQ(first, PGNO_NONE);
        return;
    }
    CHECK(first < map->size);
    CHECK(first == 0 || !map->is_free[first - 1]);
    CHECK_EQ(map_run_end(map, first) - first, length);
    memset(map->is_free + first, 0, n);
}

static void map_take_last(struct page_runs *runs, struct page_map *map, size_t end)
{
    size_t first = end;

    if (end == map->size || !map->is_free[end]) {
        while (first > 0 && map->is_free[first - 1])
            first--;
    }
    CHECK_EQ(page_runs_take_last(runs, end), first < end ? first : PGNO_NONE);
    memset(map->is_free + first, 0, end - first);
}

static size_t length_random(struct random *random, size_t longest)
{
    size_t length = (size_t)1 << random_below(random, 14);

    switch (random_below(random, 4)) {
    case 0:
        length += (size_t)random_below(random, 3) - 1;
        break;
    case 1:
        length = 1 + (size_t)random_below(random, 4);
        break;
    default:
        length += (size_t)random_below(random, length);
    }
    return length == 0 ? 1 : length > longest ? longest : length;
}

static void map_step(struct random *random, struct page_runs *runs, struct page_map *map, bool fill)
{
    size_t first = (size_t)random_below(random, map->size), refused = allocations_refused;
    bool add = random_below(random, 10) < (fill ? 7 : 3);

    /* Memory ends before the first, or the second allocation, or not at all; only adding may notice. */
    if (random_one_in(random, 3))
        allocations_left = (size_t)random_below(random, 2);
    if (add) {
        map_add(runs, map, first, length_random(random, map->size - first));
    } else {
        if (random_one_in(random, 4))
            map_take_last(runs, map, first + 1);
        else
            map_take(runs, map, length_random(random, map->size));
        CHECK_EQ(allocations_refused, refused);
    }
    allocations_left = ALLOCATIONS_UNLIMITED;
}

static void map_history(struct random *random, size_t size, size_t step_count)
{
    struct page_map map = { calloc(size + 1, 1), size };
    struct page_runs runs = { 0 };
    bool fill = true;
    size_t i;

    CHECK(map.is_free != NULL);
    for (i = 0; i < step_count; i++) {
        map_step(random, &runs, &map, fill);
        if (i % 16 == 0)
            map_must_equal(&runs, &map);
        if (random_one_in(random, 100))
            fill = !fill;
        if (random_one_in(random, 2000)) {
            page_runs_clear(&runs);
            memset(map.is_free, 0, size);
        }
    }
    map_must_equal(&runs, &map);
    page_runs_free(&runs);
    CHECK_EQ(page_runs_count(&runs), 0);
    CHECK_EQ(blocks_alive, 0);
    free(map.is_free);
}

TEST(runs_equal_a_page_map_through_random_histories)
{
    struct random random = test_begin();
    size_t scale = test_scale();

    map_history(&random, 40, 20000 * scale);
    map_history(&random, 700, 10000 * scale);
    map_history(&random, 20000, 1500 * scale);
    CHECK(allocations_refused > 0);
}

/* ---- runs: against an array of extents ------------------------------------------------------------------------- */

/* Runs that never touch: run i has its own part of the number space. For lengths that no page map could hold. */
enum { EXTENTS = 400 };

struct extent_model {
    pgno_t first[EXTENTS];
    size_t length[EXTENTS]; /* 0: not in the set */
};

static const size_t extent_room = SIZE_MAX / EXTENTS;

static size_t extent_length_random(struct random *random)
{
    unsigned bits = (unsigned)random_below(random, 8 * sizeof(size_t) - 12);
    size_t length = (size_t)1 << bits;

    switch (random_below(random, 4)) {
    case 0:
        return length;
    case 1:
        return length | 1;
    case 2:
        return length | (length - 1);
    default:
        /* Many in few classes make deep trees. */
        length = (size_t)1 << (6 + bits % 3 * 7);
        return length + (size_t)random_below(random, length);
    }
}

static void extents_take(struct page_runs *runs, struct extent_model *model, size_t n)
{
    size_t best = 0, i;
    pgno_t first = page_runs_take(runs, n);

    for (i = 0; i < EXTENTS; i++) {
        if (model->length[i] >= n && (best == 0 || model->length[i] < best))
            best = model->length[i];
    }
    if (best == 0) {
        CHECK_EQ(first, PGNO_NONE);
        return;
    }
    i = first / extent_room;
    CHECK(i < EXTENTS);
    CHECK_EQ(model->first[i], first);
    CHECK_EQ(model->length[i], best);
    model->first[i] += n;
    model->length[i] -= n;
}

TEST(runs_of_any_length_are_fitted_best)
{
    enum { STEPS = 40000 };
    struct random random = test_begin();
    struct page_runs runs = { 0 };
    struct extent_model *model = calloc(1, sizeof *model);
    size_t step, i, longest, pages;
    bool fill = true;

    CHECK(model != NULL);
    for (step = 0; step < (size_t)STEPS * test_scale(); step++) {
        i = (size_t)random_below(&random, EXTENTS);
        if (random_below(&random, 10) >= (fill ? 7 : 3)) {
            extents_take(&runs, model, extent_length_random(&random));
        } else if (model->length[i] == 0) {
            model->first[i] = i * extent_room;
            model->length[i] = extent_length_random(&random);
            must_succeed(page_runs_add(&runs, model->first[i], model->length[i]));
        } else if (random_one_in(&random, 4)) {
            CHECK_EQ(page_runs_take_last(&runs, model->first[i] + model->length[i]), model->first[i]);
            model->length[i] = 0;
        }
        if (random_one_in(&random, 1000))
            fill = !fill;
        if (step % 64 == 0) {
            CHECK(page_runs_is_valid(&runs));
            longest = pages = 0;
            for (i = 0; i < EXTENTS; i++) {
                pages += model->length[i];
                longest = model->length[i] > longest ? model->length[i] : longest;
            }
            CHECK_EQ(page_runs_longest(&runs), longest);
            CHECK_EQ(page_runs_count(&runs), pages);
        }
    }
    page_runs_free(&runs);
    CHECK_EQ(blocks_alive, 0);
    free(model);
}

/* ---- runs: single properties ----------------------------------------------------------------------------------- */

TEST(runs_that_touch_become_one)
{
    static const struct {
        pgno_t first[3];
        size_t n[3];
    } cases[] = {
        { { 10, 11, 12 }, { 1, 1, 1 } },
        { { 12, 11, 10 }, { 1, 1, 1 } },
        { { 10, 12, 11 }, { 1, 1, 1 } },
        { { 10, 20, 15 }, { 5, 100, 5 } },
        { { 20, 10, 15 }, { 1, 5, 5 } },
        { { 0, 2, 1 }, { 1, 70, 1 } },
        { { PGNO_NONE - 1, PGNO_NONE - 9, PGNO_NONE - 2 }, { 1, 7, 1 } },
    };
    size_t i, j;

    test_begin();
    for (i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct page_runs runs = { 0 };
        pgno_t first = PGNO_NONE;
        size_t pages = 0;

        for (j = 0; j < 3; j++) {
            must_succeed(page_runs_add(&runs, cases[i].first[j], cases[i].n[j]));
            CHECK(page_runs_is_valid(&runs));
            pages += cases[i].n[j];
            first = cases[i].first[j] < first ? cases[i].first[j] : first;
        }
        CHECK_EQ(page_runs_longest(&runs), pages);
        CHECK_EQ(page_runs_take(&runs, pages + 1), PGNO_NONE);
        CHECK_EQ(page_runs_take(&runs, pages), first);
        CHECK_EQ(page_runs_count(&runs), 0);
        CHECK_EQ(page_runs_longest(&runs), 0);
        page_runs_free(&runs);
    }
    CHECK_EQ(blocks_alive, 0);
}

TEST(runs_refuse_pages_seen_to_be_there)
{
    static const struct {
        pgno_t first;
        size_t n;
    } refused[] = {
        { 10, 1 },  /* a run's first page */
        { 19, 1 },  /* a run's last page */
        { 10, 10 }, /* a whole run */
        { 5, 6 },   /* ends at a first page */
        { 19, 5 },  /* begins at a last page */
        { 30, 1 },  /* a run of one page */
        { 30, 4 },
        { 25, 6 },
        { 11, 3 },  /* begins behind a first page, inside */
        { 15, 4 },  /* ends before a last page, inside */
    };
    struct page_runs runs = { 0 };
    size_t i;

    test_begin();
    must_succeed(page_runs_add(&runs, 10, 10));
    must_succeed(page_runs_add(&runs, 30, 1));
    for (i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (page_runs_add(&runs, refused[i].first, refused[i].n) != EEXIST)
            test_fail(__FILE__, __LINE__, "case %zu is not refused", i);
        CHECK(page_runs_is_valid(&runs));
        CHECK_EQ(page_runs_count(&runs), 11);
    }
    page_runs_free(&runs);
}

TEST(runs_are_taken_from_the_low_end_of_the_shortest)
{
    struct page_runs runs = { 0 };

    test_begin();
    must_succeed(page_runs_add(&runs, 1000, 300));
    must_succeed(page_runs_add(&runs, 5000, 70));
    must_succeed(page_runs_add(&runs, 7000, 5));
    must_succeed(page_runs_add(&runs, 8000, 2));
    CHECK_EQ(page_runs_take(&runs, 1), 8000);
    CHECK_EQ(page_runs_take(&runs, 1), 8001);
    CHECK_EQ(page_runs_take(&runs, 1), 7000);
    CHECK_EQ(page_runs_take(&runs, 4), 7001);
    CHECK_EQ(page_runs_take(&runs, 71), 1000);
    CHECK_EQ(page_runs_take(&runs, 64), 5000);
    CHECK_EQ(page_runs_take(&runs, 7), 1071);
    CHECK_EQ(page_runs_longest(&runs), 222);
    CHECK(page_runs_is_valid(&runs));
    page_runs_free(&runs);
}

TEST(runs_that_overlap_are_noticed_before_one_takes_the_edge_of_the_other)
{
    struct page_runs runs = { 0 };

    test_begin();
    must_succeed(page_runs_add(&runs, 10, 10));
    must_succeed(page_runs_add(&runs, 14, 2)); /* strictly inside: not seen yet */
    CHECK(!runs.overlapping);
    CHECK_EQ(page_runs_take(&runs, 4), PGNO_NONE); /* 14 is an edge already */
    CHECK(runs.overlapping);
    page_runs_clear(&runs);
    CHECK(!runs.overlapping);
    CHECK(page_runs_is_valid(&runs));
    page_runs_free(&runs);
}

/* A free-list record is sorted descending; its single pages are then given out ascending, as they lie in the file. */
TEST(runs_of_equal_length_are_taken_in_reverse)
{
    enum { COUNT = 500 };
    struct page_runs runs = { 0 };
    size_t i;

    test_begin();
    for (i = COUNT; i > 0; i--)
        must_succeed(page_runs_add(&runs, 2 * (i - 1) + 100, 1));
    /* That the oldest ones are gone, or any others, changes nothing for the rest. */
    for (i = COUNT - 10; i < COUNT; i++)
        CHECK(page_runs_take_last(&runs, 2 * i + 101) != PGNO_NONE);
    CHECK_EQ(page_runs_take_last(&runs, 2 * 77 + 101), 2 * 77 + 100);
    for (i = 0; i < COUNT - 10; i++) {
        if (i != 77)
            CHECK_EQ(page_runs_take(&runs, 1), 2 * i + 100);
    }
    CHECK_EQ(page_runs_count(&runs), 0);
    page_runs_free(&runs);
}

TEST(runs_give_back_what_ends_at_a_page)
{
    struct page_runs runs = { 0 };

    test_begin();
    CHECK_EQ(page_runs_take_last(&runs, 0), PGNO_NONE);
    CHECK_EQ(page_runs_take_last(&runs, 10), PGNO_NONE);
    must_succeed(page_runs_add(&runs, 10, 1));
    must_succeed(page_runs_add(&runs, 20, 80));
    must_succeed(page_runs_add(&runs, 0, 3));
    CHECK_EQ(page_runs_take_last(&runs, 21), PGNO_NONE);
    CHECK_EQ(page_runs_take_last(&runs, 50), PGNO_NONE);
    CHECK_EQ(page_runs_take_last(&runs, 101), PGNO_NONE);
    CHECK_EQ(page_runs_take_last(&runs, 100), 20);
    CHECK_EQ(page_runs_take_last(&runs, 100), PGNO_NONE);
    CHECK_EQ(page_runs_take_last(&runs, 11), 10);
    CHECK_EQ(page_runs_take_last(&runs, 3), 0);
    CHECK_EQ(page_runs_count(&runs), 0);
    CHECK(page_runs_is_valid(&runs));
    page_runs_free(&runs);
}

TEST(runs_list_is_appended_descending_or_not_at_all)
{
    static const pgno_t expected[] = { 7, 203, 202, 201, 200, 50, 12, 11, 10, 3 };
    struct page_runs runs = { 0 };
    struct page_list list = { 0 };

    test_begin();
    must_succeed(page_runs_list(&runs, &list));
    CHECK_EQ(list.count, 0);
    must_succeed(page_runs_add(&runs, 50, 1));
    must_succeed(page_runs_add(&runs, 10, 3));
    must_succeed(page_runs_add(&runs, 200, 4));
    must_succeed(page_runs_add(&runs, 3, 1));
    allocations_left = 0;
    CHECK_EQ(page_runs_list(&runs, &list), ENOMEM);
    CHECK_EQ(list.count, 0);
    allocations_left = ALLOCATIONS_UNLIMITED;
    must_succeed(page_list_add(&list, 7));
    must_succeed(page_runs_list(&runs, &list));
    CHECK_EQ(list.count, sizeof expected / sizeof *expected);
    ids_must_equal(list.ids, expected, list.count);
    CHECK_EQ(page_runs_count(&runs), 9);
    page_list_free(&list);
    page_runs_free(&runs);
    CHECK_EQ(blocks_alive, 0);
}

TEST(runs_may_be_moved)
{
    struct page_runs runs = { 0 }, moved;
    size_t i;

    test_begin();
    for (i = 0; i < 200; i++)
        must_succeed(page_runs_add(&runs, i * 1000, 1 + i * 3 % 500));
    moved = runs;
    memset(&runs, 0xee, sizeof runs);
    CHECK(page_runs_is_valid(&moved));
    for (i = 0; i < 100; i++)
        CHECK(page_runs_take(&moved, 60 + i % 20) != PGNO_NONE);
    CHECK(page_runs_is_valid(&moved));
    page_runs_free(&moved);
    CHECK_EQ(blocks_alive, 0);
}

TEST(runs_clear_keeps_little_memory_and_frees_much)
{
    struct page_runs runs = { 0 };
    size_t i;

    test_begin();
    for (i = 0; i < 20000; i++)
        must_succeed(page_runs_add(&runs, i * 2, 1));
    CHECK(page_runs_is_valid(&runs));
    page_runs_clear(&runs);
    CHECK_EQ(page_runs_count(&runs), 0);
    CHECK(page_runs_is_valid(&runs));
    CHECK_EQ(blocks_alive, 1);
    for (i = 0; i < SLAB_RUNS_MIN; i++)
        must_succeed(page_runs_add(&runs, i * 2, 1));
    page_runs_clear(&runs);
    allocations_left = 0;
    for (i = 0; i < SLAB_RUNS_MIN; i++)
        must_succeed(page_runs_add(&runs, i * 2, 1));
    CHECK_EQ(page_runs_add(&runs, 5000, 1), ENOMEM);
    CHECK_EQ(page_runs_count(&runs), SLAB_RUNS_MIN);
    CHECK(page_runs_is_valid(&runs));
    page_runs_free(&runs);
    CHECK_EQ(blocks_alive, 0);
}

TEST(runs_are_unchanged_at_each_refusal_of_memory)
{
    enum { COUNT = 3000 };
    struct page_runs runs = { 0 };
    size_t i, pages = 0, allowed;

    test_begin();
    for (i = 0; i < COUNT; i++) {
        pgno_t first = i * 200;
        size_t n = 1 + i % 150;
        int rc = ENOMEM;

        /* Until there is memory enough, one allocation more in each attempt. */
        for (allowed = 0; rc == ENOMEM; allowed++) {
            CHECK(allowed <= 2);
            CHECK_EQ(page_runs_count(&runs), pages);
            allocations_left = allowed;
            rc = page_runs_add(&runs, first, n);
            if (rc == ENOMEM) {
                CHECK(page_runs_is_valid(&runs));
                CHECK(page_table_find(&runs.edges, first) == NULL);
            }
        }
        must_succeed(rc);
        pages += n;
        CHECK_EQ(page_runs_count(&runs), pages);
    }
    CHECK(allocations_refused > 10);
    CHECK(page_runs_is_valid(&runs));
    page_runs_free(&runs);
    CHECK_EQ(blocks_alive, 0);
}

static void children_swap(struct page_run *node)
{
    struct page_run *child = node->child[0];

    node->child[0] = node->child[1];
    node->child[1] = child;
}

TEST(runs_check_notices_damage)
{
    struct page_runs runs = { 0 };
    struct page_run *run, *top;
    size_t i;

    test_begin();
    for (i = 0; i < 50; i++)
        must_succeed(page_runs_add(&runs, i * 1000, 64 + i / 2));
    CHECK(page_runs_is_valid(&runs));
#define DAMAGE(change, repair) \
    do { \
        change; \
        CHECK(!page_runs_is_valid(&runs)); \
        repair; \
        CHECK(page_runs_is_valid(&runs)); \
    } while (0)
    run = page_table_find(&runs.edges, 20000);
    CHECK(run != NULL && run->parent != NULL);
    CHECK(run->next != run && run->next->next == run);
    top = runs.trees[64];
    CHECK(top->child[0] != NULL);
    DAMAGE(runs.pages++, runs.pages--);
    DAMAGE(runs.used[0] ^= 2, runs.used[0] ^= 2);
    DAMAGE(runs.used[1] ^= 1, runs.used[1] ^= 1);
    DAMAGE(run->first--, run->first++);
    DAMAGE(run->length++, run->length--);
    DAMAGE(runs.trees[64] = top->child[0], runs.trees[64] = top);
    DAMAGE(runs.slab_used++, runs.slab_used--);
    DAMAGE(runs.trees[0] = run, runs.trees[0] = NULL);
    DAMAGE(run->next->parent = run, run->next->parent = NULL);
    DAMAGE(run->next->child[1] = run, run->next->child[1] = NULL);
    DAMAGE(run->previous = run, run->previous = run->next);
    DAMAGE(runs.edges.count--, runs.edges.count++);
    DAMAGE(top->child[0]->parent = NULL, top->child[0]->parent = top);
    DAMAGE(children_swap(top), children_swap(top));
#undef DAMAGE
    page_runs_free(&runs);
}

/* ---- runs: steps ----------------------------------------------------------------------------------------------- */

/* One operation: a few searches in the table, whose mean the table's own test bounds, and ways down a tree. */
enum { STEPS_MEAN_MAX = 60, STEPS_MAX = 600 };

/* Many runs of 64 to 127 pages, but none of 110 to 119. */
static void fragments_make(struct page_runs *runs, size_t count)
{
    size_t i, length;

    for (i = 0; i < count; i++) {
        length = 64 + i * 7 % 54;
        must_succeed(page_runs_add(runs, i * 1000, length < 110 ? length : length + 10));
    }
}

static size_t steps_of_take(struct page_runs *runs, size_t n, pgno_t *first)
{
    size_t before = steps;

    *first = page_runs_take(runs, n);
    return steps - before;
}

TEST(runs_take_few_steps_however_many)
{
    static const size_t counts[] = { 100, 10000, 150000 };
    enum { ROUNDS = 5000 };
    size_t c, i, sum;
    pgno_t first;

    test_begin();
    for (c = 0; c < sizeof counts / sizeof *counts; c++) {
        struct page_runs runs = { 0 };
        size_t count = counts[c];

        fragments_make(&runs, count);
        /* What is not there is not looked for again and again. */
        CHECK(steps_of_take(&runs, 128, &first) <= STEPS_MAX);
        CHECK_EQ(first, PGNO_NONE);
        /* A value that comes and goes among runs that are all too short, or all too long. */
        for (i = sum = 0; i < ROUNDS; i++) {
            pgno_t place = (count + i) * 1000;
            size_t n = 110 + i % 10, used;

            steps = 0;
            must_succeed(page_runs_add(&runs, place, n));
            used = steps + steps_of_take(&runs, n, &first);
            CHECK_EQ(first, place);
            CHECK(used <= STEPS_MAX);
            sum += used;
            steps = 0;
            CHECK(steps_of_take(&runs, 500, &first) <= STEPS_MAX);
            CHECK_EQ(first, PGNO_NONE);
        }
        if (sum > (size_t)ROUNDS * STEPS_MEAN_MAX)
            test_fail(__FILE__, __LINE__, "%zu runs: %zu steps in %d rounds", count, sum, ROUNDS);
        /* Single pages, until all is gone. */
        steps = 0;
        for (sum = page_runs_count(&runs); sum > 0; sum--)
            CHECK(page_runs_take(&runs, 1) != PGNO_NONE);
        CHECK(steps <= count * 90 * STEPS_MEAN_MAX);
        CHECK_EQ(page_runs_take(&runs, 1), PGNO_NONE);
        page_runs_free(&runs);
    }
}

TEST(runs_are_added_in_few_steps_however_many)
{
    static const size_t counts[] = { 1000, 200000 };
    size_t c, i;

    test_begin();
    for (c = 0; c < sizeof counts / sizeof *counts; c++) {
        struct page_runs runs = { 0 };

        steps = 0;
        /* Every second page, then the pages between them. */
        for (i = counts[c]; i > 0; i--)
            must_succeed(page_runs_add(&runs, 2 * i, 1));
        for (i = counts[c]; i > 0; i--)
            must_succeed(page_runs_add(&runs, 2 * i + 1, 1));
        CHECK_EQ(page_runs_longest(&runs), 2 * counts[c]);
        CHECK(steps <= 2 * counts[c] * STEPS_MEAN_MAX);
        page_runs_free(&runs);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(list_keeps_what_is_added_in_order),
        TEST_ENTRY(list_add_allocates_a_logarithmic_number_of_times),
        TEST_ENTRY(list_reserve_makes_adding_safe),
        TEST_ENTRY(list_is_unchanged_when_memory_is_refused),
        TEST_ENTRY(list_refuses_what_no_memory_can_hold),
        TEST_ENTRY(list_sort_equals_a_reference_on_all_shapes),
        TEST_ENTRY(list_sort_takes_a_linear_number_of_steps),
        TEST_ENTRY(list_is_strict_only_if_every_number_exceeds_the_next),
        TEST_ENTRY(table_equals_a_model_through_random_histories),
        TEST_ENTRY(table_removal_in_every_order_keeps_a_cluster_around_the_end),
        TEST_ENTRY(table_without_entries_owns_nothing_and_finds_nothing),
        TEST_ENTRY(table_reserve_makes_inserting_safe),
        TEST_ENTRY(table_clear_keeps_little_memory_and_frees_much),
        TEST_ENTRY(table_search_takes_few_steps_however_large),
        TEST_ENTRY(table_takes_in_another_in_its_order_in_few_steps),
        TEST_ENTRY(table_check_notices_damage),
        TEST_ENTRY(runs_equal_a_page_map_through_random_histories),
        TEST_ENTRY(runs_of_any_length_are_fitted_best),
        TEST_ENTRY(runs_that_touch_become_one),
        TEST_ENTRY(runs_refuse_pages_seen_to_be_there),
        TEST_ENTRY(runs_are_taken_from_the_low_end_of_the_shortest),
        TEST_ENTRY(runs_that_overlap_are_noticed_before_one_takes_the_edge_of_the_other),
        TEST_ENTRY(runs_of_equal_length_are_taken_in_reverse),
        TEST_ENTRY(runs_give_back_what_ends_at_a_page),
        TEST_ENTRY(runs_list_is_appended_descending_or_not_at_all),
        TEST_ENTRY(runs_may_be_moved),
        TEST_ENTRY(runs_clear_keeps_little_memory_and_frees_much),
        TEST_ENTRY(runs_are_unchanged_at_each_refusal_of_memory),
        TEST_ENTRY(runs_check_notices_damage),
        TEST_ENTRY(runs_take_few_steps_however_many),
        TEST_ENTRY(runs_are_added_in_few_steps_however_many),
    };

    return test_main(argc, argv, tests, TEST_COUNT(tests));
}
