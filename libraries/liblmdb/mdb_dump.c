/* mdb_dump: writes databases as text that mdb_load reads.
 *
 * For each database a header of NAME=VALUE lines up to HEADER=END, then two lines for each record, key and data, each
 * behind one space, then DATA=END. Bytes stand as two hex digits, with -p as themselves where that is possible. */
#include "mdb_tool.h"

struct request {
    const char *output;     /* file to write; NULL: stdout as it is */
    bool names_only;
    bool printable;
    bool all;
    const char *database;   /* NULL: the main one */
};

/* In the order of the header lines. mdb_load knows the same names. */
static const struct {
    unsigned flag;
    const char *name;
} flag_names[] = {
    { MDB_REVERSEKEY, "reversekey" }, { MDB_DUPSORT, "dupsort" },       { MDB_INTEGERKEY, "integerkey" },
    { MDB_DUPFIXED, "dupfixed" },     { MDB_INTEGERDUP, "integerdup" }, { MDB_REVERSEDUP, "reversedup" },
};

static const char hex_digits[] = "0123456789abcdef";

/* ==== Records =========================================================== */

static void byte_print_hex(unsigned char byte)
{
    putc_unlocked(hex_digits[byte >> 4], stdout);
    putc_unlocked(hex_digits[byte & 15], stdout);
}

/* A backslash begins two hex digits, so it cannot stand for itself. It is written as its digits and not as two
 * backslashes, because mdb_load of LMDB 0.9.24 misreads those behind other escapes. */
static void byte_print(unsigned char byte)
{
    if (byte >= ' ' && byte <= '~' && byte != '\\') {
        putc_unlocked(byte, stdout);
    } else {
        putc_unlocked('\\', stdout);
        byte_print_hex(byte);
    }
}

static void value_print(const MDB_val *value, bool printable)
{
    const unsigned char *bytes = value->mv_data;
    size_t i;

    putc_unlocked(' ', stdout);
    for (i = 0; i < value->mv_size && !tool_stopping(); i++) {
        if (printable)
            byte_print(bytes[i]);
        else
            byte_print_hex(bytes[i]);
    }
    putc_unlocked('\n', stdout);
}

