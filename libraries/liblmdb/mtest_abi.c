/* What programs that were compiled with LMDB's header rely on: values, layouts, prototypes. And that the header, which
 * is the manual, leaves nothing undocumented.
 *
 * Most of it is checked when this file is compiled. The rest reads lmdb.h from the directory of this file. */
#include "lmdb.h"
#include "dlmdb.h"
#include "mtest.h"

/* ==== Values ============================================================= */

#define VALUE(name, value) _Static_assert((name) == (value), #name)

VALUE(MDB_FIXEDMAP, 0x1);
VALUE(MDB_NOSUBDIR, 0x4000);
VALUE(MDB_NOSYNC, 0x10000);
VALUE(MDB_RDONLY, 0x20000);
VALUE(MDB_NOMETASYNC, 0x40000);
VALUE(MDB_WRITEMAP, 0x80000);
VALUE(MDB_MAPASYNC, 0x100000);
VALUE(MDB_NOTLS, 0x200000);
VALUE(MDB_NOLOCK, 0x400000);
VALUE(MDB_NORDAHEAD, 0x800000);
VALUE(MDB_NOMEMINIT, 0x1000000);
VALUE(MDB_PREVSNAPSHOT, 0x2000000);

VALUE(MDB_REVERSEKEY, 0x02);
VALUE(MDB_DUPSORT, 0x04);
VALUE(MDB_INTEGERKEY, 0x08);
VALUE(MDB_DUPFIXED, 0x10);
VALUE(MDB_INTEGERDUP, 0x20);
VALUE(MDB_REVERSEDUP, 0x40);
VALUE(MDB_CREATE, 0x40000);

VALUE(MDB_NOOVERWRITE, 0x10);
VALUE(MDB_NODUPDATA, 0x20);
VALUE(MDB_CURRENT, 0x40);
VALUE(MDB_RESERVE, 0x10000);
VALUE(MDB_APPEND, 0x20000);
VALUE(MDB_APPENDDUP, 0x40000);
VALUE(MDB_MULTIPLE, 0x80000);

VALUE(MDB_CP_COMPACT, 1);

VALUE(MDB_FIRST, 0);
VALUE(MDB_FIRST_DUP, 1);
VALUE(MDB_GET_BOTH, 2);
VALUE(MDB_GET_BOTH_RANGE, 3);
VALUE(MDB_GET_CURRENT, 4);
VALUE(MDB_GET_MULTIPLE, 5);
VALUE(MDB_LAST, 6);
VALUE(MDB_LAST_DUP, 7);
VALUE(MDB_NEXT, 8);
VALUE(MDB_NEXT_DUP, 9);
VALUE(MDB_NEXT_MULTIPLE, 10);
VALUE(MDB_NEXT_NODUP, 11);
VALUE(MDB_PREV, 12);
VALUE(MDB_PREV_DUP, 13);
VALUE(MDB_PREV_NODUP, 14);
VALUE(MDB_SET, 15);
VALUE(MDB_SET_KEY, 16);
VALUE(MDB_SET_RANGE, 17);
VALUE(MDB_PREV_MULTIPLE, 18);

VALUE(MDB_SUCCESS, 0);
VALUE(MDB_KEYEXIST, -30799);
VALUE(MDB_NOTFOUND, -30798);
VALUE(MDB_PAGE_NOTFOUND, -30797);
VALUE(MDB_CORRUPTED, -30796);
VALUE(MDB_PANIC, -30795);
VALUE(MDB_VERSION_MISMATCH, -30794);
VALUE(MDB_INVALID, -30793);
VALUE(MDB_MAP_FULL, -30792);
VALUE(MDB_DBS_FULL, -30791);
VALUE(MDB_READERS_FULL, -30790);
VALUE(MDB_TLS_FULL, -30789);
VALUE(MDB_TXN_FULL, -30788);
VALUE(MDB_CURSOR_FULL, -30787);
VALUE(MDB_PAGE_FULL, -30786);
VALUE(MDB_MAP_RESIZED, -30785);
VALUE(MDB_INCOMPATIBLE, -30784);
VALUE(MDB_BAD_RSLOT, -30783);
VALUE(MDB_BAD_TXN, -30782);
VALUE(MDB_BAD_VALSIZE, -30781);
VALUE(MDB_BAD_DBI, -30780);
VALUE(MDB_PROBLEM, -30779);
VALUE(MDB_DBIS_BUSY, -30778);
VALUE(MDB_LAST_ERRCODE, MDB_DBIS_BUSY);

