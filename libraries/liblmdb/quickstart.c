/* quickstart: index the files of a directory tree, ask the index some questions, and let a second process check the
 * answers.
 *
 *     quickstart_program [-q] [DIRECTORY]      DIRECTORY is /usr if none is given; -q: no progress
 *
 * The index is an environment in a temporary directory, with two databases:
 *     paths        path -> size, time of the last change
 *     extensions   file-name extension -> paths (MDB_DUPSORT), "(none)" for names without one
 * A path that is longer than a key may be gets a shorter key: its beginning and a hash of the whole. Then the whole
 * path stands in the record, behind size and time. Symbolic links are not followed, other file systems not entered.
 *
 * The exit status is 0 only if the second process, which opens the environment read-only, gives the same answers. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lmdb.h"

enum {
    BATCH_FILES = 10000,            /* files per write transaction */
    MAP_SIZE_START = 4 << 20,       /* small, and doubled whenever it is full */
    KEY_SIZE_ROOM = 512,            /* more than any key of the library */
    LARGEST_SHOWN = 10,
    EXTENSIONS_SHOWN = 5,
    PATHS_SHOWN = 5,
};

#define ANSWER_OPTION "--answer"
#define NO_EXTENSION "(none)"

/* What the database paths holds for a path. The whole path follows if the key is a shortened one. */
struct file_record {
    uint64_t size;
    int64_t changed;
};

struct file {
    char *path;
    struct file_record record;
};

struct batch {
    size_t count;
    struct file files[BATCH_FILES];
};

struct index {
    MDB_env *env;
    MDB_dbi paths;
    MDB_dbi extensions;
    size_t key_size_max;
};

struct counts {
    size_t files;
    size_t directories;
    size_t shortened;       /* keys of paths that are too long */
    size_t seen_twice;      /* a name that the file system gave again, or two long paths of one hash */
    size_t unreadable;
    size_t not_files;       /* symbolic links, devices, sockets, pipes */
    size_t file_systems;    /* mounted below, not entered */
    size_t map_growths;
};

struct walk {
    struct index *index;
    struct batch *batch;
    struct counts counts;
    char **pending;         /* directories found and not yet read */
    size_t pending_count, pending_room;
    dev_t device;           /* the one that we stay on */
    ino_t own_directory;    /* where the index itself lies */
    bool progress;
    double progress_next;
};

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Says what failed, if it did; hands the code on. */
static int report(int rc, const char *what)
{
    if (rc != MDB_SUCCESS)
        fprintf(stderr, "quickstart: %s: %s\n", what, mdb_strerror(rc));
    return rc;
}

static MDB_val val_of(const void *bytes, size_t size)
{
    MDB_val val;

    val.mv_size = size;
    memcpy(&val.mv_data, &bytes, sizeof(val.mv_data));  /* the library does not write through arguments */
    return val;
}

/* ==== Keys and records ================================================== */

static uint64_t path_hash(const char *path)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *path != '\0'; path++)
        hash = (hash ^ (unsigned char)*path) * UINT64_C(0x100000001b3);
    return hash;
}

/* The key of a path: the path itself where that is short enough, else made in buffer, of KEY_SIZE_ROOM bytes. */
static MDB_val path_key(const struct index *index, const char *path, char *buffer)
{
    size_t size = strlen(path);
    char mark[24];
    int mark_size;

    if (size <= index->key_size_max)
        return val_of(path, size);
    mark_size = snprintf(mark, sizeof(mark), "...%016" PRIx64, path_hash(path));
    size = index->key_size_max - (size_t)mark_size;
    memcpy(buffer, path, size);
    memcpy(buffer + size, mark, (size_t)mark_size);
    return val_of(buffer, index->key_size_max);
}

static bool path_is_shortened(const struct index *index, const char *path)
{
    return strlen(path) > index->key_size_max;
}

/* What stands behind the last dot of a name; a dot in front makes a hidden file, not an extension. */
static const char *path_extension(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');

    return dot == NULL || dot == name || dot[1] == '\0' ? NO_EXTENSION : dot + 1;
}

static int record_read(const MDB_val *data, struct file_record *record)
{
    if (data->mv_size < sizeof(*record))
        return MDB_CORRUPTED;
    memcpy(record, data->mv_data, sizeof(*record));
    return MDB_SUCCESS;
}

