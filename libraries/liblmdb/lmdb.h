/** @file lmdb.h
 *  Keys and values in a file that is mapped into memory: the interface of liblmdb, and its manual.
 *
 *  Contents: search for "==== 3."
 *      1. Types           2. Version         3. Errors          4. Environment flags, functions
 *      5. Transactions    6. Databases       7. Reading and writing
 *      8. Cursors         9. Comparing      10. Readers
 *
 *  What it is
 *
 *  An *environment* is one data file, mapped into memory, beside a small lock file. It holds *databases*: sorted maps
 *  from keys to values, both of them bytes that the library does not interpret. Any number of threads and processes
 *  may use an environment at once, with nothing running in between.
 *
 *  All work is done in *transactions*. A write transaction sees and changes everything; there is one at a time, and
 *  mdb_txn_begin() waits for its turn. Read transactions are as many as you like; each sees the state that the last
 *  commit before its begin left (its snapshot), whatever is written meanwhile. Readers wait for nobody and nobody
 *  waits for them. A change never overwrites what a snapshot still shows: pages are copied, then changed, and a
 *  commit makes the new ones visible in a single step. So a crash, at any moment, leaves a committed state and there
 *  is nothing to repair or replay. Pages that no snapshot can see any more are used again by later writers.
 *
 *  A read costs one walk down a tree in the map and copies nothing: the value that you get is a pointer into the map.
 *
 *  How to start
 *
 *  Create an environment handle, set its limits, open it on a directory that exists, begin a transaction, open a
 *  database in it, read or write, commit. Keep the environment and the database handles for the life of the program:
 *
 *  @code
 *      #include <stdio.h>
 *      #include <lmdb.h>
 *
 *      static int greet(MDB_env *env)
 *      {
 *          char hello[] = "hello", world[] = "world";
 *          MDB_val key = { 5, hello }, data = { 5, world };
 *          MDB_txn *txn;
 *          MDB_dbi dbi;
 *          int rc = mdb_txn_begin(env, NULL, 0, &txn);
 *
 *          if (rc != MDB_SUCCESS)
 *              return rc;
 *          rc = mdb_dbi_open(txn, NULL, 0, &dbi);
 *          if (rc == MDB_SUCCESS)
 *              rc = mdb_put(txn, dbi, &key, &data, 0);
 *          if (rc == MDB_SUCCESS)
 *              rc = mdb_get(txn, dbi, &key, &data);
 *          if (rc != MDB_SUCCESS) {
 *              mdb_txn_abort(txn);
 *              return rc;
 *          }
 *          printf("%.*s\n", (int)data.mv_size, (const char *)data.mv_data);
 *          return mdb_txn_commit(txn);
 *      }
 *
 *      int main(int argc, char **argv)
 *      {
 *          MDB_env *env;
 *          int rc = mdb_env_create(&env);
 *
 *          if (rc != MDB_SUCCESS)
 *              return 1;
 *          rc = mdb_env_set_mapsize(env, (mdb_size_t)1 << 30);
 *          if (rc == MDB_SUCCESS)
 *              rc = mdb_env_open(env, argc > 1 ? argv[1] : ".", 0, 0664);
 *          if (rc == MDB_SUCCESS)
 *              rc = greet(env);
 *          if (rc != MDB_SUCCESS)
 *              fprintf(stderr, "%s\n", mdb_strerror(rc));
 *          mdb_env_close(env);
 *          return rc == MDB_SUCCESS ? 0 : 1;
 *      }
 *  @endcode
 *
 *  Compile it with `cc greet.c -llmdb`.
 *
 *  What people trip over
 *
 *  - **mdb_txn_commit() frees the transaction even when it fails.** Do not abort it, or use it, afterwards.
 *  - **Values are lent, not given.** What a get returns points into the map or into a page that the transaction is
 *    changing. It holds until the next update in that transaction (put, delete, drop, a nested transaction), and at
 *    most until the transaction ends; in a read transaction, always until its end. Copy what you need longer. Never
 *    write to it and never free it. It may stand at any address: memcpy integers out of it.
 *  - **A long-lived read transaction makes the file grow.** Pages that its snapshot shows cannot be used again, and
 *    every commit replaces some. End or reset readers that idle. `mdb_reader_list` shows who is behind. A process
 *    that is stopped in a transaction counts as idle too.
 *  - **A thread has one read transaction at a time,** which only this thread may use, unless #MDB_NOTLS is set. Write
 *    transactions end in the thread that began them, always.
 *  - **One thread, one write transaction.** Beginning a second one would wait for itself; it gives EDEADLK.
 *  - **The map size is a limit.** A full map gives #MDB_MAP_FULL. Choose it generously: it costs addresses, not memory
 *    and not disk (the file grows as pages are used). It can be raised at any time, see mdb_env_set_mapsize().
 *  - **Do not open an environment twice in one process.** The second open gives EBUSY: POSIX record locks belong to
 *    the process, and closing one descriptor of the lock file would drop those of the other. For the same reason,
 *    **never open the lock file yourself.** Share the MDB_env between threads.
 *  - **After fork() the environment is the parent's.** In the child, calls that would use it give EPERM, and
 *    transactions and cursors from before must not be touched. The child may call mdb_env_close(), which leaves the
 *    parent unharmed, and then open the path for itself. Descriptors are closed on exec.
 *  - **Not on network file systems.** Locks and the map are not coherent between hosts, and often not within one.
 *  - **Database handles are for sharing, but opening them is not.** Open them in one thread, at start, and commit.
 *  - **Cursors of a write transaction are freed when it ends; cursors of a read transaction are not**: those outlive
 *    it and must be closed, or renewed in another one.
 *  - **Readers need to write the lock file.** Only where nobody can write (a read-only file system), or with
 *    #MDB_NOLOCK, does an open with #MDB_RDONLY do without.
 *  - **Do not copy the data file with cp while it is written to.** Use mdb_env_copy() or the mdb_copy tool.
 *  - A data file belongs to one word size and byte order: a 64-bit program refuses a 32-bit program's file.
 *
 *  Dead processes
 *
 *  A writer that dies leaves no trace: its lock is taken over by the next one and what it had not committed is gone.
 *  A reader that dies leaves its slot behind, and with it its snapshot, until somebody clears it: the library does so
 *  before it would answer #MDB_READERS_FULL or #MDB_MAP_FULL, mdb_reader_check() does it when you ask.
 *
 *  How errors work
 *
 *  Functions that return int return 0 (#MDB_SUCCESS), a negative MDB_ code, or a positive errno value of the system;
 *  mdb_strerror() explains all of them. Pointers must not be NULL unless it says so: NULL gives EINVAL. A call that
 *  fails leaves its out arguments as they were, unless it says otherwise.
 *
 *  Any call that reaches the file may fail with what the system said (EIO, ENOSPC, ENOMEM, ...); the lists below name
 *  these only where they mean something particular.
 *
 *  **In a write transaction, these leave the transaction as good as it was:** #MDB_KEYEXIST, #MDB_NOTFOUND,
 *  #MDB_BAD_VALSIZE, #MDB_INCOMPATIBLE, #MDB_BAD_DBI, #MDB_DBS_FULL, EINVAL, EACCES. After any other error the
 *  transaction has failed: every call in it gives #MDB_BAD_TXN, and all that is left is mdb_txn_abort(). The
 *  environment and what was committed before are untouched. Of nested transactions only the innermost one fails; abort
 *  it, and its parent goes on. In a read transaction an error concerns only the call that gave it.
 *
 *  Files are not trusted: whatever is read from them is checked before it is used. Damage gives #MDB_CORRUPTED from
 *  the call that meets it, never a crash; tables that do not touch the damaged pages stay readable.
 *
 *  Threads
 *
 *  An MDB_env may be used by all threads at once. A transaction, with its cursors, by one at a time. What is set up
 *  (mdb_env_create() to mdb_env_open(), opening and closing databases, compare functions) is done by one thread while
 *  no other one uses the same handle.
 */
