/* mdb_stat: figures of an environment, its readers, its free pages and its databases. Scripts parse the output. */
#include "mdb_tool.h"

#define FREE_LIST_DBI 0 /* the handle under which every transaction has it */

enum { READERS_NO, READERS_LIST, READERS_SWEEP };                       /* number of -r */
enum { FREE_NO, FREE_SUMMARY, FREE_TRANSACTIONS, FREE_SPANS };          /* number of -f */

struct request {
    bool environment;
    int readers;
    int free_list;
    bool all;
    const char *database;
};

static void tree_print(const MDB_stat *tree)
{
    printf("  Tree depth: %u\n", tree->ms_depth);
    printf("  Branch pages: %zu\n", tree->ms_branch_pages);
    printf("  Leaf pages: %zu\n", tree->ms_leaf_pages);
    printf("  Overflow pages: %zu\n", tree->ms_overflow_pages);
    printf("  Entries: %zu\n", tree->ms_entries);
}

static int environment_print(MDB_env *env)
{
    MDB_stat tree;
    MDB_envinfo info;
    int rc = mdb_env_stat(env, &tree);

    if (rc != 0)
        return tool_failed("mdb_env_stat", rc, NULL);
    rc = mdb_env_info(env, &info);
    if (rc != 0)
        return tool_failed("mdb_env_info", rc, NULL);
    printf("Environment Info\n");
    printf("  Map address: %p\n", info.me_mapaddr);
    printf("  Map size: %zu\n", info.me_mapsize);
    printf("  Page size: %u\n", tree.ms_psize);
    printf("  Max pages: %zu\n", info.me_mapsize / tree.ms_psize);
    printf("  Number of pages used: %zu\n", info.me_last_pgno + 1);
    printf("  Last transaction ID: %zu\n", info.me_last_txnid);
    printf("  Max readers: %u\n", info.me_maxreaders);
    printf("  Number of readers used: %u\n", info.me_numreaders);
    return 0;
}

/* ==== Readers =========================================================== */

static int reader_line_print(const char *text, void *context)
{
    (void)context;
    fputs(text, stdout);
    return 0; /* go on; tool_output_finish sees what fputs could not do */
}

static int readers_list(MDB_env *env)
{
    int rc = mdb_reader_list(env, reader_line_print, NULL);

    return rc >= 0 ? 0 : tool_failed("mdb_reader_list", rc, NULL);
}

static int readers_print(MDB_env *env, int detail)
{
    int stale, rc;

    printf("Reader Table Status\n");
    rc = readers_list(env);
    if (rc != 0 || detail < READERS_SWEEP)
        return rc;
    rc = mdb_reader_check(env, &stale);
    if (rc != 0)
        return tool_failed("mdb_reader_check", rc, NULL);
    printf("  %d stale readers cleared.\n", stale);
    return readers_list(env);
}

/* ==== Free pages ======================================================== */

/* Number i of a free-list record: 0 is the count of pages, then come the pages. Records may stand at any address. */
static size_t free_number(const MDB_val *record, size_t i)
{
    size_t number;

    memcpy(&number, (const char *)record->mv_data + i * sizeof(number), sizeof(number));
    return number;
}

/* The span of adjacent pages that ends, in the descending list, at position i: how many entries it takes. */
static size_t span_length(const MDB_val *record, size_t i)
{
    size_t length = 1;

    while (length < i && free_number(record, i - length) == free_number(record, i) + length)
        length++;
    return length;
}

/* Prints what one transaction freed. The list stands in descending order, so it is read from its end. */
static void free_record_print(size_t txnid, const MDB_val *record, size_t count, int detail)
{
    const char *remark = "";
    size_t i, span, span_max = 0;

    for (i = count; i > 1; i--) {
        if (free_number(record, i) >= free_number(record, i - 1))
            remark = " [bad sequence]";
    }
    for (i = count; i > 0; i -= span) {
        span = span_length(record, i);
        if (span > span_max)
            span_max = span;
    }
    printf("    Transaction %zu, %zu pages, maxspan %zu%s\n", txnid, count, span_max, remark);
    if (detail < FREE_SPANS)
        return;
    for (i = count; i > 0; i -= span) {
        span = span_length(record, i);
        if (span > 1)
            printf("     %9zu[%zu]\n", free_number(record, i), span);
        else
            printf("     %9zu\n", free_number(record, i));
    }
}

