/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set of objects: identifies files, opens them, and compiles and drops their unwind tables. Files are untrusted and
 * may be truncated while they are read: code that reads them runs under object_guard(), which turns SIGBUS into -EIO.
 */
#include "agent/object.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/bpf/agent_abi.h"
#include "agent/debug_file.h"
#include "agent/lang/lang.h"
#include "agent/names.h"
#include "agent/object_guard.h"
#include "agent/v8_builtins.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "elf/elf_load.h"
#include "elf/elf_symbols.h"
#include "unwind/table.h"

enum { OBJECTS_MAX = 16384, KEYS_MAX = 65536, OPEN_FILES_MAX = 400, START_BYTES = 128 };
static const uint64_t IDLE_NS = 600ull * NS_PER_S; /* an object that no process maps is kept this long */

struct known_key {
    struct object_key key;
    struct object *object;
};

struct objects {
    struct object **v;
    size_t n, cap;
    struct known_key *keys;
    size_t n_keys, cap_keys;
    struct map by_key, by_id, by_number;
    uint32_t next_number;
    size_t table_bytes, table_budget;
};

/* --- keys --- */
static uint64_t key_hash(const struct object_key *k)
{
    return hash64_u64(k->inode ^ k->generation << 32 ^ (uint64_t) k->major << 52 ^ (uint64_t) k->minor << 40);
}

static bool key_eq(const struct object_key *a, const struct object_key *b)
{
    return a->inode == b->inode && a->generation == b->generation && a->major == b->major && a->minor == b->minor;
}

static bool key_is_set(const struct object_key *k)
{
    return k->inode && k->generation;
}

static void remember_key(struct objects *s, const struct object_key *key, struct object *o)
{
    if (!key_is_set(key) || array_reserve(s->keys, s->cap_keys, s->n_keys + 1, KEYS_MAX) < 0)
        return;
    s->keys[s->n_keys] = (struct known_key){*key, o};
    if (map_insert(&s->by_key, key_hash(key), (uint32_t) s->n_keys) == 0)
        s->n_keys++;
}

struct object *object_ref(struct object *o)
{
    o->refs++;
    return o;
}

void object_unref(struct object *o)
{
    if (o)
        o->refs--;
}

struct object *objects_find(struct objects *s, const struct object_key *key)
{
    if (!key_is_set(key))
        return NULL;
    for (struct map_pos p = map_find(&s->by_key, key_hash(key)); p.index != MAP_NONE; p = map_next(&s->by_key, p))
        if (key_eq(&s->keys[p.index].key, key))
            return object_ref(s->keys[p.index].object);
    return NULL;
}

const char *object_id(const struct object *o)
{
    return o->gnu_id[0] ? o->gnu_id : o->go_id[0] ? o->go_id : o->htlhash;
}

static struct object *find_by_id(struct objects *s, const char *id)
{
    for (struct map_pos p = map_find(&s->by_id, hash64_str(str_from(id))); p.index != MAP_NONE;
         p = map_next(&s->by_id, p))
        if (strcmp(object_id(s->v[p.index]), id) == 0)
            return s->v[p.index];
    return NULL;
}

struct object *objects_by_number(struct objects *s, uint32_t number)
{
    for (struct map_pos p = map_find(&s->by_number, hash64_u64(number)); p.index != MAP_NONE;
         p = map_next(&s->by_number, p))
        if (s->v[p.index]->number == number)
            return s->v[p.index];
    return NULL;
}

/* --- files --- */
static int open_vdso(struct elf_file **ret, struct err *e)
{
    const void *at = (const void *) getauxval(AT_SYSINFO_EHDR); // NOLINT: the kernel's address
    const Elf64_Ehdr *h = at;
    void *copy;
    size_t n;

    if (!at)
        return err_set(e, -ENOENT, "the kernel gave no vDSO");
    n = h->e_shoff + (size_t) h->e_shnum * h->e_shentsize;
    copy = n < (1 << 20) ? mem_dup(at, n) : NULL;
    if (!copy)
        return -ENOMEM;
    if (elf_from_bytes(copy, n, true, ret, e) < 0) {
        mem_free(copy);
        return -ENOEXEC;
    }
    return 0;
}

/* Opens the file by its path when its descriptor was closed to make room; the content must still be the same. */
static int open_again(const struct object *o, struct elf_file **ret, struct err *e)
{
    _cleanup_(fd_closep) int fd = fd_open_in_root("/", o->path);
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    char id[ELF_ID_MAX];
    int r = fd < 0 ? fd : elf_open_fd(fd, &f, e);

    if (r < 0)
        return r;
    elf_gnu_build_id(f, id);
    if (!o->gnu_id[0] || strcmp(id, o->gnu_id) != 0)
        return err_set(e, -ESTALE, "'%s' was replaced", o->path);
    *ret = TAKE(f);
    return 0;
}

