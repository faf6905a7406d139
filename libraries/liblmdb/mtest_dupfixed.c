/* Fixed duplicates: values of one width stored without gaps, many at a time. */
#include "mtest_script.h"

enum { FIXED = MDB_DUPSORT | MDB_DUPFIXED, WIDTH_MAX = 511, COUNT_MAX = 40000 };

/* ==== One set of numbers =================================================
 * The values of the key "set", in a database with a key before it and one behind. A value is its number, the most
 * significant byte first, in the last bytes of the width. */

struct fixed_set {
    struct scene scene;
    size_t width;
    unsigned numbers_max;       /* how many numbers the width can tell apart, at most COUNT_MAX */
    unsigned char present[COUNT_MAX];
    unsigned count;
};

static void fixed_value(const struct fixed_set *set, unsigned number, unsigned char *bytes)
{
    size_t i;

    memset(bytes, 0, set->width);
    for (i = 0; i < 4 && i < set->width; i++)
        bytes[set->width - 1 - i] = (unsigned char)(number >> 8 * i);
}

/* Values first, first + step, ... one behind the other. To be freed. */
static unsigned char *fixed_values(const struct fixed_set *set, unsigned first, unsigned step, unsigned count)
{
    unsigned char *bytes = malloc(set->width * count + 1);
    unsigned i;

    CHECK(bytes != NULL);
    for (i = 0; i < count; i++)
        fixed_value(set, first + i * step, bytes + set->width * i);
    return bytes;
}

static struct fixed_set *fixed_open(size_t width, unsigned env_flags)
{
    static const char *neighbours[] = { "seta", "sett" };
    struct fixed_set *set = calloc(1, sizeof(*set));
    unsigned char bytes[WIDTH_MAX];
    size_t i;

    CHECK(set != NULL);
    set->width = width;
    set->numbers_max = width == 1 ? 256 : COUNT_MAX;
    scene_open(&set->scene, env_flags | MDB_NOSYNC, FIXED);
    for (i = 0; i < ARRAY_COUNT(neighbours); i++) {
        MDB_val key = val_text(neighbours[i]), data = val_of(bytes, width);

        fixed_value(set, 77, bytes);
        CHECK_OK(mdb_put(set->scene.txn, set->scene.dbi, &key, &data, 0));
    }
    return set;
}

static void fixed_close(struct fixed_set *set)
{
    scene_close(&set->scene);
    free(set);
}

static int fixed_put(struct fixed_set *set, unsigned number, unsigned flags)
{
    unsigned char bytes[WIDTH_MAX];
    MDB_val key = val_text("set"), data = val_of(bytes, set->width);
    int rc;

    fixed_value(set, number, bytes);
    test_note("width %zu: put %u into %u values", set->width, number, set->count);
    rc = mdb_put(set->scene.txn, set->scene.dbi, &key, &data, flags);
    if (rc == MDB_SUCCESS) {
        set->count += !set->present[number];
        set->present[number] = 1;
    }
    return rc;
}

static void fixed_del(struct fixed_set *set, unsigned number)
{
    unsigned char bytes[WIDTH_MAX];
    MDB_val key = val_text("set"), data = val_of(bytes, set->width);

    fixed_value(set, number, bytes);
    test_note("width %zu: delete %u of %u values", set->width, number, set->count);
    CHECK_RC(mdb_del(set->scene.txn, set->scene.dbi, &key, &data), set->present[number] ? MDB_SUCCESS : MDB_NOTFOUND);
    set->count -= set->present[number];
    set->present[number] = 0;
}

/* MDB_MULTIPLE with `count` values; *done is what data[1] said. */
static int fixed_multiple(struct fixed_set *set, const unsigned char *bytes, unsigned count, unsigned flags,
                          size_t *done)
{
    MDB_cursor *cursor = scene_cursor(&set->scene);
    MDB_val key = val_text("set"), data[2];
    int rc;

    data[0] = val_of(bytes, set->width);
    data[1] = (MDB_val){ count, NULL };
    rc = mdb_cursor_put(cursor, &key, data, MDB_MULTIPLE | flags);
    *done = data[1].mv_size;
    mdb_cursor_close(cursor);
    return rc;
}

static void fixed_note(struct fixed_set *set, unsigned first, unsigned step, unsigned count)
{
    unsigned i;

    for (i = 0; i < count; i++) {
        set->count += !set->present[first + i * step];
        set->present[first + i * step] = 1;
    }
}

/* Puts numbers first, first + step, ... at once; all must be there afterwards. */
static void fixed_put_many(struct fixed_set *set, unsigned first, unsigned step, unsigned count, unsigned flags)
{
    unsigned char *bytes = fixed_values(set, first, step, count);
    size_t done = 0;

    test_note("width %zu: put %u numbers from %u by %u into %u values", set->width, count, first, step, set->count);
    CHECK_OK(fixed_multiple(set, bytes, count, flags, &done));
    CHECK_EQ(done, count);
    fixed_note(set, first, step, count);
    free(bytes);
}