/* The whole path of a key, given its record. */
static MDB_val path_whole(const MDB_val *key, const MDB_val *data)
{
    size_t header = sizeof(struct file_record);

    return data->mv_size > header ? val_of((const char *)data->mv_data + header, data->mv_size - header) : *key;
}

/* ==== Filling the index ================================================= */

static int file_store(const struct index *index, MDB_txn *txn, const struct file *file, struct counts *counts)
{
    char buffer[KEY_SIZE_ROOM];
    MDB_val key = path_key(index, file->path, buffer);
    bool shortened = path_is_shortened(index, file->path);
    size_t path_size = shortened ? strlen(file->path) : 0;
    const char *extension = path_extension(file->path);
    MDB_val extension_key = val_of(extension, strlen(extension));
    MDB_val data = { sizeof(file->record) + path_size, NULL };
    int rc;

    rc = mdb_put(txn, index->paths, &key, &data, MDB_NOOVERWRITE | MDB_RESERVE);
    if (rc == MDB_KEYEXIST) {
        counts->seen_twice++;
        return MDB_SUCCESS;
    }
    if (rc != MDB_SUCCESS)
        return rc;
    memcpy(data.mv_data, &file->record, sizeof(file->record));
    memcpy((char *)data.mv_data + sizeof(file->record), file->path, path_size);
    rc = mdb_put(txn, index->extensions, &extension_key, &key, MDB_NODUPDATA);
    if (rc != MDB_SUCCESS)
        return rc;
    counts->files++;
    counts->shortened += shortened;
    return MDB_SUCCESS;
}

static int batch_try(const struct index *index, const struct batch *batch, struct counts *counts)
{
    MDB_txn *txn;
    size_t i;
    int rc = mdb_txn_begin(index->env, NULL, 0, &txn);

    if (rc != MDB_SUCCESS)
        return rc;
    for (i = 0; i < batch->count && rc == MDB_SUCCESS; i++)
        rc = file_store(index, txn, &batch->files[i], counts);
    if (rc == MDB_SUCCESS)
        return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return rc;
}

static int map_grow(MDB_env *env)
{
    MDB_envinfo info;
    int rc = mdb_env_info(env, &info);

    return rc != MDB_SUCCESS ? rc : mdb_env_set_mapsize(env, info.me_mapsize * 2);
}

/* Stores the batch in one transaction. A full map costs that transaction only: it is grown, and the batch tried anew. */
static int batch_store(const struct index *index, struct batch *batch, struct counts *counts)
{
    struct counts tried;
    size_t i;
    int rc;

    for (;;) {
        tried = *counts;
        rc = batch_try(index, batch, &tried);
        if (rc != MDB_MAP_FULL)
            break;
        if ((rc = map_grow(index->env)) != MDB_SUCCESS)
            break;
        counts->map_growths++;
    }
    if (rc == MDB_SUCCESS)
        *counts = tried;
    for (i = 0; i < batch->count; i++)
        free(batch->files[i].path);
    batch->count = 0;
    return rc;
}

static void progress_show(struct walk *walk)
{
    double now;

    if (!walk->progress || (now = seconds_now()) < walk->progress_next)
        return;
    walk->progress_next = now + 0.1;
    fprintf(stderr, "\r%zu files in %zu directories ", walk->counts.files + walk->batch->count,
            walk->counts.directories);
    fflush(stderr);
}

static char *path_join(const char *directory, const char *name)
{
    size_t size = strlen(directory);
    bool slash = size > 0 && directory[size - 1] == '/';
    char *path = malloc(size + strlen(name) + 2);

    if (path != NULL)
        sprintf(path, "%s%s%s", directory, slash ? "" : "/", name);
    return path;
}

/* Takes over path. */
static int pending_add(struct walk *walk, char *path)
{
    char **grown;

    if (walk->pending_count == walk->pending_room) {
        walk->pending_room = walk->pending_room * 2 + 64;
        grown = realloc(walk->pending, walk->pending_room * sizeof(*grown));
        if (grown == NULL) {
            free(path);
            return ENOMEM;
        }
        walk->pending = grown;
    }
    walk->pending[walk->pending_count++] = path;
    return MDB_SUCCESS;
}

