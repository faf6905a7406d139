/** @file mdb_format.h
 * Layout of the data file: what the bytes of a page mean, and whether they can be trusted.
 *
 * Knows nothing of environments and transactions: tests, tools and the engine all read pages through this file.
 * docs/FORMAT.md tells the same story in prose. Figures in comments are for 64-bit systems; a 32-bit build has
 * 4-byte page numbers and sizes, and the two refuse each other's files because the magic stands elsewhere.
 *
 *   page       0 pgno 8 | 8 pad 2 | 10 flags 2 | 12 lower 2 | 14 upper 2 | 16 ...
 *   leaf, branch            16: u16 offsets of nodes, in key order, up to `lower`; nodes from `upper` to the page's end
 *   leaf of fixed width     16: keys of `pad` bytes, back to back (flag LEAF2)
 *   overflow run            12: u32 number of pages; 16: the value
 *   node       0 lo 2 | 2 hi 2 | 4 flags 2 | 6 ksize 2 | 8 key | data
 *              leaf: data size = lo | hi << 16      branch: child = lo | hi << 16 | flags << 32
 *
 * All structs are packed: sub-pages and records inside nodes stand at any address, odd ones included.
 */
#ifndef MDB_FORMAT_H
#define MDB_FORMAT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef size_t pgno_t;
typedef size_t txnid_t;

#define PGNO_NONE ((pgno_t)-1)
#define TXNID_NONE ((txnid_t)-1)

#define FORMAT_MAGIC 0xBEEFC0DEu
#define FORMAT_VERSION 1u
#define META_PAGES 2u
#define PAGE_SIZE_MIN 512u
#define PAGE_SIZE_MAX 32768u
#define KEY_SIZE_MAX 511u
#define DATA_SIZE_MAX 0xffffffffu
/** No tree of 2-way branches over all page numbers that fit a file is deeper; bounds every descent. */
#define DEPTH_MAX 32u

/** Page flags. */
#define P_BRANCH 0x01u
#define P_LEAF 0x02u
#define P_OVERFLOW 0x04u
#define P_META 0x08u
#define P_DIRTY 0x10u
#define P_LEAF2 0x20u
#define P_SUBP 0x40u
#define P_LOOSE 0x4000u
#define P_KEEP 0x8000u
/** Flags that have no meaning on disk. */
#define P_VOLATILE (P_DIRTY | P_LOOSE | P_KEEP)

/** Leaf node flags. */
#define N_BIGDATA 0x01u
#define N_SUBDATA 0x02u
#define N_DUPDATA 0x04u

/** Flags of a database record that say how it is ordered and stored. */
#define DB_REVERSEKEY 0x02u
#define DB_DUPSORT 0x04u
#define DB_INTEGERKEY 0x08u
#define DB_DUPFIXED 0x10u
#define DB_INTEGERDUP 0x20u
#define DB_REVERSEDUP 0x40u
#define DB_FLAGS (DB_REVERSEKEY | DB_DUPSORT | DB_INTEGERKEY | DB_DUPFIXED | DB_INTEGERDUP | DB_REVERSEDUP)

#pragma pack(push, 1)

struct page {
    pgno_t pgno;
    uint16_t pad;
    uint16_t flags;
    union {
        struct {
            uint16_t lower;
            uint16_t upper;
        };
        uint32_t run_pages;
    };
    uint16_t offsets[];
};

struct node {
    uint16_t lo;
    uint16_t hi;
    uint16_t flags;
    uint16_t ksize;
    unsigned char bytes[];
};

/** One B+tree: its flags, its statistics, its root. */
struct db_record {
    uint32_t pad; /**< width of fixed-size keys; in the free list's record: the page size */
    uint16_t flags;
    uint16_t depth;
    size_t branch_pages;
    size_t leaf_pages;
    size_t overflow_pages;
    size_t entries;
    pgno_t root; /**< PGNO_NONE: empty */
};

#define FREE_DBI 0u
#define MAIN_DBI 1u
#define CORE_DBS 2u

/** Body of a meta page, right behind the page header. */
struct meta {
    uint32_t magic;
    uint32_t version;
    size_t address; /**< where to map the file with MDB_FIXEDMAP */
    size_t mapsize;
    struct db_record dbs[CORE_DBS];
    pgno_t last_pgno;
    txnid_t txnid;
};

#pragma pack(pop)

#define PAGE_HEADER ((unsigned)offsetof(struct page, offsets))
#define NODE_HEADER ((unsigned)offsetof(struct node, bytes))
#define SLOT_SIZE 2u