/* The values that there should be, in order. To be freed. */
static unsigned char *fixed_expected(const struct fixed_set *set)
{
    unsigned char *bytes = malloc(set->width * set->count + 1);
    unsigned i, at = 0;

    CHECK(bytes != NULL);
    for (i = 0; i < set->numbers_max; i++) {
        if (set->present[i])
            fixed_value(set, i, bytes + set->width * at++);
    }
    CHECK_EQ(at, set->count);
    return bytes;
}

/* Value by value. */
static void fixed_check_singly(const struct fixed_set *set, MDB_cursor *cursor, const unsigned char *expected)
{
    MDB_val key = val_text("set"), data;
    mdb_size_t count;
    unsigned i;

    CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_SET));
    CHECK_OK(mdb_cursor_count(cursor, &count));
    CHECK_EQ(count, set->count);
    for (i = 0; i < set->count; i++) {
        CHECK_VAL(&data, expected + set->width * i, set->width);
        CHECK_RC(mdb_cursor_get(cursor, NULL, &data, MDB_NEXT_DUP), i + 1 < set->count ? MDB_SUCCESS : MDB_NOTFOUND);
    }
    CHECK_OK(mdb_cursor_get(cursor, NULL, &data, MDB_LAST_DUP));
    for (i = set->count; i-- > 0;) {
        CHECK_VAL(&data, expected + set->width * i, set->width);
        CHECK_RC(mdb_cursor_get(cursor, NULL, &data, MDB_PREV_DUP), i > 0 ? MDB_SUCCESS : MDB_NOTFOUND);
    }
}

/* Pages of values, forward and backward. */
static void fixed_check_multiply(const struct fixed_set *set, MDB_cursor *cursor, const unsigned char *expected)
{
    MDB_val key = val_text("set"), data;
    size_t total = set->width * set->count, seen = 0;
    unsigned forward = 0, backward = 0;
    int rc;

    CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_SET));
    for (rc = mdb_cursor_get(cursor, &key, &data, MDB_GET_MULTIPLE); rc == MDB_SUCCESS;
         rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT_MULTIPLE)) {
        CHECK(data.mv_size > 0 && data.mv_size % set->width == 0 && seen + data.mv_size <= total);
        CHECK_VAL(&data, expected + seen, data.mv_size);
        seen += data.mv_size;
        forward++;
        CHECK_OK(mdb_cursor_get(cursor, NULL, &data, MDB_GET_CURRENT));
        CHECK_VAL(&data, expected + seen - set->width, set->width);
    }
    CHECK_RC(rc, MDB_NOTFOUND);
    CHECK_EQ(seen, total);

    CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_SET));
    CHECK_OK(mdb_cursor_get(cursor, NULL, &data, MDB_LAST_DUP));
    for (rc = mdb_cursor_get(cursor, &key, &data, MDB_GET_MULTIPLE); rc == MDB_SUCCESS;
         rc = mdb_cursor_get(cursor, &key, &data, MDB_PREV_MULTIPLE)) {
        CHECK(data.mv_size > 0 && data.mv_size % set->width == 0 && data.mv_size <= seen);
        seen -= data.mv_size;
        CHECK_VAL(&data, expected + seen, data.mv_size);
        backward++;
    }
    CHECK_RC(rc, MDB_NOTFOUND);
    CHECK_EQ(seen, 0);
    CHECK_EQ(backward, forward);
}

static void fixed_check(const struct fixed_set *set)
{
    unsigned char *expected = fixed_expected(set);
    unsigned char neighbour[WIDTH_MAX];
    MDB_cursor *cursor;
    MDB_val key = val_text("set"), data;

    CHECK_OK(mdb_cursor_open(set->scene.txn, set->scene.dbi, &cursor));
    if (set->count == 0) {
        CHECK_RC(mdb_cursor_get(cursor, &key, &data, MDB_SET), MDB_NOTFOUND);
    } else {
        fixed_check_singly(set, cursor, expected);
        fixed_check_multiply(set, cursor, expected);
    }
    mdb_cursor_close(cursor);
    CHECK_EQ(entries_count(set->scene.txn, set->scene.dbi), set->count + 2);
    fixed_value(set, 77, neighbour);
    key = val_text("seta");
    CHECK_OK(mdb_get(set->scene.txn, set->scene.dbi, &key, &data));
    CHECK_VAL(&data, neighbour, set->width);
    key = val_text("sett");
    CHECK_OK(mdb_get(set->scene.txn, set->scene.dbi, &key, &data));
    CHECK_VAL(&data, neighbour, set->width);
    free(expected);
}

