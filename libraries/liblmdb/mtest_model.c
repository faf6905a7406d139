/* Model test: random histories of calls, each compared with what a plain sorted array gives.
 *
 * A history is a configuration (kind of keys, kind of values, environment flags, named or main database, page size), a
 * seed and a number of steps. A step does something at random that the state allows, on the database and on the model.
 * The model of a database is an array of records in order. The model of a cursor is an index into it (struct position),
 * repaired when records are inserted and deleted, whoever does it. Nested transactions save and restore both.
 *
 * When a history fails, the line to repeat it is printed. With --trace it shows all calls, with --minimize it looks for
 * few steps that still fail, with --only it runs those. */
#include "mtest_history.h"

enum {
    DATABASES_MAX = 2,
    LEVELS_MAX = 4,             /* a transaction and its nested ones */
    SLOTS_MAX = 8,              /* cursors tracked in write transactions */
    READERS_MAX = 3,
    PINS_MAX = 8,
    RECORDS_MAX = 4000,         /* bulk inserts stop here */
    DEFAULT_STEPS = 600,
    MULTIPLE_MAX = 600
};

static const size_t map_size = (size_t)256 << 20;

/* ==== The model: records, tables, databases ============================== */

/* Records live to the end of their history, so that tables, snapshots and cursors may all point to them. */
struct record {
    struct record *made_before;
    size_t key_size, value_size;
    unsigned char bytes[];      /* key, then value */
};

struct table {
    int exists;
    size_t count, capacity;
    struct record **records;    /* in order */
};

struct database {
    const char *name;           /* NULL: the main database */
    struct contents contents;
    struct table table;         /* as the innermost transaction sees it */
    MDB_dbi dbi;
    int is_open;                /* dbi can be used in the innermost transaction */
    int is_shared;              /* dbi can be used in new transactions too */
};

/* ==== The model: cursors ================================================= */

enum place {
    PLACE_UNSET,                /* never positioned */
    PLACE_ON,                   /* on record `index` */
    PLACE_GAP,                  /* its record was deleted, or it ran past the end; `index` is the successor */
    PLACE_LOOSE                 /* after a call that failed: anywhere, but never on what does not exist */
};

/* In a gap: the `slack` records before index were inserted after the deletion, at the same place. Whether the cursor
 * meets those is left open; it must not miss `index`, nor go back behind them. */
struct position {
    enum place place;
    size_t index;
    size_t slack;
    const struct record *deleted;       /* in a gap: the record that was there, NULL at the end of the data */
};

struct slot {
    MDB_cursor *cursor;         /* NULL: free */
    unsigned level;             /* of its transaction */
    struct database *database;
    struct position position;
};

/* What a check of a cursor needs: the cursor and what it should agree with. */
struct view {
    struct history *history;
    const struct database *database;
    const struct table *table;
    struct position *position;
    MDB_cursor *cursor;
    char name[8];
};

/* ==== Histories ========================================================== */

struct level {
    MDB_txn *txn;
    struct table saved[DATABASES_MAX];          /* as the transaction began */
    struct position positions[SLOTS_MAX];
    int was_open[DATABASES_MAX];
};

/* A pointer that a read transaction gave out, and the record that must stay there. */
struct pin {
    const void *value;
    const struct record *record;
};

struct reader {
    MDB_txn *txn;               /* NULL: free */
    int is_reset;
    struct database databases[DATABASES_MAX];   /* with tables of its own */
    struct slot slot;
    struct pin pins[PINS_MAX];
    unsigned pin_count;
};

/* The thread of the readers, where each transaction is tied to a thread. */
struct worker {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    void (*job)(struct history *, struct random *);     /* NULL: idle */
    struct random *random;
    int is_running, must_stop;
};

struct history {
    struct plan plan;
    char *directory;
    char *path;
    MDB_env *env;
    size_t key_max;
    struct database databases[DATABASES_MAX];
    unsigned database_count;
    struct level levels[LEVELS_MAX];
    unsigned depth;             /* of the innermost write transaction; 0: none */
    struct slot slots[SLOTS_MAX];
    struct reader readers[READERS_MAX];
    unsigned readers_max;
    struct worker worker;
    struct record *records;     /* all, newest first */
    unsigned step;
};

/* ==== Records and tables ================================================= */

static MDB_val record_key(const struct record *record)
{
    return val_of(record->bytes, record->key_size);
}

static MDB_val record_value(const struct record *record)
{
    return val_of(record->bytes + record->key_size, record->value_size);
}

static struct record *record_make(struct history *history, const MDB_val *key, const MDB_val *value)
{
    struct record *record = malloc(sizeof(*record) + key->mv_size + value->mv_size);

    CHECK(record != NULL);
    record->key_size = key->mv_size;
    record->value_size = value->mv_size;
    memcpy(record->bytes, key->mv_data, key->mv_size);
    if (value->mv_size > 0)
        memcpy(record->bytes + key->mv_size, value->mv_data, value->mv_size);
    record->made_before = history->records;
    history->records = record;
    return record;
}

static int val_equals(const MDB_val *a, const MDB_val *b)
{
    return a->mv_size == b->mv_size && (a->mv_size == 0 || memcmp(a->mv_data, b->mv_data, a->mv_size) == 0);
}

/* The order of a record against a key and, if value is not NULL, a duplicate. */
static int record_compare(const struct contents *contents, const struct record *record, const MDB_val *key,
                          const MDB_val *value)
{
    MDB_val record_part = record_key(record);
    int difference = contents->key_kind->order(&record_part, key);

    if (difference != 0 || value == NULL || !contents_have_dups(contents))
        return difference;
    record_part = record_value(record);
    return contents->value_kind->order(&record_part, value);
}