int object_open_elf(struct object *o, struct elf_file **ret, struct err *e)
{
    if (o->kind == OBJECT_VDSO)
        return open_vdso(ret, e);
    if (o->fd >= 0)
        return elf_open_fd(o->fd, ret, e);
    return open_again(o, ret, e);
}

void object_reach(const struct object *o, char *ret, size_t size)
{
    struct stat here, there;

    if (o->fd < 0 || (fstat(o->fd, &here) == 0 && stat(o->path, &there) == 0 && here.st_dev == there.st_dev &&
                      here.st_ino == there.st_ino))
        snprintf(ret, size, "%s", o->path);
    else
        snprintf(ret, size, "/proc/%ld/fd/%d", (long) getpid(), o->fd);
}

bool object_bias(const struct object *o, uint64_t start, uint64_t end, uint64_t offset, uint64_t *ret)
{
    if (o->kind == OBJECT_VDSO) {
        *ret = start;
        return true;
    }
    return elf_load_bias(o->segments, o->n_segments, start, end, offset, ret);
}

bool object_is_start(const struct object *o, uint64_t address)
{
    return o->entry && address - o->entry < START_BYTES;
}

static int keep_segments(struct object *o, const struct elf_file *f)
{
    size_t cap = 0;

    for (uint32_t i = 0; i < f->n_segments; i++) {
        if (f->segments[i].type != PT_LOAD)
            continue;
        if (array_reserve(o->segments, cap, o->n_segments + 1u, 64) < 0)
            return -ENOMEM;
        o->segments[o->n_segments++] = f->segments[i];
    }
    return 0;
}

static void object_free(struct object *o)
{
    if (!o)
        return;
    object_names_free(o->names);
    unwind_table_free(o->table);
    mem_free(o->rule_numbers);
    mem_free(o->loaded);
    mem_free(o->segments);
    mem_free(o->path);
    mem_free(o->span);
    fd_close(o->fd);
    mem_free(o);
}

struct reading {
    struct object *object;
    struct err *e;
};

static int read_identity(void *arg)
{
    struct reading *q = arg;
    struct object *o = q->object;
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    int r = object_open_elf(o, &f, q->e);

    if (r < 0)
        return r;
    elf_gnu_build_id(f, o->gnu_id);
    o->is_go = elf_find_section(f, ".gopclntab") || elf_find_section(f, ".go.buildinfo");
    if (o->is_go)
        elf_go_build_id(f, o->go_id);
    if (!o->gnu_id[0] && !o->go_id[0]) {
        char id[ELF_ID_MAX];

        elf_htlhash(f, id);
        snprintf(o->htlhash, sizeof o->htlhash, "%.39s", id);
    }
    o->entry = f->entry;
    return keep_segments(o, f);
}

static int object_new(int fd, const char *path, struct object **ret)
{
    struct object *o = mem_zalloc(sizeof *o);
    struct stat st;

    if (!o) {
        fd_close(fd);
        return -ENOMEM;
    }
    o->fd = fd;
    o->owner = fd >= 0 && fstat(fd, &st) == 0 ? st.st_uid : 0;
    o->kind = fd < 0 ? OBJECT_VDSO : OBJECT_FILE;
    o->path = mem_strdup(path);
    if (!o->path) {
        object_free(o);
        return -ENOMEM;
    }
    *ret = o;
    return 0;
}

/* --- the set --- */
int objects_new(size_t table_budget, struct objects **ret)
{
    struct objects *s = mem_zalloc(sizeof *s);

    if (!s)
        return -ENOMEM;
    s->next_number = AGENT_FILES_FIRST;
    s->table_budget = table_budget;
    *ret = s;
    return 0;
}

void objects_free(struct objects *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++)
        object_free(s->v[i]);
    map_done(&s->by_key);
    map_done(&s->by_id);
    map_done(&s->by_number);
    mem_free(s->keys);
    mem_free(s->v);
    mem_free(s);
}

static int index_object(struct objects *s, struct object *o, uint32_t at)
{
    int r = map_insert(&s->by_number, hash64_u64(o->number), at);

    if (r == 0 && object_id(o)[0])
        r = map_insert(&s->by_id, hash64_str(str_from(object_id(o))), at);
    return r;
}