/* ==== Widths ============================================================= */

static const size_t widths[] = { 1, 2, 3, 4, 5, 7, 8, 16, 31, 100, 189, 190 };

static void widths_grow_and_shrink(size_t width)
{
    struct fixed_set *set = fixed_open(width, 0);
    struct random random = { test_seed() };
    unsigned most = width == 1 ? 200 : width < 20 ? 1200 : 250, i;
    unsigned *order = numbers_shuffled(&random, most);

    for (i = 0; i < most; i++) {
        CHECK_OK(fixed_put(set, order[i], 0));
        if (i < 30 || i % 40 == 0)
            fixed_check(set);
        if (i % 100 == 50)
            scene_commit(&set->scene);
    }
    fixed_check(set);
    for (i = 0; i < most; i++) {
        fixed_del(set, order[most - 1 - i]);
        if (i > most - 30 || i % 40 == 0)
            fixed_check(set);
        if (i % 100 == 50)
            scene_commit(&set->scene);
    }
    fixed_check(set);
    free(order);
    fixed_close(set);
}

TEST(sets_of_every_width_grow_and_shrink)
{
    size_t i;

    for (i = 0; i < ARRAY_COUNT(widths); i++)
        widths_grow_and_shrink(widths[i]);
}

static size_t longest_width(void)
{
    char *dir = temp_dir_make();
    MDB_env *env = env_open_new(dir, 0, SCENE_MAP_SIZE, 0);
    size_t longest = (size_t)mdb_env_get_maxkeysize(env);

    mdb_env_close(env);
    temp_dir_remove(dir);
    return longest;
}

TEST(sets_of_the_longest_widths_grow_and_shrink)
{
    size_t longest = longest_width();

    widths_grow_and_shrink(longest);
    widths_grow_and_shrink(longest - 1);
}

TEST(value_of_another_width_is_refused_by_every_shape)
{
    static const unsigned counts[] = { 1, 2, 3, 10, 200, 3000 };
    size_t i, k;
    int committed;

    for (i = 0; i < ARRAY_COUNT(counts); i++) {
        for (committed = 0; committed < 2; committed++) {
            static const size_t others[] = { 0, 1, 3, 5, 8, 100 };
            struct fixed_set *set = fixed_open(4, 0);
            unsigned char bytes[128] = { 1 };
            MDB_cursor *cursor;

            fixed_put_many(set, 0, 2, counts[i], 0);
            if (committed)
                scene_commit(&set->scene);
            cursor = scene_cursor(&set->scene);
            for (k = 0; k < ARRAY_COUNT(others); k++) {
                MDB_val key = val_text("set"), data = val_of(bytes, others[k]), two[2];

                test_note("%u values of 4 bytes, one of %zu", counts[i], others[k]);
                CHECK_RC(mdb_put(set->scene.txn, set->scene.dbi, &key, &data, 0), MDB_BAD_VALSIZE);
                CHECK_RC(mdb_put(set->scene.txn, set->scene.dbi, &key, &data, MDB_NODUPDATA), MDB_BAD_VALSIZE);
                CHECK_RC(mdb_put(set->scene.txn, set->scene.dbi, &key, &data, MDB_APPENDDUP), MDB_BAD_VALSIZE);
                CHECK_RC(mdb_cursor_put(cursor, &key, &data, 0), MDB_BAD_VALSIZE);
                CHECK_RC(mdb_del(set->scene.txn, set->scene.dbi, &key, &data), MDB_BAD_VALSIZE);
                CHECK_RC(mdb_cursor_get(cursor, &key, &data, MDB_GET_BOTH), MDB_BAD_VALSIZE);
                CHECK_RC(mdb_cursor_get(cursor, &key, &data, MDB_GET_BOTH_RANGE), MDB_BAD_VALSIZE);
                two[0] = val_of(bytes, others[k]);
                two[1] = (MDB_val){ 1, NULL };
                CHECK_RC(mdb_cursor_put(cursor, &key, two, MDB_MULTIPLE), MDB_BAD_VALSIZE);
                CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_SET));
                data = val_of(bytes, others[k]);
                CHECK_RC(mdb_cursor_put(cursor, &key, &data, MDB_CURRENT), MDB_BAD_VALSIZE);
            }
            fixed_check(set);
            CHECK_OK(fixed_put(set, 1, 0));
            fixed_check(set);
            fixed_close(set);
        }
    }
}

TEST(values_longer_than_a_key_are_refused)
{
    size_t longest = longest_width();
    struct scene scene;
    unsigned char bytes[600] = { 0 };
    MDB_val key = val_text("k"), data = val_of(bytes, longest + 1);

    scene_open(&scene, 0, FIXED);
    CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, 0), MDB_BAD_VALSIZE);
    data = val_of(bytes, 0);
    CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, 0), MDB_BAD_VALSIZE);
    CHECK_CONTENTS(scene.txn, scene.dbi, "");
    scene_close(&scene);
}