static int free_records_print(MDB_cursor *cursor, const MDB_stat *tree, int detail, size_t *free_pages)
{
    MDB_val key, record;
    size_t txnid, count;
    uint64_t records = 0;
    int rc;

    while ((rc = tool_next(cursor, &key, &record, MDB_NEXT)) == 0) {
        if (key.mv_size != sizeof(txnid) || record.mv_size < sizeof(count))
            return tool_failed("free list", MDB_CORRUPTED, NULL);
        memcpy(&txnid, key.mv_data, sizeof(txnid));
        count = free_number(&record, 0);
        if (count >= record.mv_size / sizeof(count))
            return tool_failed("free list", MDB_CORRUPTED, NULL);
        *free_pages += count;
        if (detail > FREE_SUMMARY)
            free_record_print(txnid, &record, count, detail);
        tool_progress("free-list records", ++records, tree->ms_entries);
    }
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static int free_list_print(MDB_txn *txn, int detail)
{
    MDB_cursor *cursor;
    MDB_stat tree;
    size_t free_pages = 0;
    int rc;

    printf("Freelist Status\n");
    rc = mdb_cursor_open(txn, FREE_LIST_DBI, &cursor);
    if (rc != 0)
        return tool_failed("mdb_cursor_open", rc, "free list");
    rc = mdb_stat(txn, FREE_LIST_DBI, &tree);
    if (rc != 0) {
        tool_failed("mdb_stat", rc, "free list");
    } else {
        tree_print(&tree);
        rc = free_records_print(cursor, &tree, detail, &free_pages);
    }
    mdb_cursor_close(cursor);
    if (rc == 0)
        printf("  Free pages: %zu\n", free_pages);
    return rc;
}

/* ==== Databases ========================================================= */

static int database_print(MDB_txn *txn, const char *name, MDB_dbi dbi, void *context)
{
    MDB_stat tree;
    int rc = mdb_stat(txn, dbi, &tree);

    (void)context;
    if (rc != 0)
        return tool_failed("mdb_stat", rc, name);
    printf("Status of %s\n", name);
    tree_print(&tree);
    return 0;
}

/* The database asked for, or the main one and with -a all others too. */
static int databases_print(MDB_txn *txn, const struct request *request)
{
    struct tool_names names;
    MDB_dbi dbi;
    int rc = mdb_dbi_open(txn, request->database, 0, &dbi);

    if (rc != 0)
        return tool_failed("mdb_dbi_open", rc, request->database);
    rc = database_print(txn, request->database != NULL ? request->database : "Main DB", dbi, NULL);
    if (rc == 0 && request->all)
        rc = tool_each_database(txn, database_print, NULL, &names);
    return rc;
}

static int trees_print(MDB_env *env, const struct request *request)
{
    MDB_txn *txn;
    int rc = tool_read_begin(env, &txn);

    if (rc != 0)
        return rc;
    if (request->free_list != FREE_NO)
        rc = free_list_print(txn, request->free_list);
    if (rc == 0)
        rc = databases_print(txn, request);
    mdb_txn_abort(txn);
    return rc;
}

/* Only -r alone leaves the databases out. The transaction begins after the list of readers, so as not to be on it. */
static int request_print(MDB_env *env, const struct request *request)
{
    bool readers_alone = request->readers != READERS_NO && request->free_list == FREE_NO && !request->all &&
                         request->database == NULL;
    int rc = 0;

    if (request->environment)
        rc = environment_print(env);
    if (rc == 0 && request->readers != READERS_NO)
        rc = readers_print(env, request->readers);
    if (rc == 0 && !readers_alone)
        rc = trees_print(env, request);
    return rc;
}

static bool options_read(int count, char **arguments, struct request *request)
{
    int option;

    while ((option = getopt(count, arguments, "Vnvqefrs:aL")) != -1) {
        switch (option) {
        case 'e':
            request->environment = true;
            break;
        case 'f':
            request->free_list++;
            break;
        case 'r':
            request->readers++;
            break;
        case 'a':
            request->all = true;
            break;
        case 's':
            request->database = optarg;
            break;
        case 'L':
            tool.env_flags |= MDB_NOLOCK;
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

    tool_start(arguments, "[-V] [-q] [-n] [-v] [-L] [-e] [-r[r]] [-f[f[f]]] [-a|-s subdb] dbpath");
    if (!options_read(count, arguments, &request))
        return tool_usage();
    tool_progress_allow(true);
    env = tool_env_open_readonly(arguments[optind]);
    if (env == NULL)
        return EXIT_FAILURE;
    rc = request_print(env, &request);
    tool_progress_wipe();
    mdb_env_close(env);
    if (tool_output_finish("stdout") != 0)
        rc = EIO;
    return tool_exit_status(rc);
}