/* The first record that is not below key (and value); with `after`, the first above. */
static size_t table_search(const struct database *database, const struct table *table, const MDB_val *key,
                           const MDB_val *value, int after)
{
    size_t low = 0, high = table->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int difference = record_compare(&database->contents, table->records[middle], key, value);

        if (difference < 0 || (after && difference == 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t table_find(const struct database *database, const struct table *table, const MDB_val *key,
                         const MDB_val *value)
{
    return table_search(database, table, key, value, 0);
}

static int table_holds(const struct database *database, const struct table *table, size_t index, const MDB_val *key,
                       const MDB_val *value)
{
    return index < table->count && record_compare(&database->contents, table->records[index], key, value) == 0;
}

/* The set of record `index`: the records of its key. Of a table without duplicates, that record alone. */
static size_t set_begin(const struct database *database, const struct table *table, size_t index)
{
    MDB_val key = record_key(table->records[index]);

    return table_search(database, table, &key, NULL, 0);
}

static size_t set_end(const struct database *database, const struct table *table, size_t index)
{
    MDB_val key = record_key(table->records[index]);

    return table_search(database, table, &key, NULL, 1);
}

static void table_copy(struct table *to, const struct table *from)
{
    *to = *from;
    to->capacity = from->count;
    to->records = malloc((from->count + 1) * sizeof(*to->records));
    CHECK(to->records != NULL);
    if (from->count > 0)
        memcpy(to->records, from->records, from->count * sizeof(*to->records));
}

static void table_free(struct table *table)
{
    free(table->records);
    memset(table, 0, sizeof(*table));
}

/* ==== Changes of tables, and what they do to the cursors ================= */

static void position_loosen(struct position *position)
{
    position->place = PLACE_LOOSE;
    position->slack = 0;
    position->deleted = NULL;
}

static void position_set(struct position *position, size_t index)
{
    position->place = PLACE_ON;
    position->index = index;
    position->slack = 0;
    position->deleted = NULL;
}

/* A record was inserted at `index`. */
static void position_follow_insert(struct position *position, size_t index)
{
    if ((position->place != PLACE_ON && position->place != PLACE_GAP) || index > position->index)
        return;
    if (position->place == PLACE_GAP && index >= position->index - position->slack)
        position->slack++;
    position->index++;
}

/* Record `index` was deleted; it was `record`. */
static void position_follow_delete(struct position *position, size_t index, const struct record *record)
{
    if ((position->place != PLACE_ON && position->place != PLACE_GAP) || index > position->index)
        return;
    if (index < position->index) {
        if (position->place == PLACE_GAP && index >= position->index - position->slack)
            position->slack--;
        position->index--;
    } else if (position->place == PLACE_ON) {
        position->place = PLACE_GAP;
        position->slack = 0;
        position->deleted = record;
    }
}

/* Cursors on record `index` may be anywhere from now on. */
static void table_loosen(struct history *history, const struct database *database, size_t index)
{
    unsigned i;

    for (i = 0; i < SLOTS_MAX; i++) {
        struct position *position = &history->slots[i].position;

        if (history->slots[i].cursor != NULL && history->slots[i].database == database &&
            position->place == PLACE_ON && position->index == index)
            position_loosen(position);
    }
}

/* Cursors in an emptied database may stand nowhere, also when it is filled again. */
static void table_loosen_all(struct history *history, const struct database *database)
{
    unsigned i;

    for (i = 0; i < SLOTS_MAX; i++) {
        if (history->slots[i].cursor != NULL && history->slots[i].database == database &&
            history->slots[i].position.place != PLACE_UNSET)
            position_loosen(&history->slots[i].position);
    }
}

static void table_insert(struct history *history, struct database *database, size_t index, struct record *record)
{
    struct table *table = &database->table;
    unsigned i;

    if (table->count == table->capacity) {
        table->capacity = table->capacity * 2 + 64;
        table->records = realloc(table->records, table->capacity * sizeof(*table->records));
        CHECK(table->records != NULL);
    }
    memmove(table->records + index + 1, table->records + index, (table->count - index) * sizeof(*table->records));
    table->records[index] = record;
    table->count++;
    for (i = 0; i < SLOTS_MAX; i++) {
        if (history->slots[i].cursor != NULL && history->slots[i].database == database)
            position_follow_insert(&history->slots[i].position, index);
    }
}

static void table_delete(struct history *history, struct database *database, size_t index)
{
    struct table *table = &database->table;
    const struct record *record = table->records[index];
    unsigned i;

    table->count--;
    memmove(table->records + index, table->records + index + 1, (table->count - index) * sizeof(*table->records));
    for (i = 0; i < SLOTS_MAX; i++) {
        if (history->slots[i].cursor != NULL && history->slots[i].database == database)
            position_follow_delete(&history->slots[i].position, index, record);
    }
    if (table->count == 0)
        table_loosen_all(history, database);
}

/* Duplicate `index` was replaced, by a delete and an insert perhaps: a cursor in the gap behind it may meet it again,
 * and if it is the only record, a cursor in a gap saw an empty database. */
static void table_widen_gaps(struct history *history, const struct database *database, size_t index)
{
    unsigned i;

    for (i = 0; i < SLOTS_MAX; i++) {
        struct position *position = &history->slots[i].position;

        if (history->slots[i].cursor == NULL || history->slots[i].database != database ||
            position->place != PLACE_GAP || !contents_have_dups(&database->contents))
            continue;
        if (database->table.count == 1)
            position_loosen(position);
        else if (position->index - position->slack == index + 1)
            position->slack++;
    }
}

static void table_clear(struct history *history, struct database *database)
{
    database->table.count = 0;
    table_loosen_all(history, database);
}

/* ==== What a cursor may answer =========================================== */

enum after {                    /* where a cursor is after it answered with an error */
    AFTER_STAY,
    AFTER_LOOSE,
    AFTER_END,                  /* past the end of the data */
    AFTER_ASK                   /* where it was, but whether NEXT would skip the successor must be asked */
};

struct outcome {
    size_t low, high;           /* a record low <= index < high, */
    int codes[3];               /* or one of these errors, ended by 0 */
    enum after after;
};

static struct outcome outcome_range(size_t low, size_t high)
{
    struct outcome outcome = { low, high, { 0 }, AFTER_STAY };

    return outcome;
}

static struct outcome outcome_record(size_t index)
{
    return outcome_range(index, index + 1);
}

static struct outcome outcome_code(int code, enum after after)
{
    struct outcome outcome = { 0, 0, { code }, after };

    return outcome;
}

static struct outcome outcome_missing(enum after after)
{
    return outcome_code(MDB_NOTFOUND, after);
}

static struct outcome outcome_anything(const struct table *table)
{
    struct outcome outcome = { 0, table->count, { MDB_NOTFOUND, EINVAL }, AFTER_LOOSE };

    return outcome;
}

/* Record `index` if there is one (there is none before 0: index has wrapped around), else MDB_NOTFOUND. */
static struct outcome outcome_below(const struct table *table, size_t index, enum after after)
{
    return index < table->count ? outcome_record(index) : outcome_missing(after);
}

static void outcome_add_code(struct outcome *outcome, int code)
{
    outcome->codes[outcome->codes[0] == 0 ? 0 : 1] = code;
}

/* In a gap: the successor belongs to the set of the deleted record. */
static int gap_is_inside_set(const struct view *view)
{
    const struct position *position = view->position;
    MDB_val key;

    if (position->deleted == NULL || position->slack > 0)
        return 0;
    key = record_key(position->deleted);
    return table_holds(view->database, view->table, position->index, &key, NULL);
}

/* In a gap: the deleted record was the last of a set that still exists. */
static int gap_is_after_set(const struct view *view)
{
    const struct position *position = view->position;
    MDB_val key;
    size_t index;

    if (position->deleted == NULL || gap_is_inside_set(view))
        return 0;
    key = record_key(position->deleted);
    index = table_find(view->database, view->table, &key, NULL);
    return table_holds(view->database, view->table, index, &key, NULL);
}

/* In a gap: what took the place. */
static struct outcome outcome_successor(const struct view *view)
{
    const struct position *position = view->position;
    size_t high = position->index < view->table->count ? position->index + 1 : view->table->count;
    struct outcome outcome = outcome_range(position->index - position->slack, high);

    if (position->index == view->table->count)
        outcome_add_code(&outcome, MDB_NOTFOUND);
    return outcome;
}

static struct outcome expect_current(const struct view *view)
{
    struct outcome outcome;

    switch (view->position->place) {
    case PLACE_UNSET:
        return outcome_code(EINVAL, AFTER_STAY);
    case PLACE_ON:
        return outcome_record(view->position->index);
    case PLACE_GAP:
        outcome = outcome_successor(view);
        if (view->position->index == view->table->count)
            outcome_add_code(&outcome, EINVAL);
        else if (gap_is_after_set(view))
            outcome_add_code(&outcome, MDB_NOTFOUND);
        return outcome;
    default:
        return outcome_anything(view->table);
    }
}

static struct outcome expect_next(const struct view *view)
{
    switch (view->position->place) {
    case PLACE_UNSET:
        return outcome_below(view->table, 0, AFTER_LOOSE);
    case PLACE_ON:
        return outcome_below(view->table, view->position->index + 1, AFTER_STAY);
    case PLACE_GAP:
        return outcome_successor(view);
    default:
        return outcome_anything(view->table);
    }
}

static struct outcome expect_prev(const struct view *view)
{
    const struct position *position = view->position;
    struct outcome outcome;
    size_t low;

    switch (position->place) {
    case PLACE_UNSET:
        return outcome_below(view->table, view->table->count - 1, AFTER_LOOSE);
    case PLACE_ON:
        return outcome_below(view->table, position->index - 1, AFTER_STAY);
    case PLACE_GAP:
        low = position->index - position->slack;
        outcome = outcome_range(low > 0 ? low - 1 : 0, position->index);
        outcome.after = AFTER_ASK;
        if (low == 0)
            outcome_add_code(&outcome, MDB_NOTFOUND);
        return outcome;
    default:
        return outcome_anything(view->table);
    }
}

static struct outcome expect_next_nodup(const struct view *view)
{
    const struct position *position = view->position;

    if (position->place == PLACE_ON)
        return outcome_below(view->table, set_end(view->database, view->table, position->index), AFTER_STAY);
    if (position->place == PLACE_GAP && gap_is_inside_set(view))
        return outcome_below(view->table, set_end(view->database, view->table, position->index), AFTER_ASK);
    if (position->place == PLACE_GAP && position->slack > 0 && contents_have_dups(&view->database->contents))
        return outcome_anything(view->table);
    return expect_next(view);
}

static struct outcome expect_prev_nodup(const struct view *view)
{
    const struct position *position = view->position;

    if (position->place == PLACE_ON)
        return outcome_below(view->table, set_begin(view->database, view->table, position->index) - 1, AFTER_STAY);
    if (position->place == PLACE_GAP && gap_is_inside_set(view))
        return outcome_below(view->table, set_begin(view->database, view->table, position->index) - 1, AFTER_ASK);
    /* Is the key of a cursor behind the last value of its set still that of the set? Either answer will do. */
    if (position->place == PLACE_GAP && (position->slack > 0 || gap_is_after_set(view)))
        return outcome_anything(view->table);
    return expect_prev(view);
}

static struct outcome expect_dup_end(const struct view *view, MDB_cursor_op op)
{
    const struct position *position = view->position;
    struct outcome outcome = outcome_code(MDB_INCOMPATIBLE, AFTER_STAY);
    size_t index;

    if (!contents_have_dups(&view->database->contents)) {
        if (position->place != PLACE_ON) {
            outcome.codes[1] = MDB_NOTFOUND;
            outcome.codes[2] = EINVAL;
        }
        if (position->place == PLACE_GAP)
            outcome.after = AFTER_ASK;
        return outcome;
    }
    if (position->place == PLACE_UNSET)
        return outcome_code(EINVAL, AFTER_STAY);
    if (position->place != PLACE_ON && !(position->place == PLACE_GAP && gap_is_inside_set(view)))
        return outcome_anything(view->table);
    index = op == MDB_FIRST_DUP ? set_begin(view->database, view->table, position->index)
                                : set_end(view->database, view->table, position->index) - 1;
    return outcome_record(index);
}

static struct outcome expect_dup_step(const struct view *view, MDB_cursor_op op)
{
    const struct position *position = view->position;
    struct outcome outcome = outcome_anything(view->table);
    size_t begin, end;

    outcome.codes[2] = MDB_INCOMPATIBLE;
    if (!contents_have_dups(&view->database->contents))
        return outcome;
    if (position->place != PLACE_ON && !(position->place == PLACE_GAP && gap_is_inside_set(view)))
        return outcome;
    begin = set_begin(view->database, view->table, position->index);
    end = set_end(view->database, view->table, position->index);
    if (op == MDB_PREV_DUP && position->index > begin)
        return outcome_record(position->index - 1);
    if (op == MDB_NEXT_DUP && position->place == PLACE_GAP)
        return outcome_record(position->index);
    if (op == MDB_NEXT_DUP && position->index + 1 < end)
        return outcome_record(position->index + 1);
    return outcome_missing(position->place == PLACE_GAP ? AFTER_ASK : AFTER_STAY);
}

static struct outcome expect_seek(const struct view *view, MDB_cursor_op op, const MDB_val *key, const MDB_val *value)
{
    int by_pair = op == MDB_GET_BOTH || op == MDB_GET_BOTH_RANGE;
    size_t index;

    if (by_pair && !contents_have_dups(&view->database->contents))
        return outcome_code(MDB_INCOMPATIBLE, AFTER_LOOSE);
    index = table_find(view->database, view->table, key, by_pair ? value : NULL);
    if (op == MDB_SET_RANGE)
        return outcome_below(view->table, index, AFTER_END);
    if (table_holds(view->database, view->table, index, key, op == MDB_GET_BOTH ? value : NULL))
        return outcome_record(index);
    return outcome_missing(AFTER_LOOSE);
}

static struct outcome expect(const struct view *view, MDB_cursor_op op, const MDB_val *key, const MDB_val *value)
{
    switch (op) {
    case MDB_FIRST:
        return outcome_below(view->table, 0, AFTER_LOOSE);
    case MDB_LAST:
        return outcome_below(view->table, view->table->count - 1, AFTER_LOOSE);
    case MDB_GET_CURRENT:
        return expect_current(view);
    case MDB_NEXT:
        return expect_next(view);
    case MDB_PREV:
        return expect_prev(view);
    case MDB_NEXT_NODUP:
        return expect_next_nodup(view);
    case MDB_PREV_NODUP:
        return expect_prev_nodup(view);
    case MDB_FIRST_DUP:
    case MDB_LAST_DUP:
        return expect_dup_end(view, op);
    case MDB_NEXT_DUP:
    case MDB_PREV_DUP:
        return expect_dup_step(view, op);
    default:
        return expect_seek(view, op, key, value);
    }
}

/* ==== Cursor calls ======================================================= */

static int record_matches(const struct record *record, const MDB_val *key, const MDB_val *value)
{
    MDB_val record_part = record_key(record);

    if (!val_equals(&record_part, key))
        return 0;
    record_part = record_value(record);
    return value == NULL || val_equals(&record_part, value);
}

static void view_check_widths(const struct view *view, const MDB_val *key, const MDB_val *value)
{
    const struct contents *contents = &view->database->contents;

    if (contents->keys.width > 0)
        EXPECT(key->mv_size == contents->keys.width, "a key of %zu bytes", key->mv_size);
    if (value != NULL && contents->values.width > 0)
        EXPECT(value->mv_size == contents->values.width, "a value of %zu bytes", value->mv_size);
}

/* The cursor gave a record: which one? It must be one of the expected; value is NULL if it was not asked for. */
static void view_settle(const struct view *view, const struct outcome *outcome, const MDB_val *key,
                        const MDB_val *value)
{
    char key_text[SHOWN_TEXT_SIZE], value_text[SHOWN_TEXT_SIZE];
    const struct table *table = view->table;
    size_t index = outcome->low;
    MDB_val expected_key, expected_value;

    view_check_widths(view, key, value);
    if (outcome->high != outcome->low + 1)
        index = table_find(view->database, table, key, value);
    if (index >= outcome->low && index < outcome->high && record_matches(table->records[index], key, value)) {
        position_set(view->position, index);
        return;
    }
    if (outcome->high != outcome->low + 1)
        history_fail(__FILE__, __LINE__, "%s gave record %zu of %zu, expected one of %zu to %zu, or code %d",
                     view->name, index, table->count, outcome->low, outcome->high, outcome->codes[0]);
    expected_key = record_key(table->records[outcome->low]);
    expected_value = record_value(table->records[outcome->low]);
    history_fail(__FILE__, __LINE__, "%s should have given record %zu of %zu: %s = %s", view->name,
                 outcome->low, table->count, bytes_show(key_text, expected_key.mv_data, expected_key.mv_size),
                 bytes_show(value_text, expected_value.mv_data, expected_value.mv_size));
}

static void cursor_move(const struct view *view, MDB_cursor_op op);

/* The cursor gave an error. */
static void view_refused(const struct view *view, const struct outcome *outcome, int rc)
{
    struct position *position = view->position;
    int i;

    for (i = 0; i < 3 && outcome->codes[i] != rc; i++)
        ;
    EXPECT(i < 3, "%s gave %d, expected %s %zu to %zu of %zu, or code %d", view->name, rc,
           "a record of", outcome->low, outcome->high, view->table->count, outcome->codes[0]);
    switch (outcome->after) {
    case AFTER_STAY:
        break;
    case AFTER_LOOSE:
        position_loosen(position);
        break;
    case AFTER_END:
        position->place = PLACE_GAP;
        position->index = view->table->count;
        position->slack = 0;
        position->deleted = NULL;
        break;
    case AFTER_ASK:
        cursor_move(view, MDB_GET_CURRENT);
        break;
    }
}

static void cursor_trace(const struct view *view, MDB_cursor_op op, int rc, const MDB_val *key, const MDB_val *value)
{
    char key_text[SHOWN_TEXT_SIZE] = "", value_text[SHOWN_TEXT_SIZE] = "";

    if (key != NULL && key->mv_data != NULL)
        bytes_show(key_text, key->mv_data, key->mv_size);
    if (rc == MDB_SUCCESS && value != NULL)
        bytes_show(value_text, value->mv_data, value->mv_size);
    trace("%s of %s: %s %s = %d: %s", view->name,
          view->database->name != NULL ? view->database->name : "main", cursor_op_name(op), key_text, rc, value_text);
}

/* A call of mdb_cursor_get and its expected outcome; key and value are what it looks for, NULL if it does not. */
static void cursor_call(const struct view *view, MDB_cursor_op op, const MDB_val *key, const MDB_val *value,
                        const struct outcome *outcome)
{
    MDB_val found_key = val_of(NULL, 0), found_value = val_of(NULL, 0);
    int rc;

    if (key != NULL)
        found_key = *key;
    if (value != NULL)
        found_value = *value;
    rc = mdb_cursor_get(view->cursor, &found_key, &found_value, op);
    cursor_trace(view, op, rc, &found_key, &found_value);
    if (rc == MDB_SUCCESS)
        view_settle(view, outcome, &found_key, &found_value);
    else
        view_refused(view, outcome, rc);
}

static void cursor_seek(const struct view *view, MDB_cursor_op op, const MDB_val *key, const MDB_val *value)
{
    struct outcome outcome = expect(view, op, key, value);

    cursor_call(view, op, key, value, &outcome);
}

static void cursor_move(const struct view *view, MDB_cursor_op op)
{
    cursor_seek(view, op, NULL, NULL);
}

/* MDB_SET without asking for the value. */
static void cursor_set_key_only(const struct view *view, const MDB_val *key)
{
    struct outcome outcome = expect(view, MDB_SET, key, NULL);
    MDB_val found_key = *key;
    int rc = mdb_cursor_get(view->cursor, &found_key, NULL, MDB_SET);

    cursor_trace(view, MDB_SET, rc, &found_key, NULL);
    if (rc == MDB_SUCCESS)
        view_settle(view, &outcome, &found_key, NULL);
    else
        view_refused(view, &outcome, rc);
}

/* After GET_BOTH_RANGE found no value in a set that exists, the cursor is still on its key. */
static void cursor_check_still_on_key(const struct view *view, const MDB_val *key, struct random *random)
{
    static const MDB_cursor_op ops[] = { MDB_FIRST_DUP, MDB_LAST_DUP, MDB_PREV_DUP };
    MDB_cursor_op op = ops[random_below(random, 3)];
    size_t begin = table_find(view->database, view->table, key, NULL), end;
    struct outcome outcome;

    if (view->position->place != PLACE_LOOSE || !table_holds(view->database, view->table, begin, key, NULL))
        return;
    end = set_end(view->database, view->table, begin);
    outcome = outcome_record(op == MDB_FIRST_DUP ? begin : end - 1);
    if (end - begin > 1 || op != MDB_PREV_DUP)
        cursor_call(view, op, NULL, NULL, &outcome);
}

/* ==== Chunks of fixed-size duplicates ==================================== */

/* A call of MDB_GET_MULTIPLE, MDB_NEXT_MULTIPLE or MDB_PREV_MULTIPLE on a cursor that is on a record. Sets low and high
 * to the records whose values it gave, equal if there are no more. The cursor is on the last of them then. */
static void cursor_get_chunk(const struct view *view, MDB_cursor_op op, size_t *low, size_t *high)
{
    const struct database *database = view->database;
    size_t width = database->contents.values.width, index = view->position->index, i;
    size_t begin = set_begin(database, view->table, index), end = set_end(database, view->table, index);
    MDB_val set_key = record_key(view->table->records[index]);
    MDB_val found_key = val_of(NULL, 0), chunk = val_of(NULL, 0), value;
    int rc = mdb_cursor_get(view->cursor, &found_key, &chunk, op);

    cursor_trace(view, op, rc, NULL, &chunk);
    *low = *high = index;
    if (rc == MDB_NOTFOUND) {
        if (op == MDB_NEXT_MULTIPLE)
            EXPECT(index + 1 == end, "chunks end before the end of the set");
        else
            EXPECT(op == MDB_PREV_MULTIPLE && index - begin <= view->history->plan.page_size / width,
                   "chunks end before the begin of the set");
        return;
    }
    EXPECT_OK(rc);
    EXPECT(chunk.mv_size > 0 && chunk.mv_size % width == 0, "a chunk of %zu bytes", chunk.mv_size);
    value = val_of(chunk.mv_data, width);
    *low = table_find(database, view->table, &set_key, &value);
    *high = *low + chunk.mv_size / width;
    EXPECT(*low >= begin && *high <= end, "a chunk of records %zu to %zu, the set is %zu to %zu", *low,
           *high, begin, end);
    for (i = *low; i < *high; i++) {
        MDB_val expected = record_value(view->table->records[i]);

        value = val_of((char *)chunk.mv_data + (i - *low) * width, width);
        EXPECT(val_equals(&value, &expected), "value %zu of a chunk is not record %zu", i - *low, i);
    }
    index += op == MDB_NEXT_MULTIPLE;
    if (op == MDB_PREV_MULTIPLE)
        EXPECT(*high <= index, "the previous chunk ends at %zu, cursor at %zu", *high, index);
    else
        EXPECT(*low <= index && index < *high, "chunk %zu to %zu, cursor at %zu", *low, *high, index);
    position_set(view->position, *high - 1);
}

/* All values of the cursor's set, chunk by chunk, there and back. */
static void cursor_read_set_by_chunks(const struct view *view)
{
    size_t begin = set_begin(view->database, view->table, view->position->index);
    size_t end = set_end(view->database, view->table, view->position->index);
    size_t low, high, reached;

    cursor_move(view, MDB_FIRST_DUP);
    cursor_get_chunk(view, MDB_GET_MULTIPLE, &low, &reached);
    EXPECT(low == begin, "the first chunk begins at %zu, not at %zu", low, begin);
    while (cursor_get_chunk(view, MDB_NEXT_MULTIPLE, &low, &high), low < high) {
        EXPECT(low == reached, "a chunk begins at %zu, the one before ended at %zu", low, reached);
        reached = high;
    }
    EXPECT(reached == end, "the chunks end at %zu, not at %zu", reached, end);
    cursor_move(view, MDB_LAST_DUP);
    cursor_get_chunk(view, MDB_GET_MULTIPLE, &reached, &high);
    EXPECT(high == end, "the last chunk ends at %zu, not at %zu", high, end);
    while (cursor_get_chunk(view, MDB_PREV_MULTIPLE, &low, &high), low < high) {
        EXPECT(high == reached, "a chunk ends at %zu, the one behind began at %zu", high, reached);
        reached = low;
    }
    EXPECT(reached == begin, "the chunks end backward at %zu, not at %zu", reached, begin);
}

/* ==== Verification of a whole database =================================== */

static void verify_record(const struct table *table, size_t index, const MDB_val *key,
                          const MDB_val *value, const char *how)
{
    EXPECT(index < table->count, "%s gives more than %zu records", how, table->count);
    EXPECT(record_matches(table->records[index], key, value), "%s gives another record %zu of %zu", how, index,
           table->count);
}

static void verify_walks(MDB_cursor *cursor, const struct table *table)
{
    MDB_val key, value;
    size_t index;
    int rc;

    for (index = 0; (rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == MDB_SUCCESS; index++)
        verify_record(table, index, &key, &value, "the walk forward");
    EXPECT_CODE(rc, MDB_NOTFOUND);
    EXPECT(index == table->count, "the walk forward ends after %zu of %zu", index, table->count);
    rc = mdb_cursor_get(cursor, &key, &value, MDB_LAST);
    for (; rc == MDB_SUCCESS; rc = mdb_cursor_get(cursor, &key, &value, MDB_PREV)) {
        EXPECT(index > 0, "the walk backward does not end");
        verify_record(table, --index, &key, &value, "the walk backward");
    }
    EXPECT_CODE(rc, MDB_NOTFOUND);
    EXPECT(index == 0, "the walk backward ends at record %zu", index);
}

static void verify_walks_by_key(MDB_cursor *cursor, const struct database *database,
                                const struct table *table)
{
    size_t index = 0, end, count;
    MDB_val key, value;
    int rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);

    for (; rc == MDB_SUCCESS; rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT_NODUP)) {
        verify_record(table, index, &key, &value, "the walk by key");
        end = set_end(database, table, index);
        if (contents_have_dups(&database->contents)) {
            EXPECT_OK(mdb_cursor_count(cursor, &count));
            EXPECT(count == end - index, "a set of %zu is counted as %zu", end - index, count);
        }
        index = end;
    }
    EXPECT_CODE(rc, MDB_NOTFOUND);
    EXPECT(index == table->count, "the walk by key ends at %zu of %zu", index, table->count);
    rc = mdb_cursor_get(cursor, &key, &value, MDB_LAST);
    for (; rc == MDB_SUCCESS; rc = mdb_cursor_get(cursor, &key, &value, MDB_PREV_NODUP)) {
        EXPECT(index > 0, "the walk backward by key does not end");
        verify_record(table, index - 1, &key, &value, "the walk backward by key");
        index = set_begin(database, table, index - 1);
    }
    EXPECT_CODE(rc, MDB_NOTFOUND);
    EXPECT(index == 0, "the walk backward by key ends at record %zu", index);
}

/* Every record found by its key, every duplicate by key and value too. */
static void verify_searches(MDB_txn *txn, MDB_dbi dbi, MDB_cursor *cursor,
                            const struct database *database, const struct table *table)
{
    size_t index, begin = 0;

    for (index = 0; index < table->count; index++) {
        MDB_val key = record_key(table->records[index]), value = record_value(table->records[index]), found;

        if (index > 0 && record_compare(&database->contents, table->records[begin], &key, NULL) != 0)
            begin = index;
        if (index == begin) {
            EXPECT_OK(mdb_get(txn, dbi, &key, &found));
            verify_record(table, index, &key, &found, "mdb_get");
        }
        if (contents_have_dups(&database->contents)) {
            EXPECT_OK(mdb_cursor_get(cursor, &key, &value, MDB_GET_BOTH));
            EXPECT_OK(mdb_cursor_get(cursor, &key, &found, MDB_GET_CURRENT));
            verify_record(table, index, &key, &found, "MDB_GET_BOTH");
        }
    }
}

static void verify_stat(struct history *history, MDB_txn *txn, MDB_dbi dbi, const struct table *table)
{
    MDB_stat stat;

    EXPECT_OK(mdb_stat(txn, dbi, &stat));
    EXPECT(stat.ms_entries == table->count, "%zu entries are stated, there are %zu", stat.ms_entries,
           table->count);
    EXPECT(stat.ms_psize == history->plan.page_size, "the page size is stated as %u", stat.ms_psize);
    EXPECT((stat.ms_depth == 0) == (table->count == 0), "%zu records, depth %u", table->count, stat.ms_depth);
    EXPECT((stat.ms_leaf_pages == 0) == (table->count == 0), "%zu records, %zu leaves", table->count,
           stat.ms_leaf_pages);
    if (table->count == 0)
        EXPECT(stat.ms_branch_pages == 0 && stat.ms_overflow_pages == 0, "an empty database has pages");
}

static void verify_database(struct history *history, MDB_txn *txn, MDB_dbi dbi, const struct database *database)
{
    const struct table *table = &database->table;
    MDB_cursor *cursor;

    verify_stat(history, txn, dbi, table);
    EXPECT_OK(mdb_cursor_open(txn, dbi, &cursor));
    verify_walks(cursor, table);
    verify_walks_by_key(cursor, database, table);
    verify_searches(txn, dbi, cursor, database, table);
    mdb_cursor_close(cursor);
}

/* ==== Handles and transactions =========================================== */

/* Opens the database in a transaction; one that does not exist is made if `create` is MDB_CREATE. */
static void database_open(MDB_txn *txn, struct database *database, unsigned create)
{
    const struct contents *contents = &database->contents;
    unsigned flags;

    if (database->is_open)
        return;
    EXPECT_OK(mdb_dbi_open(txn, database->name, contents_flags(contents) | create, &database->dbi));
    if (contents->key_kind->is_custom)
        EXPECT_OK(mdb_set_compare(txn, database->dbi, contents->key_kind->order));
    if (contents->value_kind->is_custom)
        EXPECT_OK(mdb_set_dupsort(txn, database->dbi, contents->value_kind->order));
    EXPECT_OK(mdb_dbi_flags(txn, database->dbi, &flags));
    EXPECT(flags == contents_flags(contents), "flags 0x%x became 0x%x", contents_flags(contents), flags);
    database->is_open = 1;
    database->table.exists = 1;
}

static MDB_txn *history_txn(const struct history *history)
{
    return history->levels[history->depth - 1].txn;
}

static void transaction_begin(struct history *history)
{
    struct level *level = &history->levels[history->depth];
    MDB_txn *parent = history->depth > 0 ? history_txn(history) : NULL;
    unsigned i;

    EXPECT_OK(mdb_txn_begin(history->env, parent, 0, &level->txn));
    history->depth++;
    trace("begin, level %u", history->depth);
    for (i = 0; i < history->database_count; i++) {
        table_copy(&level->saved[i], &history->databases[i].table);
        level->was_open[i] = history->databases[i].is_open;
    }
    for (i = 0; i < SLOTS_MAX; i++)
        level->positions[i] = history->slots[i].position;
}

/* Cursors may be closed before the end of their transaction, or by it. */
static void transaction_close_cursors(struct history *history, struct random *random)
{
    unsigned i;

    for (i = 0; i < SLOTS_MAX; i++) {
        struct slot *slot = &history->slots[i];

        if (slot->cursor == NULL || slot->level != history->depth)
            continue;
        if (random_one_in(random, 2))
            mdb_cursor_close(slot->cursor);
        slot->cursor = NULL;
    }
}

static void transaction_commit(struct history *history, struct random *random)
{
    struct level *level = &history->levels[history->depth - 1];
    unsigned i;

    transaction_close_cursors(history, random);
    trace("commit, level %u", history->depth);
    EXPECT_OK(mdb_txn_commit(level->txn));
    history->depth--;
    for (i = 0; i < history->database_count; i++) {
        table_free(&level->saved[i]);
        if (history->depth == 0)
            history->databases[i].is_shared = history->databases[i].is_open;
    }
}

static void transaction_abort(struct history *history, struct random *random)
{
    struct level *level = &history->levels[history->depth - 1];
    unsigned i;

    transaction_close_cursors(history, random);
    trace("abort, level %u", history->depth);
    mdb_txn_abort(level->txn);
    history->depth--;
    for (i = 0; i < history->database_count; i++) {
        table_free(&history->databases[i].table);
        history->databases[i].table = level->saved[i];
        memset(&level->saved[i], 0, sizeof(level->saved[i]));
        history->databases[i].is_open = level->was_open[i];
    }
    for (i = 0; i < SLOTS_MAX; i++) {
        if (history->slots[i].cursor != NULL)
            history->slots[i].position = level->positions[i];
    }
}

static void transactions_end_all(struct history *history, struct random *random)
{
    while (history->depth > 0) {
        if (random_one_in(random, 4))
            transaction_abort(history, random);
        else
            transaction_commit(history, random);
    }
}

/* The innermost write transaction; there is one then. */
static MDB_txn *writer_need(struct history *history)
{
    if (history->depth == 0)
        transaction_begin(history);
    return history_txn(history);
}

static struct database *database_pick(struct history *history, struct random *random)
{
    struct database *database = &history->databases[0];

    if (history->database_count > 1 && random_one_in(random, 4))
        database = &history->databases[1];
    database_open(writer_need(history), database, MDB_CREATE);
    return database;
}

/* ==== Cursor slots ======================================================= */

static unsigned slot_number(const struct history *history, const struct slot *slot)
{
    return (unsigned)(slot - history->slots) % SLOTS_MAX;
}

static struct view slot_view(struct history *history, struct slot *slot)
{
    struct view view = { history, slot->database, &slot->database->table, &slot->position, slot->cursor, "" };

    snprintf(view.name, sizeof(view.name), "c%u", slot_number(history, slot));
    return view;
}

/* A cursor of the innermost transaction on a database, open; NULL if all slots are taken. */
static struct slot *slot_pick(struct history *history, struct random *random, struct database *database)
{
    unsigned first = (unsigned)random_below(random, SLOTS_MAX), i;
    struct slot *slot = NULL;

    for (i = 0; i < SLOTS_MAX; i++) {
        slot = &history->slots[(first + i) % SLOTS_MAX];
        if (slot->cursor == NULL)
            break;
        if (slot->level == history->depth && slot->database == database)
            return slot;
    }
    if (i == SLOTS_MAX)
        return NULL;
    EXPECT_OK(mdb_cursor_open(history_txn(history), database->dbi, &slot->cursor));
    trace("open cursor c%u", slot_number(history, slot));
    slot->level = history->depth;
    slot->database = database;
    memset(&slot->position, 0, sizeof(slot->position));
    return slot;
}

/* ==== Keys and values of a step ========================================== */

static MDB_val key_pick(struct random *random, const struct database *database,
                        unsigned char *bytes)
{
    const struct table *table = &database->table;
    MDB_val key;

    if (table->count == 0 || !random_one_in(random, 3))
        return pool_pick(&database->contents.keys, random, bytes);
    key = record_key(table->records[random_below(random, table->count)]);
    memcpy(bytes, key.mv_data, key.mv_size);
    return val_of(bytes, key.mv_size);
}

static MDB_val value_pick(struct history *history, struct random *random, const struct database *database,
                          unsigned char *bytes)
{
    if (contents_have_dups(&database->contents))
        return pool_pick(&database->contents.values, random, bytes);
    return value_make(random, history->plan.page_size, bytes);
}

/* ==== Puts =============================================================== */

/* What a put of this record must give. */
static int put_expected(const struct database *database, const MDB_val *key, const MDB_val *value, unsigned flags)
{
    const struct table *table = &database->table;
    size_t begin = table_find(database, table, key, NULL);
    int key_exists = table_holds(database, table, begin, key, NULL);

    if (key_exists && (flags & MDB_NOOVERWRITE))
        return MDB_KEYEXIST;
    if ((flags & MDB_APPEND) && begin < table->count)
        return MDB_KEYEXIST;
    if (!key_exists || !contents_have_dups(&database->contents))
        return MDB_SUCCESS;
    if ((flags & MDB_APPENDDUP) &&
        record_compare(&database->contents, table->records[set_end(database, table, begin) - 1], key, value) >= 0)
        return MDB_KEYEXIST;
    if ((flags & MDB_NODUPDATA) && table_holds(database, table, table_find(database, table, key, value), key, value))
        return MDB_KEYEXIST;
    return MDB_SUCCESS;
}

/* Puts a record into the model; returns its index. */
static size_t table_put(struct history *history, struct database *database, struct record *record)
{
    MDB_val key = record_key(record), value = record_value(record);
    size_t index = table_find(database, &database->table, &key, &value);

    if (!table_holds(database, &database->table, index, &key, &value))
        table_insert(history, database, index, record);
    else if (!contents_have_dups(&database->contents))
        database->table.records[index] = record;
    return index;
}

/* A put into the database, through the slot's cursor or, if slot is NULL, without; and into the model. */
static void put_and_check(struct history *history, struct database *database, struct slot *slot, const MDB_val *key,
                          const MDB_val *value, unsigned flags)
{
    char key_text[SHOWN_TEXT_SIZE], value_text[SHOWN_TEXT_SIZE], flags_text[PUT_FLAGS_TEXT_SIZE], slot_text[16] = "";
    struct record *record = record_make(history, key, value);
    MDB_val key_given = *key, value_given = *value, kept_key = record_key(record), kept_value = record_value(record);
    int expected = put_expected(database, key, value, flags), rc;
    size_t index;

    if (flags & MDB_RESERVE)
        value_given.mv_data = NULL;
    if (slot != NULL) {
        snprintf(slot_text, sizeof(slot_text), " by c%u", slot_number(history, slot));
        rc = mdb_cursor_put(slot->cursor, &key_given, &value_given, flags);
    } else {
        rc = mdb_put(history_txn(history), database->dbi, &key_given, &value_given, flags);
    }
    trace("put%s into %s: %s = %s, %s = %d", slot_text, database->name != NULL ? database->name : "main",
          bytes_show(key_text, kept_key.mv_data, kept_key.mv_size),
          bytes_show(value_text, kept_value.mv_data, kept_value.mv_size), put_flags_show(flags_text, flags), rc);
    EXPECT_CODE(rc, expected);
    if (rc == MDB_SUCCESS) {
        if ((flags & MDB_RESERVE) && kept_value.mv_size > 0)
            memcpy(value_given.mv_data, kept_value.mv_data, kept_value.mv_size);
        index = table_put(history, database, record);
        if (slot != NULL)
            position_set(&slot->position, index);
        return;
    }
    if (flags & MDB_NOOVERWRITE) {
        index = table_find(database, &database->table, &kept_key, NULL);
        kept_value = record_value(database->table.records[index]);
        EXPECT(val_equals(&value_given, &kept_value), "MDB_NOOVERWRITE does not give the value that is there");
    }
    if (slot != NULL)
        position_loosen(&slot->position);
}

static unsigned put_flags_pick(struct random *random, const struct database *database)
{
    static const unsigned plain[] = {
        0, MDB_NODUPDATA, MDB_APPENDDUP, MDB_NOOVERWRITE, MDB_APPEND, MDB_RESERVE, MDB_RESERVE | MDB_NOOVERWRITE,
        MDB_RESERVE | MDB_APPEND,
    };
    static const unsigned dups[] = {
        0, 0, 0, MDB_NOOVERWRITE, MDB_NODUPDATA, MDB_NODUPDATA | MDB_NOOVERWRITE, MDB_APPEND, MDB_APPENDDUP,
    };

    return (contents_have_dups(&database->contents) ? dups : plain)[random_below(random, 8)];
}

static void step_put(struct history *history, struct random *random)
{
    unsigned char key_bytes[KEY_SIZE_MAX + 1];
    static unsigned char value_bytes[VALUE_SIZE_MAX];
    struct database *database = database_pick(history, random);
    struct slot *slot = random_one_in(random, 2) ? slot_pick(history, random, database) : NULL;
    MDB_val key = key_pick(random, database, key_bytes);
    MDB_val value = value_pick(history, random, database, value_bytes);

    put_and_check(history, database, slot, &key, &value, put_flags_pick(random, database));
}

/* Many records: of one key or of many, in order, against it or across. */
static void step_put_many(struct history *history, struct random *random)
{
    static const unsigned counts[] = { 10, 20, 50, 100, 150, 600 };
    static const unsigned flags_of[] = { 0, 0, 0, MDB_NODUPDATA, MDB_APPEND, MDB_APPENDDUP };
    unsigned char key_bytes[KEY_SIZE_MAX + 1];
    static unsigned char value_bytes[VALUE_SIZE_MAX];
    struct database *database = database_pick(history, random);
    int has_dups = contents_have_dups(&database->contents), one_key = has_dups && !random_one_in(random, 3);
    struct slot *slot = random_one_in(random, 2) ? slot_pick(history, random, database) : NULL;
    unsigned flags = flags_of[random_below(random, 6)];
    uint64_t count = 1 + random_below(random, counts[random_below(random, 6)]), i;
    uint64_t first = random_below(random, 3000), order = random_below(random, 3);
    MDB_val key = key_pick(random, database, key_bytes), value;

    for (i = 0; i < count && database->table.count < RECORDS_MAX; i++) {
        uint64_t number = first + (order == 0 ? i : order == 1 ? count - i : i * 7919 % count);

        if (!one_key)
            key = pool_get(&database->contents.keys, number, key_bytes);
        if (one_key)
            value = pool_get(&database->contents.values, number, value_bytes);
        else
            value = value_pick(history, random, database, value_bytes);
        put_and_check(history, database, slot, &key, &value, flags);
    }
}

/* Puts the values of a batch into the model as MDB_MULTIPLE must; sets written. Returns what the call must give. */
static int multiple_expected(struct history *history, struct database *database, const MDB_val *key,
                             const unsigned char *batch, size_t count, unsigned flags, size_t *written)
{
    size_t width = database->contents.values.width, i;

    *written = 0;
    for (i = 0; (flags & MDB_APPENDDUP) && i < count; i++) {
        MDB_val value = val_of(batch + i * width, width), before = val_of(batch + (i - (i > 0)) * width, width);

        if (i == 0 ? put_expected(database, key, &value, flags) != MDB_SUCCESS
                   : database->contents.value_kind->order(&before, &value) >= 0)
            return MDB_KEYEXIST;
    }
    for (i = 0; i < count; i++) {
        MDB_val value = val_of(batch + i * width, width);
        size_t index = table_find(database, &database->table, key, &value);
        int exists = table_holds(database, &database->table, index, key, &value);

        if (exists && (flags & MDB_NODUPDATA))
            return MDB_KEYEXIST;
        if (!exists)
            table_insert(history, database, index, record_make(history, key, &value));
        *written = i + 1;
    }
    return MDB_SUCCESS;
}

static int values_compare(struct database *database, const unsigned char *a, const unsigned char *b)
{
    MDB_val a_val = val_of(a, database->contents.values.width), b_val = val_of(b, database->contents.values.width);

    return database->contents.value_kind->order(&a_val, &b_val);
}

static void values_sort(struct database *database, unsigned char *batch, size_t count)
{
    size_t width = database->contents.values.width, i, j;
    unsigned char moved[KEY_SIZE_MAX];

    for (i = 1; i < count; i++) {
        memcpy(moved, batch + i * width, width);
        for (j = i; j > 0 && values_compare(database, batch + (j - 1) * width, moved) > 0; j--)
            memcpy(batch + j * width, batch + (j - 1) * width, width);
        memcpy(batch + j * width, moved, width);
    }
}

static void step_put_multiple(struct history *history, struct random *random)
{
    static const unsigned flags_of[] = { 0, 0, MDB_NODUPDATA, MDB_APPENDDUP };
    static unsigned char batch[MULTIPLE_MAX * KEY_SIZE_MAX];
    unsigned char key_bytes[KEY_SIZE_MAX + 1];
    char key_text[SHOWN_TEXT_SIZE], flags_text[PUT_FLAGS_TEXT_SIZE];
    struct database *database = database_pick(history, random);
    size_t width = database->contents.values.width, count, written, i;
    struct slot *slot = slot_pick(history, random, database);
    unsigned flags = MDB_MULTIPLE | flags_of[random_below(random, 4)];
    MDB_val key, values[2];
    int expected, rc;

    if (slot == NULL || !contents_are_fixed(&database->contents) || database->table.count >= RECORDS_MAX)
        return;
    key = key_pick(random, database, key_bytes);
    count = random_below(random, random_one_in(random, 4) ? MULTIPLE_MAX : 20);
    for (i = 0; i < count; i++)
        pool_pick(&database->contents.values, random, batch + i * width);
    if (flags & MDB_APPENDDUP)
        values_sort(database, batch, count);
    values[0] = val_of(batch, width);
    values[1] = val_of(NULL, count);
    rc = mdb_cursor_put(slot->cursor, &key, values, flags);
    key = val_of(key_bytes, key.mv_size);
    expected = multiple_expected(history, database, &key, batch, count, flags, &written);
    trace("put by c%u of %zu values for %s, %s = %d, %zu written", slot_number(history, slot), count,
          bytes_show(key_text, key.mv_data, key.mv_size), put_flags_show(flags_text, flags), rc, values[1].mv_size);
    EXPECT_CODE(rc, expected);
    EXPECT(values[1].mv_size == written, "%zu written, expected %zu", values[1].mv_size, written);
    position_loosen(&slot->position);
}

/* MDB_CURRENT: the value where a cursor stands is replaced; other cursors stay on it. A duplicate that belongs at
 * another place among those of its key goes there. */
static void step_replace_current(struct history *history, struct random *random)
{
    static unsigned char value_bytes[VALUE_SIZE_MAX];
    char key_text[SHOWN_TEXT_SIZE], value_text[SHOWN_TEXT_SIZE];
    struct database *database = database_pick(history, random);
    struct slot *slot = slot_pick(history, random, database);
    MDB_val key, value = value_pick(history, random, database, value_bytes), given = value;
    size_t index, moved;
    int rc;

    if (slot == NULL || slot->position.place != PLACE_ON)
        return;
    index = slot->position.index;
    key = record_key(database->table.records[index]);
    moved = table_find(database, &database->table, &key, &value);
    if (moved != index && table_holds(database, &database->table, moved, &key, &value))
        return;
    rc = mdb_cursor_put(slot->cursor, &key, &given, MDB_CURRENT);
    trace("put by c%u: %s = %s, CURRENT = %d", slot_number(history, slot),
          bytes_show(key_text, key.mv_data, key.mv_size), bytes_show(value_text, value.mv_data, value.mv_size), rc);
    EXPECT_OK(rc);
    if (moved == index || moved == index + 1) {
        database->table.records[index] = record_make(history, &key, &value);
        table_widen_gaps(history, database, index);
        return;
    }
    table_loosen(history, database, index);
    table_delete(history, database, index);
    moved -= moved > index;
    table_insert(history, database, moved, record_make(history, &key, &value));
    position_set(&slot->position, moved);
}

/* ==== Arguments that point into the database ============================= */

/* Where record `index` lies in the database. */
static void record_locate(struct history *history, const struct database *database, size_t index, MDB_val *key,
                          MDB_val *value)
{
    const struct record *record = database->table.records[index];
    MDB_cursor *cursor;

    *key = record_key(record);
    *value = record_value(record);
    EXPECT_OK(mdb_cursor_open(history_txn(history), database->dbi, &cursor));
    EXPECT_OK(mdb_cursor_get(cursor, key, value,
                                      contents_have_dups(&database->contents) ? MDB_GET_BOTH : MDB_SET));
    EXPECT_OK(mdb_cursor_get(cursor, key, value, MDB_GET_CURRENT));
    mdb_cursor_close(cursor);
    EXPECT(record_matches(record, key, value), "GET_CURRENT gives another record");
}

static void delete_and_check(struct history *history, struct database *database, const MDB_val *key,
                             const MDB_val *value);

static void step_alias(struct history *history, struct random *random)
{
    unsigned char key_bytes[KEY_SIZE_MAX + 1];
    static unsigned char value_bytes[VALUE_SIZE_MAX];
    struct database *database = database_pick(history, random);
    struct slot *slot = random_one_in(random, 2) ? slot_pick(history, random, database) : NULL;
    MDB_val key, value, other_key, other_value;

    if (database->table.count == 0)
        return;
    record_locate(history, database, random_below(random, database->table.count), &key, &value);
    record_locate(history, database, random_below(random, database->table.count), &other_key, &other_value);
    switch (random_below(random, 4)) {
    case 0:
        put_and_check(history, database, slot, &key, &other_value, 0);
        break;
    case 1:
        key = key_pick(random, database, key_bytes);
        put_and_check(history, database, slot, &key, &value, 0);
        break;
    case 2:
        value = value_pick(history, random, database, value_bytes);
        put_and_check(history, database, slot, &key, &value, 0);
        break;
    default:
        delete_and_check(history, database, &key, random_one_in(random, 3) ? NULL : &value);
        break;
    }
}

/* ==== Deletes ============================================================ */

static void delete_and_check(struct history *history, struct database *database, const MDB_val *key,
                             const MDB_val *value)
{
    unsigned char key_bytes[KEY_SIZE_MAX + 1];
    static unsigned char value_bytes[VALUE_SIZE_MAX];
    char key_text[SHOWN_TEXT_SIZE], value_text[SHOWN_TEXT_SIZE] = "all";
    MDB_val key_given = *key, value_given = val_of(NULL, 0), key_kept, value_kept = value_given;
    size_t index;
    int expected, rc;

    memcpy(key_bytes, key->mv_data, key->mv_size);
    key_kept = val_of(key_bytes, key->mv_size);
    if (value != NULL) {
        value_given = *value;
        memcpy(value_bytes, value->mv_data, value->mv_size);
        value_kept = val_of(value_bytes, value->mv_size);
        bytes_show(value_text, value_bytes, value->mv_size);
    }
    index = table_find(database, &database->table, &key_kept, value != NULL ? &value_kept : NULL);
    expected = table_holds(database, &database->table, index, &key_kept, value != NULL ? &value_kept : NULL)
                   ? MDB_SUCCESS : MDB_NOTFOUND;
    rc = mdb_del(history_txn(history), database->dbi, &key_given, value != NULL ? &value_given : NULL);
    trace("delete from %s: %s, %s = %d", database->name != NULL ? database->name : "main",
          bytes_show(key_text, key_bytes, key_kept.mv_size), value_text, rc);
    EXPECT_CODE(rc, expected);
    while (rc == MDB_SUCCESS &&
           table_holds(database, &database->table, index, &key_kept, value != NULL ? &value_kept : NULL))
        table_delete(history, database, index);
}

static void step_delete(struct history *history, struct random *random)
{
    unsigned char key_bytes[KEY_SIZE_MAX + 1];
    static unsigned char value_bytes[VALUE_SIZE_MAX];
    struct database *database = database_pick(history, random);
    MDB_val key, value;

    if (database->table.count > 0 && random_one_in(random, 2)) {
        const struct record *record = database->table.records[random_below(random, database->table.count)];

        key = record_key(record);
        value = record_value(record);
    } else {
        key = key_pick(random, database, key_bytes);
        value = value_pick(history, random, database, value_bytes);
    }
    delete_and_check(history, database, &key, random_one_in(random, 4) ? NULL : &value);
}

/* Records next to each other, from either end; sometimes all. */
static void step_delete_many(struct history *history, struct random *random)
{
    struct database *database = database_pick(history, random);
    size_t count = database->table.count, first, i;
    int backward = random_one_in(random, 2);

    if (count == 0)
        return;
    first = random_below(random, count);
    count = 1 + random_below(random, random_one_in(random, 4) ? count : 60);
    if (random_one_in(random, 12)) {
        first = 0;
        count = database->table.count;
    }
    for (i = 0; i < count && first < database->table.count; i++) {
        size_t left = count - i < database->table.count - first ? count - i : database->table.count - first;
        const struct record *record = database->table.records[backward ? first + left - 1 : first];
        MDB_val key = record_key(record), value = record_value(record);

        delete_and_check(history, database, &key, &value);
    }
}

/* The cursor's record or, with MDB_NODUPDATA, its set, which begins at `first` and ends before `end`. */
static void cursor_delete_and_check(struct history *history, struct slot *slot, unsigned flags)
{
    struct database *database = slot->database;
    size_t index = slot->position.index, first = index, end = index + 1;
    int rc = mdb_cursor_del(slot->cursor, flags);

    trace("delete by c%u%s = %d", slot_number(history, slot),
          flags != 0 ? ", NODUPDATA" : "", rc);
    if (index == database->table.count) {
        EXPECT(rc == MDB_NOTFOUND || rc == EINVAL, "delete past the end gave %d", rc);
        return;
    }
    EXPECT_OK(rc);
    if (flags & MDB_NODUPDATA) {
        first = set_begin(database, &database->table, index);
        end = set_end(database, &database->table, index);
    }
    position_set(&slot->position, first);
    for (; end > first; end--)
        table_delete(history, database, first);
}

static void step_cursor_delete(struct history *history, struct random *random)
{
    struct database *database = database_pick(history, random);
    struct slot *slot = slot_pick(history, random, database);
    struct view view;

    if (slot == NULL)
        return;
    view = slot_view(history, slot);
    if (slot->position.place == PLACE_UNSET)
        EXPECT_CODE(mdb_cursor_del(slot->cursor, 0), EINVAL);
    if (slot->position.place == PLACE_UNSET || slot->position.place == PLACE_LOOSE || slot->position.slack > 0)
        return;
    if (slot->position.place == PLACE_GAP && gap_is_after_set(&view))
        return;
    cursor_delete_and_check(history, slot,
                            contents_have_dups(&database->contents) && random_one_in(random, 4) ? MDB_NODUPDATA : 0);
}

/* A walk that deletes some of what it meets still meets every record once. */
static void step_delete_walking(struct history *history, struct random *random)
{
    struct database *database = database_pick(history, random);
    struct slot *slot = slot_pick(history, random, database);
    int backward = random_one_in(random, 2);
    uint64_t chances = 1 + random_below(random, 4), left = 1 + random_below(random, 100);
    struct view view;

    if (slot == NULL || database->table.count == 0)
        return;
    if (random_one_in(random, 10))
        left = RECORDS_MAX;
    view = slot_view(history, slot);
    cursor_move(&view, backward ? MDB_LAST : MDB_FIRST);
    while (slot->position.place == PLACE_ON && left-- > 0) {
        size_t index = slot->position.index;

        if (random_one_in(random, chances))
            cursor_delete_and_check(history, slot, 0);
        if (index == (backward ? 0 : database->table.count - (slot->position.place == PLACE_ON)))
            break;
        cursor_move(&view, backward ? MDB_PREV : MDB_NEXT);
    }
}

/* ==== Reads and refusals ================================================= */

static void step_get(struct history *history, struct random *random)
{
    unsigned char key_bytes[KEY_SIZE_MAX + 1];
    struct database *database = database_pick(history, random);
    MDB_val key = key_pick(random, database, key_bytes), value;
    size_t index = table_find(database, &database->table, &key, NULL);
    int rc = mdb_get(history_txn(history), database->dbi, &key, &value);

    EXPECT_CODE(rc,
                table_holds(database, &database->table, index, &key, NULL) ? MDB_SUCCESS : MDB_NOTFOUND);
    if (rc == MDB_SUCCESS)
        verify_record(&database->table, index, &key, &value, "mdb_get");
    verify_stat(history, history_txn(history), database->dbi, &database->table);
}

/* One call of mdb_cursor_get through a view. */
static void view_step(const struct view *view, struct random *random)
{
    static const MDB_cursor_op ops[] = {
        MDB_FIRST, MDB_LAST, MDB_GET_CURRENT, MDB_NEXT, MDB_NEXT, MDB_NEXT, MDB_PREV, MDB_PREV, MDB_PREV, MDB_NEXT_DUP,
        MDB_PREV_DUP, MDB_NEXT_NODUP, MDB_PREV_NODUP, MDB_FIRST_DUP, MDB_LAST_DUP, MDB_SET, MDB_SET_KEY, MDB_SET_RANGE,
        MDB_GET_BOTH, MDB_GET_BOTH_RANGE, MDB_GET_MULTIPLE, MDB_NEXT_MULTIPLE, MDB_PREV_MULTIPLE,
    };
    MDB_cursor_op op = ops[random_below(random, sizeof(ops) / sizeof(ops[0]))];
    unsigned char key_bytes[KEY_SIZE_MAX + 1];
    static _Thread_local unsigned char value_bytes[VALUE_SIZE_MAX];
    MDB_val key = key_pick(random, view->database, key_bytes);
    MDB_val value = value_pick(view->history, random, view->database, value_bytes);
    size_t low, high;

    switch (op) {
    case MDB_SET:
        if (random_one_in(random, 4)) {
            cursor_set_key_only(view, &key);
            break;
        }
        /* fall through */
    case MDB_SET_KEY:
    case MDB_SET_RANGE:
        cursor_seek(view, op, &key, NULL);
        break;
    case MDB_GET_BOTH:
    case MDB_GET_BOTH_RANGE:
        cursor_seek(view, op, &key, &value);
        if (op == MDB_GET_BOTH_RANGE && contents_have_dups(&view->database->contents))
            cursor_check_still_on_key(view, &key, random);
        break;
    case MDB_GET_MULTIPLE:
    case MDB_NEXT_MULTIPLE:
    case MDB_PREV_MULTIPLE:
        if (view->position->place != PLACE_ON)
            break;
        if (!contents_are_fixed(&view->database->contents))
            EXPECT_CODE(mdb_cursor_get(view->cursor, &key, &value, op), MDB_INCOMPATIBLE);
        else if (random_one_in(random, 4))
            cursor_read_set_by_chunks(view);
        else
            cursor_get_chunk(view, op, &low, &high);
        break;
    default:
        cursor_move(view, op);
        break;
    }
}

static void step_cursor_get(struct history *history, struct random *random)
{
    struct slot *slot = slot_pick(history, random, database_pick(history, random));
    uint64_t left = 1 + random_below(random, 4);
    struct view view;

    if (slot == NULL)
        return;
    view = slot_view(history, slot);
    while (left-- > 0)
        view_step(&view, random);
}

static void step_cursor_count(struct history *history, struct random *random)
{
    struct database *database = database_pick(history, random);
    struct slot *slot = slot_pick(history, random, database);
    size_t count = 0, expected;
    struct view view;

    if (slot == NULL)
        return;
    view = slot_view(history, slot);
    if (!contents_have_dups(&database->contents)) {
        if (slot->position.place == PLACE_ON)
            EXPECT_CODE(mdb_cursor_count(slot->cursor, &count), MDB_INCOMPATIBLE);
    } else if (slot->position.place == PLACE_UNSET) {
        EXPECT_CODE(mdb_cursor_count(slot->cursor, &count), EINVAL);
    } else if (slot->position.place == PLACE_ON || (slot->position.place == PLACE_GAP && gap_is_inside_set(&view))) {
        EXPECT_OK(mdb_cursor_count(slot->cursor, &count));
        expected = set_end(database, &database->table, slot->position.index) -
                   set_begin(database, &database->table, slot->position.index);
        EXPECT(count == expected, "%s counts %zu duplicates, there are %zu", view.name, count, expected);
    }
}

/* Calls with arguments of a wrong size: refused, and the transaction is as before. */
static void step_wrong_size(struct history *history, struct random *random)
{
    static unsigned char bytes[KEY_SIZE_MAX + 2];
    unsigned char key_bytes[KEY_SIZE_MAX + 1];
    struct database *database = database_pick(history, random);
    const struct contents *contents = &database->contents;
    MDB_txn *txn = history_txn(history);
    MDB_val key = key_pick(random, database, key_bytes), value = val_of(bytes, 1), wrong;
    size_t index;

    wrong = val_of(bytes, 0);
    EXPECT_CODE(mdb_put(txn, database->dbi, &wrong, &value, 0), MDB_BAD_VALSIZE);
    wrong = val_of(bytes, contents->keys.width == 0 ? history->key_max + 1 : 5);
    EXPECT_CODE(mdb_put(txn, database->dbi, &wrong, &value, 0), MDB_BAD_VALSIZE);
    if (contents->keys.width > 0 && database->table.count > 0) {
        wrong = val_of(bytes, 12 - contents->keys.width);
        EXPECT_CODE(mdb_put(txn, database->dbi, &wrong, &value, 0), MDB_BAD_VALSIZE);
        EXPECT_CODE(mdb_get(txn, database->dbi, &wrong, &value), MDB_BAD_VALSIZE);
        EXPECT_CODE(mdb_del(txn, database->dbi, &wrong, NULL), MDB_BAD_VALSIZE);
    }
    if (contents_have_dups(contents)) {
        wrong = val_of(bytes, history->key_max + 1);
        EXPECT_CODE(mdb_put(txn, database->dbi, &key, &wrong, 0), MDB_BAD_VALSIZE);
    }
    EXPECT_CODE(mdb_put(txn, database->dbi, &key, &value, MDB_MULTIPLE), EINVAL);
    index = table_find(database, &database->table, &key, NULL);
    if (contents->values.width > 0 && table_holds(database, &database->table, index, &key, NULL)) {
        wrong = val_of(bytes, contents->values.width + 1);
        EXPECT_CODE(mdb_put(txn, database->dbi, &key, &wrong, 0), MDB_BAD_VALSIZE);
        wrong = val_of(bytes, contents->values.width - 1);
        EXPECT_CODE(mdb_put(txn, database->dbi, &key, &wrong, MDB_APPENDDUP), MDB_BAD_VALSIZE);
    }
}

static void step_verify(struct history *history, struct random *random)
{
    struct database *database = database_pick(history, random);

    verify_database(history, history_txn(history), database->dbi, database);
}

/* ==== Readers ============================================================
 * A read transaction sees its snapshot to its end. With MDB_NOTLS its calls are made here, else in a thread of their
 * own, which has room for one. */

static unsigned reader_number(const struct history *history, const struct reader *reader)
{
    return (unsigned)(reader - history->readers) % READERS_MAX;
}

static struct view reader_view(struct history *history, struct reader *reader)
{
    struct slot *slot = &reader->slot;
    struct view view = { history, slot->database, &slot->database->table, &slot->position, slot->cursor, "" };

    snprintf(view.name, sizeof(view.name), "r%u", reader_number(history, reader));
    return view;
}

static void reader_take_pins(struct history *history, struct reader *reader, struct random *random)
{
    unsigned i;

    reader->pin_count = 0;
    for (i = 0; i < PINS_MAX; i++) {
        const struct database *database = &reader->databases[random_below(random, history->database_count)];
        struct pin *pin = &reader->pins[reader->pin_count];
        MDB_val key, value;
        size_t index;

        if (!database->is_open || database->table.count == 0)
            continue;
        index = random_below(random, database->table.count);
        key = record_key(database->table.records[index]);
        EXPECT_OK(mdb_get(reader->txn, database->dbi, &key, &value));
        pin->value = value.mv_data;
        pin->record = database->table.records[set_begin(database, &database->table, index)];
        reader->pin_count++;
    }
}

static void reader_check_pins(const struct reader *reader)
{
    unsigned i;

    for (i = 0; i < reader->pin_count; i++) {
        MDB_val expected = record_value(reader->pins[i].record);
        MDB_val found = val_of(reader->pins[i].value, expected.mv_size);

        EXPECT(val_equals(&found, &expected), "a value changed under a read transaction");
    }
}

static void reader_open_cursor(struct history *history, struct reader *reader)
{
    unsigned i;

    for (i = 0; i < history->database_count; i++) {
        if (reader->databases[i].is_open) {
            reader->slot.database = &reader->databases[i];
            EXPECT_OK(mdb_cursor_open(reader->txn, reader->databases[i].dbi, &reader->slot.cursor));
            memset(&reader->slot.position, 0, sizeof(reader->slot.position));
            return;
        }
    }
}

/* The snapshot is what was committed last, of the databases whose handles all transactions may use. */
static void reader_take_snapshot(struct history *history, struct reader *reader)
{
    unsigned i;

    for (i = 0; i < history->database_count; i++) {
        const struct database *database = &history->databases[i];
        struct database *mine = &reader->databases[i];

        table_free(&mine->table);
        *mine = *database;
        table_copy(&mine->table, history->depth > 0 ? &history->levels[0].saved[i] : &database->table);
        mine->is_open = database->is_shared && mine->table.exists;
    }
}

static void reader_begin(struct history *history, struct reader *reader, struct random *random)
{
    EXPECT_OK(mdb_txn_begin(history->env, NULL, MDB_RDONLY, &reader->txn));
    trace("reader r%u begins", reader_number(history, reader));
    reader_take_snapshot(history, reader);
    reader_take_pins(history, reader, random);
    reader_open_cursor(history, reader);
}

static void reader_check(struct history *history, struct reader *reader, struct random *random)
{
    uint64_t left = 1 + random_below(random, 8);
    struct view view;
    unsigned i;

    reader_check_pins(reader);
    if (reader->slot.cursor != NULL) {
        view = reader_view(history, reader);
        while (left-- > 0)
            view_step(&view, random);
    }
    for (i = 0; random_one_in(random, 3) && i < history->database_count; i++) {
        if (reader->databases[i].is_open)
            verify_database(history, reader->txn, reader->databases[i].dbi, &reader->databases[i]);
    }
}

static void reader_reset(struct history *history, struct reader *reader)
{
    reader_check_pins(reader);
    trace("reader r%u is reset", reader_number(history, reader));
    mdb_txn_reset(reader->txn);
    reader->pin_count = 0;
    reader->is_reset = 1;
}

static void reader_renew(struct history *history, struct reader *reader, struct random *random)
{
    EXPECT_OK(mdb_txn_renew(reader->txn));
    trace("reader r%u is renewed", reader_number(history, reader));
    reader->is_reset = 0;
    reader_take_snapshot(history, reader);
    reader_take_pins(history, reader, random);
    if (reader->slot.cursor == NULL) {
        reader_open_cursor(history, reader);
    } else {
        EXPECT_OK(mdb_cursor_renew(reader->txn, reader->slot.cursor));
        memset(&reader->slot.position, 0, sizeof(reader->slot.position));
    }
}

/* The cursor of a read transaction may be closed before or after the end of its transaction. */
static void reader_end(struct history *history, struct reader *reader, struct random *random)
{
    MDB_cursor *cursor = reader->slot.cursor;
    unsigned i;

    trace("reader r%u ends", reader_number(history, reader));
    if (!reader->is_reset)
        reader_check_pins(reader);
    if (cursor != NULL && random_one_in(random, 2)) {
        mdb_cursor_close(cursor);
        cursor = NULL;
    }
    if (reader->is_reset || random_one_in(random, 2))
        mdb_txn_abort(reader->txn);
    else
        EXPECT_OK(mdb_txn_commit(reader->txn));
    if (cursor != NULL)
        mdb_cursor_close(cursor);
    for (i = 0; i < DATABASES_MAX; i++)
        table_free(&reader->databases[i].table);
    memset(reader, 0, sizeof(*reader));
}

static void readers_work(struct history *history, struct random *random)
{
    struct reader *reader = &history->readers[random_below(random, history->readers_max)];

    if (reader->txn == NULL)
        reader_begin(history, reader, random);
    else if (reader->is_reset)
        reader_renew(history, reader, random);
    else if (random_one_in(random, 8))
        reader_end(history, reader, random);
    else if (random_one_in(random, 6))
        reader_reset(history, reader);
    else
        reader_check(history, reader, random);
}

static void readers_end(struct history *history, struct random *random)
{
    unsigned i;

    for (i = 0; i < history->readers_max; i++) {
        if (history->readers[i].txn != NULL)
            reader_end(history, &history->readers[i], random);
    }
}

static int readers_are_alive(const struct history *history)
{
    unsigned i;

    for (i = 0; i < history->readers_max; i++) {
        if (history->readers[i].txn != NULL)
            return 1;
    }
    return 0;
}

/* ==== The thread of the readers ========================================== */

/* Runs when the thread ends, which it may do in the middle of a job, by a check that fails. */
static void worker_ended(void *argument)
{
    struct history *history = argument;
    struct worker *worker = &history->worker;

    pthread_mutex_lock(&worker->mutex);
    worker->job = NULL;
    worker->is_running = 0;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->mutex);
}

static void *worker_run(void *argument)
{
    struct history *history = argument;
    struct worker *worker = &history->worker;

    pthread_cleanup_push(worker_ended, history);
    for (;;) {
        pthread_mutex_lock(&worker->mutex);
        while (worker->job == NULL && !worker->must_stop)
            pthread_cond_wait(&worker->changed, &worker->mutex);
        pthread_mutex_unlock(&worker->mutex);
        if (worker->job == NULL)
            break;
        worker->job(history, worker->random);
        pthread_mutex_lock(&worker->mutex);
        worker->job = NULL;
        pthread_cond_broadcast(&worker->changed);
        pthread_mutex_unlock(&worker->mutex);
    }
    pthread_cleanup_pop(1);
    return NULL;
}

/* Does a job of the readers, in their thread if they have one, and waits for its end. */
static void readers_call(struct history *history, void (*job)(struct history *, struct random *),
                         struct random *random)
{
    struct worker *worker = &history->worker;
    int is_running;

    if (history->readers_max == 0)
        return;
    if (!worker->is_running) {
        job(history, random);
        return;
    }
    pthread_mutex_lock(&worker->mutex);
    worker->random = random;
    worker->job = job;
    pthread_cond_broadcast(&worker->changed);
    while (worker->job != NULL)
        pthread_cond_wait(&worker->changed, &worker->mutex);
    is_running = worker->is_running;
    pthread_mutex_unlock(&worker->mutex);
    EXPECT(is_running, "a check failed in the thread of the readers");
}

static void readers_start(struct history *history)
{
    struct worker *worker = &history->worker;
    unsigned flags = history->plan.env_kind->flags;

    history->readers_max = flags & MDB_NOLOCK ? 0 : flags & MDB_NOTLS ? READERS_MAX : 1;
    if (flags & (MDB_NOLOCK | MDB_NOTLS))
        return;
    pthread_mutex_init(&worker->mutex, NULL);
    pthread_cond_init(&worker->changed, NULL);
    worker->is_running = 1;
    CHECK_EQ(pthread_create(&worker->thread, NULL, worker_run, history), 0);
}

static void readers_stop(struct history *history)
{
    struct worker *worker = &history->worker;

    if (!worker->is_running)
        return;
    pthread_mutex_lock(&worker->mutex);
    worker->must_stop = 1;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->mutex);
    pthread_join(worker->thread, NULL);
    pthread_cond_destroy(&worker->changed);
    pthread_mutex_destroy(&worker->mutex);
}

