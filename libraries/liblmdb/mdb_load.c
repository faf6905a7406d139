/* mdb_load: stores what mdb_dump wrote.
 *
 * Input is read line by line into a batch, in memory, that is then stored in one transaction; so malformed input is
 * found before anything of its batch is written, and a batch that did not fit the map is simply stored again after the
 * map has grown. A batch never holds records of two databases. */
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>

#include "mdb_tool.h"

enum {
    BATCH_SIZE = 16 << 20,      /* bytes from which on a batch is stored; one record may be larger */
    BATCH_ALIGNMENT = 8,        /* of keys and values in a batch: integer keys are read as such */
    MAP_SIZE_UNIT = 1 << 16,    /* a multiple of any page size */
    PAGE_SIZE_LEAST = 512,
    PAGE_SIZE_MOST = 32768,
    DUMP_VERSION = 3,
};

struct options {
    const char *input;          /* file to read; NULL: stdin as it is */
    const char *database;       /* where records go if no header line says otherwise; NULL: the main database */
    unsigned put_flags;
    bool append;
    bool plain_text;
};

struct line {
    char *text;                 /* without its newline; followed by a NUL, and may hold others */
    size_t length;
    size_t room;
    uint64_t number;            /* from 1; of the last line read */
};

/* What a header tells. */
struct section {
    char *database;             /* NULL: the main one */
    unsigned flags;
    bool name_in_hex;           /* database_hex= was there: it is the name, whatever database= says */
    bool printable;
    bool fixed_map;
    size_t map_size;            /* this and the two below: 0: not told */
    unsigned readers_max;
    unsigned page_size;
    unsigned seen;              /* a bit for each keyword; none may come twice */
};

/* In front of each key; the data is behind the key, both at aligned places. */
struct record {
    size_t key_size;
    size_t data_size;
    uint64_t line;              /* of the key */
};

struct batch {
    unsigned char *bytes;
    size_t size;
    size_t room;
    uint64_t records;
};

struct load {
    struct options options;
    MDB_env *env;               /* NULL until the first header has been read: some of it must be set before opening */
    const char *path;
    struct line line;
    struct section section;
    struct batch batch;
    uint64_t records_read;
    uint64_t records_stored;    /* committed, or skipped because of -N */
    uint64_t line_stored;       /* last line of the last committed batch */
    const char *failed_call;    /* set with the code that a function returns without a message */
    uint64_t failed_line;       /* of the record in question; 0: no single one */
};

/* ==== Messages ========================================================== */

/* Says what is wrong with the line that was read last. Always returns MDB_INVALID. */
__attribute__((format(printf, 2, 3))) static int malformed(const struct load *load, const char *format, ...)
{
    va_list arguments;

    tool_progress_wipe();
    fprintf(stderr, "%s: ", tool.name);
    if (load->options.input != NULL)
        fprintf(stderr, "%s: ", load->options.input);
    fprintf(stderr, "line %ju: ", (uintmax_t)load->line.number);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return MDB_INVALID;
}

/* Notes which call failed. Whoever finds that nothing can be done about it calls call_report. */
static int call_failed(struct load *load, const char *call, int rc)
{
    load->failed_call = call;
    load->failed_line = 0;
    return rc;
}

static int call_report(const struct load *load, int rc)
{
    char where[64];

    if (load->failed_line == 0)
        return tool_failed(load->failed_call, rc, load->section.database);
    snprintf(where, sizeof(where), "record of line %ju", (uintmax_t)load->failed_line);
    return tool_failed(load->failed_call, rc, where);
}

/* How far we got, for messages at an early end. */
static void stored_describe(const struct load *load, char *text, size_t size)
{
    if (load->records_stored == 0)
        snprintf(text, size, "no record was stored");
    else
        snprintf(text, size, "%ju records were stored, up to line %ju", (uintmax_t)load->records_stored,
                 (uintmax_t)load->line_stored);
}

/* ==== Lines ============================================================= */