TEST(integer_values_compare_as_integers)
{
    static const size_t integer_widths[] = { 4, 8 };
    size_t kind;

    for (kind = 0; kind < ARRAY_COUNT(integer_widths); kind++) {
        enum { COUNT = 3000 };
        struct scene scene;
        struct random random = { test_seed() };
        unsigned *order = numbers_shuffled(&random, COUNT), i;
        MDB_cursor *cursor;
        MDB_val key = val_text("k"), data;
        uint64_t number;

        scene_open(&scene, MDB_NOSYNC, FIXED | MDB_INTEGERDUP);
        for (i = 0; i < COUNT; i++) {
            number = (uint64_t)order[i] * 1001;
            data = val_of(&number, integer_widths[kind]);
            CHECK_OK(mdb_put(scene.txn, scene.dbi, &key, &data, 0));
            if (i == 0 || i == 1 || i == 20 || i == COUNT - 1) {
                data = val_of(&number, 12 - integer_widths[kind]);
                CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, &data, 0), MDB_BAD_VALSIZE);
            }
        }
        cursor = scene_cursor(&scene);
        for (i = 0; i < COUNT; i++) {
            number = (uint64_t)i * 1001;
            CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_NEXT));
            CHECK_VAL(&data, &number, integer_widths[kind]);
        }
        number = 500 * 1001 + 1;
        key = val_text("k");
        data = val_of(&number, integer_widths[kind]);
        CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_BOTH_RANGE));
        number = 501 * 1001;
        CHECK_VAL(&data, &number, integer_widths[kind]);
        free(order);
        scene_close(&scene);
    }
}

/* ==== MDB_MULTIPLE ======================================================= */

/* The shapes that a set may have before: absent, one value, sub-page, tree. */
static const unsigned shape_counts[] = { 0, 1, 2, 9, 60, 400, 5000 };

TEST(multiple_stores_all_values_into_every_shape)
{
    static const size_t some_widths[] = { 2, 3, 4, 31 };
    size_t i, k, w;
    int committed;

    for (w = 0; w < ARRAY_COUNT(some_widths); w++) {
        for (i = 0; i < ARRAY_COUNT(shape_counts); i++) {
            for (k = 1; k < ARRAY_COUNT(shape_counts); k++) {
                for (committed = 0; committed < 2; committed++) {
                    struct fixed_set *set = fixed_open(some_widths[w], 0);

                    if (shape_counts[i] > 0)
                        fixed_put_many(set, 3, 4, shape_counts[i], 0);
                    if (committed)
                        scene_commit(&set->scene);
                    /* Every third one of the new numbers is there already, as far as the old ones reach. */
                    fixed_put_many(set, 0, 3, shape_counts[k], 0);
                    fixed_check(set);
                    if (committed)
                        scene_commit(&set->scene);
                    fixed_put_many(set, 0, 3, shape_counts[k], 0);
                    fixed_check(set);
                    fixed_close(set);
                }
            }
        }
    }
}

TEST(multiple_takes_values_in_any_order)
{
    struct fixed_set *set = fixed_open(4, 0);
    struct random random = { test_seed() };
    unsigned *order = numbers_shuffled(&random, 3000), i;
    unsigned char *bytes = malloc(3000 * 4);
    size_t done;

    CHECK(bytes != NULL);
    for (i = 0; i < 3000; i++)
        fixed_value(set, order[i], bytes + 4 * i);
    CHECK_OK(fixed_multiple(set, bytes, 3000, 0, &done));
    CHECK_EQ(done, 3000);
    fixed_note(set, 0, 1, 3000);
    fixed_check(set);
    /* The same value many times is one. */
    for (i = 0; i < 3000; i++)
        fixed_value(set, 5000 + i % 7, bytes + 4 * i);
    CHECK_OK(fixed_multiple(set, bytes, 3000, 0, &done));
    CHECK_EQ(done, 3000);
    fixed_note(set, 5000, 1, 7);
    fixed_check(set);
    free(bytes);
    free(order);
    fixed_close(set);
}

TEST(multiple_of_no_values_stores_nothing)
{
    size_t i, done;

    for (i = 0; i < ARRAY_COUNT(shape_counts); i++) {
        struct fixed_set *set = fixed_open(4, 0);
        unsigned char *bytes = fixed_values(set, 17, 1, 10);

        if (shape_counts[i] > 0)
            fixed_put_many(set, 100, 1, shape_counts[i], 0);
        CHECK_OK(fixed_multiple(set, bytes, 0, 0, &done));
        CHECK_EQ(done, 0);
        CHECK_OK(fixed_multiple(set, bytes, 0, MDB_APPENDDUP, &done));
        CHECK_EQ(done, 0);
        fixed_check(set);
        free(bytes);
        fixed_close(set);
    }
}