/* Closes the descriptor of the least recently used file. */
static void limit_open(struct objects *s)
{
    struct object *oldest = NULL;
    uint32_t n = 0;

    for (size_t i = 0; i < s->n; i++) {
        struct object *o = s->v[i];

        n += o->fd >= 0;
        if (o->fd >= 0 && o->gnu_id[0] && (!oldest || o->last_used_ns < oldest->last_used_ns))
            oldest = o;
    }
    if (n < OPEN_FILES_MAX || !oldest)
        return;
    fd_close(oldest->fd);
    oldest->fd = -1;
}

static void rebuild(struct objects *s)
{
    size_t n = 0;

    map_reset(&s->by_number);
    map_reset(&s->by_id);
    map_reset(&s->by_key);
    for (size_t i = 0; i < s->n; i++)
        index_object(s, s->v[i], (uint32_t) i); /* cannot fail: nothing is added */
    for (size_t i = 0; i < s->n_keys; i++)
        if (s->keys[i].object) {
            s->keys[n] = s->keys[i];
            map_insert(&s->by_key, key_hash(&s->keys[n].key), (uint32_t) n);
            n++;
        }
    s->n_keys = n;
}

/* --- build ids that two owners claim --- */
static int hash_content(void *arg)
{
    struct object *o = arg;
    _cleanup_(elf_freep) struct elf_file *f = NULL;
    char id[ELF_ID_MAX];
    int r = object_open_elf(o, &f, NULL);

    if (r < 0)
        return r;
    elf_htlhash(f, id);
    snprintf(o->htlhash, sizeof o->htlhash, "%.31s-%x", id, o->owner); /* the hash is of parts of the file alone */
    return 0;
}

/* From now on the object is identified by a hash of its content. */
static void disown_id(struct object *o)
{
    if (object_guard(hash_content, o) < 0)
        snprintf(o->htlhash, sizeof o->htlhash, "%x-%x", o->number, o->owner);
    o->gnu_id[0] = o->go_id[0] = 0;
}

/* Finds the object that equals a new one. If two owners claim the same id, root's file keeps it, else the first one. */
static struct object *find_same(struct objects *s, struct object *o)
{
    struct object *same = object_id(o)[0] ? find_by_id(s, object_id(o)) : NULL;

    if (!same || same->owner == o->owner)
        return same;
    if (o->owner == 0) {
        disown_id(same);
        rebuild(s);
        return NULL;
    }
    disown_id(o);
    same = find_by_id(s, object_id(o));
    return same && same->owner == o->owner ? same : NULL;
}

int objects_add(struct objects *s, int fd, const char *path, const struct object_key *key, struct object **ret,
                struct err *e)
{
    struct object *o = NULL, *same;
    struct reading q = {.e = e};
    int r = object_new(fd, path, &o);

    if (r < 0)
        return r;
    q.object = o;
    r = object_guard(read_identity, &q);
    same = r == 0 ? find_same(s, o) : NULL;
    if (r < 0 || same) {
        if (same && same->fd < 0 && o->fd >= 0)
            same->fd = o->fd, o->fd = -1;
        object_free(o);
        if (r < 0)
            return r;
        remember_key(s, key, same);
        *ret = object_ref(same);
        return 0;
    }
    limit_open(s);
    o->number = s->next_number++;
    r = array_reserve(s->v, s->cap, s->n + 1, OBJECTS_MAX);
    if (r == 0)
        r = index_object(s, o, (uint32_t) s->n);
    if (r < 0) {
        object_free(o);
        return r;
    }
    s->v[s->n++] = o;
    remember_key(s, key, o);
    *ret = object_ref(o);
    return 0;
}

/* --- tables --- */
static void add_section(struct cfi_section *v, uint32_t *n, struct elf_bytes b, bool debug)
{
    if (b.n)
        v[(*n)++] = (struct cfi_section){b.p, b.n, b.address, debug};
}

/* Finds .eh_frame through PT_GNU_EH_FRAME, for files without section headers. */
static struct elf_bytes eh_frame_by_header(const struct elf_file *f)
{
    for (uint32_t i = 0; i < f->n_segments; i++) {
        const struct elf_segment *g = &f->segments[i];
        const uint8_t *h = g->type == PT_GNU_EH_FRAME ? elf_at_address(f, g->vaddr, 8) : NULL;
        int32_t rel;
        uint64_t at;

        if (!h || h[0] != 1 || h[1] != 0x1b) /* version; a pc-relative sdata4, as every linker writes it */
            continue;
        memcpy(&rel, h + 4, sizeof rel);
        at = g->vaddr + 4 + (uint64_t) (int64_t) rel;
        for (uint32_t k = 0; k < f->n_segments; k++) {
            const struct elf_segment *load = &f->segments[k];
            struct elf_bytes b = elf_segment_bytes(f, load);

            if (load->type == PT_LOAD && at >= load->vaddr && at - load->vaddr < b.n)
                return (struct elf_bytes){b.p + (at - load->vaddr), b.n - (at - load->vaddr), at};
        }
    }
    return (struct elf_bytes){0};
}

