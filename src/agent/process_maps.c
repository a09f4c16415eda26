/* SPDX-License-Identifier: Apache-2.0 */
/* Executable mappings of a process: adding, copying and reading them, finding their objects, and writing them into the
 * BPF record. See process_maps.h and process.h. */
#include "agent/process_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/file_memo.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "proc/proc_maps.h"

static void mapping_done(struct process_mapping *m)
{
    object_unref(m->object);
    mem_free(m->path);
}

void process_maps_clear(struct process *p)
{
    for (uint32_t i = 0; i < p->n_mappings; i++)
        mapping_done(&p->mappings[i]);
    p->n_mappings = 0;
}

bool process_maps_is_anonymous(const char *path)
{
    return !path || !*path || (path[0] == '/' && path[1] == '/') || strcmp(path, "[heap]") == 0 ||
           strncmp(path, "[stack", 6) == 0 || strncmp(path, "[anon", 5) == 0 || strncmp(path, "/dev/zero", 9) == 0 ||
           strncmp(path, "/memfd:", 7) == 0 || strncmp(path, "/SYSV", 5) == 0;
}

static int mapping_copy(const struct process_mapping *from, struct process_mapping *ret)
{
    char *path = from->path ? mem_strdup(from->path) : NULL;

    if (from->path && !path)
        return -ENOMEM;
    *ret = *from;
    ret->path = path;
    if (ret->object)
        object_ref(ret->object);
    return 0;
}

static int insert_at(struct process *p, uint32_t at, const struct process_mapping *m)
{
    int r = array_reserve(p->mappings, p->cap_mappings, p->n_mappings + 1u, PROCESS_MAPPINGS_MAX);

    if (r < 0)
        return r;
    memmove(p->mappings + at + 1, p->mappings + at, (p->n_mappings - at) * sizeof *p->mappings);
    p->mappings[at] = *m;
    p->n_mappings++;
    return 0;
}

static void remove_at(struct process *p, uint32_t at)
{
    mapping_done(&p->mappings[at]);
    memmove(p->mappings + at, p->mappings + at + 1, (p->n_mappings - at - 1) * sizeof *p->mappings);
    p->n_mappings--;
}

static void cut_front(struct process_mapping *m, uint64_t to)
{
    m->offset += to - m->start;
    m->start = to;
}

/* Removes [start, end) from the existing mappings. */
static int make_room(struct process *p, uint64_t start, uint64_t end)
{
    for (uint32_t i = 0; i < p->n_mappings;) {
        struct process_mapping *m = &p->mappings[i], rest;
        int r;

        if (m->end <= start || m->start >= end) {
            i++;
        } else if (m->start >= start && m->end <= end) {
            remove_at(p, i);
        } else if (m->start < start && m->end > end) { /* a hole in the middle */
            r = mapping_copy(m, &rest);
            if (r < 0)
                return r;
            cut_front(&rest, end);
            m->end = start;
            r = insert_at(p, i + 1, &rest);
            if (r < 0)
                mapping_done(&rest);
            return r;
        } else if (m->start < start) {
            m->end = start;
            i++;
        } else {
            cut_front(m, end);
            i++;
        }
    }
    return 0;
}

int process_maps_add(struct process *p, const struct process_mapping *m)
{
    struct process_mapping copy;
    uint32_t at = 0;
    int r = make_room(p, m->start, m->end);

    if (r == 0)
        r = mapping_copy(m, &copy);
    if (r < 0)
        return r;
    while (at < p->n_mappings && p->mappings[at].start < m->start)
        at++;
    r = insert_at(p, at, &copy);
    if (r < 0)
        mapping_done(&copy);
    p->stale = true;
    own_profiles_mapped(&p->own, m->path);
    return r;
}

int process_maps_copy(struct process *p, const struct process *from)
{
    process_maps_clear(p);
    for (uint32_t i = 0; i < from->n_mappings; i++) {
        struct process_mapping m;
        int r = mapping_copy(&from->mappings[i], &m);

        if (r == 0)
            r = insert_at(p, p->n_mappings, &m);
        if (r < 0)
            return r;
    }
    if (!p->exe_path && from->exe_path)
        p->exe_path = mem_strdup(from->exe_path);
    p->stale = true;
    return 0;
}