#ifndef LMDB_H
#define LMDB_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== 1. Types ============================================================================================== */

/** Sizes, counts, page numbers and transaction ids. */
typedef size_t mdb_size_t;

/** The largest mdb_size_t. */
#define MDB_SIZE_MAX SIZE_MAX

/** Length modifier of printf and scanf for size_t. */
#define MDB_FMT_Z "z"

/** Length modifier of printf and scanf for mdb_size_t. */
#define MDB_FMT_Y MDB_FMT_Z

/** Format that prints an mdb_size_t: `"%" MDB_PRIy(u)` is decimal, `"%" MDB_PRIy(x)` hexadecimal. */
#define MDB_PRIy(t) MDB_FMT_Y #t

/** Format that scans an mdb_size_t: `"%" MDB_SCNy(u)`. */
#define MDB_SCNy(t) MDB_FMT_Y #t

/** Permissions of files that are created. */
#ifdef _MSC_VER
typedef int mdb_mode_t;
#else
typedef mode_t mdb_mode_t;
#endif

/** An open file as the system knows it: a descriptor, or a HANDLE on Windows. */
#ifdef _WIN32
typedef void *mdb_filehandle_t;
#else
typedef int mdb_filehandle_t;
#endif

/** An environment: the data file, its map, its lock file, the open databases. From mdb_env_create() to
 *  mdb_env_close(). */
typedef struct MDB_env MDB_env;

/** A transaction. From mdb_txn_begin() to mdb_txn_commit() or mdb_txn_abort(). */
typedef struct MDB_txn MDB_txn;

/** A database of an environment: a small number that mdb_dbi_open() gives. It belongs to the environment, not to the
 *  transaction. 0 is the list of free pages, which tools may read (mdb_stat(), cursors); 1 is the main database. */
typedef unsigned int MDB_dbi;

/** A position in a database. From mdb_cursor_open() to mdb_cursor_close(), or to the end of its write transaction. */
typedef struct MDB_cursor MDB_cursor;

/** A key or a value.
 *
 *  As an argument it is the caller's, is not changed unless the function says so, and is not kept after the call. It
 *  may point into memory that the library returned, the record that is being changed included.
 *  As a result it points into the database; see "Values are lent" above for how long. */
typedef struct MDB_val {
    size_t mv_size; /**< bytes. Keys: 1 to mdb_env_get_maxkeysize(). Values: 0 to 4 GiB - 1; values of a database with
                     *   #MDB_DUPSORT: 0 to mdb_env_get_maxkeysize(). */
    void *mv_data;  /**< the first byte; may be NULL if mv_size is 0 */
} MDB_val;

/** Compares two keys, or two values of one key: below, equal to or above 0 as a stands before, at or behind b. It must
 *  be a total order, depend on the bytes only, and call no function of this library. The bytes may stand at any
 *  address. */
typedef int (MDB_cmp_func)(const MDB_val *a, const MDB_val *b);

/** Would adjust pointers within a record that moves in a fixed map; see mdb_set_relfunc(). Never called. */
typedef void (MDB_rel_func)(MDB_val *item, void *oldptr, void *newptr, void *relctx);

/** Is told of a violated invariant within the library, before it aborts; see mdb_env_set_assert(). */
typedef void MDB_assert_func(MDB_env *env, const char *msg);

/** Receives a piece of text from mdb_reader_list(), with its line end; ctx is the caller's. Negative result: stop. */
typedef int (MDB_msg_func)(const char *msg, void *ctx);

/** What mdb_stat() and mdb_env_stat() tell of a database. */
typedef struct MDB_stat {
    unsigned int ms_psize;        /**< bytes of a page; one size for the whole environment */
    unsigned int ms_depth;        /**< levels of the tree; 0: empty */
    mdb_size_t ms_branch_pages;   /**< inner pages */
    mdb_size_t ms_leaf_pages;     /**< pages that hold records */
    mdb_size_t ms_overflow_pages; /**< pages of values too large to stand beside their key */
    mdb_size_t ms_entries;        /**< records: key/value pairs, so each of the values of one key counts */
} MDB_stat;

/** What mdb_env_info() tells of an environment. */
typedef struct MDB_envinfo {
    void *me_mapaddr;           /**< where the map was asked to be, with #MDB_FIXEDMAP; NULL otherwise */
    mdb_size_t me_mapsize;      /**< bytes of the map */
    mdb_size_t me_last_pgno;    /**< the highest page number in use: (me_last_pgno + 1) pages are or were used */
    mdb_size_t me_last_txnid;   /**< id of the last commit; 0: there was none */
    unsigned int me_maxreaders; /**< reader slots in all */
    unsigned int me_numreaders; /**< reader slots that were ever used since the lock file was last set up; only grows */
} MDB_envinfo;

/* ==== 2. Version ============================================================================================ */

/** Grows when programs must be changed. */
#define MDB_VERSION_MAJOR 1

/** Grows when functions are added. */
#define MDB_VERSION_MINOR 1

/** Grows when faults are repaired. */
#define MDB_VERSION_PATCH 0

/** A version as one integer that can be compared. */
#define MDB_VERINT(a, b, c) (((a) << 24) | ((b) << 16) | (c))

/** The version of this header as one integer. */
#define MDB_VERSION_FULL MDB_VERINT(MDB_VERSION_MAJOR, MDB_VERSION_MINOR, MDB_VERSION_PATCH)

/** When this version appeared: text. */
#define MDB_VERSION_DATE "2026"

/** Makes the version text out of its parts, as they are written. */
#define MDB_VERSTR(a, b, c, d) "LMDB-compatible DLMDB " #a "." #b "." #c ": (" d ")"

/** Makes the version text out of macros. */
#define MDB_VERFOO(a, b, c, d) MDB_VERSTR(a, b, c, d)

/** The version of this header as text. */
#define MDB_VERSION_STRING MDB_VERFOO(MDB_VERSION_MAJOR, MDB_VERSION_MINOR, MDB_VERSION_PATCH, MDB_VERSION_DATE)

/** The version of the library that runs; that of this header may be another one.
 *
 *  @param major, minor, patch  out: the parts; each may be NULL.
 *  @return the version as text. It lives as long as the program; do not change or free it. */
char *mdb_version(int *major, int *minor, int *patch);

/* ==== 3. Errors =============================================================================================
 * What each function returns, and when, stands at the function; here is what the codes mean, and what to do. */

/** Done. */
#define MDB_SUCCESS 0

/** The key, or the key with this value, is there already; or it does not sort behind the last one (#MDB_APPEND,
 *  #MDB_APPENDDUP). Nothing was changed. */
#define MDB_KEYEXIST (-30799)

/** There is no such record, no such database, or none behind the last one. */
#define MDB_NOTFOUND (-30798)

/** Not returned: a page that is not there is #MDB_CORRUPTED. Kept for programs that name it. */
#define MDB_PAGE_NOTFOUND (-30797)

/** The file holds what no writer could have written: damage by disk, by other programs, or a truncated file. Other
 *  records may still be readable. Stop writing, copy what can be read (mdb_dump), take the backup. */
#define MDB_CORRUPTED (-30796)

/** A commit could not be written so far that the library knows what the file holds. **The environment is of no use
 *  until it is closed.** Opening it again shows the last state that reached the disk. */
#define MDB_PANIC (-30795)

/** The data file, or the lock file, has another version of the format. */
#define MDB_VERSION_MISMATCH (-30794)

/** The file is not a data file of this kind: no valid first pages, too short, another word size or byte order. */
#define MDB_INVALID (-30793)

/** The map has no room for this change, slots of dead readers cleared. Abort; raise the limit with
 *  mdb_env_set_mapsize(), or delete: some pages are kept back so that deletes work on a full map. */
#define MDB_MAP_FULL (-30792)

/** No handle is left for another named database: see mdb_env_set_maxdbs(). */
#define MDB_DBS_FULL (-30791)

/** All reader slots are taken by living readers: see mdb_env_set_maxreaders(). */
#define MDB_READERS_FULL (-30790)

