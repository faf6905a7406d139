/* mdb_drop: empties a database, or deletes it. */
#include <sys/stat.h>

#include "mdb_tool.h"

/* Without this, opening would create the environment that is missing. */
static int env_require(const char *path)
{
    const char *suffix = tool.env_flags & MDB_NOSUBDIR ? "" : "/data.mdb";
    size_t room = strlen(path) + strlen(suffix) + 1;
    char *name = malloc(room);
    struct stat status;
    int rc;

    if (name == NULL)
        return tool_failed("malloc", ENOMEM, NULL);
    snprintf(name, room, "%s%s", path, suffix);
    rc = stat(name, &status) == 0 ? 0 : tool_failed("mdb_env_open", errno, path);
    free(name);
    return rc;
}

static int database_drop(MDB_txn *txn, const char *name, bool delete)
{
    MDB_dbi dbi;
    int rc = mdb_dbi_open(txn, name, 0, &dbi);

    if (rc != 0)
        return tool_failed("mdb_dbi_open", rc, name);
    rc = mdb_drop(txn, dbi, delete);
    if (rc != 0)
        return tool_failed("mdb_drop", rc, name);
    return tool_stopping() ? tool_failed("mdb_drop", EINTR, name) : 0;
}

static int drop_run(MDB_env *env, const char *name, bool delete)
{
    MDB_txn *txn;
    int rc = tool_write_begin(env, &txn);

    if (rc != 0)
        return tool_failed("mdb_txn_begin", rc, NULL);
    rc = database_drop(txn, name, delete);
    if (rc != 0) {
        mdb_txn_abort(txn);
        return rc;
    }
    rc = mdb_txn_commit(txn);
    return rc == 0 ? 0 : tool_failed("mdb_txn_commit", rc, NULL);
}

int main(int count, char **arguments)
{
    const char *name = NULL;
    bool delete = false;
    MDB_env *env;
    int option, rc;

    tool_start(arguments, "[-V] [-q] [-n] [-d] [-s subdb] dbpath");
    while ((option = getopt(count, arguments, "Vnqds:")) != -1) {
        if (option == 'd')
            delete = true;
        else if (option == 's')
            name = optarg;
        else if (!tool_option(option))
            return tool_usage();
    }
    if (optind != count - 1)
        return tool_usage();
    if (env_require(arguments[optind]) != 0)
        return EXIT_FAILURE;
    env = tool_env_create();
    if (env == NULL)
        return EXIT_FAILURE;
    rc = tool_env_open(env, arguments[optind], 0);
    if (rc == 0)
        rc = drop_run(env, name, delete);
    mdb_env_close(env);
    return tool_exit_status(rc);
}