static void step_reader(struct history *history, struct random *random)
{
    readers_call(history, readers_work, random);
}

/* ==== Transactions, drops, reopening ===================================== */

static void step_nest(struct history *history, struct random *random)
{
    (void)random;
    if (history->depth > 0 && history->depth < LEVELS_MAX)
        transaction_begin(history);
}

static void step_commit(struct history *history, struct random *random)
{
    if (history->depth > 0)
        transaction_commit(history, random);
}

static void step_abort(struct history *history, struct random *random)
{
    if (history->depth > 0)
        transaction_abort(history, random);
}

static void step_close_cursor(struct history *history, struct random *random)
{
    unsigned i = (unsigned)random_below(random, SLOTS_MAX);

    if (history->slots[i].cursor != NULL && history->slots[i].level == history->depth) {
        mdb_cursor_close(history->slots[i].cursor);
        history->slots[i].cursor = NULL;
        trace("close cursor c%u", i);
    }
}

static void step_empty(struct history *history, struct random *random)
{
    struct database *database = database_pick(history, random);

    EXPECT_OK(mdb_drop(history_txn(history), database->dbi, 0));
    trace("empty %s", database->name != NULL ? database->name : "main");
    table_clear(history, database);
}

static int database_has_cursors(const struct history *history, const struct database *database)
{
    unsigned i;

    for (i = 0; i < SLOTS_MAX; i++) {
        if (history->slots[i].cursor != NULL && history->slots[i].database == database)
            return 1;
    }
    return 0;
}