static int records_print(MDB_cursor *cursor, const MDB_stat *tree, bool printable)
{
    MDB_val key, data;
    uint64_t records = 0;
    int rc;

    while ((rc = tool_next(cursor, &key, &data, MDB_NEXT)) == 0) {
        value_print(&key, printable);
        value_print(&data, printable);
        if (ferror(stdout))
            return EIO; /* tool_output_finish has the message */
        tool_progress("records", ++records, tree->ms_entries);
    }
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* ==== Header ============================================================ */

/* A line cannot hold a newline. Such a name is given in hex too, which is what mdb_load then goes by; programs that do
 * not know database_hex get a name that is close. */
static void name_print(const char *name)
{
    const char *byte;

    fputs("database=", stdout);
    for (byte = name; *byte != '\0'; byte++)
        putc_unlocked(*byte == '\n' ? '?' : *byte, stdout);
    putc_unlocked('\n', stdout);
    if (strchr(name, '\n') == NULL)
        return;
    fputs("database_hex=", stdout);
    for (byte = name; *byte != '\0'; byte++)
        byte_print_hex((unsigned char)*byte);
    putc_unlocked('\n', stdout);
}

static void header_print(const char *name, const MDB_envinfo *info, unsigned flags, unsigned page_size, bool printable)
{
    size_t i;

    printf("VERSION=3\nformat=%s\n", printable ? "print" : "bytevalue");
    if (name != NULL)
        name_print(name);
    printf("type=btree\nmapsize=%zu\n", info->me_mapsize);
    if (info->me_mapaddr != NULL)
        printf("mapaddr=%p\n", info->me_mapaddr);
    printf("maxreaders=%u\n", info->me_maxreaders);
    if (flags & MDB_DUPSORT)
        printf("duplicates=1\n");
    for (i = 0; i < sizeof(flag_names) / sizeof(flag_names[0]); i++) {
        if (flags & flag_names[i].flag)
            printf("%s=1\n", flag_names[i].name);
    }
    printf("db_pagesize=%u\nHEADER=END\n", page_size);
}

/* ==== Databases ========================================================= */

/* Writes one database; name NULL: the main one. */
static int database_dump(MDB_txn *txn, const char *name, MDB_dbi dbi, const struct request *request)
{
    MDB_cursor *cursor;
    MDB_envinfo info;
    MDB_stat tree;
    unsigned flags;
    int rc;

    rc = mdb_dbi_flags(txn, dbi, &flags);
    if (rc != 0)
        return tool_failed("mdb_dbi_flags", rc, name);
    rc = mdb_stat(txn, dbi, &tree);
    if (rc != 0)
        return tool_failed("mdb_stat", rc, name);
    rc = mdb_env_info(mdb_txn_env(txn), &info);
    if (rc != 0)
        return tool_failed("mdb_env_info", rc, name);
    rc = mdb_cursor_open(txn, dbi, &cursor);
    if (rc != 0)
        return tool_failed("mdb_cursor_open", rc, name);
    header_print(name, &info, flags, tree.ms_psize, request->printable);
    rc = records_print(cursor, &tree, request->printable);
    mdb_cursor_close(cursor);
    if (rc == 0)
        printf("DATA=END\n");
    return rc;
}

static int database_visit(MDB_txn *txn, const char *name, MDB_dbi dbi, void *context)
{
    const struct request *request = context;

    if (!request->names_only)
        return database_dump(txn, name, dbi, request);
    printf("%s\n", name);
    return 0;
}

/* Says how many records stay behind, for -a leaves out what the main database holds besides names of databases. */
static int left_out_report(MDB_txn *txn, size_t databases)
{
    MDB_dbi main_dbi;
    MDB_stat tree;
    int rc = mdb_dbi_open(txn, NULL, 0, &main_dbi);

    if (rc != 0)
        return tool_failed("mdb_dbi_open", rc, NULL);
    rc = mdb_stat(txn, main_dbi, &tree);
    if (rc != 0)
        return tool_failed("mdb_stat", rc, NULL);
    if (tree.ms_entries > databases) {
        tool_progress_wipe();
        fprintf(stderr, "%s: note: %zu records of the main database are not in this dump\n", tool.name,
                tree.ms_entries - databases);
    }
    return 0;
}

static int all_dump(MDB_txn *txn, struct request *request, const char *path)
{
    struct tool_names names;
    int rc = tool_each_database(txn, database_visit, request, &names);

    if (rc != 0)
        return rc;
    if (names.candidates == 0) {
        fprintf(stderr, "%s: %s does not contain multiple databases\n", tool.name, path);
        return MDB_NOTFOUND;
    }
    return request->names_only ? 0 : left_out_report(txn, names.databases);
}

static int one_dump(MDB_txn *txn, const struct request *request)
{
    MDB_dbi dbi;
    int rc = mdb_dbi_open(txn, request->database, 0, &dbi);

    if (rc != 0)
        return tool_failed("mdb_dbi_open", rc, request->database);
    return database_dump(txn, request->database, dbi, request);
}

static int request_dump(MDB_env *env, struct request *request, const char *path)
{
    MDB_txn *txn;
    int rc = tool_read_begin(env, &txn);

    if (rc != 0)
        return rc;
    rc = request->all ? all_dump(txn, request, path) : one_dump(txn, request);
    mdb_txn_abort(txn);
    return rc;
}

static bool options_read(int count, char **arguments, struct request *request)
{
    int option;

    while ((option = getopt(count, arguments, "Vnvqf:lpas:")) != -1) {
        switch (option) {
        case 'f':
            request->output = optarg;
            break;
        case 'l':
            request->names_only = true;
            request->all = true;
            break;
        case 'p':
            request->printable = true;
            break;
        case 'a':
            request->all = true;
            break;
        case 's':
            request->database = optarg;
            break;
        default:
            if (!tool_option(option))
                return false;
        }
    }
    return optind == count - 1 && !(request->all && request->database != NULL);
}

int main(int count, char **arguments)
{
    struct request request = { 0 };
    MDB_env *env;
    int rc;

    tool_start(arguments, "[-V] [-q] [-f output] [-l] [-n] [-p] [-v] [-a|-s subdb] dbpath");
    if (!options_read(count, arguments, &request))
        return tool_usage();
    if (request.output != NULL && freopen(request.output, "w", stdout) == NULL) {
        tool_failed("open", errno, request.output);
        return EXIT_FAILURE;
    }
    tool_progress_allow(true);
    env = tool_env_open_readonly(arguments[optind]);
    if (env == NULL)
        return EXIT_FAILURE;
    rc = request_dump(env, &request, arguments[optind]);
    tool_progress_wipe();
    mdb_env_close(env);
    if (tool_output_finish(request.output != NULL ? request.output : "stdout") != 0)
        rc = EIO;
    return tool_exit_status(rc);
}
