/** @file mdb_os.h
 * What differs between systems: files, maps, locks, and who we are.
 *
 * Knows nothing of environments and transactions. Everything here is POSIX, with Linux's own calls where they are better
 * and something else does where they are missing. Another system is a matter of this file: it needs the same names with
 * the same meaning, over HANDLEs, file mappings and LockFileEx for instance, and nothing outside changes.
 *
 * Functions that return int return 0 or an errno value. Descriptors are closed on exec, always. Calls that a signal
 * interrupts are begun again; transfers that end early are continued.
 */
#ifndef MDB_OS_H
#define MDB_OS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

typedef pid_t os_pid;
typedef pthread_t os_thread;
typedef pthread_key_t os_key;
typedef pthread_mutex_t os_mutex;

/** What the last failed call said; never 0, whatever the system left in errno. */
static inline int os_error(void)
{
    return errno != 0 ? errno : EIO;
}

/* ---- files ---------------------------------------------------------------------------------------------------- */

enum os_open_how {
    OS_OPEN_READ,       /* for reading; must exist */
    OS_OPEN_WRITE,      /* for both; must exist */
    OS_OPEN_CREATE,     /* for both; made if it is missing */
    OS_OPEN_NEW,        /* for both; must not exist */
    OS_OPEN_WRITE_SYNC  /* for writing; must exist; each write returns when the data is on the disk */
};