/** The system has no thread-specific key left: too many environments are open in this process. */
#define MDB_TLS_FULL (-30789)

/** The transaction has reached a real limit of what one can hold. Its size alone is none: pages are written early. */
#define MDB_TXN_FULL (-30788)

/** Not returned: a tree deeper than any can be is #MDB_CORRUPTED. Kept for programs that name it. */
#define MDB_CURSOR_FULL (-30787)

/** Not returned: a page without room is split. Kept for programs that name it. */
#define MDB_PAGE_FULL (-30786)

/** Another process made the environment larger than the map of this one. Call mdb_env_set_mapsize() with size 0. */
#define MDB_MAP_RESIZED (-30785)

/** The operation does not suit this kind of database, the record is a database (or is none), or another process
 *  made the database anew with other flags. */
#define MDB_INCOMPATIBLE (-30784)

/** The thread has a read transaction already, which holds its reader slot: see #MDB_NOTLS. */
#define MDB_BAD_RSLOT (-30783)

/** The transaction has failed before, has a nested one that lives, or is of the wrong kind for this call. */
#define MDB_BAD_TXN (-30782)

/** A key or value is too short, too long, or not as wide as its database demands. Nothing was changed. */
#define MDB_BAD_VALSIZE (-30781)

/** The database behind the handle is gone: deleted, or the handle was closed and given to another one, since the
 *  transaction began. */
#define MDB_BAD_DBI (-30780)

/** A fault of the library that it noticed itself. The transaction has failed. Please report it. */
#define MDB_PROBLEM (-30779)

/** Not returned: kept for programs that name it. */
#define MDB_DBIS_BUSY (-30778)

/** The last of the codes above; they run without gap from #MDB_KEYEXIST. */
#define MDB_LAST_ERRCODE MDB_DBIS_BUSY

/** An error in words.
 *
 *  @param err  what a function returned: 0, an MDB_ code, or an errno value. Other numbers are named as unknown.
 *  @return text; never NULL. It lives as long as the program for 0 and MDB_ codes, and until the next call of this
 *          function or of strerror() in any thread for others. Do not change or free it. */
char *mdb_strerror(int err);

/* ==== 4. Environments =======================================================================================
 * Flags of mdb_env_open(). Those marked (S) can be changed later: mdb_env_set_flags().
 *
 * Without flags a commit returns when everything is on the disk. The flags that give this up, from little to much:
 * #MDB_NOMETASYNC, #MDB_MAPASYNC, #MDB_NOSYNC. None of them endangers anything when only the program crashes. */

/** Map the file at the address where it was mapped when it was created, so that pointers stored in it stay true. The
 *  address is chosen by the system at creation and may be taken later: then open gives EBUSY. Experimental. */
#define MDB_FIXEDMAP 0x01

/** The path names the data file itself, not a directory; the lock file is the path with "-lock" behind it. */
#define MDB_NOSUBDIR 0x4000

/** (S) Do not flush anything at commit; mdb_env_sync() does. **If the system crashes, the file may be damaged beyond
 *  use**, unless the file system keeps writes in order; then the last commits are lost, nothing else. With
 *  #MDB_WRITEMAP nothing keeps them in order. */
#define MDB_NOSYNC 0x10000

/** Open for reading. The environment must exist; write transactions give EACCES. The lock file is still written to. */
#define MDB_RDONLY 0x20000

/** (S) Flush the pages of a commit but not the final step that makes it visible, which the next commit, or
 *  mdb_env_sync(), flushes too. If the system crashes the last commit may be lost; the file is whole. */
#define MDB_NOMETASYNC 0x40000

/** Change pages in the map, which is writable, instead of in memory of their own. Saves memory and copying. **A stray
 *  pointer in the program then damages the database.** Nested transactions work. All processes that write should agree
 *  on this flag: a flush by one kind does not cover what the other kind wrote. Ignored with #MDB_RDONLY. */
#define MDB_WRITEMAP 0x80000

/** (S) With #MDB_WRITEMAP: start flushing at commit, but do not wait for it. Like #MDB_NOSYNC in what a crash of the
 *  system can do. Without #MDB_WRITEMAP it has no effect. */
#define MDB_MAPASYNC 0x100000

/** Tie reader slots to transactions instead of threads. Then a thread may have many read transactions, and a read
 *  transaction may be used by one thread after the other (one at a time: the caller sees to it). Needed by programs
 *  that run many user-level threads on a system thread. Write transactions stay with their thread. */
#define MDB_NOTLS 0x200000

/** No lock file. **The caller must see to it that there is one writer at a time, and that no reader uses a snapshot
 *  whose pages a writer may take:** no read transaction may be live when a write transaction begins. Readers alone
 *  need nothing. The same environment may then be open more than once in a process. */
#define MDB_NOLOCK 0x400000

/** Tell the system not to read ahead in the map. Helps random reads when the data is larger than the memory. */
#define MDB_NORDAHEAD 0x800000

/** (S) Do not clear the unused parts of new pages. Saves a little time; **whatever the memory held before may then be
 *  written to the file.** No effect with #MDB_WRITEMAP. */
#define MDB_NOMEMINIT 0x1000000

/** Open the state before the last commit: a way back when the last one is damaged or unwanted. For writing, nobody
 *  else may have the environment open (EAGAIN); whoever opens it afterwards waits until the first commit, **which
 *  replaces the last one for good**. Closing without a commit changes nothing. #MDB_CORRUPTED if that state is not
 *  there, as in an environment without commits. */
#define MDB_PREVSNAPSHOT 0x2000000

/** Flag of mdb_env_copy2() and mdb_env_copyfd2(): leave out free pages and number the others anew. Takes more time,
 *  gives a smaller file. */
#define MDB_CP_COMPACT 0x01

/** Make an environment handle, which is not open yet.
 *
 *  @param env  out: the handle. **It must be closed with mdb_env_close(), also if mdb_env_open() fails.**
 *  @return 0, or: EINVAL (NULL), ENOMEM. */
int mdb_env_create(MDB_env **env);

/** Open an environment; create it if it is not there. A new one is written completely or, after an error or crash, is
 *  completed by the next open.
 *
 *  @param env    from mdb_env_create(), not open.
 *  @param path   a directory, which must exist; the files in it are data.mdb and lock.mdb. With #MDB_NOSUBDIR, the
 *                data file. Not kept after the call.
 *  @param flags  0 or MDB_FIXEDMAP, MDB_NOSUBDIR, MDB_NOSYNC, MDB_RDONLY, MDB_NOMETASYNC, MDB_WRITEMAP, MDB_MAPASYNC,
 *                MDB_NOTLS, MDB_NOLOCK, MDB_NORDAHEAD, MDB_NOMEMINIT, MDB_PREVSNAPSHOT, or-ed; those set by
 *                mdb_env_set_flags() are added. #MDB_FIXEDMAP and #MDB_NOSUBDIR are remembered in the file.
 *  @param mode   permissions of files that are created, less the umask.
 *  @return 0, or the following. **After an error the handle can only be closed.**
 *      EINVAL (unknown flag, NULL, or open already);
 *      EBUSY (this process has the same files open, which is judged by device and inode, not by the path; never with
 *      MDB_NOLOCK. Or: MDB_FIXEDMAP, and the address is taken);
 *      ENOENT (no such directory; MDB_RDONLY and no data file);
 *      EACCES (no permission; also MDB_RDONLY and the lock file cannot be written, though others could: MDB_NOLOCK
 *      avoids it);
 *      EAGAIN (MDB_PREVSNAPSHOT to write, and others use the environment);
 *      MDB_INVALID (not such a file), MDB_VERSION_MISMATCH, MDB_CORRUPTED;
 *      MDB_TLS_FULL, ENOMEM (also: no room for the map among the addresses), ENOSPC, or what else the system said. */
int mdb_env_open(MDB_env *env, const char *path, unsigned int flags, mdb_mode_t mode);

/** Copy an environment into a new data file while it is in use: mdb_env_copy2() without flags.
 *
 *  @param env   open.
 *  @param path  a directory without data.mdb, or the new file, as there.
 *  @return as there. */