enum { LINE_READ, LINE_END, LINE_FAILED };

static int line_read(struct load *load)
{
    struct line *line = &load->line;
    ssize_t length;

    errno = 0;
    length = getline(&line->text, &line->room, stdin);
    if (length < 0) {
        if (feof(stdin) && !ferror(stdin))
            return LINE_END;
        tool_failed("read", errno, load->options.input);
        return LINE_FAILED;
    }
    line->number++;
    if (line->text[length - 1] == '\n')
        line->text[--length] = '\0';
    line->length = (size_t)length;
    return LINE_READ;
}

static bool line_is(const struct line *line, const char *text)
{
    return line->length == strlen(text) && memcmp(line->text, text, line->length) == 0;
}

static int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}

/* The byte of two hex digits; -1: they are none. There is a NUL behind every line, so both can be looked at. */
static int hex_byte(const char *digits)
{
    int high = hex_value(digits[0]);
    int low = high < 0 ? -1 : hex_value(digits[1]);

    return low < 0 ? -1 : high << 4 | low;
}

/* Decodes the line from column `start` on. `bytes` has room for as many bytes as the line has. */
static int hex_decode(const struct load *load, size_t start, unsigned char *bytes, size_t *size)
{
    const struct line *line = &load->line;
    size_t i;
    int byte;

    if ((line->length - start) % 2 != 0)
        return malformed(load, "odd number of hex digits");
    for (i = start; i < line->length; i += 2) {
        byte = hex_byte(line->text + i);
        if (byte < 0)
            return malformed(load, "bad hex digits at column %zu", i + 1);
        bytes[(i - start) / 2] = (unsigned char)byte;
    }
    *size = (line->length - start) / 2;
    return 0;
}

/* The same for lines where bytes stand as themselves, and a backslash begins two hex digits or another backslash. */
static int printable_decode(const struct load *load, size_t start, unsigned char *bytes, size_t *size)
{
    const struct line *line = &load->line;
    size_t used = 0;
    size_t i = start;
    int byte;

    while (i < line->length) {
        if (line->text[i] != '\\') {
            bytes[used++] = (unsigned char)line->text[i++];
        } else if (line->text[i + 1] == '\\') {
            bytes[used++] = '\\';
            i += 2;
        } else if ((byte = hex_byte(line->text + i + 1)) >= 0) {
            bytes[used++] = (unsigned char)byte;
            i += 3;
        } else {
            return malformed(load, "bad hex digits behind the backslash at column %zu", i + 1);
        }
    }
    *size = used;
    return 0;
}

/* ==== Header ============================================================ */

enum keyword {
    KEYWORD_VERSION,
    KEYWORD_FORMAT,
    KEYWORD_DATABASE,
    KEYWORD_DATABASE_HEX,
    KEYWORD_TYPE,
    KEYWORD_MAPSIZE,
    KEYWORD_MAPADDR,
    KEYWORD_MAXREADERS,
    KEYWORD_PAGE_SIZE,
    KEYWORD_FLAG,
};

static const struct {
    const char *name;
    enum keyword keyword;
    unsigned flag;
} keywords[] = {
    { "VERSION", KEYWORD_VERSION, 0 },
    { "format", KEYWORD_FORMAT, 0 },
    { "database", KEYWORD_DATABASE, 0 },
    { "database_hex", KEYWORD_DATABASE_HEX, 0 },
    { "type", KEYWORD_TYPE, 0 },
    { "mapsize", KEYWORD_MAPSIZE, 0 },
    { "mapaddr", KEYWORD_MAPADDR, 0 },
    { "maxreaders", KEYWORD_MAXREADERS, 0 },
    { "db_pagesize", KEYWORD_PAGE_SIZE, 0 },
    { "duplicates", KEYWORD_FLAG, MDB_DUPSORT },
    { "reversekey", KEYWORD_FLAG, MDB_REVERSEKEY },
    { "dupsort", KEYWORD_FLAG, MDB_DUPSORT },
    { "integerkey", KEYWORD_FLAG, MDB_INTEGERKEY },
    { "dupfixed", KEYWORD_FLAG, MDB_DUPFIXED },
    { "integerdup", KEYWORD_FLAG, MDB_INTEGERDUP },
    { "reversedup", KEYWORD_FLAG, MDB_REVERSEDUP },
};