static inline int os_open(const char *path, enum os_open_how how, mode_t mode, int *out)
{
    static const int flags[] = {
        [OS_OPEN_READ] = O_RDONLY,
        [OS_OPEN_WRITE] = O_RDWR,
        [OS_OPEN_CREATE] = O_RDWR | O_CREAT,
        [OS_OPEN_NEW] = O_RDWR | O_CREAT | O_EXCL,
        [OS_OPEN_WRITE_SYNC] = O_WRONLY | O_DSYNC,
    };
    int fd;

    do
        fd = open(path, flags[how] | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return os_error();
    *out = fd;
    return 0;
}

/** Cuts a file to `size` bytes. */
static inline int os_truncate(int fd, uint64_t size)
{
    int rc;

    do
        rc = ftruncate(fd, (off_t)size) == 0 ? 0 : os_error();
    while (rc == EINTR);
    return rc;
}

static inline int os_remove(const char *path)
{
    return unlink(path) == 0 ? 0 : os_error();
}

/** Closes a descriptor, unless it is negative. Not repeated after EINTR: the descriptor is gone then. */
static inline int os_close(int fd)
{
    return fd < 0 || close(fd) == 0 || errno == EINTR ? 0 : os_error();
}

/** Which file it is, by whatever path it was reached. */
struct os_file_id {
    dev_t device;
    ino_t inode;
};

static inline bool os_file_id_equal(const struct os_file_id *a, const struct os_file_id *b)
{
    return a->device == b->device && a->inode == b->inode;
}

static inline void os_file_id_of(const struct stat *status, struct os_file_id *out)
{
    out->device = status->st_dev;
    out->inode = status->st_ino;
}

static inline int os_path_id(const char *path, struct os_file_id *out)
{
    struct stat status;

    if (stat(path, &status) != 0)
        return os_error();
    os_file_id_of(&status, out);
    return 0;
}

/** Is there a file for data at this path? EISDIR: a directory; EINVAL: something else that is no plain file. */
static inline int os_path_is_file(const char *path)
{
    struct stat status;

    if (stat(path, &status) != 0)
        return os_error();
    if (S_ISDIR(status.st_mode))
        return EISDIR;
    return S_ISREG(status.st_mode) ? 0 : EINVAL;
}

static inline int os_file_id(int fd, struct os_file_id *out)
{
    struct stat status;

    if (fstat(fd, &status) != 0)
        return os_error();
    os_file_id_of(&status, out);
    return 0;
}

static inline int os_file_size(int fd, uint64_t *out)
{
    struct stat status;

    if (fstat(fd, &status) != 0)
        return os_error();
    *out = (uint64_t)status.st_size;
    return 0;
}

/** Reads until `size` bytes are there or the file ends; *got tells how many. */
static inline int os_read(int fd, void *buffer, size_t size, uint64_t offset, size_t *got)
{
    size_t done = 0;

    while (done < size) {
        ssize_t n = pread(fd, (char *)buffer + done, size - done, (off_t)(offset + done));

        if (n == 0)
            break;
        if (n > 0)
            done += (size_t)n;
        else if (errno != EINTR)
            return os_error();
    }
    *got = done;
    return 0;
}

static inline int os_write(int fd, const void *buffer, size_t size, uint64_t offset)
{
    size_t done = 0;

    while (done < size) {
        ssize_t n = pwrite(fd, (const char *)buffer + done, size - done, (off_t)(offset + done));

        if (n > 0)
            done += (size_t)n;
        else if (n == 0)
            return EIO;
        else if (errno != EINTR)
            return os_error();
    }
    return 0;
}

/** Writes the parts of a vector, of at most 1024, one behind the other. Changes the vector. */
static inline int os_write_vector(int fd, struct iovec *vector, int count, uint64_t offset)
{
    while (count > 0) {
        ssize_t n = pwritev(fd, vector, count, (off_t)offset);

        if (n < 0) {
            if (errno != EINTR)
                return os_error();
            continue;
        }
        if (n == 0 && vector->iov_len > 0)
            return EIO;
        offset += (uint64_t)n;
        while (count > 0 && (size_t)n >= vector->iov_len) {
            n -= (ssize_t)vector->iov_len;
            vector++;
            count--;
        }
        if (n > 0) {
            vector->iov_base = (char *)vector->iov_base + n;
            vector->iov_len -= (size_t)n;
        }
    }
    return 0;
}

/** Writes where the descriptor stands: to pipes too. */
static inline int os_write_stream(int fd, const void *buffer, size_t size)
{
    /* Less than the system takes at once, and a multiple of any page size. */
    const size_t step = (size_t)1 << 30;
    size_t done = 0;

    while (done < size) {
        ssize_t n = write(fd, (const char *)buffer + done, size - done < step ? size - done : step);

        if (n > 0)
            done += (size_t)n;
        else if (n == 0)
            return EIO;
        else if (errno != EINTR)
            return os_error();
    }
    return 0;
}

/** Waits until the file's data, and its size, are on the disk. */
static inline int os_sync(int fd)
{
    int rc;

    do
#if defined(F_FULLFSYNC)
        rc = fcntl(fd, F_FULLFSYNC);
#else
        rc = fdatasync(fd);
#endif
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? 0 : os_error();
}

/** Makes the names in a file's directory last through a crash. File systems that cannot are taken as they are. */
static inline int os_sync_directory_of(const char *path)
{
    char directory[4096] = ".";
    const char *slash = strrchr(path, '/');
    int rc;
    int fd;

    if (slash != NULL) {
        size_t size = slash == path ? 1 : (size_t)(slash - path);

        if (size >= sizeof directory)
            return ENAMETOOLONG;
        memcpy(directory, path, size);
        directory[size] = '\0';
    }
    if (os_open(directory, OS_OPEN_READ, 0, &fd) != 0)
        return 0;
    do
        rc = fsync(fd) == 0 ? 0 : os_error();
    while (rc == EINTR);
    os_close(fd);
    return rc == EIO || rc == ENOSPC ? rc : 0;
}

/** Makes bytes [0, size) of a file real, so that writing to a map of them cannot run out of disk; the file grows to
 *  `size` if it was shorter. Where the system cannot do that, the file grows by zeros that are written, and only holes
 *  that it had before stay holes. */
static inline int os_allocate(int fd, uint64_t size)
{
    static const char zeros[65536];
    uint64_t end;
    int rc;

#ifdef __linux__
    do
        rc = fallocate(fd, 0, 0, (off_t)size) == 0 ? 0 : os_error();
    while (rc == EINTR);
    if (rc != EOPNOTSUPP && rc != ENOSYS)
        return rc;
#endif
    rc = os_file_size(fd, &end);
    while (rc == 0 && end < size) {
        size_t n = size - end < sizeof zeros ? (size_t)(size - end) : sizeof zeros;

        rc = os_write(fd, zeros, n, end);
        end += n;
    }
    return rc;
}

/* ---- maps ----------------------------------------------------------------------------------------------------- */

static inline size_t os_page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/** Maps `size` bytes of a file from `offset` on, shared, beyond its end too. address: where it must be, else EBUSY;
 *  NULL: anywhere. */
static inline int os_map(int fd, uint64_t offset, size_t size, void *address, bool writable, unsigned char **out)
{
    int flags = MAP_SHARED;
    void *base;

#ifdef MAP_FIXED_NOREPLACE
    if (address != NULL) /* a mere hint is passed over by kernels that align large maps */
        flags |= MAP_FIXED_NOREPLACE;
#endif
    base = mmap(address, size, PROT_READ | (writable ? PROT_WRITE : 0), flags, fd, (off_t)offset);
    if (base == MAP_FAILED)
        return errno == EEXIST ? EBUSY : os_error();
    if (address != NULL && base != address) {
        munmap(base, size);
        return EBUSY;
    }
    *out = base;
    return 0;
}

/** An address where `size` bytes could be mapped now. */
static inline int os_map_place(size_t size, void **out)
{
    void *base = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED)
        return os_error();
    munmap(base, size);
    *out = base;
    return 0;
}

static inline void os_unmap(void *base, size_t size)
{
    munmap(base, size);
}

/** Writes the changed pages of a map to the disk; wait: returns when they are there. */
static inline int os_map_sync(void *base, size_t size, bool wait)
{
    int rc;

    do
        rc = msync(base, size, wait ? MS_SYNC : MS_ASYNC) == 0 ? 0 : os_error();
    while (rc == EINTR);
    return rc;
}

/** Advice only, so failure does not matter. */
static inline void os_map_no_read_ahead(void *base, size_t size)
{
    (void)madvise(base, size, MADV_RANDOM);
}

/* ---- locks on single bytes of a file --------------------------------------------------------------------------- *
 * They belong to the process, and closing any of its descriptors of the file drops them all. */