/* The database goes, its handle too, at once and for all transactions. */
static void step_drop(struct history *history, struct random *random)
{
    struct database *database = database_pick(history, random);
    unsigned i;

    if (database->name == NULL || database_has_cursors(history, database) || readers_are_alive(history))
        return;
    EXPECT_OK(mdb_drop(history_txn(history), database->dbi, 1));
    trace("drop %s", database->name);
    table_clear(history, database);
    database->table.exists = 0;
    database->is_open = 0;
    database->is_shared = 0;
    for (i = 0; i < history->depth; i++)
        history->levels[i].was_open[database - history->databases] = 0;
    EXPECT_CODE(mdb_dbi_open(history_txn(history), database->name, 0, &database->dbi), MDB_NOTFOUND);
}

/* Opens the environment: a new one if there is none, else that of the history so far, which is verified. */
static void history_open(struct history *history)
{
    unsigned page_size = history->step == 0 ? history->plan.page_size : 0, i;
    MDB_txn *txn;

    history->env = env_open_sized(history->path, history->plan.env_kind->flags, map_size, DATABASES_MAX, page_size);
    history->key_max = (size_t)mdb_env_get_maxkeysize(history->env);
    EXPECT_OK(mdb_txn_begin(history->env, NULL, MDB_RDONLY, &txn));
    for (i = 0; i < history->database_count; i++) {
        struct database *database = &history->databases[i];

        database->is_open = 0;
        if (database->table.exists) {
            database_open(txn, database, 0);
            verify_database(history, txn, database->dbi, database);
        } else if (database->name != NULL) {
            EXPECT_CODE(mdb_dbi_open(txn, database->name, 0, &database->dbi), MDB_NOTFOUND);
        }
        database->is_shared = database->is_open;
    }
    EXPECT_OK(mdb_txn_commit(txn));
}