TEST(multiple_with_nodupdata_stops_at_the_first_that_is_there)
{
    size_t i, done;
    int committed;

    for (i = 1; i < ARRAY_COUNT(shape_counts); i++) {
        for (committed = 0; committed < 2; committed++) {
            struct fixed_set *set = fixed_open(4, 0);
            unsigned char *bytes;

            fixed_put_many(set, 1000, 2, shape_counts[i], 0);
            if (committed)
                scene_commit(&set->scene);
            /* 997, 998, 999, then 1000, which is there. */
            bytes = fixed_values(set, 997, 1, 8);
            test_note("%u values", shape_counts[i]);
            CHECK_RC(fixed_multiple(set, bytes, 8, MDB_NODUPDATA, &done), MDB_KEYEXIST);
            CHECK_EQ(done, 3);
            fixed_note(set, 997, 1, 3);
            fixed_check(set);
            free(bytes);
            /* At once, and not at all. */
            bytes = fixed_values(set, 1000, 1, 3);
            CHECK_RC(fixed_multiple(set, bytes, 3, MDB_NODUPDATA, &done), MDB_KEYEXIST);
            CHECK_EQ(done, 0);
            free(bytes);
            fixed_put_many(set, 20000, 1, 500, MDB_NODUPDATA);
            fixed_check(set);
            scene_commit(&set->scene);
            fixed_check(set);
            fixed_close(set);
        }
    }
}

TEST(multiple_with_appenddup_stores_all_into_every_shape)
{
    size_t i, k;
    int committed;

    for (i = 0; i < ARRAY_COUNT(shape_counts); i++) {
        for (k = 1; k < ARRAY_COUNT(shape_counts); k++) {
            for (committed = 0; committed < 2; committed++) {
                struct fixed_set *set = fixed_open(4, 0);

                if (shape_counts[i] > 0)
                    fixed_put_many(set, 0, 1, shape_counts[i], MDB_APPENDDUP);
                if (committed)
                    scene_commit(&set->scene);
                fixed_put_many(set, shape_counts[i] + 5, 2, shape_counts[k], MDB_APPENDDUP);
                fixed_check(set);
                fixed_close(set);
            }
        }
    }
}

TEST(multiple_with_appenddup_stores_all_or_none)
{
    static const struct {
        unsigned numbers[6];
        const char *why;
    } cases[] = {
        { { 9000, 9001, 9003, 9002, 9004, 9005 }, "not ascending" },
        { { 9000, 9001, 9001, 9002, 9003, 9004 }, "one twice" },
        { { 9005, 9004, 9003, 9002, 9001, 9000 }, "descending" },
        { { 10, 9001, 9002, 9003, 9004, 9005 }, "begins before the last" },
        { { 8000, 9001, 9002, 9003, 9004, 9005 }, "begins at the last" },
        { { 9000, 9001, 9002, 9003, 9004, 9004 }, "the last one twice" },
    };
    size_t i, k, n, done;

    for (i = 0; i < ARRAY_COUNT(shape_counts); i++) {
        struct fixed_set *set = fixed_open(4, 0);

        if (shape_counts[i] > 1)
            fixed_put_many(set, 20, 1, shape_counts[i] - 1, 0);
        if (shape_counts[i] > 0)
            CHECK_OK(fixed_put(set, 8000, 0));
        scene_commit(&set->scene);
        for (k = 0; k < ARRAY_COUNT(cases); k++) {
            unsigned char bytes[6 * 4];

            if (shape_counts[i] == 0 && strncmp(cases[k].why, "begins", 6) == 0)
                continue;
            for (n = 0; n < 6; n++)
                fixed_value(set, cases[k].numbers[n], bytes + 4 * n);
            test_note("%u values, %s", shape_counts[i], cases[k].why);
            CHECK_RC(fixed_multiple(set, bytes, 6, MDB_APPENDDUP, &done), MDB_KEYEXIST);
            CHECK_EQ(done, 0);
            fixed_check(set);
        }
        fixed_put_many(set, 9000, 1, 6, MDB_APPENDDUP);
        fixed_check(set);
        scene_commit(&set->scene);
        fixed_check(set);
        fixed_close(set);
    }
}

TEST(appenddup_out_of_order_is_refused_by_every_shape)
{
    size_t i;

    for (i = 1; i < ARRAY_COUNT(shape_counts); i++) {
        struct fixed_set *set = fixed_open(4, 0);
        unsigned last = 10 + 2 * (shape_counts[i] - 1);

        fixed_put_many(set, 10, 2, shape_counts[i], MDB_APPENDDUP);
        CHECK_RC(fixed_put(set, last, MDB_APPENDDUP), MDB_KEYEXIST);
        CHECK_RC(fixed_put(set, last - 1, MDB_APPENDDUP), MDB_KEYEXIST);
        CHECK_RC(fixed_put(set, 0, MDB_APPENDDUP), MDB_KEYEXIST);
        fixed_check(set);
        CHECK_OK(fixed_put(set, last + 1, MDB_APPENDDUP));
        fixed_check(set);
        fixed_close(set);
    }
}

