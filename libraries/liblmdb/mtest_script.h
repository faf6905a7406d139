/* Scripts: what cursors do and answer, as text.
 *
 * A script is a list of steps with commas between; a step is the name of a call, its arguments and the expected result:
 *
 *     FIRST a=1, NEXT b=2, del ok, GET_CURRENT c=3, SET_RANGE bb c=3, GET_BOTH a 1 a=1, put d=4 ok, count 1
 *
 *     FIRST, NEXT ...           mdb_cursor_get with this operation; the result is the record, or the name of the code
 *     SET, SET_KEY, SET_RANGE   take a key
 *     GET_BOTH, GET_BOTH_RANGE  take a key and a value
 *     ..._MULTIPLE              the result is the values, without a key
 *     put, cput, ccurrent       mdb_put, mdb_cursor_put, mdb_cursor_put with MDB_CURRENT; they take a record
 *     mdel                      mdb_del; takes a key or a record
 *     del, delall               mdb_cursor_del, the same with MDB_NODUPDATA
 *     count                     mdb_cursor_count; the result is a number
 *     drop                      mdb_drop(0)
 *
 * A step may begin with the number of one of several cursors ("2:NEXT a=1"); without, it is cursor 1. The expected
 * result "error" stands for any but ok, "-" for the empty value or key. */
#ifndef MTEST_SCRIPT_H
#define MTEST_SCRIPT_H

#include "mtest_common.h"

enum { SCRIPT_CURSORS = 4, SCRIPT_WORDS = 5 };

struct script {
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_cursor *cursors[SCRIPT_CURSORS + 1];
};

struct script_step {
    int cursor;
    int word_count;
    const char *words[SCRIPT_WORDS];
    char text[256];
};

struct script_op {
    const char *name;
    MDB_cursor_op op;
    int arguments;
};

static inline const struct script_op *script_op_find(const char *name)
{
    static const struct script_op ops[] = {
        { "FIRST", MDB_FIRST, 0 },
        { "FIRST_DUP", MDB_FIRST_DUP, 0 },
        { "GET_BOTH", MDB_GET_BOTH, 2 },
        { "GET_BOTH_RANGE", MDB_GET_BOTH_RANGE, 2 },
        { "GET_CURRENT", MDB_GET_CURRENT, 0 },
        { "GET_MULTIPLE", MDB_GET_MULTIPLE, 0 },
        { "LAST", MDB_LAST, 0 },
        { "LAST_DUP", MDB_LAST_DUP, 0 },
        { "NEXT", MDB_NEXT, 0 },
        { "NEXT_DUP", MDB_NEXT_DUP, 0 },
        { "NEXT_MULTIPLE", MDB_NEXT_MULTIPLE, 0 },
        { "NEXT_NODUP", MDB_NEXT_NODUP, 0 },
        { "PREV", MDB_PREV, 0 },
        { "PREV_DUP", MDB_PREV_DUP, 0 },
        { "PREV_NODUP", MDB_PREV_NODUP, 0 },
        { "SET", MDB_SET, 1 },
        { "SET_KEY", MDB_SET_KEY, 1 },
        { "SET_RANGE", MDB_SET_RANGE, 1 },
        { "PREV_MULTIPLE", MDB_PREV_MULTIPLE, 0 },
    };
    size_t i;

    for (i = 0; i < ARRAY_COUNT(ops); i++) {
        if (strcmp(ops[i].name, name) == 0)
            return &ops[i];
    }
    return NULL;
}

/* Splits the step that text begins with into words; gives the rest of the text. */
static inline const char *script_step_read(const char *text, struct script_step *step)
{
    size_t size;
    char *word;

    text += strspn(text, " ");
    size = strcspn(text, ",");
    CHECK(size < sizeof(step->text));
    memcpy(step->text, text, size);
    step->text[size] = '\0';
    text += size;
    step->cursor = 1;
    step->word_count = 0;
    word = step->text;
    if (word[0] != '\0' && word[1] == ':') {
        step->cursor = word[0] - '0';
        CHECK(step->cursor >= 1 && step->cursor <= SCRIPT_CURSORS);
        word += 2;
    }
    for (word = strtok(word, " "); word != NULL; word = strtok(NULL, " ")) {
        CHECK(step->word_count < SCRIPT_WORDS);
        step->words[step->word_count++] = word;
    }
    CHECK(step->word_count >= 2);
    return *text == ',' ? text + 1 : text;
}

static inline MDB_val script_val(const char *text, size_t size)
{
    return size == 1 && *text == '-' ? val_of(text, 0) : val_of(text, size);
}

/* Key and value of "key=value", or a key alone. Gives whether there is a value. */
static inline int script_record(const char *text, MDB_val *key, MDB_val *data)
{
    const char *equal = strchr(text, '=');

    *key = script_val(text, equal != NULL ? (size_t)(equal - text) : strlen(text));
    if (equal == NULL)
        return 0;
    *data = script_val(equal + 1, strlen(equal + 1));
    return 1;
}