VALUE(MDB_VERINT(1, 2, 3), 0x01020003);
VALUE(MDB_VERSION_FULL, MDB_VERINT(MDB_VERSION_MAJOR, MDB_VERSION_MINOR, MDB_VERSION_PATCH));
VALUE(MDB_SIZE_MAX, (mdb_size_t)-1);

/* ==== Layouts ============================================================ */

#define LAYOUT(type, member, offset) _Static_assert(offsetof(type, member) == (offset), #type "." #member)

enum { WORD = sizeof(void *), INT = sizeof(int) };

_Static_assert(sizeof(int) == 4, "int");
_Static_assert(sizeof(size_t) == sizeof(void *), "size_t");
_Static_assert(sizeof(mdb_size_t) == sizeof(size_t), "mdb_size_t");
_Static_assert(sizeof(MDB_dbi) == 4 && (MDB_dbi)-1 > 0, "MDB_dbi is unsigned");
_Static_assert(sizeof(MDB_cursor_op) == sizeof(int), "MDB_cursor_op");

_Static_assert(sizeof(MDB_val) == 2 * WORD, "MDB_val");
LAYOUT(MDB_val, mv_size, 0);
LAYOUT(MDB_val, mv_data, WORD);

_Static_assert(sizeof(MDB_stat) == 2 * INT + 4 * WORD, "MDB_stat");
LAYOUT(MDB_stat, ms_psize, 0);
LAYOUT(MDB_stat, ms_depth, INT);
LAYOUT(MDB_stat, ms_branch_pages, 2 * INT);
LAYOUT(MDB_stat, ms_leaf_pages, 2 * INT + WORD);
LAYOUT(MDB_stat, ms_overflow_pages, 2 * INT + 2 * WORD);
LAYOUT(MDB_stat, ms_entries, 2 * INT + 3 * WORD);

_Static_assert(sizeof(MDB_envinfo) == 4 * WORD + 2 * INT, "MDB_envinfo");
LAYOUT(MDB_envinfo, me_mapaddr, 0);
LAYOUT(MDB_envinfo, me_mapsize, WORD);
LAYOUT(MDB_envinfo, me_last_pgno, 2 * WORD);
LAYOUT(MDB_envinfo, me_last_txnid, 3 * WORD);
LAYOUT(MDB_envinfo, me_maxreaders, 4 * WORD);
LAYOUT(MDB_envinfo, me_numreaders, 4 * WORD + INT);

/* ==== Prototypes =========================================================
 * In the order of the header: name, result, arguments; with the types that LMDB's header has for them. */