#define KEYWORD_COUNT (sizeof(keywords) / sizeof(keywords[0]))

/* Parses a whole string of digits. */
static bool number_parse(const char *text, int base, uintmax_t limit, uintmax_t *number)
{
    char *end;

    if (!isxdigit((unsigned char)*text)) /* strtoumax would take blanks and signs too */
        return false;
    errno = 0;
    *number = strtoumax(text, &end, base);
    return *end == '\0' && errno == 0 && *number <= limit;
}

static int database_name_take(struct load *load, char *name)
{
    free(load->section.database);
    load->section.database = name;
    if (name == NULL)
        return tool_failed("malloc", ENOMEM, NULL);
    return *name != '\0' ? 0 : malformed(load, "empty database name");
}

/* For names that do not fit a line: see name_print in mdb_dump. */
static int database_hex_take(struct load *load, size_t start)
{
    size_t size;
    char *name = malloc(load->line.length + 1);
    int rc;

    if (name == NULL)
        return tool_failed("malloc", ENOMEM, NULL);
    rc = hex_decode(load, start, (unsigned char *)name, &size);
    if (rc == 0 && memchr(name, '\0', size) != NULL)
        rc = malformed(load, "NUL in a database name");
    if (rc != 0) {
        free(name);
        return rc;
    }
    name[size] = '\0';
    load->section.name_in_hex = true;
    return database_name_take(load, name);
}

/* Sizes that the library does not have are not worth an error: the records fit pages of another size as well. */
static int page_size_take(struct load *load, const char *value)
{
    uintmax_t size;

    if (!number_parse(value, 10, UINT32_MAX, &size) || size == 0 || (size & (size - 1)) != 0)
        return malformed(load, "invalid db_pagesize %s", value);
    if (size >= PAGE_SIZE_LEAST && size <= PAGE_SIZE_MOST)
        load->section.page_size = (unsigned)size;
    return 0;
}

static int map_address_take(struct load *load, const char *value)
{
    uintmax_t address;
    const char *digits = strncmp(value, "0x", 2) == 0 ? value + 2 : value;

    if (!number_parse(digits, 16, UINTPTR_MAX, &address))
        return malformed(load, "invalid mapaddr %s", value);
    load->section.fixed_map = address != 0;
    return 0;
}

static int flag_take(struct load *load, const char *name, unsigned flag, const char *value)
{
    if (strcmp(value, "1") == 0)
        load->section.flags |= flag;
    else if (strcmp(value, "0") != 0)
        return malformed(load, "invalid %s %s", name, value);
    return 0;
}

/* Takes line `index` of the keyword table; its value begins at column `start` of the line. */
static int header_line_take(struct load *load, size_t index, size_t start)
{
    struct section *section = &load->section;
    const char *value = load->line.text + start;
    uintmax_t number;

    switch (keywords[index].keyword) {
    case KEYWORD_VERSION:
        if (!number_parse(value, 10, DUMP_VERSION, &number))
            return malformed(load, "unsupported VERSION %s", value);
        return 0;
    case KEYWORD_FORMAT:
        section->printable = strcmp(value, "print") == 0;
        if (!section->printable && strcmp(value, "bytevalue") != 0)
            return malformed(load, "unsupported FORMAT %s", value);
        return 0;
    case KEYWORD_DATABASE:
        return section->name_in_hex ? 0 : database_name_take(load, strdup(value));
    case KEYWORD_DATABASE_HEX:
        return database_hex_take(load, start);
    case KEYWORD_TYPE:
        return strcmp(value, "btree") == 0 ? 0 : malformed(load, "unsupported type %s", value);
    case KEYWORD_MAPSIZE:
        if (!number_parse(value, 10, SIZE_MAX, &number))
            return malformed(load, "invalid mapsize %s", value);
        section->map_size = (size_t)number;
        return 0;
    case KEYWORD_MAPADDR:
        return map_address_take(load, value);
    case KEYWORD_MAXREADERS:
        if (!number_parse(value, 10, INT32_MAX, &number) || number == 0)
            return malformed(load, "invalid maxreaders %s", value);
        section->readers_max = (unsigned)number;
        return 0;
    case KEYWORD_PAGE_SIZE:
        return page_size_take(load, value);
    case KEYWORD_FLAG:
        return flag_take(load, keywords[index].name, keywords[index].flag, value);
    }
    return 0;
}