static const struct process_mapping *same_mapping(const struct process *p, const struct proc_map *m)
{
    const struct process_mapping *old = process_mapping_at(p, m->start);

    if (!old || old->start != m->start || old->end != m->end || old->offset != m->offset)
        return NULL;
    if (old->anonymous)
        return m->path.n ? NULL : old;
    return old->path && str_is(m->path, old->path) && (!old->key.inode || old->key.inode == m->inode) ? old : NULL;
}

static int add_from_proc(struct process *p, const struct process *before, const struct proc_map *m)
{
    const struct process_mapping *old = same_mapping(before, m);
    struct process_mapping new = {.start = m->start, .end = m->end, .offset = m->offset};
    char path[4200];
    int r;

    if (old) {
        r = mapping_copy(old, &new);
    } else {
        snprintf(path, sizeof path, "%.*s", STR_FMT(m->path));
        new.key = (struct object_key){.inode = m->inode, .major = m->major, .minor = m->minor};
        new.anonymous = process_maps_is_anonymous(path);
        new.deleted = m->deleted;
        new.path = m->path.n ? mem_strdup(path) : NULL;
        r = m->path.n && !new.path ? -ENOMEM : 0;
    }
    if (r == 0)
        r = insert_at(p, p->n_mappings, &new);
    return r;
}

static void tell_left_out(struct process *p, uint32_t pid, const struct proc_maps *maps)
{
    static struct log_limit limit;
    uint64_t held;

    if (!p->maps_left_out && log_limited(&limit, 60 * NS_PER_S, &held))
        log_warn("process %u has too many executable mappings: %u of them are not used, and code there has no names",
                 pid, maps->left_out);
    p->maps_left_out = maps->left_out;
}

int process_maps_read(struct process *p, uint32_t pid)
{
    struct process fresh = {0};
    struct proc_maps maps;
    int r = proc_maps_read((int) pid, true, &maps, NULL);

    if (r < 0)
        return r;
    for (uint32_t i = 0; i < maps.n && r == 0; i++) {
        if (maps.v[i].start >> 63 == 0) /* not [vsyscall] */
            r = add_from_proc(&fresh, p, &maps.v[i]);
        if (r == -E2BIG) {
            maps.left_out++;
            r = 0;
        }
    }
    if (r == 0 && maps.left_out)
        tell_left_out(p, pid, &maps);
    if (r == 0 && !maps.n)
        r = -ESRCH; /* a kernel thread, or a process that is ending */
    proc_maps_done(&maps);
    if (r < 0) {
        process_maps_clear(&fresh);
        mem_free(fresh.mappings);
        return r;
    }
    process_maps_clear(p);
    mem_free(p->mappings);
    p->mappings = fresh.mappings;
    p->n_mappings = fresh.n_mappings;
    p->cap_mappings = fresh.cap_mappings;
    for (uint32_t i = 0; i < p->n_mappings; i++)
        own_profiles_mapped(&p->own, p->own.likely ? NULL : p->mappings[i].path);
    p->stale = true;
    return 0;
}

struct process_mapping *process_mapping_at(const struct process *p, uint64_t address)
{
    uint32_t low = 0, high = p->n_mappings;