/* Takes over path. */
static int file_add(struct walk *walk, char *path, const struct stat *status)
{
    struct file *file = &walk->batch->files[walk->batch->count++];

    file->path = path;
    file->record.size = (uint64_t)status->st_size;
    file->record.changed = (int64_t)status->st_mtime;
    progress_show(walk);
    return walk->batch->count < BATCH_FILES ? MDB_SUCCESS : batch_store(walk->index, walk->batch, &walk->counts);
}

static int entry_add(struct walk *walk, const char *directory, const char *name, const struct stat *status)
{
    char *path;

    if (!S_ISREG(status->st_mode) && !S_ISDIR(status->st_mode)) {
        walk->counts.not_files++;
        return MDB_SUCCESS;
    }
    if (status->st_dev != walk->device) {
        walk->counts.file_systems++;
        return MDB_SUCCESS;
    }
    if (S_ISDIR(status->st_mode) && status->st_ino == walk->own_directory)
        return MDB_SUCCESS;
    path = path_join(directory, name);
    if (path == NULL)
        return ENOMEM;
    return S_ISDIR(status->st_mode) ? pending_add(walk, path) : file_add(walk, path, status);
}

/* Reads one directory. One that cannot be read is counted, the first one excepted: without it there is nothing. */
static int directory_read(struct walk *walk, const char *path, bool is_first)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (is_first ? 0 : O_NOFOLLOW));
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    struct stat status;
    int rc = MDB_SUCCESS;

    if (directory == NULL) {
        rc = errno;
        if (fd >= 0)
            close(fd);
        walk->counts.unreadable++;
        return is_first ? rc : MDB_SUCCESS;
    }
    walk->counts.directories++;
    if (is_first && fstat(fd, &status) == 0)
        walk->device = status.st_dev;
    while (rc == MDB_SUCCESS && (entry = readdir(directory)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (interrupted)
            rc = EINTR;
        else if (fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
            walk->counts.unreadable++;
        else
            rc = entry_add(walk, path, entry->d_name, &status);
    }
    closedir(directory);
    return rc;
}

static int tree_walk(struct walk *walk, const char *root)
{
    char *path = strdup(root);
    bool is_first = true;
    int rc = path != NULL ? pending_add(walk, path) : ENOMEM;

    while (rc == MDB_SUCCESS && walk->pending_count > 0) {
        path = walk->pending[--walk->pending_count];
        rc = directory_read(walk, path, is_first);
        is_first = false;
        free(path);
    }
    if (rc == MDB_SUCCESS)
        rc = batch_store(walk->index, walk->batch, &walk->counts);
    while (walk->batch->count > 0)
        free(walk->batch->files[--walk->batch->count].path);
    while (walk->pending_count > 0)
        free(walk->pending[--walk->pending_count]);
    free(walk->pending);
    if (walk->progress)
        fprintf(stderr, "\r%*s\r", 60, "");
    return rc;
}

/* ==== Questions =========================================================
 * They are asked twice, here and in a second process; so the answers hold nothing that differs between the two. */

struct found_file {
    MDB_val key;            /* in the map, valid as long as the read transaction */
    MDB_val path;
    struct file_record record;
};

struct group {
    MDB_val prefix;
    size_t count;
};

/* What one pass over all paths tells. */
struct summary {
    size_t files;
    uint64_t bytes;
    size_t largest_count;
    struct found_file largest[LARGEST_SHOWN];   /* largest first */
    struct found_file middle;                   /* half of all keys sort before it */
    struct group group;                         /* the directory below the root that holds most files */
};

struct extension {
    MDB_val name;
    size_t count;
};

/* Bytes that would disturb a terminal are shown as \xx. */
static void text_print(FILE *out, const MDB_val *text)
{
    const unsigned char *byte = text->mv_data;
    size_t i;

    for (i = 0; i < text->mv_size; i++) {
        if (byte[i] < ' ' || byte[i] == 0x7f || byte[i] == '\\')
            fprintf(out, "\\%02x", byte[i]);
        else
            putc(byte[i], out);
    }
}

static const char *size_text(char text[32], uint64_t bytes)
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
    double size = (double)bytes;
    size_t unit = 0;

    for (; size >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
        size /= 1024;
    snprintf(text, 32, unit == 0 ? "%.0f %s" : "%.1f %s", size, units[unit]);
    return text;
}

static void file_print(FILE *out, const struct found_file *file)
{
    char size[32];

    fprintf(out, "    %11s  ", size_text(size, file->record.size));
    text_print(out, &file->path);
    putc('\n', out);
}

static bool starts_with(const MDB_val *key, const MDB_val *prefix)
{
    return key->mv_size >= prefix->mv_size && memcmp(key->mv_data, prefix->mv_data, prefix->mv_size) == 0;
}

static void largest_insert(struct summary *summary, const struct found_file *file)
{
    size_t place = summary->largest_count;

    while (place > 0 && summary->largest[place - 1].record.size < file->record.size)
        place--;
    if (place == LARGEST_SHOWN)
        return;
    if (summary->largest_count < LARGEST_SHOWN)
        summary->largest_count++;
    memmove(&summary->largest[place + 1], &summary->largest[place],
            (summary->largest_count - 1 - place) * sizeof(*file));
    summary->largest[place] = *file;
}

/* The part of a key up to the slash behind the first name below the root; empty for a file of the root itself. */
static MDB_val key_group(const MDB_val *key, size_t root_size)
{
    const char *text = key->mv_data;
    const char *slash = key->mv_size > root_size ? memchr(text + root_size, '/', key->mv_size - root_size) : NULL;

    return val_of(text, slash != NULL ? (size_t)(slash + 1 - text) : 0);
}

/* Keys of one group are neighbours, so the one that is being counted and the best one so far are enough. */
static void group_count(struct summary *summary, struct group *current, const MDB_val *key, size_t root_size)
{
    MDB_val prefix = key_group(key, root_size);

    if (prefix.mv_size == 0)
        return;
    if (current->count == 0 || !starts_with(key, &current->prefix)) {
        current->prefix = prefix;
        current->count = 0;
    }
    current->count++;
    if (current->count > summary->group.count)
        summary->group = *current;
}

static int paths_summarize(const struct index *index, MDB_txn *txn, size_t root_size, struct summary *summary)
{
    struct group current = { { 0, NULL }, 0 };
    struct found_file file;
    MDB_cursor *cursor;
    MDB_stat stat;
    MDB_val data;
    int rc;

    memset(summary, 0, sizeof(*summary));
    if ((rc = mdb_stat(txn, index->paths, &stat)) != MDB_SUCCESS)
        return rc;
    if ((rc = mdb_cursor_open(txn, index->paths, &cursor)) != MDB_SUCCESS)
        return rc;
    while ((rc = mdb_cursor_get(cursor, &file.key, &data, MDB_NEXT)) == MDB_SUCCESS) {
        if ((rc = record_read(&data, &file.record)) != MDB_SUCCESS)
            break;
        file.path = path_whole(&file.key, &data);
        largest_insert(summary, &file);
        group_count(summary, &current, &file.key, root_size);
        if (summary->files == stat.ms_entries / 2)
            summary->middle = file;
        summary->files++;
        summary->bytes += file.record.size;
    }
    mdb_cursor_close(cursor);
    if (rc != MDB_NOTFOUND)
        return rc;
    return summary->files == stat.ms_entries ? MDB_SUCCESS : MDB_CORRUPTED;
}

static int prefix_answer(const struct index *index, MDB_txn *txn, const struct group *group, FILE *out)
{
    struct file_record record;
    MDB_val key = group->prefix, data;
    MDB_cursor *cursor;
    uint64_t bytes = 0;
    size_t count = 0;
    char size[32];
    int rc;

    if (group->count == 0)
        return MDB_SUCCESS;
    if ((rc = mdb_cursor_open(txn, index->paths, &cursor)) != MDB_SUCCESS)
        return rc;
    rc = mdb_cursor_get(cursor, &key, &data, MDB_SET_RANGE);
    while (rc == MDB_SUCCESS && starts_with(&key, &group->prefix)) {
        if ((rc = record_read(&data, &record)) != MDB_SUCCESS)
            break;
        count++;
        bytes += record.size;
        rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    if (rc != MDB_SUCCESS && rc != MDB_NOTFOUND)
        return rc;
    if (count != group->count)
        return MDB_CORRUPTED;
    fprintf(out, "  files under ");
    text_print(out, &group->prefix);
    fprintf(out, ": %zu, %s\n", count, size_text(size, bytes));
    return MDB_SUCCESS;
}

static void extension_insert(struct extension *common, size_t *common_count, const struct extension *extension)
{
    size_t place = *common_count;

    while (place > 0 && common[place - 1].count < extension->count)
        place--;
    if (place == EXTENSIONS_SHOWN)
        return;
    if (*common_count < EXTENSIONS_SHOWN)
        ++*common_count;
    memmove(&common[place + 1], &common[place], (*common_count - 1 - place) * sizeof(*common));
    common[place] = *extension;
}

static bool is_named(const struct extension *extension)
{
    MDB_val none = val_of(NO_EXTENSION, strlen(NO_EXTENSION));

    return extension->name.mv_size != none.mv_size || !starts_with(&extension->name, &none);
}

/* The extensions that most files have, most frequent first. All of them together must have every file once. */
static int extensions_rank(const struct index *index, MDB_txn *txn, size_t files, struct extension *common,
                           size_t *common_count, size_t *different)
{
    struct extension extension;
    MDB_cursor *cursor;
    MDB_val data;
    size_t paths = 0;
    int rc;

    *common_count = *different = 0;
    if ((rc = mdb_cursor_open(txn, index->extensions, &cursor)) != MDB_SUCCESS)
        return rc;
    while ((rc = mdb_cursor_get(cursor, &extension.name, &data, MDB_NEXT_NODUP)) == MDB_SUCCESS) {
        if ((rc = mdb_cursor_count(cursor, &extension.count)) != MDB_SUCCESS)
            break;
        paths += extension.count;
        if (!is_named(&extension))
            continue;
        ++*different;
        extension_insert(common, common_count, &extension);
    }
    mdb_cursor_close(cursor);
    if (rc != MDB_NOTFOUND)
        return rc;
    return paths == files ? MDB_SUCCESS : MDB_CORRUPTED;
}

/* Every path of one extension, each looked up in the other database; the first few are shown. */
static int extension_answer(const struct index *index, MDB_txn *txn, const struct extension *extension, FILE *out)
{
    struct found_file file;
    MDB_val key = extension->name, data;
    MDB_cursor *cursor;
    size_t count = 0;
    int rc;

    fprintf(out, "  files that end in .");
    text_print(out, &extension->name);
    fprintf(out, ": %zu, the first of them\n", extension->count);
    if ((rc = mdb_cursor_open(txn, index->extensions, &cursor)) != MDB_SUCCESS)
        return rc;
    rc = mdb_cursor_get(cursor, &key, &file.key, MDB_SET_KEY);
    while (rc == MDB_SUCCESS) {
        if ((rc = mdb_get(txn, index->paths, &file.key, &data)) != MDB_SUCCESS)
            break;
        if ((rc = record_read(&data, &file.record)) != MDB_SUCCESS)
            break;
        file.path = path_whole(&file.key, &data);
        if (count++ < PATHS_SHOWN)
            file_print(out, &file);
        if ((rc = mdb_cursor_get(cursor, &key, &file.key, MDB_NEXT_DUP)) == MDB_NOTFOUND) {
            rc = count == extension->count ? MDB_SUCCESS : MDB_CORRUPTED;
            break;
        }
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? MDB_CORRUPTED : rc;
}

static int extensions_answer(const struct index *index, MDB_txn *txn, size_t files, FILE *out)
{
    struct extension common[EXTENSIONS_SHOWN];
    size_t common_count, different, i;
    int rc = extensions_rank(index, txn, files, common, &common_count, &different);

    if (rc != MDB_SUCCESS || common_count == 0)
        return rc;
    fprintf(out, "  extensions: %zu, most frequent", different);
    for (i = 0; i < common_count; i++) {
        fprintf(out, "%s .", i > 0 ? "," : "");
        text_print(out, &common[i].name);
        fprintf(out, " (%zu)", common[i].count);
    }
    putc('\n', out);
    return extension_answer(index, txn, &common[0], out);
}

static int lookup_answer(const struct index *index, MDB_txn *txn, const struct found_file *wanted, FILE *out)
{
    struct file_record record;
    MDB_val key = wanted->key, data;
    char changed[32] = "at an unknown time";
    struct tm calendar;
    time_t when;
    int rc;

    if ((rc = mdb_get(txn, index->paths, &key, &data)) != MDB_SUCCESS)
        return rc;
    if ((rc = record_read(&data, &record)) != MDB_SUCCESS)
        return rc;
    if (record.size != wanted->record.size || record.changed != wanted->record.changed)
        return MDB_CORRUPTED;
    when = (time_t)record.changed;
    if (gmtime_r(&when, &calendar) != NULL)
        strftime(changed, sizeof(changed), "%Y-%m-%d %H:%M:%S UTC", &calendar);
    fprintf(out, "  one lookup: ");
    text_print(out, &wanted->path);
    fprintf(out, ": %" PRIu64 " bytes, changed %s\n", record.size, changed);
    return MDB_SUCCESS;
}

static int questions_answer(const struct index *index, MDB_txn *txn, const char *root, FILE *out)
{
    size_t root_size = strlen(root);
    struct summary summary;
    char size[32];
    size_t i;
    int rc;

    if (root_size > 0 && root[root_size - 1] != '/')
        root_size++;
    if ((rc = paths_summarize(index, txn, root_size, &summary)) != MDB_SUCCESS)
        return rc;
    fprintf(out, "  files: %zu, %s\n", summary.files, size_text(size, summary.bytes));
    if (summary.files == 0)
        return MDB_SUCCESS;
    fprintf(out, "  the largest\n");
    for (i = 0; i < summary.largest_count; i++)
        file_print(out, &summary.largest[i]);
    if ((rc = prefix_answer(index, txn, &summary.group, out)) != MDB_SUCCESS)
        return rc;
    if ((rc = extensions_answer(index, txn, summary.files, out)) != MDB_SUCCESS)
        return rc;
    return lookup_answer(index, txn, &summary.middle, out);
}

/* ==== Environments ====================================================== */

static int databases_open(struct index *index, MDB_txn *txn, unsigned flags)
{
    int rc = mdb_dbi_open(txn, "paths", flags, &index->paths);

    return rc != MDB_SUCCESS ? rc : mdb_dbi_open(txn, "extensions", flags | MDB_DUPSORT, &index->extensions);
}

static int index_open(struct index *index, const char *path, unsigned flags)
{
    MDB_txn *txn;
    int rc;

    if ((rc = mdb_env_create(&index->env)) != MDB_SUCCESS)
        return rc;
    if ((rc = mdb_env_set_maxdbs(index->env, 2)) != MDB_SUCCESS)
        return rc;
    if ((flags & MDB_RDONLY) == 0 && (rc = mdb_env_set_mapsize(index->env, MAP_SIZE_START)) != MDB_SUCCESS)
        return rc;
    if ((rc = mdb_env_open(index->env, path, flags, 0600)) != MDB_SUCCESS)
        return rc;
    index->key_size_max = (size_t)mdb_env_get_maxkeysize(index->env);
    if (index->key_size_max >= KEY_SIZE_ROOM)
        index->key_size_max = KEY_SIZE_ROOM - 1;
    if ((rc = mdb_txn_begin(index->env, NULL, flags & MDB_RDONLY, &txn)) != MDB_SUCCESS)
        return rc;
    if ((rc = databases_open(index, txn, (flags & MDB_RDONLY) != 0 ? 0 : MDB_CREATE)) == MDB_SUCCESS)
        return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return rc;
}

static int index_ask(const struct index *index, const char *root, FILE *out)
{
    MDB_txn *txn;
    int rc = mdb_txn_begin(index->env, NULL, MDB_RDONLY, &txn);

    if (rc != MDB_SUCCESS)
        return rc;
    rc = questions_answer(index, txn, root, out);
    mdb_txn_abort(txn);
    return rc;
}

/* The whole work of the second process: the answers, on its standard output. */
static int answer_only(const char *path, const char *root)
{
    struct index index = { NULL, 0, 0, 0 };
    int rc = index_open(&index, path, MDB_RDONLY);

    if (rc == MDB_SUCCESS)
        rc = index_ask(&index, root, stdout);
    if (fflush(stdout) != 0)
        rc = EIO;
    mdb_env_close(index.env);
    return report(rc, "in the second process") == MDB_SUCCESS ? 0 : 1;
}

/* ==== The second process ================================================ */

/* Are the bytes that come from the descriptor exactly these? Reads to the end, so that the writer never blocks. */
static bool stream_equals(int fd, const char *expected, size_t expected_size)
{
    char bytes[4096];
    size_t place = 0;
    bool equal = true;
    ssize_t size;

    while ((size = read(fd, bytes, sizeof(bytes))) != 0) {
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0)
            return false;
        equal = equal && (size_t)size <= expected_size - place && memcmp(bytes, expected + place, (size_t)size) == 0;
        if (equal)
            place += (size_t)size;
    }
    return equal && place == expected_size;
}

static void second_process_become(const char *program, int output, const char *path, const char *root)
{
    if (dup2(output, STDOUT_FILENO) >= 0) {
#ifdef __linux__
        execl("/proc/self/exe", program, ANSWER_OPTION, path, root, (char *)NULL);
#endif
        execlp(program, program, ANSWER_OPTION, path, root, (char *)NULL);
    }
    _exit(127);
}

/* Starts this program again to answer the same questions from the same files. */
static int second_process_check(const char *program, const char *path, const char *root, const char *answers,
                                size_t size)
{
    int ends[2], status;
    bool equal;
    pid_t child;

    if (pipe(ends) != 0)
        return report(errno, "pipe");
    child = fork();
    if (child == 0) {
        close(ends[0]);
        second_process_become(program, ends[1], path, root);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return report(errno, "fork");
    }
    equal = stream_equals(ends[0], answers, size);
    close(ends[0]);
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            return report(errno, "waitpid");
    }
    if (equal && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return MDB_SUCCESS;
    fprintf(stderr, "quickstart: the second process gave other answers\n");
    return EBADMSG;
}

/* ==== The report ======================================================== */

static void walk_print(const struct counts *counts, double seconds)
{
    printf("  %zu files in %zu directories, %.2f s\n", counts->files, counts->directories, seconds);
    printf("  keys of too long paths shortened: %zu; map doubled: %zu times\n", counts->shortened,
           counts->map_growths);
    printf("  left out: %zu links and devices, %zu unreadable, %zu on other file systems, %zu seen twice\n",
           counts->not_files, counts->unreadable, counts->file_systems, counts->seen_twice);
}

static int database_print(MDB_txn *txn, MDB_dbi dbi, const char *name)
{
    MDB_stat stat;
    int rc = mdb_stat(txn, dbi, &stat);

    if (rc == MDB_SUCCESS)
        printf("  %-10s: %zu entries, depth %u, %zu branch, %zu leaf and %zu overflow pages\n", name,
               (size_t)stat.ms_entries, stat.ms_depth, (size_t)stat.ms_branch_pages, (size_t)stat.ms_leaf_pages,
               (size_t)stat.ms_overflow_pages);
    return rc;
}

static int storage_print(const struct index *index)
{
    MDB_envinfo info;
    MDB_stat stat;
    MDB_txn *txn;
    struct stat status;
    char size[32];
    int fd, rc;

    if ((rc = mdb_env_get_fd(index->env, &fd)) != MDB_SUCCESS)
        return rc;
    if (fstat(fd, &status) != 0)
        return errno;
    if ((rc = mdb_env_info(index->env, &info)) != MDB_SUCCESS)
        return rc;
    if ((rc = mdb_env_stat(index->env, &stat)) != MDB_SUCCESS)
        return rc;
    printf("Storage\n  data file: %s, %zu pages of %u bytes\n", size_text(size, (uint64_t)status.st_size),
           (size_t)info.me_last_pgno + 1, stat.ms_psize);
    if ((rc = mdb_txn_begin(index->env, NULL, MDB_RDONLY, &txn)) != MDB_SUCCESS)
        return rc;
    rc = database_print(txn, index->paths, "paths");
    if (rc == MDB_SUCCESS)
        rc = database_print(txn, index->extensions, "extensions");
    mdb_txn_abort(txn);
    return rc;
}

/* ==== The whole ========================================================= */

static int tree_index(struct index *index, const char *path, const char *root, bool progress)
{
    struct walk walk;
    struct stat own;
    double start = seconds_now();
    int rc;

    memset(&walk, 0, sizeof(walk));
    walk.index = index;
    walk.progress = progress;
    if (stat(path, &own) != 0)
        return report(errno, path);
    walk.own_directory = own.st_ino;
    walk.batch = calloc(1, sizeof(*walk.batch));
    if (walk.batch == NULL)
        return report(ENOMEM, "indexing");
    rc = tree_walk(&walk, root);
    free(walk.batch);
    if (rc == MDB_SUCCESS)
        walk_print(&walk.counts, seconds_now() - start);
    return report(rc, root);
}

static int answers_check(const struct index *index, const char *program, const char *path, const char *root)
{
    double start = seconds_now();
    char *answers = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&answers, &size);
    int rc;

    if (memory == NULL)
        return report(errno, "asking");
    rc = report(index_ask(index, root, memory), "asking");
    if (fclose(memory) != 0 && rc == MDB_SUCCESS)
        rc = report(ENOMEM, "asking");
    if (rc == MDB_SUCCESS) {
        printf("Questions, answered in %.2f s\n%s", seconds_now() - start, answers);
        fflush(stdout);
        start = seconds_now();
        rc = second_process_check(program, path, root, answers, size);
    }
    if (rc == MDB_SUCCESS)
        printf("A second process opened the files read-only and gave the same answers, %.2f s\n",
               seconds_now() - start);
    free(answers);
    return rc;
}

static int quickstart(const char *program, const char *path, const char *root, bool progress)
{
    struct index index = { NULL, 0, 0, 0 };
    int rc;

    printf("Indexing %s with %s\n", root, mdb_version(NULL, NULL, NULL));
    fflush(stdout);
    rc = report(index_open(&index, path, 0), path);
    if (rc == MDB_SUCCESS)
        rc = tree_index(&index, path, root, progress);
    if (rc == MDB_SUCCESS)
        rc = answers_check(&index, program, path, root);
    if (rc == MDB_SUCCESS)
        rc = report(storage_print(&index), "storage");
    mdb_env_close(index.env);
    return rc;
}

static void directory_remove(const char *path)
{
    static const char *const names[] = { "data.mdb", "lock.mdb" };
    char *file;
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        file = path_join(path, names[i]);
        if (file != NULL)
            unlink(file);
        free(file);
    }
    if (rmdir(path) != 0)
        report(errno, path);
}

