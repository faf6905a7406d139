/** @file midl.h
 * What the engine knows about page numbers in memory: lists of them, a table from them to pages, runs of free ones.
 *
 *   page_list    a growing array of page numbers; sorted, it is the value of a free-list record
 *   page_table   a hash table from page number to pointer: "is there a dirty copy of page n?" is one probe
 *   page_runs    free pages as runs of adjacent numbers: taking one page, or n adjacent ones, searches nothing
 *
 * For all three, zeroed memory is empty and owns nothing, and a struct may be moved by assignment. Functions that
 * return int return 0 or an errno value; after a failure, which is always seen before the first change, the
 * structure is as it was. Nothing here locks: each structure belongs to one transaction or one environment's writer.
 */
#ifndef MDB_MIDL_H
#define MDB_MIDL_H

#include "mdb_format.h"

/* In the library every external name begins with mdb_; the code is written with the short ones. */
#define page_list_reserve mdb_midl_list_reserve
#define page_list_add_run mdb_midl_list_add_run
#define page_list_append mdb_midl_list_append
#define page_list_sort mdb_midl_list_sort
#define page_list_is_strict mdb_midl_list_is_strict
#define page_list_free mdb_midl_list_free
#define page_table_insert mdb_midl_table_insert
#define page_table_set mdb_midl_table_set
#define page_table_remove mdb_midl_table_remove
#define page_table_next mdb_midl_table_next
#define page_table_clear mdb_midl_table_clear
#define page_table_free mdb_midl_table_free
#define page_table_reserve mdb_midl_table_reserve
#define page_table_is_valid mdb_midl_table_is_valid
#define page_runs_add mdb_midl_runs_add
#define page_runs_take mdb_midl_runs_take
#define page_runs_take_last mdb_midl_runs_take_last
#define page_runs_longest mdb_midl_runs_longest
#define page_runs_list mdb_midl_runs_list
#define page_runs_clear mdb_midl_runs_clear
#define page_runs_free mdb_midl_runs_free
#define page_runs_is_valid mdb_midl_runs_is_valid

/* Not for users of the shared library. */
#pragma GCC visibility push(hidden)

/** Stands in every loop whose length must not grow with the structure. The unit test defines it, to count. */
#ifndef MIDL_STEP
#define MIDL_STEP() ((void)0)
#endif

/* ---- list of page numbers ------------------------------------------------------------------------------------- */

/** Page numbers in any order, numbers may repeat. Always: count <= capacity; ids is NULL if and only if capacity is 0.
 *  The caller may read and write ids[0 .. count - 1] and lower the count. */
struct page_list {
    pgno_t *ids;
    size_t count;
    size_t capacity;
};

/** Makes room for `more` further numbers, so that adding that many cannot fail. ENOMEM. */
int page_list_reserve(struct page_list *list, size_t more);

/** Adds a number at the end, in O(1) on average. ENOMEM. */
static inline int page_list_add(struct page_list *list, pgno_t pgno)
{
    if (list->count == list->capacity) {
        int rc = page_list_reserve(list, 1);

        if (rc != 0)
            return rc;
    }
    list->ids[list->count++] = pgno;
    return 0;
}

/** Adds first + n - 1 down to first. ENOMEM. */
int page_list_add_run(struct page_list *list, pgno_t first, size_t n);

/** Adds all numbers of another list. ENOMEM. */
int page_list_append(struct page_list *to, const struct page_list *from);

/** Sorts, largest number first. O(n), needs no memory; a list that is sorted either way is only read, or reversed. */
void page_list_sort(struct page_list *list);

/** Does every number exceed the next one? */
bool page_list_is_strict(const struct page_list *list);

/** Frees the memory; the list is empty and may be used again. */
void page_list_free(struct page_list *list);

/* ---- table from page number to pointer ------------------------------------------------------------------------ */

struct page_table_slot {
    pgno_t pgno;
    void *value; /**< NULL: the slot is empty */
};

/** Open addressing: a number stands in its home slot or, going up and around the end, in the first slot behind it that
 *  was empty. Always:
 *  - no slots (slots NULL, mask 0, count 0), or mask + 1 of them, a power of two; at most half of them are in use;
 *  - there is no empty slot between a number's home and its place, which is why a removal moves later ones back;
 *  - no number stands twice. */
struct page_table {
    struct page_table_slot *slots;
    size_t mask;
    size_t count;
};

/** Where a number would stand in a table without collisions. The product's low bits tell numbers apart that differ in
 *  their low bits, as neighbours do; folding the high half in does it for those that differ by a power of two, up to
 *  2^32. */
static inline size_t page_table_home(const struct page_table *table, pgno_t pgno)
{
    uint64_t product = (uint64_t)pgno * UINT64_C(0x9e3779b97f4a7c15);

    return (size_t)(product ^ product >> 32) & table->mask;
}

/** The pointer that belongs to a number, or NULL. */
static inline void *page_table_find(const struct page_table *table, pgno_t pgno)
{
    size_t i;

    if (table->count == 0)
        return NULL;
    for (i = page_table_home(table, pgno); table->slots[i].value != NULL; i = (i + 1) & table->mask) {
        MIDL_STEP();
        if (table->slots[i].pgno == pgno)
            return table->slots[i].value;
    }
    return NULL;
}