static int header_line_parse(struct load *load)
{
    const struct line *line = &load->line;
    const char *equals = memchr(line->text, '=', line->length);
    size_t name_length = equals != NULL ? (size_t)(equals - line->text) : line->length;
    size_t i;

    if (equals == NULL)
        return malformed(load, "unexpected format: no NAME=VALUE in a header");
    if (strlen(line->text) != line->length)
        return malformed(load, "NUL in a header line");
    for (i = 0; i < KEYWORD_COUNT; i++) {
        if (strlen(keywords[i].name) == name_length && memcmp(keywords[i].name, line->text, name_length) == 0)
            break;
    }
    if (i == KEYWORD_COUNT)
        return malformed(load, "unrecognized keyword: %.*s", (int)name_length, line->text);
    if (load->section.seen & 1u << i)
        return malformed(load, "second line for %s", keywords[i].name);
    load->section.seen |= 1u << i;
    return header_line_take(load, i, name_length + 1);
}

/* Forgets the last header; what options say is left. */
static int section_begin(struct load *load)
{
    const char *name = load->options.database;

    free(load->section.database);
    memset(&load->section, 0, sizeof(load->section));
    load->section.printable = load->options.plain_text;
    if (name == NULL)
        return 0;
    load->section.database = strdup(name);
    return load->section.database != NULL ? 0 : tool_failed("malloc", ENOMEM, NULL);
}

/* Reads a header to its end. @param found  out: false if the input ends instead, where that is allowed */
static int header_read(struct load *load, bool *found)
{
    uint64_t first_line = load->line.number + 1;
    int rc = section_begin(load);

    *found = true;
    while (rc == 0) {
        switch (line_read(load)) {
        case LINE_FAILED:
            return EIO;
        case LINE_END:
            *found = false;
            if (load->line.number == 0)
                return malformed(load, "unexpected end of input: it is empty");
            return load->line.number < first_line ? 0 : malformed(load, "unexpected end of input in a header");
        default:
            if (line_is(&load->line, "HEADER=END"))
                return 0;
            rc = header_line_parse(load);
        }
    }
    return rc;
}

/* ==== Batch ============================================================= */

static size_t batch_aligned(size_t size)
{
    return (size + BATCH_ALIGNMENT - 1) & ~(size_t)(BATCH_ALIGNMENT - 1);
}

/* Makes room for `size` bytes more and their alignment. */
static int batch_reserve(struct batch *batch, size_t size)
{
    size_t needed = batch->size + size + BATCH_ALIGNMENT;
    size_t room = batch->room;
    unsigned char *bytes;

    if (needed <= room)
        return 0;
    if (room == 0)
        room = 1 << 16;
    while (room < needed)
        room *= 2;
    bytes = realloc(batch->bytes, room);
    if (bytes == NULL)
        return tool_failed("malloc", ENOMEM, NULL);
    batch->bytes = bytes;
    batch->room = room;
    return 0;
}

