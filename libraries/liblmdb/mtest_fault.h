/* Faults on request: the n-th write, flush, mapping or allocation of the library fails, or kills the process, or writes
 * are cut short.
 *
 * The program that includes this defines the system's functions itself, so that the library, which is linked into it,
 * calls these; they pass on what is not to fail. Include it in the one source of a program, first of all. */
#ifndef MTEST_FAULT_H
#define MTEST_FAULT_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "mtest_common.h"

enum fault_kind {
    FAULT_NONE,
    FAULT_WRITE,        /* pwrite, pwritev, write to the file */
    FAULT_SYNC,         /* fsync, fdatasync, msync */
    FAULT_RESIZE,       /* ftruncate, fallocate */
    FAULT_MAP,          /* mmap */
    FAULT_MEMORY        /* malloc, calloc, realloc */
};

/* When the process dies: not at all, instead of the n-th call, or right after it. */
enum fault_death { DEATH_NONE, DEATH_BEFORE, DEATH_AFTER };

static struct {
    enum fault_kind kind;
    int error;
    enum fault_death death;
    unsigned number;            /* of the call that fails, from 1; 0: none does, they are counted */
    int lasting;                /* so do all calls behind it */
    int cut_short;              /* writes do half of their work, and none fails */
    unsigned count;             /* calls of this kind since it was set up */
} fault;

static inline void fault_set(enum fault_kind kind, unsigned number, int error)
{
    memset(&fault, 0, sizeof(fault));
    fault.number = number;
    fault.error = error;
    fault.kind = kind;
}

/* Ends all faults; gives how many calls of the kind there were. */
static inline unsigned fault_end(void)
{
    unsigned count = fault.count;

    memset(&fault, 0, sizeof(fault));
    return count;
}

/* Whether this call fails, with errno set then. */
static inline int fault_strikes(enum fault_kind kind)
{
    if (fault.kind != kind)
        return 0;
    fault.count++;
    if (fault.number == 0 || fault.count < fault.number || (fault.count > fault.number && !fault.lasting))
        return 0;
    if (fault.death == DEATH_BEFORE)
        raise(SIGKILL);
    errno = fault.error;
    return fault.death == DEATH_NONE;
}

/* Passes on the result of a call that was done. */
static inline ssize_t fault_passes(enum fault_kind kind, ssize_t result)
{
    if (fault.kind == kind && fault.death == DEATH_AFTER && fault.count == fault.number)
        raise(SIGKILL);
    return result;
}

/* How much of a write is done. */
static inline size_t fault_size(size_t size)
{
    return fault.kind == FAULT_WRITE && fault.cut_short && size > 1 ? size / 2 : size;
}

/* The system's own function of this name. */
static inline void fault_real(const char *name, void *function, size_t size)
{
    void *symbol = dlsym(RTLD_NEXT, name);

    if (symbol == NULL || size != sizeof(symbol))
        abort();
    memcpy(function, &symbol, size);
}

#define FAULT_REAL(function, name) \
    do { \
        if ((function) == NULL) \
            fault_real((name), &(function), sizeof(function)); \
    } while (0)