int mdb_env_copy(MDB_env *env, const char *path);

/** Write a copy of an environment to a file that is open: mdb_env_copyfd2() without flags.
 *
 *  @param env  open.
 *  @param fd   open for writing, as there.
 *  @return as there. */
int mdb_env_copyfd(MDB_env *env, mdb_filehandle_t fd);

/** Copy an environment into a new data file while it is in use: the snapshot of a read transaction, flushed to disk.
 *  **That transaction lives as long as the copying takes**; see the remark on long-lived ones. No lock file is made.
 *
 *  @param env    open. With #MDB_NOLOCK, no writer may run meanwhile.
 *  @param path   a directory, which must exist and hold no data.mdb; or the new file, if env has #MDB_NOSUBDIR.
 *  @param flags  0 or #MDB_CP_COMPACT.
 *  @return 0, or the following; after an error there is no new file, and an existing one was not touched:
 *      EEXIST (the file is there), EINVAL (NULL, unknown flag, not open), EPERM (after fork),
 *      MDB_READERS_FULL, MDB_BAD_RSLOT (this thread is in a read transaction, and there is no MDB_NOTLS),
 *      MDB_MAP_RESIZED, MDB_CORRUPTED (met with MDB_CP_COMPACT, which walks all pages), MDB_PANIC, ENOMEM, or what
 *      the system said (ENOENT, EACCES, ENOSPC, ...). */
int mdb_env_copy2(MDB_env *env, const char *path, unsigned int flags);

/** Write a copy of an environment to a file that is open, such as a pipe: as mdb_env_copy2() in all else.
 *
 *  @param env    open.
 *  @param fd     open for writing; written from where it stands, neither flushed nor closed. A pipe is fine.
 *  @param flags  0 or #MDB_CP_COMPACT.
 *  @return 0, or as mdb_env_copy2(); also EBADF, EPIPE. After an error an unusable part may have been written. */
int mdb_env_copyfd2(MDB_env *env, mdb_filehandle_t fd, unsigned int flags);

/** Statistics of the main database as the last commit left it. For others: mdb_stat().
 *
 *  @param env   open.
 *  @param stat  out.
 *  @return 0, or: EINVAL (NULL, not open), EPERM (after fork), MDB_PANIC. */
int mdb_env_stat(MDB_env *env, MDB_stat *stat);

/** Sizes and counts of the environment as the last commit left it.
 *
 *  @param env   open.
 *  @param stat  out.
 *  @return 0, or: EINVAL (NULL, not open), EPERM (after fork). */
int mdb_env_info(MDB_env *env, MDB_envinfo *stat);

/** Flush what was committed to the disk. Only needed with #MDB_NOSYNC, #MDB_NOMETASYNC or #MDB_MAPASYNC. Waits for
 *  the disk, not for transactions.
 *
 *  @param env    open for writing.
 *  @param force  0: as the flags say, so nothing with MDB_NOSYNC, and no waiting with MDB_MAPASYNC. Else: flush and
 *                wait in any case.
 *  @return 0, or: EACCES (open with MDB_RDONLY), EINVAL (NULL, not open), EPERM (after fork), EIO, ... */
int mdb_env_sync(MDB_env *env, int force);

/** Close an environment and free the handle. The files stay.
 *
 *  **All its transactions must have ended, and all cursors be closed, first**; nothing that came from it may be used
 *  afterwards. Threads that read may go on living. Call it once. Not flushed: see mdb_env_sync(). In a child process,
 *  after fork, it frees the child's copy and leaves the parent's transactions, locks and map alone.
 *
 *  @param env  open, or not (yet); NULL does nothing. */
void mdb_env_close(MDB_env *env);

/** Switch flags on or off. Takes effect for commits to come.
 *
 *  @param env    open, or not yet.
 *  @param flags  MDB_NOSYNC, MDB_NOMETASYNC, MDB_MAPASYNC, MDB_NOMEMINIT, or-ed.
 *  @param onoff  0: off. Else: on.
 *  @return 0, or: EINVAL (NULL, another flag; nothing was changed). */
int mdb_env_set_flags(MDB_env *env, unsigned int flags, int onoff);

/** The flags in force, as mdb_env_open() takes them.
 *
 *  @param env    open, or not yet.
 *  @param flags  out.
 *  @return 0, or: EINVAL (NULL). */
int mdb_env_get_flags(MDB_env *env, unsigned int *flags);

/** The path that was given to mdb_env_open().
 *
 *  @param env   open, or not yet.
 *  @param path  out: a string that belongs to env and lives as long; NULL before it is open. Do not change it.
 *  @return 0, or: EINVAL (NULL). */
int mdb_env_get_path(MDB_env *env, const char **path);

/** The descriptor of the data file, for instance to close it in a child process.
 *
 *  @param env  open, or not yet.
 *  @param fd   out: the descriptor, which stays env's (do not close, lock, or write to it); -1 before it is open.
 *  @return 0, or: EINVAL (NULL). */
int mdb_env_get_fd(MDB_env *env, mdb_filehandle_t *fd);

/** Set the size of the map, which is how large the data file may become. It may be called at any time, also to grow
 *  after #MDB_MAP_FULL, and while read transactions live in this process: **each keeps the map it began with, and its
 *  pointers stay valid, until it ends.** Transactions that begin later use the new one. (So both maps take addresses
 *  for a while.)
 *
 *  The size is remembered in the file by the next commit if it is larger than what stands there. When another process
 *  has enlarged its map and written beyond the end of ours, mdb_txn_begin() gives #MDB_MAP_RESIZED; then call this
 *  with size 0.
 *
 *  @param env   open, or not yet.
 *  @param size  bytes; a multiple of the system's page size. Less than what is in use: as much as is in use. 0: what
 *               the file says, which adopts what another process has set; for a new environment, 1 MiB. Without this
 *               call it is as with 0.
 *  @return 0, or: EINVAL (NULL, or **a write transaction lives in this process**; nothing was changed),
 *          EPERM (after fork), ENOMEM (no room among the addresses; the old map stays). */
int mdb_env_set_mapsize(MDB_env *env, mdb_size_t size);

/** Choose the page size of an environment that is going to be created. Has no effect on one that exists.
 *
 *  Small pages make small commits cheaper, large ones hold longer values beside their keys and make flatter trees.
 *  The default is the system's page size, 32768 at most.
 *
 *  @param env   not open yet.
 *  @param size  bytes; a power of two from 512 to 32768. Below 2048, keys must be shorter than 511 bytes: see
 *               mdb_env_get_maxkeysize().
 *  @return 0, or: EINVAL (NULL, not such a size, or open already). */
int mdb_env_set_pagesize(MDB_env *env, int size);

/** Set how many reader slots there are, for all processes together. The process that sets up the lock file decides;
 *  others take what is there. A slot is held by a read transaction with #MDB_NOTLS, and otherwise by a thread, from its
 *  first read transaction until it ends or the environment is closed.
 *
 *  @param env      not open yet.
 *  @param readers  at least 1; default 126. 64 bytes each.
 *  @return 0, or: EINVAL (NULL, 0, or open already). */
int mdb_env_set_maxreaders(MDB_env *env, unsigned int readers);

/** How many reader slots there are.
 *
 *  @param env      open; or not yet, then what was set.
 *  @param readers  out.
 *  @return 0, or: EINVAL (NULL). */
int mdb_env_get_maxreaders(MDB_env *env, unsigned int *readers);

/** Set how many named databases can be open at a time in this process. Without it there are none, only the main one.
 *
 *  @param env  not open yet.
 *  @param dbs  number of named databases; default 0. A few hundred cost nothing worth mentioning.
 *  @return 0, or: EINVAL (NULL, or open already). */
int mdb_env_set_maxdbs(MDB_env *env, MDB_dbi dbs);

/** How long a key may be, and a value of a database with #MDB_DUPSORT.
 *
 *  @param env  open; or not yet, then for the page size that was set.
 *  @return bytes: 511; on pages below 2048 bytes ((page size - 16) / 2, made even by rounding down) - 58, so 446 at
 *          1024 and 190 at 512. NULL: 0. */