static int compile(void *arg)
{
    struct reading *q = arg;
    struct object *o = q->object;
    _cleanup_(elf_freep) struct elf_file *f = NULL, *debug = NULL;
    struct cfi_section v[4];
    uint32_t n = 0;
    enum cfi_arch arch;
    char path[PATH_MAX];
    int r = object_open_elf(o, &f, NULL);

    if (r < 0)
        return r;
    r = lang_table_new(f, &o->table, NULL);
    if (r != -ENODATA)
        return r;
    v8_builtins_find(f, o->path, &o->fp_lo, &o->fp_hi);
    arch = f->machine == EM_AARCH64 ? CFI_ARM64 : CFI_X86_64;
    if (!f->is64 || (f->machine != EM_X86_64 && f->machine != EM_AARCH64))
        return -ENOEXEC;
    add_section(v, &n, elf_section_bytes(f, ".eh_frame"), false);
    if (!n)
        add_section(v, &n, eh_frame_by_header(f), false);
    add_section(v, &n, elf_section_bytes(f, ".debug_frame"), true);
    debug = debug_file_open(o, f, path);
    if (debug)
        add_section(v, &n, elf_section_bytes(debug, ".debug_frame"), true);
    return unwind_table_new(v, n, arch, &o->table);
}

static void drop_table(struct objects *s, struct object *o)
{
    if (!o->table)
        return;
    s->table_bytes -= unwind_table_memory(o->table);
    unwind_table_free(TAKE(o->table));
}

struct unwind_table *objects_table(struct objects *s, struct object *o, uint64_t now_ns)
{
    struct reading q = {.object = o};

    o->last_used_ns = now_ns;
    if (o->table || o->failed)
        return o->table;
    if (object_guard(compile, &q) < 0 || !o->table || !o->table->n_pages) {
        unwind_table_free(TAKE(o->table));
        o->failed = true;
        return NULL;
    }
    if (!o->rule_numbers)
        o->rule_numbers = mem_zalloc_array(o->table->n_rules, sizeof *o->rule_numbers);
    if (!o->loaded)
        o->loaded = mem_zalloc_array(o->table->n_pages, 1);
    if (!o->rule_numbers || !o->loaded) {
        unwind_table_free(TAKE(o->table));
        return NULL;
    }
    s->table_bytes += unwind_table_memory(o->table);
    return o->table;
}

static struct object *oldest_table(struct objects *s, uint64_t before)
{
    struct object *oldest = NULL;

    for (size_t i = 0; i < s->n; i++)
        if (s->v[i]->table && s->v[i]->last_used_ns < before &&
            (!oldest || s->v[i]->last_used_ns < oldest->last_used_ns))
            oldest = s->v[i];
    return oldest;
}

void objects_sweep(struct objects *s, uint64_t now_ns)
{
    size_t n = 0;
    struct object *o;

    while (s->table_bytes > s->table_budget && (o = oldest_table(s, now_ns - MIN(now_ns, 1ull * NS_PER_S))))
        drop_table(s, o);
    for (size_t i = 0; i < s->n; i++) {
        o = s->v[i];
        if (o->refs || now_ns - o->last_used_ns < IDLE_NS) {
            s->v[n++] = o;
            continue;
        }
        for (size_t k = 0; k < s->n_keys; k++)
            if (s->keys[k].object == o)
                s->keys[k].object = NULL;
        drop_table(s, o);
        object_free(o);
    }
    if (n != s->n) {
        s->n = n;
        rebuild(s);
    }
}

void objects_set_budget(struct objects *s, size_t table_bytes)
{
    s->table_budget = table_bytes;
}

void objects_limit_names(struct objects *s, uint64_t since_ns, size_t bytes)
{
    size_t total = 0;

    for (size_t i = 0; i < s->n; i++)
        total += object_names_memory(s->v[i]);
    while (total > bytes) {
        struct object *oldest = NULL;

        for (size_t i = 0; i < s->n; i++)
            if (s->v[i]->names && s->v[i]->names_used_ns < since_ns &&
                (!oldest || s->v[i]->names_used_ns < oldest->names_used_ns))
                oldest = s->v[i];
        if (!oldest)
            return;
        total -= object_names_memory(oldest);
        object_names_free(TAKE(oldest->names));
    }
}

struct object *objects_at(struct objects *s, size_t i)
{
    return s->v[i];
}

size_t objects_count(const struct objects *s)
{
    return s->n;
}

size_t objects_memory(const struct objects *s)
{
    return s->table_bytes;
}
