/* SPDX-License-Identifier: Apache-2.0 */
/* Copies pages of unwind tables into the shards of the BPF maps, numbers their rules, and evicts the oldest shard. */
#include "agent/row_store.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/bpf/agent_abi.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "unwind/table.h"

static const uint64_t REST_NS = 100ull * NS_PER_MS; /* pause before an emptied shard is written again */
enum {
    SHARD_PAGES_MAX = 65536,
    WHOLE_ROWS = 32768
}; /* smaller tables are loaded at once: a miss costs a copied stack */

struct shard {
    struct agent_shard *rows; /* mapped */
    uint32_t used;            /* rows */
    struct agent_page_key *pages;
    size_t n_pages, cap_pages;
};

struct row_store {
    struct row_store_maps maps;
    struct objects *objects;
    struct shard *shards;
    uint32_t n_shards, max_shards, current;
    int refused;              /* why the kernel takes no further shard; 0: it has taken all */
    uint64_t resting_until;   /* of the current shard */
    struct agent_rule *rules; /* mapped */
    uint32_t n_rules;
    struct map by_rule;
};

int row_store_new(const struct row_store_maps *maps, struct objects *objects, size_t budget, struct row_store **ret,
                  struct err *e)
{
    struct row_store *s = mem_zalloc(sizeof *s);

    if (!s)
        return -ENOMEM;
    s->maps = *maps;
    s->objects = objects;
    s->max_shards = (uint32_t) MIN(MAX(budget / sizeof(struct agent_shard), 2), AGENT_SHARDS);
    s->shards = mem_zalloc_array(s->max_shards, sizeof *s->shards);
    s->n_rules = 1; /* number 0: no rule */
    s->rules = mmap(NULL, AGENT_RULES * sizeof *s->rules, PROT_READ | PROT_WRITE, MAP_SHARED, maps->rules, 0);
    if (!s->shards || s->rules == MAP_FAILED) {
        int r = s->shards ? -errno : -ENOMEM;

        s->rules = NULL;
        row_store_free(s);
        return err_set(e, r, "cannot map the unwind rules: %m");
    }
    *ret = s;
    return 0;
}

void row_store_free(struct row_store *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; s->shards && i < s->n_shards; i++) {
        munmap(s->shards[i].rows, sizeof(struct agent_shard));
        mem_free(s->shards[i].pages);
    }
    if (s->rules)
        munmap(s->rules, AGENT_RULES * sizeof *s->rules);
    map_done(&s->by_rule);
    mem_free(s->shards);
    mem_free(s);
}