int mdb_env_get_maxkeysize(MDB_env *env);

/** Attach a pointer of the caller's to the environment.
 *
 *  @param env  open, or not yet.
 *  @param ctx  whatever; the library neither reads nor frees it. NULL: nothing (the default).
 *  @return 0, or: EINVAL (env NULL). */
int mdb_env_set_userctx(MDB_env *env, void *ctx);

/** The pointer that mdb_env_set_userctx() attached.
 *
 *  @param env  open, or not yet.
 *  @return the pointer; NULL: none was, or env is NULL. */
void *mdb_env_get_userctx(MDB_env *env);

/** Have a function called when the library finds one of its invariants broken, which is a fault of the library, never
 *  of data. Without one, the message is printed to stderr and the program is aborted. A library compiled with NDEBUG
 *  does not look.
 *
 *  @param env   open, or not yet.
 *  @param func  it may log, and should not return; the program is aborted if it does. NULL: none (the default).
 *  @return 0, or: EINVAL (env NULL). */
int mdb_env_set_assert(MDB_env *env, MDB_assert_func *func);

/* ==== 5. Transactions =======================================================================================
 *
 *      begin --> live --> commit or abort: the handle is gone
 *      begin (RDONLY) --> live --> reset --> parked --> renew --> live ...    parked, too, ends with abort (or commit)
 *
 * A nested transaction is begun inside a live write transaction, to any depth. While it lives its parent can neither
 * read nor write (MDB_BAD_TXN), and the parent's cursors rest. Commit gives its changes to the parent, abort takes
 * them back: also databases that were created, dropped or emptied in it. Nothing is on disk before the outermost
 * transaction commits. */

/** Begin a transaction. A write transaction waits until the one before it, in whatever process, has ended; a read
 *  transaction waits for nothing.
 *
 *  @param env     open.
 *  @param parent  NULL; or a live write transaction of env in this thread: begin one nested in it.
 *  @param flags   0: write. #MDB_RDONLY: read. #MDB_NOSYNC and #MDB_NOMETASYNC: treat this one commit as if the
 *                 environment had the flag.
 *  @param txn     out: the handle. **To be ended by mdb_txn_commit() or mdb_txn_abort(), by this thread** (a read
 *                 transaction with #MDB_NOTLS: by any). It must end before the environment is closed.
 *  @return 0, or the following; nothing is held then:
 *      EINVAL (NULL, not open, parent is read-only or has ended), EPERM (after fork),
 *      EACCES (to write, and env is open with MDB_RDONLY),
 *      EDEADLK (this thread has a write transaction in env, and parent is NULL),
 *      MDB_BAD_TXN (parent has failed or has a nested one already; MDB_RDONLY with a parent),
 *      MDB_BAD_RSLOT (this thread has a live read transaction, and there is no MDB_NOTLS),
 *      MDB_READERS_FULL (even after slots of dead processes were cleared),
 *      MDB_MAP_RESIZED (another process grew the environment: mdb_env_set_mapsize(env, 0), then try again),
 *      MDB_PANIC, MDB_CORRUPTED, MDB_TLS_FULL, ENOMEM. */
int mdb_txn_begin(MDB_env *env, MDB_txn *parent, unsigned int flags, MDB_txn **txn);

/** The environment of a transaction.
 *
 *  @param txn  live or reset.
 *  @return the handle that mdb_txn_begin() got; NULL if txn is NULL. */
MDB_env *mdb_txn_env(MDB_txn *txn);

/** The number of a transaction's state.
 *
 *  @param txn  live or reset.
 *  @return for a reader: the id of the commit that it sees (of several readers with one id, all see the same); for a
 *          writer, nested ones alike: the id that its commit will have, which is one higher than the last. 0 if txn is
 *          NULL. A reader of an environment without commits has 0 too. */
mdb_size_t mdb_txn_id(MDB_txn *txn);

/** Make the changes of a transaction permanent and visible, all or none; end it. A read transaction just ends.
 *
 *  **The handle is freed in every case, also when this fails: then nothing was changed, and there is nothing left to
 *  abort.** So are the cursors of a write transaction. A nested transaction that lives is committed first. Committing a
 *  nested transaction that has failed makes its parent fail too.
 *
 *  Databases opened in it stay open, for all transactions of the process.
 *
 *  @param txn  live; reset, if read-only. To be called by the thread that began it.
 *  @return 0, or the following; the writers' lock is released, and the next write transaction can begin:
 *      MDB_BAD_TXN (it has failed before), MDB_MAP_FULL (no room to note the pages that became free), MDB_TXN_FULL,
 *      MDB_CORRUPTED, EINVAL (NULL), ENOSPC, EIO, ENOMEM;
 *      MDB_PANIC or EIO from the very last write: **it is unknown which of the two states is on the disk**; the
 *      environment gives MDB_PANIC until it is closed. */
int mdb_txn_commit(MDB_txn *txn);

/** Take all changes of a transaction back; end it and free the handle.
 *
 *  Cursors of a write transaction are freed; those of a read transaction are not, see mdb_cursor_renew(). A nested
 *  transaction that lives is aborted first. Databases opened in it are closed, their handles not valid.
 *
 *  @param txn  live, failed or reset; NULL does nothing. To be called by the thread that began it. */
void mdb_txn_abort(MDB_txn *txn);

/** Park a read transaction: give up its snapshot, so that pages can be used again, but keep the handle and the reader
 *  slot, so that mdb_txn_renew() is cheap. What it returned does not hold any more; its cursors wait for
 *  mdb_cursor_renew().
 *
 *  @param txn  read-only, live; other ones are left as they are, and NULL does nothing. **It still has to be ended with
 *              mdb_txn_abort().** Databases that were opened in it are closed. */
void mdb_txn_reset(MDB_txn *txn);

/** Take a parked read transaction into use again, with the newest snapshot.
 *
 *  @param txn  read-only, reset.
 *  @return 0, or the following; it stays parked:
 *      EINVAL (NULL, not reset, not read-only), EPERM (after fork), MDB_MAP_RESIZED, MDB_PANIC, MDB_CORRUPTED;
 *      without MDB_NOTLS also MDB_BAD_RSLOT (this thread has another live read transaction), MDB_READERS_FULL. */
int mdb_txn_renew(MDB_txn *txn);

/* ==== 6. Databases ==========================================================================================
 * The main database (name NULL) is always there. Named ones are entries of it, whose keys are the names; so the names
 * are found by walking the main database, and keys of your own in it must be others. An entry that is a database can
 * be read, but neither put nor deleted as a record (MDB_INCOMPATIBLE).
 *
 * Flags of mdb_dbi_open(): how a database sorts and stores. All but #MDB_CREATE are kept with it for its life.
 *
 * Keys, and the values of one key, sort by their bytes as memcmp() does, the shorter first if it begins the longer,
 * unless a flag or mdb_set_compare() says otherwise. */

/** Keys are compared from their last byte to their first. */
#define MDB_REVERSEKEY 0x02

/** A key may have many values, which are kept sorted, each once. Values are then limited like keys in length, but may
 *  be empty: an empty value is one like any other. */
#define MDB_DUPSORT 0x04

/** Keys are unsigned integers in the machine's byte order: unsigned int (4 bytes) or size_t (8 bytes). **The first key
 *  decides for one width; any other is refused with #MDB_BAD_VALSIZE**, when reading too. */
#define MDB_INTEGERKEY 0x08

/** With #MDB_DUPSORT: all values of a key have one width (of 1 byte or more) and are stored without gaps, for
 *  #MDB_GET_MULTIPLE and #MDB_MULTIPLE. **A value of another width is refused with #MDB_BAD_VALSIZE.** */
#define MDB_DUPFIXED 0x10

/** With #MDB_DUPSORT: values are integers, as #MDB_INTEGERKEY says of keys. Best with #MDB_DUPFIXED. */
#define MDB_INTEGERDUP 0x20