/* Adds the value that the current line stands for. */
static int batch_value_add(struct load *load, size_t *size)
{
    struct batch *batch = &load->batch;
    size_t start = load->options.plain_text ? 0 : 1;
    unsigned char *bytes;
    int rc;

    if (start == 1 && load->line.text[0] != ' ')
        return malformed(load, "unexpected format: neither a record nor DATA=END");
    rc = batch_reserve(batch, load->line.length);
    if (rc != 0)
        return rc;
    bytes = batch->bytes + batch->size;
    if (load->section.printable)
        rc = printable_decode(load, start, bytes, size);
    else
        rc = hex_decode(load, start, bytes, size);
    if (rc == 0)
        batch->size = batch_aligned(batch->size + *size);
    return rc;
}

/* Adds the record whose key is the current line; reads the line of its data. A failure leaves the batch useless. */
static int batch_record_add(struct load *load)
{
    struct batch *batch = &load->batch;
    struct record record = { 0, 0, load->line.number };
    size_t position = batch->size;
    int rc = batch_reserve(batch, sizeof(record));

    if (rc != 0)
        return rc;
    batch->size += batch_aligned(sizeof(record));
    rc = batch_value_add(load, &record.key_size);
    if (rc != 0)
        return rc;
    switch (line_read(load)) {
    case LINE_FAILED:
        return EIO;
    case LINE_END:
        return malformed(load, "unexpected end of input: failed to read key value, the key has no data");
    default:
        if (!load->options.plain_text && line_is(&load->line, "DATA=END"))
            return malformed(load, "failed to read key value: the key before DATA=END has no data");
    }
    rc = batch_value_add(load, &record.data_size);
    memcpy(batch->bytes + position, &record, sizeof(record));
    batch->records++;
    load->records_read++;
    return rc;
}

/* Takes the record at *position out of the batch, without copying, and moves on. */
static struct record batch_record_take(const struct batch *batch, size_t *position, MDB_val *key, MDB_val *data)
{
    struct record record;

    memcpy(&record, batch->bytes + *position, sizeof(record));
    *position += batch_aligned(sizeof(record));
    key->mv_size = record.key_size;
    key->mv_data = batch->bytes + *position;
    *position += batch_aligned(record.key_size);
    data->mv_size = record.data_size;
    data->mv_data = batch->bytes + *position;
    *position += batch_aligned(record.data_size);
    return record;
}

/* ==== Storing =========================================================== */

/* Opens the section's database, or creates it. One that exists must have what the header asks for, or records would be
 * lost or misplaced; that it has more is the user's choice. The main database exists always, so it gets its flags
 * while it is empty. */
static int database_open(struct load *load, MDB_txn *txn, MDB_dbi *dbi)
{
    const struct section *section = &load->section;
    MDB_stat tree;
    unsigned flags;
    int rc = mdb_dbi_open(txn, section->database, 0, dbi);

    if (rc == 0) {
        rc = mdb_dbi_flags(txn, *dbi, &flags);
        if (rc != 0)
            return call_failed(load, "mdb_dbi_flags", rc);
        if ((section->flags & ~flags) == 0)
            return 0;
        rc = mdb_stat(txn, *dbi, &tree);
        if (rc != 0)
            return call_failed(load, "mdb_stat", rc);
        rc = section->database == NULL && tree.ms_entries == 0 ? MDB_NOTFOUND : MDB_INCOMPATIBLE;
    }
    if (rc == MDB_NOTFOUND)
        rc = mdb_dbi_open(txn, section->database, section->flags | MDB_CREATE, dbi);
    return rc == 0 ? 0 : call_failed(load, "mdb_dbi_open", rc);
}

static bool values_equal(const MDB_val *a, const MDB_val *b)
{
    return a->mv_size == b->mv_size && memcmp(a->mv_data, b->mv_data, a->mv_size) == 0;
}