TEST(forty_thousand_values_go_in_at_once)
{
    static const unsigned env_flags[] = { 0, MDB_WRITEMAP };
    static const unsigned put_flags[] = { 0, MDB_APPENDDUP, MDB_NODUPDATA };
    size_t kind, way;

    for (kind = 0; kind < ARRAY_COUNT(env_flags); kind++) {
        for (way = 0; way < ARRAY_COUNT(put_flags); way++) {
            struct fixed_set *set = fixed_open(8, env_flags[kind]);

            fixed_put_many(set, 0, 1, COUNT_MAX, put_flags[way]);
            fixed_check(set);
            scene_commit(&set->scene);
            fixed_check(set);
            fixed_close(set);
        }
    }
}

TEST(multiple_without_dupfixed_is_incompatible)
{
    static const unsigned kinds[] = { 0, MDB_DUPSORT, MDB_DUPFIXED, MDB_INTEGERKEY };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(kinds); i++) {
        struct scene scene;
        MDB_cursor *cursor;
        MDB_val key = val_text("12345678"), data[2];

        scene_open(&scene, MDB_NOSYNC, kinds[i]);
        cursor = scene_cursor(&scene);
        data[0] = val_of("abcdefgh", 4);
        data[1] = (MDB_val){ 2, NULL };
        test_note("flags %#x", kinds[i]);
        CHECK_RC(mdb_cursor_put(cursor, &key, data, MDB_MULTIPLE), MDB_INCOMPATIBLE);
        CHECK_EQ(data[1].mv_size, 0);
        CHECK_RC(mdb_put(scene.txn, scene.dbi, &key, data, MDB_MULTIPLE), EINVAL);
        CHECK_CONTENTS(scene.txn, scene.dbi, "");
        CHECK_OK(put_text(scene.txn, scene.dbi, "12345678", "x", 0));
        scene_close(&scene);
    }
}

TEST(cursor_stands_on_the_last_value_that_multiple_stored)
{
    static const unsigned counts[] = { 1, 3, 100, 4000 };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(counts); i++) {
        struct fixed_set *set = fixed_open(4, 0);
        unsigned char *bytes = fixed_values(set, 0, 1, counts[i]);
        MDB_cursor *cursor = scene_cursor(&set->scene);
        MDB_val key = val_text("set"), data[2], found;
        mdb_size_t count;

        data[0] = val_of(bytes, 4);
        data[1] = (MDB_val){ counts[i], NULL };
        CHECK_OK(mdb_cursor_put(cursor, &key, data, MDB_MULTIPLE));
        CHECK_OK(mdb_cursor_get(cursor, &key, &found, MDB_GET_CURRENT));
        CHECK_VAL(&found, bytes + 4 * (counts[i] - 1), 4);
        CHECK_OK(mdb_cursor_count(cursor, &count));
        CHECK_EQ(count, counts[i]);
        free(bytes);
        fixed_close(set);
    }
}

/* ==== GET_MULTIPLE and its kin =========================================== */

TEST(pages_of_values_are_delivered_in_every_state)
{
    static const struct script_case cases[] = {
        { FIXED, "a=1", "FIRST a=1, GET_MULTIPLE 1, NEXT_MULTIPLE NOTFOUND, GET_CURRENT a=1", NULL },
        { FIXED, "a=1", "FIRST a=1, GET_MULTIPLE 1, PREV_MULTIPLE NOTFOUND", NULL },
        { FIXED, "a=1 a=2 a=3 b=4", "FIRST a=1, GET_MULTIPLE 123, GET_CURRENT a=3, NEXT_MULTIPLE NOTFOUND, NEXT b=4",
          NULL },
        { FIXED, "a=1 a=2 a=3 b=4", "GET_BOTH a 2 a=2, GET_MULTIPLE 123, GET_CURRENT a=3", NULL },
        { FIXED, "a=1 a=2 a=3 b=4", "LAST b=4, GET_MULTIPLE 4, PREV a=3, GET_MULTIPLE 123", NULL },
        { FIXED, "a=1 a=2 a=3 b=4", "NEXT_MULTIPLE 123, NEXT_MULTIPLE NOTFOUND, NEXT b=4, GET_MULTIPLE 4", NULL },
        { FIXED, "a=1 a=2 a=3 b=4", "FIRST a=1, GET_MULTIPLE 123, PREV_MULTIPLE NOTFOUND", NULL },
        { FIXED, "a=1 a=2", "GET_MULTIPLE EINVAL, FIRST a=1, del - ok, GET_MULTIPLE 2", "a=2" },
    };

    script_cases_run(cases, ARRAY_COUNT(cases));
}