/* Of each function there is one for files of any size, with or without 64 in its name. */
#define FAULT_PWRITE(name) \
    ssize_t name(int fd, const void *bytes, size_t size, off_t offset); \
    ssize_t name(int fd, const void *bytes, size_t size, off_t offset) \
    { \
        static ssize_t (*real)(int, const void *, size_t, off_t); \
        FAULT_REAL(real, #name); \
        if (fault_strikes(FAULT_WRITE)) \
            return -1; \
        return fault_passes(FAULT_WRITE, real(fd, bytes, fault_size(size), offset)); \
    }

#define FAULT_PWRITEV(name) \
    ssize_t name(int fd, const struct iovec *parts, int count, off_t offset); \
    ssize_t name(int fd, const struct iovec *parts, int count, off_t offset) \
    { \
        static ssize_t (*real)(int, const struct iovec *, int, off_t); \
        struct iovec first = parts[0]; \
        FAULT_REAL(real, #name); \
        if (fault_strikes(FAULT_WRITE)) \
            return -1; \
        first.iov_len = fault_size(first.iov_len); \
        return fault_passes(FAULT_WRITE, first.iov_len < parts[0].iov_len ? real(fd, &first, 1, offset) \
                                                                          : real(fd, parts, count, offset)); \
    }

#define FAULT_FTRUNCATE(name) \
    int name(int fd, off_t size); \
    int name(int fd, off_t size) \
    { \
        static int (*real)(int, off_t); \
        FAULT_REAL(real, #name); \
        return fault_strikes(FAULT_RESIZE) ? -1 : real(fd, size); \
    }

#define FAULT_FALLOCATE(name) \
    int name(int fd, int mode, off_t offset, off_t size); \
    int name(int fd, int mode, off_t offset, off_t size) \
    { \
        static int (*real)(int, int, off_t, off_t); \
        FAULT_REAL(real, #name); \
        return fault_strikes(FAULT_RESIZE) ? -1 : real(fd, mode, offset, size); \
    }

#define FAULT_SYNC_FD(name) \
    int name(int fd) \
    { \
        static int (*real)(int); \
        FAULT_REAL(real, #name); \
        return fault_strikes(FAULT_SYNC) ? -1 : (int)fault_passes(FAULT_SYNC, real(fd)); \
    }

#define FAULT_MMAP(name) \
    void *name(void *start, size_t size, int protection, int flags, int fd, off_t offset); \
    void *name(void *start, size_t size, int protection, int flags, int fd, off_t offset) \
    { \
        static void *(*real)(void *, size_t, int, int, int, off_t); \
        FAULT_REAL(real, #name); \
        return fault_strikes(FAULT_MAP) ? MAP_FAILED : real(start, size, protection, flags, fd, offset); \
    }

FAULT_MMAP(mmap)
FAULT_MMAP(mmap64)
/* Pipes and terminals are the harness's. */
static inline int fault_concerns(int fd)
{
    struct stat status;

    return fault.kind == FAULT_WRITE && fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    static ssize_t (*real)(int, const void *, size_t);

    FAULT_REAL(real, "write");
    if (!fault_concerns(fd))
        return real(fd, bytes, size);
    return fault_strikes(FAULT_WRITE) ? -1 : real(fd, bytes, fault_size(size));
}

FAULT_PWRITE(pwrite)
FAULT_PWRITE(pwrite64)
FAULT_PWRITEV(pwritev)
FAULT_PWRITEV(pwritev64)
FAULT_FTRUNCATE(ftruncate)
FAULT_FTRUNCATE(ftruncate64)
FAULT_FALLOCATE(fallocate)
FAULT_FALLOCATE(fallocate64)
FAULT_SYNC_FD(fsync)
FAULT_SYNC_FD(fdatasync)

int msync(void *start, size_t size, int flags)
{
    static int (*real)(void *, size_t, int);

    FAULT_REAL(real, "msync");
    return fault_strikes(FAULT_SYNC) ? -1 : (int)fault_passes(FAULT_SYNC, real(start, size, flags));
}

/* The sanitizers have allocators of their own, which these would replace. */
#if TEST_CATCHES_SIGNALS
#define FAULT_HAS_MEMORY 1

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void __libc_free(void *memory);

/* Blocks that are given out, of the library and of all others. */
static atomic_long fault_blocks;

static inline void *fault_block(void *memory)
{
    if (memory != NULL)
        atomic_fetch_add(&fault_blocks, 1);
    return memory;
}

void *malloc(size_t size)
{
    return fault_strikes(FAULT_MEMORY) ? NULL : fault_block(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
    return fault_strikes(FAULT_MEMORY) ? NULL : fault_block(__libc_calloc(count, size));
}

void *realloc(void *memory, size_t size)
{
    void *moved;

    if (fault_strikes(FAULT_MEMORY))
        return NULL;
    moved = __libc_realloc(memory, size);
    return memory == NULL ? fault_block(moved) : moved;
}

void free(void *memory)
{
    if (memory != NULL)
        atomic_fetch_sub(&fault_blocks, 1);
    __libc_free(memory);
}

static inline long fault_blocks_live(void)
{
    return atomic_load(&fault_blocks);
}
#else
#define FAULT_HAS_MEMORY 0

/* The sanitizer looks for leaks itself. */
static inline long fault_blocks_live(void)
{
    return 0;
}
#endif

#endif