/* Stores one record. MDB_KEYEXIST has two causes with -a: the key is there, which -N allows, or it is out of order. */
static int record_put(const struct load *load, MDB_cursor *cursor, MDB_val *key, MDB_val *data, unsigned flags)
{
    MDB_val present, present_data;
    int rc = mdb_cursor_put(cursor, key, data, load->options.put_flags | flags);

    if (rc != MDB_KEYEXIST || !(load->options.put_flags & MDB_NOOVERWRITE))
        return rc;
    if (!load->options.append)
        return 0;
    present = *key;
    rc = mdb_cursor_get(cursor, &present, &present_data, MDB_SET);
    return rc == MDB_NOTFOUND ? MDB_KEYEXIST : rc;
}

/* With -a every key must be behind all others, or be that of the record before: then its data must be. */
static int batch_put(struct load *load, MDB_cursor *cursor)
{
    MDB_val key, data, last_data;
    MDB_val last = { 0, NULL };
    struct record record;
    size_t position = 0;
    unsigned flags = 0;
    int rc;

    if (load->options.append) {
        rc = mdb_cursor_get(cursor, &last, &last_data, MDB_LAST);
        if (rc != 0 && rc != MDB_NOTFOUND)
            return call_failed(load, "mdb_cursor_get", rc);
    }
    while (position < load->batch.size) {
        record = batch_record_take(&load->batch, &position, &key, &data);
        if (load->options.append)
            flags = last.mv_size > 0 && values_equal(&key, &last) ? MDB_APPENDDUP : MDB_APPEND;
        last = key;
        rc = tool_stopping() ? EINTR : record_put(load, cursor, &key, &data, flags);
        if (rc != 0) {
            call_failed(load, "mdb_cursor_put", rc);
            load->failed_line = record.line;
            return rc;
        }
    }
    return 0;
}

/* One transaction. It can be tried again after a failure. */
static int batch_try(struct load *load)
{
    MDB_cursor *cursor;
    MDB_txn *txn;
    MDB_dbi dbi;
    int rc = tool_write_begin(load->env, &txn);

    if (rc != 0)
        return call_failed(load, "mdb_txn_begin", rc);
    rc = database_open(load, txn, &dbi);
    if (rc == 0) {
        rc = mdb_cursor_open(txn, dbi, &cursor);
        if (rc != 0) {
            call_failed(load, "mdb_cursor_open", rc);
        } else {
            rc = batch_put(load, cursor);
            mdb_cursor_close(cursor);
        }
    }
    if (rc != 0) {
        mdb_txn_abort(txn);
        return rc;
    }
    rc = mdb_txn_commit(txn);
    if (rc != 0)
        return call_failed(load, "mdb_txn_commit", rc);
    if (load->section.database != NULL)
        mdb_dbi_close(load->env, dbi);
    return 0;
}

/* Doubles the map, or more if a large batch would need several doublings. */
static int map_grow(struct load *load)
{
    MDB_envinfo info;
    size_t added, size;
    int rc = mdb_env_info(load->env, &info);

    if (rc != 0)
        return call_failed(load, "mdb_env_info", rc);
    added = info.me_mapsize > 4 * load->batch.size ? info.me_mapsize : 4 * load->batch.size;
    size = (info.me_mapsize + added + MAP_SIZE_UNIT) & ~(size_t)(MAP_SIZE_UNIT - 1);
    if (size <= info.me_mapsize)
        return MDB_MAP_FULL;
    rc = mdb_env_set_mapsize(load->env, size);
    return rc == 0 ? 0 : call_failed(load, "mdb_env_set_mapsize", rc);
}

/* Stores what is in the batch, be it nothing: then the database is there at least. */
static int batch_store(struct load *load)
{
    char state[128];
    int rc;

    while ((rc = batch_try(load)) != 0) {
        if (rc == MDB_MAP_FULL)
            rc = map_grow(load);
        else if (rc == MDB_MAP_RESIZED && (rc = mdb_env_set_mapsize(load->env, 0)) != 0)
            call_failed(load, "mdb_env_set_mapsize", rc);
        if (rc != 0)
            return call_report(load, rc);
    }
    load->records_stored += load->batch.records;
    load->line_stored = load->line.number;
    load->batch.size = 0;
    load->batch.records = 0;
    stored_describe(load, state, sizeof(state));
    tool_last_words_set(state);
    return 0;
}