static int history_has_custom_order(const struct history *history)
{
    unsigned i;

    for (i = 0; i < history->database_count; i++) {
        if (contents_are_custom(&history->databases[i].contents))
            return 1;
    }
    return 0;
}

static void history_close(struct history *history, struct random *random)
{
    readers_call(history, readers_end, random);
    transactions_end_all(history, random);
    mdb_env_close(history->env);
    trace("close");
    run_check_tool_on(history->path, history_has_custom_order(history));
}

static void step_reopen(struct history *history, struct random *random)
{
    history_close(history, random);
    history_open(history);
}

/* ==== Running a history ================================================== */

static const struct step_kind {
    unsigned weight;
    void (*run)(struct history *, struct random *);
} step_kinds[] = {
    { 20, step_put }, { 6, step_put_many }, { 4, step_put_multiple }, { 6, step_replace_current }, { 4, step_alias },
    { 14, step_delete }, { 5, step_delete_many }, { 10, step_cursor_delete }, { 3, step_delete_walking },
    { 5, step_get }, { 26, step_cursor_get }, { 4, step_cursor_count }, { 2, step_wrong_size }, { 3, step_verify },
    { 12, step_reader }, { 5, step_nest }, { 7, step_commit }, { 3, step_abort }, { 3, step_close_cursor },
    { 1, step_empty }, { 2, step_drop }, { 1, step_reopen },
};