/** With #MDB_DUPSORT: values are compared from their last byte to their first. */
#define MDB_REVERSEDUP 0x40

/** Create the database if it is not there. Not kept. */
#define MDB_CREATE 0x40000

/** Former name of mdb_dbi_open(). */
#define mdb_open(txn, name, flags, dbi) mdb_dbi_open(txn, name, flags, dbi)

/** Former name of mdb_dbi_close(). */
#define mdb_close(env, dbi) mdb_dbi_close(env, dbi)

/** Open a database. The handle belongs to the environment and may be used in all its transactions and threads, from
 *  then to mdb_dbi_close(). If it is open already, the same handle comes back.
 *
 *  **Only one transaction at a time in a process may open databases; and until that has ended with a commit, the new
 *  handle is its own.** If it aborts (or resets), the handle is closed. A read transaction will do, with commit. Best
 *  is to open all at the start of the program. A named database needs mdb_env_set_maxdbs().
 *
 *  @param txn    live.
 *  @param name   text that ends with NUL; NULL: the main database. Not kept after the call.
 *  @param flags  0 or MDB_REVERSEKEY, MDB_DUPSORT, MDB_INTEGERKEY, MDB_DUPFIXED, MDB_INTEGERDUP, MDB_REVERSEDUP,
 *                MDB_CREATE, or-ed. For a named database that exists they are not looked at: what was stored when it
 *                was made rules (mdb_dbi_flags()). For the main database they are added to the stored ones: **do so
 *                while it is empty**, for records that are there are not sorted anew. MDB_DUPFIXED, MDB_INTEGERDUP
 *                and MDB_REVERSEDUP have no effect without MDB_DUPSORT.
 *  @param dbi    out: the handle.
 *  @return 0, or the following:
 *      EINVAL (NULL, unknown flag, txn ended), MDB_BAD_TXN, MDB_BAD_VALSIZE (name empty, or longer than a key),
 *      MDB_NOTFOUND (not there, and no MDB_CREATE), EACCES (to be created, in a read transaction),
 *      MDB_DBS_FULL, MDB_INCOMPATIBLE (the name is the key of a plain record; or named databases cannot be: the main
 *      one has MDB_DUPSORT or MDB_INTEGERKEY), MDB_MAP_FULL, MDB_TXN_FULL, MDB_CORRUPTED, ENOMEM. */
int mdb_dbi_open(MDB_txn *txn, const char *name, unsigned int flags, MDB_dbi *dbi);

/** Statistics of a database, as txn sees it.
 *
 *  @param txn   live.
 *  @param dbi   from mdb_dbi_open(); 0 is the list of free pages.
 *  @param stat  out.
 *  @return 0, or: EINVAL (NULL, not a handle, txn ended), MDB_BAD_TXN, MDB_BAD_DBI, MDB_INCOMPATIBLE (made anew with
 *          other flags by another process), MDB_CORRUPTED, ENOMEM. */
int mdb_stat(MDB_txn *txn, MDB_dbi dbi, MDB_stat *stat);

/** The flags that are stored with a database, without #MDB_CREATE.
 *
 *  @param txn    live.
 *  @param dbi    from mdb_dbi_open().
 *  @param flags  out.
 *  @return 0, or: EINVAL (NULL, not a handle, txn ended), MDB_BAD_TXN. */
int mdb_dbi_flags(MDB_txn *txn, MDB_dbi dbi, unsigned int *flags);

/** Close a database handle; its number may then be given to another database. Seldom needed: mdb_env_close() does it
 *  for all.
 *
 *  **No transaction of any thread may be using it, and none may have changed it and not ended.** The library cannot
 *  see this and does not check. mdb_set_compare() is forgotten.
 *
 *  @param env  open.
 *  @param dbi  from mdb_dbi_open(); 0, 1 and what is no handle do nothing. */
void mdb_dbi_close(MDB_env *env, MDB_dbi dbi);

/** Empty a database, or delete it. Its pages become free with the commit. Works on a full map.
 *
 *  @param txn  live, for writing. Cursors in the database lose their place.
 *  @param dbi  from mdb_dbi_open().
 *  @param del  0: empty it; handle and flags stay. 1: delete it **and close the handle**; if the transaction aborts,
 *              the database is there again, to be opened anew. The main database is emptied in either case, and the
 *              named databases in it are deleted with their handles.
 *  @return 0, or: EINVAL (NULL, not a handle, another del, txn ended), EACCES (read transaction), MDB_BAD_TXN,
 *          MDB_BAD_DBI, MDB_INCOMPATIBLE, MDB_MAP_FULL, MDB_TXN_FULL, MDB_CORRUPTED, ENOMEM. */
int mdb_drop(MDB_txn *txn, MDB_dbi dbi, int del);

/** Have keys compared by a function of the caller's.
 *
 *  **Set it right after mdb_dbi_open(), before anything is read or written, the same function in every process and
 *  every time:** it is not stored in the file, and a database searched by another order than it was written in shows
 *  nothing but nonsense. It holds until the handle is closed, for all transactions. The tools do not know it.
 *
 *  @param txn  live.
 *  @param dbi  from mdb_dbi_open().
 *  @param cmp  is called by all threads that use the database. NULL: the order that the flags say.
 *  @return 0, or: EINVAL (txn NULL or ended, not a handle). */
int mdb_set_compare(MDB_txn *txn, MDB_dbi dbi, MDB_cmp_func *cmp);

/** Have the values of one key compared by a function of the caller's: as mdb_set_compare() in all else.
 *
 *  @param txn  live.
 *  @param dbi  from mdb_dbi_open(); has an effect with #MDB_DUPSORT.
 *  @param cmp  NULL: the order that the flags say.
 *  @return 0, or: EINVAL (txn NULL or ended, not a handle). */
int mdb_set_dupsort(MDB_txn *txn, MDB_dbi dbi, MDB_cmp_func *cmp);

/** Set a function for records that hold pointers, with #MDB_FIXEDMAP. **It is never called**: kept for programs that
 *  set one.
 *
 *  @param txn  live.
 *  @param dbi  from mdb_dbi_open().
 *  @param rel  may be NULL.
 *  @return 0, or: EINVAL (txn NULL or ended, not a handle). */
int mdb_set_relfunc(MDB_txn *txn, MDB_dbi dbi, MDB_rel_func *rel);

/** Set the last argument of the function above. **It is never called**: kept for programs that set one.
 *
 *  @param txn  live.
 *  @param dbi  from mdb_dbi_open().
 *  @param ctx  may be NULL.
 *  @return 0, or: EINVAL (txn NULL or ended, not a handle). */
int mdb_set_relctx(MDB_txn *txn, MDB_dbi dbi, void *ctx);

/* ==== 7. Reading and writing ================================================================================
 * Flags of mdb_put() and mdb_cursor_put(); (C): of the latter only. */

/** Do not replace: if the key is there, give #MDB_KEYEXIST and **point data to the value that stands there** (the first
 *  one, with #MDB_DUPSORT). */
#define MDB_NOOVERWRITE 0x10

/** With #MDB_DUPSORT: if the key has this value already, give #MDB_KEYEXIST; without this flag that is a success which
 *  changes nothing. For mdb_cursor_del(): delete all values of the key. No effect on other databases. */
#define MDB_NODUPDATA 0x20

/** (C) Replace the value of the record on which the cursor stands. See mdb_cursor_put(). */
#define MDB_CURRENT 0x40

/** Make room for a value of data->mv_size bytes, without copying one, and point data->mv_data to it. **Write the value
 *  there before the next update in this transaction, and before its end; until then the bytes are undefined.** The one
 *  case in which you may write to memory of the library. Not with #MDB_DUPSORT, where values must be known to be
 *  sorted (#MDB_INCOMPATIBLE). */
#define MDB_RESERVE 0x10000

/** The key is greater than all there are: put it at the end without searching, and fill pages up. If it is not,
 *  #MDB_KEYEXIST, and nothing was changed. For loading sorted data. */
#define MDB_APPEND 0x20000