/** Adds a number that is not in the table, with a value other than NULL. ENOMEM. */
int page_table_insert(struct page_table *table, pgno_t pgno, void *value);

/** Gives a number that is in the table another value, not NULL. */
void page_table_set(struct page_table *table, pgno_t pgno, void *value);

/** Removes a number, if it is there. Returns its value, or NULL. An insert may follow each removal and cannot fail. */
void *page_table_remove(struct page_table *table, pgno_t pgno);

/** Steps through the table, in no order: fetches the next number and value, or returns false behind the last one.
 *  *iterator begins as 0. The table must not change between the steps, except through page_table_set.
 *  Who inserts the numbers into another table reserves room for all of them there first: they come nearly sorted by
 *  home, and would fill a part of a table that still has to grow far more than the whole. */
bool page_table_next(const struct page_table *table, size_t *iterator, pgno_t *pgno, void **value);

/** Makes room, so that the next `more` inserts cannot fail. ENOMEM. */
int page_table_reserve(struct page_table *table, size_t more);

/** Empties the table; memory is kept for reuse if it is little. */
void page_table_clear(struct page_table *table);

/** Frees the memory; the table is empty and may be used again. */
void page_table_free(struct page_table *table);

/** Does all hold that is said at the struct? For tests and debug builds; O(n). */
bool page_table_is_valid(const struct page_table *table);

/* ---- free pages, as runs of adjacent ones ---------------------------------------------------------------------- */

/** Lengths up to 63 have a class each, whose number is the length; then one class for each power of two. */
#define RUN_CLASSES 122u

/** Free pages first .. first + length - 1; the pages on both sides are not free.
 *  Runs of equal length form a ring. The oldest of each ring stands for it in the tree of the length's class. There,
 *  the bits of a length below its highest bit, beginning with the highest of them, lead down: 0 to child[0], 1 to
 *  child[1]. A length stands at the top, or anywhere further down its way. So all lengths below child[0] of a node are
 *  smaller than all below child[1], while the node itself may compare either way; and no way is longer than a length
 *  has bits. In the classes of one length the tree is one node. */
struct page_run {
    pgno_t first;
    size_t length;
    struct page_run *next;     /**< ring */
    struct page_run *previous; /**< ring */
    struct page_run *parent;   /**< NULL at the top, and for the others of a ring */
    struct page_run *child[2]; /**< NULL for the others of a ring */
};

struct page_run_slab;

/** A set of free pages. Always:
 *  - no two runs overlap or touch;
 *  - edges has, for each run, its first page and its last page (one entry if they are the same), and nothing else;
 *  - each run is in the ring of its length, reached through trees[class of the length];
 *  - bit c of used (bit c % 64 of used[c / 64]) is set if and only if trees[c] is not NULL;
 *  - pages is the sum of all lengths.
 *  Runs live in slabs and do not move; released ones are chained through `next` in spare. */
struct page_runs {
    struct page_table edges;
    size_t pages;
    uint64_t used[2];
    struct page_run *trees[RUN_CLASSES];
    struct page_run *spare;
    struct page_run_slab *slabs; /**< the latest and largest first */
    size_t slab_used;            /**< runs of the first slab that were handed out once; all were in the others */
    bool overlapping;            /**< two runs share pages, which happens if what was added overlapped */
};

/** Adds pages first .. first + n - 1; n is not 0, and first + n at most PGNO_NONE. ENOMEM, or EEXIST when one of the
 *  pages is seen to be in the set already: always if the first or the last of them is the edge of a run, or if a page
 *  next to them is and its run goes on into them. An overlap strictly inside of a run is seen when pages are taken from
 *  that run, at the latest when the next edge were to be the other's. */
int page_runs_add(struct page_runs *runs, pgno_t first, size_t n);

/** Takes n adjacent pages, n not 0, from the low end of a shortest run that has as many; of several such runs the one
 *  that changed last. Returns the first page, or PGNO_NONE if there is no such run, or runs are found to overlap: then
 *  `overlapping` is set, and the set is only good for being emptied. Needs no memory. However many runs there are, the
 *  steps are a few table probes and a few times the bits of a length. */
pgno_t page_runs_take(struct page_runs *runs, size_t n);

/** Takes the whole run whose last page is end - 1. Returns its first page, or PGNO_NONE if there is no such run. */
pgno_t page_runs_take_last(struct page_runs *runs, pgno_t end);

/** Number of pages in the set. */
static inline size_t page_runs_count(const struct page_runs *runs)
{
    return runs->pages;
}

/** Length of the longest run, 0 if there is none. As cheap as a take. */
size_t page_runs_longest(const struct page_runs *runs);

/** Adds the numbers of all pages to a list, largest first. ENOMEM. */
int page_runs_list(const struct page_runs *runs, struct page_list *out);

/** Empties the set; memory is kept for reuse if it is little. */
void page_runs_clear(struct page_runs *runs);

/** Frees the memory; the set is empty and may be used again. */
void page_runs_free(struct page_runs *runs);

/** Does all hold that is said at the structs, except that an overlap strictly inside of a run is not seen? For tests
 *  and debug builds; O(n). */
bool page_runs_is_valid(const struct page_runs *runs);

#pragma GCC visibility pop

#endif