_Static_assert(PAGE_HEADER == sizeof(pgno_t) + 8, "page header on disk");
_Static_assert(NODE_HEADER == 8, "node header on disk");
_Static_assert(sizeof(struct db_record) == 8 + 5 * sizeof(size_t), "database record on disk");
_Static_assert(sizeof(struct meta) == 8 + 4 * sizeof(size_t) + 2 * sizeof(struct db_record), "meta page on disk");

/* ---- sizes ---------------------------------------------------------------------------------------------------- */

static inline bool page_size_valid(size_t page_size)
{
    return page_size >= PAGE_SIZE_MIN && page_size <= PAGE_SIZE_MAX && (page_size & (page_size - 1)) == 0;
}

static inline size_t size_even(size_t size)
{
    return (size + 1) & ~(size_t)1;
}

/** The largest node that is kept on a page, so that any two fit one. Without its slot. */
static inline size_t node_size_max(size_t page_size)
{
    return (((page_size - PAGE_HEADER) / 2) & ~(size_t)1) - 2;
}

/** The longest key: 511, or less where a node with a database record behind the key must fit a small page. */
static inline size_t key_size_max(size_t page_size)
{
    size_t room = node_size_max(page_size) - NODE_HEADER - 48;

    return room < KEY_SIZE_MAX ? room : KEY_SIZE_MAX;
}

/** Pages that a value of this size needs, its run's header included. */
static inline size_t run_pages_for(size_t data_size, size_t page_size)
{
    return (PAGE_HEADER + data_size + page_size - 1) / page_size;
}

/* ---- page headers --------------------------------------------------------------------------------------------- */

static inline unsigned page_kind_flags(const struct page *page)
{
    return page->flags & ~P_VOLATILE;
}

static inline bool page_is_leaf2(const struct page *page)
{
    return (page->flags & P_LEAF2) != 0;
}

static inline bool page_is_branch(const struct page *page)
{
    return (page->flags & P_BRANCH) != 0;
}

/** Entries on a branch or leaf page of any kind. */
static inline unsigned page_count(const struct page *page)
{
    return (unsigned)(page->lower - PAGE_HEADER) / SLOT_SIZE;
}

/** Free bytes between slots and nodes; true of fixed-width pages too. */
static inline unsigned page_room(const struct page *page)
{
    return (uint16_t)(page->upper - page->lower);
}

static inline unsigned char *page_bytes(struct page *page)
{
    return (unsigned char *)page;
}

static inline const unsigned char *page_bytes_const(const struct page *page)
{
    return (const unsigned char *)page;
}

/** Key i of a fixed-width leaf that passed its check. */
static inline const unsigned char *leaf2_key(const struct page *page, unsigned i)
{
    return page_bytes_const(page) + PAGE_HEADER + (size_t)i * page->pad;
}

/** Are slots and nodes, or fixed-width keys, inside a page (or sub-page) of `size` bytes? Nodes are judged when used. */
static inline bool page_bounds_ok(const struct page *page, size_t size)
{
    if (page->lower < PAGE_HEADER || (page->lower & 1) != 0)
        return false;
    if (page_is_leaf2(page))
        return page->pad > 0 && PAGE_HEADER + (size_t)page_count(page) * page->pad <= size;
    return page->lower <= page->upper && page->upper <= size;
}

/** Is this the header of page `pgno`, of exactly this kind (P_BRANCH, P_LEAF, P_LEAF | P_LEAF2)? */
static inline bool page_tree_ok(const struct page *page, pgno_t pgno, unsigned kind, size_t page_size)
{
    return page->pgno == pgno && page_kind_flags(page) == kind && page->lower > PAGE_HEADER
        && page_bounds_ok(page, page_size);
}

/** Is this the first page of an overflow run that holds `data_size` bytes and ends before page `pages_end`? */
static inline bool page_run_ok(const struct page *page, pgno_t pgno, size_t data_size, pgno_t pages_end, size_t page_size)
{
    size_t pages = page->run_pages;

    return page->pgno == pgno && page_kind_flags(page) == P_OVERFLOW && pages > 0 && pgno < pages_end
        && pages <= pages_end - pgno && pages >= run_pages_for(data_size, page_size);
}

/** Is this a sub-page of `size` bytes? */
static inline bool sub_page_ok(const struct page *page, size_t size)
{
    unsigned kind;

    if (size < PAGE_HEADER || size > PAGE_SIZE_MAX)
        return false;
    kind = page_kind_flags(page);
    return (kind == (P_LEAF | P_SUBP) || kind == (P_LEAF | P_LEAF2 | P_SUBP)) && page->lower > PAGE_HEADER
        && page_bounds_ok(page, size);
}

/* ---- nodes ---------------------------------------------------------------------------------------------------- */

static inline const struct node *page_node_const(const struct page *page, unsigned i)
{
    assert(i < page_count(page));
    return (const struct node *)(page_bytes_const(page) + page->offsets[i]);
}

