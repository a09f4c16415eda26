/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set of objects: identifies files, opens them, and gets and drops their unwind tables. Files are untrusted: this
 * process only opens them, and a confined one reads them (reader/file_reader.h).
 */
#include "agent/object.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/bpf/agent_abi.h"
#include "agent/debug_file.h"
#include "agent/names.h"
#include "agent/reader/file_reader.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "elf/elf_load.h"
#include "unwind/table_share.h"

enum { OBJECTS_MAX = 16384, KEYS_MAX = 65536, OPEN_FILES_MAX = 400, START_BYTES = 128 };
static const uint64_t IDLE_NS = 600ull * NS_PER_S; /* an object that no process maps is kept this long */

struct known_key {
    struct object_key key;
    struct object *object;
    dev_t device; /* of its descriptor at that time, for a key without a generation */
    ino_t inode;
};

struct objects {
    struct object **v;
    size_t n, cap;
    struct known_key *keys;
    size_t n_keys, cap_keys;
    struct map by_key, by_id, by_number, by_inode;
    uint32_t next_number;
    size_t table_bytes, table_budget;
    struct file_reader *reader;
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

static struct known_key *find_key(struct objects *s, const struct object_key *key)
{
    for (struct map_pos p = map_find(&s->by_key, key_hash(key)); p.index != MAP_NONE; p = map_next(&s->by_key, p))
        if (key_eq(&s->keys[p.index].key, key))
            return &s->keys[p.index];
    return NULL;
}

/* pinned: the object's descriptor is of the very file that has this key, not of a copy of it. */
static void remember_key(struct objects *s, const struct object_key *key, struct object *o, bool pinned)
{
    struct known_key new = {*key, o, o->file.device, o->file.inode}, *old;

    if (!key->inode || (!key->generation && !pinned))
        return;
    old = find_key(s, key);
    if (old) {
        *old = new;
        return;
    }
    if (array_reserve(s->keys, s->cap_keys, s->n_keys + 1, KEYS_MAX) < 0)
        return;
    s->keys[s->n_keys] = new;
    if (map_insert(&s->by_key, key_hash(key), (uint32_t) s->n_keys) == 0)
        s->n_keys++;
}

static struct object_file file_of(int fd)
{
    struct stat st;

