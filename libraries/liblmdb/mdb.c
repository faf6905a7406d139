/** @file mdb.c
 * The engine of liblmdb: a copy-on-write B+tree in a memory-mapped file, one writer and any number of readers.
 *
 * A committed state is never overwritten. A writer copies each page before its first change, under a new number, and
 * copies its parents up to the root with it; a commit writes the new pages and then, in one step, the meta page that
 * names the new roots. The pages that the old state alone needs become free once no reader sees it any more. The layout
 * of the file stands in mdb_format.h and docs/FORMAT.md, what the calls promise in lmdb.h.
 *
 * Contents: search for `==== 7.`. A section calls only what stands above it; where it cannot, a forward declaration says
 * why.
 *
 *   1  Structs               environment, transaction, tree, cursor, and what holds between their fields
 *   2  Errors and version    texts of codes
 *   3  Files and maps        the data file, its maps, its length, its meta pages
 *   4  Lock file             writer lock, last commit, reader table
 *   5  Key order             compare functions, search kernels, separators
 *   6  Page store            find, copy, allocate, free, spill and write the pages of a transaction
 *   7  Page kinds            a page as entries in key order: branch, leaf, fixed-width leaf; sub-pages
 *   8  Paths                 descent and movement in a tree, and following what others change
 *   9  Tree                  insertion with split, deletion with rebalance
 *  10  Cursors               databases of a transaction; keys, and the duplicates of a key in their three shapes
 *  11  Reads                 mdb_get, mdb_cursor_get and their like
 *  12  Writes                mdb_put, mdb_del, mdb_cursor_put, mdb_cursor_del
 *  13  Free list and drop    pulling free pages, writing the free list back, freeing whole trees
 *  14  Transactions          begin, nested, commit, abort, reset, renew
 *  15  Databases             the handle table: open, close, flags, statistics, drop, compare functions
 *  16  Environment           create, open, configure, close
 *  17  Copies                one snapshot to a file or a pipe, as it is or compact
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "lmdb.h"
#include "mdb_format.h"
#include "mdb_os.h"
#include "midl.h"

/* ==== 1. Structs =====================================================================================================
 * Environment, transaction, tree, cursor, and what always holds between their fields.
 */

_Static_assert(sizeof(MDB_val) == 2 * sizeof(size_t), "ABI: MDB_val");
_Static_assert(sizeof(MDB_stat) == 8 + 4 * sizeof(size_t), "ABI: MDB_stat");
_Static_assert(sizeof(MDB_envinfo) == 8 + 4 * sizeof(size_t), "ABI: MDB_envinfo");
_Static_assert(sizeof(MDB_dbi) == 4, "ABI: MDB_dbi");

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define prefetch(address) __builtin_prefetch(address)

#define MAPSIZE_DEFAULT ((size_t)1 << 20)
#define READERS_DEFAULT 126u

/* Dirty memory that one transaction may hold before it spills. Builds for tests make it small. */
#ifndef MDB_DIRTY_BYTES_MAX
#define MDB_DIRTY_BYTES_MAX ((size_t)512 << 20)
#endif

/* How keys of a tree compare. The kind chooses an inlined search; `cmp` is always callable. */
enum order_kind { ORDER_BYTES, ORDER_REVERSE, ORDER_INTEGER, ORDER_CUSTOM };

struct order {
    enum order_kind kind;
    MDB_cmp_func *cmp;
};

/* One mapping of the data file. Transactions hold the one they began with, so that mdb_env_set_mapsize can map anew
 * while readers live; who gives back the last hold unmaps. The environment holds its current one.
 * The struct stays in env->maps until the environment is closed: with holds 0 it waits for its next mapping. */
struct map {
    unsigned char *base;
    size_t size;
    atomic_uint holds;
    struct map *next;
};

/* A database handle as the environment knows it: shared by all transactions, guarded by env->handles_mutex where it
 * changes. `name` is NULL for a handle that is not in use (of the core ones: NULL with `used` set).
 * `sequence` grows with each close, so that a transaction notices that its cached tree is of an older database. */
struct handle {
    char *name;
    size_t name_size;
    bool used;
    unsigned sequence;
    MDB_txn *opener;       /* who opened it and has not committed yet: nobody else may use it; NULL: everybody may */
    unsigned flags;        /* persistent flags of the database record */
    MDB_cmp_func *key_cmp; /* set by the user, or NULL: the order that the flags say */
    MDB_cmp_func *dup_cmp;
};

/* One B+tree as a transaction sees it. */
struct tree {
    struct db_record record;
    struct order order;     /* of keys */
    struct order dup_order; /* of values, with DUPSORT */
    unsigned leaf_kind; /* page flags of its leaves: P_LEAF, or P_LEAF | P_LEAF2 */
    pgno_t run_page;    /* where the last insert went, to recognise a run of ascending ones */
    unsigned run_index;
};

/* States of a handle in a transaction, txn->handle_state[dbi]. */
enum {
    HANDLE_LOADED = 1, /* trees[dbi] holds the record */
    HANDLE_DIRTY = 2,  /* the record changed in this transaction */
    HANDLE_NEW = 4,    /* opened in this transaction: an abort forgets it */
    HANDLE_DROPPED = 8 /* deleted in this transaction: the handle answers MDB_BAD_DBI */
};

struct level {
    struct page *page;
    unsigned index;
};

/* Where a cursor core stands. */
enum position {
    POS_NONE,   /* nowhere yet */
    POS_ON,     /* on the entry at `index` of its leaf */
    POS_GAP,    /* on none: its record was deleted; the entry at `index`, or the one after the leaf, took its place */
    POS_MISSED  /* on none: a search failed here; `index` is where the wanted entry would be */
};

/* A path from the root of one tree to an entry. path[0] is the root, path[depth - 1] the leaf.
 * While position is not POS_NONE: 1 <= depth <= DEPTH_MAX, and every index is below its page's count; only the leaf's
 * may equal it, in POS_GAP and POS_MISSED. */
struct core {
    MDB_txn *txn;
    struct tree *tree;
    MDB_cursor *owner; /* the cursor it is part of; NULL for one that only looks */
    size_t sub_size;   /* the tree is a sub-page of so many bytes; 0: it is made of pages */
    unsigned char depth;
    unsigned char position;
    struct level path[DEPTH_MAX];
};

/* What the values of one key are stored as. */
enum dups_shape { DUPS_SINGLE, DUPS_SUB_PAGE, DUPS_TREE };

/* The duplicates of the key that a cursor stands on, once they are loaded. DUPS_SINGLE: core.path[0].page is NULL
 * and the index 0, or 1 behind the value. DUPS_SUB_PAGE: path[0].page lies in the outer leaf; in a write transaction
 * its address is looked up anew before each use. DUPS_TREE: tree.record is a copy of the record in the outer node. */
struct dups {
    struct tree tree;
    struct core core;
    enum dups_shape shape;
    bool loaded;
};

struct MDB_cursor {
    unsigned magic;           /* CURSOR_MAGIC while the handle lives */
    bool tracked;             /* in its transaction's list; false in read transactions */
    bool following;           /* its record is being moved by another cursor: it goes along */
    struct core core;
    MDB_dbi dbi;
    unsigned sequence;        /* of the handle, when the cursor was opened */
    struct dups *dups;        /* NULL unless DUPSORT; allocated together with the cursor */
    struct MDB_cursor *next;  /* in the transaction's list of this database: write transactions only */
    struct MDB_cursor *saved; /* what the cursor was when the nested transaction began that now changes it */
};

/* Flags of a transaction, beside MDB_RDONLY, MDB_NOSYNC, MDB_NOMETASYNC which it may be begun with. */
#define TXN_FINISHED 0x01u /* reset, or ended: only renew and abort are left */
#define TXN_FAILED 0x02u   /* an update went wrong: only abort is left */
#define TXN_DIRTY 0x04u    /* there is something to commit */

#define TXN_MAGIC 0x4d54584eu
#define ENV_MAGIC 0x4d454e56u
#define CURSOR_MAGIC 0x4d435552u

struct MDB_txn {
    unsigned magic; /* TXN_MAGIC while the handle lives */
    unsigned flags;
    MDB_env *env;
    MDB_txn *parent;
    MDB_txn *child;
    struct map *map;
    unsigned char *base;  /* map->base: a page's address is base + pgno * page_size */
    unsigned page_shift;
    txnid_t id;
    size_t mapsize;       /* that the snapshot's meta page names; never gets smaller in the file */
    pgno_t next_pgno;     /* first page number that was never used */
    pgno_t pages_safe;    /* pages below this are in the file and below next_pgno */
    bool handles_changed; /* a handle was opened or dropped in this transaction */
    struct tree *trees;
    unsigned char *handle_state;
    unsigned *handle_sequence;

    /* Readers. */
    struct reader_slot *slot;
    txnid_t known_id; /* the loaded trees are of this snapshot; TXNID_NONE: there are none */
    unsigned known_handles; /* and fit env->handles as they were in this generation */
    bool own_slot; /* the slot is released with the transaction, not kept for the thread */

    /* Writers; section 6 says what holds between these. */
    struct page_table dirty;   /* pages of this transaction, by number; SPILLED: written early, in the file */
    struct page_table saved;   /* nested, pages changed in place: copies of the parent's dirty pages, for abort */
    struct page_list freed;    /* pages of the snapshot (or of the parent) that are free once this commits */
    struct page_list freed_dirty; /* nested: pages and runs, by first number, that an ancestor holds and this one freed */
    size_t reserve;            /* pages that must stay to be had after each that is taken */
    pgno_t first_next_pgno;    /* next_pgno at begin */
    struct MDB_cursor **cursors; /* per database: all that are open, linked */
    struct MDB_cursor **own_cursors; /* per database: what mdb_put and mdb_del work through */
};

/* What only the one write transaction at a time uses; lives as long as the environment to keep its memory. */
struct writer {
    struct page_runs reclaimed; /* page numbers to take: out of free-list records, or given back by this transaction */
    txnid_t pulled_last;        /* all records up to this id have been pulled; 0: none */
    bool pull_ended;            /* no more records can be pulled for now */
    bool saving;                /* the free-list tree is being changed: none may be pulled */
    txnid_t oldest;             /* records below this id can be pulled; 0: not known yet */
    size_t dirty_bytes;         /* memory of dirty pages, of all levels */
    size_t spill_at;            /* dirty_bytes with which pages are spilled next */
    void *scratch;              /* SCRATCH_PAGES pages, see section 12 */
    struct slab *slabs;         /* memory for dirty pages */
    size_t slabs_size;
    void *slab_free;
    MDB_txn *txn;               /* innermost live write transaction, NULL if none */
    _Atomic uintptr_t owner;    /* os_thread_number() of who holds the writer lock through this environment, or 0 */
};

struct MDB_env {
    unsigned magic;
    unsigned flags;     /* MDB_xxx flags of mdb_env_open and mdb_env_set_flags */
    bool open;
    atomic_bool panic;  /* what is on disk is not known any more: only close is left */
    unsigned fork_generation; /* os_fork_generation() at open */

    /* Files. -1 while closed. */
    int data_fd;
    int meta_fd;        /* the data file again, O_DSYNC */
    int lock_fd;
    char *path;         /* as given by the user */
    size_t page_size;
    unsigned page_shift;
    _Atomic size_t mapsize;
    bool mapsize_set;   /* by the user, before open */
    _Atomic(struct map *) map;       /* the current one; see env_map_take */
    struct map *maps;                /* all, guarded by map_mutex */
    os_mutex map_mutex;
    unsigned char *metas;            /* pages 0 and 1, mapped for as long as the environment is open */
    _Atomic size_t file_pages;       /* pages that the file is known to have */
    size_t pages_allocated;          /* MDB_WRITEMAP: pages that have room on the disk; the writer's */

    /* Lock file, NULL with MDB_NOLOCK or on read-only media. */
    struct lock_file *lock;
    size_t lock_size;
    bool lock_exclusive;             /* our lock on byte 0 is: while opening; MDB_PREVSNAPSHOT: to the first commit */
    atomic_bool previous;            /* MDB_PREVSNAPSHOT: the state before the last one is meant, to the first commit */
    os_key reader_key;               /* the slot of a thread, unless MDB_NOTLS */
    bool reader_key_made;
    bool liveness_locked;            /* the fcntl lock on our pid is held; guarded by the reader mutex */
    os_pid pid;
    unsigned max_readers;

    /* Database handles. */
    os_mutex handles_mutex;
    struct handle *handles;          /* max_dbs of them, core ones included */
    atomic_uint handles_generation;  /* counts changes of any of them; see txn_handles_begin */
    MDB_dbi max_dbs;

    os_mutex writer_mutex;           /* the writer lock of this process when there is no lock file */
    struct writer writer;
    _Atomic(MDB_txn *) spare_txn;    /* a finished read transaction, kept for the next begin */

    void *user_context;
    MDB_assert_func *assert_func;

    /* In the process-wide list of open environments with a lock file; guarded, as is `lock`, by os_process_lock. */
    MDB_env *next_open;
    bool registered;
    bool data_known;                 /* data_id is set */
    struct os_file_id lock_id;
    struct os_file_id data_id;
};

/* ==== 2. Errors and version ==========================================================================================
 * Texts of error codes, the version, and what a failed assertion does.
 */

char *mdb_version(int *major, int *minor, int *patch)
{
    static char text[] = MDB_VERSION_STRING;

    if (major != NULL)
        *major = MDB_VERSION_MAJOR;
    if (minor != NULL)
        *minor = MDB_VERSION_MINOR;
    if (patch != NULL)
        *patch = MDB_VERSION_PATCH;
    return text;
}

char *mdb_strerror(int err)
{
    static const struct {
        int code;
        const char *text;
    } texts[] = {
        {MDB_KEYEXIST, "MDB_KEYEXIST: the key, or the key/value pair, is there already"},
        {MDB_NOTFOUND, "MDB_NOTFOUND: no such key/value pair"},
        {MDB_PAGE_NOTFOUND, "MDB_PAGE_NOTFOUND: a page that should exist is missing"},
        {MDB_CORRUPTED, "MDB_CORRUPTED: the data file is damaged"},
        {MDB_PANIC, "MDB_PANIC: a fatal error made the environment unusable; close it"},
        {MDB_VERSION_MISMATCH, "MDB_VERSION_MISMATCH: the files are of another format version"},
        {MDB_INVALID, "MDB_INVALID: the file is not an LMDB environment"},
        {MDB_MAP_FULL, "MDB_MAP_FULL: the map size of the environment is used up"},
        {MDB_DBS_FULL, "MDB_DBS_FULL: more databases opened than mdb_env_set_maxdbs allows"},
        {MDB_READERS_FULL, "MDB_READERS_FULL: no reader slot is free"},
        {MDB_TLS_FULL, "MDB_TLS_FULL: the process has no thread-local storage key left"},
        {MDB_TXN_FULL, "MDB_TXN_FULL: the transaction has changed too many pages"},
        {MDB_CURSOR_FULL, "MDB_CURSOR_FULL: the tree is deeper than a cursor can follow"},
        {MDB_PAGE_FULL, "MDB_PAGE_FULL: a page has no room for what must go there"},
        {MDB_MAP_RESIZED, "MDB_MAP_RESIZED: another process grew the data beyond this process's map"},
        {MDB_INCOMPATIBLE, "MDB_INCOMPATIBLE: the operation does not fit the database or its flags"},
        {MDB_BAD_RSLOT, "MDB_BAD_RSLOT: this thread already has a read transaction, or its slot was misused"},
        {MDB_BAD_TXN, "MDB_BAD_TXN: the transaction has failed, has ended, or has a live child"},
        {MDB_BAD_VALSIZE, "MDB_BAD_VALSIZE: a key or value has a size that this database does not take"},
        {MDB_BAD_DBI, "MDB_BAD_DBI: the database behind the handle was closed, dropped or replaced"},
        {MDB_PROBLEM, "MDB_PROBLEM: an internal inconsistency was found; the transaction must abort"},
        {MDB_DBIS_BUSY, "MDB_DBIS_BUSY: database handles are in use"},
    };
    size_t i;

    if (err == MDB_SUCCESS)
        return (char *)(uintptr_t)"Success: no error";
    for (i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].code == err)
            return (char *)(uintptr_t)texts[i].text;
    }
    if (err < 0)
        return (char *)(uintptr_t)"unknown LMDB error code";
    return strerror(err);
}

/* ==== 3. Files and maps ==============================================================================================
 * The data file as this process sees it: its maps, its length, its two meta pages.
 * Owns: env->map, maps, metas, file_pages, pages_allocated.
 * Always: a struct map with holds > 0 is mapped; env->map has one hold of the environment's.
 * Uses: 1, 2, mdb_os.h. Used by: 6, which grows the file, 14, which begins and commits, 16, which opens and closes.
 */

/* ---- is the environment to be used? ---- */

/* Is this an open environment of this process? Not one that a forked child inherited. */
static inline int env_here(const MDB_env *env)
{
    if (unlikely(env == NULL || env->magic != ENV_MAGIC || !env->open))
        return EINVAL;
    return likely(env->fork_generation == os_fork_generation()) ? MDB_SUCCESS : EPERM;
}

/* And can its files be relied on? */
static inline int env_usable(const MDB_env *env)
{
    int rc = env_here(env);

    if (unlikely(rc == MDB_SUCCESS && atomic_load_explicit(&env->panic, memory_order_relaxed)))
        return MDB_PANIC;
    return rc;
}

static int env_panic(MDB_env *env)
{
    atomic_store_explicit(&env->panic, true, memory_order_relaxed);
    return MDB_PANIC;
}

/* ---- maps of the data file ---- */

/* A struct for a mapping: one that waits for its next, else a new one. */
static struct map *map_struct(MDB_env *env)
{
    struct map *map;

    /* acquire: pairs with the last release, whose owner read base and size before. */
    for (map = env->maps; map != NULL; map = map->next)
        if (atomic_load_explicit(&map->holds, memory_order_acquire) == 0)
            return map;
    map = calloc(1, sizeof *map);
    if (map != NULL) {
        map->next = env->maps;
        env->maps = map;
    }
    return map;
}

/* Maps the data file: at `address`, or anywhere if that is NULL. *out has one hold. The caller has env->map_mutex, or
 * the environment is not open yet. */
static int map_make(MDB_env *env, size_t size, void *address, struct map **out)
{
    struct map *map = map_struct(env);
    unsigned char *base;
    int rc;

    if (map == NULL)
        return ENOMEM;
    rc = os_map(env->data_fd, 0, size, address, (env->flags & MDB_WRITEMAP) != 0, &base);
    if (rc != MDB_SUCCESS)
        return rc;
    if ((env->flags & MDB_NORDAHEAD) != 0)
        os_map_no_read_ahead(base, size);
    map->base = base;
    map->size = size;
    /* release: who takes a hold sees base and size. */
    atomic_store_explicit(&map->holds, 1, memory_order_release);
    *out = map;
    return MDB_SUCCESS;
}

/* Gives a hold back; the last one unmaps. Does not touch the struct after that, for it may be mapped anew at once. */
static inline void map_release(struct map *map)
{
    unsigned char *base = map->base;
    size_t size = map->size;

    /* release: reads of the map are done; acquire: also those of the other holders, before it goes. */
    if (atomic_fetch_sub_explicit(&map->holds, 1, memory_order_acq_rel) == 1)
        os_unmap(base, size);
}

/* The current map, with a hold. It may be replaced, and lose its last hold, between the two loads: then the count is 0,
 * and must not rise. Structs are never freed while the environment is open, so looking at the count is safe. */
static inline struct map *env_map_take(MDB_env *env)
{
    for (;;) {
        struct map *map = atomic_load_explicit(&env->map, memory_order_acquire);
        unsigned holds = atomic_load_explicit(&map->holds, memory_order_relaxed);

        /* acquire: pairs with the store in map_make, so that base and size are seen. */
        while (holds != 0)
            if (atomic_compare_exchange_weak_explicit(&map->holds, &holds, holds + 1, memory_order_acquire,
                    memory_order_relaxed))
                return map;
    }
}

/* Makes `map` the current one; the one before loses the environment's hold. */
static void env_map_replace(MDB_env *env, struct map *map)
{
    struct map *old = atomic_exchange_explicit(&env->map, map, memory_order_acq_rel);

    if (old != NULL)
        map_release(old);
}

/* Unmaps everything; for an environment that nobody uses any more. */
static void env_maps_free(MDB_env *env)
{
    while (env->maps != NULL) {
        struct map *next = env->maps->next;

        if (atomic_load_explicit(&env->maps->holds, memory_order_acquire) > 0 && env->maps->base != env->metas)
            os_unmap(env->maps->base, env->maps->size);
        free(env->maps);
        env->maps = next;
    }
    atomic_store_explicit(&env->map, NULL, memory_order_relaxed);
    if (env->metas != NULL)
        os_unmap(env->metas, META_PAGES * env->page_size);
    env->metas = NULL;
}

/* ---- length of the data file ---- */

/* Asks the file how many whole pages it has. relaxed: the count only spares system calls. */
static size_t env_file_pages(MDB_env *env)
{
    size_t known = atomic_load_explicit(&env->file_pages, memory_order_relaxed);
    uint64_t size;
    size_t pages;

    if (os_file_size(env->data_fd, &size) != MDB_SUCCESS)
        return known;
    size >>= env->page_shift;
    pages = size > SIZE_MAX ? SIZE_MAX : (size_t)size;
    while (pages > known)
        if (atomic_compare_exchange_weak_explicit(&env->file_pages, &known, pages, memory_order_relaxed,
                memory_order_relaxed))
            return pages;
    return known;
}

/* How far to grow a file that needs `pages`: an eighth more, for the file system's sake, but no further than the
 * map. */
static size_t file_grow_goal(const MDB_env *env, size_t pages)
{
    const size_t more_min = ((size_t)256 << 10) >> env->page_shift;
    const size_t more_max = ((size_t)64 << 20) >> env->page_shift;
    size_t more = pages / 8;
    size_t map_pages = env->mapsize >> env->page_shift;

    more = more < more_min ? more_min : more > more_max ? more_max : more;
    if (pages >= map_pages)
        return pages;
    return more < map_pages - pages ? pages + more : map_pages;
}

/* MDB_WRITEMAP: gives the first `pages` pages room on the disk, because a write to the map could only answer a full
 * disk by SIGBUS. The caller has the writer lock. */
static int file_grow(MDB_env *env, pgno_t pages)
{
    size_t goal;
    int rc;

    if (likely(pages <= env->pages_allocated))
        return MDB_SUCCESS;
    goal = file_grow_goal(env, pages);
    rc = os_allocate(env->data_fd, (uint64_t)goal << env->page_shift);
    if (rc == ENOSPC && goal > pages) {
        goal = pages;
        rc = os_allocate(env->data_fd, (uint64_t)goal << env->page_shift);
    }
    if (rc != MDB_SUCCESS)
        return rc;
    env->pages_allocated = goal;
    env_file_pages(env);
    return MDB_SUCCESS;
}

/* Writes what was changed to the disk; wait: returns when it is there. */
static int file_sync(MDB_env *env, struct map *map, bool wait)
{
    if ((env->flags & MDB_WRITEMAP) != 0)
        return os_map_sync(map->base, map->size, wait);
    return os_sync(env->data_fd);
}

/* ---- meta pages ---- */

static txnid_t lock_last_txnid(MDB_env *env);

#define META_SIZE (PAGE_HEADER + sizeof(struct meta))
#define META_WORDS (META_SIZE / sizeof(size_t))

_Static_assert(META_SIZE % sizeof(size_t) == 0, "a meta page is copied by words");
_Static_assert(offsetof(struct meta, txnid) + sizeof(size_t) == sizeof(struct meta), "the transaction id comes last");

/* Header and meta of a meta page, taken out of the map. */
struct meta_copy {
    _Alignas(size_t) unsigned char bytes[META_SIZE];
};

static const struct page *meta_copy_page(const struct meta_copy *copy)
{
    return (const struct page *)(const void *)copy->bytes;
}

static const struct meta *meta_copy_meta(const struct meta_copy *copy)
{
    return page_meta_const(meta_copy_page(copy));
}

static size_t *meta_words(const MDB_env *env, unsigned number)
{
    return (size_t *)(void *)(env->metas + number * env->page_size);
}

/* Word by word, the transaction id last. Others may be writing to it: whether the copy is of one piece is judged later.
 * relaxed loads, since the fences behind the copy order them. */
static void meta_page_copy(const MDB_env *env, unsigned number, struct meta_copy *out)
{
    const size_t *words = meta_words(env, number);
    size_t i;

    for (i = 0; i < META_WORDS; i++) {
        size_t word = __atomic_load_n(&words[i], __ATOMIC_RELAXED);

        memcpy(out->bytes + i * sizeof word, &word, sizeof word);
    }
}

/* Copies both until two copies in a row are equal. Writers, the kernel on behalf of write() too, go upwards, so that a
 * page half overwritten by a newer meta still has its old id, which is not the newest then. */
static void metas_copy(const MDB_env *env, struct meta_copy copies[META_PAGES])
{
    struct meta_copy again[META_PAGES];

    do {
        meta_page_copy(env, 0, &copies[0]);
        meta_page_copy(env, 1, &copies[1]);
        /* acquire: the second copies are read after the first ones. */
        atomic_thread_fence(memory_order_acquire);
        meta_page_copy(env, 0, &again[0]);
        meta_page_copy(env, 1, &again[1]);
    } while (memcmp(copies, again, sizeof again) != 0);
}

static bool meta_copy_ok(const MDB_env *env, const struct meta_copy *copy, unsigned number)
{
    return meta_ok(meta_copy_page(copy), number) && meta_copy_meta(copy)->dbs[FREE_DBI].pad == env->page_size;
}

/* The newest valid meta; previous: the valid one right before it. */
static int meta_newest(MDB_env *env, struct meta *out, bool previous)
{
    struct meta_copy copies[META_PAGES];
    bool valid[META_PAGES];
    txnid_t id[META_PAGES];
    unsigned number;

    metas_copy(env, copies);
    for (number = 0; number < META_PAGES; number++) {
        valid[number] = meta_copy_ok(env, &copies[number], number);
        id[number] = meta_copy_meta(&copies[number])->txnid;
    }
    number = valid[1] && (!valid[0] || id[1] > id[0]) ? 1 : 0;
    if (!valid[number])
        return MDB_CORRUPTED;
    if (previous) {
        if (!valid[1 - number] || id[1 - number] + 1 != id[number])
            return MDB_CORRUPTED;
        number = 1 - number;
    }
    *out = *meta_copy_meta(&copies[number]);
    return MDB_SUCCESS;
}

/* The meta of transaction `id`, which should be the last one; or of a later one, if there was a commit meanwhile; or,
 * if it is not there, the newest valid one: look at out->txnid. A reader whose slot has an older id is safe. */
static int meta_of(MDB_env *env, txnid_t id, struct meta *out)
{
    struct meta_copy copy;
    txnid_t last = id;

    if (env->lock == NULL)
        return meta_newest(env, out, atomic_load_explicit(&env->previous, memory_order_relaxed));
    do {
        id = last;
        meta_page_copy(env, id & 1, &copy);
        /* acquire: the copy is read before the last id. Transaction id + 2, which overwrites this page, begins when
         * id + 1 is the last one: so if it is not yet, the copy is of one piece. */
        atomic_thread_fence(memory_order_acquire);
        last = lock_last_txnid(env);
    } while (last != id);
    if (!meta_copy_ok(env, &copy, id & 1) || meta_copy_meta(&copy)->txnid != id)
        return meta_newest(env, out, atomic_load_explicit(&env->previous, memory_order_relaxed));
    *out = *meta_copy_meta(&copy);
    return MDB_SUCCESS;
}

/* What the last commit left. */
static int meta_current(MDB_env *env, struct meta *out)
{
    return meta_of(env, lock_last_txnid(env), out);
}

/* A meta page's beginning as it stands in the file; the rest of the page means nothing. */
static void meta_page_build(const struct meta *meta, unsigned number, struct meta_copy *out)
{
    struct page *page = (struct page *)(void *)out->bytes;

    memset(out, 0, sizeof *out);
    page->pgno = number;
    page->flags = P_META;
    *page_meta(page) = *meta;
    page_meta(page)->magic = FORMAT_MAGIC;
    page_meta(page)->version = FORMAT_VERSION;
}

/* Writes a meta page and, as the flags demand, waits for the disk. */
static int meta_page_put(MDB_env *env, unsigned number, const struct meta_copy *copy, unsigned flags)
{
    bool sync = (flags & (MDB_NOSYNC | MDB_NOMETASYNC)) == 0;

    if ((flags & MDB_WRITEMAP) != 0) {
        size_t *words = meta_words(env, number);
        size_t i;

        /* release: the id comes last, for readers in other threads and processes. */
        for (i = 0; i < META_WORDS; i++) {
            size_t word;

            memcpy(&word, copy->bytes + i * sizeof word, sizeof word);
            __atomic_store_n(&words[i], word, __ATOMIC_RELEASE);
        }
        return sync ? os_map_sync(env->metas, META_PAGES * env->page_size, (flags & MDB_MAPASYNC) == 0) : MDB_SUCCESS;
    }
    return os_write(sync ? env->meta_fd : env->data_fd, copy->bytes, sizeof copy->bytes,
        (uint64_t)number << env->page_shift);
}

/* Makes transaction meta->txnid the newest in the file; its pages are there already. If that fails the state before is
 * put back; if that fails too nobody knows what the file holds. The caller has the writer lock. */
static int meta_write(MDB_env *env, const struct meta *meta, unsigned txn_flags)
{
    unsigned flags = env->flags | txn_flags;
    unsigned number = meta->txnid & 1;
    struct meta_copy old;
    struct meta_copy now;
    struct meta_copy copy;
    int rc;

    meta_page_build(meta, number, &copy);
    meta_page_copy(env, number, &old);
    rc = meta_page_put(env, number, &copy, flags);
    if (likely(rc == MDB_SUCCESS))
        return rc;
    meta_page_copy(env, number, &now);
    if (memcmp(&now, &old, sizeof now) == 0)
        return rc;
    return meta_page_put(env, number, &old, flags) == MDB_SUCCESS ? rc : env_panic(env);
}

/* ==== 4. Lock file ===================================================================================================
 * What processes share beside the data: the writer lock, the id of the last commit, the table of readers.
 * Owns: env->lock and what belongs to it, and the process-wide list of open environments.
 * Always: a reader slot with our pid belongs to one of our threads (or, MDB_NOTLS, transactions) and no one else
 *         writes to it; fcntl locks are on the lock file only, which is open once per process.
 * Uses: 3, mdb_os.h. Used by: 6, which asks for the oldest reader, 14, which begins and commits, 16.
 */

#define LOCK_FORMAT 0x00010001u /* version 1; liveness by locks on pids */
#define CACHE_LINE 64

struct reader_slot {
    _Alignas(CACHE_LINE) _Atomic txnid_t txnid; /* snapshot in use; TXNID_NONE: none */
    _Atomic os_pid pid;                         /* 0: the slot is free */
    _Atomic uintptr_t thread;
};

struct lock_file {
    _Atomic uint32_t magic;
    uint32_t format;
    os_mutex reader_mutex;
    _Atomic txnid_t last_txnid;
    _Atomic uint32_t slots_used;
    _Alignas(CACHE_LINE) os_mutex writer_mutex;
    struct reader_slot slots[];
};

_Static_assert(sizeof(struct reader_slot) == CACHE_LINE, "reader slot in the lock file");
_Static_assert(offsetof(struct lock_file, reader_mutex) == 8, "lock file header");
_Static_assert(offsetof(struct lock_file, slots) == sizeof(struct lock_file), "lock file header");
#if defined(__x86_64__) && defined(__linux__) && defined(__LP64__)
_Static_assert(offsetof(struct reader_slot, pid) == 8, "reader slot in the lock file");
_Static_assert(offsetof(struct reader_slot, thread) == 16, "reader slot in the lock file");
_Static_assert(offsetof(struct lock_file, last_txnid) == 48, "lock file header");
_Static_assert(offsetof(struct lock_file, slots_used) == 56, "lock file header");
_Static_assert(offsetof(struct lock_file, writer_mutex) == 64, "lock file header");
_Static_assert(offsetof(struct lock_file, slots) == 128, "lock file header");
#endif

/* Environments of this process whose lock file is open; guarded by os_process_lock. */
static MDB_env *open_environments;

static bool env_is_reading_previous(const MDB_env *env)
{
    return (env->flags & (MDB_RDONLY | MDB_PREVSNAPSHOT)) == (MDB_RDONLY | MDB_PREVSNAPSHOT);
}

/* The state to be read when `last` was committed last. */
static inline txnid_t snapshot_id(const MDB_env *env, txnid_t last)
{
    return unlikely(env_is_reading_previous(env)) && last > 0 ? last - 1 : last;
}

/* Id of the transaction whose state is the current one. acquire: pairs with lock_set_last_txnid, so that the meta page
 * of that transaction, and its pages, are seen. */
static inline txnid_t lock_last_txnid(MDB_env *env)
{
    if (unlikely(env->lock == NULL)) {
        struct meta meta;
        bool previous = atomic_load_explicit(&env->previous, memory_order_relaxed);

        return meta_newest(env, &meta, previous) == MDB_SUCCESS ? meta.txnid : 0;
    }
    return snapshot_id(env, atomic_load_explicit(&env->lock->last_txnid, memory_order_acquire));
}

/* release: the meta page was written before. */
static void lock_set_last_txnid(MDB_env *env, txnid_t id)
{
    if (env->lock != NULL)
        atomic_store_explicit(&env->lock->last_txnid, id, memory_order_release);
}

/* Is one of the two files open here already? What a parent process had open when it forked does not count; but our
 * inherited descriptor of its lock file must go first: closing it later would drop our locks. */
static bool lock_is_registered(const MDB_env *self, const struct os_file_id *lock_id, const struct os_file_id *data_id)
{
    MDB_env *env;

    for (env = open_environments; env != NULL; env = env->next_open) {
        bool same = lock_id != NULL ? os_file_id_equal(&env->lock_id, lock_id)
                                    : env->data_known && os_file_id_equal(&env->data_id, data_id);

        if (env == self || !same)
            continue;
        if (env->fork_generation == os_fork_generation())
            return true;
        os_close(env->lock_fd);
        env->lock_fd = -1;
    }
    return false;
}

static void lock_unregister(MDB_env *env)
{
    MDB_env **link = &open_environments;

    if (!env->registered)
        return;
    while (*link != env)
        link = &(*link)->next_open;
    *link = env->next_open;
    env->registered = false;
    env->data_known = false;
}

/* Opens the lock file, unless this process has it open. The caller has the process lock. */
static int lock_open_file(MDB_env *env, const char *path, mdb_mode_t mode)
{
    struct os_file_id id;
    int rc = os_path_id(path, &id);

    if (rc == MDB_SUCCESS && lock_is_registered(env, &id, NULL))
        return EBUSY;
    rc = os_open(path, OS_OPEN_CREATE, mode, &env->lock_fd);
    if (rc == MDB_SUCCESS)
        rc = os_file_id(env->lock_fd, &id);
    if (rc != MDB_SUCCESS)
        return rc;
    env->lock_id = id;
    env->next_open = open_environments;
    env->registered = true;
    open_environments = env;
    return MDB_SUCCESS;
}

/* Takes the lock on byte 0: exclusive if nobody uses the environment, which makes us the one who sets up the lock file;
 * else shared, once others have done so. */
static int lock_take(MDB_env *env)
{
    int rc = os_lock_byte(env->lock_fd, 0, OS_LOCK_EXCLUSIVE, false);

    env->lock_exclusive = rc == MDB_SUCCESS;
    if (rc != EAGAIN || (env->flags & (MDB_PREVSNAPSHOT | MDB_RDONLY)) == MDB_PREVSNAPSHOT)
        return rc;
    return os_lock_byte(env->lock_fd, 0, OS_LOCK_SHARED, true);
}

/* Opens and locks the lock file, to be followed by lock_start when the data file is known to be good. On media where
 * nobody can write a reader does without. */
static int lock_open(MDB_env *env, const char *path, mdb_mode_t mode)
{
    int rc;

    os_process_lock();
    rc = lock_open_file(env, path, mode);
    os_process_unlock();
    if (rc == EROFS && (env->flags & MDB_RDONLY) != 0)
        return MDB_SUCCESS;
    return rc == MDB_SUCCESS ? lock_take(env) : rc;
}

/* The data file, by another path perhaps, must not be open here either: its lock file may be another one then. */
static int lock_register_data(MDB_env *env)
{
    struct os_file_id id;
    int rc = os_file_id(env->data_fd, &id);

    if (rc != MDB_SUCCESS || !env->registered)
        return rc;
    os_process_lock();
    if (lock_is_registered(env, NULL, &id)) {
        rc = EBUSY;
    } else {
        env->data_id = id;
        env->data_known = true;
    }
    os_process_unlock();
    return rc;
}

/* Maps `size` bytes of the lock file. */
static int lock_map(MDB_env *env, uint64_t size)
{
    unsigned char *base;
    int rc;

    if (size > SIZE_MAX)
        return ENOMEM;
    rc = os_map(env->lock_fd, 0, (size_t)size, NULL, true, &base);
    if (rc != MDB_SUCCESS)
        return rc;
    size -= sizeof(struct lock_file);
    env->max_readers = size / sizeof(struct reader_slot) > UINT32_MAX ? UINT32_MAX
                                                                      : (unsigned)(size / sizeof(struct reader_slot));
    os_process_lock();
    env->lock_size = (size_t)size + sizeof(struct lock_file);
    env->lock = (struct lock_file *)(void *)base;
    os_process_unlock();
    return MDB_SUCCESS;
}

static void lock_unmap(MDB_env *env)
{
    os_process_lock();
    if (env->lock != NULL)
        os_unmap(env->lock, env->lock_size);
    env->lock = NULL;
    os_process_unlock();
}

/* Uses the lock file as others have set it up. */
static int lock_attach(MDB_env *env)
{
    uint64_t size;
    int rc = os_file_size(env->lock_fd, &size);

    if (rc != MDB_SUCCESS)
        return rc;
    if (size < sizeof(struct lock_file) + sizeof(struct reader_slot))
        return MDB_INVALID;
    if ((rc = lock_map(env, size)) != MDB_SUCCESS)
        return rc;
    if (atomic_load_explicit(&env->lock->magic, memory_order_acquire) != FORMAT_MAGIC)
        rc = MDB_INVALID;
    else if (env->lock->format != LOCK_FORMAT)
        rc = MDB_VERSION_MISMATCH;
    if (rc != MDB_SUCCESS)
        lock_unmap(env);
    return rc;
}

/* Sets up the lock file; we are alone. The magic comes last, and is away before: a process that waits for us, and goes
 * on because we died here, must not take what it finds for a lock file. */
static int lock_init(MDB_env *env)
{
    uint64_t size_min = sizeof(struct lock_file) + (uint64_t)env->max_readers * sizeof(struct reader_slot);
    struct lock_file *lock;
    struct meta meta;
    uint64_t size;
    int rc;

    rc = meta_newest(env, &meta, (env->flags & (MDB_PREVSNAPSHOT | MDB_RDONLY)) == MDB_PREVSNAPSHOT);
    if (rc != MDB_SUCCESS || (rc = os_file_size(env->lock_fd, &size)) != MDB_SUCCESS)
        return rc;
    size = size < size_min ? size_min : size;
    if ((rc = os_allocate(env->lock_fd, size)) != MDB_SUCCESS || (rc = lock_map(env, size)) != MDB_SUCCESS)
        return rc;
    lock = env->lock;
    atomic_store_explicit(&lock->magic, 0, memory_order_seq_cst);
    memset(&lock->reader_mutex, 0, sizeof lock->reader_mutex);
    memset(&lock->writer_mutex, 0, sizeof lock->writer_mutex);
    rc = os_mutex_init_shared(&lock->reader_mutex);
    if (rc == MDB_SUCCESS)
        rc = os_mutex_init_shared(&lock->writer_mutex);
    if (rc != MDB_SUCCESS) {
        lock_unmap(env);
        return rc;
    }
    lock->format = LOCK_FORMAT;
    atomic_store_explicit(&lock->slots_used, 0, memory_order_relaxed);
    atomic_store_explicit(&lock->last_txnid, meta.txnid, memory_order_relaxed);
    /* release: all of the above is there when the magic is. */
    atomic_store_explicit(&lock->magic, FORMAT_MAGIC, memory_order_release);
    return MDB_SUCCESS;
}

/* Makes the lock on byte 0 a shared one, so that others can open the environment. After the first commit with
 * MDB_PREVSNAPSHOT the state before the last one is the current one. */
static void lock_share(MDB_env *env)
{
    if ((env->flags & MDB_RDONLY) == 0)
        atomic_store_explicit(&env->previous, false, memory_order_relaxed);
    if (env->lock_exclusive && os_lock_byte(env->lock_fd, 0, OS_LOCK_SHARED, false) == MDB_SUCCESS)
        env->lock_exclusive = false;
}

/* The data file is good and its meta pages are mapped: sets up the lock file, or uses it as it is. If who was to set it
 * up died, those who waited for that try to become the one who does. */
static int lock_start(MDB_env *env)
{
    int rc = MDB_SUCCESS;
    int attempt;

    if (env->lock_fd < 0)
        return MDB_SUCCESS;
    for (attempt = 0; !env->lock_exclusive; attempt++) {
        rc = lock_attach(env);
        if (rc != MDB_INVALID || attempt == 20)
            return rc;
        if ((rc = os_lock_byte(env->lock_fd, 0, OS_LOCK_NONE, false)) != MDB_SUCCESS
            || (rc = lock_take(env)) != MDB_SUCCESS)
            return rc;
    }
    rc = lock_init(env);
    if (rc == MDB_SUCCESS && ((env->flags & MDB_PREVSNAPSHOT) == 0 || (env->flags & MDB_RDONLY) != 0))
        lock_share(env);
    return rc;
}

/* ---- writer lock ---- */

/* Waiting for the writer lock goes on in slices, so that it can be given up between two of them. */
#define WRITER_WAIT_MS 100u

static os_mutex *writer_mutex(MDB_env *env)
{
    return env->lock != NULL ? &env->lock->writer_mutex : &env->writer_mutex;
}

static bool writer_is_this_thread(const MDB_env *env)
{
    /* relaxed: only this thread can have stored its own number. */
    return atomic_load_explicit(&env->writer.owner, memory_order_relaxed) == os_thread_number();
}

/* The owner of the writer lock died, and we have it now. What it had not committed is gone, but it may have died
 * between writing its meta page and saying so. If it was a thread of ours, its transaction lies about unfinished. */
static int writer_recover(MDB_env *env)
{
    struct meta meta;
    int rc = meta_newest(env, &meta, false);

    if (rc == MDB_SUCCESS)
        lock_set_last_txnid(env, meta.txnid);
    if (atomic_load_explicit(&env->writer.owner, memory_order_relaxed) != 0)
        rc = env_panic(env);
    os_mutex_consistent(writer_mutex(env));
    if (rc != MDB_SUCCESS)
        os_mutex_unlock(writer_mutex(env));
    return rc;
}

/* Takes the writer lock. EDEADLK: this thread has it. EBUSY: somebody has it, and we were not to wait. */
static int writer_lock(MDB_env *env, bool wait)
{
    int rc = env_usable(env);

    if (rc != MDB_SUCCESS)
        return rc;
    if (writer_is_this_thread(env))
        return EDEADLK;
    rc = os_mutex_try(writer_mutex(env));
    while (wait && (rc == EBUSY || rc == ETIMEDOUT))
        rc = os_mutex_lock_for(writer_mutex(env), WRITER_WAIT_MS);
    if (rc == EOWNERDEAD)
        rc = writer_recover(env);
    if (rc == ENOTRECOVERABLE)
        rc = env_panic(env);
    if (rc == MDB_SUCCESS)
        atomic_store_explicit(&env->writer.owner, os_thread_number(), memory_order_relaxed);
    return rc;
}

static void writer_unlock(MDB_env *env)
{
    assert(writer_is_this_thread(env));
    atomic_store_explicit(&env->writer.owner, 0, memory_order_relaxed);
    os_mutex_unlock(writer_mutex(env));
}

/* ---- reader table ---- */

/* A process that died with the mutex left nothing half-done: a slot is taken by its pid, which is stored last. */
static int reader_mutex_lock(MDB_env *env)
{
    int rc = os_mutex_lock(&env->lock->reader_mutex);

    if (rc == EOWNERDEAD)
        rc = os_mutex_consistent(&env->lock->reader_mutex);
    return rc == ENOTRECOVERABLE ? env_panic(env) : rc;
}

static void reader_mutex_unlock(MDB_env *env)
{
    os_mutex_unlock(&env->lock->reader_mutex);
}

/* Slots that were ever used. acquire: they are seen as they were before they counted. */
static unsigned reader_slots_used(const MDB_env *env)
{
    unsigned used = atomic_load_explicit(&env->lock->slots_used, memory_order_acquire);

    return used < env->max_readers ? used : env->max_readers;
}

/* acquire: who sees a slot taken sees what else was stored in it. */
static os_pid slot_pid(const struct reader_slot *slot)
{
    return atomic_load_explicit(&slot->pid, memory_order_acquire);
}

/* release: reads of the snapshot are done, and whoever takes the slot next writes to it after us. */
static void slot_free(struct reader_slot *slot)
{
    atomic_store_explicit(&slot->pid, 0, memory_order_release);
}

/* Frees all slots of a process. */
static void slots_free_of(MDB_env *env, os_pid pid)
{
    unsigned used = reader_slots_used(env);
    unsigned i;

    for (i = 0; i < used; i++)
        if (slot_pid(&env->lock->slots[i]) == pid)
            slot_free(&env->lock->slots[i]);
}

/* Frees the slots of dead processes. The caller has the reader mutex. Who takes a slot has its pid locked before, so
 * a pid without lock is of a process that ended; whether another one has the same number now does not matter. */
static int slots_clear_dead(MDB_env *env, int *dead)
{
    unsigned used = reader_slots_used(env);
    os_pid alive = env->pid;
    unsigned i;

    for (i = 0; i < used; i++) {
        os_pid pid = slot_pid(&env->lock->slots[i]);
        bool held;
        int rc;

        if (pid == 0 || pid == env->pid || pid == alive)
            continue;
        if ((rc = os_lock_is_held(env->lock_fd, (uint64_t)pid, &held)) != MDB_SUCCESS)
            return rc;
        if (held) {
            alive = pid;
        } else {
            slot_free(&env->lock->slots[i]);
            ++*dead;
        }
    }
    return MDB_SUCCESS;
}

/* *dead (if wanted): how many slots were freed. */
static int readers_clear_dead(MDB_env *env, int *dead)
{
    int count = 0;
    int rc = MDB_SUCCESS;

    if (env->lock != NULL) {
        if ((rc = reader_mutex_lock(env)) != MDB_SUCCESS)
            return rc;
        rc = slots_clear_dead(env, &count);
        reader_mutex_unlock(env);
    }
    if (rc == MDB_SUCCESS && dead != NULL)
        *dead = count;
    return rc;
}

/* Shows others, once, that our pid lives. Slots that have it already are of a dead process which had the same number:
 * the first process of a container always has. The caller has the reader mutex. */
static int liveness_lock(MDB_env *env)
{
    int rc;

    if (env->liveness_locked)
        return MDB_SUCCESS;
    if ((rc = os_lock_byte(env->lock_fd, (uint64_t)env->pid, OS_LOCK_EXCLUSIVE, false)) != MDB_SUCCESS)
        return rc;
    slots_free_of(env, env->pid);
    env->liveness_locked = true;
    return MDB_SUCCESS;
}

static struct reader_slot *slot_find_free(MDB_env *env)
{
    unsigned used = reader_slots_used(env);
    unsigned i;

    for (i = 0; i < used; i++)
        if (slot_pid(&env->lock->slots[i]) == 0)
            break;
    return i < env->max_readers ? &env->lock->slots[i] : NULL;
}

/* Order matters, for others look at the table without the mutex: idle before it counts, the pid last. */
static void slot_take(MDB_env *env, struct reader_slot *slot)
{
    unsigned number = (unsigned)(slot - env->lock->slots);

    atomic_store_explicit(&slot->pid, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->txnid, TXNID_NONE, memory_order_relaxed);
    atomic_store_explicit(&slot->thread, os_thread_number(), memory_order_relaxed);
    /* release, twice: see reader_slots_used and slot_pid. */
    if (number >= reader_slots_used(env))
        atomic_store_explicit(&env->lock->slots_used, number + 1, memory_order_release);
    atomic_store_explicit(&slot->pid, env->pid, memory_order_release);
}

/* A free slot, idle, for the calling thread. */
static int reader_claim(MDB_env *env, struct reader_slot **out)
{
    struct reader_slot *slot = NULL;
    int dead = 0;
    int rc = reader_mutex_lock(env);

    if (rc != MDB_SUCCESS)
        return rc;
    rc = liveness_lock(env);
    if (rc == MDB_SUCCESS && (slot = slot_find_free(env)) == NULL) {
        rc = slots_clear_dead(env, &dead);
        if (rc == MDB_SUCCESS && (slot = slot_find_free(env)) == NULL)
            rc = MDB_READERS_FULL;
    }
    if (rc == MDB_SUCCESS) {
        slot_take(env, slot);
        *out = slot;
    }
    reader_mutex_unlock(env);
    return rc;
}

/* relaxed: a thread looks at its own slot. */
static inline bool slot_is_own_and_idle(const MDB_env *env, const struct reader_slot *slot)
{
    return atomic_load_explicit(&slot->pid, memory_order_relaxed) == env->pid
        && atomic_load_explicit(&slot->txnid, memory_order_relaxed) == TXNID_NONE;
}

/* Is this slot still the one that the calling thread keeps? */
static inline bool slot_is_threads(const MDB_env *env, const struct reader_slot *slot)
{
    return slot_is_own_and_idle(env, slot)
        && atomic_load_explicit(&slot->thread, memory_order_relaxed) == os_thread_number();
}

/* A slot for a read transaction: a new one, or (not notls) the calling thread's, which it keeps until it ends.
 * MDB_BAD_RSLOT: that one is in use. *out is NULL without a lock file. */
static int reader_get(MDB_env *env, bool notls, struct reader_slot **out)
{
    struct reader_slot *slot;
    int rc;

    if (env->lock == NULL) {
        *out = NULL;
        return MDB_SUCCESS;
    }
    if (notls || !env->reader_key_made)
        return reader_claim(env, out);
    slot = os_key_get(env->reader_key);
    if (likely(slot != NULL)) {
        if (!slot_is_own_and_idle(env, slot))
            return MDB_BAD_RSLOT;
        *out = slot;
        return MDB_SUCCESS;
    }
    if ((rc = reader_claim(env, &slot)) != MDB_SUCCESS)
        return rc;
    if ((rc = os_key_set(env->reader_key, slot)) != MDB_SUCCESS) {
        slot_free(slot);
        return rc;
    }
    *out = slot;
    return MDB_SUCCESS;
}

/* Announces the current state as the snapshot in use. A writer that does not see the announcement may have begun to
 * reuse its pages: but then it committed something first, and the id has moved on. Both sides store something and then
 * read what the other stores: here both are sequentially consistent, the writer has a fence between (readers_oldest).
 * So at least one of them sees the other. */
static inline void reader_set(MDB_env *env, struct reader_slot *slot, txnid_t *snapshot)
{
    txnid_t last;

    *snapshot = lock_last_txnid(env);
    if (unlikely(slot == NULL))
        return;
    for (;;) {
        atomic_store_explicit(&slot->txnid, *snapshot, memory_order_seq_cst);
        last = snapshot_id(env, atomic_load_explicit(&env->lock->last_txnid, memory_order_seq_cst));
        if (likely(last == *snapshot))
            return;
        *snapshot = last;
    }
}

/* The snapshot is not needed any more. release: it was read before. */
static inline void reader_idle(struct reader_slot *slot)
{
    if (slot != NULL)
        atomic_store_explicit(&slot->txnid, TXNID_NONE, memory_order_release);
}

/* Gives a slot back. A forked child has a copy of the pointer, but the slot is its parent's. */
static void reader_release(MDB_env *env, struct reader_slot *slot)
{
    if (slot == NULL || env->lock == NULL || env->fork_generation != os_fork_generation()
        || atomic_load_explicit(&slot->pid, memory_order_relaxed) != env->pid)
        return;
    if (env->reader_key_made && os_key_get(env->reader_key) == slot)
        os_key_set(env->reader_key, NULL);
    slot_free(slot);
}

/* The oldest snapshot in use, at most `limit`: what is older than that nobody reads. */
static txnid_t readers_oldest(MDB_env *env, txnid_t limit)
{
    unsigned used;
    unsigned i;

    if (env->lock == NULL)
        return limit;
    /* Commits before ours have stored their ids, which happened before we got the writer lock; now look at the slots.
     * See reader_set. */
    atomic_thread_fence(memory_order_seq_cst);
    used = reader_slots_used(env);
    for (i = 0; i < used; i++) {
        const struct reader_slot *slot = &env->lock->slots[i];

        if (slot_pid(slot) != 0) {
            /* acquire: pairs with reader_idle: the reader is done before its pages are overwritten. */
            txnid_t id = atomic_load_explicit(&slot->txnid, memory_order_acquire);

            limit = id < limit ? id : limit;
        }
    }
    return limit;
}

/* The environment, open in this process, in whose reader table the slot lies. The caller has the process lock. */
static MDB_env *env_of_slot(const struct reader_slot *slot)
{
    uintptr_t address = (uintptr_t)slot;
    MDB_env *env;

    for (env = open_environments; env != NULL; env = env->next_open) {
        uintptr_t base = (uintptr_t)env->lock;

        if (env->lock != NULL && address >= base && address < base + env->lock_size
            && env->fork_generation == os_fork_generation())
            return env;
    }
    return NULL;
}

/* A thread that has a slot ends. The environment may be closed already, or be about to: so the slot is looked at only
 * if it lies in one that is open, and while none can be closed; and if it is still this thread's, for another
 * environment may have been mapped at the same place. */
static void reader_thread_end(void *value)
{
    struct reader_slot *slot = value;
    MDB_env *env;

    os_process_lock();
    env = env_of_slot(slot);
    if (env != NULL && slot_pid(slot) == env->pid
        && atomic_load_explicit(&slot->thread, memory_order_relaxed) == os_thread_number())
        slot_free(slot);
    os_process_unlock();
}

/* Makes threads keep their slots. */
static int reader_key_make(MDB_env *env)
{
    int rc;

    if (env->lock == NULL || (env->flags & MDB_NOTLS) != 0)
        return MDB_SUCCESS;
    rc = os_key_create(&env->reader_key, reader_thread_end);
    env->reader_key_made = rc == MDB_SUCCESS;
    return rc == EAGAIN ? MDB_TLS_FULL : rc;
}

/* Gives back our slots and locks, and forgets the lock file. In a forked child the slots and locks are the parent's. */
static void lock_close(MDB_env *env)
{
    os_process_lock();
    lock_unregister(env);
    if (env->reader_key_made)
        os_key_delete(env->reader_key);
    env->reader_key_made = false;
    if (env->lock != NULL) {
        if (env->liveness_locked && env->fork_generation == os_fork_generation())
            slots_free_of(env, env->pid);
        os_unmap(env->lock, env->lock_size);
    }
    env->lock = NULL;
    env->liveness_locked = false;
    env->lock_exclusive = false;
    os_close(env->lock_fd);
    env->lock_fd = -1;
    os_process_unlock();
}

/* ==== 5. Key order ===================================================================================================
 * Compare functions and the search kernels: binary search over the keys of a page with the comparison inlined.
 * Always: whatever bytes a page holds, a search reads only inside it; a key that would end elsewhere is MDB_CORRUPTED.
 * Used by: 7 (page_find) and up.
 */

static int sizes_compare(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

static int bytes_compare(const void *a, size_t a_size, const void *b, size_t b_size)
{
    size_t common = a_size < b_size ? a_size : b_size;
    int difference = common > 0 ? memcmp(a, b, common) : 0; /* empty values may have no address */

    return difference != 0 ? difference : sizes_compare(a_size, b_size);
}

static int reverse_compare(const void *a, size_t a_size, const void *b, size_t b_size)
{
    const unsigned char *a_byte = (const unsigned char *)a + a_size;
    const unsigned char *b_byte = (const unsigned char *)b + b_size;
    size_t common = a_size < b_size ? a_size : b_size;

    while (common-- > 0) {
        int difference = *--a_byte - *--b_byte;

        if (difference != 0)
            return difference;
    }
    return sizes_compare(a_size, b_size);
}

static uint32_t load_u32(const void *bytes)
{
    uint32_t value;

    memcpy(&value, bytes, sizeof value);
    return value;
}

static uint64_t load_u64(const void *bytes)
{
    uint64_t value;

    memcpy(&value, bytes, sizeof value);
    return value;
}

static bool integer_size_ok(size_t size)
{
    return size == sizeof(uint32_t) || size == sizeof(uint64_t);
}

/* Native integers of 4 or 8 bytes. mdb_cmp may be asked about anything: what is no pair of integers compares as
 * bytes. */
static int integer_compare(const void *a, size_t a_size, const void *b, size_t b_size)
{
    if (a_size == b_size && a_size == sizeof(uint64_t)) {
        uint64_t x = load_u64(a);
        uint64_t y = load_u64(b);

        return (x > y) - (x < y);
    }
    if (a_size == b_size && a_size == sizeof(uint32_t)) {
        uint32_t x = load_u32(a);
        uint32_t y = load_u32(b);

        return (x > y) - (x < y);
    }
    return bytes_compare(a, a_size, b, b_size);
}

static int order_bytes(const MDB_val *a, const MDB_val *b)
{
    return bytes_compare(a->mv_data, a->mv_size, b->mv_data, b->mv_size);
}

static int order_reverse(const MDB_val *a, const MDB_val *b)
{
    return reverse_compare(a->mv_data, a->mv_size, b->mv_data, b->mv_size);
}

static int order_integer(const MDB_val *a, const MDB_val *b)
{
    return integer_compare(a->mv_data, a->mv_size, b->mv_data, b->mv_size);
}

static struct order order_of_keys(unsigned db_flags)
{
    if (db_flags & DB_INTEGERKEY)
        return (struct order){ORDER_INTEGER, order_integer};
    if (db_flags & DB_REVERSEKEY)
        return (struct order){ORDER_REVERSE, order_reverse};
    return (struct order){ORDER_BYTES, order_bytes};
}

static struct order order_of_dups(unsigned db_flags)
{
    if (db_flags & DB_INTEGERDUP)
        return (struct order){ORDER_INTEGER, order_integer};
    if (db_flags & DB_REVERSEDUP)
        return (struct order){ORDER_REVERSE, order_reverse};
    return (struct order){ORDER_BYTES, order_bytes};
}

/* A key prepared for many comparisons: its first eight bytes as a big-endian number, zeros behind a shorter one. */
struct probe {
    const MDB_val *key;
    uint64_t head;
};

static uint64_t head_mask(size_t size)
{
    return size >= 8 ? ~(uint64_t)0 : ~(~(uint64_t)0 >> (8 * size));
}

static uint64_t from_big_endian(uint64_t value)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return value;
#else
    return __builtin_bswap64(value);
#endif
}

static uint64_t head_of(const void *bytes, size_t size)
{
    uint64_t head = 0;

    if (size >= 8)
        return from_big_endian(load_u64(bytes));
    if (size > 0)
        memcpy(&head, bytes, size);
    return from_big_endian(head);
}

static inline struct probe probe_make(const struct order *order, const MDB_val *key)
{
    return (struct probe){key, order->kind == ORDER_BYTES ? head_of(key->mv_data, key->mv_size) : 0};
}

/* Compares the probe's key with key bytes on a page; `readable` bytes may be read there, at least `size`.
 * Always inlined with a constant kind. */
static inline __attribute__((always_inline)) int probe_compare(const struct probe *probe, enum order_kind kind,
    MDB_cmp_func *cmp, const unsigned char *bytes, size_t size, size_t readable)
{
    const MDB_val *key = probe->key;

    switch (kind) {
    case ORDER_BYTES: {
        uint64_t head;

        if (likely(readable >= 8))
            head = from_big_endian(load_u64(bytes)) & head_mask(size);
        else
            head = head_of(bytes, size);
        if (probe->head != head)
            return probe->head < head ? -1 : 1;
        return bytes_compare(key->mv_data, key->mv_size, bytes, size);
    }
    case ORDER_INTEGER:
        return integer_compare(key->mv_data, key->mv_size, bytes, size);
    case ORDER_REVERSE:
        return reverse_compare(key->mv_data, key->mv_size, bytes, size);
    case ORDER_CUSTOM:
    default: {
        MDB_val other = {size, (void *)(uintptr_t)bytes};

        return cmp(key, &other);
    }
    }
}

/* Finds the first node in [low, count) whose key is not below the probe's. *exact: it is equal. */
static inline __attribute__((always_inline)) int nodes_search(const struct page *page, size_t size, unsigned low,
    const struct probe *probe, enum order_kind kind, MDB_cmp_func *cmp, unsigned *index, bool *exact)
{
    unsigned base = low;
    unsigned length = page_count(page) - low;

    *exact = false;
    while (length > 0) {
        unsigned half = length / 2;
        unsigned middle = base + half;
        const struct node *node;
        size_t offset;
        int order;

        /* Either of these two is probed next; an address computed from a damaged page is never read here. */
        prefetch(page_bytes_const(page) + page->offsets[base + half / 2]);
        prefetch(page_bytes_const(page) + page->offsets[middle + (length - half) / 2]);
        if (unlikely(!node_key_ok(page, middle, size)))
            return MDB_CORRUPTED;
        offset = page->offsets[middle];
        node = (const struct node *)(page_bytes_const(page) + offset);
        if (kind == ORDER_INTEGER && unlikely(node->ksize != probe->key->mv_size))
            return MDB_BAD_VALSIZE;
        order = probe_compare(probe, kind, cmp, node->bytes, node->ksize, size - offset - NODE_HEADER);
        if (order == 0) {
            *exact = true;
            base = middle;
            break;
        }
        if (order > 0) {
            base = middle + 1;
            length -= half + 1;
        } else {
            length = half;
        }
    }
    *index = base;
    return MDB_SUCCESS;
}

/* The same on the keys of a fixed-width leaf. */
static inline __attribute__((always_inline)) int leaf2_search(const struct page *page, const struct probe *probe,
    enum order_kind kind, MDB_cmp_func *cmp, unsigned *index, bool *exact)
{
    size_t width = page->pad;
    unsigned base = 0;
    unsigned length = page_count(page);

    if (probe->key->mv_size != width)
        return MDB_BAD_VALSIZE;
    *exact = false;
    while (length > 0) {
        unsigned half = length / 2;
        unsigned middle = base + half;
        int order = probe_compare(probe, kind, cmp, leaf2_key(page, middle), width, width);

        if (order == 0) {
            *exact = true;
            base = middle;
            break;
        }
        if (order > 0) {
            base = middle + 1;
            length -= half + 1;
        } else {
            length = half;
        }
    }
    *index = base;
    return MDB_SUCCESS;
}

/* Instances of the searches, one per order, so that each has its comparison inlined. */
static int nodes_find(const struct page *page, size_t size, unsigned low, const struct order *order,
    const struct probe *probe, unsigned *index, bool *exact)
{
    switch (order->kind) {
    case ORDER_BYTES:
        return nodes_search(page, size, low, probe, ORDER_BYTES, NULL, index, exact);
    case ORDER_INTEGER:
        return nodes_search(page, size, low, probe, ORDER_INTEGER, NULL, index, exact);
    case ORDER_REVERSE:
        return nodes_search(page, size, low, probe, ORDER_REVERSE, NULL, index, exact);
    case ORDER_CUSTOM:
    default:
        return nodes_search(page, size, low, probe, ORDER_CUSTOM, order->cmp, index, exact);
    }
}

static int leaf2_find(const struct page *page, const struct order *order, const struct probe *probe, unsigned *index,
    bool *exact)
{
    switch (order->kind) {
    case ORDER_BYTES:
        return leaf2_search(page, probe, ORDER_BYTES, NULL, index, exact);
    case ORDER_INTEGER:
        return leaf2_search(page, probe, ORDER_INTEGER, NULL, index, exact);
    case ORDER_REVERSE:
        return leaf2_search(page, probe, ORDER_REVERSE, NULL, index, exact);
    case ORDER_CUSTOM:
    default:
        return leaf2_search(page, probe, ORDER_CUSTOM, order->cmp, index, exact);
    }
}

/* The bytes that a separator between two neighbouring keys needs: of the right key, up to and including the first
 * that differs. Separators of very different lengths would overflow LMDB's branch split, which goes by number: so
 * they have a least length. */
static size_t separator_size(const MDB_val *left, const MDB_val *right, size_t page_size)
{
    const unsigned char *a = left->mv_data;
    const unsigned char *b = right->mv_data;
    size_t limit = left->mv_size < right->mv_size ? left->mv_size : right->mv_size;
    size_t least = page_size <= PAGE_SIZE_MIN ? 9 : 7;
    size_t common = 0;

    while (common < limit && a[common] == b[common])
        common++;
    if (common + 1 > least)
        least = common + 1;
    return least < right->mv_size ? least : right->mv_size;
}

/* ==== 6. Page store ==================================================================================================
 * Finds, copies, allocates, frees and spills the pages of a transaction.
 * Owns: txn->dirty, saved, freed, freed_dirty; env->writer.reclaimed, slabs, dirty_bytes. Nobody else touches them, but
 *       for section 14, which commits and aborts them.
 * Always: a page number is at most once in dirty (of one level), reclaimed or freed; all are below next_pgno;
 *         what a committed root reaches is never written in place;
 *         a nested transaction never gives away nor writes to the file a number that an ancestor holds: such numbers
 *         wait in freed_dirty until it commits, and its changes to such a page are made to a copy of the same number
 *         (with MDB_WRITEMAP: to the page, whose bytes `saved` keeps).
 * Uses: 3, 4, midl. Used by: 7 and up, through page_get, page_touch, page_new, pages_free and their like.
 */

/* Stands in txn->dirty for a page that was written to the file early. */
static unsigned char spilled_mark;
#define SPILLED ((void *)&spilled_mark)

/* Pages whose numbers a search for a long run may pull into memory before it rather extends the file. */
#define RECLAIM_PAGES_MAX ((size_t)1 << 16)

/* The free list is a tree of its own, so reading it stands far below; it is never read while it is being changed. */
static int free_list_pull(MDB_txn *txn, bool *pulled);
static int free_list_pending(MDB_txn *txn, size_t *pages);

static bool txn_is_writer(const MDB_txn *txn)
{
    return (txn->flags & MDB_RDONLY) == 0;
}

static bool txn_in_place(const MDB_txn *txn)
{
    return (txn->env->flags & MDB_WRITEMAP) != 0;
}

static size_t txn_page_size(const MDB_txn *txn)
{
    return (size_t)1 << txn->page_shift;
}

/* An update went wrong half-way, so only abort is left. Reads may fail and the rest stays readable. */
static int txn_fail(MDB_txn *txn, int rc)
{
    if (txn_is_writer(txn))
        txn->flags |= TXN_FAILED;
    return rc;
}

static int txn_corrupted(MDB_txn *txn)
{
    return txn_fail(txn, MDB_CORRUPTED);
}

/* ---- finding ---- */

static inline struct page *map_page(const MDB_txn *txn, pgno_t pgno)
{
    return (struct page *)(txn->base + (pgno << txn->page_shift));
}

/* The transaction's own or inherited changed copy of a page; NULL if it is as in the snapshot. */
static inline struct page *dirty_page(const MDB_txn *txn, pgno_t pgno)
{
    for (; txn != NULL; txn = txn->parent) {
        void *page = page_table_find(&txn->dirty, pgno);

        if (page != NULL)
            return page == SPILLED ? map_page(txn, pgno) : page;
    }
    return NULL;
}

/* Does a transaction above this one hold the page, dirty or spilled? */
static bool ancestor_holds(const MDB_txn *txn, pgno_t pgno)
{
    return txn->parent != NULL && dirty_page(txn->parent, pgno) != NULL;
}

/* A page number beyond what the transaction knows to be in the file: ask the file again. */
static int pages_safe_extend(MDB_txn *txn, pgno_t pgno)
{
    size_t file_pages;

    if (pgno >= txn->next_pgno)
        return txn_corrupted(txn);
    file_pages = env_file_pages(txn->env);
    txn->pages_safe = file_pages < txn->next_pgno ? file_pages : txn->next_pgno;
    return pgno < txn->pages_safe ? MDB_SUCCESS : txn_corrupted(txn);
}

/* Page `pgno` of a tree, checked to be of this kind: P_BRANCH, P_LEAF or P_LEAF | P_LEAF2. */
static inline int page_get(MDB_txn *txn, pgno_t pgno, unsigned kind, struct page **out)
{
    struct page *page = txn_is_writer(txn) ? dirty_page(txn, pgno) : NULL;

    if (page == NULL) {
        if (unlikely(pgno >= txn->pages_safe)) {
            int rc = pages_safe_extend(txn, pgno);

            if (rc != MDB_SUCCESS)
                return rc;
        }
        page = map_page(txn, pgno);
    }
    if (unlikely(!page_tree_ok(page, pgno, kind, txn_page_size(txn))))
        return txn_corrupted(txn);
    *out = page;
    return MDB_SUCCESS;
}

/* First page of an overflow run that must hold `data_size` bytes. */
static int run_get(MDB_txn *txn, pgno_t pgno, size_t data_size, struct page **out)
{
    struct page *page = txn_is_writer(txn) ? dirty_page(txn, pgno) : NULL;
    size_t pages = run_pages_for(data_size, txn_page_size(txn));
    int rc;

    if (pgno < META_PAGES || pgno >= txn->next_pgno || pages > txn->next_pgno - pgno)
        return txn_corrupted(txn);
    if (page == NULL) {
        if (pgno + pages > txn->pages_safe && (rc = pages_safe_extend(txn, pgno + pages - 1)) != MDB_SUCCESS)
            return rc;
        page = map_page(txn, pgno);
    }
    if (!page_run_ok(page, pgno, data_size, txn->next_pgno, txn_page_size(txn)))
        return txn_corrupted(txn);
    *out = page;
    return MDB_SUCCESS;
}

/* ---- memory of dirty pages ---- */

#define SLAB_PAGES 64u
#define SLAB_KEEP_BYTES ((size_t)16 << 20)

struct slab {
    struct slab *next;
    size_t size;
    unsigned char bytes[];
};

#ifdef MDB_DEBUG
/* Each page alone, and gone once it is given back, so that address sanitizers see every misuse. */
static struct page *page_memory_take(struct writer *writer, size_t page_size)
{
    (void)writer;
    return malloc(page_size);
}

static void page_memory_give(struct writer *writer, struct page *page)
{
    (void)writer;
    free(page);
}

static void slabs_trim(struct writer *writer, size_t page_size)
{
    (void)writer;
    (void)page_size;
}
#else
/* Memory of one page, from a slab. A free page's first bytes link to the next. */
static struct page *page_memory_take(struct writer *writer, size_t page_size)
{
    void *page = writer->slab_free;

    if (page == NULL) {
        struct slab *slab = malloc(sizeof *slab + SLAB_PAGES * page_size);
        size_t i;

        if (slab == NULL)
            return NULL;
        slab->size = SLAB_PAGES * page_size;
        writer->slabs_size += slab->size;
        slab->next = writer->slabs;
        writer->slabs = slab;
        for (i = SLAB_PAGES; i-- > 0;) {
            page = slab->bytes + i * page_size;
            memcpy(page, &writer->slab_free, sizeof(void *));
            writer->slab_free = page;
        }
    }
    memcpy(&writer->slab_free, page, sizeof(void *));
    return page;
}

static void page_memory_give(struct writer *writer, struct page *page)
{
    memcpy(page, &writer->slab_free, sizeof(void *));
    writer->slab_free = page;
}

/* After a top-level transaction no page is in use: what is more than the next one should need goes back to the
 * system. */
static void slabs_trim(struct writer *writer, size_t page_size)
{
    struct slab *slab = writer->slabs;
    size_t kept = 0;

    if (writer->slabs_size <= SLAB_KEEP_BYTES)
        return;
    writer->slabs = NULL;
    writer->slab_free = NULL;
    while (slab != NULL) {
        struct slab *next = slab->next;

        if (kept + slab->size <= SLAB_KEEP_BYTES) {
            size_t offset;

            kept += slab->size;
            slab->next = writer->slabs;
            writer->slabs = slab;
            for (offset = 0; offset < slab->size; offset += page_size)
                page_memory_give(writer, (struct page *)(slab->bytes + offset));
        } else {
            free(slab);
        }
        slab = next;
    }
    writer->slabs_size = kept;
}

#endif

/* Everything a writer keeps between transactions. */
static void writer_free(struct writer *writer)
{
    while (writer->slabs != NULL) {
        struct slab *next = writer->slabs->next;

        free(writer->slabs);
        writer->slabs = next;
    }
    writer->slab_free = NULL;
    page_runs_free(&writer->reclaimed);
    free(writer->scratch);
    writer->scratch = NULL;
}

static size_t page_run_length(const struct page *page)
{
    return (page->flags & P_OVERFLOW) != 0 ? page->run_pages : 1;
}

/* Gives back the memory of a dirty page or run. */
static void dirty_memory_give(MDB_txn *txn, struct page *page)
{
    struct writer *writer = &txn->env->writer;
    size_t pages = page_run_length(page);

    if (txn_in_place(txn))
        return;
    writer->dirty_bytes -= pages << txn->page_shift;
    if (pages > 1)
        free(page);
    else
        page_memory_give(writer, page);
}

/* Memory for `pages` adjacent pages that begin at `pgno`, entered as dirty. Contents are undefined. */
static int dirty_memory_take(MDB_txn *txn, pgno_t pgno, size_t pages, struct page **out)
{
    struct writer *writer = &txn->env->writer;
    struct page *page;
    int rc;

    assert(page_table_find(&txn->dirty, pgno) == NULL);
    if ((rc = page_table_reserve(&txn->dirty, 1)) != MDB_SUCCESS)
        return txn_fail(txn, rc);
    if (txn_in_place(txn)) {
        if ((rc = file_grow(txn->env, pgno + pages)) != MDB_SUCCESS)
            return txn_fail(txn, rc);
        page = map_page(txn, pgno);
    } else {
        page = pages == 1 ? page_memory_take(writer, txn_page_size(txn)) : malloc(pages << txn->page_shift);
        if (page == NULL)
            return txn_fail(txn, ENOMEM);
        writer->dirty_bytes += pages << txn->page_shift;
    }
    rc = page_table_insert(&txn->dirty, pgno, page);
    assert(rc == MDB_SUCCESS);
    txn->flags |= TXN_DIRTY;
    *out = page;
    return rc;
}

/* ---- page numbers ---- */

static pgno_t txn_map_pages(const MDB_txn *txn)
{
    return txn->map->size >> txn->page_shift;
}

/* Pages by which the file may still grow. What keeps a reserve also leaves the end of the map untouched: a commit that
 * frees all there is writes that in one record, whose pages must be adjacent. */
static size_t pages_to_grow(const MDB_txn *txn)
{
    size_t left = txn_map_pages(txn) - txn->next_pgno;
    size_t room = txn->next_pgno + txn->next_pgno / 64 + 16; /* as save_pass makes it, and a little more */
    size_t keep = txn->reserve > 0 ? run_pages_for(room * sizeof(pgno_t), txn_page_size(txn)) : 0;

    return left > keep ? left - keep : 0;
}

/* Page numbers to be had without pulling more free-list records. */
static size_t pages_at_hand(const MDB_txn *txn)
{
    return page_runs_count(&txn->env->writer.reclaimed) + pages_to_grow(txn);
}

/* Takes n adjacent page numbers out of what is at hand. */
static pgno_t pages_at_hand_take(MDB_txn *txn, size_t n)
{
    struct page_runs *reclaimed = &txn->env->writer.reclaimed;
    pgno_t pgno = page_runs_take(reclaimed, n);

    if (pgno == PGNO_NONE && !reclaimed->overlapping && n <= pages_to_grow(txn)) {
        pgno = txn->next_pgno;
        txn->next_pgno += n;
    }
    return pgno;
}

/* Pulls free-list records until n adjacent pages are reclaimed, or the number of reclaimed pages reaches
 * `pages_max`. */
static int reclaim_run(MDB_txn *txn, size_t n, size_t pages_max)
{
    struct page_runs *reclaimed = &txn->env->writer.reclaimed;
    bool pulled = true;
    int rc = MDB_SUCCESS;

    while (pulled && page_runs_longest(reclaimed) < n && page_runs_count(reclaimed) < pages_max)
        if ((rc = free_list_pull(txn, &pulled)) != MDB_SUCCESS)
            break;
    return rc;
}

/* Pulls free-list records until `n` pages are at hand, if there are as many. */
static int reclaim_pages(MDB_txn *txn, size_t n)
{
    bool pulled = true;
    int rc = MDB_SUCCESS;

    while (pulled && pages_at_hand(txn) < n)
        if ((rc = free_list_pull(txn, &pulled)) != MDB_SUCCESS)
            break;
    return rc;
}

/* What the reserve is kept for comes back by itself if the next transaction can reclaim as much: then this one may use
 * up to two thirds of it. Else a map that was emptied in one go would stay full, since no commit could follow. */
static int pages_take_from_reserve(MDB_txn *txn, size_t n, pgno_t *out)
{
    size_t reserve = txn->reserve;
    size_t pending = 0;
    int rc = reserve > 0 ? free_list_pending(txn, &pending) : MDB_SUCCESS;

    *out = PGNO_NONE;
    if (rc != MDB_SUCCESS || reserve == 0 || pending < reserve)
        return rc;
    txn->reserve = 0;
    if (pages_at_hand(txn) >= n + reserve / 3)
        *out = pages_at_hand_take(txn, n);
    txn->reserve = reserve;
    return MDB_SUCCESS;
}

/* The map looks full. Pulls every record, first those that living readers let go, then those of dead ones. */
static int pages_take_hard(MDB_txn *txn, size_t n, pgno_t *out)
{
    int attempt;
    int rc;

    for (attempt = 0; attempt < 2; attempt++) {
        if (attempt > 0 && (readers_clear_dead(txn->env, NULL) != MDB_SUCCESS))
            break;
        txn->env->writer.pull_ended = txn->env->writer.saving;
        if ((rc = reclaim_run(txn, n, SIZE_MAX)) != MDB_SUCCESS)
            return txn_fail(txn, rc);
        if ((rc = reclaim_pages(txn, n + txn->reserve)) != MDB_SUCCESS)
            return txn_fail(txn, rc);
        if (pages_at_hand(txn) < n + txn->reserve)
            continue;
        *out = pages_at_hand_take(txn, n);
        if (*out != PGNO_NONE)
            return MDB_SUCCESS;
    }
    if ((rc = pages_take_from_reserve(txn, n, out)) != MDB_SUCCESS)
        return txn_fail(txn, rc);
    if (*out != PGNO_NONE)
        return MDB_SUCCESS;
    return txn->env->writer.reclaimed.overlapping ? txn_corrupted(txn) : txn_fail(txn, MDB_MAP_FULL);
}

/* Takes n adjacent page numbers: reclaimed ones, else the file grows. Keeps txn->reserve pages to be had. */
static int pages_take(MDB_txn *txn, size_t n, pgno_t *out)
{
    struct page_runs *reclaimed = &txn->env->writer.reclaimed;
    int rc;

    if (page_runs_longest(reclaimed) < n && (rc = reclaim_run(txn, n, RECLAIM_PAGES_MAX)) != MDB_SUCCESS)
        return txn_fail(txn, rc);
    if (pages_at_hand(txn) < n + txn->reserve)
        return pages_take_hard(txn, n, out);
    *out = pages_at_hand_take(txn, n);
    return *out != PGNO_NONE ? MDB_SUCCESS : pages_take_hard(txn, n, out);
}

/* What all levels of a nested transaction share is wrong: none of them may commit. */
static void txn_fail_all(MDB_txn *txn)
{
    for (; txn != NULL; txn = txn->parent)
        txn->flags |= TXN_FAILED;
}

/* Takes back page numbers that were taken and not used. Without memory to note them they would be lost to the file. */
static void pages_give_back(MDB_txn *txn, pgno_t pgno, size_t n)
{
    if (pgno + n == txn->next_pgno)
        txn->next_pgno = pgno;
    else if (page_runs_add(&txn->env->writer.reclaimed, pgno, n) != MDB_SUCCESS)
        txn_fail_all(txn);
}

/* ---- cursors on pages ---- */

static bool core_stands_in(const struct core *core, const unsigned char *bytes, size_t size)
{
    unsigned level;

    if (core->position == POS_NONE)
        return false;
    for (level = 0; level < core->depth; level++) {
        const unsigned char *page = (const unsigned char *)core->path[level].page;

        if (page >= bytes && page < bytes + size)
            return true;
    }
    return false;
}

/* Does the cursor's inner core stand on pages of its own? */
static bool dups_in_tree(const MDB_cursor *cursor)
{
    return cursor->dups != NULL && cursor->dups->loaded && cursor->dups->shape == DUPS_TREE
        && cursor->core.position == POS_ON;
}

/* Does a cursor of this transaction stand on a page in these bytes? With `saved`, or what it was in the parents. */
static bool cursors_stand_in(const MDB_txn *txn, const unsigned char *bytes, size_t size, bool saved)
{
    MDB_dbi dbi;

    for (dbi = 0; dbi < txn->env->max_dbs; dbi++) {
        const MDB_cursor *cursor;

        for (cursor = txn->cursors[dbi]; cursor != NULL; cursor = cursor->next) {
            const MDB_cursor *state;

            for (state = cursor; state != NULL; state = saved ? state->saved : NULL)
                if (core_stands_in(&state->core, bytes, size)
                    || (dups_in_tree(state) && core_stands_in(&state->dups->core, bytes, size)))
                    return true;
        }
    }
    return false;
}

/* Is one of these pages in use by this transaction? A damaged free list may name what it has given out already, or, which
 * matters where pages are written in place, what cursors stand on. */
static bool pages_are_dirty(const MDB_txn *txn, pgno_t pgno, size_t n)
{
    for (; n > 0; n--, pgno++)
        if (dirty_page(txn, pgno) != NULL)
            return true;
    return false;
}

/* New page numbers, adjacent, and memory for them, entered as dirty. */
static int dirty_new(MDB_txn *txn, size_t n, pgno_t *pgno, struct page **page)
{
    int rc = pages_take(txn, n, pgno);

    if (rc != MDB_SUCCESS)
        return rc;
    if (pages_are_dirty(txn, *pgno, n)
        || (txn_in_place(txn) && cursors_stand_in(txn, page_bytes(map_page(txn, *pgno)), n << txn->page_shift, true))) {
        txn_fail_all(txn);
        return MDB_CORRUPTED;
    }
    if ((rc = dirty_memory_take(txn, *pgno, n, page)) != MDB_SUCCESS)
        pages_give_back(txn, *pgno, n);
    return rc;
}

/* ---- new, touched, freed ---- */

/* A new empty page of a tree. */
static int page_new(MDB_txn *txn, unsigned kind, struct page **out)
{
    size_t page_size = txn_page_size(txn);
    struct page *page;
    pgno_t pgno;
    int rc;

    if ((rc = dirty_new(txn, 1, &pgno, &page)) != MDB_SUCCESS)
        return rc;
    if ((txn->env->flags & MDB_NOMEMINIT) == 0)
        memset(page, 0, page_size);
    page->pgno = pgno;
    page->pad = 0;
    page->flags = (uint16_t)kind;
    page->lower = PAGE_HEADER;
    page->upper = (uint16_t)page_size;
    *out = page;
    return MDB_SUCCESS;
}

/* A new overflow run with room for `data_size` bytes; the bytes are the caller's to write. */
static int run_new(MDB_txn *txn, size_t data_size, struct page **out)
{
    size_t page_size = txn_page_size(txn);
    size_t pages = run_pages_for(data_size, page_size);
    struct page *page;
    pgno_t pgno;
    int rc;

    if ((rc = dirty_new(txn, pages, &pgno, &page)) != MDB_SUCCESS)
        return rc;
    memset(page, 0, PAGE_HEADER);
    page->pgno = pgno;
    page->flags = P_OVERFLOW;
    page->run_pages = (uint32_t)pages;
    if ((txn->env->flags & MDB_NOMEMINIT) == 0)
        memset(page_bytes(page) + PAGE_HEADER + data_size, 0, pages * page_size - PAGE_HEADER - data_size);
    *out = page;
    return MDB_SUCCESS;
}

/* Do the nodes of a page lie back to back from `upper` to its end, each sound? Whatever is changed was checked so
 * first, and so the code that changes pages may trust them. Sub-pages are checked along. */
static bool page_nodes_ok(const struct page *page, size_t size)
{
    uint64_t starts[PAGE_SIZE_MAX / 128 + 1]; /* one bit per even offset */
    unsigned count = page_count(page);
    bool branch = page_is_branch(page);
    size_t position;
    unsigned i;

    if (page_is_leaf2(page)) /* what a sub-page says of its room is not relied on */
        return (page->flags & P_SUBP) != 0 || PAGE_HEADER + (size_t)count * page->pad + page_room(page) <= size;
    memset(starts, 0, (size / 128 + 1) * sizeof starts[0]);
    for (i = 0; i < count; i++) {
        size_t offset = page->offsets[i];
        uint64_t bit = (uint64_t)1 << (offset / 2 % 64);

        if ((offset & 1) != 0 || offset < page->upper
            || !(branch ? node_key_ok(page, i, size) : leaf_node_ok(page, i, size))
            || (starts[offset / 128] & bit) != 0)
            return false;
        starts[offset / 128] |= bit;
        if (!branch) {
            const struct node *node = page_node_const(page, i);

            if ((page->flags & P_SUBP) != 0 && node->flags != 0) /* values have no values: bounds the recursion */
                return false;
            if (node->flags == N_DUPDATA && !page_nodes_ok(node_sub_page_const(node), node_data_size(node)))
                return false;
        }
    }
    for (position = page->upper; position < size && count > 0; count--) {
        const struct node *node = (const struct node *)(page_bytes_const(page) + position);

        if ((starts[position / 128] & (uint64_t)1 << (position / 2 % 64)) == 0)
            return false;
        position += size_even(NODE_HEADER + node->ksize + (branch ? 0 : node_inline_size(node)));
    }
    return count == 0 && position == size;
}

/* The copy that a nested transaction makes of an ancestor's page, or a spilled page read back: the number stays. */
static int page_touch_held(MDB_txn *txn, struct page **page)
{
    const struct page *old = *page;
    struct page *copy;
    int rc;

    if (page_table_find(&txn->dirty, old->pgno) == SPILLED) {
        copy = page_memory_take(&txn->env->writer, txn_page_size(txn));
        if (copy == NULL)
            return txn_fail(txn, ENOMEM);
        memcpy(copy, old, txn_page_size(txn));
        page_table_set(&txn->dirty, old->pgno, copy);
        txn->env->writer.dirty_bytes += txn_page_size(txn);
        *page = copy;
        return MDB_SUCCESS;
    }
    if (txn_in_place(txn)) {
        if (page_table_find(&txn->saved, old->pgno) != NULL) /* freed by this transaction, and reached by another way */
            return txn_corrupted(txn);
        if ((rc = page_table_reserve(&txn->saved, 1)) != MDB_SUCCESS)
            return txn_fail(txn, rc);
        copy = page_memory_take(&txn->env->writer, txn_page_size(txn));
        if (copy == NULL)
            return txn_fail(txn, ENOMEM);
        memcpy(copy, old, txn_page_size(txn));
        page_table_insert(&txn->saved, old->pgno, copy);
        return dirty_memory_take(txn, old->pgno, 1, page);
    }
    if ((rc = dirty_memory_take(txn, old->pgno, 1, &copy)) != MDB_SUCCESS)
        return rc;
    memcpy(copy, old, txn_page_size(txn));
    *page = copy;
    return MDB_SUCCESS;
}

/* Makes a page of a tree writable: *page becomes the copy to change. Its number is new unless this transaction, or an
 * ancestor, has changed the page already. */
static int page_touch(MDB_txn *txn, struct page **page)
{
    const struct page *old = *page;
    void *own = page_table_find(&txn->dirty, old->pgno);
    const struct page *held;
    struct page *copy;
    pgno_t pgno;
    int rc;

    if (own == old)
        return MDB_SUCCESS;
    if (own == SPILLED)
        return page_touch_held(txn, page);
    held = txn->parent != NULL ? dirty_page(txn->parent, old->pgno) : NULL;
    if (own != NULL || (held != NULL && held != old)) /* one number, two pages: reached by two ways, or free as well */
        return txn_corrupted(txn);
    if (held != NULL)
        return page_touch_held(txn, page);
    if ((rc = page_list_reserve(&txn->freed, 1)) != MDB_SUCCESS)
        return txn_fail(txn, rc);
    if ((rc = dirty_new(txn, 1, &pgno, &copy)) != MDB_SUCCESS)
        return rc;
    memcpy(copy, old, txn_page_size(txn));
    if (!page_nodes_ok(copy, txn_page_size(txn))) /* here, because the copy is in the cache */
        return txn_corrupted(txn);
    copy->pgno = pgno;
    copy->flags = (uint16_t)page_kind_flags(old);
    page_list_add(&txn->freed, old->pgno);
    *page = copy;
    return MDB_SUCCESS;
}

/* A page or run leaves its tree. Its own pages can be taken again at once, the snapshot's after the commit. */
static int pages_free(MDB_txn *txn, pgno_t pgno, size_t n)
{
    void *own = page_table_find(&txn->dirty, pgno);
    bool held = ancestor_holds(txn, pgno);
    int rc;

    if (own != NULL && own != SPILLED && cursors_stand_in(txn, own, page_run_length(own) << txn->page_shift, false))
        return txn_corrupted(txn); /* it is part of another tree too */
    if (held)
        rc = page_list_add(&txn->freed_dirty, pgno);
    else if (own != NULL)
        rc = page_runs_add(&txn->env->writer.reclaimed, pgno, n);
    else
        rc = page_list_add_run(&txn->freed, pgno, n);
    if (rc != MDB_SUCCESS)
        return txn_fail(txn, rc == EEXIST ? MDB_CORRUPTED : rc);
    if (own != NULL) { /* now that it is noted: an abort takes back what is still dirty */
        page_table_remove(&txn->dirty, pgno);
        if (own != SPILLED)
            dirty_memory_give(txn, own);
    }
    return MDB_SUCCESS;
}

static int page_free(MDB_txn *txn, const struct page *page)
{
    return pages_free(txn, page->pgno, 1);
}

/* ---- writing ---- */

struct dirty_entry {
    pgno_t pgno;
    struct page *page;
};

static int dirty_entry_compare(const void *a, const void *b)
{
    pgno_t x = ((const struct dirty_entry *)a)->pgno;
    pgno_t y = ((const struct dirty_entry *)b)->pgno;

    return (x > y) - (x < y);
}

/* The pages of txn->dirty that are in memory, by number. *out is the caller's to free. */
static int dirty_list(const MDB_txn *txn, struct dirty_entry **out, size_t *count)
{
    struct dirty_entry *list = malloc((txn->dirty.count + 1) * sizeof *list);
    size_t iterator = 0;
    size_t n = 0;
    pgno_t pgno;
    void *page;

    if (list == NULL)
        return ENOMEM;
    while (page_table_next(&txn->dirty, &iterator, &pgno, &page)) {
        if (page != SPILLED)
            list[n++] = (struct dirty_entry){pgno, page};
    }
    qsort(list, n, sizeof *list, dirty_entry_compare);
    *out = list;
    *count = n;
    return MDB_SUCCESS;
}

#define WRITE_VECTOR_MAX 256
#define WRITE_BYTES_MAX ((size_t)4 << 20)

/* Writes pages, sorted by number, to the file: neighbours in one call. */
static int pages_write(MDB_txn *txn, const struct dirty_entry *list, size_t count)
{
    struct iovec vector[WRITE_VECTOR_MAX];
    size_t i = 0;

    while (i < count) {
        pgno_t first = list[i].pgno;
        pgno_t next = first;
        int parts = 0;
        size_t bytes = 0;
        int rc;

        while (i < count && list[i].pgno == next && parts < WRITE_VECTOR_MAX && bytes < WRITE_BYTES_MAX) {
            size_t pages = page_run_length(list[i].page);

            vector[parts].iov_base = list[i].page;
            vector[parts].iov_len = pages << txn->page_shift;
            bytes += vector[parts++].iov_len;
            next += pages;
            i++;
        }
        if (parts == 1)
            rc = os_write(txn->env->data_fd, vector[0].iov_base, bytes, (uint64_t)first << txn->page_shift);
        else
            rc = os_write_vector(txn->env->data_fd, vector, parts, (uint64_t)first << txn->page_shift);
        if (rc != MDB_SUCCESS)
            return rc;
    }
    return MDB_SUCCESS;
}

/* ---- spilling ---- */

/* May this page be written early? Not what cursors stand on, what an ancestor holds, what the caller's value lies in;
 * branch pages are needed again too soon. */
static bool spillable(const MDB_txn *txn, const struct page *page, const void *keep)
{
    const unsigned char *bytes = page_bytes_const(page);

    if (page_is_branch(page) || ancestor_holds(txn, page->pgno))
        return false;
    if ((const unsigned char *)keep >= bytes
        && (const unsigned char *)keep < bytes + (page_run_length(page) << txn->page_shift))
        return false;
    return !cursors_stand_in(txn, bytes, 1, false);
}

/* Writes about half of the dirty pages to the file and gives back their memory. They can be touched again later. */
static int pages_spill(MDB_txn *txn, const void *keep)
{
    struct writer *writer = &txn->env->writer;
    size_t goal = MDB_DIRTY_BYTES_MAX / 2;
    size_t chosen_bytes = 0;
    struct dirty_entry *list;
    size_t count;
    size_t chosen = 0;
    size_t i;
    int rc = dirty_list(txn, &list, &count);

    if (rc != MDB_SUCCESS)
        return txn_fail(txn, rc);
    for (i = 0; i < count && chosen_bytes < goal; i++) {
        if (spillable(txn, list[i].page, keep)) {
            chosen_bytes += page_run_length(list[i].page) << txn->page_shift;
            list[chosen++] = list[i];
        }
    }
    rc = pages_write(txn, list, chosen);
    if (rc == MDB_SUCCESS) {
        for (i = 0; i < chosen; i++) {
            page_table_set(&txn->dirty, list[i].pgno, SPILLED);
            dirty_memory_give(txn, list[i].page);
        }
        env_file_pages(txn->env);
    }
    /* If little could go, because cursors or ancestors hold the pages, do not try again at once. */
    writer->spill_at = writer->dirty_bytes + MDB_DIRTY_BYTES_MAX / 8;
    if (writer->spill_at < MDB_DIRTY_BYTES_MAX)
        writer->spill_at = MDB_DIRTY_BYTES_MAX;
    free(list);
    return rc == MDB_SUCCESS ? rc : txn_fail(txn, rc);
}

/* To be called before an update, while no page but those of cursors is being looked at. `keep` may point into a
 * page. */
static inline int pages_limit(MDB_txn *txn, const void *keep)
{
    if (likely(txn->env->writer.dirty_bytes <= txn->env->writer.spill_at))
        return MDB_SUCCESS;
    return pages_spill(txn, keep);
}

/* ==== 7. Page kinds ==================================================================================================
 * A page as "n entries in key order". What stands above this section speaks of entries, never of page flags: a new kind
 * of page adds its functions here and its row to page_kinds, and changes nothing else.
 * Always: functions that look check what they read (MDB_CORRUPTED); functions that change are given pages that passed
 *         page_nodes_ok, with room enough, and cannot fail. Sub-pages are pages: `size` says how large.
 */

/* What a node means. Of leaf entries `data` is what stands in the node, but its size is the value's also if that
 * lies in the overflow run `pgno`; data.mv_data NULL leaves the bytes for the caller to fill. Branch entries have
 * key and pgno. */
struct entry {
    MDB_val key;
    MDB_val data;
    unsigned flags;
    pgno_t pgno;
};

struct page_kind {
    /* First entry whose key is not below the probe's, and whether it is equal. On branch pages: the child to descend
     * to. */
    int (*find)(const struct page *page, size_t size, const struct order *order, const struct probe *probe,
        unsigned *index, bool *exact);
    int (*key)(const struct page *page, size_t size, unsigned index, MDB_val *key);
    int (*entry)(const struct page *page, size_t size, unsigned index, struct entry *entry);
    /* Bytes that an entry takes, its slot included. */
    size_t (*cost)(const struct page *page, const struct entry *entry);
    /* The same of entry `index`. */
    size_t (*cost_at)(const struct page *page, unsigned index);
    void (*insert)(struct page *page, unsigned index, const struct entry *entry);
    void (*remove)(struct page *page, unsigned index);
};

/* ---- nodes: branch and leaf ---- */

static size_t node_size_at(const struct page *page, unsigned index)
{
    const struct node *node = page_node_const(page, index);

    return size_even(NODE_HEADER + node->ksize + (page_is_branch(page) ? 0 : node_inline_size(node)));
}

static size_t nodes_cost_at(const struct page *page, unsigned index)
{
    return SLOT_SIZE + node_size_at(page, index);
}

/* Makes room for a node of `size` bytes in slot `index`. */
static struct node *node_open(struct page *page, unsigned index, size_t size)
{
    unsigned count = page_count(page);

    assert(index <= count);
    assert(page_room(page) >= size + SLOT_SIZE);
    memmove(&page->offsets[index + 1], &page->offsets[index], (count - index) * sizeof page->offsets[0]);
    page->lower = (uint16_t)(page->lower + SLOT_SIZE);
    page->upper = (uint16_t)(page->upper - size);
    page->offsets[index] = page->upper;
    return (struct node *)(page_bytes(page) + page->upper);
}

/* Moves the nodes that lie in front of node `index` by `distance` bytes to the page's end (or, negative, its start),
 * the node's own first bytes included if it grows or shrinks: `front` is where what moves ends. */
static void heap_shift(struct page *page, size_t front, ptrdiff_t distance)
{
    unsigned count = page_count(page);
    unsigned char *heap = page_bytes(page) + page->upper;
    unsigned i;

    memmove(heap + distance, heap, front - page->upper);
    for (i = 0; i < count; i++) {
        if (page->offsets[i] < front)
            page->offsets[i] = (uint16_t)(page->offsets[i] + distance);
    }
    page->upper = (uint16_t)(page->upper + distance);
}

static void nodes_remove(struct page *page, unsigned index)
{
    unsigned count = page_count(page);
    size_t size = node_size_at(page, index);
    size_t offset = page->offsets[index];

    memmove(&page->offsets[index], &page->offsets[index + 1], (count - index - 1) * sizeof page->offsets[0]);
    page->lower = (uint16_t)(page->lower - SLOT_SIZE);
    heap_shift(page, offset, (ptrdiff_t)size);
}

static int nodes_key(const struct page *page, size_t size, unsigned index, MDB_val *key)
{
    const struct node *node;

    if (unlikely(!node_key_ok(page, index, size)))
        return MDB_CORRUPTED;
    node = page_node_const(page, index);
    key->mv_size = node->ksize;
    key->mv_data = (void *)(uintptr_t)node->bytes;
    return MDB_SUCCESS;
}

static int leaf_find(const struct page *page, size_t size, const struct order *order, const struct probe *probe,
    unsigned *index, bool *exact)
{
    return nodes_find(page, size, 0, order, probe, index, exact);
}

/* The first child's key is lower than all: so the child is the last one whose key is not above the probe's. */
static int branch_find(const struct page *page, size_t size, const struct order *order, const struct probe *probe,
    unsigned *index, bool *exact)
{
    int rc = nodes_find(page, size, 1, order, probe, index, exact);

    if (!*exact)
        *index -= 1;
    return rc;
}

static int leaf_entry(const struct page *page, size_t size, unsigned index, struct entry *entry)
{
    const struct node *node;

    if (unlikely(!leaf_node_ok(page, index, size)))
        return MDB_CORRUPTED;
    node = page_node_const(page, index);
    entry->key.mv_size = node->ksize;
    entry->key.mv_data = (void *)(uintptr_t)node->bytes;
    entry->data.mv_size = node_data_size(node);
    entry->data.mv_data = (void *)(uintptr_t)node_data_const(node);
    entry->flags = node->flags;
    entry->pgno = (node->flags & N_BIGDATA) != 0 ? node_run(node) : PGNO_NONE;
    return MDB_SUCCESS;
}

static size_t leaf_cost(const struct page *page, const struct entry *entry)
{
    size_t data = (entry->flags & N_BIGDATA) != 0 ? sizeof(pgno_t) : entry->data.mv_size;

    (void)page;
    return SLOT_SIZE + size_even(NODE_HEADER + entry->key.mv_size + data);
}

static void leaf_insert(struct page *page, unsigned index, const struct entry *entry)
{
    struct node *node = node_open(page, index, leaf_cost(page, entry) - SLOT_SIZE);

    node_set_data_size(node, entry->data.mv_size);
    node->flags = (uint16_t)entry->flags;
    node->ksize = (uint16_t)entry->key.mv_size;
    memcpy(node->bytes, entry->key.mv_data, entry->key.mv_size);
    if ((entry->flags & N_BIGDATA) != 0)
        memcpy(node_data(node), &entry->pgno, sizeof entry->pgno);
    else if (entry->data.mv_data != NULL && entry->data.mv_size > 0)
        memcpy(node_data(node), entry->data.mv_data, entry->data.mv_size);
}

static int branch_entry(const struct page *page, size_t size, unsigned index, struct entry *entry)
{
    int rc = nodes_key(page, size, index, &entry->key);

    if (rc != MDB_SUCCESS)
        return rc;
    entry->data = (MDB_val){0, NULL};
    entry->flags = 0;
    entry->pgno = node_child(page_node_const(page, index));
    return MDB_SUCCESS;
}

static size_t branch_cost(const struct page *page, const struct entry *entry)
{
    (void)page;
    return SLOT_SIZE + size_even(NODE_HEADER + entry->key.mv_size);
}

static void branch_insert(struct page *page, unsigned index, const struct entry *entry)
{
    struct node *node = node_open(page, index, branch_cost(page, entry) - SLOT_SIZE);

    node_set_child(node, entry->pgno);
    node->ksize = (uint16_t)entry->key.mv_size;
    if (entry->key.mv_size > 0)
        memcpy(node->bytes, entry->key.mv_data, entry->key.mv_size);
}

/* ---- fixed-width leaves ---- */

static int fixed_find(const struct page *page, size_t size, const struct order *order, const struct probe *probe,
    unsigned *index, bool *exact)
{
    (void)size;
    return leaf2_find(page, order, probe, index, exact);
}

static int fixed_key(const struct page *page, size_t size, unsigned index, MDB_val *key)
{
    (void)size;
    key->mv_size = page->pad;
    key->mv_data = (void *)(uintptr_t)leaf2_key(page, index);
    return MDB_SUCCESS;
}

static int fixed_entry(const struct page *page, size_t size, unsigned index, struct entry *entry)
{
    entry->data = (MDB_val){0, NULL};
    entry->flags = 0;
    entry->pgno = PGNO_NONE;
    return fixed_key(page, size, index, &entry->key);
}

static size_t fixed_cost(const struct page *page, const struct entry *entry)
{
    (void)page;
    return entry->key.mv_size;
}

static size_t fixed_cost_at(const struct page *page, unsigned index)
{
    (void)index;
    return page->pad;
}

static void fixed_insert(struct page *page, unsigned index, const struct entry *entry)
{
    unsigned count = page_count(page);
    size_t width = entry->key.mv_size;
    unsigned char *place;

    if (count == 0)
        page->pad = (uint16_t)width;
    assert(width == page->pad);
    place = page_bytes(page) + PAGE_HEADER + index * width;
    memmove(place + width, place, (count - index) * width);
    memcpy(place, entry->key.mv_data, width);
    page->lower = (uint16_t)(page->lower + SLOT_SIZE);
    page->upper = (uint16_t)(page->upper - (width - SLOT_SIZE));
}

static void fixed_remove(struct page *page, unsigned index)
{
    unsigned count = page_count(page);
    size_t width = page->pad;
    unsigned char *place = page_bytes(page) + PAGE_HEADER + index * width;

    memmove(place, place + width, (count - index - 1) * width);
    page->lower = (uint16_t)(page->lower - SLOT_SIZE);
    page->upper = (uint16_t)(page->upper + (width - SLOT_SIZE));
}

/* ---- dispatch ---- */

static const struct page_kind branch_kind = {
    branch_find, nodes_key, branch_entry, branch_cost, nodes_cost_at, branch_insert, nodes_remove};
static const struct page_kind leaf_kind = {
    leaf_find, nodes_key, leaf_entry, leaf_cost, nodes_cost_at, leaf_insert, nodes_remove};
static const struct page_kind fixed_kind = {
    fixed_find, fixed_key, fixed_entry, fixed_cost, fixed_cost_at, fixed_insert, fixed_remove};

static inline const struct page_kind *page_kind(const struct page *page)
{
    if (likely((page->flags & (P_LEAF | P_LEAF2)) == P_LEAF))
        return &leaf_kind;
    return page_is_branch(page) ? &branch_kind : &fixed_kind;
}

static inline int page_find(const struct page *page, size_t size, const struct order *order, const struct probe *probe,
    unsigned *index, bool *exact)
{
    if (likely((page->flags & (P_LEAF | P_LEAF2)) == P_LEAF))
        return leaf_find(page, size, order, probe, index, exact);
    return page_kind(page)->find(page, size, order, probe, index, exact);
}

static inline int page_key(const struct page *page, size_t size, unsigned index, MDB_val *key)
{
    if (likely(!page_is_leaf2(page)))
        return nodes_key(page, size, index, key);
    return fixed_key(page, size, index, key);
}

static inline int page_entry(const struct page *page, size_t size, unsigned index, struct entry *entry)
{
    if (likely((page->flags & (P_LEAF | P_LEAF2)) == P_LEAF))
        return leaf_entry(page, size, index, entry);
    return page_kind(page)->entry(page, size, index, entry);
}

static bool page_fits(const struct page *page, const struct entry *entry)
{
    return page_kind(page)->cost(page, entry) <= page_room(page);
}

static void page_insert(struct page *page, unsigned index, const struct entry *entry)
{
    page_kind(page)->insert(page, index, entry);
}

static void page_remove(struct page *page, unsigned index)
{
    page_kind(page)->remove(page, index);
}

/* Bytes of entries and slots on a page of `size` bytes. */
static size_t page_used(const struct page *page, size_t size)
{
    return size - PAGE_HEADER - page_room(page);
}

/* Child `index` of a branch page. */
static int page_child(const struct page *page, size_t size, unsigned index, pgno_t *child)
{
    if (unlikely(!node_key_ok(page, index, size)))
        return MDB_CORRUPTED;
    *child = node_child(page_node_const(page, index));
    return MDB_SUCCESS;
}

static void page_set_child(struct page *page, unsigned index, pgno_t child)
{
    node_set_child(page_node(page, index), child);
}

/* Makes a page of entries empty, keeping what kind it is. */
static void page_clear(struct page *page, size_t size)
{
    page->lower = PAGE_HEADER;
    page->upper = (uint16_t)size;
}

/* Appends entries [from, to) of one page to another of its kind. */
static int page_append(struct page *target, const struct page *source, size_t size, unsigned from, unsigned to)
{
    for (; from < to; from++) {
        struct entry entry;
        int rc = page_entry(source, size, from, &entry);

        if (rc != MDB_SUCCESS)
            return rc;
        if (!page_fits(target, &entry))
            return MDB_CORRUPTED;
        page_insert(target, page_count(target), &entry);
    }
    return MDB_SUCCESS;
}

/* ---- values and sub-pages inside leaf nodes ---- */

/* Gives the data of node `index` another size, by moving what lies in front of its data's end. The data keeps its first
 * bytes; the page has room for the growth. */
static void leaf_resize(struct page *page, unsigned index, size_t data_size)
{
    struct node *node = page_node(page, index);
    size_t old_size = size_even(NODE_HEADER + node->ksize + node_data_size(node));
    size_t new_size = size_even(NODE_HEADER + node->ksize + data_size);
    size_t kept = NODE_HEADER + node->ksize + (data_size < node_data_size(node) ? data_size : node_data_size(node));

    assert((node->flags & N_BIGDATA) == 0);
    node_set_data_size(node, data_size);
    if (new_size != old_size)
        heap_shift(page, page->offsets[index] + size_even(kept), (ptrdiff_t)old_size - (ptrdiff_t)new_size);
}

/* Writes the header of an empty sub-page of `size` bytes. */
static void sub_page_init(struct page *sub, pgno_t pgno, unsigned leaf_kind_flags, size_t size)
{
    memset(sub, 0, PAGE_HEADER);
    sub->pgno = pgno;
    sub->flags = (uint16_t)(leaf_kind_flags | P_SUBP | P_DIRTY);
    sub->lower = PAGE_HEADER;
    sub->upper = (uint16_t)size;
}

/* The end of a sub-page moved: its size went from `old_size` to `new_size`, and its bytes (the first old_size of them)
 * are still where they were. Growing moves the nodes to the new end; shrinking must happen before the node shrinks. */
static void sub_page_resized(struct page *sub, size_t old_size, size_t new_size)
{
    ptrdiff_t distance = (ptrdiff_t)new_size - (ptrdiff_t)old_size;

    if (page_is_leaf2(sub))
        sub->upper = (uint16_t)(sub->upper + distance);
    else
        heap_shift(sub, old_size, distance);
}

/* Bytes that a sub-page of this kind needs with one more entry. */
static size_t sub_page_size_with(const struct page *sub, size_t size, const struct entry *entry)
{
    size_t cost = page_kind(sub)->cost(sub, entry);
    size_t room = page_is_leaf2(sub) ? size - PAGE_HEADER - (size_t)page_count(sub) * sub->pad : page_room(sub);

    return cost <= room ? size : size_even(size + cost - room);
}

/* ==== 8. Paths =======================================================================================================
 * A core: a path from the root of one tree to an entry. Descent, movement, and following the changes of others.
 * Owns: the paths of all cores.
 * Always: what a page says is checked before it is followed; the record's depth bounds every descent;
 *         a core whose move fails at the edge of the tree has not moved; after a damaged page it stands nowhere.
 * Uses: 5-7. Used by: 9 and up.
 */

/* ---- tracking ---- */

/* Do two cursors stand on the same entry of a DUPSORT database, so that they share its set of duplicates? */
static bool cursors_share_entry(const MDB_cursor *a, const MDB_cursor *b)
{
    const struct level *x;
    const struct level *y;

    if (a->core.position != POS_ON || b->core.position != POS_ON)
        return false;
    x = &a->core.path[a->core.depth - 1];
    y = &b->core.path[b->core.depth - 1];
    return x->page == y->page && x->index == y->index;
}

/* The core of `cursor` that walks the same tree as `acting`, NULL if it has none. */
static struct core *tracked_core(MDB_cursor *cursor, const struct core *acting)
{
    MDB_cursor *owner = acting->owner;

    if (acting == &owner->core)
        return cursor->core.position != POS_NONE ? &cursor->core : NULL;
    if (cursor == owner)
        return &owner->dups->core;
    if (!cursors_share_entry(cursor, owner) || !cursor->dups->loaded || cursor->dups->core.position == POS_NONE)
        return NULL;
    if (acting->sub_size > 0) /* the address of a sub-page is only looked up when it is used */
        cursor->dups->core.path[0].page = acting->path[0].page;
    return &cursor->dups->core;
}

#define for_each_tracked(core, acting)                                                                                  \
    for (MDB_cursor *cursor_ = (acting)->txn->cursors[(acting)->owner->dbi]; cursor_ != NULL; cursor_ = cursor_->next) \
        if (((core) = tracked_core(cursor_, (acting))) != NULL)

/* A page was copied before its first change. */
static void cores_replaced(struct core *acting, unsigned level, const struct page *old, struct page *new)
{
    struct core *core;

    for_each_tracked (core, acting) {
        if (core->depth > level && core->path[level].page == old)
            core->path[level].page = new;
    }
}

/* An entry was, or is about to be, inserted at `index`. The acting core names it already. A core in a gap there
 * stays in front of it: what came into the gap is what it moves to next. */
static void cores_inserted(struct core *acting, unsigned level, const struct page *page, unsigned index)
{
    struct core *core;

    for_each_tracked (core, acting) {
        struct level *place = &core->path[level];
        bool leaf = level + 1u == core->depth;

        if ((core == acting && leaf) || core->depth <= level || place->page != page)
            continue;
        if (place->index > index || (place->index == index && (!leaf || core->position == POS_ON)))
            place->index++;
    }
}

/* The entry at `index` of a leaf was removed. Who stood on it stands in its gap. */
static void cores_removed(struct core *acting, const struct page *page, unsigned index)
{
    struct core *core;

    for_each_tracked (core, acting) {
        struct level *place = &core->path[core->depth - 1];

        if (place->page != page)
            continue;
        if (place->index > index) {
            place->index--;
        } else if (place->index == index && core->position == POS_ON) {
            core->position = POS_GAP;
            if (core == &core->owner->core && core->owner->dups != NULL)
                core->owner->dups->loaded = false;
        }
    }
}

/* ---- descent and movement ---- */

static size_t core_page_size(const struct core *core)
{
    return core->sub_size != 0 ? core->sub_size : txn_page_size(core->txn);
}

static inline struct level *core_leaf(struct core *core)
{
    return &core->path[core->depth - 1];
}

static unsigned level_kind(const struct core *core, unsigned level)
{
    return level + 1u < core->tree->record.depth ? P_BRANCH : core->tree->leaf_kind;
}

/* Begins a path: the root page. MDB_NOTFOUND if the tree is empty. */
static int core_root(struct core *core)
{
    const struct db_record *record = &core->tree->record;
    int rc;

    core->position = POS_NONE;
    if (record->root == PGNO_NONE)
        return MDB_NOTFOUND;
    if (record->depth == 0 || record->depth > DEPTH_MAX)
        return txn_corrupted(core->txn);
    rc = page_get(core->txn, record->root, level_kind(core, 0), &core->path[0].page);
    if (rc == MDB_SUCCESS)
        core->depth = (unsigned char)record->depth;
    return rc;
}

/* Fetches the child that path[level].index names into path[level + 1]. */
static int core_step_down(struct core *core, unsigned level)
{
    const struct level *place = &core->path[level];
    pgno_t child;

    if (page_child(place->page, txn_page_size(core->txn), place->index, &child) != MDB_SUCCESS)
        return txn_corrupted(core->txn);
    return page_get(core->txn, child, level_kind(core, level + 1), &core->path[level + 1].page);
}

enum edge { EDGE_FIRST, EDGE_LAST };

static unsigned edge_index(const struct page *page, enum edge edge)
{
    return edge == EDGE_FIRST ? 0 : page_count(page) - 1;
}

/* Descends from path[level], whose page and index are set, along the first or last children. */
static int core_descend_edge(struct core *core, unsigned level, enum edge edge)
{
    int rc;

    for (; level + 1u < core->depth; level++) {
        if ((rc = core_step_down(core, level)) != MDB_SUCCESS) {
            core->position = POS_NONE;
            return rc;
        }
        core->path[level + 1].index = edge_index(core->path[level + 1].page, edge);
    }
    core->position = POS_ON;
    return MDB_SUCCESS;
}

/* To the first or last entry of the tree. */
static int core_edge(struct core *core, enum edge edge)
{
    int rc = core_root(core);

    if (rc != MDB_SUCCESS)
        return rc;
    core->path[0].index = edge_index(core->path[0].page, edge);
    return core_descend_edge(core, 0, edge);
}

/* The level above `level` whose path can go on one to the right, or to the left; DEPTH_MAX if none can. */
static unsigned core_turn_level(const struct core *core, unsigned level, enum edge towards)
{
    while (level-- > 0) {
        const struct level *place = &core->path[level];

        if (towards == EDGE_LAST ? place->index + 1 < page_count(place->page) : place->index > 0)
            return level;
    }
    return DEPTH_MAX;
}

/* From a leaf to the neighbouring one, and there to the entry next to the old leaf. MDB_NOTFOUND, and no move, at the
 * edge of the tree. */
static int core_next_leaf(struct core *core, enum edge towards)
{
    unsigned level = core_turn_level(core, core->depth - 1u, towards);

    if (level == DEPTH_MAX)
        return MDB_NOTFOUND;
    if (towards == EDGE_LAST)
        core->path[level].index++;
    else
        core->path[level].index--;
    return core_descend_edge(core, level, towards == EDGE_LAST ? EDGE_FIRST : EDGE_LAST);
}

/* A walk waits for memory, not for instructions: so many entries ahead their nodes are fetched, and the head of the
 * next leaf so many entries before the end of this one. */
#define WALK_AHEAD 6u

/* Always inlined: a function that only fetches ahead has no effect that gcc would keep a call for. */
static inline __attribute__((always_inline)) void core_fetch_ahead(const struct core *core, const struct page *page,
    unsigned index, unsigned count)
{
    const struct level *above;

    if (likely(index + WALK_AHEAD < count)) {
        prefetch(page_bytes_const(page) + page->offsets[index + WALK_AHEAD]);
    } else if (index + WALK_AHEAD == count && core->depth > 1) {
        above = &core->path[core->depth - 2];
        if (above->index + 1 < page_count(above->page)
            && node_key_ok(above->page, above->index + 1, txn_page_size(core->txn)))
            prefetch(map_page(core->txn, node_child(page_node(above->page, above->index + 1))));
    }
}

/* To the next entry, which is the one in place if the core stands in a gap. */
static inline int core_next(struct core *core)
{
    struct level *leaf = core_leaf(core);
    unsigned index = leaf->index + (core->position == POS_ON);
    unsigned count = page_count(leaf->page);

    if (unlikely(index >= count))
        return core_next_leaf(core, EDGE_LAST);
    core_fetch_ahead(core, leaf->page, index, count);
    leaf->index = index;
    core->position = POS_ON;
    return MDB_SUCCESS;
}

static inline int core_previous(struct core *core)
{
    struct level *leaf = core_leaf(core);

    if (unlikely(leaf->index == 0))
        return core_next_leaf(core, EDGE_FIRST);
    leaf->index--;
    if (likely(leaf->index >= WALK_AHEAD))
        prefetch(page_bytes_const(leaf->page) + leaf->page->offsets[leaf->index - WALK_AHEAD]);
    core->position = POS_ON;
    return MDB_SUCCESS;
}

/* A core in a gap whose index lies behind its leaf's last entry goes on to the next leaf, so that it stands in front of
 * an entry. MDB_NOTFOUND, and no move, at the end of the tree. */
static int core_settle(struct core *core)
{
    if (core_leaf(core)->index < page_count(core_leaf(core)->page)) {
        core->position = POS_ON;
        return MDB_SUCCESS;
    }
    return core_next_leaf(core, EDGE_LAST);
}

/* From path[level], whose page is set and whose subtree is where the key belongs, down to the key, or where it would
 * be. */
static int core_seek_below(struct core *core, unsigned level, const MDB_val *key, bool *exact)
{
    size_t page_size = core_page_size(core);
    const struct order *order = &core->tree->order;
    struct probe probe = probe_make(order, key);
    int rc;

    for (;;) {
        struct level *place = &core->path[level];

        rc = page_find(place->page, page_size, order, &probe, &place->index, exact);
        if (unlikely(rc != MDB_SUCCESS))
            goto failed;
        if (level + 1u == core->depth)
            break;
        if (unlikely((rc = core_step_down(core, level)) != MDB_SUCCESS))
            goto failed;
        level++;
    }
    core->position = *exact ? POS_ON : POS_MISSED;
    return MDB_SUCCESS;
failed:
    core->position = POS_NONE;
    return rc == MDB_CORRUPTED ? txn_corrupted(core->txn) : rc;
}

/* To the key, from the root. Found: POS_ON. Else *exact is false and the core is POS_MISSED where it would go; its
 * index may lie behind the leaf's last entry. MDB_NOTFOUND if the tree is empty. */
static int core_seek(struct core *core, const MDB_val *key, bool *exact)
{
    int rc = core_root(core);

    *exact = false;
    return rc == MDB_SUCCESS ? core_seek_below(core, 0, key, exact) : rc;
}

/* Compares a key with entry `index` of a page; on a branch page with the separator in front of that child. */
static int page_compare(struct core *core, const struct page *page, unsigned index, const MDB_val *key, int *order)
{
    MDB_val other;

    if (page_key(page, core_page_size(core), index, &other) != MDB_SUCCESS)
        return txn_corrupted(core->txn);
    if (other.mv_size != key->mv_size && (core->tree->order.kind == ORDER_INTEGER || page_is_leaf2(page)))
        return MDB_BAD_VALSIZE;
    *order = core->tree->order.cmp(key, &other);
    return MDB_SUCCESS;
}

/* The lowest level of the core's path whose subtree must hold the key; the root's if the core stands nowhere. */
static int core_covering_level(struct core *core, const MDB_val *key, unsigned *out)
{
    unsigned level = core->depth - 1u;
    bool low_known = false;
    bool high_known = false;
    unsigned above;

    for (above = level; above-- > 0 && !(low_known && high_known);) {
        const struct level *place = &core->path[above];
        bool outside = false;
        int order;
        int rc;

        if (!low_known && place->index > 0) {
            if ((rc = page_compare(core, place->page, place->index, key, &order)) != MDB_SUCCESS)
                return rc;
            low_known = true;
            outside = order < 0;
        }
        if (!outside && !high_known && place->index + 1 < page_count(place->page)) {
            if ((rc = page_compare(core, place->page, place->index + 1, key, &order)) != MDB_SUCCESS)
                return rc;
            high_known = true;
            outside = order >= 0;
        }
        if (outside) {
            level = above;
            low_known = high_known = false;
        }
    }
    *out = level;
    return MDB_SUCCESS;
}

/* As core_seek, but from where the core stands: what comes in order, or close by, need not go through the root. */
static int core_seek_near(struct core *core, const MDB_val *key, bool *exact)
{
    unsigned level;
    int rc;

    if (core->position == POS_NONE || core->depth < 2)
        return core_seek(core, key, exact);
    *exact = false;
    rc = core_covering_level(core, key, &level);
    return rc == MDB_SUCCESS ? core_seek_below(core, level, key, exact) : rc;
}

static int core_entry(struct core *core, struct entry *entry)
{
    const struct level *leaf = core_leaf(core);

    if (unlikely(leaf->index >= page_count(leaf->page)) /* a damaged free list let another page take this one's place */
        || unlikely(page_entry(leaf->page, core_page_size(core), leaf->index, entry) != MDB_SUCCESS))
        return txn_corrupted(core->txn);
    return MDB_SUCCESS;
}

/* Does the path lead through sound pages, and to places that they have? In a damaged file a page can belong to two
 * trees, and be changed as part of the other. */
static bool core_path_ok(const struct core *core)
{
    unsigned level;

    for (level = 0; core->position != POS_NONE && level < core->depth; level++) {
        const struct level *place = &core->path[level];
        bool leaf = level + 1u == core->depth;

        if (core->sub_size == 0
            && !page_tree_ok(place->page, place->page->pgno, level_kind(core, level), txn_page_size(core->txn)))
            return false;
        if (place->index >= page_count(place->page) + (leaf && core->position != POS_ON))
            return false;
    }
    return true;
}

/* ==== 9. Tree ========================================================================================================
 * Insertion with split, deletion with rebalance, on one B+tree, through a core whose path is writable.
 * Owns: tree->record's root, depth and page counts.
 * Always: after each function every tracked core of the tree stands on the same entry as before it, or in the gap where
 *         its entry was, and its path leads from the root to there. Tracked are the cores of the cursors in txn->cursors;
 *         whoever changes a tree does so through one of them.
 * Uses: 6-8. Used by: 10 and up.
 */

/* Makes page path[level] writable; the pages above it are already. */
static int core_touch_level(struct core *core, unsigned level)
{
    struct page *old = core->path[level].page;
    struct page *page = old;
    int rc = page_touch(core->txn, &page);

    if (rc != MDB_SUCCESS || page == old)
        return rc;
    if (level == 0)
        core->tree->record.root = page->pgno;
    else
        page_set_child(core->path[level - 1].page, core->path[level - 1].index, page->pgno);
    core->path[level].page = page;
    cores_replaced(core, level, old, page);
    return MDB_SUCCESS;
}

/* Makes the whole path writable. */
static int core_touch(struct core *core)
{
    unsigned level;
    int rc;

    core->txn->handle_state[core->owner->dbi] |= HANDLE_DIRTY;
    for (level = 0; level < core->depth; level++) {
        if ((rc = core_touch_level(core, level)) != MDB_SUCCESS)
            return rc;
    }
    return MDB_SUCCESS;
}

static void count_pages(struct core *core, const struct page *page, int change)
{
    struct db_record *record = &core->tree->record;

    if (page_is_branch(page))
        record->branch_pages += (size_t)change;
    else
        record->leaf_pages += (size_t)change;
}

static int tree_page_new(struct core *core, unsigned kind, struct page **out)
{
    int rc = page_new(core->txn, kind, out);

    if (rc == MDB_SUCCESS)
        count_pages(core, *out, 1);
    return rc;
}

static int tree_page_free(struct core *core, struct page *page)
{
    count_pages(core, page, -1);
    return page_free(core->txn, page);
}

/* The first page of an empty tree; the core stands in it, ready to insert at 0. */
static int tree_plant(struct core *core)
{
    struct page *root;
    int rc = tree_page_new(core, core->tree->leaf_kind, &root);

    if (rc != MDB_SUCCESS)
        return rc;
    core->txn->handle_state[core->owner->dbi] |= HANDLE_DIRTY;
    core->tree->record.root = root->pgno;
    core->tree->record.depth = 1;
    core->depth = 1;
    core->path[0] = (struct level){root, 0};
    core->position = POS_MISSED;
    return MDB_SUCCESS;
}

/* Puts a branch page above the root, so that the root can be split. All paths get longer. */
static int tree_grow(struct core *acting)
{
    struct entry entry = {.pgno = acting->path[0].page->pgno};
    struct page *root;
    struct core *core;
    int rc;

    if (acting->depth >= DEPTH_MAX)
        return txn_fail(acting->txn, MDB_CURSOR_FULL);
    if ((rc = tree_page_new(acting, P_BRANCH, &root)) != MDB_SUCCESS)
        return rc;
    page_insert(root, 0, &entry);
    acting->tree->record.root = root->pgno;
    acting->tree->record.depth++;
    for_each_tracked (core, acting) {
        memmove(&core->path[1], &core->path[0], core->depth * sizeof core->path[0]);
        core->path[0] = (struct level){root, 0};
        core->depth++;
    }
    return MDB_SUCCESS;
}

/* ---- split ---- */

/* A full page and the entry that goes in: n + 1 entries in order, the new one at `index`. */
struct split {
    struct page *page;
    const struct page_kind *kind;
    const struct entry *entry;
    unsigned index;
    unsigned count; /* n + 1 */
    size_t cost;    /* of the new entry */
};

static size_t split_cost(const struct split *split, unsigned i)
{
    if (i == split->index)
        return split->cost;
    return split->kind->cost_at(split->page, i < split->index ? i : i - 1);
}

static void split_key(const struct split *split, size_t page_size, unsigned i, MDB_val *key)
{
    if (i == split->index)
        *key = split->entry->key;
    else /* a page that is changed has passed its check */
        (void)split->kind->key(split->page, page_size, i < split->index ? i : i - 1, key);
}

/* The range of left-hand counts with which both pages hold what they get; empty only if an entry is larger than half a
 * page, which no sound file has. */
static bool split_range(const struct split *split, size_t capacity, unsigned least, unsigned *first, unsigned *last,
    unsigned *middle)
{
    size_t total = 0;
    size_t left = 0;
    unsigned i;

    for (i = 0; i < split->count; i++)
        total += split_cost(split, i);
    *first = split->count;
    *last = *middle = 0;
    for (i = 1; i < split->count; i++) {
        left += split_cost(split, i - 1);
        if (left > capacity)
            break;
        if (total - left > capacity || i < least || split->count - i < least)
            continue;
        if (*first > i)
            *first = i;
        *last = i;
        if (left * 2 <= total || *middle == 0)
            *middle = i;
    }
    return *first <= *last;
}

/* The point near the middle with the shortest separator, if it is clearly shorter than the middle's. */
static unsigned split_shortest(const struct split *split, size_t page_size, unsigned first, unsigned last,
    unsigned middle)
{
    unsigned window = split->count / 10;
    unsigned from = middle > first + window ? middle - window : first;
    unsigned to = middle + window < last ? middle + window : last;
    unsigned best = middle;
    size_t best_size = SIZE_MAX;
    size_t middle_size = 0;
    unsigned i;

    for (i = from; i <= to; i++) {
        MDB_val left;
        MDB_val right;
        size_t size;

        split_key(split, page_size, i - 1, &left);
        split_key(split, page_size, i, &right);
        size = separator_size(&left, &right, page_size);
        if (i == middle)
            middle_size = size;
        if (size < best_size) {
            best_size = size;
            best = i;
        }
    }
    return best_size + 4 <= middle_size ? best : middle;
}

/* How many of the n + 1 entries stay on the left page; 0 if there is no way to split. */
static unsigned split_point(struct core *core, const struct split *split, unsigned level)
{
    struct tree *tree = core->tree;
    size_t page_size = txn_page_size(core->txn);
    bool leaf = !page_is_branch(split->page);
    bool ascending = leaf && split->index > 0 && tree->run_page == split->page->pgno
        && tree->run_index + 1 == split->index;
    bool right_edge = split->index + 1 == split->count && core_turn_level(core, level, EDGE_LAST) == DEPTH_MAX;
    unsigned first;
    unsigned last;
    unsigned middle;

    if (!split_range(split, page_size - PAGE_HEADER, leaf ? 1 : 2, &first, &last, &middle))
        return 0;
    if (right_edge || (ascending && split->index + 1 == split->count))
        return last;
    if (ascending) {
        if (split->index + 1 >= first && split->index + 1 <= last)
            return split->index + 1;
        if (split->index >= first && split->index <= last)
            return split->index;
    }
    if (leaf && tree->order.kind == ORDER_BYTES && tree->leaf_kind == P_LEAF)
        return split_shortest(split, page_size, first, last, middle);
    return middle;
}

/* Copies the key that separates left from right into `buffer`, of KEY_SIZE_MAX bytes. Longer ones no sound file has. */
static MDB_val split_separator(struct core *core, const struct split *split, unsigned point, unsigned char *buffer)
{
    size_t page_size = txn_page_size(core->txn);
    MDB_val left;
    MDB_val right;

    split_key(split, page_size, point, &right);
    if (!page_is_branch(split->page) && core->tree->order.kind == ORDER_BYTES) {
        split_key(split, page_size, point - 1, &left);
        right.mv_size = separator_size(&left, &right, page_size);
    }
    if (right.mv_size <= KEY_SIZE_MAX)
        memcpy(buffer, right.mv_data, right.mv_size);
    right.mv_data = buffer;
    return right;
}

/* A branch page's first key stands for "lower than all" and is empty. */
static void branch_empty_first_key(struct page *page)
{
    struct entry entry = {.pgno = node_child(page_node(page, 0))};

    page_remove(page, 0);
    page_insert(page, 0, &entry);
}

/* Moves entries [from, count) of a page to an empty one of its kind. */
static int page_move_tail(MDB_txn *txn, struct page *page, unsigned from, struct page *right)
{
    size_t page_size = txn_page_size(txn);
    struct page *copy = txn->env->writer.scratch;
    unsigned count = page_count(page);
    int rc;

    memcpy(copy, page, page_size);
    page_clear(page, page_size);
    right->pad = page->pad;
    if ((rc = page_append(page, copy, page_size, 0, from)) == MDB_SUCCESS)
        rc = page_append(right, copy, page_size, from, count);
    return rc == MDB_SUCCESS ? rc : txn_corrupted(txn);
}

/* Fills both pages of a split. */
static int split_distribute(struct core *core, const struct split *split, unsigned point, struct page *right)
{
    bool left_gets = split->index < point;
    int rc = page_move_tail(core->txn, split->page, left_gets ? point - 1 : point, right);

    if (rc != MDB_SUCCESS)
        return rc;
    if (left_gets)
        page_insert(split->page, split->index, split->entry);
    else
        page_insert(right, split->index - point, split->entry);
    if (page_is_branch(right))
        branch_empty_first_key(right);
    return MDB_SUCCESS;
}

static int tree_insert_at(struct core *acting, unsigned height, unsigned index, const struct entry *entry, bool shift);

/* The path to the page right of path[level]: where a split has put the new page. */
static int core_beside(const struct core *acting, unsigned level, struct core *beside)
{
    unsigned turn = core_turn_level(acting, level, EDGE_LAST);
    int rc;

    assert(turn < level);
    *beside = *acting;
    beside->path[turn].index++;
    for (; turn + 1 < level; turn++) {
        if ((rc = core_step_down(beside, turn)) != MDB_SUCCESS)
            return rc;
        beside->path[turn + 1].index = 0;
    }
    return MDB_SUCCESS;
}

/* After a split at `point`: cores on what moved follow it to the new page. */
static int cores_follow_split(struct core *acting, unsigned level, const struct page *left, unsigned point,
    struct page *right)
{
    struct core beside;
    struct core *core;
    int rc = core_beside(acting, level, &beside);

    if (rc != MDB_SUCCESS)
        return rc;
    for_each_tracked (core, acting) {
        struct level *place = &core->path[level];

        if (place->page != left || place->index < point)
            continue;
        memcpy(core->path, beside.path, level * sizeof core->path[0]);
        *place = (struct level){right, place->index - point};
    }
    return MDB_SUCCESS;
}

/* Splits the page `height` levels above the leaf in two and inserts an entry at `index`. `shift`: the entry is new;
 * else it takes the place of one that was just removed there, and cores on it stay on it. */
static int tree_split(struct core *acting, unsigned height, unsigned index, const struct entry *entry, bool shift)
{
    unsigned char separator_bytes[KEY_SIZE_MAX];
    struct entry separator = {.flags = 0};
    struct split split;
    struct page *right;
    unsigned level;
    unsigned point;
    int rc;

    if (height + 1u == acting->depth && (rc = tree_grow(acting)) != MDB_SUCCESS)
        return rc;
    level = acting->depth - 1u - height;
    split.page = acting->path[level].page;
    split.kind = page_kind(split.page);
    split.entry = entry;
    split.index = index;
    split.count = page_count(split.page) + 1;
    split.cost = split.kind->cost(split.page, entry);
    if (shift)
        cores_inserted(acting, level, split.page, index);
    if ((point = split_point(acting, &split, level)) == 0)
        return txn_corrupted(acting->txn);
    separator.key = split_separator(acting, &split, point, separator_bytes);
    if (separator.key.mv_size > KEY_SIZE_MAX)
        return txn_corrupted(acting->txn);
    if ((rc = tree_page_new(acting, page_kind_flags(split.page), &right)) != MDB_SUCCESS)
        return rc;
    separator.pgno = right->pgno;
    rc = tree_insert_at(acting, height + 1, acting->path[level - 1].index + 1, &separator, true);
    if (rc != MDB_SUCCESS || (rc = split_distribute(acting, &split, point, right)) != MDB_SUCCESS)
        return rc;
    level = acting->depth - 1u - height;
    return cores_follow_split(acting, level, split.page, point, right);
}

/* Inserts an entry at `index` of the writable page `height` levels above the leaf. */
static int tree_insert_at(struct core *acting, unsigned height, unsigned index, const struct entry *entry, bool shift)
{
    unsigned level = acting->depth - 1u - height;
    struct page *page = acting->path[level].page;

    if (!page_fits(page, entry))
        return tree_split(acting, height, index, entry, shift);
    page_insert(page, index, entry);
    if (shift)
        cores_inserted(acting, level, page, index);
    return MDB_SUCCESS;
}

/* Remembers where a leaf entry went, so that a run of ascending inserts is recognised. */
static void run_remember(struct core *core)
{
    core->tree->run_page = core_leaf(core)->page->pgno;
    core->tree->run_index = core_leaf(core)->index;
}

/* Inserts an entry where the core stands; its path is writable. The core stands on it afterwards. */
static int tree_insert(struct core *core, const struct entry *entry)
{
    int rc;

    core->position = POS_ON;
    rc = tree_insert_at(core, 0, core_leaf(core)->index, entry, true);
    if (rc == MDB_SUCCESS)
        run_remember(core);
    return rc;
}

/* Puts another entry in the place of the one the core stands on; the path is writable. The key may lie in the page, the
 * data may not. */
static int tree_replace(struct core *core, const struct entry *entry)
{
    unsigned char key_bytes[KEY_SIZE_MAX];
    struct entry copy = *entry;
    struct level *leaf = core_leaf(core);

    if (entry->key.mv_size > sizeof key_bytes)
        return txn_corrupted(core->txn);
    memcpy(key_bytes, entry->key.mv_data, entry->key.mv_size);
    copy.key.mv_data = key_bytes;
    page_remove(leaf->page, leaf->index);
    return tree_insert_at(core, 0, leaf->index, &copy, false);
}

/* ---- deletion ---- */

/* A page less full than this looks for a neighbour to merge with. */
static bool page_is_thin(const struct page *page, size_t page_size)
{
    return page_used(page, page_size) < (page_size - PAGE_HEADER) / 4
        || page_count(page) < (page_is_branch(page) ? 2u : 1u);
}

/* The tree's last entry is gone. */
static int tree_clear_root(struct core *acting)
{
    struct page *root = acting->path[0].page;
    struct core *core;

    acting->tree->record.root = PGNO_NONE;
    acting->tree->record.depth = 0;
    for_each_tracked (core, acting)
        core->position = POS_NONE;
    acting->position = POS_NONE;
    return tree_page_free(acting, root);
}

/* The root has one child left, which becomes the root. All paths get shorter. */
static int tree_collapse_root(struct core *acting)
{
    struct page *root = acting->path[0].page;
    pgno_t child = node_child(page_node(root, 0));
    struct core *core;

    for_each_tracked (core, acting) {
        memmove(&core->path[0], &core->path[1], (core->depth - 1u) * sizeof core->path[0]);
        core->depth--;
    }
    acting->tree->record.root = child;
    acting->tree->record.depth--;
    return tree_page_free(acting, root);
}

/* Replaces the separator in front of path[level]'s child by another, which may be longer and split the page. */
static int tree_set_separator(struct core *acting, unsigned height, unsigned index, const MDB_val *key)
{
    struct page *page = acting->path[acting->depth - 1u - height].page;
    struct entry entry = {.key = *key, .pgno = node_child(page_node(page, index))};

    page_remove(page, index);
    return tree_insert_at(acting, height, index, &entry, false);
}

/* Two neighbouring children of one branch page: which parent entries they have, and the separator between them. */
struct neighbours {
    struct page *parent;
    unsigned level; /* of the children */
    unsigned left_index;
    struct page *left;
    struct page *right;
    MDB_val separator;
};

/* The neighbour at `left_index` and the one behind it; one of them is path[level], the other is fetched. */
static int neighbours_get(struct core *core, unsigned level, unsigned left_index, struct neighbours *out)
{
    const struct level *above = &core->path[level - 1];
    unsigned other = above->index == left_index ? left_index + 1 : left_index;
    struct page *sibling;
    int rc;

    rc = page_get(core->txn, node_child(page_node(above->page, other)), page_kind_flags(core->path[level].page),
        &sibling);
    if (rc != MDB_SUCCESS)
        return rc;
    if (!page_nodes_ok(sibling, txn_page_size(core->txn)) || core_stands_in(core, page_bytes(sibling), 1))
        return txn_corrupted(core->txn);
    out->parent = above->page;
    out->level = level;
    out->left_index = left_index;
    out->left = other == left_index ? sibling : core->path[level].page;
    out->right = other == left_index ? core->path[level].page : sibling;
    if (page_is_leaf2(out->left) && out->left->pad != out->right->pad && page_count(core->path[level].page) > 0)
        return txn_corrupted(core->txn);
    rc = page_key(above->page, txn_page_size(core->txn), left_index + 1, &out->separator);
    return rc == MDB_SUCCESS ? rc : txn_corrupted(core->txn);
}

/* Does everything on both pages fit one? The first key of a right-hand branch page becomes the separator. */
static bool neighbours_fit(const struct neighbours *pair, size_t page_size)
{
    size_t used = page_used(pair->left, page_size) + page_used(pair->right, page_size);

    if (page_is_branch(pair->right))
        used += size_even(NODE_HEADER + pair->separator.mv_size) - node_size_at(pair->right, 0);
    return used <= page_size - PAGE_HEADER;
}

/* Rewrites `target` to hold the entries of left, then those of right. */
static int neighbours_join(struct core *core, const struct neighbours *pair, struct page *target)
{
    size_t page_size = txn_page_size(core->txn);
    struct page *joined = core->txn->env->writer.scratch;
    unsigned from = 0;
    int rc;

    memcpy(joined, target, PAGE_HEADER);
    page_clear(joined, page_size);
    joined->pad = page_count(pair->left) > 0 ? pair->left->pad : pair->right->pad;
    rc = page_append(joined, pair->left, page_size, 0, page_count(pair->left));
    if (rc == MDB_SUCCESS && page_is_branch(pair->right) && page_count(pair->right) > 0) {
        struct entry entry = {.key = pair->separator, .pgno = node_child(page_node(pair->right, 0))};

        page_insert(joined, page_count(joined), &entry);
        from = 1;
    }
    if (rc == MDB_SUCCESS)
        rc = page_append(joined, pair->right, page_size, from, page_count(pair->right));
    if (rc != MDB_SUCCESS)
        return txn_corrupted(core->txn);
    memcpy(target, joined, page_size);
    return MDB_SUCCESS;
}

/* Merges the pair into the child that is path[level], which is writable; the other page is freed unchanged, so that a
 * clean one is not copied first. If path[level] is empty it is the one to go, and the other stays as it is. */
static int neighbours_merge(struct core *acting, const struct neighbours *pair)
{
    struct page *mine = acting->path[pair->level].page;
    struct page *other = mine == pair->left ? pair->right : pair->left;
    struct page *target = page_count(mine) > 0 ? mine : other;
    struct page *gone = target == mine ? other : mine;
    unsigned left_count = page_count(pair->left);
    struct core *core;
    int rc;

    if (target == mine && (rc = neighbours_join(acting, pair, target)) != MDB_SUCCESS)
        return rc;
    for_each_tracked (core, acting) {
        struct level *above = &core->path[pair->level - 1];

        if (above->page != pair->parent || above->index <= pair->left_index)
            continue;
        if (above->index == pair->left_index + 1)
            core->path[pair->level].index += left_count;
        above->index--;
    }
    for_each_tracked (core, acting) {
        if (core->path[pair->level].page == gone)
            core->path[pair->level].page = target;
    }
    page_set_child(pair->parent, pair->left_index, target->pgno);
    page_remove(pair->parent, pair->left_index + 1);
    return tree_page_free(acting, gone);
}

/* A branch page with one child, whose neighbours are too full to take it, gets a child from one of them. */
static int neighbours_borrow(struct core *acting, struct neighbours *pair)
{
    size_t page_size = txn_page_size(acting->txn);
    bool from_right = acting->path[pair->level].page == pair->left;
    unsigned char separator_bytes[KEY_SIZE_MAX];
    unsigned height = acting->depth - 1u - pair->level;
    struct page **giver = from_right ? &pair->right : &pair->left;
    struct page *old = *giver;
    unsigned taken = from_right ? 0 : page_count(old) - 1;
    struct entry moved = {.flags = 0};
    struct core *core;
    MDB_val separator;
    int rc;

    if ((rc = page_touch(acting->txn, giver)) != MDB_SUCCESS)
        return rc;
    cores_replaced(acting, pair->level, old, *giver);
    page_set_child(pair->parent, pair->left_index + (from_right ? 1u : 0u), (*giver)->pgno);

    if (page_key(*giver, page_size, from_right ? 1 : taken, &separator) != MDB_SUCCESS
        || separator.mv_size > KEY_SIZE_MAX || pair->separator.mv_size > KEY_SIZE_MAX)
        return txn_corrupted(acting->txn);
    memcpy(separator_bytes, separator.mv_data, separator.mv_size);
    separator.mv_data = separator_bytes;
    moved.pgno = node_child(page_node(*giver, taken));
    page_remove(*giver, taken);
    if (from_right) {
        moved.key = pair->separator;
        branch_empty_first_key(*giver);
        page_insert(pair->left, page_count(pair->left), &moved);
    } else {
        struct entry first = {.key = pair->separator, .pgno = node_child(page_node(pair->right, 0))};

        page_remove(pair->right, 0);
        page_insert(pair->right, 0, &first);
        page_insert(pair->right, 0, &moved);
    }
    for_each_tracked (core, acting) {
        struct level *above = &core->path[pair->level - 1];
        struct level *place = &core->path[pair->level];

        if (above->page != pair->parent)
            continue;
        if (from_right && place->page == pair->right) {
            if (place->index-- == 0) {
                *place = (struct level){pair->left, page_count(pair->left) - 1};
                above->index--;
            }
        } else if (!from_right && place->page == pair->right) {
            place->index++;
        } else if (!from_right && place->page == pair->left && place->index == taken) {
            *place = (struct level){pair->right, 0};
            above->index++;
        }
    }
    return tree_set_separator(acting, height + 1, pair->left_index + 1, &separator);
}

/* Repairs page path[level] after it lost entries, and what follows from that above it. */
static int tree_rebalance(struct core *acting, unsigned level)
{
    size_t page_size = txn_page_size(acting->txn);
    struct page *page = acting->path[level].page;
    struct neighbours pair;
    unsigned index;
    unsigned siblings;
    int rc;

    if (level == 0) {
        if (page_count(page) == 0)
            return tree_clear_root(acting);
        while (page_is_branch(acting->path[0].page) && page_count(acting->path[0].page) == 1) {
            if ((rc = tree_collapse_root(acting)) != MDB_SUCCESS)
                return rc;
        }
        return MDB_SUCCESS;
    }
    if (!page_is_thin(page, page_size))
        return MDB_SUCCESS;
    index = acting->path[level - 1].index;
    siblings = page_count(acting->path[level - 1].page) - 1;
    if (siblings == 0) /* an only child: no sound file has one */
        return page_count(page) == 0 ? txn_corrupted(acting->txn) : MDB_SUCCESS;
    if (index > 0) {
        if ((rc = neighbours_get(acting, level, index - 1, &pair)) != MDB_SUCCESS)
            return rc;
        if (neighbours_fit(&pair, page_size)) {
            rc = neighbours_merge(acting, &pair);
            return rc == MDB_SUCCESS ? tree_rebalance(acting, level - 1) : rc;
        }
    }
    if (index < siblings) {
        if ((rc = neighbours_get(acting, level, index, &pair)) != MDB_SUCCESS)
            return rc;
        if (neighbours_fit(&pair, page_size)) {
            rc = neighbours_merge(acting, &pair);
            return rc == MDB_SUCCESS ? tree_rebalance(acting, level - 1) : rc;
        }
    }
    if (!page_is_branch(page) || page_count(page) > 1)
        return MDB_SUCCESS;
    return neighbours_borrow(acting, &pair);
}

/* Removes the entry that the core stands on; its path is writable. The core stands in the gap. */
static int tree_remove(struct core *core)
{
    struct level *leaf = core_leaf(core);
    const struct page *page = leaf->page;

    page_remove(leaf->page, leaf->index);
    cores_removed(core, page, leaf->index);
    return tree_rebalance(core, core->depth - 1u);
}

/* ==== 10. Cursors ====================================================================================================
 * The databases of a transaction, and cursors on them: an outer core on the keys and, in DUPSORT databases, an inner one
 * on the duplicates of the key, which hides whether these are one value, a sub-page or a tree.
 * Owns: txn->trees and handle_state as far as they cache what the main database says; cursor->dups.
 * Always: if the outer core is POS_ON and the cursor is the user's, its duplicates are loaded.
 * Uses: 6-9. Used by: 11 and up.
 */

/* ---- databases of a transaction ---- */

/* How a database with these flags, used through this handle, orders its keys. */
static struct order handle_key_order(const struct handle *handle, unsigned flags)
{
    return handle->key_cmp != NULL ? (struct order){ORDER_CUSTOM, handle->key_cmp} : order_of_keys(flags);
}

static struct order handle_dup_order(const struct handle *handle, unsigned flags)
{
    return handle->dup_cmp != NULL ? (struct order){ORDER_CUSTOM, handle->dup_cmp} : order_of_dups(flags);
}

static void tree_init(struct tree *tree, const struct db_record *record, const struct handle *handle)
{
    tree->record = *record;
    tree->order = handle_key_order(handle, record->flags);
    tree->dup_order = handle_dup_order(handle, record->flags);
    tree->leaf_kind = P_LEAF;
    tree->run_page = PGNO_NONE;
    tree->run_index = 0;
}

static void core_init(struct core *core, MDB_txn *txn, struct tree *tree, MDB_cursor *owner)
{
    core->txn = txn;
    core->tree = tree;
    core->owner = owner;
    core->sub_size = 0;
    core->depth = 0;
    core->position = POS_NONE;
}

/* Looks a named database up in the main one: its record, or MDB_NOTFOUND, or MDB_INCOMPATIBLE if the key is no
 * database. */
static int record_find(MDB_txn *txn, const char *name, size_t name_size, struct db_record *out)
{
    MDB_val key = {name_size, (void *)(uintptr_t)name};
    struct core core;
    struct entry entry;
    bool exact;
    int rc;

    core_init(&core, txn, &txn->trees[MAIN_DBI], NULL);
    if ((rc = core_seek(&core, &key, &exact)) != MDB_SUCCESS)
        return rc;
    if (!exact)
        return MDB_NOTFOUND;
    if ((rc = core_entry(&core, &entry)) != MDB_SUCCESS)
        return rc;
    if (entry.flags != N_SUBDATA)
        return MDB_INCOMPATIBLE;
    memcpy(out, entry.data.mv_data, sizeof *out);
    if (!record_ok(out, txn->next_pgno - 1))
        return txn_corrupted(txn);
    return MDB_SUCCESS;
}

/* Is this transaction the one that opened the handle, or nested in it? */
static bool txn_may_use(const MDB_txn *txn, const struct handle *handle)
{
    if (likely(handle->opener == NULL))
        return true;
    while (txn != NULL && txn != handle->opener)
        txn = txn->parent;
    return txn != NULL;
}

/* First use of a handle in a transaction: loads the database's record. */
static int txn_tree_load(MDB_txn *txn, MDB_dbi dbi)
{
    const struct handle *handle = &txn->env->handles[dbi];
    struct db_record record;
    int rc = record_find(txn, handle->name, handle->name_size, &record);

    if (rc == MDB_NOTFOUND)
        return MDB_BAD_DBI;
    if (rc != MDB_SUCCESS)
        return rc;
    if ((record.flags & DB_FLAGS) != handle->flags)
        return MDB_INCOMPATIBLE;
    tree_init(&txn->trees[dbi], &record, handle);
    txn->handle_sequence[dbi] = handle->sequence;
    txn->handle_state[dbi] |= HANDLE_LOADED;
    return MDB_SUCCESS;
}

static bool txn_alive(const MDB_txn *txn)
{
    return txn != NULL && txn->magic == TXN_MAGIC && (txn->flags & TXN_FINISHED) == 0;
}

/* May an operation run in this transaction? */
static int txn_check(const MDB_txn *txn)
{
    if (unlikely(!txn_alive(txn)))
        return EINVAL;
    return unlikely((txn->flags & TXN_FAILED) != 0 || txn->child != NULL) ? MDB_BAD_TXN : MDB_SUCCESS;
}

static int txn_check_write(const MDB_txn *txn)
{
    if (!txn_alive(txn))
        return EINVAL;
    if ((txn->flags & MDB_RDONLY) != 0)
        return EACCES;
    return (txn->flags & TXN_FAILED) != 0 || txn->child != NULL ? MDB_BAD_TXN : MDB_SUCCESS;
}

/* The tree behind a handle, loaded. */
static inline int txn_tree(MDB_txn *txn, MDB_dbi dbi, struct tree **out)
{
    const struct handle *handle;
    int rc;

    if (unlikely(dbi < MAIN_DBI || dbi >= txn->env->max_dbs || !txn->env->handles[dbi].used))
        return EINVAL;
    handle = &txn->env->handles[dbi];
    if (likely((txn->handle_state[dbi] & HANDLE_LOADED) != 0)) {
        if (unlikely(txn->handle_sequence[dbi] != handle->sequence))
            return MDB_BAD_DBI;
    } else {
        if (unlikely((txn->handle_state[dbi] & HANDLE_DROPPED) != 0 || !txn_may_use(txn, handle)))
            return EINVAL;
        if ((rc = txn_tree_load(txn, dbi)) != MDB_SUCCESS)
            return rc;
    }
    *out = &txn->trees[dbi];
    return MDB_SUCCESS;
}

/* The same for calls that only look, which may look at the free list too. */
static int txn_tree_to_read(MDB_txn *txn, MDB_dbi dbi, struct tree **out)
{
    if (dbi != FREE_DBI)
        return txn_tree(txn, dbi, out);
    *out = &txn->trees[FREE_DBI];
    return MDB_SUCCESS;
}

/* ---- making cursors ---- */

static bool tree_has_dups(const struct tree *tree)
{
    return (tree->record.flags & DB_DUPSORT) != 0;
}

static void dups_init(struct dups *dups, MDB_txn *txn, MDB_dbi dbi, MDB_cursor *owner)
{
    unsigned flags = txn->trees[dbi].record.flags;

    dups->tree.order = txn->trees[dbi].dup_order;
    dups->tree.leaf_kind = (flags & DB_DUPFIXED) != 0 ? P_LEAF | P_LEAF2 : P_LEAF;
    dups->tree.run_page = PGNO_NONE;
    dups->tree.run_index = 0;
    dups->shape = DUPS_SINGLE;
    dups->loaded = false;
    core_init(&dups->core, txn, &dups->tree, owner);
}

/* Points a cursor at a transaction; it stands nowhere. */
static void cursor_bind(MDB_cursor *cursor, MDB_txn *txn)
{
    core_init(&cursor->core, txn, &txn->trees[cursor->dbi], cursor);
    cursor->sequence = txn->handle_sequence[cursor->dbi];
    if (cursor->dups != NULL)
        dups_init(cursor->dups, txn, cursor->dbi, cursor);
}

static MDB_cursor *cursor_make(MDB_txn *txn, MDB_dbi dbi)
{
    bool has_dups = tree_has_dups(&txn->trees[dbi]);
    MDB_cursor *cursor = malloc(sizeof *cursor + (has_dups ? sizeof(struct dups) : 0));

    if (cursor == NULL)
        return NULL;
    cursor->magic = CURSOR_MAGIC;
    cursor->dbi = dbi;
    cursor->dups = has_dups ? (struct dups *)(cursor + 1) : NULL;
    cursor->next = NULL;
    cursor->saved = NULL;
    cursor->tracked = false;
    cursor->following = false;
    cursor_bind(cursor, txn);
    return cursor;
}

/* Enters a cursor into its write transaction's list, so that changes by others move it along. */
static void cursor_track(MDB_cursor *cursor)
{
    MDB_cursor **list = &cursor->core.txn->cursors[cursor->dbi];

    cursor->next = *list;
    cursor->tracked = true;
    *list = cursor;
}

static void cursor_untrack(MDB_cursor *cursor)
{
    MDB_cursor **link = &cursor->core.txn->cursors[cursor->dbi];

    while (*link != cursor)
        link = &(*link)->next;
    *link = cursor->next;
    cursor->tracked = false;
}

static void cursor_free(MDB_cursor *cursor)
{
    cursor->magic = 0;
    free(cursor->saved);
    free(cursor);
}

/* The cursor that calls without one work through: kept from call to call, so that what comes in order is found near. */
static int txn_own_cursor(MDB_txn *txn, MDB_dbi dbi, MDB_cursor **out)
{
    MDB_cursor *cursor = txn->own_cursors[dbi];

    if (cursor == NULL || cursor->sequence != txn->handle_sequence[dbi]) {
        if ((cursor = cursor_make(txn, dbi)) == NULL)
            return ENOMEM;
        cursor_track(cursor);
        txn->own_cursors[dbi] = cursor;
    }
    *out = cursor;
    return core_path_ok(&cursor->core) ? MDB_SUCCESS : txn_corrupted(txn);
}

/* ---- duplicates ---- */

static inline bool cursor_has_dups(const MDB_cursor *cursor)
{
    return cursor->dups != NULL;
}

/* Looks at the outer entry: what shape its duplicates have and where they are. The inner position is kept. */
static int dups_refresh(MDB_cursor *cursor, const struct entry *entry)
{
    struct dups *dups = cursor->dups;

    switch (entry->flags) {
    case 0:
        dups->shape = DUPS_SINGLE;
        dups->core.sub_size = 0;
        dups->core.path[0].page = NULL;
        dups->core.depth = 1;
        return MDB_SUCCESS;
    case N_DUPDATA: {
        struct page *sub = entry->data.mv_data;

        if (page_kind_flags(sub) != (dups->tree.leaf_kind | P_SUBP))
            return txn_corrupted(cursor->core.txn);
        dups->shape = DUPS_SUB_PAGE;
        dups->core.sub_size = entry->data.mv_size;
        dups->core.path[0].page = sub;
        dups->core.depth = 1;
        return MDB_SUCCESS;
    }
    case N_DUPDATA | N_SUBDATA:
        memcpy(&dups->tree.record, entry->data.mv_data, sizeof dups->tree.record);
        if (!record_ok(&dups->tree.record, cursor->core.txn->next_pgno - 1) || dups->tree.record.root == PGNO_NONE)
            return txn_corrupted(cursor->core.txn);
        dups->shape = DUPS_TREE;
        dups->core.sub_size = 0;
        return MDB_SUCCESS;
    default:
        return txn_corrupted(cursor->core.txn);
    }
}

/* To the first or last duplicate. */
static int dups_edge(MDB_cursor *cursor, enum edge edge)
{
    struct core *core = &cursor->dups->core;

    if (cursor->dups->shape == DUPS_TREE)
        return core_edge(core, edge);
    core->path[0].index = cursor->dups->shape == DUPS_SINGLE ? 0 : edge_index(core->path[0].page, edge);
    core->position = POS_ON;
    return MDB_SUCCESS;
}

static int dups_load(MDB_cursor *cursor, const struct entry *entry, enum edge edge)
{
    int rc = dups_refresh(cursor, entry);

    cursor->dups->loaded = rc == MDB_SUCCESS;
    return rc == MDB_SUCCESS ? dups_edge(cursor, edge) : rc;
}

/* Others may have changed the set, or moved the page that holds it. */
static int dups_sync(MDB_cursor *cursor)
{
    struct entry entry;
    int rc;

    if (!core_path_ok(&cursor->core))
        return txn_corrupted(cursor->core.txn);
    if (!cursor_has_dups(cursor) || cursor->core.position != POS_ON || !cursor->dups->loaded)
        return MDB_SUCCESS;
    if ((rc = core_entry(&cursor->core, &entry)) != MDB_SUCCESS || (rc = dups_refresh(cursor, &entry)) != MDB_SUCCESS)
        return rc;
    return cursor->dups->shape == DUPS_SINGLE || core_path_ok(&cursor->dups->core) ? MDB_SUCCESS
                                                                                  : txn_corrupted(cursor->core.txn);
}

static unsigned dups_leaf_count(const struct dups *dups)
{
    return dups->shape == DUPS_SINGLE ? 1 : page_count(dups->core.path[dups->core.depth - 1].page);
}

static int dups_next(MDB_cursor *cursor)
{
    struct dups *dups = cursor->dups;
    struct level *leaf;
    unsigned index;

    if (dups->core.position == POS_NONE)
        return MDB_NOTFOUND;
    leaf = core_leaf(&dups->core);
    index = leaf->index + (dups->core.position == POS_ON);
    if (index < dups_leaf_count(dups)) {
        leaf->index = index;
        dups->core.position = POS_ON;
        return MDB_SUCCESS;
    }
    return dups->shape == DUPS_TREE ? core_next_leaf(&dups->core, EDGE_LAST) : MDB_NOTFOUND;
}

static int dups_previous(MDB_cursor *cursor)
{
    struct dups *dups = cursor->dups;
    struct level *leaf;

    if (dups->core.position == POS_NONE)
        return MDB_NOTFOUND;
    leaf = core_leaf(&dups->core);
    if (leaf->index > 0) {
        leaf->index--;
        dups->core.position = POS_ON;
        return MDB_SUCCESS;
    }
    return dups->shape == DUPS_TREE ? core_next_leaf(&dups->core, EDGE_FIRST) : MDB_NOTFOUND;
}

/* The duplicate that the cursor stands on; `entry` is the outer one. */
static inline int dups_value(const MDB_cursor *cursor, const struct entry *entry, MDB_val *value)
{
    const struct dups *dups = cursor->dups;
    const struct level *leaf = &dups->core.path[dups->core.depth - 1];

    if (dups->shape == DUPS_SINGLE) {
        *value = entry->data;
        return MDB_SUCCESS;
    }
    if (unlikely(leaf->index >= page_count(leaf->page))
        || unlikely(page_key(leaf->page, core_page_size(&dups->core), leaf->index, value) != MDB_SUCCESS))
        return txn_corrupted(cursor->core.txn);
    return MDB_SUCCESS;
}

/* Must all values of a key have one width? */
static bool dups_have_width(const struct dups *dups)
{
    return (dups->tree.leaf_kind & P_LEAF2) != 0 || dups->tree.order.kind == ORDER_INTEGER;
}

/* To a value in the set, or where it would be. */
static int dups_seek(MDB_cursor *cursor, const struct entry *entry, const MDB_val *value, bool *exact)
{
    struct dups *dups = cursor->dups;
    struct core *core = &dups->core;
    int order;

    if (dups->shape == DUPS_TREE)
        return core_seek_near(core, value, exact);
    if (dups->shape == DUPS_SUB_PAGE)
        return core_seek_below(core, 0, value, exact);
    if (dups_have_width(dups) && value->mv_size != entry->data.mv_size)
        return MDB_BAD_VALSIZE;
    order = dups->tree.order.cmp(value, &entry->data);
    *exact = order == 0;
    core->path[0].index = order > 0;
    core->position = *exact ? POS_ON : POS_MISSED;
    return MDB_SUCCESS;
}

static size_t dups_count(const struct dups *dups)
{
    return dups->shape == DUPS_TREE ? dups->tree.record.entries : dups_leaf_count(dups);
}

/* ---- position and movement ---- */

/* The outer core has come to a key: go to its first or last duplicate. */
static int cursor_arrive(MDB_cursor *cursor, enum edge edge)
{
    struct entry entry;
    int rc;

    if (!cursor_has_dups(cursor))
        return MDB_SUCCESS;
    rc = core_entry(&cursor->core, &entry);
    if (rc == MDB_SUCCESS)
        rc = dups_load(cursor, &entry, edge);
    if (rc != MDB_SUCCESS) /* damaged: there is nothing to stand on */
        cursor->core.position = POS_NONE;
    return rc;
}

static int cursor_edge(MDB_cursor *cursor, enum edge edge)
{
    int rc = core_edge(&cursor->core, edge);

    return rc == MDB_SUCCESS ? cursor_arrive(cursor, edge) : rc;
}

static int cursor_next_key(MDB_cursor *cursor)
{
    int rc = core_next(&cursor->core);

    return rc == MDB_SUCCESS ? cursor_arrive(cursor, EDGE_FIRST) : rc;
}

static int cursor_previous_key(MDB_cursor *cursor)
{
    int rc = core_previous(&cursor->core);

    return rc == MDB_SUCCESS ? cursor_arrive(cursor, EDGE_LAST) : rc;
}

static bool cursor_on_key(const MDB_cursor *cursor)
{
    return cursor->core.position == POS_ON;
}

static int cursor_next(MDB_cursor *cursor)
{
    if (cursor_has_dups(cursor) && cursor_on_key(cursor)) {
        int rc = dups_next(cursor);

        if (rc != MDB_NOTFOUND)
            return rc;
    }
    return cursor_next_key(cursor);
}

static int cursor_previous(MDB_cursor *cursor)
{
    if (cursor_has_dups(cursor) && cursor_on_key(cursor)) {
        int rc = dups_previous(cursor);

        if (rc != MDB_NOTFOUND)
            return rc;
    }
    return cursor_previous_key(cursor);
}

/* A cursor whose record was deleted goes on to the one that took its place. EINVAL if it stands on none because a
 * search failed, or nowhere at all; MDB_NOTFOUND if there is nothing behind the gap. */
static int cursor_settle(MDB_cursor *cursor)
{
    struct core *inner;
    int rc;

    switch (cursor->core.position) {
    case POS_NONE:
        return EINVAL;
    case POS_GAP:
        rc = core_settle(&cursor->core);
        return rc == MDB_SUCCESS ? cursor_arrive(cursor, EDGE_FIRST) : rc;
    case POS_MISSED: {
        struct core *core = &cursor->core;
        bool behind_all = core_leaf(core)->index >= page_count(core_leaf(core)->page)
            && core_turn_level(core, core->depth - 1u, EDGE_LAST) == DEPTH_MAX;

        return behind_all ? MDB_NOTFOUND : EINVAL;
    }
    default:
        break;
    }
    if (!cursor_has_dups(cursor))
        return MDB_SUCCESS;
    inner = &cursor->dups->core;
    if (inner->position == POS_ON)
        return MDB_SUCCESS;
    if (inner->position == POS_MISSED)
        return MDB_NOTFOUND;
    rc = dups_next(cursor);
    return rc == MDB_NOTFOUND ? cursor_next_key(cursor) : rc;
}

/* To a key and its first duplicate. MDB_NOTFOUND leaves the cursor where the key would be. */
static int cursor_seek(MDB_cursor *cursor, const MDB_val *key)
{
    bool exact;
    int rc = core_seek_near(&cursor->core, key, &exact);

    if (rc == MDB_SUCCESS && !exact)
        rc = MDB_NOTFOUND;
    return rc == MDB_SUCCESS ? cursor_arrive(cursor, EDGE_FIRST) : rc;
}

/* To the first key not below `key`. */
static int cursor_seek_range(MDB_cursor *cursor, const MDB_val *key)
{
    bool exact;
    int rc = core_seek_near(&cursor->core, key, &exact);

    if (rc == MDB_SUCCESS && !exact)
        rc = core_next(&cursor->core);
    return rc == MDB_SUCCESS ? cursor_arrive(cursor, EDGE_FIRST) : rc;
}

/* To a key, its duplicates looked at but none of them chosen. If the cursor stood on this key before, the inner core
 * still stands where it stood, so that a search for a value near it is short. */
static int cursor_seek_set(MDB_cursor *cursor, const MDB_val *key, struct entry *entry, bool *exact)
{
    struct core *core = &cursor->core;
    struct level before = {NULL, 0};
    int rc;

    if (cursor_has_dups(cursor) && cursor_on_key(cursor) && cursor->dups->loaded)
        before = *core_leaf(core);
    if ((rc = core_seek_near(core, key, exact)) != MDB_SUCCESS || !*exact)
        return rc;
    if ((rc = core_entry(core, entry)) != MDB_SUCCESS || !cursor_has_dups(cursor))
        return rc;
    if (before.page != core_leaf(core)->page || before.index != core_leaf(core)->index)
        cursor->dups->core.position = POS_NONE;
    rc = dups_refresh(cursor, entry);
    cursor->dups->loaded = rc == MDB_SUCCESS;
    if (rc != MDB_SUCCESS)
        core->position = POS_NONE;
    return rc;
}

/* To a key and one of its values, or the first not below it (`range`). If the key is there and no such value, the
 * cursor stays on the key, in the gap where the value would be. */
static int cursor_seek_both(MDB_cursor *cursor, const MDB_val *key, const MDB_val *value, bool range)
{
    struct entry entry;
    bool exact;
    int rc = cursor_seek_set(cursor, key, &entry, &exact);

    if (rc != MDB_SUCCESS)
        return rc;
    if (!exact)
        return MDB_NOTFOUND;
    if ((rc = dups_seek(cursor, &entry, value, &exact)) != MDB_SUCCESS)
        return rc;
    if (exact)
        return MDB_SUCCESS;
    return range ? dups_next(cursor) : MDB_NOTFOUND;
}

/* The value of a leaf entry that is not a set of duplicates: in the page, or in its overflow run. */
static int entry_value(MDB_txn *txn, const struct entry *entry, MDB_val *value)
{
    struct page *run;
    int rc;

    if (likely((entry->flags & N_BIGDATA) == 0)) {
        *value = entry->data;
        return MDB_SUCCESS;
    }
    if ((rc = run_get(txn, entry->pgno, entry->data.mv_size, &run)) != MDB_SUCCESS)
        return rc;
    value->mv_size = entry->data.mv_size;
    value->mv_data = page_bytes(run) + PAGE_HEADER;
    return MDB_SUCCESS;
}

/* Hands out the record that the cursor stands on. NULL for what is not wanted. */
static inline int cursor_record(MDB_cursor *cursor, MDB_val *key, MDB_val *data)
{
    struct entry entry;
    MDB_val value;
    int rc = core_entry(&cursor->core, &entry);

    if (unlikely(rc != MDB_SUCCESS))
        return rc;
    if (data != NULL) {
        if (cursor_has_dups(cursor))
            rc = dups_value(cursor, &entry, &value);
        else
            rc = entry_value(cursor->core.txn, &entry, &value);
        if (unlikely(rc != MDB_SUCCESS))
            return rc;
        *data = value;
    }
    if (key != NULL)
        *key = entry.key;
    return MDB_SUCCESS;
}

/* ==== 11. Reads ======================================================================================================
 * mdb_get, mdb_cursor_get and what else only looks.
 * Always: on an error the caller's values are untouched.
 * Uses: 10.
 */

/* Keys to look for: any size but 0 (longer ones than can be stored are just not there). */
static int key_check(const struct tree *tree, const MDB_val *key)
{
    if (key->mv_size == 0)
        return MDB_BAD_VALSIZE;
    if ((tree->record.flags & DB_INTEGERKEY) != 0 && !integer_size_ok(key->mv_size))
        return MDB_BAD_VALSIZE;
    return key->mv_data != NULL ? MDB_SUCCESS : EINVAL;
}

static int value_check(const MDB_val *value)
{
    return value->mv_size == 0 || value->mv_data != NULL ? MDB_SUCCESS : EINVAL;
}

/* The first value of a DUPSORT entry. */
static int entry_first_value(MDB_txn *txn, MDB_dbi dbi, const struct entry *entry, MDB_val *value)
{
    MDB_cursor cursor;
    struct dups dups;
    int rc;

    cursor.dbi = dbi;
    cursor.dups = &dups;
    cursor.core.txn = txn;
    dups_init(&dups, txn, dbi, &cursor);
    rc = dups_load(&cursor, entry, EDGE_FIRST);
    return rc == MDB_SUCCESS ? dups_value(&cursor, entry, value) : rc;
}

int mdb_get(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data)
{
    struct tree *tree;
    struct core core;
    struct entry entry;
    MDB_val value;
    bool exact;
    int rc;

    if (unlikely(key == NULL || data == NULL))
        return EINVAL;
    if (unlikely((rc = txn_check(txn)) != MDB_SUCCESS) || unlikely((rc = txn_tree(txn, dbi, &tree)) != MDB_SUCCESS)
        || unlikely((rc = key_check(tree, key)) != MDB_SUCCESS))
        return rc;
    core_init(&core, txn, tree, NULL);
    if ((rc = core_seek(&core, key, &exact)) != MDB_SUCCESS)
        return rc;
    if (!exact)
        return MDB_NOTFOUND;
    if (unlikely((rc = core_entry(&core, &entry)) != MDB_SUCCESS))
        return rc;
    if (tree_has_dups(tree))
        rc = entry_first_value(txn, dbi, &entry, &value);
    else
        rc = entry_value(txn, &entry, &value);
    if (rc == MDB_SUCCESS)
        *data = value;
    return rc;
}

/* ---- cursor operations ---- */

static bool cursor_is_fixed(const MDB_cursor *cursor)
{
    return cursor_has_dups(cursor) && (cursor->dups->tree.leaf_kind & P_LEAF2) != 0;
}

/* Hands out all values of the fixed-width leaf that the cursor stands on, and goes to the last of them. */
static int cursor_multiple(MDB_cursor *cursor, MDB_val *key, MDB_val *data)
{
    struct level *leaf = core_leaf(&cursor->dups->core);
    unsigned count = dups_leaf_count(cursor->dups);

    if (data == NULL)
        return EINVAL;
    if (cursor->dups->shape == DUPS_SINGLE)
        return cursor_record(cursor, key, data);
    if (key != NULL) {
        int rc = cursor_record(cursor, key, NULL);

        if (rc != MDB_SUCCESS)
            return rc;
    }
    data->mv_size = (size_t)count * leaf->page->pad;
    data->mv_data = page_bytes(leaf->page) + PAGE_HEADER;
    leaf->index = count - 1;
    cursor->dups->core.position = POS_ON;
    return MDB_SUCCESS;
}

/* One leaf of duplicates back, all its values. */
static int cursor_previous_multiple(MDB_cursor *cursor)
{
    if (cursor->core.position == POS_NONE)
        return cursor_edge(cursor, EDGE_LAST);
    if (!cursor_on_key(cursor) || cursor->dups->shape != DUPS_TREE || cursor->dups->core.position == POS_NONE)
        return MDB_NOTFOUND;
    return core_next_leaf(&cursor->dups->core, EDGE_FIRST);
}

/* Operations within the duplicates of the current key. */
static int cursor_move_dup(MDB_cursor *cursor, MDB_cursor_op op)
{
    if (cursor->core.position == POS_NONE)
        return cursor_edge(cursor, op == MDB_PREV_DUP ? EDGE_LAST : EDGE_FIRST);
    if (!cursor_has_dups(cursor) || !cursor_on_key(cursor))
        return MDB_NOTFOUND;
    return op == MDB_PREV_DUP ? dups_previous(cursor) : dups_next(cursor);
}

static int cursor_edge_dup(MDB_cursor *cursor, enum edge edge)
{
    int rc;

    if (cursor->core.position == POS_NONE)
        return EINVAL;
    if (!cursor_has_dups(cursor))
        return MDB_INCOMPATIBLE;
    if (!cursor_on_key(cursor) && (rc = cursor_settle(cursor)) != MDB_SUCCESS)
        return rc;
    return dups_edge(cursor, edge);
}

/* Operations that look for a key. */
static int cursor_search(MDB_cursor *cursor, const MDB_val *key, const MDB_val *data, MDB_cursor_op op)
{
    int rc;

    if (key == NULL)
        return EINVAL;
    if ((rc = key_check(cursor->core.tree, key)) != MDB_SUCCESS)
        return rc;
    switch (op) {
    case MDB_SET_RANGE:
        return cursor_seek_range(cursor, key);
    case MDB_GET_BOTH:
    case MDB_GET_BOTH_RANGE:
        if (data == NULL)
            return EINVAL;
        if (!cursor_has_dups(cursor))
            return MDB_INCOMPATIBLE;
        if ((rc = value_check(data)) != MDB_SUCCESS)
            return rc;
        return cursor_seek_both(cursor, key, data, op == MDB_GET_BOTH_RANGE);
    default:
        return cursor_seek(cursor, key);
    }
}

/* Moves the cursor; what it then stands on is the result. */
static int cursor_move(MDB_cursor *cursor, const MDB_val *key, const MDB_val *data, MDB_cursor_op op)
{
    bool nowhere = cursor->core.position == POS_NONE;

    switch (op) {
    case MDB_FIRST:
        return cursor_edge(cursor, EDGE_FIRST);
    case MDB_LAST:
        return cursor_edge(cursor, EDGE_LAST);
    case MDB_NEXT:
        return nowhere ? cursor_edge(cursor, EDGE_FIRST) : cursor_next(cursor);
    case MDB_PREV:
        return nowhere ? cursor_edge(cursor, EDGE_LAST) : cursor_previous(cursor);
    case MDB_NEXT_NODUP:
        return nowhere ? cursor_edge(cursor, EDGE_FIRST) : cursor_next_key(cursor);
    case MDB_PREV_NODUP:
        return nowhere ? cursor_edge(cursor, EDGE_LAST) : cursor_previous_key(cursor);
    case MDB_NEXT_DUP:
    case MDB_PREV_DUP:
    case MDB_NEXT_MULTIPLE:
        return cursor_move_dup(cursor, op);
    case MDB_PREV_MULTIPLE:
        return cursor_previous_multiple(cursor);
    case MDB_FIRST_DUP:
        return cursor_edge_dup(cursor, EDGE_FIRST);
    case MDB_LAST_DUP:
        return cursor_edge_dup(cursor, EDGE_LAST);
    case MDB_GET_CURRENT:
    case MDB_GET_MULTIPLE:
        return cursor_settle(cursor);
    case MDB_SET:
    case MDB_SET_KEY:
    case MDB_SET_RANGE:
    case MDB_GET_BOTH:
    case MDB_GET_BOTH_RANGE:
        return cursor_search(cursor, key, data, op);
    default:
        return EINVAL;
    }
}

static bool is_multiple(MDB_cursor_op op)
{
    return op == MDB_GET_MULTIPLE || op == MDB_NEXT_MULTIPLE || op == MDB_PREV_MULTIPLE;
}

/* May the cursor be used? Its transaction lives, its database is the one it was opened on. */
static int cursor_check(const MDB_cursor *cursor)
{
    int rc;

    if (unlikely(cursor == NULL || cursor->magic != CURSOR_MAGIC || cursor->core.txn == NULL))
        return EINVAL;
    if (unlikely((rc = txn_check(cursor->core.txn)) != MDB_SUCCESS))
        return rc;
    if (unlikely(cursor->sequence != cursor->core.txn->env->handles[cursor->dbi].sequence))
        return MDB_BAD_DBI;
    return unlikely((cursor->core.txn->handle_state[cursor->dbi] & HANDLE_LOADED) == 0) ? MDB_BAD_DBI : MDB_SUCCESS;
}

int mdb_cursor_get(MDB_cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op)
{
    int rc;

    if (unlikely((rc = cursor_check(cursor)) != MDB_SUCCESS))
        return rc;
    if (unlikely(is_multiple(op)) && !cursor_is_fixed(cursor))
        return MDB_INCOMPATIBLE;
    if (txn_is_writer(cursor->core.txn) && (rc = dups_sync(cursor)) != MDB_SUCCESS)
        return rc;
    if ((rc = cursor_move(cursor, key, data, op)) != MDB_SUCCESS)
        return rc;
    if (unlikely(is_multiple(op)))
        return cursor_multiple(cursor, key, data);
    return cursor_record(cursor, op == MDB_SET || op == MDB_GET_BOTH || op == MDB_GET_BOTH_RANGE ? NULL : key, data);
}

int mdb_cursor_count(MDB_cursor *cursor, mdb_size_t *countp)
{
    int rc;

    if (countp == NULL)
        return EINVAL;
    if ((rc = cursor_check(cursor)) != MDB_SUCCESS)
        return rc;
    if (!cursor_has_dups(cursor))
        return MDB_INCOMPATIBLE;
    if ((rc = dups_sync(cursor)) != MDB_SUCCESS)
        return rc;
    if (!cursor_on_key(cursor) && (rc = cursor_settle(cursor)) != MDB_SUCCESS)
        return rc;
    *countp = dups_count(cursor->dups);
    return MDB_SUCCESS;
}

int mdb_cursor_open(MDB_txn *txn, MDB_dbi dbi, MDB_cursor **out)
{
    struct tree *tree;
    MDB_cursor *cursor;
    int rc;

    if (out == NULL)
        return EINVAL;
    if ((rc = txn_check(txn)) != MDB_SUCCESS)
        return rc;
    if ((rc = txn_is_writer(txn) ? txn_tree(txn, dbi, &tree) : txn_tree_to_read(txn, dbi, &tree)) != MDB_SUCCESS)
        return rc;
    if ((cursor = cursor_make(txn, dbi)) == NULL)
        return ENOMEM;
    if (txn_is_writer(txn))
        cursor_track(cursor);
    *out = cursor;
    return MDB_SUCCESS;
}

int mdb_cursor_renew(MDB_txn *txn, MDB_cursor *cursor)
{
    struct tree *tree;
    int rc;

    if (cursor == NULL || cursor->magic != CURSOR_MAGIC || cursor->tracked)
        return EINVAL;
    if ((rc = txn_check(txn)) != MDB_SUCCESS)
        return rc;
    if (txn_is_writer(txn))
        return EINVAL;
    if ((rc = txn_tree(txn, cursor->dbi, &tree)) != MDB_SUCCESS)
        return rc;
    if (tree_has_dups(tree) != cursor_has_dups(cursor))
        return MDB_INCOMPATIBLE;
    cursor_bind(cursor, txn);
    return MDB_SUCCESS;
}

void mdb_cursor_close(MDB_cursor *cursor)
{
    if (cursor == NULL || cursor->magic != CURSOR_MAGIC)
        return;
    if (cursor->saved != NULL) {
        /* Of a parent transaction: it has to be there if the child aborts. */
        cursor->core.position = POS_NONE;
        return;
    }
    if (cursor->tracked)
        cursor_untrack(cursor);
    cursor_free(cursor);
}

MDB_txn *mdb_cursor_txn(MDB_cursor *cursor)
{
    return cursor != NULL && cursor->magic == CURSOR_MAGIC ? cursor->core.txn : NULL;
}

MDB_dbi mdb_cursor_dbi(MDB_cursor *cursor)
{
    return cursor != NULL && cursor->magic == CURSOR_MAGIC ? cursor->dbi : 0;
}

/* ---- comparing ---- */

int mdb_cmp(MDB_txn *txn, MDB_dbi dbi, const MDB_val *a, const MDB_val *b)
{
    struct tree *tree;

    if (a == NULL || b == NULL || txn_check(txn) != MDB_SUCCESS || txn_tree(txn, dbi, &tree) != MDB_SUCCESS)
        return 0;
    return tree->order.cmp(a, b);
}

int mdb_dcmp(MDB_txn *txn, MDB_dbi dbi, const MDB_val *a, const MDB_val *b)
{
    struct tree *tree;

    if (a == NULL || b == NULL || txn_check(txn) != MDB_SUCCESS || txn_tree(txn, dbi, &tree) != MDB_SUCCESS)
        return 0;
    return tree->dup_order.cmp(a, b);
}

/* ==== 12. Writes =====================================================================================================
 * Put and delete through a cursor, on plain databases and on sets of duplicates in their three shapes.
 * Always: what can be refused is refused before the first change; an error after it fails the transaction;
 *         record.entries counts records, every duplicate as one.
 * Uses: 6-10.
 */

/* ---- scratch memory ---- */

/* env->writer.scratch has one page each for: rebuilding pages (section 9), the key and the small value of the call, and
 * the image of a sub-page. Arguments are copied there because they may point into pages that are about to change. */
#define SCRATCH_PAGES 4u

static unsigned char *scratch_page(MDB_txn *txn, unsigned i)
{
    return (unsigned char *)txn->env->writer.scratch + ((size_t)i << txn->page_shift);
}

static void key_copy(MDB_txn *txn, MDB_val *key)
{
    key->mv_data = memcpy(scratch_page(txn, 1), key->mv_data, key->mv_size);
}

static void value_copy(MDB_txn *txn, MDB_val *value)
{
    if (value->mv_size > 0 && value->mv_size <= txn_page_size(txn))
        value->mv_data = memcpy(scratch_page(txn, 2), value->mv_data, value->mv_size);
}

static struct page *sub_page_image(MDB_txn *txn)
{
    return (struct page *)scratch_page(txn, 3);
}

/* ---- overflow runs ---- */

static bool value_is_big(MDB_txn *txn, const MDB_val *key, size_t size)
{
    return NODE_HEADER + key->mv_size + size > node_size_max(txn_page_size(txn));
}

/* A new run that holds a value, or room for it if there is none to copy. */
static int run_store(struct core *core, const MDB_val *value, struct page **out)
{
    int rc = run_new(core->txn, value->mv_size, out);

    if (rc != MDB_SUCCESS)
        return rc;
    core->tree->record.overflow_pages += (*out)->run_pages;
    if (value->mv_data != NULL)
        memcpy(page_bytes(*out) + PAGE_HEADER, value->mv_data, value->mv_size);
    return MDB_SUCCESS;
}

/* Frees the run of a BIGDATA entry. */
static int run_drop(struct core *core, const struct entry *entry)
{
    struct page *run;
    size_t pages;
    int rc = run_get(core->txn, entry->pgno, entry->data.mv_size, &run);

    if (rc != MDB_SUCCESS)
        return rc;
    pages = run->run_pages;
    core->tree->record.overflow_pages -= pages;
    return pages_free(core->txn, entry->pgno, pages);
}

/* Can a value overwrite the run of this entry: is the run this transaction's own, in memory, and of the right
 * length? */
static bool run_reusable(MDB_txn *txn, const struct entry *entry, size_t size)
{
    const struct page *run = page_table_find(&txn->dirty, entry->pgno);

    return run != NULL && (const void *)run != SPILLED && run->run_pages == run_pages_for(size, txn_page_size(txn));
}

/* ---- plain databases ---- */

/* The bytes of the value that the core stands on. */
static unsigned char *plain_value(struct core *core)
{
    struct node *node = page_node(core_leaf(core)->page, core_leaf(core)->index);

    if ((node->flags & N_BIGDATA) == 0)
        return node_data(node);
    return page_bytes(dirty_page(core->txn, node_run(node))) + PAGE_HEADER;
}

/* Inserts a record where the core stands, or puts its value in the place of `old`. The path is writable. */
static int plain_store(struct core *core, const MDB_val *key, const MDB_val *value, const struct entry *old)
{
    struct entry entry = {.key = old != NULL ? old->key : *key, .data = *value};
    struct page *run;
    int rc;

    if (value_is_big(core->txn, &entry.key, value->mv_size)) { /* of keys that compare equal, the old one stays */
        if (old != NULL && (old->flags & N_BIGDATA) != 0 && run_reusable(core->txn, old, value->mv_size)) {
            struct node *node = page_node(core_leaf(core)->page, core_leaf(core)->index);

            node_set_data_size(node, value->mv_size);
            if (value->mv_data != NULL)
                memmove(plain_value(core), value->mv_data, value->mv_size);
            return MDB_SUCCESS;
        }
        if ((rc = run_store(core, value, &run)) != MDB_SUCCESS)
            return rc;
        entry.flags = N_BIGDATA;
        entry.pgno = run->pgno;
    }
    if (old == NULL) {
        rc = tree_insert(core, &entry);
        core->tree->record.entries += rc == MDB_SUCCESS;
        return rc;
    }
    if ((old->flags & N_BIGDATA) != 0 && (rc = run_drop(core, old)) != MDB_SUCCESS)
        return rc;
    if (old->flags == entry.flags && (old->data.mv_size == value->mv_size || entry.flags == N_BIGDATA)) {
        struct node *node = page_node(core_leaf(core)->page, core_leaf(core)->index);

        node_set_data_size(node, value->mv_size);
        if (entry.flags == N_BIGDATA)
            memcpy(node_data(node), &entry.pgno, sizeof entry.pgno);
        else if (value->mv_data != NULL && value->mv_size > 0)
            memcpy(node_data(node), value->mv_data, value->mv_size);
        return MDB_SUCCESS;
    }
    return tree_replace(core, &entry);
}

/* Makes the path writable, or begins the tree. */
static int core_prepare(struct core *core)
{
    if (core->tree->record.root == PGNO_NONE)
        return tree_plant(core);
    return core_touch(core);
}

/* To where a key greater than all would be appended; MDB_KEYEXIST if this one is not. */
static int core_seek_append(struct core *core, const MDB_val *key)
{
    int order;
    int rc;

    if (core->position == POS_NONE || core_turn_level(core, core->depth - 1u, EDGE_LAST) != DEPTH_MAX) {
        if ((rc = core_edge(core, EDGE_LAST)) != MDB_SUCCESS)
            return rc;
    }
    core_leaf(core)->index = page_count(core_leaf(core)->page) - 1;
    core->position = POS_ON;
    if ((rc = page_compare(core, core_leaf(core)->page, core_leaf(core)->index, key, &order)) != MDB_SUCCESS)
        return rc;
    if (order <= 0)
        return MDB_KEYEXIST;
    core_leaf(core)->index++;
    core->position = POS_MISSED;
    return MDB_SUCCESS;
}

/* To where a put goes. *exact: the key is there. */
static int put_seek(MDB_cursor *cursor, const MDB_val *key, unsigned flags, bool *exact)
{
    int rc;

    *exact = false;
    if ((flags & MDB_APPEND) != 0)
        rc = core_seek_append(&cursor->core, key);
    else
        rc = core_seek_near(&cursor->core, key, exact);
    return rc == MDB_NOTFOUND ? MDB_SUCCESS : rc;
}

/* With MDB_CURRENT: the cursor must stand on a record of this key. */
static int put_current(MDB_cursor *cursor, const MDB_val *key, bool *exact)
{
    int order;
    int rc = cursor_settle(cursor);

    *exact = true;
    if (rc != MDB_SUCCESS)
        return rc;
    rc = page_compare(&cursor->core, core_leaf(&cursor->core)->page, core_leaf(&cursor->core)->index, key, &order);
    return rc == MDB_SUCCESS && order != 0 ? EINVAL : rc;
}

static int put_plain(MDB_cursor *cursor, const MDB_val *key, const MDB_val *value, MDB_val *data, unsigned flags)
{
    struct core *core = &cursor->core;
    struct entry old;
    bool exact;
    int rc;

    rc = (flags & MDB_CURRENT) != 0 ? put_current(cursor, key, &exact) : put_seek(cursor, key, flags, &exact);
    if (rc != MDB_SUCCESS)
        return rc;
    if (exact) {
        if ((rc = core_entry(core, &old)) != MDB_SUCCESS)
            return rc;
        if ((old.flags & N_SUBDATA) != 0)
            return MDB_INCOMPATIBLE;
        if ((flags & MDB_NOOVERWRITE) != 0)
            return (rc = entry_value(core->txn, &old, data)) == MDB_SUCCESS ? MDB_KEYEXIST : rc;
    }
    if ((rc = core_prepare(core)) != MDB_SUCCESS)
        return rc;
    if (exact && (rc = core_entry(core, &old)) != MDB_SUCCESS)
        return rc;
    rc = plain_store(core, key, value, exact ? &old : NULL);
    if (rc == MDB_SUCCESS && (flags & MDB_RESERVE) != 0)
        data->mv_data = plain_value(core);
    return rc;
}

/* ---- sets of duplicates ---- */

static struct node *outer_node(MDB_cursor *cursor)
{
    return page_node(core_leaf(&cursor->core)->page, core_leaf(&cursor->core)->index);
}

/* Looks again at the outer entry after it changed. */
static int dups_reread(MDB_cursor *cursor)
{
    struct entry entry;
    int rc = core_entry(&cursor->core, &entry);

    return rc == MDB_SUCCESS ? dups_refresh(cursor, &entry) : rc;
}

/* Writes the record of a tree of duplicates back into the outer node. That is where it was, unless the file is damaged:
 * then the two trees may share a page, which has just been changed as part of the inner one. */
static int dups_store_record(MDB_cursor *cursor)
{
    struct entry entry;
    int rc;

    if (!core_path_ok(&cursor->core))
        return txn_corrupted(cursor->core.txn);
    if ((rc = core_entry(&cursor->core, &entry)) != MDB_SUCCESS)
        return rc;
    if (entry.flags != (N_DUPDATA | N_SUBDATA))
        return txn_corrupted(cursor->core.txn);
    memcpy(node_data(outer_node(cursor)), &cursor->dups->tree.record, sizeof cursor->dups->tree.record);
    return MDB_SUCCESS;
}

/* Replaces what the outer node holds. */
static int outer_replace(MDB_cursor *cursor, const void *bytes, size_t size, unsigned flags)
{
    struct node *node = outer_node(cursor);
    struct entry entry = {
        .key = {node->ksize, node->bytes}, .data = {size, (void *)(uintptr_t)bytes}, .flags = flags, .pgno = PGNO_NONE};

    return tree_replace(&cursor->core, &entry);
}

static void dups_record_init(struct dups *dups, size_t width)
{
    bool fixed = (dups->tree.leaf_kind & P_LEAF2) != 0;
    struct db_record record = {.pad = fixed ? (uint32_t)width : 0, .flags = fixed ? DB_DUPFIXED : 0, .root = PGNO_NONE};

    if (fixed && dups->tree.order.kind == ORDER_INTEGER)
        record.flags |= DB_INTEGERKEY;
    dups->tree.record = record;
}

/* A leaf for a new tree of duplicates; the inner core stands in it. */
static int dups_plant(MDB_cursor *cursor, size_t width)
{
    struct dups *dups = cursor->dups;
    unsigned position = dups->core.position;
    unsigned index = dups->core.path[0].index;
    int rc;

    dups_record_init(dups, width);
    dups->core.sub_size = 0;
    rc = tree_plant(&dups->core);
    dups->core.position = (unsigned char)position;
    dups->core.path[0].index = index;
    return rc;
}

/* A set grew too large for its node: moves it to a tree of its own. All cursors on it keep their places. */
static int dups_to_tree(MDB_cursor *cursor)
{
    struct dups *dups = cursor->dups;
    enum dups_shape shape = dups->shape;
    const struct page *sub = dups->core.path[0].page;
    size_t sub_size = dups->core.sub_size;
    struct node *node = outer_node(cursor);
    struct entry single = {.key = {node_data_size(node), node_data(node)}};
    MDB_cursor *other;
    struct page *leaf;
    int rc;

    rc = dups_plant(cursor, shape == DUPS_SINGLE ? single.key.mv_size : sub->pad);
    if (rc != MDB_SUCCESS)
        return rc;
    leaf = dups->core.path[0].page;
    if (shape == DUPS_SINGLE)
        page_insert(leaf, 0, &single);
    else if (page_append(leaf, sub, sub_size, 0, page_count(sub)) != MDB_SUCCESS)
        return txn_corrupted(cursor->core.txn);
    dups->shape = DUPS_TREE;
    dups->tree.record.entries = page_count(leaf);
    for (other = cursor->core.txn->cursors[cursor->dbi]; other != NULL; other = other->next) {
        if (other == cursor || !cursors_share_entry(other, cursor) || !other->dups->loaded)
            continue;
        other->dups->shape = DUPS_TREE;
        other->dups->core.sub_size = 0;
        other->dups->core.path[0].page = leaf;
    }
    return outer_replace(cursor, &dups->tree.record, sizeof dups->tree.record, N_DUPDATA | N_SUBDATA);
}

/* A single value becomes a sub-page of `size` bytes with this one value on it. */
static int dups_to_sub_page(MDB_cursor *cursor, size_t size)
{
    struct page *image = sub_page_image(cursor->core.txn);
    struct node *node = outer_node(cursor);
    struct entry single = {.key = {node_data_size(node), node_data(node)}};
    int rc;

    memset(image, 0, size);
    sub_page_init(image, core_leaf(&cursor->core)->page->pgno, cursor->dups->tree.leaf_kind, size);
    page_insert(image, 0, &single);
    rc = outer_replace(cursor, image, size, N_DUPDATA);
    return rc == MDB_SUCCESS ? dups_reread(cursor) : rc;
}

/* Makes the sub-page `size` bytes large: in place if the page has room, else by way of an image. */
static int dups_grow_sub_page(MDB_cursor *cursor, size_t size)
{
    struct level *leaf = core_leaf(&cursor->core);
    struct node *node = outer_node(cursor);
    size_t old_size = node_data_size(node);
    size_t fixed = NODE_HEADER + node->ksize;
    int rc = MDB_SUCCESS;

    if (page_room(leaf->page) >= size_even(fixed + size) - size_even(fixed + old_size)) {
        leaf_resize(leaf->page, leaf->index, size);
        sub_page_resized(node_sub_page(outer_node(cursor)), old_size, size);
    } else {
        struct page *image = sub_page_image(cursor->core.txn);

        memcpy(image, node_sub_page(node), old_size);
        sub_page_resized(image, old_size, size);
        rc = outer_replace(cursor, image, size, N_DUPDATA);
    }
    return rc == MDB_SUCCESS ? dups_reread(cursor) : rc;
}

/* Gives the set a shape with room for one more value. */
static int dups_make_room(MDB_cursor *cursor, const struct entry *value)
{
    struct dups *dups = cursor->dups;
    struct node *node = outer_node(cursor);
    size_t limit = node_size_max(txn_page_size(cursor->core.txn)) - NODE_HEADER - node->ksize;
    size_t size;

    if (dups->shape == DUPS_TREE)
        return MDB_SUCCESS;
    if (dups->shape == DUPS_SINGLE) {
        const struct page_kind *kind = (dups->tree.leaf_kind & P_LEAF2) != 0 ? &fixed_kind : &leaf_kind;
        struct entry single = {.key = {node_data_size(node), NULL}};

        size = size_even(PAGE_HEADER + kind->cost(NULL, &single) + kind->cost(NULL, value));
        return size > limit ? dups_to_tree(cursor) : dups_to_sub_page(cursor, size);
    }
    size = sub_page_size_with(dups->core.path[0].page, dups->core.sub_size, value);
    if (size > limit)
        return dups_to_tree(cursor);
    return size > dups->core.sub_size ? dups_grow_sub_page(cursor, size) : MDB_SUCCESS;
}

/* Inserts a value where the inner core stands. The outer path is writable. */
static int dups_insert(MDB_cursor *cursor, const MDB_val *value)
{
    struct dups *dups = cursor->dups;
    struct entry entry = {.key = *value};
    int rc = dups_make_room(cursor, &entry);

    if (rc != MDB_SUCCESS)
        return rc;
    if (dups->shape == DUPS_SUB_PAGE) {
        struct level *place = &dups->core.path[0];

        page_insert(place->page, place->index, &entry);
        dups->core.position = POS_ON;
        cores_inserted(&dups->core, 0, place->page, place->index);
        return MDB_SUCCESS;
    }
    if ((rc = core_touch(&dups->core)) != MDB_SUCCESS || (rc = tree_insert(&dups->core, &entry)) != MDB_SUCCESS)
        return rc;
    dups->tree.record.entries++;
    return dups_store_record(cursor);
}

/* Inserts a new key with one value. */
static int dups_insert_key(MDB_cursor *cursor, const MDB_val *key, const MDB_val *value)
{
    struct dups *dups = cursor->dups;
    struct entry entry = {.key = *key, .data = *value};
    struct entry single = {.key = *value};
    int rc;

    dups->loaded = false;
    if (value_is_big(cursor->core.txn, key, value->mv_size)) {
        dups->core.path[0].index = 0;
        if ((rc = dups_plant(cursor, value->mv_size)) != MDB_SUCCESS)
            return rc;
        page_insert(dups->core.path[0].page, 0, &single);
        dups->tree.record.entries = 1;
        entry.data = (MDB_val){sizeof dups->tree.record, &dups->tree.record};
        entry.flags = N_DUPDATA | N_SUBDATA;
    }
    if ((rc = tree_insert(&cursor->core, &entry)) != MDB_SUCCESS)
        return rc;
    return cursor_arrive(cursor, EDGE_FIRST);
}

/* To where an appended value goes: behind the last one; MDB_KEYEXIST if it is not greater. */
static int dups_seek_append(MDB_cursor *cursor, const struct entry *entry, const MDB_val *value)
{
    struct dups *dups = cursor->dups;
    MDB_val last;
    int rc;

    if (dups->shape == DUPS_TREE)
        return core_seek_append(&dups->core, value);
    if ((rc = dups_edge(cursor, EDGE_LAST)) != MDB_SUCCESS || (rc = dups_value(cursor, entry, &last)) != MDB_SUCCESS)
        return rc;
    if (dups_have_width(dups) && last.mv_size != value->mv_size)
        return MDB_BAD_VALSIZE;
    if (dups->tree.order.cmp(value, &last) <= 0)
        return MDB_KEYEXIST;
    core_leaf(&dups->core)->index++;
    dups->core.position = POS_MISSED;
    return MDB_SUCCESS;
}

/* Puts one pair. `data` is where NOOVERWRITE shows the value that is there. */
static int put_pair(MDB_cursor *cursor, const MDB_val *key, const MDB_val *value, MDB_val *data, unsigned flags)
{
    struct core *core = &cursor->core;
    struct entry entry;
    bool exact = false;
    int rc;

    if ((flags & MDB_APPEND) != 0 && (flags & MDB_APPENDDUP) == 0)
        rc = put_seek(cursor, key, flags, &exact);
    else
        rc = cursor_seek_set(cursor, key, &entry, &exact);
    if (rc == MDB_KEYEXIST) /* not appended: the cursor is on the last record */
        return (rc = cursor_arrive(cursor, EDGE_LAST)) == MDB_SUCCESS ? MDB_KEYEXIST : rc;
    if (rc != MDB_SUCCESS && rc != MDB_NOTFOUND)
        return rc;
    if (exact) {
        bool there = false;

        if ((flags & MDB_NOOVERWRITE) != 0) {
            if ((rc = dups_edge(cursor, EDGE_FIRST)) == MDB_SUCCESS)
                rc = dups_value(cursor, &entry, data);
            return rc == MDB_SUCCESS ? MDB_KEYEXIST : rc;
        }
        if ((flags & MDB_APPENDDUP) != 0)
            rc = dups_seek_append(cursor, &entry, value);
        else
            rc = dups_seek(cursor, &entry, value, &there);
        if (rc != MDB_SUCCESS)
            return rc;
        if (there)
            return (flags & MDB_NODUPDATA) != 0 ? MDB_KEYEXIST : MDB_SUCCESS;
    }
    if ((rc = core_prepare(core)) != MDB_SUCCESS)
        return rc;
    if (!exact)
        rc = dups_insert_key(cursor, key, value);
    else if ((rc = dups_reread(cursor)) == MDB_SUCCESS)
        rc = dups_insert(cursor, value);
    core->tree->record.entries += rc == MDB_SUCCESS;
    return rc;
}

/* ---- deleting ---- */

/* Frees the pages of a tree, not those of its leaves' values. */
static int tree_pages_free(MDB_txn *txn, const struct db_record *record, unsigned kind);

/* The set that the cursor stands on goes: no cursor stands in it any more. */
static void dups_leave(MDB_cursor *cursor)
{
    MDB_cursor *other;

    for (other = cursor->core.txn->cursors[cursor->dbi]; other != NULL; other = other->next)
        if (other == cursor || cursors_share_entry(other, cursor))
            other->dups->loaded = false;
}

/* Removes the record, or the key with all its values, that the cursor stands on. The path is writable. */
static int outer_remove(MDB_cursor *cursor)
{
    struct core *core = &cursor->core;
    struct entry entry;
    size_t removed = 1;
    int rc = core_entry(core, &entry);

    if (rc != MDB_SUCCESS)
        return rc;
    if ((entry.flags & N_BIGDATA) != 0) {
        rc = run_drop(core, &entry);
    } else if (cursor_has_dups(cursor)) {
        if ((rc = dups_refresh(cursor, &entry)) != MDB_SUCCESS)
            return rc;
        dups_leave(cursor);
        if (cursor->dups->shape == DUPS_TREE) {
            removed = cursor->dups->tree.record.entries;
            rc = tree_pages_free(core->txn, &cursor->dups->tree.record, cursor->dups->tree.leaf_kind);
        } else {
            removed = dups_leaf_count(cursor->dups);
        }
    }
    if (rc != MDB_SUCCESS)
        return rc;
    if (removed > core->tree->record.entries)
        return txn_corrupted(core->txn);
    core->tree->record.entries -= removed;
    return tree_remove(core);
}

/* Removes a value from a sub-page and the room it leaves from the node. */
static void sub_page_remove(MDB_cursor *cursor)
{
    struct dups *dups = cursor->dups;
    struct level *place = &dups->core.path[0];
    struct level *outer = core_leaf(&cursor->core);
    struct page *sub = place->page;
    size_t size;

    page_remove(sub, place->index);
    cores_removed(&dups->core, sub, place->index);
    size = page_is_leaf2(sub) ? PAGE_HEADER + (size_t)page_count(sub) * sub->pad : dups->core.sub_size - page_room(sub);
    size = size_even(size);
    if (size < dups->core.sub_size) {
        sub_page_resized(sub, dups->core.sub_size, size);
        leaf_resize(outer->page, outer->index, size);
    }
}

/* Removes the value that the inner core stands on, one of several. The outer path is writable. */
static int dups_remove(MDB_cursor *cursor)
{
    struct dups *dups = cursor->dups;
    int rc;

    if (dups->shape == DUPS_SUB_PAGE) {
        sub_page_remove(cursor);
        rc = dups_reread(cursor);
    } else {
        rc = core_touch(&dups->core);
        if (rc == MDB_SUCCESS)
            rc = tree_remove(&dups->core);
        dups->tree.record.entries--;
        if (rc == MDB_SUCCESS)
            rc = dups_store_record(cursor);
    }
    if (rc == MDB_SUCCESS)
        cursor->core.tree->record.entries--;
    return rc;
}

/* Deletes the record that the cursor stands on; `all`: the key with all its values. */
static int cursor_delete(MDB_cursor *cursor, bool all)
{
    struct entry entry;
    int rc = core_entry(&cursor->core, &entry);

    if (rc != MDB_SUCCESS)
        return rc;
    if (!cursor_has_dups(cursor) && (entry.flags & N_SUBDATA) != 0)
        return MDB_INCOMPATIBLE;
    if ((rc = core_touch(&cursor->core)) != MDB_SUCCESS)
        return rc;
    if (!cursor_has_dups(cursor))
        return outer_remove(cursor);
    if ((rc = dups_reread(cursor)) != MDB_SUCCESS)
        return rc;
    return all || dups_count(cursor->dups) <= 1 ? outer_remove(cursor) : dups_remove(cursor);
}

/* ---- replacing the current duplicate ---- */

/* Do two cursors stand on the same pair? */
static bool cursors_share_pair(const MDB_cursor *a, const MDB_cursor *b)
{
    const struct core *x;
    const struct core *y;

    if (!cursors_share_entry(a, b) || !a->dups->loaded)
        return false;
    x = &a->dups->core;
    y = &b->dups->core;
    if (x->position != POS_ON || y->position != POS_ON || x->path[x->depth - 1].index != y->path[y->depth - 1].index)
        return false;
    return b->dups->shape != DUPS_TREE || x->path[x->depth - 1].page == y->path[y->depth - 1].page;
}

static void core_copy_place(struct core *to, const struct core *from)
{
    to->sub_size = from->sub_size;
    to->depth = from->depth;
    to->position = from->position;
    memcpy(to->path, from->path, from->depth * sizeof from->path[0]);
}

static void cursor_copy_place(MDB_cursor *to, const MDB_cursor *from)
{
    core_copy_place(&to->core, &from->core);
    core_copy_place(&to->dups->core, &from->dups->core);
    to->dups->tree.record = from->dups->tree.record;
    to->dups->shape = from->dups->shape;
    to->dups->loaded = from->dups->loaded;
}

/* Replaces the pair that the cursor stands on by another of the same key. Other cursors on it go along. */
static int pair_move(MDB_cursor *cursor, const MDB_val *key, const MDB_val *value)
{
    MDB_cursor *list = cursor->core.txn->cursors[cursor->dbi];
    MDB_cursor *other;
    int rc;

    for (other = list; other != NULL; other = other->next)
        other->following = other != cursor && cursors_share_pair(other, cursor);
    rc = cursor_delete(cursor, false);
    if (rc == MDB_SUCCESS)
        rc = put_pair(cursor, key, value, NULL, 0);
    for (other = list; other != NULL; other = other->next) {
        if (other->following && rc == MDB_SUCCESS)
            cursor_copy_place(other, cursor);
        other->following = false;
    }
    return rc;
}

static int put_current_pair(MDB_cursor *cursor, const MDB_val *key, const MDB_val *value)
{
    struct dups *dups = cursor->dups;
    struct entry entry;
    MDB_val old;
    bool exact;
    bool there;
    int rc = put_current(cursor, key, &exact);

    if (rc != MDB_SUCCESS || (rc = core_entry(&cursor->core, &entry)) != MDB_SUCCESS
        || (rc = dups_value(cursor, &entry, &old)) != MDB_SUCCESS)
        return rc;
    if (dups_have_width(dups) && old.mv_size != value->mv_size)
        return MDB_BAD_VALSIZE;
    if (dups->tree.order.cmp(value, &old) != 0) {
        struct core before = dups->core;

        if ((rc = dups_seek(cursor, &entry, value, &there)) != MDB_SUCCESS)
            return rc;
        dups->core = before;
        if (there)
            return MDB_KEYEXIST;
    } else if (order_bytes(value, &old) == 0) {
        return MDB_SUCCESS;
    }
    return pair_move(cursor, key, value);
}

/* ---- the calls ---- */

/* Pages that must stay to be had after a put, so that a full map can be emptied: enough for three transactions that
 * each delete something, since what one of them frees can be used by the third. */
static size_t put_reserve(MDB_txn *txn, const struct tree *tree)
{
    unsigned depth = tree->record.depth + txn->trees[FREE_DBI].record.depth;
    size_t pages_max = txn_map_pages(txn) / 4; /* small maps are for holding data, too */
    size_t pages;

    if (tree != &txn->trees[MAIN_DBI])
        depth += txn->trees[MAIN_DBI].record.depth;
    pages = 3 * (2 * (size_t)depth + 8);
    return pages < pages_max ? pages : pages_max;
}

static int put_check(const MDB_cursor *cursor, const MDB_val *key, const MDB_val *data, unsigned flags)
{
    const struct tree *tree = cursor->core.tree;
    size_t size_max = key_size_max(txn_page_size(cursor->core.txn));

    if (key->mv_size == 0 || key->mv_size > size_max)
        return MDB_BAD_VALSIZE;
    if (key->mv_data == NULL || ((flags & MDB_RESERVE) == 0 && value_check(data) != MDB_SUCCESS))
        return EINVAL;
    if ((tree->record.flags & DB_INTEGERKEY) != 0 && !integer_size_ok(key->mv_size))
        return MDB_BAD_VALSIZE;
    if (!cursor_has_dups(cursor))
        return data->mv_size <= DATA_SIZE_MAX ? MDB_SUCCESS : MDB_BAD_VALSIZE;
    if ((flags & MDB_RESERVE) != 0)
        return MDB_INCOMPATIBLE;
    if (data->mv_size > size_max)
        return MDB_BAD_VALSIZE;
    if (cursor_is_fixed(cursor) && data->mv_size == 0)
        return MDB_BAD_VALSIZE;
    if (cursor->dups->tree.order.kind == ORDER_INTEGER && !integer_size_ok(data->mv_size))
        return MDB_BAD_VALSIZE;
    return MDB_SUCCESS;
}

/* Prepares for an update: room in memory, pages kept back. */
static int put_begin(MDB_cursor *cursor, const void *keep)
{
    MDB_txn *txn = cursor->core.txn;
    int rc = pages_limit(txn, keep);

    if (rc == MDB_SUCCESS)
        txn->reserve = put_reserve(txn, cursor->core.tree);
    return rc;
}

/* One record, for mdb_put and mdb_cursor_put alike. */
static int cursor_put(MDB_cursor *cursor, const MDB_val *key_in, MDB_val *data, unsigned flags)
{
    MDB_txn *txn = cursor->core.txn;
    MDB_val key = *key_in;
    MDB_val value = *data;
    int rc = put_check(cursor, &key, &value, flags);

    if (rc != MDB_SUCCESS)
        return rc;
    key_copy(txn, &key);
    if ((flags & MDB_RESERVE) != 0)
        value.mv_data = NULL;
    else
        value_copy(txn, &value);
    if ((rc = put_begin(cursor, value.mv_data)) != MDB_SUCCESS)
        return rc;
    if (!cursor_has_dups(cursor))
        rc = put_plain(cursor, &key, &value, data, flags);
    else if ((flags & MDB_CURRENT) != 0)
        rc = put_current_pair(cursor, &key, &value);
    else
        rc = put_pair(cursor, &key, &value, data, flags);
    txn->reserve = 0;
    return rc;
}

/* Is a batch strictly ascending, and does it begin behind the values that the key has? */
static int batch_check_append(MDB_cursor *cursor, const MDB_val *key, const unsigned char *values, size_t width,
    size_t count)
{
    const struct order *order = &cursor->dups->tree.order;
    MDB_val first = {width, (void *)(uintptr_t)values};
    struct entry entry;
    bool exact;
    size_t i;
    int rc;

    for (i = 1; i < count; i++) {
        MDB_val a = {width, (void *)(uintptr_t)(values + (i - 1) * width)};
        MDB_val b = {width, (void *)(uintptr_t)(values + i * width)};

        if (order->cmp(&a, &b) >= 0)
            return MDB_KEYEXIST;
    }
    rc = cursor_seek_set(cursor, key, &entry, &exact);
    if (rc == MDB_NOTFOUND || (rc == MDB_SUCCESS && !exact))
        return MDB_SUCCESS;
    return rc == MDB_SUCCESS ? dups_seek_append(cursor, &entry, &first) : rc;
}

/* MDB_MULTIPLE: data[0] has the width and address of the values, data[1].mv_size their number, and on return how many
 * have been dealt with. */
static int cursor_put_multiple(MDB_cursor *cursor, const MDB_val *key, MDB_val *data, unsigned flags)
{
    size_t width = data[0].mv_size;
    size_t count = data[1].mv_size;
    unsigned char *values;
    MDB_val value;
    size_t i;
    int rc;

    data[1].mv_size = 0;
    if (!cursor_is_fixed(cursor))
        return MDB_INCOMPATIBLE;
    if (count == 0)
        return MDB_SUCCESS;
    value = (MDB_val){width, data[0].mv_data};
    if ((rc = put_check(cursor, key, &value, flags)) != MDB_SUCCESS)
        return rc;
    if (count > SIZE_MAX / width)
        return MDB_BAD_VALSIZE;
    if ((values = malloc(width * count)) == NULL)
        return ENOMEM;
    memcpy(values, data[0].mv_data, width * count);
    if ((flags & MDB_APPENDDUP) != 0)
        rc = batch_check_append(cursor, key, values, width, count);
    for (i = 0; rc == MDB_SUCCESS && i < count; i++) {
        value = (MDB_val){width, values + i * width};
        rc = cursor_put(cursor, key, &value, flags);
        flags &= ~(unsigned)MDB_NOOVERWRITE;
        data[1].mv_size += rc == MDB_SUCCESS;
    }
    free(values);
    return rc;
}

#define PUT_FLAGS (MDB_NOOVERWRITE | MDB_NODUPDATA | MDB_RESERVE | MDB_APPEND | MDB_APPENDDUP)

int mdb_put(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data, unsigned int flags)
{
    struct tree *tree;
    MDB_cursor *cursor;
    int rc;

    if (key == NULL || data == NULL || (flags & ~(unsigned)PUT_FLAGS) != 0)
        return EINVAL;
    if ((rc = txn_check_write(txn)) != MDB_SUCCESS || (rc = txn_tree(txn, dbi, &tree)) != MDB_SUCCESS
        || (rc = txn_own_cursor(txn, dbi, &cursor)) != MDB_SUCCESS)
        return rc;
    return cursor_put(cursor, key, data, flags);
}

int mdb_cursor_put(MDB_cursor *cursor, MDB_val *key, MDB_val *data, unsigned int flags)
{
    int rc;

    if (cursor == NULL || cursor->magic != CURSOR_MAGIC || key == NULL || data == NULL
        || (flags & ~(unsigned)(PUT_FLAGS | MDB_CURRENT | MDB_MULTIPLE)) != 0)
        return EINVAL;
    if ((rc = txn_check_write(cursor->core.txn)) != MDB_SUCCESS || (rc = cursor_check(cursor)) != MDB_SUCCESS
        || (rc = dups_sync(cursor)) != MDB_SUCCESS)
        return rc;
    if ((flags & MDB_MULTIPLE) != 0)
        return cursor_put_multiple(cursor, key, data, flags & ~(unsigned)(MDB_MULTIPLE | MDB_CURRENT));
    return cursor_put(cursor, key, data, flags);
}

/* To the pair, or the key, that mdb_del names. */
static int del_seek(MDB_cursor *cursor, const MDB_val *key, const MDB_val *data)
{
    int rc = key_check(cursor->core.tree, key);

    if (rc != MDB_SUCCESS)
        return rc;
    if (data == NULL || !cursor_has_dups(cursor))
        return cursor_seek(cursor, key);
    return (rc = value_check(data)) == MDB_SUCCESS ? cursor_seek_both(cursor, key, data, false) : rc;
}

int mdb_del(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data)
{
    struct tree *tree;
    MDB_cursor *cursor;
    int rc;

    if (key == NULL)
        return EINVAL;
    if ((rc = txn_check_write(txn)) != MDB_SUCCESS || (rc = txn_tree(txn, dbi, &tree)) != MDB_SUCCESS
        || (rc = txn_own_cursor(txn, dbi, &cursor)) != MDB_SUCCESS)
        return rc;
    if ((rc = del_seek(cursor, key, data)) != MDB_SUCCESS || (rc = pages_limit(txn, NULL)) != MDB_SUCCESS)
        return rc;
    return cursor_delete(cursor, data == NULL);
}

int mdb_cursor_del(MDB_cursor *cursor, unsigned int flags)
{
    int rc;

    if (cursor == NULL || cursor->magic != CURSOR_MAGIC || (flags & ~(unsigned)MDB_NODUPDATA) != 0)
        return EINVAL;
    if ((rc = txn_check_write(cursor->core.txn)) != MDB_SUCCESS || (rc = cursor_check(cursor)) != MDB_SUCCESS
        || (rc = dups_sync(cursor)) != MDB_SUCCESS || (rc = cursor_settle(cursor)) != MDB_SUCCESS
        || (rc = pages_limit(cursor->core.txn, NULL)) != MDB_SUCCESS)
        return rc;
    return cursor_delete(cursor, (flags & MDB_NODUPDATA) != 0);
}

/* ==== 13. Free list and drop =========================================================================================
 * The tree of free pages: pulling its records when pages are needed, and writing it back at commit. Freeing whole trees.
 * Owns: env->writer.pulled_last, pull_ended, oldest.
 * Always: the free-list tree changes only in free_list_save, at the commit of a top-level transaction, and no record is
 *         pulled in the middle of such a change;
 *         a record of transaction T is pulled only if T < N - 1 and T is below every live reader's snapshot;
 *         what was pulled and not used goes back under ids up to the last one pulled, which are all free by then.
 * Uses: 6-12.
 */

/* ---- pulling ---- */

/* Records below the result may be pulled by this transaction. */
static txnid_t pull_limit(MDB_txn *txn, txnid_t id)
{
    struct writer *writer = &txn->env->writer;

    if (writer->oldest == 0 || id >= writer->oldest)
        writer->oldest = readers_oldest(txn->env, txn->id - 1);
    return writer->oldest;
}

/* Adds the page numbers of a record to the reclaimed ones, as runs. */
static int record_reclaim(MDB_txn *txn, const MDB_val *value)
{
    const unsigned char *bytes = value->mv_data;
    pgno_t previous = txn->next_pgno;
    size_t count;
    size_t i;

    if (value->mv_size < sizeof count)
        return txn_corrupted(txn);
    memcpy(&count, bytes, sizeof count);
    if (count > value->mv_size / sizeof(pgno_t) - 1)
        return txn_corrupted(txn);
    for (i = 0; i < count;) {
        size_t length = 0;
        pgno_t first = 0;
        int rc;

        do {
            pgno_t pgno;

            memcpy(&pgno, bytes + (i + 1) * sizeof pgno, sizeof pgno);
            if (length > 0 && pgno + 1 != first)
                break;
            if (pgno < META_PAGES || pgno >= previous)
                return txn_corrupted(txn);
            first = previous = pgno;
            length++;
            i++;
        } while (i < count);
        rc = page_runs_add(&txn->env->writer.reclaimed, first, length);
        if (rc != MDB_SUCCESS)
            return rc == EEXIST ? txn_corrupted(txn) : rc;
    }
    return MDB_SUCCESS;
}

/* The first free-list record with an id of at least `id`. */
static int free_record_find(MDB_txn *txn, txnid_t id, txnid_t *found, MDB_val *value)
{
    MDB_val key = {sizeof id, &id};
    struct core core;
    struct entry entry;
    bool exact;
    int rc;

    core_init(&core, txn, &txn->trees[FREE_DBI], NULL);
    rc = core_seek(&core, &key, &exact);
    if (rc == MDB_SUCCESS && !exact)
        rc = core_next(&core);
    if (rc != MDB_SUCCESS || (rc = core_entry(&core, &entry)) != MDB_SUCCESS)
        return rc == MDB_BAD_VALSIZE ? txn_corrupted(txn) : rc;
    if (entry.key.mv_size != sizeof *found)
        return txn_corrupted(txn);
    memcpy(found, entry.key.mv_data, sizeof *found);
    if (*found < id) /* out of order: who goes on from here might never come to an end */
        return txn_corrupted(txn);
    return entry_value(txn, &entry, value);
}

static int free_list_pull(MDB_txn *txn, bool *pulled)
{
    struct writer *writer = &txn->env->writer;
    txnid_t id;
    MDB_val value;
    int rc;

    *pulled = false;
    if (writer->pull_ended)
        return MDB_SUCCESS;
    rc = free_record_find(txn, writer->pulled_last + 1, &id, &value);
    if (rc == MDB_NOTFOUND || (rc == MDB_SUCCESS && id >= pull_limit(txn, id))) {
        writer->pull_ended = true;
        return MDB_SUCCESS;
    }
    if (rc != MDB_SUCCESS)
        return rc;
    if ((rc = record_reclaim(txn, &value)) != MDB_SUCCESS) {
        txn_fail_all(txn); /* a part of the record may be among the reclaimed pages, and come again */
        return rc;
    }
    writer->pulled_last = id;
    *pulled = true;
    return MDB_SUCCESS;
}

/* How many pages of records that could not be pulled yet the next transaction will be able to pull. */
static int free_list_pending(MDB_txn *txn, size_t *pages)
{
    txnid_t limit = readers_oldest(txn->env, txn->id);
    txnid_t id = txn->env->writer.pulled_last;
    MDB_val value;
    int rc;

    *pages = 0;
    while ((rc = free_record_find(txn, id + 1, &id, &value)) == MDB_SUCCESS && id < limit) {
        size_t count;

        if (value.mv_size < sizeof count)
            return txn_corrupted(txn);
        memcpy(&count, value.mv_data, sizeof count);
        *pages += count < txn->next_pgno ? count : 0;
    }
    return rc == MDB_NOTFOUND ? MDB_SUCCESS : rc;
}

/* ---- writing back ---- */

/* A record made before it is known what goes in: the commit's own changes to the tree use and free pages. */
struct free_slot {
    txnid_t id;
    size_t room; /* page numbers */
};

struct free_save {
    MDB_txn *txn;
    MDB_cursor *cursor;
    size_t freed_room;       /* of this transaction's own record; 0: there is none */
    struct free_slot *slots; /* records for what was pulled and not used, ids descending */
    size_t slot_count;
    size_t slots_room;
    txnid_t slot_id;         /* of the next slot; 0: none is left */
    txnid_t deleted_last;    /* pulled records up to this id have been deleted */
};

/* Enough attempts for any tree: each makes room for what the one before it used, which is a few pages per level. */
#define SAVE_PASSES_MAX 1000u

/* Before a change to the tree: have the pages it may need at hand, because none can be pulled during it. */
static int save_make_room(struct free_save *save)
{
    struct writer *writer = &save->txn->env->writer;
    size_t need = 2 * (size_t)save->txn->trees[FREE_DBI].record.depth + 4;
    bool pulled = true;
    int rc = MDB_SUCCESS;

    writer->saving = writer->pull_ended = false;
    while (rc == MDB_SUCCESS && pulled && page_runs_count(&writer->reclaimed) < need)
        rc = free_list_pull(save->txn, &pulled);
    writer->saving = writer->pull_ended = true;
    return rc;
}

/* Deletes the records that have been pulled. */
static int save_delete_pulled(struct free_save *save)
{
    struct writer *writer = &save->txn->env->writer;
    int rc;

    for (;;) {
        txnid_t id;
        MDB_val value;

        if ((rc = save_make_room(save)) != MDB_SUCCESS)
            return rc;
        rc = free_record_find(save->txn, save->deleted_last + 1, &id, &value);
        if (rc == MDB_NOTFOUND || (rc == MDB_SUCCESS && id > writer->pulled_last)) {
            save->deleted_last = writer->pulled_last;
            return MDB_SUCCESS;
        }
        if (rc != MDB_SUCCESS || (rc = cursor_seek(save->cursor, &(MDB_val){sizeof id, &id})) != MDB_SUCCESS
            || (rc = cursor_delete(save->cursor, true)) != MDB_SUCCESS)
            return rc;
        save->deleted_last = id;
    }
}

/* Gives back to the file's end what this transaction took from there and no longer needs. */
static int save_trim(MDB_txn *txn)
{
    struct page_runs *reclaimed = &txn->env->writer.reclaimed;
    pgno_t first;

    while (txn->next_pgno > txn->first_next_pgno
        && (first = page_runs_take_last(reclaimed, txn->next_pgno)) != PGNO_NONE) {
        txn->next_pgno = first > txn->first_next_pgno ? first : txn->first_next_pgno;
        if (first < txn->next_pgno)
            return page_runs_add(reclaimed, first, txn->next_pgno - first);
    }
    return MDB_SUCCESS;
}

/* Makes, or replaces, the record `id` with room for so many page numbers. */
static int save_reserve(struct free_save *save, txnid_t id, size_t room)
{
    MDB_val key = {sizeof id, &id};
    MDB_val value = {(room + 1) * sizeof(pgno_t), NULL};
    MDB_val place;
    int rc = save_make_room(save);

    return rc == MDB_SUCCESS ? put_plain(save->cursor, &key, &value, &place, MDB_RESERVE) : rc;
}

/* Page numbers in a record that fills one overflow page: small enough that a later transaction that needs a few pages
 * rewrites no more than that. */
static size_t save_chunk(const struct free_save *save, size_t left)
{
    size_t chunk = (txn_page_size(save->txn) - PAGE_HEADER) / sizeof(pgno_t) - 1;
    size_t ids = save->txn->env->writer.pulled_last;

    return left / ids < chunk ? chunk : left / ids + 1;
}

/* One more record for reclaimed pages. */
static int save_add_slot(struct free_save *save, size_t left)
{
    size_t missing = left - save->slots_room;
    size_t chunk = save_chunk(save, left);
    size_t room = missing + 8 < chunk ? missing + 8 : chunk;
    struct free_slot *slots;
    txnid_t id;

    if (save->slot_count == 0)
        save->slot_id = save->txn->env->writer.pulled_last;
    if ((id = save->slot_id) == 0) { /* all ids are taken: the lowest one gets more room */
        struct free_slot *last = &save->slots[save->slot_count - 1];

        last->room += missing + 8;
        save->slots_room += missing + 8;
        return save_reserve(save, last->id, last->room);
    }
    slots = realloc(save->slots, (save->slot_count + 1) * sizeof *slots);
    if (slots == NULL)
        return ENOMEM;
    save->slots = slots;
    slots[save->slot_count++] = (struct free_slot){id, room};
    save->slots_room += room;
    save->slot_id--;
    return save_reserve(save, id, room);
}

/* One step towards records with room for all that is free. *done: nothing is missing. */
static int save_pass(struct free_save *save, bool *done)
{
    MDB_txn *txn = save->txn;
    struct writer *writer = &txn->env->writer;
    size_t left;
    int rc;

    *done = false;
    if ((rc = save_delete_pulled(save)) != MDB_SUCCESS || (rc = save_trim(txn)) != MDB_SUCCESS)
        return rc;
    left = page_runs_count(&writer->reclaimed);
    if (left > 0 && writer->pulled_last == 0) { /* no id but our own */
        if ((rc = page_runs_list(&writer->reclaimed, &txn->freed)) != MDB_SUCCESS)
            return rc;
        page_runs_clear(&writer->reclaimed);
        left = 0;
    }
    if (txn->freed.count > save->freed_room) {
        save->freed_room = txn->freed.count + txn->freed.count / 64 + 8;
        return save_reserve(save, txn->id, save->freed_room);
    }
    if (left > save->slots_room)
        return save_add_slot(save, left);
    *done = true;
    return MDB_SUCCESS;
}

/* The value of a record that was made by this transaction. It is found where it was put unless the tree is out of
 * order. */
static int save_find(struct free_save *save, txnid_t id, size_t room, unsigned char **bytes)
{
    MDB_txn *txn = save->txn;
    struct core *core = &save->cursor->core;
    MDB_val key = {sizeof id, &id};
    struct entry entry;
    const void *place;
    bool exact;
    int rc = core_seek(core, &key, &exact);

    if (rc != MDB_SUCCESS || !exact)
        return rc == MDB_SUCCESS || rc == MDB_NOTFOUND || rc == MDB_BAD_VALSIZE ? txn_corrupted(txn) : rc;
    if ((rc = core_entry(core, &entry)) != MDB_SUCCESS)
        return rc;
    place = page_table_find(&txn->dirty, (entry.flags & N_BIGDATA) != 0 ? entry.pgno : core_leaf(core)->page->pgno);
    if (place == NULL || place == SPILLED || entry.data.mv_size != (room + 1) * sizeof(pgno_t))
        return txn_corrupted(txn);
    *bytes = plain_value(core);
    return MDB_SUCCESS;
}

/* Writes page numbers, descending, into a record that was made for them. */
static int save_fill(struct free_save *save, txnid_t id, size_t room, const pgno_t *pages, size_t count)
{
    unsigned char *bytes;
    int rc = save_find(save, id, room, &bytes);

    if (rc != MDB_SUCCESS)
        return rc;
    memcpy(bytes, &count, sizeof count);
    if (count > 0)
        memcpy(bytes + sizeof count, pages, count * sizeof *pages);
    memset(bytes + sizeof count + count * sizeof *pages, 0, (room - count) * sizeof *pages);
    return MDB_SUCCESS;
}

static int save_fill_all(struct free_save *save)
{
    MDB_txn *txn = save->txn;
    struct page_list left = {0};
    size_t offset = 0;
    size_t i;
    int rc;

    page_list_sort(&txn->freed);
    if (!page_list_is_strict(&txn->freed)) /* a page was reached by two ways */
        return txn_corrupted(txn);
    if (save->freed_room > 0
        && (rc = save_fill(save, txn->id, save->freed_room, txn->freed.ids, txn->freed.count)) != MDB_SUCCESS)
        return rc;
    rc = page_runs_list(&txn->env->writer.reclaimed, &left);
    for (i = 0; rc == MDB_SUCCESS && i < save->slot_count; i++) {
        const struct free_slot *slot = &save->slots[i];
        size_t count = left.count - offset < slot->room ? left.count - offset : slot->room;
        const pgno_t *pages = count > 0 ? left.ids + offset : NULL;

        rc = save_fill(save, slot->id, slot->room, pages, count);
        offset += count;
    }
    assert(rc != MDB_SUCCESS || offset == left.count);
    page_list_free(&left);
    return rc;
}

/* Brings the free-list tree up to date with what this transaction pulled, used and freed. */
static int free_list_save(MDB_txn *txn)
{
    struct free_save save = {.txn = txn};
    bool done = false;
    unsigned pass;
    int rc = txn_own_cursor(txn, FREE_DBI, &save.cursor);

    txn->reserve = 0;
    for (pass = 0; rc == MDB_SUCCESS && !done; pass++)
        rc = pass < SAVE_PASSES_MAX + txn->env->writer.pulled_last ? save_pass(&save, &done) : MDB_PROBLEM;
    if (rc == MDB_SUCCESS)
        rc = save_fill_all(&save);
    free(save.slots);
    return rc == MDB_SUCCESS ? rc : txn_fail(txn, rc);
}

/* ---- freeing whole trees ---- */

/* What a tree's leaves refer to, and so whether they have to be read before they are freed. */
struct tree_drop {
    MDB_txn *txn;
    unsigned leaf_kind;
    unsigned dup_kind; /* page flags of the leaves of trees of duplicates */
    bool has_values;   /* leaves refer to overflow runs, trees of duplicates or named databases */
    bool is_main;      /* only its leaves may refer to named databases: this bounds the recursion */
    size_t pages_left; /* a sound tree has no more than this */
};

static int tree_drop_record(MDB_txn *txn, const struct db_record *record);

static int drop_value(struct tree_drop *drop, const struct entry *entry)
{
    struct db_record record;
    struct page *run;
    int rc;

    if ((entry->flags & N_BIGDATA) != 0) {
        rc = run_get(drop->txn, entry->pgno, entry->data.mv_size, &run);
        return rc == MDB_SUCCESS ? pages_free(drop->txn, entry->pgno, run->run_pages) : rc;
    }
    if ((entry->flags & N_SUBDATA) == 0)
        return MDB_SUCCESS;
    memcpy(&record, entry->data.mv_data, sizeof record);
    if ((entry->flags & N_DUPDATA) != 0)
        return tree_pages_free(drop->txn, &record, drop->dup_kind);
    return drop->is_main ? tree_drop_record(drop->txn, &record) : txn_corrupted(drop->txn);
}

static int drop_children(struct tree_drop *drop, pgno_t pgno, unsigned height);

/* Frees what stands below page `pgno`, and the page. */
static int drop_page(struct tree_drop *drop, pgno_t pgno, unsigned height)
{
    int rc;

    if (drop->pages_left == 0 || pgno < META_PAGES || pgno >= drop->txn->next_pgno)
        return txn_corrupted(drop->txn);
    drop->pages_left--;
    if ((height > 1 || drop->has_values) && (rc = drop_children(drop, pgno, height)) != MDB_SUCCESS)
        return rc;
    return pages_free(drop->txn, pgno, 1);
}

static int drop_children(struct tree_drop *drop, pgno_t pgno, unsigned height)
{
    size_t page_size = txn_page_size(drop->txn);
    const void *own = page_table_find(&drop->txn->dirty, pgno);
    struct page *page;
    unsigned i;
    int rc = page_get(drop->txn, pgno, height > 1 ? P_BRANCH : drop->leaf_kind, &page);

    for (i = 0; rc == MDB_SUCCESS && i < page_count(page); i++) {
        struct entry entry;

        if (page_entry(page, page_size, i, &entry) != MDB_SUCCESS)
            return txn_corrupted(drop->txn);
        rc = height > 1 ? drop_page(drop, entry.pgno, height - 1) : drop_value(drop, &entry);
        if (rc == MDB_SUCCESS && page_table_find(&drop->txn->dirty, pgno) != own) /* freed: it stands below itself */
            rc = txn_corrupted(drop->txn);
    }
    return rc;
}

static int drop_tree(struct tree_drop *drop, const struct db_record *record)
{
    if (record->root == PGNO_NONE)
        return MDB_SUCCESS;
    if (record->depth == 0 || record->depth > DEPTH_MAX)
        return txn_corrupted(drop->txn);
    return drop_page(drop, record->root, record->depth);
}

static int tree_pages_free(MDB_txn *txn, const struct db_record *record, unsigned kind)
{
    struct tree_drop drop = {.txn = txn, .leaf_kind = kind, .pages_left = txn->next_pgno};

    return drop_tree(&drop, record);
}

/* Frees all pages of a database. */
static int tree_drop_record(MDB_txn *txn, const struct db_record *record)
{
    struct tree_drop drop = {.txn = txn,
        .leaf_kind = P_LEAF,
        .dup_kind = (record->flags & DB_DUPFIXED) != 0 ? P_LEAF | P_LEAF2 : P_LEAF,
        .has_values = record->overflow_pages > 0 || (record->flags & DB_DUPSORT) != 0,
        .pages_left = txn->next_pgno};

    return drop_tree(&drop, record);
}

/* Frees all pages of the main database and of the named ones in it. */
static int tree_drop_main(MDB_txn *txn)
{
    const struct db_record *record = &txn->trees[MAIN_DBI].record;
    struct tree_drop drop = {.txn = txn,
        .leaf_kind = P_LEAF,
        .dup_kind = (record->flags & DB_DUPFIXED) != 0 ? P_LEAF | P_LEAF2 : P_LEAF,
        .has_values = true,
        .is_main = true,
        .pages_left = txn->next_pgno};

    return drop_tree(&drop, record);
}

/* ==== 14. Transactions ===============================================================================================
 * Begin, commit, abort, reset and renew; nested transactions; the order in which a commit reaches the disk.
 * Owns: the transaction objects, the shadows of cursors in nested transactions (cursor->saved).
 * Always: env->writer.txn is the innermost live write transaction, and this process holds the writer lock while it is set;
 *         a handle is freed by commit and abort, whatever they return.
 * Uses: 3, 4, 6, 10, 13.
 */

/* ---- objects ---- */

static size_t align_up(size_t size)
{
    return (size + 15) & ~(size_t)15;
}

/* A transaction object with its arrays, one per database handle, behind it. Only a writer has lists of cursors. */
static MDB_txn *txn_make(MDB_env *env, bool writer)
{
    size_t handles = env->max_dbs;
    size_t trees_at = align_up(sizeof(MDB_txn));
    size_t sequence_at = trees_at + align_up(handles * sizeof(struct tree));
    size_t state_at = sequence_at + align_up(handles * sizeof(unsigned));
    size_t cursors_at = state_at + align_up(handles);
    size_t cursors_size = writer ? handles * sizeof(MDB_cursor *) : 0;
    unsigned char *memory = malloc(cursors_at + 2 * cursors_size);
    MDB_txn *txn = (MDB_txn *)(void *)memory;

    if (txn == NULL)
        return NULL;
    memset(txn, 0, sizeof *txn);
    txn->env = env;
    txn->page_shift = env->page_shift;
    txn->known_id = TXNID_NONE;
    txn->trees = (struct tree *)(void *)(memory + trees_at);
    txn->handle_sequence = (unsigned *)(void *)(memory + sequence_at);
    txn->handle_state = memory + state_at;
    if (writer) {
        txn->cursors = (MDB_cursor **)(void *)(memory + cursors_at);
        txn->own_cursors = txn->cursors + handles;
        memset(txn->cursors, 0, 2 * cursors_size);
    }
    return txn;
}

static void txn_free(MDB_txn *txn)
{
    txn->magic = 0;
    free(txn);
}

/* A read transaction object: the one kept from before, or a new one. */
static MDB_txn *reader_txn_make(MDB_env *env)
{
    /* acquire, release: the object's contents go from one thread to another. */
    MDB_txn *txn = atomic_exchange_explicit(&env->spare_txn, NULL, memory_order_acquire);

    return txn != NULL ? txn : txn_make(env, false);
}

/* Keeps the object, with its map and what it knows of its snapshot, for the next reader. */
static void reader_txn_free(MDB_txn *txn)
{
    txn->magic = 0;
    txn = atomic_exchange_explicit(&txn->env->spare_txn, txn, memory_order_acq_rel);
    if (txn != NULL && txn->map != NULL)
        map_release(txn->map);
    free(txn);
}

/* ---- handles opened in a transaction ---- */

/* Trees that transactions keep from one snapshot to the next may not fit their handles any more. release: pairs with
 * txn_handles_begin, which reads the handles after it has read their generation. */
static void handles_note_change(MDB_env *env)
{
    atomic_fetch_add_explicit(&env->handles_generation, 1, memory_order_release);
}

/* Forgets a handle: it can be given to another database. The caller has env->handles_mutex. */
static void handle_clear(MDB_env *env, struct handle *handle)
{
    free(handle->name);
    handle->name = NULL;
    handle->key_cmp = NULL;
    handle->dup_cmp = NULL;
    handle->opener = NULL;
    handle->used = false;
    handle->sequence++;
    handles_note_change(env);
}

/* What the transaction opened stays open if it committed, what it dropped is closed then. A nested one leaves both to
 * its parent. */
static void changed_handles_end(MDB_txn *txn, bool committed)
{
    MDB_env *env = txn->env;
    unsigned closing = committed ? HANDLE_DROPPED : HANDLE_NEW;
    MDB_dbi dbi;

    if (committed && txn->parent != NULL)
        txn->parent->handles_changed = true;
    for (dbi = CORE_DBS; dbi < env->max_dbs; dbi++) {
        struct handle *handle = &env->handles[dbi];
        unsigned state = txn->handle_state[dbi];

        if ((state & (HANDLE_NEW | HANDLE_DROPPED)) == 0 || txn->handle_sequence[dbi] != handle->sequence)
            continue;
        os_mutex_lock(&env->handles_mutex);
        if (committed && handle->opener == txn)
            handle->opener = txn->parent;
        if ((state & closing) != 0 && !(committed && txn->parent != NULL))
            handle_clear(env, handle);
        os_mutex_unlock(&env->handles_mutex);
    }
}

static inline void txn_handles_end(MDB_txn *txn, bool committed)
{
    if (unlikely(txn->handles_changed))
        changed_handles_end(txn, committed);
}

/* ---- begin ---- */

/* Of all databases only the core ones, whose records the transaction has, are loaded. */
static void txn_handles_begin(MDB_txn *txn)
{
    const struct handle *handles = txn->env->handles;
    MDB_dbi dbi;

    txn->known_handles = atomic_load_explicit(&txn->env->handles_generation, memory_order_acquire);
    memset(txn->handle_state, 0, txn->env->max_dbs);
    for (dbi = 0; dbi < CORE_DBS; dbi++) {
        struct db_record record = txn->trees[dbi].record;

        tree_init(&txn->trees[dbi], &record, &handles[dbi]);
        txn->handle_state[dbi] = HANDLE_LOADED;
        txn->handle_sequence[dbi] = handles[dbi].sequence;
    }
}

/* Takes over what a meta page says. */
static void txn_from_meta(MDB_txn *txn, const struct meta *meta)
{
    size_t file_pages = atomic_load_explicit(&txn->env->file_pages, memory_order_relaxed);
    MDB_dbi dbi;

    for (dbi = 0; dbi < CORE_DBS; dbi++)
        txn->trees[dbi].record = meta->dbs[dbi];
    txn_handles_begin(txn);
    txn->mapsize = meta->mapsize;
    txn->next_pgno = meta->last_pgno + 1;
    txn->pages_safe = file_pages < txn->next_pgno ? file_pages : txn->next_pgno;
}

static void txn_drop_map(MDB_txn *txn)
{
    if (txn->map != NULL)
        map_release(txn->map);
    txn->map = NULL;
}

/* Takes the current map; MDB_MAP_RESIZED if another process has grown the data beyond it. */
static __attribute__((noinline)) int txn_change_map(MDB_txn *txn)
{
    txn_drop_map(txn);
    txn->map = env_map_take(txn->env);
    txn->base = txn->map->base;
    if (txn->next_pgno <= txn_map_pages(txn))
        return MDB_SUCCESS;
    txn_drop_map(txn);
    return MDB_MAP_RESIZED;
}

/* The same, unless the transaction has it from before. */
static inline int txn_take_map(MDB_txn *txn)
{
    /* relaxed: compared with what we hold, not followed. */
    if (likely(txn->map != NULL && txn->map == atomic_load_explicit(&txn->env->map, memory_order_relaxed)
            && txn->next_pgno <= txn_map_pages(txn)))
        return MDB_SUCCESS;
    return txn_change_map(txn);
}

/* Has nothing been committed, and no handle been changed, since the transaction object was used last? Then what it
 * knows still holds, the trees of the databases that were used in it included. */
static bool reader_is_up_to_date(const MDB_txn *txn)
{
    /* relaxed: compared with what we know. */
    return txn->id == txn->known_id
        && txn->known_handles == atomic_load_explicit(&txn->env->handles_generation, memory_order_relaxed);
}

/* Learns what the snapshot is. */
static __attribute__((noinline)) int reader_update(MDB_txn *txn)
{
    struct meta meta;
    int rc = meta_of(txn->env, txn->id, &meta);

    if (rc == MDB_SUCCESS) {
        txn->known_id = txn->id = meta.txnid;
        txn_from_meta(txn, &meta);
    }
    return rc;
}

/* Begins reading: the slot is the transaction's already. */
static inline int reader_begin(MDB_txn *txn)
{
    int rc = MDB_SUCCESS;

    reader_set(txn->env, txn->slot, &txn->id);
    if (unlikely(!reader_is_up_to_date(txn)))
        rc = reader_update(txn);
    if (likely(rc == MDB_SUCCESS))
        rc = txn_take_map(txn);
    if (unlikely(rc != MDB_SUCCESS)) {
        reader_idle(txn->slot);
        return rc;
    }
    txn->flags = MDB_RDONLY;
    txn->handles_changed = false;
    txn->magic = TXN_MAGIC;
    return MDB_SUCCESS;
}

/* `own_slot`: the slot is the transaction's and goes with it; else it is the thread's. */
static int txn_begin_read(MDB_env *env, bool own_slot, MDB_txn **out)
{
    MDB_txn *txn = reader_txn_make(env);
    int rc;

    if (txn == NULL)
        return ENOMEM;
    txn->own_slot = own_slot;
    rc = reader_get(env, own_slot, &txn->slot);
    if (rc == MDB_SUCCESS && (rc = reader_begin(txn)) != MDB_SUCCESS && own_slot)
        reader_release(env, txn->slot);
    if (rc != MDB_SUCCESS) {
        reader_txn_free(txn);
        return rc;
    }
    *out = txn;
    return MDB_SUCCESS;
}

/* Clears what the last write transaction left in the shared writer state. */
static int writer_start(MDB_txn *txn)
{
    struct writer *writer = &txn->env->writer;

    if (writer->scratch == NULL && (writer->scratch = malloc(SCRATCH_PAGES * txn_page_size(txn))) == NULL)
        return ENOMEM;
    page_runs_clear(&writer->reclaimed);
    writer->pulled_last = 0;
    writer->pull_ended = writer->saving = false;
    writer->oldest = 0;
    writer->dirty_bytes = 0;
    writer->spill_at = MDB_DIRTY_BYTES_MAX;
    writer->txn = txn;
    return MDB_SUCCESS;
}

static int txn_begin_write(MDB_env *env, unsigned flags, MDB_txn **out)
{
    struct meta meta;
    MDB_txn *txn;
    int rc = writer_lock(env, true);

    if (rc != MDB_SUCCESS)
        return rc;
    if ((txn = txn_make(env, true)) == NULL) {
        rc = ENOMEM;
        goto failed;
    }
    if ((rc = meta_current(env, &meta)) != MDB_SUCCESS)
        goto failed;
    txn->id = meta.txnid + 1;
    txn_from_meta(txn, &meta);
    txn->first_next_pgno = txn->next_pgno;
    if ((rc = txn_take_map(txn)) != MDB_SUCCESS)
        goto failed;
    if ((rc = writer_start(txn)) != MDB_SUCCESS) {
        map_release(txn->map);
        goto failed;
    }
    txn->flags = flags;
    txn->magic = TXN_MAGIC;
    *out = txn;
    return MDB_SUCCESS;
failed:
    if (txn != NULL)
        txn_free(txn);
    writer_unlock(env);
    return rc;
}

/* ---- cursors of nested transactions ---- */

/* A copy of a cursor as it is, with its duplicates. */
static MDB_cursor *cursor_snapshot(const MDB_cursor *cursor)
{
    size_t size = sizeof *cursor + (cursor->dups != NULL ? sizeof *cursor->dups : 0);
    MDB_cursor *copy = malloc(size);

    if (copy != NULL)
        memcpy(copy, cursor, size);
    return copy;
}

/* Puts a cursor back to what it was. */
static void cursor_restore(MDB_cursor *cursor)
{
    MDB_cursor *saved = cursor->saved;

    memcpy(cursor, saved, sizeof *cursor + (cursor->dups != NULL ? sizeof *cursor->dups : 0));
    free(saved);
}

/* The transaction that a cursor works in changes to the child, or back to the parent. */
static void cursor_move_to(MDB_cursor *cursor, MDB_txn *txn)
{
    cursor->core.txn = txn;
    cursor->core.tree = &txn->trees[cursor->dbi];
    if (cursor->dups != NULL)
        cursor->dups->core.txn = txn;
}

/* Takes back cursors that were lent to a child that did not begin after all. */
static void cursors_unlend(MDB_txn *parent, const MDB_txn *child)
{
    MDB_dbi dbi;

    for (dbi = 0; dbi < parent->env->max_dbs; dbi++) {
        MDB_cursor *cursor;

        for (cursor = parent->cursors[dbi]; cursor != NULL; cursor = cursor->next) {
            if (cursor->core.txn == child)
                cursor_restore(cursor);
        }
    }
}

/* Lends the parent's cursors to the child, which moves them along with its changes. */
static int cursors_lend(MDB_txn *parent, MDB_txn *child)
{
    MDB_dbi dbi;

    for (dbi = 0; dbi < parent->env->max_dbs; dbi++) {
        MDB_cursor *cursor;

        for (cursor = parent->cursors[dbi]; cursor != NULL; cursor = cursor->next) {
            MDB_cursor *saved = cursor_snapshot(cursor);

            if (saved == NULL) {
                cursors_unlend(parent, child);
                return ENOMEM;
            }
            cursor->saved = saved;
            cursor_move_to(cursor, child);
        }
        child->cursors[dbi] = parent->cursors[dbi];
        child->own_cursors[dbi] = parent->own_cursors[dbi];
    }
    return MDB_SUCCESS;
}

/* Ends the child's use of cursors: its own are closed; the parent's stay where the child moved them, or go back. */
static void cursors_return(MDB_txn *child, bool committed)
{
    MDB_txn *parent = child->parent;
    MDB_dbi dbi;

    for (dbi = 0; dbi < child->env->max_dbs; dbi++) {
        MDB_cursor *cursor = child->cursors[dbi];

        while (cursor != NULL) {
            MDB_cursor *next = cursor->next;

            if (cursor->saved == NULL) {
                cursor_free(cursor);
            } else if (!committed) {
                cursor_restore(cursor);
            } else {
                MDB_cursor *saved = cursor->saved;

                cursor->saved = saved->saved;
                free(saved);
                cursor_move_to(cursor, parent);
            }
            cursor = next;
        }
    }
}

/* ---- nested begin ---- */

static int txn_begin_nested(MDB_txn *parent, unsigned flags, MDB_txn **out)
{
    MDB_env *env = parent->env;
    MDB_txn *txn;
    MDB_dbi dbi;
    int rc;

    if ((txn = txn_make(env, true)) == NULL)
        return ENOMEM;
    txn->parent = parent;
    txn->map = parent->map;
    txn->base = parent->base;
    txn->id = parent->id;
    txn->next_pgno = parent->next_pgno;
    txn->pages_safe = parent->pages_safe;
    txn->first_next_pgno = parent->first_next_pgno;
    txn->flags = flags | (parent->flags & (MDB_NOSYNC | MDB_NOMETASYNC | TXN_DIRTY));
    for (dbi = 0; dbi < env->max_dbs; dbi++) {
        txn->handle_state[dbi] = parent->handle_state[dbi] & (unsigned char)~HANDLE_NEW;
        txn->handle_sequence[dbi] = parent->handle_sequence[dbi];
        if ((txn->handle_state[dbi] & HANDLE_LOADED) != 0)
            txn->trees[dbi] = parent->trees[dbi];
    }
    if ((rc = cursors_lend(parent, txn)) != MDB_SUCCESS) {
        txn_free(txn);
        return rc;
    }
    txn->magic = TXN_MAGIC;
    parent->child = txn;
    env->writer.txn = txn;
    *out = txn;
    return MDB_SUCCESS;
}

int mdb_txn_begin(MDB_env *env, MDB_txn *parent, unsigned int flags, MDB_txn **out)
{
    int rc = env_usable(env);

    if (rc != MDB_SUCCESS)
        return rc;
    if (out == NULL || (flags & ~(unsigned)(MDB_RDONLY | MDB_NOSYNC | MDB_NOMETASYNC)) != 0)
        return EINVAL;
    if (parent != NULL) {
        if (!txn_alive(parent) || parent->env != env || !txn_is_writer(parent))
            return EINVAL;
        if ((parent->flags & TXN_FAILED) != 0 || parent->child != NULL || (flags & MDB_RDONLY) != 0)
            return MDB_BAD_TXN;
        return txn_begin_nested(parent, flags, out);
    }
    if ((flags & MDB_RDONLY) != 0)
        return txn_begin_read(env, (env->flags & MDB_NOTLS) != 0, out);
    return (env->flags & MDB_RDONLY) != 0 ? EACCES : txn_begin_write(env, flags, out);
}

/* ---- ending readers ---- */

static inline void reader_end(MDB_txn *txn, bool keep_handles)
{
    MDB_env *env = txn->env;

    if ((txn->flags & TXN_FINISHED) == 0) {
        txn_handles_end(txn, keep_handles);
        if ((env->flags & MDB_FIXEDMAP) != 0) /* a new map would have to take this one's place */
            txn_drop_map(txn);
        if (env->fork_generation == os_fork_generation())
            reader_idle(txn->slot);
        txn->flags |= TXN_FINISHED;
    }
}

static void reader_close(MDB_txn *txn, bool keep_handles)
{
    MDB_env *env = txn->env;

    reader_end(txn, keep_handles);
    if (txn->own_slot)
        reader_release(env, txn->slot);
    reader_txn_free(txn);
}

void mdb_txn_reset(MDB_txn *txn)
{
    if (txn != NULL && txn->magic == TXN_MAGIC && !txn_is_writer(txn))
        reader_end(txn, false);
}

int mdb_txn_renew(MDB_txn *txn)
{
    int rc;

    if (txn == NULL || txn->magic != TXN_MAGIC || txn_is_writer(txn) || (txn->flags & TXN_FINISHED) == 0)
        return EINVAL;
    if ((rc = env_usable(txn->env)) != MDB_SUCCESS)
        return rc;
    if (!txn->own_slot && txn->slot != NULL && unlikely(!slot_is_threads(txn->env, txn->slot))) {
        /* The thread has another transaction by now, or it is another thread. */
        if ((rc = reader_get(txn->env, false, &txn->slot)) != MDB_SUCCESS)
            return rc;
    }
    rc = reader_begin(txn);
    if (rc != MDB_SUCCESS)
        txn->flags = MDB_RDONLY | TXN_FINISHED;
    return rc;
}

/* ---- ending writers ---- */

/* Gives back the memory of all dirty pages of one level. */
static void dirty_release(MDB_txn *txn)
{
    size_t iterator = 0;
    pgno_t pgno;
    void *page;

    while (page_table_next(&txn->dirty, &iterator, &pgno, &page)) {
        if (page != SPILLED)
            dirty_memory_give(txn, page);
    }
    iterator = 0;
    while (page_table_next(&txn->saved, &iterator, &pgno, &page))
        page_memory_give(&txn->env->writer, page);
}

/* Frees a writer's own memory, which all ends have in common. */
static void writer_txn_free(MDB_txn *txn)
{
    page_table_free(&txn->dirty);
    page_table_free(&txn->saved);
    page_list_free(&txn->freed);
    page_list_free(&txn->freed_dirty);
    txn_free(txn);
}

/* Ends a top-level write transaction; its changes are in the file, or are forgotten. */
static void writer_end(MDB_txn *txn, bool committed)
{
    MDB_env *env = txn->env;
    MDB_dbi dbi;

    for (dbi = 0; dbi < env->max_dbs; dbi++) {
        MDB_cursor *cursor = txn->cursors[dbi];

        while (cursor != NULL) {
            MDB_cursor *next = cursor->next;

            cursor_free(cursor);
            cursor = next;
        }
    }
    txn_handles_end(txn, committed);
    dirty_release(txn);
    slabs_trim(&env->writer, txn_page_size(txn));
    map_release(txn->map);
    env->writer.txn = NULL;
    writer_txn_free(txn);
    if (env->fork_generation == os_fork_generation())
        writer_unlock(env);
}

/* Takes back what a nested transaction did to pages: numbers it took are free again, changed pages in the map as
 * before. */
static void nested_undo_pages(MDB_txn *txn)
{
    struct writer *writer = &txn->env->writer;
    size_t iterator = 0;
    pgno_t pgno;
    void *page;

    while (page_table_next(&txn->saved, &iterator, &pgno, &page))
        memcpy(map_page(txn, pgno), page, txn_page_size(txn));
    iterator = 0;
    while (page_table_next(&txn->dirty, &iterator, &pgno, &page)) {
        const struct page *content = page == SPILLED ? map_page(txn, pgno) : page;

        /* Without memory to note that they are free they would be lost to the file: then the parent can only abort. */
        if (!ancestor_holds(txn, pgno)
            && page_runs_add(&writer->reclaimed, pgno, page_run_length(content)) != MDB_SUCCESS)
            txn->parent->flags |= TXN_FAILED;
    }
}

static void nested_abort(MDB_txn *txn)
{
    MDB_txn *parent = txn->parent;

    nested_undo_pages(txn);
    cursors_return(txn, false);
    txn_handles_end(txn, false);
    dirty_release(txn);
    parent->next_pgno = txn->next_pgno;
    parent->child = NULL;
    txn->env->writer.txn = parent;
    writer_txn_free(txn);
}

static void txn_abort(MDB_txn *txn)
{
    if (!txn_is_writer(txn)) {
        reader_close(txn, false);
        return;
    }
    if (txn->child != NULL)
        txn_abort(txn->child);
    if (txn->parent != NULL)
        nested_abort(txn);
    else
        writer_end(txn, false);
}

void mdb_txn_abort(MDB_txn *txn)
{
    if (txn != NULL && txn->magic == TXN_MAGIC)
        txn_abort(txn);
}

/* ---- nested commit ---- */

/* Hands one dirty page over to the parent, in the place of the parent's own version of it. */
static void nested_give_page(MDB_txn *parent, pgno_t pgno, void *page)
{
    void *older = page_table_find(&parent->dirty, pgno);

    if (older == NULL) {
        page_table_insert(&parent->dirty, pgno, page); /* cannot fail: room was reserved */
        return;
    }
    if (older != SPILLED && older != page)
        dirty_memory_give(parent, older);
    page_table_set(&parent->dirty, pgno, page);
}

/* Hands over the copy that restores a page changed in place: the parent needs it if it is nested itself, the page is
 * one of its ancestors', and it had not changed the page before. */
static void nested_give_saved(MDB_txn *parent, pgno_t pgno, void *copy)
{
    if (ancestor_holds(parent, pgno) && page_table_find(&parent->saved, pgno) == NULL)
        page_table_insert(&parent->saved, pgno, copy); /* cannot fail: room was reserved */
    else
        page_memory_give(&parent->env->writer, copy);
}

/* Pages that the child freed while an ancestor held them: the parent's own become free, others go on waiting. */
static int nested_give_freed(MDB_txn *parent, const struct page_list *freed_dirty)
{
    size_t i;
    int rc = MDB_SUCCESS;

    for (i = 0; i < freed_dirty->count && rc == MDB_SUCCESS; i++) {
        pgno_t pgno = freed_dirty->ids[i];
        const struct page *page = dirty_page(parent, pgno);

        rc = page != NULL ? pages_free(parent, pgno, page_run_length(page)) : MDB_CORRUPTED; /* freed twice */
    }
    return rc;
}

static bool core_stands_on_older(const MDB_txn *txn, const struct core *core)
{
    unsigned level;

    for (level = 0; core->position != POS_NONE && level < core->depth; level++) {
        const struct page *page = core->path[level].page;
        const void *own = page_table_find(&txn->dirty, page->pgno);

        if (own != NULL && own != page && page_table_find(&txn->parent->dirty, page->pgno) == page)
            return true;
    }
    return false;
}

/* Does a cursor stand on an ancestor's page of which the transaction has a newer copy? All that went through its tree
 * were moved to the copy: so the page is part of another tree too. */
static bool cursors_stand_on_older(const MDB_txn *txn)
{
    MDB_dbi dbi;

    for (dbi = 0; dbi < txn->env->max_dbs; dbi++) {
        const MDB_cursor *cursor;

        for (cursor = txn->cursors[dbi]; cursor != NULL; cursor = cursor->next)
            if (core_stands_on_older(txn, &cursor->core)
                || (dups_in_tree(cursor) && core_stands_on_older(txn, &cursor->dups->core)))
                return true;
    }
    return false;
}

static int nested_commit(MDB_txn *txn)
{
    MDB_txn *parent = txn->parent;
    MDB_env *env = txn->env;
    size_t iterator = 0;
    pgno_t pgno;
    void *page;
    MDB_dbi dbi;
    int rc;

    if (cursors_stand_on_older(txn)) {
        nested_abort(txn);
        return MDB_CORRUPTED;
    }
    if ((rc = page_table_reserve(&parent->dirty, txn->dirty.count)) != MDB_SUCCESS
        || (rc = page_table_reserve(&parent->saved, txn->saved.count)) != MDB_SUCCESS
        || (rc = page_list_append(&parent->freed, &txn->freed)) != MDB_SUCCESS) {
        nested_abort(txn);
        return rc;
    }
    parent->child = NULL;
    env->writer.txn = parent;
    parent->next_pgno = txn->next_pgno;
    parent->pages_safe = txn->pages_safe;
    while (page_table_next(&txn->dirty, &iterator, &pgno, &page))
        nested_give_page(parent, pgno, page);
    iterator = 0;
    while (page_table_next(&txn->saved, &iterator, &pgno, &page))
        nested_give_saved(parent, pgno, page);
    rc = nested_give_freed(parent, &txn->freed_dirty);
    for (dbi = 0; dbi < env->max_dbs; dbi++) {
        if ((txn->handle_state[dbi] & HANDLE_LOADED) != 0)
            parent->trees[dbi] = txn->trees[dbi];
        parent->handle_state[dbi] = txn->handle_state[dbi] | (parent->handle_state[dbi] & HANDLE_NEW);
        parent->handle_sequence[dbi] = txn->handle_sequence[dbi];
    }
    parent->flags |= txn->flags & TXN_DIRTY;
    cursors_return(txn, true);
    txn_handles_end(txn, true);
    writer_txn_free(txn);
    return rc == MDB_SUCCESS ? rc : txn_fail(parent, rc);
}

/* ---- commit ---- */

/* Writes the records of changed named databases into the main one. */
static int commit_records(MDB_txn *txn)
{
    MDB_cursor *cursor;
    MDB_dbi dbi;
    int rc = MDB_SUCCESS;

    for (dbi = CORE_DBS; rc == MDB_SUCCESS && dbi < txn->env->max_dbs; dbi++) {
        const struct handle *handle = &txn->env->handles[dbi];
        MDB_val key = {handle->name_size, handle->name};
        struct entry entry;
        bool exact;

        if ((txn->handle_state[dbi] & (HANDLE_DIRTY | HANDLE_LOADED)) != (HANDLE_DIRTY | HANDLE_LOADED))
            continue;
        if (txn->handle_sequence[dbi] != handle->sequence) /* closed before its changes were committed */
            return txn_fail(txn, MDB_BAD_DBI);
        if ((rc = txn_own_cursor(txn, MAIN_DBI, &cursor)) != MDB_SUCCESS
            || (rc = core_seek(&cursor->core, &key, &exact)) != MDB_SUCCESS)
            break;
        if (!exact)
            return txn_fail(txn, MDB_BAD_DBI);
        if ((rc = core_touch(&cursor->core)) != MDB_SUCCESS || (rc = core_entry(&cursor->core, &entry)) != MDB_SUCCESS)
            break;
        if (entry.flags != N_SUBDATA) /* another of this name, because the tree is out of order */
            return txn_corrupted(txn);
        memcpy(plain_value(&cursor->core), &txn->trees[dbi].record, sizeof txn->trees[dbi].record);
    }
    return rc == MDB_SUCCESS ? rc : txn_fail(txn, rc);
}

/* Writes the dirty pages and waits for the disk as far as the flags ask for that. */
static int commit_pages(MDB_txn *txn)
{
    MDB_env *env = txn->env;
    unsigned flags = env->flags | txn->flags;
    struct dirty_entry *list;
    size_t count;
    int rc = MDB_SUCCESS;

    if (!txn_in_place(txn)) {
        if ((rc = dirty_list(txn, &list, &count)) != MDB_SUCCESS)
            return rc;
        rc = pages_write(txn, list, count);
        free(list);
    }
    if (rc == MDB_SUCCESS && (flags & MDB_NOSYNC) == 0)
        rc = file_sync(env, txn->map, (flags & MDB_MAPASYNC) == 0 || (flags & MDB_WRITEMAP) == 0);
    return rc;
}

/* Writes the meta page: from here on the transaction is what others see. */
static int commit_meta(MDB_txn *txn)
{
    MDB_env *env = txn->env;
    struct meta meta;
    int rc;

    memset(&meta, 0, sizeof meta);
    meta.address = (env->flags & MDB_FIXEDMAP) != 0 ? (size_t)txn->base : 0;
    meta.mapsize = txn->mapsize > txn->map->size ? txn->mapsize : txn->map->size;
    meta.dbs[FREE_DBI] = txn->trees[FREE_DBI].record;
    meta.dbs[MAIN_DBI] = txn->trees[MAIN_DBI].record;
    meta.last_pgno = txn->next_pgno - 1;
    meta.txnid = txn->id;
    if ((rc = meta_write(env, &meta, txn->flags & (MDB_NOSYNC | MDB_NOMETASYNC))) != MDB_SUCCESS)
        return rc;
    lock_set_last_txnid(env, txn->id);
    if (unlikely((env->flags & MDB_PREVSNAPSHOT) != 0))
        lock_share(env);
    return MDB_SUCCESS;
}

static int txn_commit_top(MDB_txn *txn)
{
    MDB_env *env = txn->env;
    int rc = env_usable(env);

    if (rc == MDB_SUCCESS && (txn->flags & TXN_DIRTY) != 0) {
        if ((rc = commit_records(txn)) == MDB_SUCCESS && (rc = free_list_save(txn)) == MDB_SUCCESS
            && (rc = commit_pages(txn)) == MDB_SUCCESS)
            rc = commit_meta(txn);
        if (rc == MDB_SUCCESS && atomic_load_explicit(&env->file_pages, memory_order_relaxed) < txn->next_pgno)
            env_file_pages(env);
    }
    writer_end(txn, rc == MDB_SUCCESS);
    return rc;
}

int mdb_txn_commit(MDB_txn *txn)
{
    int rc;

    if (txn == NULL || txn->magic != TXN_MAGIC)
        return EINVAL;
    if (!txn_is_writer(txn)) {
        reader_close(txn, true);
        return MDB_SUCCESS;
    }
    if (txn->child != NULL && (rc = mdb_txn_commit(txn->child)) != MDB_SUCCESS) {
        txn_abort(txn);
        return rc;
    }
    if ((txn->flags & TXN_FAILED) != 0) {
        if (txn->parent != NULL)
            txn->parent->flags |= TXN_FAILED;
        txn_abort(txn);
        return MDB_BAD_TXN;
    }
    return txn->parent != NULL ? nested_commit(txn) : txn_commit_top(txn);
}

/* ---- looking ---- */

MDB_env *mdb_txn_env(MDB_txn *txn)
{
    return txn != NULL && txn->magic == TXN_MAGIC ? txn->env : NULL;
}

mdb_size_t mdb_txn_id(MDB_txn *txn)
{
    return txn != NULL && txn->magic == TXN_MAGIC ? txn->id : 0;
}

/* ==== 15. Databases ==================================================================================================
 * The handle table of an environment; opening, closing, dropping databases, their flags, statistics and compare functions.
 * Owns: env->handles, under env->handles_mutex.
 * Always: handles[0] and [1] are in use, the free list and the main database; a used one of the others has a name.
 * Uses: 10, 12-14.
 */

static int handles_init(MDB_env *env)
{
    env->handles = calloc(env->max_dbs, sizeof *env->handles);
    if (env->handles == NULL)
        return ENOMEM;
    env->handles[FREE_DBI].used = true;
    env->handles[MAIN_DBI].used = true;
    return MDB_SUCCESS;
}

static void handles_free(MDB_env *env)
{
    MDB_dbi dbi;

    if (env->handles == NULL)
        return;
    for (dbi = 0; dbi < env->max_dbs; dbi++)
        free(env->handles[dbi].name);
    free(env->handles);
    env->handles = NULL;
}

/* ---- opening ---- */

/* The main database: flags that it does not have are added. */
static int main_open(MDB_txn *txn, unsigned flags)
{
    struct db_record record = txn->trees[MAIN_DBI].record;

    if ((record.flags | flags) != record.flags) {
        record.flags |= (uint16_t)flags;
        tree_init(&txn->trees[MAIN_DBI], &record, &txn->env->handles[MAIN_DBI]);
        txn->known_id = TXNID_NONE; /* it knows another database than the next reader should see */
        if (txn_is_writer(txn)) {
            txn->flags |= TXN_DIRTY;
            txn->handle_state[MAIN_DBI] |= HANDLE_DIRTY;
        }
    }
    return MDB_SUCCESS;
}

/* The open handle of this name, or a free one (*found false). MDB_DBS_FULL if there is neither. */
static int handle_find(MDB_env *env, const char *name, size_t name_size, MDB_dbi *out, bool *found)
{
    MDB_dbi free_dbi = 0;
    MDB_dbi dbi;

    *found = false;
    for (dbi = CORE_DBS; dbi < env->max_dbs; dbi++) {
        const struct handle *handle = &env->handles[dbi];

        if (handle->used && handle->name_size == name_size && memcmp(handle->name, name, name_size) == 0) {
            *out = dbi;
            *found = true;
            return MDB_SUCCESS;
        }
        if (!handle->used && free_dbi == 0)
            free_dbi = dbi;
    }
    *out = free_dbi;
    return free_dbi != 0 ? MDB_SUCCESS : MDB_DBS_FULL;
}

/* Creates an empty named database in the main one. */
static int record_create(MDB_txn *txn, const char *name, size_t name_size, unsigned flags, struct db_record *out)
{
    MDB_val key = {name_size, (void *)(uintptr_t)name};
    struct db_record record = {.flags = (uint16_t)flags, .root = PGNO_NONE};
    struct entry entry = {.key = key, .data = {sizeof record, &record}, .flags = N_SUBDATA, .pgno = PGNO_NONE};
    MDB_cursor *cursor;
    bool exact;
    int rc;

    if ((rc = txn_own_cursor(txn, MAIN_DBI, &cursor)) != MDB_SUCCESS || (rc = put_begin(cursor, NULL)) != MDB_SUCCESS)
        return rc;
    rc = core_seek_near(&cursor->core, &key, &exact);
    if (rc == MDB_SUCCESS || rc == MDB_NOTFOUND)
        rc = core_prepare(&cursor->core);
    if (rc == MDB_SUCCESS)
        rc = tree_insert(&cursor->core, &entry);
    txn->reserve = 0;
    if (rc != MDB_SUCCESS)
        return rc;
    txn->trees[MAIN_DBI].record.entries++;
    *out = record;
    return MDB_SUCCESS;
}

/* The record of a named database, created if it is missing and may be. */
static int record_open(MDB_txn *txn, const char *name, size_t name_size, unsigned flags, struct db_record *record)
{
    int rc = record_find(txn, name, name_size, record);

    if (rc != MDB_NOTFOUND || (flags & MDB_CREATE) == 0)
        return rc;
    if (!txn_is_writer(txn))
        return EACCES;
    return record_create(txn, name, name_size, flags & DB_FLAGS, record);
}

/* Cursors on the database that a handle stood for before cannot be used any more. */
static void cursors_outdate(MDB_txn *txn, MDB_dbi dbi)
{
    MDB_cursor *cursor;

    if (!txn_is_writer(txn))
        return;
    for (cursor = txn->cursors[dbi]; cursor != NULL; cursor = cursor->next) {
        cursor->core.position = POS_NONE;
        cursor->sequence = txn->env->handles[dbi].sequence - 1;
    }
}

/* Gives a handle to a database that has none; or, if its database is gone, to the one of that name there is now. */
static int handle_open(MDB_txn *txn, MDB_dbi dbi, const char *name, size_t name_size, unsigned flags)
{
    struct handle *handle = &txn->env->handles[dbi];
    struct db_record record;
    bool fresh = !handle->used;
    char *copy = NULL;
    int rc;

    if (fresh && (txn->handle_state[dbi] & HANDLE_DIRTY) != 0) /* closed before its changes were committed */
        return txn_fail(txn, MDB_BAD_DBI);
    if (fresh && (copy = malloc(name_size + 1)) == NULL)
        return ENOMEM;
    if ((rc = record_open(txn, name, name_size, flags, &record)) != MDB_SUCCESS) {
        free(copy);
        return rc;
    }
    if (fresh) {
        cursors_outdate(txn, dbi);
        handle->name = memcpy(copy, name, name_size + 1);
        handle->name_size = name_size;
        handle->opener = txn;
        txn->handles_changed = true;
        handle->used = true;
        txn->handle_state[dbi] = HANDLE_NEW;
    } else {
        cursors_outdate(txn, dbi);
    }
    handle->flags = record.flags & DB_FLAGS;
    handles_note_change(txn->env);
    tree_init(&txn->trees[dbi], &record, handle);
    txn->handle_state[dbi] = HANDLE_LOADED | (txn->handle_state[dbi] & HANDLE_NEW);
    txn->handle_sequence[dbi] = handle->sequence;
    return MDB_SUCCESS;
}

static int named_open(MDB_txn *txn, const char *name, unsigned flags, MDB_dbi *out)
{
    size_t name_size = strlen(name);
    struct tree *tree;
    MDB_dbi dbi;
    bool found;
    int rc;

    if (name_size == 0 || name_size > key_size_max(txn_page_size(txn)))
        return MDB_BAD_VALSIZE;
    if ((txn->trees[MAIN_DBI].record.flags & (DB_DUPSORT | DB_INTEGERKEY)) != 0)
        return MDB_INCOMPATIBLE;
    if ((rc = handle_find(txn->env, name, name_size, &dbi, &found)) != MDB_SUCCESS)
        return rc;
    if (found) {
        rc = txn_tree(txn, dbi, &tree);
        if (rc == MDB_SUCCESS)
            *out = dbi;
        if (rc != MDB_BAD_DBI && rc != MDB_INCOMPATIBLE && rc != EINVAL)
            return rc;
    }
    if ((rc = handle_open(txn, dbi, name, name_size, flags)) == MDB_SUCCESS)
        *out = dbi;
    return rc;
}

int mdb_dbi_open(MDB_txn *txn, const char *name, unsigned int flags, MDB_dbi *dbi)
{
    int rc;

    if (dbi == NULL || (flags & ~(unsigned)(DB_FLAGS | MDB_CREATE)) != 0)
        return EINVAL;
    if ((rc = txn_check(txn)) != MDB_SUCCESS)
        return rc;
    os_mutex_lock(&txn->env->handles_mutex);
    if (name == NULL) {
        *dbi = MAIN_DBI;
        rc = main_open(txn, flags & DB_FLAGS);
    } else {
        rc = named_open(txn, name, flags, dbi);
    }
    os_mutex_unlock(&txn->env->handles_mutex);
    return rc;
}

void mdb_dbi_close(MDB_env *env, MDB_dbi dbi)
{
    if (env_here(env) != MDB_SUCCESS || dbi < CORE_DBS || dbi >= env->max_dbs)
        return;
    os_mutex_lock(&env->handles_mutex);
    if (env->handles[dbi].used)
        handle_clear(env, &env->handles[dbi]);
    os_mutex_unlock(&env->handles_mutex);
}

/* ---- looking ---- */

int mdb_dbi_flags(MDB_txn *txn, MDB_dbi dbi, unsigned int *flags)
{
    struct tree *tree;
    int rc;

    if (flags == NULL)
        return EINVAL;
    if ((rc = txn_check(txn)) != MDB_SUCCESS || (rc = txn_tree(txn, dbi, &tree)) != MDB_SUCCESS)
        return rc;
    *flags = tree->record.flags & DB_FLAGS;
    return MDB_SUCCESS;
}

static void record_stat(const struct db_record *record, size_t page_size, MDB_stat *stat)
{
    stat->ms_psize = (unsigned)page_size;
    stat->ms_depth = record->depth;
    stat->ms_branch_pages = record->branch_pages;
    stat->ms_leaf_pages = record->leaf_pages;
    stat->ms_overflow_pages = record->overflow_pages;
    stat->ms_entries = record->entries;
}

int mdb_stat(MDB_txn *txn, MDB_dbi dbi, MDB_stat *stat)
{
    struct tree *tree;
    int rc;

    if (stat == NULL)
        return EINVAL;
    if ((rc = txn_check(txn)) != MDB_SUCCESS || (rc = txn_tree_to_read(txn, dbi, &tree)) != MDB_SUCCESS)
        return rc;
    record_stat(&tree->record, txn_page_size(txn), stat);
    return MDB_SUCCESS;
}

/* ---- dropping ---- */

/* The tree is gone: cursors on it stand nowhere. */
static void cursors_leave(MDB_txn *txn, MDB_dbi dbi)
{
    MDB_cursor *cursor;

    for (cursor = txn->cursors[dbi]; cursor != NULL; cursor = cursor->next) {
        cursor->core.position = POS_NONE;
        if (cursor->dups != NULL)
            cursor->dups->loaded = false;
    }
}

static void record_empty(struct db_record *record)
{
    record->depth = 0;
    record->branch_pages = record->leaf_pages = record->overflow_pages = record->entries = 0;
    record->root = PGNO_NONE;
}

/* With the main database all named ones go: their handles find no record any more. */
static void named_forget(MDB_txn *txn)
{
    MDB_dbi dbi;

    for (dbi = CORE_DBS; dbi < txn->env->max_dbs; dbi++) {
        if ((txn->handle_state[dbi] & HANDLE_LOADED) != 0) {
            txn->handle_state[dbi] &= HANDLE_NEW;
            cursors_leave(txn, dbi);
        }
    }
}

/* Takes a named database out of the main one. Its handle is closed when that is committed. */
static int named_delete(MDB_txn *txn, MDB_dbi dbi)
{
    struct handle *handle = &txn->env->handles[dbi];
    MDB_val key = {handle->name_size, handle->name};
    MDB_cursor *cursor;
    bool exact;
    int rc;

    if ((rc = txn_own_cursor(txn, MAIN_DBI, &cursor)) != MDB_SUCCESS
        || (rc = core_seek(&cursor->core, &key, &exact)) != MDB_SUCCESS)
        return rc;
    if (!exact)
        return txn_fail(txn, MDB_BAD_DBI);
    if ((rc = core_touch(&cursor->core)) != MDB_SUCCESS || (rc = outer_remove(cursor)) != MDB_SUCCESS)
        return rc;
    txn->handle_state[dbi] = (txn->handle_state[dbi] & HANDLE_NEW) | HANDLE_DROPPED;
    txn->handles_changed = true;
    return MDB_SUCCESS;
}

int mdb_drop(MDB_txn *txn, MDB_dbi dbi, int del)
{
    struct tree *tree;
    int rc;

    if (del != 0 && del != 1)
        return EINVAL;
    if ((rc = txn_check_write(txn)) != MDB_SUCCESS || (rc = txn_tree(txn, dbi, &tree)) != MDB_SUCCESS)
        return rc;
    txn->reserve = 0;
    cursors_leave(txn, dbi);
    rc = dbi == MAIN_DBI ? tree_drop_main(txn) : tree_drop_record(txn, &tree->record);
    if (rc != MDB_SUCCESS)
        return txn_fail(txn, rc);
    record_empty(&tree->record);
    tree->run_page = PGNO_NONE;
    txn->flags |= TXN_DIRTY;
    txn->handle_state[dbi] |= HANDLE_DIRTY;
    if (dbi == MAIN_DBI)
        named_forget(txn);
    else if (del == 1)
        rc = named_delete(txn, dbi);
    return rc;
}

/* ---- compare functions ---- */

/* Sets a compare function, or back to the flags' order, for this transaction, those above it, and all that begin
 * later. */
static int order_set(MDB_txn *txn, MDB_dbi dbi, MDB_cmp_func *cmp, bool of_keys)
{
    struct handle *handle;
    struct order key_order;
    struct order dup_order;
    struct tree *tree;
    int rc;

    if ((rc = txn_check(txn)) != MDB_SUCCESS || (rc = txn_tree(txn, dbi, &tree)) != MDB_SUCCESS)
        return rc;
    handle = &txn->env->handles[dbi];
    *(of_keys ? &handle->key_cmp : &handle->dup_cmp) = cmp;
    handles_note_change(txn->env);
    key_order = handle_key_order(handle, tree->record.flags);
    dup_order = handle_dup_order(handle, tree->record.flags);
    for (; txn != NULL; txn = txn->parent) {
        txn->trees[dbi].order = key_order;
        txn->trees[dbi].dup_order = dup_order;
    }
    return MDB_SUCCESS;
}

int mdb_set_compare(MDB_txn *txn, MDB_dbi dbi, MDB_cmp_func *cmp)
{
    return order_set(txn, dbi, cmp, true);
}

int mdb_set_dupsort(MDB_txn *txn, MDB_dbi dbi, MDB_cmp_func *cmp)
{
    return order_set(txn, dbi, cmp, false);
}

/* Nothing in this library ever moves a value so that pointers inside it would have to be relocated: the two calls are
 * accepted, and have no effect. */
int mdb_set_relfunc(MDB_txn *txn, MDB_dbi dbi, MDB_rel_func *rel)
{
    struct tree *tree;
    int rc = txn_check(txn);

    (void)rel;
    return rc == MDB_SUCCESS ? txn_tree(txn, dbi, &tree) : rc;
}

int mdb_set_relctx(MDB_txn *txn, MDB_dbi dbi, void *context)
{
    struct tree *tree;
    int rc = txn_check(txn);

    (void)context;
    return rc == MDB_SUCCESS ? txn_tree(txn, dbi, &tree) : rc;
}

/* ==== 16. Environment: create, open, configure, close ================================================================
 * The life of an environment, its settings, and what it says about itself.
 * Owns: the files and the fields of MDB_env that are set before or while opening.
 * Always: a data file that is not ours, or not of this version, is left as it is, and so is its lock file;
 *         a new file is either nothing yet, or both meta pages; what is between is made anew by the next open.
 * Uses: 3, 4, 6, 14, 15.
 */

#define ENV_FLAGS_CHANGEABLE (MDB_NOSYNC | MDB_NOMETASYNC | MDB_MAPASYNC | MDB_NOMEMINIT)
#define ENV_FLAGS_FIXED                                                                                                 \
    (MDB_FIXEDMAP | MDB_NOSUBDIR | MDB_RDONLY | MDB_WRITEMAP | MDB_NOTLS | MDB_NOLOCK | MDB_NORDAHEAD | MDB_PREVSNAPSHOT)
/* Flags that the data file remembers. */
#define ENV_FLAGS_PERSISTENT (MDB_FIXEDMAP | MDB_NOSUBDIR)

#define DATA_NAME "/data.mdb"
#define LOCK_NAME "/lock.mdb"
#define LOCK_SUFFIX "-lock"

static bool env_valid(const MDB_env *env)
{
    return env != NULL && env->magic == ENV_MAGIC;
}

int mdb_env_create(MDB_env **out)
{
    static const os_mutex unlocked = PTHREAD_MUTEX_INITIALIZER;
    MDB_env *env;

    if (out == NULL)
        return EINVAL;
    if ((env = calloc(1, sizeof *env)) == NULL)
        return ENOMEM;
    env->magic = ENV_MAGIC;
    env->data_fd = env->meta_fd = env->lock_fd = -1;
    env->page_size = os_page_size() < PAGE_SIZE_MAX ? os_page_size() : PAGE_SIZE_MAX;
    env->mapsize = MAPSIZE_DEFAULT;
    env->max_readers = READERS_DEFAULT;
    env->max_dbs = CORE_DBS;
    memcpy(&env->map_mutex, &unlocked, sizeof unlocked);
    memcpy(&env->handles_mutex, &unlocked, sizeof unlocked);
    memcpy(&env->writer_mutex, &unlocked, sizeof unlocked);
    *out = env;
    return MDB_SUCCESS;
}

/* ---- the data file ---- */

/* Reads the first bytes of what would be meta page `number` of a file with this page size. */
static int meta_read(MDB_env *env, unsigned number, size_t page_size, struct meta_copy *out)
{
    size_t got;
    int rc;

    memset(out, 0, sizeof *out);
    rc = os_read(env->data_fd, out->bytes, sizeof out->bytes, number * page_size, &got);
    return rc == MDB_SUCCESS && got < sizeof out->bytes ? MDB_INVALID : rc;
}

/* The page size of a file with a sound meta page; 0 if there is none. */
static int file_find_page_size(MDB_env *env, size_t *out)
{
    struct meta_copy copy;
    size_t page_size;
    int rc = meta_read(env, 0, 0, &copy);

    *out = 0;
    if (rc == MDB_SUCCESS && meta_ok(meta_copy_page(&copy), 0)) {
        *out = meta_copy_meta(&copy)->dbs[FREE_DBI].pad;
        return rc;
    }
    for (page_size = PAGE_SIZE_MIN; page_size <= PAGE_SIZE_MAX; page_size *= 2) {
        if ((rc = meta_read(env, 1, page_size, &copy)) != MDB_SUCCESS)
            break;
        if (meta_ok(meta_copy_page(&copy), 1) && meta_copy_meta(&copy)->dbs[FREE_DBI].pad == page_size) {
            *out = page_size;
            return rc;
        }
    }
    return rc == MDB_INVALID ? MDB_SUCCESS : rc;
}

/* Why a file without a sound meta page is refused. */
static int file_refusal(MDB_env *env)
{
    struct meta_copy copy;
    int rc = meta_read(env, 0, 0, &copy);

    if (rc != MDB_SUCCESS)
        return rc;
    if (meta_copy_meta(&copy)->magic != FORMAT_MAGIC)
        return MDB_INVALID;
    return meta_copy_meta(&copy)->version != FORMAT_VERSION ? MDB_VERSION_MISMATCH : MDB_CORRUPTED;
}

/* The meta page of a new environment. */
static void meta_new(const MDB_env *env, struct meta *meta)
{
    memset(meta, 0, sizeof *meta);
    meta->mapsize = env->mapsize;
    if (meta->mapsize < META_PAGES * env->page_size)
        meta->mapsize = META_PAGES * env->page_size;
    meta->dbs[FREE_DBI].pad = (uint32_t)env->page_size;
    meta->dbs[FREE_DBI].flags = (uint16_t)(DB_INTEGERKEY | (env->flags & ENV_FLAGS_PERSISTENT));
    meta->dbs[FREE_DBI].root = PGNO_NONE;
    meta->dbs[MAIN_DBI].root = PGNO_NONE;
    meta->last_pgno = META_PAGES - 1;
}

/* Is a file without both meta pages one whose creation was cut short: empty, zeros, or the first bytes of a new one? */
static int file_is_unborn(MDB_env *env, uint64_t size, bool *out)
{
    unsigned char *bytes;
    struct meta meta;
    struct meta_copy copy;
    size_t known = size < PAGE_HEADER + 8 ? (size_t)size : PAGE_HEADER + 8;
    size_t got;
    size_t i;
    int rc;

    *out = size == 0;
    if (size == 0 || size > META_PAGES * PAGE_SIZE_MAX)
        return MDB_SUCCESS;
    if ((bytes = malloc((size_t)size)) == NULL)
        return ENOMEM;
    rc = os_read(env->data_fd, bytes, (size_t)size, 0, &got);
    if (rc == MDB_SUCCESS) {
        meta_new(env, &meta);
        meta_page_build(&meta, 0, &copy);
        for (i = 0; i < got && bytes[i] == 0; i++)
            ;
        *out = i == got || (size < META_SIZE && memcmp(bytes, copy.bytes, known) == 0);
    }
    free(bytes);
    return rc;
}

/* Writes both meta pages of a new environment. */
static int file_create(MDB_env *env, const char *path)
{
    unsigned char *bytes = calloc(META_PAGES, env->page_size);
    struct meta meta;
    unsigned number;
    void *place;
    int rc = MDB_SUCCESS;

    if (bytes == NULL)
        return ENOMEM;
    meta_new(env, &meta);
    if ((env->flags & MDB_FIXEDMAP) != 0 && (rc = os_map_place(env->mapsize, &place)) == MDB_SUCCESS)
        meta.address = (size_t)place;
    for (number = 0; number < META_PAGES; number++) {
        struct meta_copy copy;

        meta_page_build(&meta, number, &copy);
        memcpy(bytes + number * env->page_size, copy.bytes, sizeof copy.bytes);
    }
    if (rc == MDB_SUCCESS)
        rc = os_write(env->data_fd, bytes, META_PAGES * env->page_size, 0);
    if (rc == MDB_SUCCESS)
        rc = os_sync(env->data_fd);
    if (rc == MDB_SUCCESS) /* its name must last too, or commits that were flushed are lost with it */
        rc = os_sync_directory_of(path);
    if (rc != MDB_SUCCESS)
        (void)os_truncate(env->data_fd, 0); /* what could not be written whole shall not look like something */
    free(bytes);
    return rc;
}

/* A sound meta page 0 of an environment that nothing was ever written to, in a file without a whole page 1. If
 * page 1 is of a commit the file was cut, and is not ours to make anew. */
static bool file_is_half_born(MDB_env *env, uint64_t size)
{
    struct meta_copy copy;
    const struct meta *meta = meta_copy_meta(&copy);

    if (meta_read(env, 1, env->page_size, &copy) == MDB_SUCCESS && meta->txnid != 0)
        return false;
    return size < META_PAGES * env->page_size && meta_read(env, 0, 0, &copy) == MDB_SUCCESS
        && meta_ok(meta_copy_page(&copy), 0) && meta->txnid == 0 && meta->last_pgno == META_PAGES - 1
        && meta->dbs[FREE_DBI].root == PGNO_NONE && meta->dbs[MAIN_DBI].root == PGNO_NONE;
}

/* Judges the data file, and creates its contents if there are none yet. Sets the page size. */
static int file_prepare(MDB_env *env, const char *path)
{
    size_t page_size;
    uint64_t size;
    bool unborn;
    int rc;

    if ((rc = os_file_size(env->data_fd, &size)) != MDB_SUCCESS
        || (rc = file_find_page_size(env, &page_size)) != MDB_SUCCESS)
        return rc;
    if (page_size == 0) {
        if ((rc = file_is_unborn(env, size, &unborn)) != MDB_SUCCESS)
            return rc;
        if (!unborn || (env->flags & MDB_RDONLY) != 0)
            return size < META_SIZE ? MDB_INVALID : file_refusal(env);
        rc = file_create(env, path);
    } else {
        env->page_size = page_size;
        if (size < META_PAGES * page_size) {
            if (!file_is_half_born(env, size))
                return MDB_INVALID;
            if ((env->flags & MDB_RDONLY) != 0)
                return MDB_INVALID;
            rc = file_create(env, path);
        }
    }
    for (env->page_shift = 0; (size_t)1 << env->page_shift < env->page_size; env->page_shift++)
        ;
    return rc;
}

/* ---- opening ---- */

static char *path_join(const char *path, const char *name)
{
    size_t size = strlen(path);
    char *joined = malloc(size + strlen(name) + 1);

    if (joined != NULL) {
        memcpy(joined, path, size);
        memcpy(joined + size, name, strlen(name) + 1);
    }
    return joined;
}

/* Bytes that the pages of a state take. */
static size_t meta_used_size(const MDB_env *env, const struct meta *meta)
{
    return (meta->last_pgno + 1) << env->page_shift;
}

static int metas_map(MDB_env *env)
{
    return os_map(env->data_fd, 0, META_PAGES * env->page_size, NULL, (env->flags & MDB_WRITEMAP) != 0, &env->metas);
}

/* Maps the file where its meta page says. The map of the meta pages makes way meanwhile: it may stand there. */
static int map_make_fixed(MDB_env *env, const struct meta *meta, struct map **out)
{
    int rc;

    os_unmap(env->metas, META_PAGES * env->page_size);
    env->metas = NULL;
    rc = map_make(env, env->mapsize, (void *)meta->address, out);
    return rc == MDB_SUCCESS ? metas_map(env) : rc;
}

/* Chooses the map size, from the user's wish and what the file says, and maps the file. */
static int env_map_first(MDB_env *env)
{
    struct meta meta;
    struct map *map;
    bool previous = atomic_load_explicit(&env->previous, memory_order_relaxed);
    int rc = metas_map(env);

    if (rc != MDB_SUCCESS || (rc = meta_newest(env, &meta, previous)) != MDB_SUCCESS)
        return rc;
    if (meta.last_pgno >= SIZE_MAX >> env->page_shift)
        return MDB_CORRUPTED;
    if (!env->mapsize_set && meta.mapsize > 0)
        env->mapsize = meta.mapsize;
    if (env->mapsize < meta_used_size(env, &meta))
        env->mapsize = meta_used_size(env, &meta);
    if ((env->flags & MDB_FIXEDMAP) != 0)
        rc = map_make_fixed(env, &meta, &map);
    else
        rc = map_make(env, env->mapsize, NULL, &map);
    if (rc == MDB_SUCCESS)
        atomic_store_explicit(&env->map, map, memory_order_release);
    return rc;
}

static int data_open(MDB_env *env, const char *path, mdb_mode_t mode)
{
    int rc = os_path_is_file(path); /* before it is opened: that could wait, as for a pipe */

    if (rc == EINVAL)
        return MDB_INVALID;
    if (rc == MDB_SUCCESS || (rc == ENOENT && (env->flags & MDB_RDONLY) == 0))
        rc = os_open(path, (env->flags & MDB_RDONLY) != 0 ? OS_OPEN_READ : OS_OPEN_CREATE, mode, &env->data_fd);
    if (rc == MDB_SUCCESS && (env->flags & (MDB_RDONLY | MDB_WRITEMAP)) == 0)
        rc = os_open(path, OS_OPEN_WRITE_SYNC, 0, &env->meta_fd);
    return rc;
}

/* Opens both files, the lock file first unless nothing will be written. */
static int files_open(MDB_env *env, const char *data_path, const char *lock_path, mdb_mode_t mode)
{
    bool lock = (env->flags & MDB_NOLOCK) == 0;
    bool read_only = (env->flags & MDB_RDONLY) != 0;
    int rc = MDB_SUCCESS;

    if (lock && !read_only)
        rc = lock_open(env, lock_path, mode);
    if (rc == MDB_SUCCESS)
        rc = data_open(env, data_path, mode);
    if (rc == MDB_SUCCESS && lock && read_only)
        rc = lock_open(env, lock_path, mode);
    if (rc == MDB_SUCCESS && env->registered)
        rc = lock_register_data(env);
    return rc;
}

/* Everything between the files being open and the first transaction. */
static int env_start(MDB_env *env, const char *data_path)
{
    int rc;

    if ((rc = file_prepare(env, data_path)) != MDB_SUCCESS || (rc = env_map_first(env)) != MDB_SUCCESS
        || (rc = lock_start(env)) != MDB_SUCCESS || (rc = reader_key_make(env)) != MDB_SUCCESS)
        return rc;
    env_file_pages(env);
    return handles_init(env);
}

/* Gives back what opening took; the settings stay. */
static void env_stop(MDB_env *env)
{
    MDB_txn *spare = atomic_exchange_explicit(&env->spare_txn, NULL, memory_order_acquire);

    env->open = false;
    free(spare);
    lock_close(env);
    writer_free(&env->writer);
    handles_free(env);
    env_maps_free(env);
    os_close(env->data_fd);
    os_close(env->meta_fd);
    env->data_fd = env->meta_fd = -1;
    free(env->path);
    env->path = NULL;
    atomic_store_explicit(&env->file_pages, 0, memory_order_relaxed);
}

int mdb_env_open(MDB_env *env, const char *path, unsigned int flags, mdb_mode_t mode)
{
    bool no_subdir = (flags & MDB_NOSUBDIR) != 0;
    char *data_path = NULL;
    char *lock_path = NULL;
    int rc;

    if (!env_valid(env) || path == NULL || env->open || env->path != NULL
        || (flags & ~(unsigned)(ENV_FLAGS_CHANGEABLE | ENV_FLAGS_FIXED)) != 0)
        return EINVAL;
    if ((flags & MDB_RDONLY) != 0)
        flags &= ~(unsigned)MDB_WRITEMAP;
    env->flags |= flags;
    if ((rc = os_fork_watch()) != MDB_SUCCESS)
        return rc;
    env->fork_generation = os_fork_generation();
    env->pid = os_pid_self();
    atomic_store_explicit(&env->previous, (flags & MDB_PREVSNAPSHOT) != 0, memory_order_relaxed);
    env->path = path_join(path, "");
    data_path = path_join(path, no_subdir ? "" : DATA_NAME);
    lock_path = path_join(path, no_subdir ? LOCK_SUFFIX : LOCK_NAME);
    rc = env->path == NULL || data_path == NULL || lock_path == NULL ? ENOMEM : MDB_SUCCESS;
    if (rc == MDB_SUCCESS)
        rc = files_open(env, data_path, lock_path, mode);
    if (rc == MDB_SUCCESS)
        rc = env_start(env, data_path);
    free(data_path);
    free(lock_path);
    if (rc == MDB_SUCCESS)
        env->open = true;
    else
        env_stop(env);
    return rc;
}

void mdb_env_close(MDB_env *env)
{
    if (!env_valid(env))
        return;
    if (env->open && env->writer.txn != NULL && env_here(env) == MDB_SUCCESS && writer_is_this_thread(env)) {
        MDB_txn *txn = env->writer.txn;

        while (txn->parent != NULL)
            txn = txn->parent;
        txn_abort(txn);
    }
    env_stop(env);
    env->magic = 0;
    free(env);
}

/* ---- settings ---- */

int mdb_env_set_flags(MDB_env *env, unsigned int flags, int onoff)
{
    if (!env_valid(env) || (flags & ~(unsigned)ENV_FLAGS_CHANGEABLE) != 0)
        return EINVAL;
    if (onoff)
        env->flags |= flags;
    else
        env->flags &= ~flags;
    return MDB_SUCCESS;
}

int mdb_env_get_flags(MDB_env *env, unsigned int *flags)
{
    if (!env_valid(env) || flags == NULL)
        return EINVAL;
    *flags = env->flags & (ENV_FLAGS_CHANGEABLE | ENV_FLAGS_FIXED);
    return MDB_SUCCESS;
}

int mdb_env_get_path(MDB_env *env, const char **path)
{
    if (!env_valid(env) || path == NULL)
        return EINVAL;
    *path = env->path;
    return MDB_SUCCESS;
}

int mdb_env_get_fd(MDB_env *env, mdb_filehandle_t *fd)
{
    if (!env_valid(env) || fd == NULL)
        return EINVAL;
    *fd = env->data_fd;
    return MDB_SUCCESS;
}

/* Maps anew with MDB_FIXEDMAP: at the same address, which must be given up first, so nobody else may use the map. */
static int env_remap_fixed(MDB_env *env, size_t size)
{
    struct map *old = atomic_load_explicit(&env->map, memory_order_acquire);
    unsigned char *base = old->base;
    size_t old_size = old->size;
    unsigned holds = 1;
    struct map *map;

    /* From one hold, ours, to none in a single step: a transaction that begins meanwhile finds none, and waits in
     * env_map_take for the new map. acquire: the reads of those who had holds are done. */
    if (!atomic_compare_exchange_strong_explicit(&old->holds, &holds, 0, memory_order_acquire, memory_order_relaxed))
        return EBUSY;
    os_unmap(base, old_size);
    if (map_make(env, size, base, &map) != MDB_SUCCESS && map_make(env, old_size, base, &map) != MDB_SUCCESS) {
        /* Another thread took the place. Who waits for a map must get one, though it is of no use. */
        old->base = env->metas;
        old->size = META_PAGES * env->page_size;
        atomic_store_explicit(&old->holds, 1, memory_order_release);
        return env_panic(env);
    }
    atomic_store_explicit(&env->map, map, memory_order_release);
    return map->size == size ? MDB_SUCCESS : ENOMEM;
}

/* Maps an open environment's file anew, with at least the size of what it holds; 0: with the size that the file
 * says. */
static int env_remap(MDB_env *env, size_t size)
{
    struct meta meta;
    struct map *map;
    int rc;

    if ((rc = meta_current(env, &meta)) != MDB_SUCCESS)
        return rc;
    if (size == 0)
        size = meta.mapsize;
    if (size < meta_used_size(env, &meta))
        size = meta_used_size(env, &meta);
    if (size == env->mapsize)
        return MDB_SUCCESS;
    if ((env->flags & MDB_FIXEDMAP) != 0) {
        rc = env_remap_fixed(env, size);
    } else if ((rc = map_make(env, size, NULL, &map)) == MDB_SUCCESS) {
        env_map_replace(env, map);
    }
    if (rc == MDB_SUCCESS)
        env->mapsize = size;
    return rc;
}

int mdb_env_set_mapsize(MDB_env *env, mdb_size_t size)
{
    int rc;

    if (!env_valid(env))
        return EINVAL;
    if (!env->open) {
        env->mapsize = size > 0 ? size : MAPSIZE_DEFAULT;
        env->mapsize_set = size > 0;
        return MDB_SUCCESS;
    }
    if ((rc = env_usable(env)) != MDB_SUCCESS)
        return rc;
    /* relaxed: a writer that begins right now takes the old map or the new one, and either will do. */
    if (atomic_load_explicit(&env->writer.owner, memory_order_relaxed) != 0)
        return EINVAL;
    os_mutex_lock(&env->map_mutex);
    rc = env_remap(env, size);
    os_mutex_unlock(&env->map_mutex);
    return rc;
}

int mdb_env_set_pagesize(MDB_env *env, int size)
{
    if (!env_valid(env) || env->open || size < 0 || !page_size_valid((size_t)size))
        return EINVAL;
    env->page_size = (size_t)size;
    return MDB_SUCCESS;
}

int mdb_env_set_maxreaders(MDB_env *env, unsigned int readers)
{
    if (!env_valid(env) || env->open || readers < 1)
        return EINVAL;
    env->max_readers = readers;
    return MDB_SUCCESS;
}

int mdb_env_get_maxreaders(MDB_env *env, unsigned int *readers)
{
    if (!env_valid(env) || readers == NULL)
        return EINVAL;
    *readers = env->max_readers;
    return MDB_SUCCESS;
}

int mdb_env_set_maxdbs(MDB_env *env, MDB_dbi dbs)
{
    if (!env_valid(env) || env->open || dbs > INT32_MAX)
        return EINVAL;
    env->max_dbs = dbs + CORE_DBS;
    return MDB_SUCCESS;
}

int mdb_env_get_maxkeysize(MDB_env *env)
{
    return env_valid(env) ? (int)key_size_max(env->page_size) : 0;
}

int mdb_env_set_userctx(MDB_env *env, void *ctx)
{
    if (!env_valid(env))
        return EINVAL;
    env->user_context = ctx;
    return MDB_SUCCESS;
}

void *mdb_env_get_userctx(MDB_env *env)
{
    return env_valid(env) ? env->user_context : NULL;
}

int mdb_env_set_assert(MDB_env *env, MDB_assert_func *func)
{
    if (!env_valid(env))
        return EINVAL;
    env->assert_func = func;
    return MDB_SUCCESS;
}

/* ---- looking ---- */

int mdb_env_stat(MDB_env *env, MDB_stat *stat)
{
    struct meta meta;
    int rc;

    if (stat == NULL)
        return EINVAL;
    if ((rc = env_here(env)) != MDB_SUCCESS || (rc = meta_current(env, &meta)) != MDB_SUCCESS)
        return rc;
    record_stat(&meta.dbs[MAIN_DBI], env->page_size, stat);
    return MDB_SUCCESS;
}

int mdb_env_info(MDB_env *env, MDB_envinfo *info)
{
    struct meta meta;
    int rc;

    if (info == NULL)
        return EINVAL;
    if ((rc = env_here(env)) != MDB_SUCCESS || (rc = meta_current(env, &meta)) != MDB_SUCCESS)
        return rc;
    info->me_mapaddr = (env->flags & MDB_FIXEDMAP) != 0 ? (void *)meta.address : NULL;
    info->me_mapsize = env->mapsize;
    info->me_last_pgno = meta.last_pgno;
    info->me_last_txnid = meta.txnid;
    info->me_maxreaders = env->max_readers;
    info->me_numreaders = env->lock != NULL ? reader_slots_used(env) : 0;
    return MDB_SUCCESS;
}

int mdb_env_sync(MDB_env *env, int force)
{
    struct map *map;
    int rc = env_usable(env);

    if (rc != MDB_SUCCESS)
        return rc;
    if ((env->flags & MDB_RDONLY) != 0)
        return EACCES;
    if (!force && (env->flags & MDB_NOSYNC) != 0)
        return MDB_SUCCESS;
    map = env_map_take(env);
    rc = file_sync(env, map, force || (env->flags & MDB_MAPASYNC) == 0);
    map_release(map);
    return rc;
}

/* ---- readers ---- */

/* One line of the list. */
static int reader_line(const struct reader_slot *slot, os_pid pid, MDB_msg_func *func, void *ctx)
{
    txnid_t id = atomic_load_explicit(&slot->txnid, memory_order_relaxed);
    size_t thread = (size_t)atomic_load_explicit(&slot->thread, memory_order_relaxed);
    char line[96];

    if (id == TXNID_NONE)
        snprintf(line, sizeof line, "%10d %zx -\n", (int)pid, thread);
    else
        snprintf(line, sizeof line, "%10d %zx %zu\n", (int)pid, thread, id);
    return func(line, ctx);
}

int mdb_reader_list(MDB_env *env, MDB_msg_func *func, void *ctx)
{
    bool any = false;
    unsigned used;
    unsigned i;
    int rc = 0;

    if (env_here(env) != MDB_SUCCESS || func == NULL)
        return -1;
    if (env->lock == NULL)
        return func("(no reader locks)\n", ctx);
    used = reader_slots_used(env);
    for (i = 0; i < used; i++) {
        const struct reader_slot *slot = &env->lock->slots[i];
        os_pid pid = slot_pid(slot);

        if (pid == 0)
            continue;
        if (!any && (rc = func("    pid     thread     txnid\n", ctx)) < 0)
            return rc;
        any = true;
        if ((rc = reader_line(slot, pid, func, ctx)) < 0)
            return rc;
    }
    return any ? rc : func("(no active readers)\n", ctx);
}

int mdb_reader_check(MDB_env *env, int *dead)
{
    int rc;

    if (dead != NULL)
        *dead = 0;
    rc = env_here(env);
    return rc == MDB_SUCCESS ? readers_clear_dead(env, dead) : rc;
}

/* ==== 17. Copies =====================================================================================================
 * Writes one snapshot of an environment to another file, or to a pipe: page by page as it is, or compact.
 * Always: pages are written in the order of their numbers, the meta pages first, so that a pipe will do; both meta pages
 *         describe the same state, so that the copy is whole from either.
 * Uses: 13-16.
 */

#define COPY_BUFFER ((size_t)1 << 20)

/* Both meta pages of the copy: the snapshot as transaction `id`, and as the one before it. */
static int copy_metas(MDB_txn *txn, int fd, struct meta *meta, txnid_t id)
{
    size_t page_size = txn_page_size(txn);
    unsigned char *bytes = calloc(META_PAGES, page_size);
    unsigned i;
    int rc;

    if (bytes == NULL)
        return ENOMEM;
    for (i = 0; i < META_PAGES; i++) {
        struct meta_copy copy;
        unsigned number;

        meta->txnid = id >= i ? id - i : 0;
        number = id == 0 ? i : meta->txnid & 1;
        meta_page_build(meta, number, &copy);
        memcpy(bytes + number * page_size, copy.bytes, sizeof copy.bytes);
    }
    rc = os_write_stream(fd, bytes, META_PAGES * page_size);
    free(bytes);
    return rc;
}

static void copy_meta_init(MDB_txn *txn, struct meta *meta)
{
    memset(meta, 0, sizeof *meta);
    meta->mapsize = txn->env->mapsize;
    meta->dbs[FREE_DBI] = txn->trees[FREE_DBI].record;
    meta->dbs[MAIN_DBI] = txn->trees[MAIN_DBI].record;
    meta->last_pgno = txn->next_pgno - 1;
}

/* All pages as they are. Free ones at the end that were never written are not there in the copy either. */
static int copy_plain(MDB_txn *txn, int fd)
{
    size_t file_pages = env_file_pages(txn->env);
    pgno_t end = txn->next_pgno < file_pages ? txn->next_pgno : file_pages;
    size_t step = COPY_BUFFER >> txn->page_shift;
    struct meta meta;
    pgno_t pgno;
    int rc;

    copy_meta_init(txn, &meta);
    rc = copy_metas(txn, fd, &meta, txn->id);
    for (pgno = META_PAGES; rc == MDB_SUCCESS && pgno < end; pgno += step) {
        size_t pages = end - pgno < step ? end - pgno : step;

        rc = os_write_stream(fd, map_page(txn, pgno), pages << txn->page_shift);
    }
    return rc;
}

/* ---- compact ---- */

/* The copy in progress. Pages get their numbers in the order in which they are written, children before parents, so the
 * main database's root comes last; its number must be known at the start, for the meta pages. */
struct compact {
    MDB_txn *txn;
    int fd;
    pgno_t next;      /* number of the next page written */
    pgno_t root;      /* number that the main database's root will have */
    unsigned char *buffer;
    size_t used;
};

/* One tree: what its leaves are and may refer to. */
struct compact_tree {
    struct compact *copy;
    unsigned leaf_kind;
    unsigned dup_kind;
    bool has_values;
    bool is_main;
};

static int compact_flush(struct compact *copy)
{
    int rc = os_write_stream(copy->fd, copy->buffer, copy->used);

    copy->used = 0;
    return rc;
}

/* Writes bytes of `pages` pages, and counts the pages. */
static int compact_write(struct compact *copy, const void *bytes, size_t pages)
{
    size_t size = pages << copy->txn->page_shift;
    int rc = MDB_SUCCESS;

    if (pages > copy->root + 1 - copy->next) /* a page was reached by two ways */
        return MDB_CORRUPTED;
    copy->next += pages;
    if (copy->used + size > COPY_BUFFER)
        rc = compact_flush(copy);
    if (rc == MDB_SUCCESS && size > COPY_BUFFER)
        return os_write_stream(copy->fd, bytes, size);
    if (rc == MDB_SUCCESS) {
        memcpy(copy->buffer + copy->used, bytes, size);
        copy->used += size;
    }
    return rc;
}

/* An overflow run, without pages that its value does not need. */
static int compact_run(struct compact *copy, struct node *node)
{
    size_t page_size = txn_page_size(copy->txn);
    size_t size = node_data_size(node);
    pgno_t number = copy->next;
    struct page *first = malloc(page_size);
    struct page *run;
    size_t pages;
    int rc;

    if (first == NULL)
        return ENOMEM;
    if ((rc = run_get(copy->txn, node_run(node), size, &run)) == MDB_SUCCESS) {
        pages = run->run_pages; /* the record counts them all */
        if (node_run(node) + pages > copy->txn->pages_safe)
            rc = pages_safe_extend(copy->txn, node_run(node) + pages - 1);
    }
    if (rc == MDB_SUCCESS) {
        memcpy(first, run, page_size);
        first->pgno = number;
        rc = compact_write(copy, first, 1);
    }
    if (rc == MDB_SUCCESS && pages > 1)
        rc = compact_write(copy, page_bytes(run) + page_size, pages - 1);
    free(first);
    memcpy(node_data(node), &number, sizeof number);
    return rc;
}

static int compact_tree(const struct compact_tree *tree, struct db_record *record);

/* What a leaf node refers to: copies it, and changes the reference. */
static int compact_value(const struct compact_tree *tree, struct node *node)
{
    struct compact_tree below = {.copy = tree->copy};
    struct db_record record;
    int rc;

    if ((node->flags & N_BIGDATA) != 0)
        return compact_run(tree->copy, node);
    if ((node->flags & N_SUBDATA) == 0)
        return MDB_SUCCESS;
    record = node_record(node);
    if ((node->flags & N_DUPDATA) != 0) {
        below.leaf_kind = tree->dup_kind;
    } else if (!tree->is_main) {
        return MDB_CORRUPTED; /* named databases stand in the main one only, which bounds the recursion */
    } else {
        below.leaf_kind = P_LEAF;
        below.dup_kind = (record.flags & DB_DUPFIXED) != 0 ? P_LEAF | P_LEAF2 : P_LEAF;
        below.has_values = record.overflow_pages > 0 || (record.flags & DB_DUPSORT) != 0;
    }
    if ((rc = compact_tree(&below, &record)) == MDB_SUCCESS)
        memcpy(node_data(node), &record, sizeof record);
    return rc;
}

static int compact_page(const struct compact_tree *tree, pgno_t pgno, unsigned height, bool root, pgno_t *out);

static int compact_entries(const struct compact_tree *tree, struct page *page, unsigned height)
{
    unsigned i;
    int rc = MDB_SUCCESS;

    for (i = 0; rc == MDB_SUCCESS && i < page_count(page); i++) {
        struct node *node = page_node(page, i);
        pgno_t child;

        if (height == 1) {
            rc = compact_value(tree, node);
        } else if ((rc = compact_page(tree, node_child(node), height - 1, false, &child)) == MDB_SUCCESS) {
            node_set_child(node, child);
        }
    }
    return rc;
}

/* Pages that neither a tree nor the free list knew were counted as used: the copy has zeros for them. */
static int compact_pad(struct compact *copy)
{
    unsigned char *zeros = calloc(1, txn_page_size(copy->txn));
    int rc = zeros != NULL ? MDB_SUCCESS : ENOMEM;

    while (rc == MDB_SUCCESS && copy->next < copy->root)
        rc = compact_write(copy, zeros, 1);
    free(zeros);
    return rc;
}

/* Copies what stands below a page, then the page. *out: its number in the copy. */
static int compact_page(const struct compact_tree *tree, pgno_t pgno, unsigned height, bool root, pgno_t *out)
{
    struct compact *copy = tree->copy;
    size_t page_size = txn_page_size(copy->txn);
    struct page *source;
    struct page *page;
    int rc = page_get(copy->txn, pgno, height > 1 ? P_BRANCH : tree->leaf_kind, &source);

    if (rc != MDB_SUCCESS)
        return rc;
    if ((page = malloc(page_size)) == NULL)
        return ENOMEM;
    memcpy(page, source, page_size);
    if (!page_nodes_ok(page, page_size))
        rc = MDB_CORRUPTED;
    if (rc == MDB_SUCCESS && (height > 1 || tree->has_values))
        rc = compact_entries(tree, page, height);
    if (rc == MDB_SUCCESS && root && tree->is_main)
        rc = compact_pad(copy);
    if (rc == MDB_SUCCESS) {
        *out = page->pgno = copy->next;
        page->flags = (uint16_t)page_kind_flags(page);
        rc = compact_write(copy, page, 1);
    }
    free(page);
    return rc;
}

static int compact_tree(const struct compact_tree *tree, struct db_record *record)
{
    if (record->root == PGNO_NONE)
        return MDB_SUCCESS;
    if (record->depth == 0 || record->depth > DEPTH_MAX)
        return MDB_CORRUPTED;
    return compact_page(tree, record->root, record->depth, true, &record->root);
}

/* How many pages the trees have: all but the free ones, the free list's own and the meta pages. */
static int pages_in_use(MDB_txn *txn, size_t *out)
{
    const struct db_record *record = &txn->trees[FREE_DBI].record;
    size_t unused = record->branch_pages + record->leaf_pages + record->overflow_pages;
    txnid_t id = 0;
    MDB_val value;
    int rc;

    while ((rc = free_record_find(txn, id + 1, &id, &value)) == MDB_SUCCESS) {
        size_t count;

        if (value.mv_size < sizeof count)
            return MDB_CORRUPTED;
        memcpy(&count, value.mv_data, sizeof count);
        if (count >= txn->next_pgno || id == TXNID_NONE)
            return MDB_CORRUPTED;
        unused += count;
    }
    if (rc != MDB_NOTFOUND)
        return rc;
    if (unused > txn->next_pgno - META_PAGES || txn->next_pgno - unused > env_file_pages(txn->env))
        return MDB_CORRUPTED;
    *out = txn->next_pgno - META_PAGES - unused;
    return MDB_SUCCESS;
}

static int copy_compact(MDB_txn *txn, int fd)
{
    struct compact copy = {.txn = txn, .fd = fd, .next = META_PAGES};
    struct compact_tree tree = {.copy = &copy, .leaf_kind = P_LEAF, .has_values = true, .is_main = true};
    struct db_record record = txn->trees[MAIN_DBI].record;
    struct meta meta;
    size_t used;
    int rc = pages_in_use(txn, &used);

    if (rc != MDB_SUCCESS)
        return rc;
    copy_meta_init(txn, &meta);
    meta.last_pgno = META_PAGES - 1;
    meta.dbs[FREE_DBI].depth = 0;
    meta.dbs[FREE_DBI].branch_pages = meta.dbs[FREE_DBI].leaf_pages = meta.dbs[FREE_DBI].overflow_pages = 0;
    meta.dbs[FREE_DBI].entries = 0;
    meta.dbs[FREE_DBI].root = PGNO_NONE;
    if (record.root != PGNO_NONE) {
        if (used == 0)
            return MDB_CORRUPTED;
        meta.last_pgno += used;
        meta.dbs[MAIN_DBI].root = meta.last_pgno;
    }
    copy.root = meta.last_pgno;
    tree.dup_kind = (record.flags & DB_DUPFIXED) != 0 ? P_LEAF | P_LEAF2 : P_LEAF;
    if ((copy.buffer = malloc(COPY_BUFFER)) == NULL)
        return ENOMEM;
    if ((rc = copy_metas(txn, fd, &meta, 1)) == MDB_SUCCESS && (rc = compact_tree(&tree, &record)) == MDB_SUCCESS)
        rc = compact_flush(&copy);
    free(copy.buffer);
    return rc;
}

/* ---- the calls ---- */

int mdb_env_copyfd2(MDB_env *env, mdb_filehandle_t fd, unsigned int flags)
{
    MDB_txn *txn;
    int rc = env_usable(env);

    if (rc != MDB_SUCCESS)
        return rc;
    if ((flags & ~(unsigned)MDB_CP_COMPACT) != 0)
        return EINVAL;
    if ((rc = txn_begin_read(env, true, &txn)) != MDB_SUCCESS)
        return rc;
    rc = (flags & MDB_CP_COMPACT) != 0 ? copy_compact(txn, fd) : copy_plain(txn, fd);
    txn_abort(txn);
    return rc;
}

int mdb_env_copyfd(MDB_env *env, mdb_filehandle_t fd)
{
    return mdb_env_copyfd2(env, fd, 0);
}

int mdb_env_copy2(MDB_env *env, const char *path, unsigned int flags)
{
    char *data_path;
    int fd = -1;
    int rc = env_usable(env);

    if (rc != MDB_SUCCESS)
        return rc;
    if (path == NULL || (flags & ~(unsigned)MDB_CP_COMPACT) != 0)
        return EINVAL;
    data_path = path_join(path, (env->flags & MDB_NOSUBDIR) != 0 ? "" : DATA_NAME);
    if (data_path == NULL)
        return ENOMEM;
    rc = os_open(data_path, OS_OPEN_NEW, 0666, &fd);
    if (rc == MDB_SUCCESS) {
        rc = mdb_env_copyfd2(env, fd, flags);
        if (rc == MDB_SUCCESS)
            rc = os_sync(fd);
        if (os_close(fd) != MDB_SUCCESS && rc == MDB_SUCCESS)
            rc = EIO;
        if (rc == MDB_SUCCESS)
            rc = os_sync_directory_of(data_path);
        if (rc != MDB_SUCCESS)
            (void)os_remove(data_path);
    }
    free(data_path);
    return rc;
}

int mdb_env_copy(MDB_env *env, const char *path)
{
    return mdb_env_copy2(env, path, 0);
}