/* ==== Loading =========================================================== */

/* Opens the environment as the first header wants it. */
static int env_open(struct load *load)
{
    const struct section *section = &load->section;
    int rc = 0;

    load->env = tool_env_create();
    if (load->env == NULL)
        return ENOMEM;
    if (section->map_size != 0 && (rc = mdb_env_set_mapsize(load->env, section->map_size)) != 0)
        return tool_failed("mdb_env_set_mapsize", rc, NULL);
    if (section->readers_max != 0 && (rc = mdb_env_set_maxreaders(load->env, section->readers_max)) != 0)
        return tool_failed("mdb_env_set_maxreaders", rc, NULL);
    if (section->page_size != 0 && (rc = mdb_env_set_pagesize(load->env, (int)section->page_size)) != 0)
        return tool_failed("mdb_env_set_pagesize", rc, NULL);
    return tool_env_open(load->env, load->path, section->fixed_map ? MDB_FIXEDMAP : 0);
}

/* Loads the records of one database. Without headers the end of the input is the end of the records. */
static int records_load(struct load *load)
{
    int rc = 0;

    while (rc == 0) {
        switch (line_read(load)) {
        case LINE_FAILED:
            return EIO;
        case LINE_END:
            if (!load->options.plain_text)
                return malformed(load, "unexpected end of input: no DATA=END");
            return batch_store(load);
        default:
            if (!load->options.plain_text && line_is(&load->line, "DATA=END"))
                return batch_store(load);
            rc = batch_record_add(load);
            tool_progress("records", load->records_read, 0);
            if (rc == 0 && load->batch.size >= BATCH_SIZE)
                rc = batch_store(load);
        }
    }
    return rc;
}

static int plain_text_load(struct load *load)
{
    int rc = section_begin(load);

    if (rc == 0)
        rc = env_open(load);
    return rc == 0 ? records_load(load) : rc;
}

static int sections_load(struct load *load)
{
    bool found;
    int rc;

    for (;;) {
        rc = header_read(load, &found);
        if (rc != 0 || !found)
            return rc;
        if (load->env == NULL)
            rc = env_open(load);
        if (rc == 0)
            rc = records_load(load);
        if (rc != 0)
            return rc;
    }
}

static int load_run(struct load *load)
{
    char state[128];
    int rc = load->options.plain_text ? plain_text_load(load) : sections_load(load);

    tool_progress_wipe();
    if (load->env != NULL)
        mdb_env_close(load->env);
    if (rc != 0) {
        stored_describe(load, state, sizeof(state));
        fprintf(stderr, "%s: %s\n", tool.name, state);
    }
    free(load->line.text);
    free(load->section.database);
    free(load->batch.bytes);
    return rc;
}

static bool options_read(int count, char **arguments, struct options *options)
{
    int option;

    while ((option = getopt(count, arguments, "Vnqf:as:NT")) != -1) {
        switch (option) {
        case 'f':
            options->input = optarg;
            break;
        case 'a':
            options->append = true;
            break;
        case 's':
            options->database = optarg;
            break;
        case 'N':
            options->put_flags |= MDB_NOOVERWRITE;
            break;
        case 'T':
            options->plain_text = true;
            break;
        default:
            if (!tool_option(option))
                return false;
        }
    }
    return optind == count - 1;
}

int main(int count, char **arguments)
{
    struct load load;

    memset(&load, 0, sizeof(load));
    tool_start(arguments, "[-V] [-q] [-f input] [-n] [-a] [-s name] [-N] [-T] dbpath");
    if (!options_read(count, arguments, &load.options))
        return tool_usage();
    if (load.options.input != NULL && freopen(load.options.input, "r", stdin) == NULL) {
        tool_failed("open", errno, load.options.input);
        return EXIT_FAILURE;
    }
    tool_progress_allow(false);
    load.path = arguments[optind];
    return tool_exit_status(load_run(&load));
}