#define FUNCTIONS(FUNCTION) \
    FUNCTION(mdb_version, char *, int *, int *, int *) \
    FUNCTION(mdb_strerror, char *, int) \
    FUNCTION(mdb_env_create, int, MDB_env **) \
    FUNCTION(mdb_env_open, int, MDB_env *, const char *, unsigned int, mode_t) \
    FUNCTION(mdb_env_copy, int, MDB_env *, const char *) \
    FUNCTION(mdb_env_copyfd, int, MDB_env *, int) \
    FUNCTION(mdb_env_copy2, int, MDB_env *, const char *, unsigned int) \
    FUNCTION(mdb_env_copyfd2, int, MDB_env *, int, unsigned int) \
    FUNCTION(mdb_env_stat, int, MDB_env *, MDB_stat *) \
    FUNCTION(mdb_env_info, int, MDB_env *, MDB_envinfo *) \
    FUNCTION(mdb_env_sync, int, MDB_env *, int) \
    FUNCTION(mdb_env_close, void, MDB_env *) \
    FUNCTION(mdb_env_set_flags, int, MDB_env *, unsigned int, int) \
    FUNCTION(mdb_env_get_flags, int, MDB_env *, unsigned int *) \
    FUNCTION(mdb_env_get_path, int, MDB_env *, const char **) \
    FUNCTION(mdb_env_get_fd, int, MDB_env *, int *) \
    FUNCTION(mdb_env_set_mapsize, int, MDB_env *, size_t) \
    FUNCTION(mdb_env_set_pagesize, int, MDB_env *, int) \
    FUNCTION(mdb_env_set_maxreaders, int, MDB_env *, unsigned int) \
    FUNCTION(mdb_env_get_maxreaders, int, MDB_env *, unsigned int *) \
    FUNCTION(mdb_env_set_maxdbs, int, MDB_env *, MDB_dbi) \
    FUNCTION(mdb_env_get_maxkeysize, int, MDB_env *) \
    FUNCTION(mdb_env_set_userctx, int, MDB_env *, void *) \
    FUNCTION(mdb_env_get_userctx, void *, MDB_env *) \
    FUNCTION(mdb_env_set_assert, int, MDB_env *, void (*)(MDB_env *, const char *)) \
    FUNCTION(mdb_txn_begin, int, MDB_env *, MDB_txn *, unsigned int, MDB_txn **) \
    FUNCTION(mdb_txn_env, MDB_env *, MDB_txn *) \
    FUNCTION(mdb_txn_id, size_t, MDB_txn *) \
    FUNCTION(mdb_txn_commit, int, MDB_txn *) \
    FUNCTION(mdb_txn_abort, void, MDB_txn *) \
    FUNCTION(mdb_txn_reset, void, MDB_txn *) \
    FUNCTION(mdb_txn_renew, int, MDB_txn *) \
    FUNCTION(mdb_dbi_open, int, MDB_txn *, const char *, unsigned int, MDB_dbi *) \
    FUNCTION(mdb_stat, int, MDB_txn *, MDB_dbi, MDB_stat *) \
    FUNCTION(mdb_dbi_flags, int, MDB_txn *, MDB_dbi, unsigned int *) \
    FUNCTION(mdb_dbi_close, void, MDB_env *, MDB_dbi) \
    FUNCTION(mdb_drop, int, MDB_txn *, MDB_dbi, int) \
    FUNCTION(mdb_set_compare, int, MDB_txn *, MDB_dbi, int (*)(const MDB_val *, const MDB_val *)) \
    FUNCTION(mdb_set_dupsort, int, MDB_txn *, MDB_dbi, int (*)(const MDB_val *, const MDB_val *)) \
    FUNCTION(mdb_set_relfunc, int, MDB_txn *, MDB_dbi, void (*)(MDB_val *, void *, void *, void *)) \
    FUNCTION(mdb_set_relctx, int, MDB_txn *, MDB_dbi, void *) \
    FUNCTION(mdb_get, int, MDB_txn *, MDB_dbi, MDB_val *, MDB_val *) \
    FUNCTION(mdb_put, int, MDB_txn *, MDB_dbi, MDB_val *, MDB_val *, unsigned int) \
    FUNCTION(mdb_del, int, MDB_txn *, MDB_dbi, MDB_val *, MDB_val *) \
    FUNCTION(mdb_cursor_open, int, MDB_txn *, MDB_dbi, MDB_cursor **) \
    FUNCTION(mdb_cursor_close, void, MDB_cursor *) \
    FUNCTION(mdb_cursor_renew, int, MDB_txn *, MDB_cursor *) \
    FUNCTION(mdb_cursor_txn, MDB_txn *, MDB_cursor *) \
    FUNCTION(mdb_cursor_dbi, MDB_dbi, MDB_cursor *) \
    FUNCTION(mdb_cursor_get, int, MDB_cursor *, MDB_val *, MDB_val *, MDB_cursor_op) \
    FUNCTION(mdb_cursor_put, int, MDB_cursor *, MDB_val *, MDB_val *, unsigned int) \
    FUNCTION(mdb_cursor_del, int, MDB_cursor *, unsigned int) \
    FUNCTION(mdb_cursor_count, int, MDB_cursor *, size_t *) \
    FUNCTION(mdb_cmp, int, MDB_txn *, MDB_dbi, const MDB_val *, const MDB_val *) \
    FUNCTION(mdb_dcmp, int, MDB_txn *, MDB_dbi, const MDB_val *, const MDB_val *) \
    FUNCTION(mdb_reader_list, int, MDB_env *, int (*)(const char *, void *), void *) \
    FUNCTION(mdb_reader_check, int, MDB_env *, int *)