enum { STEP_KINDS = sizeof(step_kinds) / sizeof(step_kinds[0]) };

/* Where other handles changed things, cursors stay on their record. */
static void history_check_cursors(struct history *history, struct random *random)
{
    unsigned i;

    for (i = 0; i < SLOTS_MAX; i++) {
        struct slot *slot = &history->slots[i];

        if (slot->cursor != NULL && slot->level == history->depth &&
            random_one_in(random, slot->position.place == PLACE_ON ? 2 : 6)) {
            struct view view = slot_view(history, slot);

            cursor_move(&view, MDB_GET_CURRENT);
        }
    }
}

static void history_run_step(struct history *history)
{
    struct random random = plan_random(&history->plan, history->step);
    unsigned weights = 0, chosen, i;

    for (i = 0; i < STEP_KINDS; i++)
        weights += step_kinds[i].weight;
    chosen = (unsigned)random_below(&random, weights);
    for (i = 0; chosen >= step_kinds[i].weight; i++)
        chosen -= step_kinds[i].weight;
    step_kinds[i].run(history, &random);
    history_check_cursors(history, &random);
}

static void history_init(struct history *history, const struct plan *plan)
{
    struct random random = { plan->seed };
    size_t path_size;
    const struct value_kind *other = &value_kinds[random_below(&random, VALUE_KINDS)];
    /* The longest key depends on the page size; the library tells it only when the environment is open. */
    size_t key_max = plan->page_size < 2048 ? ((plan->page_size - 16) / 2 & ~(size_t)1) - 58 : KEY_SIZE_MAX;

    history->plan = *plan;
    contents_init(&history->databases[0].contents, plan->key_kind, plan->value_kind, &random, key_max);
    contents_init(&history->databases[1].contents, &key_kinds[random_below(&random, KEY_KINDS)], other, &random,
                  key_max);
    history->databases[0].name = plan->is_named ? "first" : NULL;
    history->databases[1].name = "second";
    history->database_count = plan->is_named ? 2 : 1;
    history->directory = temp_dir_make();
    path_size = strlen(history->directory) + sizeof("/data");
    history->path = malloc(path_size);
    CHECK(history->path != NULL);
    snprintf(history->path, path_size, "%s%s", history->directory,
             plan->env_kind->flags & MDB_NOSUBDIR ? "/data" : "");
}