    while (low < high) {
        uint32_t mid = (low + high) / 2;

        if (p->mappings[mid].end <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low < p->n_mappings && address >= p->mappings[low].start ? &p->mappings[low] : NULL;
}

/* --- objects --- */
/* map_files opens exactly the file that is mapped, even if it was deleted; this needs CAP_CHECKPOINT_RESTORE. */
static int open_mapping(const struct process *p, const struct process_mapping *m)
{
    char path[80];
    struct stat st;
    int fd;

    snprintf(path, sizeof path, "/proc/%u/map_files/%llx-%llx", p->pid, (unsigned long long) m->start,
             (unsigned long long) m->end);
    fd = fd_open_regular(path);
    if (fd < 0 && !m->deleted)
        fd = process_open(p, m->path);
    if (fd < 0)
        return fd;
    if (fd_stat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        (m->key.inode && m->key.major && (uint64_t) st.st_ino != m->key.inode)) { /* replaced by another file */
        fd_close(fd);
        return -ESTALE;
    }
    return fd;
}

void processes_resolve(struct processes *s, struct process *p, struct process_mapping *m)
{
    struct objects *objects = processes_objects(s);
    bool vdso = m->path && strcmp(m->path, "[vdso]") == 0;
    struct object_key key = vdso ? (struct object_key){.inode = UINT64_MAX, .generation = 1} : m->key;
    struct file_memo_slot file = {0};
    struct object *o;
    int fd = -1, r;

    if (m->tried)
        return;
    m->tried = true;
    if (m->anonymous || !m->path || (m->path[0] != '/' && !vdso))
        return;
    o = objects_find(objects, &key, m->path);
    if (!o && p->brief && !vdso) { /* there may be budget at a later sample */
        m->tried = false;
        return;
    }
    if (!o && !vdso && !key.generation && file_memo_ask(p->pid, m, &file) == 0)
        o = file_memo_find(processes_memo(s), objects, &file);
    if (!o) {
        if (!vdso)
            fd = open_mapping(p, m);
        if (fd < 0 && !vdso)
            return;
        r = objects_add(objects, fd, m->path, &key, &o, NULL);
        if (r < 0) {
            m->tried = r != -EBUSY; /* the process that reads binaries is not available at the moment */
            return;
        }
        if (file.inode)
            file_memo_put(processes_memo(s), &file, o);
    }
    if (!object_bias(o, m->start, m->end, m->offset, &m->bias)) {
        object_unref(o);
        return;
    }
    m->object = o;
    if (!p->exe && p->exe_path && strcmp(p->exe_path, m->path) == 0)
        p->exe = object_ref(o);
}

void processes_resolve_exe(struct processes *s, struct process *p)
{
    for (uint32_t i = 0; i < p->n_mappings && !p->exe && p->exe_path; i++)
        if (p->mappings[i].path && strcmp(p->mappings[i].path, p->exe_path) == 0)
            processes_resolve(s, p, &p->mappings[i]);
}

static int by_start(const void *a, const void *b)
{
    const struct agent_mapping *x = a, *y = b;

    return x->start < y->start ? -1 : x->start > y->start;
}

static void put_mapping(struct agent_process *to, uint64_t start, uint64_t end, uint64_t bias, uint32_t file)
{
    if (start < end && to->n < AGENT_MAPPINGS)
        to->v[to->n++] = (struct agent_mapping){start, end, bias, file, 0};
}

/* Adds a mapping in up to three parts: code with frame pointers in the middle of a file is treated like JIT code. */
static void put_parts(struct agent_process *to, const struct process_mapping *m)
{
    const struct object *o = m->object && !m->object->failed ? m->object : NULL;
    uint64_t lo = o ? MIN(MAX(o->fp_lo + m->bias, m->start), m->end) : 0;
    uint64_t hi = o ? MIN(MAX(o->fp_hi + m->bias, m->start), m->end) : 0;

    if (!o) {
        put_mapping(to, m->start, m->end, 0, AGENT_FILE_NONE);
    } else if (!o->fp_hi || lo >= hi) {
        put_mapping(to, m->start, m->end, m->bias, o->number);
    } else {
        put_mapping(to, m->start, lo, m->bias, o->number);
        put_mapping(to, lo, hi, m->bias, AGENT_FILE_NONE);
        put_mapping(to, hi, m->end, m->bias, o->number);
    }
}

void processes_record(struct processes *s, struct process *p, struct agent_process *ret)
{
    bool too_many = p->n_mappings > AGENT_MAPPINGS;

    *ret = (struct agent_process){.mm = p->mm, .span = p->span};
    if (p->lang_in_bpf)
        ret->flags |= AGENT_PROCESS_LANG;
    if (too_many)
        ret->flags |= AGENT_PROCESS_PARTIAL;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < p->n_mappings && ret->n < AGENT_MAPPINGS; i++) {
            struct process_mapping *m = &p->mappings[i];

            if (too_many ? m->hit != (pass == 0) : pass == 1)
                continue;
            processes_resolve(s, p, m);
            put_parts(ret, m);
        }
    qsort(ret->v, ret->n, sizeof ret->v[0], by_start);
}