static inline struct node *page_node(struct page *page, unsigned i)
{
    assert(i < page_count(page));
    return (struct node *)(page_bytes(page) + page->offsets[i]);
}

/** The value's size, wherever it stands. */
static inline size_t node_data_size(const struct node *node)
{
    return (size_t)node->lo | (size_t)node->hi << 16;
}

static inline void node_set_data_size(struct node *node, size_t size)
{
    node->lo = (uint16_t)size;
    node->hi = (uint16_t)(size >> 16);
}

/** Bytes of data inside the node. */
static inline size_t node_inline_size(const struct node *node)
{
    return (node->flags & N_BIGDATA) != 0 ? sizeof(pgno_t) : node_data_size(node);
}

static inline const unsigned char *node_data_const(const struct node *node)
{
    return node->bytes + node->ksize;
}

static inline unsigned char *node_data(struct node *node)
{
    return node->bytes + node->ksize;
}

static inline pgno_t node_child(const struct node *node)
{
    uint64_t child = (uint64_t)node->lo | (uint64_t)node->hi << 16;

    if (sizeof(pgno_t) > 4)
        child |= (uint64_t)node->flags << 32;
    return (pgno_t)child;
}

static inline void node_set_child(struct node *node, pgno_t child)
{
    node->lo = (uint16_t)child;
    node->hi = (uint16_t)(child >> 16);
    node->flags = sizeof(pgno_t) > 4 ? (uint16_t)((uint64_t)child >> 32) : 0;
}

/** First page of the overflow run that a BIGDATA node names. */
static inline pgno_t node_run(const struct node *node)
{
    pgno_t pgno;

    memcpy(&pgno, node_data_const(node), sizeof pgno);
    return pgno;
}

/** The database record that a SUBDATA node holds. */
static inline struct db_record node_record(const struct node *node)
{
    struct db_record record;

    memcpy(&record, node_data_const(node), sizeof record);
    return record;
}

/** The sub-page that a node with DUPDATA, but not SUBDATA, holds. */
static inline const struct page *node_sub_page_const(const struct node *node)
{
    return (const struct page *)node_data_const(node);
}

static inline struct page *node_sub_page(struct node *node)
{
    return (struct page *)node_data(node);
}

/** Does node i's key end inside a page of `size` bytes? What a search needs, nothing more. */
static inline bool node_key_ok(const struct page *page, unsigned i, size_t size)
{
    size_t offset = page->offsets[i];

    return offset >= page->lower && offset + NODE_HEADER <= size
        && offset + NODE_HEADER + ((const struct node *)(page_bytes_const(page) + offset))->ksize <= size;
}

/** Does leaf node i, data included, end inside the page, and do its flags make sense together? */
static inline bool leaf_node_ok(const struct page *page, unsigned i, size_t size)
{
    const struct node *node;
    size_t end;

    if (!node_key_ok(page, i, size))
        return false;
    node = page_node_const(page, i);
    end = (size_t)page->offsets[i] + NODE_HEADER + node->ksize;
    if (node_inline_size(node) > size - end)
        return false;
    switch (node->flags) {
    case 0:
    case N_BIGDATA:
        return true;
    case N_DUPDATA:
        return sub_page_ok(node_sub_page_const(node), node_data_size(node));
    case N_SUBDATA:
    case N_SUBDATA | N_DUPDATA:
        return node_data_size(node) == sizeof(struct db_record);
    default:
        return false;
    }
}

/* ---- meta pages ----------------------------------------------------------------------------------------------- */

static inline const struct meta *page_meta_const(const struct page *page)
{
    return (const struct meta *)page->offsets;
}

static inline struct meta *page_meta(struct page *page)
{
    return (struct meta *)page->offsets;
}

static inline bool record_ok(const struct db_record *record, pgno_t last_pgno)
{
    if (record->root == PGNO_NONE)
        return true;
    return record->root >= META_PAGES && record->root <= last_pgno && record->depth > 0 && record->depth <= DEPTH_MAX;
}

/** Is this meta page number `number` (0 or 1) of a file of ours, written whole? */
static inline bool meta_ok(const struct page *page, unsigned number)
{
    const struct meta *meta = page_meta_const(page);

    return page_kind_flags(page) == P_META && meta->magic == FORMAT_MAGIC && meta->version == FORMAT_VERSION
        && page_size_valid(meta->dbs[FREE_DBI].pad) && meta->last_pgno >= META_PAGES - 1 && meta->last_pgno != PGNO_NONE
        && record_ok(&meta->dbs[FREE_DBI], meta->last_pgno) && record_ok(&meta->dbs[MAIN_DBI], meta->last_pgno)
        && (meta->txnid == 0 || (meta->txnid & 1) == number);
}

#endif