/* ==== Deleting =========================================================== */

TEST(runs_and_single_values_are_deleted_from_trees)
{
    static const size_t some_widths[] = { 2, 3, 8, 31 };
    size_t w;

    for (w = 0; w < ARRAY_COUNT(some_widths); w++) {
        enum { COUNT = 6000 };
        struct fixed_set *set = fixed_open(some_widths[w], 0);
        MDB_cursor *cursor;
        MDB_val key = val_text("set"), data;
        unsigned i;

        fixed_put_many(set, 0, 1, COUNT, 0);
        scene_commit(&set->scene);
        for (i = 0; i < 1500; i++)
            fixed_del(set, i);
        fixed_check(set);
        for (i = 0; i < 1500; i++)
            fixed_del(set, COUNT - 1 - i);
        fixed_check(set);
        for (i = 1500; i < 4500; i += 3)
            fixed_del(set, i);
        fixed_check(set);
        scene_commit(&set->scene);
        cursor = scene_cursor(&set->scene);
        CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_SET));
        for (i = 1500; i < 3000; i++) {
            if (set->present[i])
                CHECK_OK(mdb_cursor_del(cursor, 0));
            set->count -= set->present[i];
            set->present[i] = 0;
        }
        fixed_check(set);
        CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_SET));
        CHECK_OK(mdb_cursor_del(cursor, MDB_NODUPDATA));
        memset(set->present, 0, sizeof(set->present));
        set->count = 0;
        fixed_check(set);
        fixed_close(set);
    }
}

TEST(deleted_sets_give_their_pages_back)
{
    struct fixed_set *set = fixed_open(8, 0);
    MDB_val key = val_text("set");
    MDB_envinfo info;
    size_t pages = 0;
    unsigned round;

    for (round = 0; round < 20; round++) {
        fixed_put_many(set, 0, 1, 20000, round % 2 == 0 ? 0 : MDB_APPENDDUP);
        scene_commit(&set->scene);
        CHECK_OK(mdb_del(set->scene.txn, set->scene.dbi, &key, NULL));
        memset(set->present, 0, sizeof(set->present));
        set->count = 0;
        fixed_check(set);
        scene_commit(&set->scene);
        CHECK_OK(mdb_env_info(set->scene.env, &info));
        if (round == 5)
            pages = info.me_last_pgno;
        CHECK(round <= 5 || info.me_last_pgno <= pages);
    }
    fixed_close(set);
}

/* ==== Other cursors, nested transactions, arguments ====================== */

TEST(cursors_stay_on_their_values_while_many_go_in)
{
    enum { WATCHED = 10 };
    size_t i;

    for (i = 1; i < ARRAY_COUNT(shape_counts); i++) {
        struct fixed_set *set = fixed_open(4, 0);
        MDB_cursor *cursors[WATCHED];
        unsigned watched[WATCHED], w, round;
        unsigned char bytes[4];
        MDB_val key = val_text("set"), data;
        mdb_size_t count;

        fixed_put_many(set, 1, 4, shape_counts[i], 0);
        scene_commit(&set->scene);
        for (w = 0; w < WATCHED; w++) {
            watched[w] = 1 + 4 * (w * (shape_counts[i] - 1) / (WATCHED - 1));
            cursors[w] = scene_cursor(&set->scene);
            fixed_value(set, watched[w], bytes);
            data = val_of(bytes, 4);
            CHECK_OK(mdb_cursor_get(cursors[w], &key, &data, MDB_GET_BOTH));
        }
        for (round = 0; round < 4; round++) {
            if (round == 3)
                fixed_put_many(set, 30000, 1, 1000, MDB_APPENDDUP);
            else
                fixed_put_many(set, round == 0 ? 0 : round + 1, 4, 600, 0);
            for (w = 0; w < WATCHED; w++) {
                test_note("%u values, round %u, cursor %u", shape_counts[i], round, w);
                CHECK_OK(mdb_cursor_get(cursors[w], &key, &data, MDB_GET_CURRENT));
                fixed_value(set, watched[w], bytes);
                CHECK_VAL(&data, bytes, 4);
                CHECK_OK(mdb_cursor_count(cursors[w], &count));
                CHECK_EQ(count, set->count);
            }
        }
        fixed_check(set);
        fixed_close(set);
    }
}