static inline const char *script_get(MDB_cursor *cursor, const struct script_op *op, const struct script_step *step)
{
    static char text[TEXT_SIZE_MAX];
    MDB_val key = val_text("?"), data = val_text("?");
    int rc;

    if (op->arguments > 0)
        key = script_val(step->words[1], strlen(step->words[1]));
    if (op->arguments > 1)
        data = script_val(step->words[2], strlen(step->words[2]));
    rc = mdb_cursor_get(cursor, &key, &data, op->op);
    if (rc != MDB_SUCCESS)
        return code_text(rc);
    record_append(text, text + sizeof(text), &key, &data);
    if (op->op == MDB_GET_MULTIPLE || op->op == MDB_NEXT_MULTIPLE || op->op == MDB_PREV_MULTIPLE)
        return text + key.mv_size + 1;
    return text;
}

static inline const char *script_count(MDB_cursor *cursor)
{
    static char text[32];
    mdb_size_t count;
    int rc = mdb_cursor_count(cursor, &count);

    if (rc != MDB_SUCCESS)
        return code_text(rc);
    snprintf(text, sizeof(text), "%zu", count);
    return text;
}

/* A step that changes the database. */
static inline const char *script_change(struct script *script, MDB_cursor *cursor, const struct script_step *step)
{
    const char *name = step->words[0];
    MDB_val key = val_text(""), data = val_text("");
    int has_data = script_record(step->words[1], &key, &data);

    if (strcmp(name, "put") == 0)
        return code_text(mdb_put(script->txn, script->dbi, &key, &data, 0));
    if (strcmp(name, "cput") == 0)
        return code_text(mdb_cursor_put(cursor, &key, &data, 0));
    if (strcmp(name, "ccurrent") == 0)
        return code_text(mdb_cursor_put(cursor, &key, &data, MDB_CURRENT));
    if (strcmp(name, "mdel") == 0)
        return code_text(mdb_del(script->txn, script->dbi, &key, has_data ? &data : NULL));
    if (strcmp(name, "del") == 0)
        return code_text(mdb_cursor_del(cursor, 0));
    if (strcmp(name, "delall") == 0)
        return code_text(mdb_cursor_del(cursor, MDB_NODUPDATA));
    CHECK_TEXT(name, "drop");
    return code_text(mdb_drop(script->txn, script->dbi, 0));
}

static inline const char *script_step_do(struct script *script, const struct script_step *step)
{
    const struct script_op *op = script_op_find(step->words[0]);
    MDB_cursor **cursor = &script->cursors[step->cursor];

    if (*cursor == NULL)
        CHECK_OK(mdb_cursor_open(script->txn, script->dbi, cursor));
    if (op != NULL) {
        CHECK_EQ(step->word_count, op->arguments + 2);
        return script_get(*cursor, op, step);
    }
    if (strcmp(step->words[0], "count") == 0)
        return script_count(*cursor);
    return script_change(script, *cursor, step);
}

/* Runs a script with new cursors, and checks each result. */
static inline void script_run(MDB_txn *txn, MDB_dbi dbi, const char *text)
{
    struct script script = { .txn = txn, .dbi = dbi };
    struct script_step step;
    const char *rest = text, *result, *expected;
    int i, number = 0;

    while (*rest != '\0') {
        rest = script_step_read(rest, &step);
        number++;
        expected = step.words[step.word_count - 1];
        test_note("step %d (%s) of: %s", number, step.words[0], text);
        result = script_step_do(&script, &step);
        if (strcmp(expected, "error") == 0)
            CHECK(strcmp(result, "ok") != 0);
        else
            CHECK_TEXT(result, expected);
    }
    test_state.note[0] = '\0';
    for (i = 0; i <= SCRIPT_CURSORS; i++)
        mdb_cursor_close(script.cursors[i]);
}

/* A script with the records before and after. */
struct script_case {
    unsigned db_flags;
    const char *before;
    const char *steps;
    const char *after;          /* NULL: as before */
};

/* Runs each script twice: on records of the same transaction and on committed ones. */
static inline void script_cases_run(const struct script_case *cases, size_t count)
{
    size_t i;
    int committed;

    for (i = 0; i < count; i++) {
        for (committed = 0; committed < 2; committed++) {
            struct scene scene;

            scene_open(&scene, MDB_NOSYNC, cases[i].db_flags);
            put_records(scene.txn, scene.dbi, cases[i].before);
            if (committed)
                scene_commit(&scene);
            script_run(scene.txn, scene.dbi, cases[i].steps);
            test_note("after: %s", cases[i].steps);
            CHECK_CONTENTS(scene.txn, scene.dbi, cases[i].after != NULL ? cases[i].after : cases[i].before);
            scene_close(&scene);
        }
    }
}

#endif