/** With #MDB_DUPSORT: the value is greater than all of its key; else as #MDB_APPEND. */
#define MDB_APPENDDUP 0x40000

/** (C) With #MDB_DUPFIXED: put many values of one key. See mdb_cursor_put(). */
#define MDB_MULTIPLE 0x80000

/** Get the value of a key: the first one, with #MDB_DUPSORT.
 *
 *  @param txn   live.
 *  @param dbi   from mdb_dbi_open().
 *  @param key   what to look for. One that is longer than any can be is not found.
 *  @param data  out: the value, **in memory of the library: it holds until the next update in this transaction, or its
 *               end, may stand at any address, must not be written to.**
 *  @return 0, or: MDB_NOTFOUND, MDB_BAD_VALSIZE (key empty; not of the width of an MDB_INTEGERKEY database),
 *          EINVAL (NULL, not a handle, txn ended), MDB_BAD_TXN, MDB_BAD_DBI, MDB_INCOMPATIBLE (made anew with other
 *          flags by another process), MDB_CORRUPTED, ENOMEM. */
int mdb_get(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data);

/** Put a record: a new key, or a new value in place of the old one; with #MDB_DUPSORT, one more value of the key.
 *
 *  Pointers that this transaction returned before do not hold any more. key and data may be such pointers.
 *  A put that fails leaves the old value, whether or not the transaction goes on.
 *
 *  @param txn    live, for writing.
 *  @param dbi    from mdb_dbi_open().
 *  @param key    1 to mdb_env_get_maxkeysize() bytes.
 *  @param data   the value. Changed only with MDB_RESERVE, and when MDB_NOOVERWRITE finds the key.
 *  @param flags  0 or MDB_NOOVERWRITE, MDB_NODUPDATA, MDB_RESERVE, MDB_APPEND, MDB_APPENDDUP, or-ed.
 *  @return 0, or:
 *      with the transaction as good as before: MDB_KEYEXIST (as the flags say), MDB_BAD_VALSIZE (size of key or value,
 *      see MDB_val; width, see MDB_INTEGERKEY and MDB_DUPFIXED), EINVAL (NULL, unknown flag, not a handle, txn ended),
 *      EACCES (read transaction), MDB_INCOMPATIBLE (the key is a named database; MDB_RESERVE with MDB_DUPSORT),
 *      MDB_BAD_DBI;
 *      with the transaction failed, only to be aborted: **MDB_MAP_FULL (from the very call that finds no room)**,
 *      MDB_TXN_FULL, MDB_CORRUPTED, ENOMEM, ENOSPC, EIO; MDB_BAD_TXN (it had failed, or has a nested one). */
int mdb_put(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data, unsigned int flags);

/** Delete a key with all its values; or, with #MDB_DUPSORT, one value of it. Works on a full map: pages are kept back
 *  for it.
 *
 *  @param txn   live, for writing.
 *  @param dbi   from mdb_dbi_open().
 *  @param key   what to delete.
 *  @param data  with MDB_DUPSORT: the value to delete; NULL: all of them. Without: not looked at, may be NULL.
 *  @return 0, or:
 *      with the transaction as good as before: MDB_NOTFOUND (no such key, or not with this value), MDB_BAD_VALSIZE,
 *      EINVAL (NULL, not a handle, txn ended), EACCES (read transaction), MDB_INCOMPATIBLE (the key is a named
 *      database: mdb_drop()), MDB_BAD_DBI;
 *      with the transaction failed: as mdb_put(). */
int mdb_del(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data);

/* ==== 8. Cursors ============================================================================================
 * A cursor stands on a record, or nowhere: new, renewed, or its database emptied. It stays on its record while other
 * cursors and mdb_put(), mdb_del() change the database around it.
 *
 * When its record is deleted, by whomever, it stands where the record was: **#MDB_NEXT and #MDB_GET_CURRENT give the
 * record that took the place, which is the one behind; #MDB_PREV the one in front.** So a loop of #MDB_NEXT and
 * mdb_cursor_del() meets each record once.
 *
 * **When #MDB_NEXT gives #MDB_NOTFOUND the cursor rests on the last record** (and with #MDB_PREV on the first):
 * #MDB_GET_CURRENT gives that record, #MDB_PREV the one in front of it, and #MDB_NEXT one that was put behind it
 * meanwhile.
 *
 * With #MDB_DUPSORT each key/value pair is a record of its own; those of one key stand in the order of the values. */

/** What mdb_cursor_get() does. "Set" says which of key and data are out arguments; both, if nothing is said.
 *
 *  (D): only with #MDB_DUPSORT, (F): only with #MDB_DUPFIXED too; #MDB_INCOMPATIBLE on other databases.
 *  (P): the cursor must stand on a record, else EINVAL. */
typedef enum MDB_cursor_op {
    MDB_FIRST,          /**< To the first record. */
    MDB_FIRST_DUP,      /**< (D, P) To the first value of this key. */
    MDB_GET_BOTH,       /**< (D) To the record with this key and this value. Sets data. */
    MDB_GET_BOTH_RANGE, /**< (D) To the first value of this key that is not less than data. Sets data. If there is
                         *   none, MDB_NOTFOUND, but the cursor stands on the key, for #MDB_LAST_DUP. */
    MDB_GET_CURRENT,    /**< (P) Stay here. MDB_NOTFOUND behind the last record. */
    MDB_GET_MULTIPLE,   /**< (F, P) Get many values of this key at once: data is an array of all values on this page
                         *   of the set, **also of those in front of the cursor**; mv_size is a multiple of the width.
                         *   The cursor goes to the last of them. Sets data. From the first value on, and then with
                         *   #MDB_NEXT_MULTIPLE, this delivers the whole set. */
    MDB_LAST,           /**< To the last record. */
    MDB_LAST_DUP,       /**< (D, P) To the last value of this key. */
    MDB_NEXT,           /**< To the next record; from nowhere, to the first. */
    MDB_NEXT_DUP,       /**< To the next value of this key; MDB_NOTFOUND behind the last. Else as MDB_NEXT. */
    MDB_NEXT_MULTIPLE,  /**< (F) As #MDB_GET_MULTIPLE, with the next page of this key's values; MDB_NOTFOUND behind
                         *   the last. */
    MDB_NEXT_NODUP,     /**< To the first value of the next key. Else as MDB_NEXT. */
    MDB_PREV,           /**< To the record in front; from nowhere, to the last. */
    MDB_PREV_DUP,       /**< To the value of this key in front; MDB_NOTFOUND before the first. Else as MDB_PREV. */
    MDB_PREV_NODUP,     /**< To the last value of the key in front. Else as MDB_PREV. */
    MDB_SET,            /**< To this key, at its first value. Sets data; **leaves key as it is.** */
    MDB_SET_KEY,        /**< To this key, at its first value. Sets key, which then points into the database, and
                         *   data. */
    MDB_SET_RANGE,      /**< To the first key that is not less than key, at its first value. If there is none,
                         *   MDB_NOTFOUND, and the cursor stands behind the last record: MDB_PREV gives that. */
    MDB_PREV_MULTIPLE   /**< (F) As #MDB_GET_MULTIPLE, with the page in front; MDB_NOTFOUND before the first. */
} MDB_cursor_op;

/** Open a cursor, which stands nowhere.
 *
 *  @param txn     live. **In a write transaction, the end of the transaction frees the cursor: do not use or close it
 *                 then. In a read transaction, nothing but mdb_cursor_close() does, before or after the end.**
 *  @param dbi     from mdb_dbi_open(); 0 to read the list of free pages. The cursor must be closed before the handle.
 *  @param cursor  out: the handle.
 *  @return 0, or: EINVAL (NULL, not a handle, txn ended; 0 in a write transaction), MDB_BAD_TXN, MDB_BAD_DBI,
 *          MDB_INCOMPATIBLE (made anew with other flags by another process), MDB_CORRUPTED, ENOMEM. */
int mdb_cursor_open(MDB_txn *txn, MDB_dbi dbi, MDB_cursor **cursor);