enum os_lock_kind { OS_LOCK_NONE, OS_LOCK_SHARED, OS_LOCK_EXCLUSIVE };

static inline struct flock os_lock_description(uint64_t offset, enum os_lock_kind kind)
{
    struct flock lock;

    memset(&lock, 0, sizeof lock);
    lock.l_type = kind == OS_LOCK_NONE ? F_UNLCK : kind == OS_LOCK_SHARED ? F_RDLCK : F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = (off_t)offset;
    lock.l_len = 1;
    return lock;
}

/** Takes, changes or gives back the lock on one byte. EAGAIN: another process holds it, and we were not to wait. */
static inline int os_lock_byte(int fd, uint64_t offset, enum os_lock_kind kind, bool wait)
{
    struct flock lock = os_lock_description(offset, kind);
    int rc;

    do
        rc = fcntl(fd, wait ? F_SETLKW : F_SETLK, &lock) == 0 ? 0 : os_error();
    while (rc == EINTR);
    return rc == EACCES ? EAGAIN : rc;
}

/** Does another process hold a lock on this byte? */
static inline int os_lock_is_held(int fd, uint64_t offset, bool *held)
{
    struct flock lock = os_lock_description(offset, OS_LOCK_EXCLUSIVE);
    int rc;

    do
        rc = fcntl(fd, F_GETLK, &lock) == 0 ? 0 : os_error();
    while (rc == EINTR);
    if (rc == 0)
        *held = lock.l_type != F_UNLCK;
    return rc;
}

/* ---- mutexes in shared memory ----------------------------------------------------------------------------------- *
 * Robust: when the owner dies, the next one gets EOWNERDEAD, owns the mutex, and must call os_mutex_consistent before
 * it gives it back; else ENOTRECOVERABLE for everybody. */

static inline int os_mutex_init_shared(os_mutex *mutex)
{
    pthread_mutexattr_t attributes;
    int rc = pthread_mutexattr_init(&attributes);

    if (rc != 0)
        return rc;
    rc = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    if (rc == 0)
        rc = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    if (rc == 0)
        rc = pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return rc;
}

static inline int os_mutex_lock(os_mutex *mutex)
{
    return pthread_mutex_lock(mutex);
}

/** EBUSY: somebody has it. */
static inline int os_mutex_try(os_mutex *mutex)
{
    return pthread_mutex_trylock(mutex);
}

/** ETIMEDOUT: somebody has it, for as long as we were to wait. */
static inline int os_mutex_lock_for(os_mutex *mutex, unsigned milliseconds)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(milliseconds / 1000);
    until.tv_nsec += (long)(milliseconds % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    return pthread_mutex_timedlock(mutex, &until);
}

static inline int os_mutex_consistent(os_mutex *mutex)
{
    return pthread_mutex_consistent(mutex);
}

static inline void os_mutex_unlock(os_mutex *mutex)
{
    pthread_mutex_unlock(mutex);
}

/* ---- threads and processes -------------------------------------------------------------------------------------- */

static inline os_pid os_pid_self(void)
{
    return getpid();
}

static inline os_thread os_thread_self(void)
{
    return pthread_self();
}

static inline bool os_thread_equal(os_thread a, os_thread b)
{
    return pthread_equal(a, b) != 0;
}

/** A number that no other living thread of this process has, and never 0. */
static inline uintptr_t os_thread_number(void)
{
    return (uintptr_t)pthread_self();
}

/** A pointer per thread; at a thread's end, `destructor` gets the thread's if it is not NULL. EAGAIN: none left. */
static inline int os_key_create(os_key *key, void (*destructor)(void *))
{
    return pthread_key_create(key, destructor);
}

static inline void os_key_delete(os_key key)
{
    pthread_key_delete(key);
}

static inline void *os_key_get(os_key key)
{
    return pthread_getspecific(key);
}

static inline int os_key_set(os_key key, const void *value)
{
    return pthread_setspecific(key, value);
}

/* One mutex for what a process has once. Held for moments only, never while something is waited for, and by whoever
 * forks: so in the child it is free, and what it guards is whole. */
static os_mutex os_process_mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint os_fork_count;
static int os_fork_watch_result;

static inline void os_process_lock(void)
{
    pthread_mutex_lock(&os_process_mutex);
}

static inline void os_process_unlock(void)
{
    pthread_mutex_unlock(&os_process_mutex);
}

static inline void os_fork_child(void)
{
    atomic_fetch_add_explicit(&os_fork_count, 1, memory_order_relaxed);
    os_process_unlock();
}

static inline void os_fork_watch_once(void)
{
    os_fork_watch_result = pthread_atfork(os_process_lock, os_process_unlock, os_fork_child);
}

/** To be called before the first os_fork_generation that matters. ENOMEM. */
static inline int os_fork_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int rc = pthread_once(&once, os_fork_watch_once);

    return rc != 0 ? rc : os_fork_watch_result;
}

/** Differs between a process and its forked child. One load, no system call: what getpid() would cost on each use. */
static inline unsigned os_fork_generation(void)
{
    return atomic_load_explicit(&os_fork_count, memory_order_relaxed);
}

#endif