static void history_free(struct history *history)
{
    struct record *record;
    unsigned i;

    for (i = 0; i < DATABASES_MAX; i++)
        table_free(&history->databases[i].table);
    while ((record = history->records) != NULL) {
        history->records = record->made_before;
        free(record);
    }
    free(history->path);
    temp_dir_remove(history->directory);
    free(history);
}

static void history_run(const struct plan *plan)
{
    /* A history that fails is not freed: its thread may still wait. */
    struct history *history = calloc(1, sizeof(*history));
    struct random random = { plan->seed + 1 };

    CHECK(history != NULL);
    plan_note(plan, 0);
    history_init(history, plan);
    readers_start(history);
    history_open(history);
    for (history->step = 1; history->step <= plan->steps; history->step++) {
        plan_note(plan, history->step);
        if (plan_wants(plan, history->step))
            history_run_step(history);
    }
    history_close(history, &random);
    history_open(history);
    history_close(history, &random);
    readers_stop(history);
    history_free(history);
}

/* ==== The tests: all configurations of one kind of values ================ */

/* The page size that the environment asks for, else the system's and now and then another. */
static unsigned page_size_pick(struct random *random)
{
    static const unsigned sizes[] = { 1024, 2048, 8192, 32768 };

    if (getenv("MDB_TEST_PAGESIZE") != NULL || !random_one_in(random, 4))
        return test_page_size();
    return sizes[random_below(random, sizeof(sizes) / sizeof(sizes[0]))];
}