#define PROTOTYPE(name, result, ...) \
    _Static_assert(_Generic(&name, result (*)(__VA_ARGS__): 1, default: 0), "prototype of " #name);
FUNCTIONS(PROTOTYPE)

#define NAME(name, result, ...) #name,
static const char *const function_names[] = { FUNCTIONS(NAME) };

/* ==== The library ======================================================== */

TEST(version_is_that_of_the_header)
{
    int major = -1, minor = -1, patch = -1;

    CHECK_TEXT(mdb_version(&major, &minor, &patch), MDB_VERSION_STRING);
    CHECK_EQ(major, MDB_VERSION_MAJOR);
    CHECK_EQ(minor, MDB_VERSION_MINOR);
    CHECK_EQ(patch, MDB_VERSION_PATCH);
    CHECK_TEXT(mdb_version(NULL, NULL, NULL), MDB_VERSION_STRING);
    CHECK_EQ(strncmp(MDB_VERSION_STRING, "LMDB-compatible DLMDB 1.1.0", strlen("LMDB-compatible DLMDB 1.1.0")), 0);
}

/* The text of a code begins with its name, so that logs can be searched for it. */
#define CHECK_NAMED(code) \
    CHECK_EQ(strncmp(mdb_strerror(code), #code ":", sizeof(#code)), 0)

TEST(strerror_names_every_code)
{
    CHECK_NAMED(MDB_KEYEXIST);
    CHECK_NAMED(MDB_NOTFOUND);
    CHECK_NAMED(MDB_PAGE_NOTFOUND);
    CHECK_NAMED(MDB_CORRUPTED);
    CHECK_NAMED(MDB_PANIC);
    CHECK_NAMED(MDB_VERSION_MISMATCH);
    CHECK_NAMED(MDB_INVALID);
    CHECK_NAMED(MDB_MAP_FULL);
    CHECK_NAMED(MDB_DBS_FULL);
    CHECK_NAMED(MDB_READERS_FULL);
    CHECK_NAMED(MDB_TLS_FULL);
    CHECK_NAMED(MDB_TXN_FULL);
    CHECK_NAMED(MDB_CURSOR_FULL);
    CHECK_NAMED(MDB_PAGE_FULL);
    CHECK_NAMED(MDB_MAP_RESIZED);
    CHECK_NAMED(MDB_INCOMPATIBLE);
    CHECK_NAMED(MDB_BAD_RSLOT);
    CHECK_NAMED(MDB_BAD_TXN);
    CHECK_NAMED(MDB_BAD_VALSIZE);
    CHECK_NAMED(MDB_BAD_DBI);
    CHECK_NAMED(MDB_PROBLEM);
    CHECK_NAMED(MDB_DBIS_BUSY);
}

TEST(strerror_explains_success_and_system_errors_and_survives_others)
{
    static const int others[] = { 1000000, -1, MDB_KEYEXIST - 1, MDB_LAST_ERRCODE + 1, INT32_MIN, INT32_MAX };
    size_t i;

    CHECK(strlen(mdb_strerror(MDB_SUCCESS)) > 0);
    CHECK_TEXT(mdb_strerror(ENOSPC), strerror(ENOSPC));
    CHECK_TEXT(mdb_strerror(EACCES), strerror(EACCES));
    for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        CHECK(strlen(mdb_strerror(others[i])) > 0);
}

TEST(print_macros_fit_their_type)
{
    mdb_size_t found = 0;
    char text[32];

    snprintf(text, sizeof(text), "%" MDB_PRIy(u) " %" MDB_PRIy(x), (mdb_size_t)4095, (mdb_size_t)4095);
    CHECK_TEXT(text, "4095 fff");
    snprintf(text, sizeof(text), "%" MDB_FMT_Z "u", MDB_SIZE_MAX);
    CHECK_EQ(sscanf(text, "%" MDB_SCNy(u), &found), 1);
    CHECK(found == MDB_SIZE_MAX);
}

TEST(environment_functions_refuse_null)
{
    unsigned flags, readers;
    const char *path;
    MDB_envinfo info;
    MDB_stat stat;
    int fd, dead;

    CHECK_RC(mdb_env_create(NULL), EINVAL);
    CHECK_RC(mdb_env_open(NULL, ".", 0, 0664), EINVAL);
    CHECK_RC(mdb_env_copy(NULL, "."), EINVAL);
    CHECK_RC(mdb_env_copy2(NULL, ".", 0), EINVAL);
    CHECK_RC(mdb_env_copyfd(NULL, 1), EINVAL);
    CHECK_RC(mdb_env_copyfd2(NULL, 1, 0), EINVAL);
    CHECK_RC(mdb_env_stat(NULL, &stat), EINVAL);
    CHECK_RC(mdb_env_info(NULL, &info), EINVAL);
    CHECK_RC(mdb_env_sync(NULL, 1), EINVAL);
    CHECK_RC(mdb_env_set_flags(NULL, MDB_NOSYNC, 1), EINVAL);
    CHECK_RC(mdb_env_get_flags(NULL, &flags), EINVAL);
    CHECK_RC(mdb_env_get_path(NULL, &path), EINVAL);
    CHECK_RC(mdb_env_get_fd(NULL, &fd), EINVAL);
    CHECK_RC(mdb_env_set_mapsize(NULL, 1 << 20), EINVAL);
    CHECK_RC(mdb_env_set_pagesize(NULL, 4096), EINVAL);
    CHECK_RC(mdb_env_set_maxreaders(NULL, 1), EINVAL);
    CHECK_RC(mdb_env_get_maxreaders(NULL, &readers), EINVAL);
    CHECK_RC(mdb_env_set_maxdbs(NULL, 1), EINVAL);
    CHECK_RC(mdb_env_set_userctx(NULL, NULL), EINVAL);
    CHECK_RC(mdb_env_set_assert(NULL, NULL), EINVAL);
    CHECK_RC(mdb_reader_check(NULL, &dead), EINVAL);
    CHECK_EQ(mdb_reader_list(NULL, NULL, NULL), -1);
    CHECK_EQ(mdb_env_get_maxkeysize(NULL), 0);
    CHECK(mdb_env_get_userctx(NULL) == NULL);
    mdb_dbi_close(NULL, 1);
    mdb_env_close(NULL);
}

TEST(transaction_and_cursor_functions_refuse_null)
{
    MDB_val key = val_text("k"), data = val_text("d");
    MDB_cursor *cursor;
    mdb_size_t count;
    unsigned flags;
    MDB_stat stat;
    MDB_txn *txn;
    MDB_dbi dbi;

    CHECK_RC(mdb_txn_begin(NULL, NULL, 0, &txn), EINVAL);
    CHECK_RC(mdb_txn_commit(NULL), EINVAL);
    CHECK_RC(mdb_txn_renew(NULL), EINVAL);
    CHECK_RC(mdb_dbi_open(NULL, NULL, 0, &dbi), EINVAL);
    CHECK_RC(mdb_dbi_flags(NULL, 1, &flags), EINVAL);
    CHECK_RC(mdb_stat(NULL, 1, &stat), EINVAL);
    CHECK_RC(mdb_drop(NULL, 1, 0), EINVAL);
    CHECK_RC(mdb_set_compare(NULL, 1, NULL), EINVAL);
    CHECK_RC(mdb_set_dupsort(NULL, 1, NULL), EINVAL);
    CHECK_RC(mdb_set_relfunc(NULL, 1, NULL), EINVAL);
    CHECK_RC(mdb_set_relctx(NULL, 1, NULL), EINVAL);
    CHECK_RC(mdb_get(NULL, 1, &key, &data), EINVAL);
    CHECK_RC(mdb_put(NULL, 1, &key, &data, 0), EINVAL);
    CHECK_RC(mdb_del(NULL, 1, &key, NULL), EINVAL);
    CHECK_RC(mdb_cursor_open(NULL, 1, &cursor), EINVAL);
    CHECK_RC(mdb_cursor_renew(NULL, NULL), EINVAL);
    CHECK_RC(mdb_cursor_get(NULL, &key, &data, MDB_FIRST), EINVAL);
    CHECK_RC(mdb_cursor_put(NULL, &key, &data, 0), EINVAL);
    CHECK_RC(mdb_cursor_del(NULL, 0), EINVAL);
    CHECK_RC(mdb_cursor_count(NULL, &count), EINVAL);
    CHECK_EQ(mdb_cmp(NULL, 1, &key, &data), 0);
    CHECK_EQ(mdb_dcmp(NULL, 1, &key, &data), 0);
    CHECK_EQ(mdb_txn_id(NULL), 0);
    CHECK_EQ(mdb_cursor_dbi(NULL), 0);
    CHECK(mdb_txn_env(NULL) == NULL);
    CHECK(mdb_cursor_txn(NULL) == NULL);
    mdb_txn_reset(NULL);
    mdb_txn_abort(NULL);
    mdb_cursor_close(NULL);
}

/* ==== The manual ========================================================= */

enum { LINE_SIZE = 256 };

static FILE *header_open(void)
{
    const char *slash = strrchr(__FILE__, '/');
    int directory_size = slash != NULL ? (int)(slash - __FILE__) + 1 : 0;
    char path[4096];
    FILE *header;

    snprintf(path, sizeof(path), "%.*slmdb.h", directory_size, __FILE__);
    header = fopen(path, "r");
    if (header == NULL)
        test_skip("lmdb.h is not where this program was compiled");
    return header;
}

/* The next line without its end; 0 at the end of the file. */
static int line_read(FILE *header, char *line)
{
    if (fgets(line, LINE_SIZE, header) == NULL)
        return 0;
    CHECK(strchr(line, '\n') != NULL);
    line[strcspn(line, "\n")] = '\0';
    return 1;
}

static int starts_with(const char *line, const char *start)
{
    return strncmp(line, start, strlen(start)) == 0;
}

static int ends_with(const char *line, const char *end)
{
    size_t line_size = strlen(line), end_size = strlen(end);

    return line_size >= end_size && strcmp(line + line_size - end_size, end) == 0;
}

static int is_prototype(const char *line)
{
    return ((*line >= 'a' && *line <= 'z') || starts_with(line, "MDB_")) && !starts_with(line, "typedef ")
        && ends_with(line, ");");
}

static int is_declaration(const char *line)
{
    return is_prototype(line) || starts_with(line, "typedef ") || starts_with(line, "#define MDB_")
        || starts_with(line, "#define mdb_");
}

/* A member of a struct or an enumerator. */
static int is_member(const char *line)
{
    return starts_with(line, "    ") && line[4] != ' ';
}

TEST(header_declares_these_functions_in_this_order)
{
    FILE *header = header_open();
    char line[LINE_SIZE], *name;
    size_t found = 0;

    while (line_read(header, line)) {
        if (!is_prototype(line))
            continue;
        name = strstr(line, "mdb_");
        while (name != NULL && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] != '(')
            name = strstr(name + 1, "mdb_");
        CHECK(name != NULL);
        *strchr(name, '(') = '\0';
        CHECK(found < TEST_COUNT(function_names));
        CHECK_TEXT(name, function_names[found]);
        found++;
    }
    fclose(header);
    CHECK_EQ(found, TEST_COUNT(function_names));
}

TEST(header_has_a_comment_right_above_each_declaration)
{
    FILE *header = header_open();
    int documented = 0, declarations = 0;
    char line[LINE_SIZE];

    while (line_read(header, line)) {
        if (is_declaration(line)) {
            if (!documented)
                test_fail(__FILE__, __LINE__, "no comment above: %s", line);
            documented = 0;
            declarations++;
        } else if (ends_with(line, "*/")) {
            documented = !starts_with(line, "/* ====") && !is_member(line);
        } else if (starts_with(line, "#else")) {
            documented = 1;     /* the comment stands above both alternatives */
        } else if (!starts_with(line, "#if")) {
            documented = 0;
        }
    }
    fclose(header);
    CHECK(declarations > (int)TEST_COUNT(function_names));
}

TEST(header_explains_each_member_and_enumerator)
{
    FILE *header = header_open();
    int inside = 0, members = 0;
    char line[LINE_SIZE];

    while (line_read(header, line)) {
        if (starts_with(line, "typedef ") && ends_with(line, "{"))
            inside = 1;
        else if (starts_with(line, "}"))
            inside = 0;
        if (!inside || !is_member(line))
            continue;
        if (strstr(line, "/**<") == NULL)
            test_fail(__FILE__, __LINE__, "no comment behind: %s", line);
        members++;
    }
    fclose(header);
    CHECK(members > MDB_PREV_MULTIPLE);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST_ENTRY(version_is_that_of_the_header),
        TEST_ENTRY(strerror_names_every_code),
        TEST_ENTRY(strerror_explains_success_and_system_errors_and_survives_others),
        TEST_ENTRY(print_macros_fit_their_type),
        TEST_ENTRY(environment_functions_refuse_null),
        TEST_ENTRY(transaction_and_cursor_functions_refuse_null),
        TEST_ENTRY(header_declares_these_functions_in_this_order),
        TEST_ENTRY(header_has_a_comment_right_above_each_declaration),
        TEST_ENTRY(header_explains_each_member_and_enumerator),
    };

    return test_main(argc, argv, tests, TEST_COUNT(tests));
}