/* --- shards --- */
static int create_shard(struct row_store *s)
{
    LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
    _cleanup_(fd_closep) int fd =
        bpf_map_create(BPF_MAP_TYPE_ARRAY, "wick_rows", sizeof(uint32_t), sizeof(struct agent_shard), 1, &opts);
    struct shard *x = &s->shards[s->n_shards];

    if (fd < 0)
        return fd;
    x->rows = mmap(NULL, sizeof *x->rows, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (x->rows == MAP_FAILED)
        return -errno;
    if (bpf_map_update_elem(s->maps.shards, &s->n_shards, &fd, BPF_ANY) < 0) {
        munmap(x->rows, sizeof *x->rows);
        return -errno;
    }
    s->current = s->n_shards++;
    return 0;
}

/* What the kernel refused once it will refuse again, and each attempt costs more than a walk in user space: the store stays
 * as large as it is. */
static int add_shard(struct row_store *s)
{
    int r = create_shard(s);

    if (r < 0) {
        s->refused = r;
        s->max_shards = s->n_shards;
    }
    return r;
}

static void empty_shard(struct row_store *s, struct shard *x)
{
    for (size_t i = 0; i < x->n_pages; i++) {
        struct object *o = objects_by_number(s->objects, x->pages[i].file);

        bpf_map_delete_elem(s->maps.pages, &x->pages[i]);
        if (o && o->loaded && o->table)
            o->loaded[x->pages[i].page - o->table->first_page] = 0;
        else if (o && o->loaded) { /* the table was dropped: all of its pages may be requested again */
            mem_free(TAKE(o->loaded));
            mem_free(TAKE(o->rule_numbers));
        }
    }
    x->n_pages = 0;
    x->used = 0;
}

/* A shard with room for n rows becomes the current one. */
static int make_room(struct row_store *s, uint32_t n, uint64_t now_ns)
{
    if (now_ns < s->resting_until)
        return -EAGAIN;
    if (s->n_shards && s->shards[s->current].used + n <= UNWIND_SHARD_ROWS)
        return 0;
    if (s->n_shards < s->max_shards)
        return add_shard(s);
    if (!s->n_shards)
        return s->refused;
    s->current = (s->current + 1) % s->n_shards; /* they were filled in this order */
    empty_shard(s, &s->shards[s->current]);
    s->resting_until = now_ns + REST_NS;
    return -EAGAIN;
}

/* --- rules --- */
/* The number of an equal rule in the BPF map, 0 when there is no room. */
static uint16_t number_of_rule(struct row_store *s, const struct unwind_rule *rule)
{
    uint64_t h = hash64(rule, sizeof *rule);

    for (struct map_pos p = map_find(&s->by_rule, h); p.index != MAP_NONE; p = map_next(&s->by_rule, p))
        if (memcmp(&s->rules[p.index].rule, rule, sizeof *rule) == 0)
            return (uint16_t) p.index;
    if (s->n_rules >= AGENT_RULES || map_insert(&s->by_rule, h, s->n_rules) < 0)
        return 0;
    s->rules[s->n_rules].rule = *rule;
    return (uint16_t) s->n_rules++;
}

static void copy_rows(struct row_store *s, struct object *o, const struct unwind_page *from, struct unwind_row *to)
{
    const struct unwind_table *t = o->table;

    for (uint32_t i = 0; i < from->n; i++) {
        struct unwind_row row = t->rows[from->row + i];
        uint16_t *number = &o->rule_numbers[row.rule];

        if (row.rule && !*number)
            *number = number_of_rule(s, &t->rules[row.rule]);
        to[i] = (struct unwind_row){row.pc, *number};
    }
}

static int load_page(struct row_store *s, struct object *o, uint32_t page, uint64_t now_ns)
{
    struct unwind_table *t = objects_table(s->objects, o, now_ns);
    struct agent_page_key key = {o->number, page};
    struct agent_page value = {0};
    uint64_t at;
    struct shard *x;
    int r;

    if (!t)
        return -ENODATA;
    if (!o->loaded) /* it was evicted together with a dropped table */
        o->loaded = mem_zalloc_array(t->n_pages, 1);
    if (!o->rule_numbers)
        o->rule_numbers = mem_zalloc_array(t->n_rules, sizeof *o->rule_numbers);
    if (!o->loaded || !o->rule_numbers)
        return -ENOMEM;
    at = page - t->first_page;
    if (at >= t->n_pages) /* no rows there: recorded in the map, so that it is not missed again */
        return bpf_map_update_elem(s->maps.pages, &key, &value, BPF_ANY);
    if (o->loaded[at])
        return 0;
    r = make_room(s, t->pages[at].n, now_ns);
    if (r < 0)
        return r;
    x = &s->shards[s->current];
    r = array_reserve(x->pages, x->cap_pages, x->n_pages + 1, SHARD_PAGES_MAX);
    if (r < 0)
        return r;
    value = (struct agent_page){s->current * UNWIND_SHARD_ROWS + x->used, t->pages[at].n};
    copy_rows(s, o, &t->pages[at], x->rows->rows + x->used);
    if (bpf_map_update_elem(s->maps.pages, &key, &value, BPF_ANY) < 0)
        return -errno;
    x->used += t->pages[at].n;
    x->pages[x->n_pages++] = key;
    o->loaded[at] = 1;
    return 0;
}

/* As long as there is room, tables are loaded completely: each page that is missed costs a copied stack. */
static bool fits_whole(const struct row_store *s, const struct unwind_table *t)
{
    return t->n_rows <= WHOLE_ROWS ||
           s->n_shards + t->n_rows / UNWIND_SHARD_ROWS + 1 <= s->max_shards - s->max_shards / 4;
}

int row_store_load(struct row_store *s, struct object *o, uint32_t page, uint64_t now_ns)
{
    int r = load_page(s, o, page, now_ns);

    if (r == 0)
        row_store_load_all(s, o, now_ns);
    return r;
}

void row_store_load_all(struct row_store *s, struct object *o, uint64_t now_ns)
{
    struct unwind_table *t = o->whole ? NULL : objects_table(s->objects, o, now_ns);

    if (!t || !fits_whole(s, t))
        return;
    o->whole = true;
    for (uint32_t i = 0; i < t->n_pages; i++)
        if (load_page(s, o, (uint32_t) t->first_page + i, now_ns) < 0)
            return;
}

/* When the map is full, it begins anew: each address that is still in use costs one copied stack. */
static void forget_code(struct row_store *s)
{
    struct agent_code_key key;

    for (uint32_t i = 0; i < AGENT_CODE_RULES && bpf_map_get_next_key(s->maps.code_rules, NULL, &key) == 0; i++)
        bpf_map_delete_elem(s->maps.code_rules, &key);
}

void row_store_learn(struct row_store *s, const struct object *o, uint64_t address, const struct unwind_rule *rule)
{
    struct agent_code_key key = {address, o->number, 0};
    uint32_t number = rule ? number_of_rule(s, rule) : 0;

    if (s->maps.code_rules < 0 || (rule && !number))
        return;
    if (bpf_map_update_elem(s->maps.code_rules, &key, &number, BPF_ANY) == -E2BIG)
        forget_code(s);
}

int row_store_refused(const struct row_store *s)
{
    return s->refused;
}

size_t row_store_memory(const struct row_store *s)
{
    return s->n_shards * sizeof(struct agent_shard);
}