/* Paths are the root, a slash, and the rest: so the root goes without its own last slashes. */
static void slashes_trim(char *root)
{
    size_t size = strlen(root);

    while (size > 1 && root[size - 1] == '/')
        root[--size] = '\0';
}

static void interrupts_catch(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = interrupt;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    sigaction(SIGPIPE, &action, NULL);
}

int main(int argc, char **argv)
{
    char usr[] = "/usr";
    const char *base = getenv("TMPDIR");
    bool quiet = argc > 1 && strcmp(argv[1], "-q") == 0;
    int first = quiet ? 2 : 1, rc;
    char *root = argc > first ? argv[first] : usr;
    char *path;

    if (argc == 4 && strcmp(argv[1], ANSWER_OPTION) == 0)
        return answer_only(argv[2], argv[3]);
    if (argc > first + 1 || *root == '\0' || *root == '-') {
        fprintf(stderr, "usage: %s [-q] [DIRECTORY]\n", argv[0]);
        return 2;
    }
    slashes_trim(root);
    path = path_join(base != NULL && *base != '\0' ? base : "/tmp", "quickstart-XXXXXX");
    if (path == NULL || mkdtemp(path) == NULL)
        return report(errno, path != NULL ? path : "memory") != MDB_SUCCESS;
    interrupts_catch();
    rc = quickstart(argv[0], path, root, !quiet && isatty(STDERR_FILENO));
    directory_remove(path);
    free(path);
    return rc == MDB_SUCCESS ? 0 : 1;
}