/** Close a cursor and free the handle.
 *
 *  @param cursor  NULL does nothing. **Of a write transaction: only while that lives.** Of a read transaction: also
 *                 after its end, but before the environment is closed. */
void mdb_cursor_close(MDB_cursor *cursor);

/** Use a cursor again in another read transaction, or in the same one after mdb_txn_renew(). It then stands nowhere.
 *
 *  @param txn     live, read-only, of the environment in which the cursor was opened.
 *  @param cursor  opened in a read transaction, which may have ended. It stays in the same database.
 *  @return 0, or the following; the cursor can be closed or renewed again:
 *      EINVAL (NULL, txn ended, not a handle in txn, or one of the two is not read-only), MDB_BAD_TXN, MDB_BAD_DBI,
 *      MDB_INCOMPATIBLE, MDB_CORRUPTED, ENOMEM. */
int mdb_cursor_renew(MDB_txn *txn, MDB_cursor *cursor);

/** The transaction of a cursor.
 *
 *  @param cursor  open.
 *  @return the handle; **if the transaction has ended, one that must not be used.** NULL if cursor is NULL. */
MDB_txn *mdb_cursor_txn(MDB_cursor *cursor);

/** The database of a cursor.
 *
 *  @param cursor  open.
 *  @return the handle. 0 if cursor is NULL. */
MDB_dbi mdb_cursor_dbi(MDB_cursor *cursor);

/** Move a cursor and get the record there.
 *
 *  @param cursor  of a live transaction.
 *  @param key     in, for the operations that look for one; out, as the operation says. NULL if it is not wanted.
 *  @param data    in, for MDB_GET_BOTH and MDB_GET_BOTH_RANGE; out: the value. NULL if it is not wanted.
 *                 What is set **holds until the next update in this transaction, or its end**, as mdb_get() says.
 *  @param op      what to do: MDB_cursor_op.
 *  @return 0, or the following; after MDB_NOTFOUND from MDB_SET, MDB_SET_KEY or MDB_GET_BOTH the cursor must be placed
 *      anew, after others it stands as the operation says:
 *      MDB_NOTFOUND, MDB_BAD_VALSIZE (key empty; not of the width that the database demands),
 *      EINVAL (unknown op; NULL that is needed; stands nowhere; txn ended), MDB_INCOMPATIBLE, MDB_BAD_TXN,
 *      MDB_BAD_DBI, MDB_CORRUPTED, ENOMEM. */
int mdb_cursor_get(MDB_cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op);

/** Put a record and place the cursor on it; or replace the one on which the cursor stands. Sorted input, or input near
 *  the record before, is faster this way than with mdb_put().
 *
 *  With #MDB_CURRENT the value of the record on which the cursor stands is replaced by data. key must be given and be
 *  the key of that record. It saves the search; **another size than before is done as a delete and an insert.** With
 *  #MDB_DUPSORT that is also so if the new value belongs at another place among those of its key.
 *
 *  With #MDB_MULTIPLE **data is an array of two**: data[0].mv_size is the width of one value, data[0].mv_data the
 *  first of them, without gaps; data[1].mv_size is how many there are, and on return how many are done. data[1].mv_data
 *  is not used; data[0] may have changed on return. Values that the key has already are skipped, and count as done:
 *  after a success all are there. 0 values: nothing is stored. It may be combined:
 *  - with #MDB_NODUPDATA it stops at the first one that is there: #MDB_KEYEXIST, and data[1].mv_size tells how many
 *    were stored before it;
 *  - with #MDB_APPENDDUP **all or none** are stored: they must ascend, and begin behind the last one that is there,
 *    else #MDB_KEYEXIST, and data[1].mv_size is 0.
 *
 *  @param cursor  of a live write transaction.
 *  @param key     as for mdb_put().
 *  @param data    as for mdb_put(), but for MDB_MULTIPLE.
 *  @param flags   0 or MDB_CURRENT, MDB_NOOVERWRITE, MDB_NODUPDATA, MDB_RESERVE, MDB_APPEND, MDB_APPENDDUP,
 *                 MDB_MULTIPLE, or-ed.
 *  @return 0, or the following; after an error that leaves the transaction good the cursor stands at the key or near
 *      it, so place it anew. As mdb_put(), and:
 *      EINVAL (MDB_CURRENT, and the cursor stands nowhere), MDB_NOTFOUND (MDB_CURRENT behind the last record),
 *      MDB_INCOMPATIBLE (MDB_MULTIPLE without MDB_DUPFIXED; data[1].mv_size is 0 then). */
int mdb_cursor_put(MDB_cursor *cursor, MDB_val *key, MDB_val *data, unsigned int flags);

/** Delete the record on which the cursor stands. **The cursor then stands on the one that took the place**: see above.
 *
 *  @param cursor  of a live write transaction.
 *  @param flags   0; or #MDB_NODUPDATA: the key with all its values.
 *  @return 0, or:
 *      with the transaction as good as before: EINVAL (NULL, unknown flag, stands nowhere, txn ended), MDB_NOTFOUND
 *      (behind the last record), EACCES (read transaction), MDB_INCOMPATIBLE (the record is a named database:
 *      mdb_drop()), MDB_BAD_DBI;
 *      with the transaction failed: as mdb_put(). */
int mdb_cursor_del(MDB_cursor *cursor, unsigned int flags);

/** How many values the key has on which the cursor stands. Costs nothing: they are not walked.
 *
 *  @param cursor  in a database with #MDB_DUPSORT.
 *  @param countp  out: 1 or more.
 *  @return 0, or: EINVAL (NULL, stands nowhere, txn ended), MDB_NOTFOUND (behind the last record), MDB_INCOMPATIBLE
 *          (no MDB_DUPSORT), MDB_BAD_TXN, MDB_BAD_DBI, MDB_CORRUPTED. */
int mdb_cursor_count(MDB_cursor *cursor, mdb_size_t *countp);

/* ==== 9. Comparing ========================================================================================== */

/** Compare two keys in the order of a database: by its flags, or by its function. They need not be in it, and may have
 *  any size.
 *
 *  @param txn   live.
 *  @param dbi   from mdb_dbi_open().
 *  @param a, b  the keys.
 *  @return below, equal to or above 0, as a stands before, at or behind b; also 0 if an argument is not valid. */
int mdb_cmp(MDB_txn *txn, MDB_dbi dbi, const MDB_val *a, const MDB_val *b);

/** Compare two values in the order that a database with #MDB_DUPSORT gives to values of one key.
 *
 *  @param txn   live.
 *  @param dbi   from mdb_dbi_open().
 *  @param a, b  the values.
 *  @return as mdb_cmp(); also 0 if the database has no MDB_DUPSORT. */
int mdb_dcmp(MDB_txn *txn, MDB_dbi dbi, const MDB_val *a, const MDB_val *b);

/* ==== 10. Readers =========================================================================================== */

/** Tell who reads: a line of headings, then a line for each slot that is taken with process id, thread, and the id of
 *  the snapshot or "-" if it has none at the moment. The reader with the lowest id is the one that keeps pages from
 *  being used again. If there are no readers, or there is no lock file, a line says so.
 *
 *  @param env   open.
 *  @param func  is called with each line.
 *  @param ctx   is handed to func; may be NULL.
 *  @return 0 or more; negative: what func returned to stop it, or -1 if env or func is NULL or env is not open. */
int mdb_reader_list(MDB_env *env, MDB_msg_func *func, void *ctx);

/** Clear the slots of processes that died while reading, so that the pages of their snapshots can be used again. The
 *  library does so before it gives #MDB_READERS_FULL or #MDB_MAP_FULL; call it now and then if readers may crash and
 *  the file should not grow until then.
 *
 *  @param env   open.
 *  @param dead  out: how many were cleared; NULL if it is not wanted.
 *  @return 0, or: EINVAL (env NULL or not open), EPERM (after fork), or what the system said. */
int mdb_reader_check(MDB_env *env, int *dead);

#ifdef __cplusplus
}
#endif

#endif