TEST(abort_takes_multiple_back)
{
    static const unsigned env_flags[] = { 0, MDB_WRITEMAP };
    size_t i, k, kind;

    for (kind = 0; kind < ARRAY_COUNT(env_flags); kind++) {
        for (i = 0; i < ARRAY_COUNT(shape_counts); i++) {
            struct fixed_set *set = fixed_open(4, env_flags[kind]), *saved = malloc(sizeof(*saved));

            CHECK(saved != NULL);
            if (shape_counts[i] > 0)
                fixed_put_many(set, 1, 2, shape_counts[i], 0);
            for (k = 1; k < ARRAY_COUNT(shape_counts); k++) {
                memcpy(saved, set, sizeof(*set));
                set->scene.txn = begin_nested(set->scene.env, saved->scene.txn);
                fixed_put_many(set, 0, 1, shape_counts[k], 0);
                fixed_check(set);
                mdb_txn_abort(set->scene.txn);
                memcpy(set, saved, sizeof(*set));
                fixed_check(set);
            }
            free(saved);
            fixed_close(set);
        }
    }
}

TEST(multiple_takes_values_out_of_the_database)
{
    struct fixed_set *set = fixed_open(4, 0);
    MDB_cursor *cursor;
    MDB_val key = val_text("set"), other = val_text("sett"), data, two[2];
    size_t total;

    fixed_put_many(set, 0, 1, 2000, 0);
    scene_commit(&set->scene);
    cursor = scene_cursor(&set->scene);
    CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_SET));
    CHECK_OK(mdb_cursor_get(cursor, &key, &data, MDB_GET_MULTIPLE));
    total = data.mv_size / 4;
    CHECK(total >= 50);
    two[0] = val_of(data.mv_data, 4);
    two[1] = (MDB_val){ total, NULL };
    CHECK_OK(mdb_cursor_put(cursor, &other, two, MDB_MULTIPLE));
    CHECK_EQ(two[1].mv_size, total);
    /* 77 was there before. */
    CHECK_EQ(walk_both(set->scene.txn, set->scene.dbi), 2000 + 1 + total + (total <= 77));
    CHECK_OK(mdb_del(set->scene.txn, set->scene.dbi, &other, NULL));
    CHECK_EQ(walk_both(set->scene.txn, set->scene.dbi), 2001);
    scene_close(&set->scene);
    free(set);
}

TEST(dupfixed_without_dupsort_is_an_ordinary_database)
{
    static const unsigned kinds[] = { MDB_DUPFIXED, MDB_DUPFIXED | MDB_INTEGERDUP, MDB_REVERSEDUP, MDB_INTEGERDUP };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(kinds); i++) {
        struct scene scene;

        scene_open(&scene, MDB_NOSYNC, kinds[i]);
        put_numbers(scene.txn, scene.dbi, 0, 500, 37);
        put_numbers(scene.txn, scene.dbi, 100, 20, 9000);
        put_numbers(scene.txn, scene.dbi, 200, 20, 0);
        scene_commit(&scene);
        check_numbers(scene.txn, scene.dbi, 0, 100, 37);
        check_numbers(scene.txn, scene.dbi, 100, 20, 9000);
        check_numbers(scene.txn, scene.dbi, 200, 20, 0);
        CHECK_EQ(walk_both(scene.txn, scene.dbi), 500);
        scene_close(&scene);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(sets_of_every_width_grow_and_shrink),
        TEST_ENTRY(sets_of_the_longest_widths_grow_and_shrink),
        TEST_ENTRY(value_of_another_width_is_refused_by_every_shape),
        TEST_ENTRY(values_longer_than_a_key_are_refused),
        TEST_ENTRY(integer_values_compare_as_integers),
        TEST_ENTRY(multiple_stores_all_values_into_every_shape),
        TEST_ENTRY(multiple_takes_values_in_any_order),
        TEST_ENTRY(multiple_of_no_values_stores_nothing),
        TEST_ENTRY(multiple_with_nodupdata_stops_at_the_first_that_is_there),
        TEST_ENTRY(multiple_with_appenddup_stores_all_into_every_shape),
        TEST_ENTRY(multiple_with_appenddup_stores_all_or_none),
        TEST_ENTRY(appenddup_out_of_order_is_refused_by_every_shape),
        TEST_ENTRY(forty_thousand_values_go_in_at_once),
        TEST_ENTRY(multiple_without_dupfixed_is_incompatible),
        TEST_ENTRY(cursor_stands_on_the_last_value_that_multiple_stored),
        TEST_ENTRY(pages_of_values_are_delivered_in_every_state),
        TEST_ENTRY(runs_and_single_values_are_deleted_from_trees),
        TEST_ENTRY(deleted_sets_give_their_pages_back),
        TEST_ENTRY(cursors_stay_on_their_values_while_many_go_in),
        TEST_ENTRY(abort_takes_multiple_back),
        TEST_ENTRY(multiple_takes_values_out_of_the_database),
        TEST_ENTRY(dupfixed_without_dupsort_is_an_ordinary_database),
    };

    return test_main(argc, argv, tests, TEST_COUNT(tests));
}