    if (fd < 0 || fd_stat(fd, &st) < 0)
        return (struct object_file){0};
    return (struct object_file){st.st_dev, st.st_ino, st.st_size, st.st_ctim};
}

static bool is_same_inode(const struct object_file *a, const struct object_file *b)
{
    return a->inode && a->inode == b->inode && a->device == b->device;
}

static bool is_same_file(const struct object_file *a, const struct object_file *b)
{
    return is_same_inode(a, b) && a->size == b->size && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

/* True while no other file can have this key. */
static bool is_valid(const struct known_key *k, const char *path)
{
    const struct object *o = k->object;
    struct object_file now;

    if (k->key.generation)
        return true;
    if (o->fd < 0 || o->file.inode != k->inode || o->file.device != k->device || strcmp(o->path, path) != 0)
        return false;
    now = file_of(o->fd);
    return is_same_file(&now, &o->file);
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

struct object *objects_find(struct objects *s, const struct object_key *key, const char *path)
{
    const struct known_key *k = key->inode ? find_key(s, key) : NULL;

    return k && is_valid(k, path) ? object_ref(k->object) : NULL;
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
/* The object's descriptor, or a new one by its path when that was closed to make room: then the content must still be the
 * same, which the reader checks. *ret_own is the descriptor to close, or -1. */
static int reach_file(const struct object *o, struct file_request *q, int *ret_own)
{
    *ret_own = -1;
    if (o->kind == OBJECT_VDSO) {
        q->is_vdso = 1;
        return -1;
    }
    if (o->fd >= 0)
        return o->fd;
    if (!o->gnu_id[0])
        return -ESTALE;
    snprintf(q->id, sizeof q->id, "%s", o->gnu_id);
    q->expects_id = 1;
    return *ret_own = fd_open_in_root("/", o->path);
}

int object_ask(const struct object *o, struct file_request *q, int debug_fd, struct file_answer *ret, int *ret_fd)
{
    _cleanup_(fd_closep) int own = -1;
    int fds[2] = {-1, debug_fd};

    file_request_path(q, o->path);
    fds[0] = reach_file(o, q, &own);
    if (ret_fd)
        *ret_fd = -1;
    if (fds[0] < 0 && !q->is_vdso)
        return fds[0];
    return file_reader_ask(o->reader, q, fds, ret, ret_fd);
}

void object_reach(const struct object *o, char *ret, size_t size)
{
    struct stat here, there;

    if (o->fd < 0 || (fd_stat(o->fd, &here) == 0 && fd_stat_path(o->path, &there) == 0 && here.st_dev == there.st_dev &&
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
    mem_free(o->go);
    mem_free(o->debug_link);
    fd_close(o->fd);
    mem_free(o);
}

static int keep_facts(struct object *o, const struct file_facts *f)
{
    memcpy(o->gnu_id, f->gnu_id, sizeof o->gnu_id);
    memcpy(o->go_id, f->go_id, sizeof o->go_id);
    memcpy(o->htlhash, f->hash, sizeof o->htlhash);
    o->is_go = f->is_go;
    o->entry = f->entry;
    o->has_own_lines = f->has_lines;
    o->has_own_names = f->has_names;
    o->debug_crc = f->debug_crc;
    o->n_segments = f->n_segments;
    o->segments = mem_dup(f->segments, f->n_segments * sizeof *f->segments);
    if (!o->segments && f->n_segments)
        return -ENOMEM;
    if (f->has_span && !(o->span = mem_dup(&f->span, sizeof f->span)))
        return -ENOMEM;
    if (f->debug_link[0] && !(o->debug_link = mem_strdup(f->debug_link)))
        return -ENOMEM;
    if (f->has_go_build) {
        o->go = mem_zalloc(sizeof *o->go);
        if (!o->go)
            return -ENOMEM;
        memcpy(o->go->version, f->go_version, sizeof o->go->version);
        memcpy(o->go->revision, f->go_revision, sizeof o->go->revision);
        o->go->modified = f->go_modified;
    }
    return 0;
}

static int read_identity(struct object *o, struct err *e)
{
    struct file_request q = {.op = FILE_FACTS};
    struct file_answer a;
    int r = object_ask(o, &q, -1, &a, NULL);

    return r < 0 ? err_set(e, r, "cannot read '%s': %m", o->path) : keep_facts(o, &a.facts);
}

static int object_new(struct file_reader *reader, int fd, const char *path, struct object **ret)
{
    struct object *o = mem_zalloc(sizeof *o);
    struct stat st;

    if (!o) {
        fd_close(fd);
        return -ENOMEM;
    }
    o->fd = fd;
    o->reader = reader;
    o->file = file_of(fd);
    if (fd >= 0 && fd_stat(fd, &st) == 0)
        o->owner = st.st_uid;
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
int objects_new(size_t table_budget, struct file_reader *reader, struct objects **ret)
{
    struct objects *s = mem_zalloc(sizeof *s);

    if (!s)
        return -ENOMEM;
    s->next_number = AGENT_FILES_FIRST;
    s->table_budget = table_budget;
    s->reader = reader;
    *ret = s;
    return 0;
}

struct file_reader *objects_reader(const struct objects *s)
{
    return s->reader;
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
    map_done(&s->by_inode);
    mem_free(s->keys);
    mem_free(s->v);
    mem_free(s);
}

static int index_object(struct objects *s, struct object *o, uint32_t at)
{
    int r = map_insert(&s->by_number, hash64_u64(o->number), at);

    if (r == 0 && o->file.inode)
        r = map_insert(&s->by_inode, hash64_u64(o->file.inode), at);
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
    map_reset(&s->by_inode);
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
/* From now on the object is identified by a hash of its content. */
static void disown_id(struct object *o)
{
    struct file_request q = {.op = FILE_FACTS, .want_hash = 1};
    struct file_answer a;

    if (object_ask(o, &q, -1, &a, NULL) < 0)
        snprintf(o->htlhash, sizeof o->htlhash, "%x-%x", o->number, o->owner);
    else /* the hash is of parts of the file alone */
        snprintf(o->htlhash, sizeof o->htlhash, "%.31s-%x", a.facts.hash, o->owner);
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

/* The object of the same file, which was not changed. While its descriptor is open, no other file can have the inode
 * number. */
static struct object *find_open(const struct objects *s, const struct object *o)
{
    for (struct map_pos p = map_find(&s->by_inode, hash64_u64(o->file.inode)); o->file.inode && p.index != MAP_NONE;
         p = map_next(&s->by_inode, p)) {
        struct object *have = s->v[p.index];

        if (have->fd >= 0 && is_same_file(&have->file, &o->file))
            return have;
    }
    return NULL;
}

/* An object whose descriptor was closed to make room gets that of an equal one. */
static void adopt_fd(struct objects *s, struct object *o, struct object *from)
{
    o->fd = from->fd;
    from->fd = -1;
    if (is_same_file(&o->file, &from->file))
        return;
    o->file = from->file;
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i] == o)
            map_insert(&s->by_inode, hash64_u64(o->file.inode), (uint32_t) i); /* on failure it is read once more */
}

int objects_add(struct objects *s, int fd, const char *path, const struct object_key *key, struct object **ret,
                struct err *e)
{
    struct object *o = NULL, *same;
    bool pinned;
    int r = object_new(s->reader, fd, path, &o);

    if (r < 0)
        return r;
    same = find_open(s, o);
    if (!same) {
        r = read_identity(o, e);
        same = r == 0 ? find_same(s, o) : NULL;
    }
    if (r < 0 || same) {
        if (same && same->fd < 0 && o->fd >= 0)
            adopt_fd(s, same, o);
        pinned = same && same->fd >= 0 && is_same_inode(&same->file, &o->file);
        if (pinned) /* renamed or linked since, with the same content */
            same->file = o->file;
        object_free(o);
        if (r < 0)
            return r;
        remember_key(s, key, same, pinned);
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
    remember_key(s, key, o, true);
    *ret = object_ref(o);
    return 0;
}

/* --- tables --- */
static int get_table(struct object *o)
{
    struct file_request q = {.op = FILE_TABLE};
    _cleanup_(fd_closep) int debug = debug_file_open(o, NULL), fd = -1;
    struct file_answer a;
    int r = object_ask(o, &q, debug, &a, &fd);

    if (r < 0)
        return r;
    r = unwind_table_map(fd, &o->table);
    if (r == -EBADMSG)
        file_reader_distrust(o->reader);
    o->fp_lo = a.range.lo;
    o->fp_hi = a.range.hi;
    return r;
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
    int r;

    o->last_used_ns = now_ns;
    if (o->table || o->failed)
        return o->table;
    r = get_table(o);
    if (r == -EBUSY) /* later */
        return NULL;
    if (r < 0 || !o->table->n_pages) {
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