static void histories_run(const struct value_kind *value_kind)
{
    unsigned scale = test_scale(), count = KEY_KINDS * ENV_KINDS * 2 * scale, i;
    struct random random = { test_seed() };
    struct plan plan;

    for (i = 0; i < count; i++) {
        memset(&plan, 0, sizeof(plan));
        plan.value_kind = value_kind;
        plan.is_named = i % 2 == 0;
        plan.key_kind = &key_kinds[i / 2 % KEY_KINDS];
        plan.env_kind = &env_kinds[i / 2 / KEY_KINDS % ENV_KINDS];
        plan.page_size = page_size_pick(&random);
        plan.seed = test_seed() * 1000003 + i;
        plan.steps = scale == 1 ? DEFAULT_STEPS : DEFAULT_STEPS * (1 + i % 8);
        history_run(&plan);
    }
}

TEST(single_values_match_the_model)
{
    histories_run(&value_kinds[0]);
}

TEST(duplicates_match_the_model)
{
    histories_run(&value_kinds[1]);
}

TEST(fixed_duplicates_match_the_model)
{
    histories_run(&value_kinds[2]);
}

TEST(integer_duplicates_match_the_model)
{
    histories_run(&value_kinds[3]);
}

TEST(reversed_duplicates_match_the_model)
{
    histories_run(&value_kinds[4]);
}

TEST(duplicates_in_custom_order_match_the_model)
{
    histories_run(&value_kinds[5]);
}

TEST(fixed_duplicates_in_custom_order_match_the_model)
{
    histories_run(&value_kinds[6]);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(single_values_match_the_model),
        TEST_ENTRY(duplicates_match_the_model),
        TEST_ENTRY(fixed_duplicates_match_the_model),
        TEST_ENTRY(integer_duplicates_match_the_model),
        TEST_ENTRY(reversed_duplicates_match_the_model),
        TEST_ENTRY(duplicates_in_custom_order_match_the_model),
        TEST_ENTRY(fixed_duplicates_in_custom_order_match_the_model),
    };

    return history_main(argc, argv, tests, TEST_COUNT(tests), history_run);
}
