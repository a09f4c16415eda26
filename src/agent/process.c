/* SPDX-License-Identifier: Apache-2.0 */
/* The table of processes and their images, kept up to date by the kernel's records and /proc. Mappings are changed in
 * process_maps.c. */
#include "agent/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/file_memo.h"
#include "agent/identity.h"
#include "agent/lang/lang.h"
#include "agent/perf_map.h"
#include "agent/process_maps.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "proc/far_call.h"
#include "proc/proc_children.h"
#include "proc/proc_path.h"

enum { BUCKETS = 1024, PROCESSES_MAX = 16384, PIDS_READ_MAX = 2048 };
static const uint64_t LINGER_NS = 10ull * NS_PER_S; /* samples of an image that ended arrive this late at most */

struct processes {
    struct objects *objects;
    struct file_memo memo;
    struct process *buckets[BUCKETS];
    size_t n;
    uint64_t next_number, refused;
    void (*on_exec)(void *arg, const struct process *before);
    void *on_exec_arg;
};

int processes_new(struct objects *objects, struct processes **ret)
{
    struct processes *s = mem_zalloc(sizeof *s);

    if (!s)
        return -ENOMEM;
    s->objects = objects;
    *ret = s;
    return 0;
}

static void process_free(struct process *p)
{
    if (p->lang && p->lang->detach)
        p->lang->detach(p);
    process_maps_clear(p);
    mem_free(p->mappings);
    object_unref(p->exe);
    mem_free(p->exe_path);
    identity_free(p->identity);
    process_seen_unref(p->seen);
    perf_map_free(p->perf_map);
    mem_free(p);
}

void processes_free(struct processes *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct process *p = s->buckets[i], *next; p; p = next) {
            next = p->next;
            process_free(p);
        }
    mem_free(s);
}

struct file_memo *processes_memo(struct processes *s)
{
    return &s->memo;
}

struct objects *processes_objects(struct processes *s)
{
    return s->objects;
}

static struct process **bucket_of(struct processes *s, uint32_t pid)
{
    return &s->buckets[pid % BUCKETS];
}

static struct process *newest(struct processes *s, uint32_t pid)
{
    for (struct process *p = *bucket_of(s, pid); p; p = p->next)
        if (p->pid == pid)
            return p;
    return NULL;
}

struct process *processes_find(struct processes *s, uint32_t pid, uint64_t time_ns)
{
    for (struct process *p = *bucket_of(s, pid); p; p = p->next)
        if (p->pid == pid && time_ns >= p->since_ns && time_ns < p->until_ns)
            return p;
    return NULL;
}

/* A new image; the one before ends here. */
static struct process *begin(struct processes *s, uint32_t pid, uint64_t since_ns)
{
    struct process *old = newest(s, pid), *p;

    if (s->n >= PROCESSES_MAX) {
        s->refused++;
        return NULL;
    }
    p = mem_zalloc(sizeof *p);
    if (!p)
        return NULL;
    if (old && old->until_ns > since_ns)
        old->until_ns = since_ns;
    p->pid = pid;
    p->since_ns = since_ns;
    p->until_ns = UINT64_MAX;
    p->number = ++s->next_number;
    p->verdict = -1;
    p->reader = objects_reader(s->objects);
    p->next = *bucket_of(s, pid);
    *bucket_of(s, pid) = p;
    s->n++;
    return p;
}

void processes_watch_exec(struct processes *s, void (*f)(void *arg, const struct process *before), void *arg)
{
    s->on_exec = f;
    s->on_exec_arg = arg;
}

/* --- the kernel's records --- */
/* Each CPU has a buffer of its own, and they are read one after the other: the exec of a new process may be read before
 * its fork. */
static bool add_late_fork(struct processes *s, uint32_t pid, uint32_t ppid, uint64_t time_ns)
{
    struct process *p = newest(s, pid);

    if (!p || p->since_ns <= time_ns)
        return false;
    p->ppid = ppid;
    p->start_ns = time_ns;
    p->cpu.from_start = !p->samples;
    return true;
}

void processes_fork(struct processes *s, uint32_t pid, uint32_t ppid, uint64_t time_ns)
{
    struct process *parent = newest(s, ppid), *p;

    if (add_late_fork(s, pid, ppid, time_ns))
        return;
    p = begin(s, pid, time_ns);
    if (!p)
        return;
    p->ppid = ppid;
    p->start_ns = time_ns;
    p->cpu.from_start = true;
    if (!parent)
        return;
    memcpy(p->comm, parent->comm, sizeof p->comm);
    process_seen_inherit(p, parent);
    if (!parent->maps_read || process_maps_copy(p, parent) < 0)
        return;
    p->maps_read = true;
}

void processes_exec(struct processes *s, uint32_t pid, const char *comm, uint64_t time_ns)
{
    struct process *old = newest(s, pid), *p = begin(s, pid, time_ns);

    if (!p)
        return;
    p->ppid = old ? old->ppid : 0;
    p->start_ns = old ? old->start_ns : 0;
    p->cpu.from_start = old && old->cpu.from_start; /* until its first sample */
    if (old && s->on_exec)
        s->on_exec(s->on_exec_arg, old);
    snprintf(p->comm, sizeof p->comm, "%.15s", comm);
    p->maps_read = true; /* it starts without mappings, and the kernel reports every new one */
}

void processes_comm(struct processes *s, uint32_t pid, const char *comm, uint64_t time_ns)
{
    struct process *p = processes_find(s, pid, time_ns);

    if (p)
        snprintf(p->comm, sizeof p->comm, "%.15s", comm);
}

void processes_exit(struct processes *s, uint32_t pid, uint64_t time_ns)
{
    struct process *p = processes_find(s, pid, time_ns);

    if (p) {
        p->exited = true;
        p->last_sample_ns = MAX(p->last_sample_ns, time_ns);
    }
}

void processes_mmap(struct processes *s, uint32_t pid, const struct process_mapping *m, uint64_t time_ns)
{
    struct process *p = processes_find(s, pid, time_ns);

    if (!p || !p->maps_read) /* not known, or its maps will be read completely later */
        return;
    process_maps_add(p, m);
    if (!p->exe_path && m->path && m->path[0] == '/' && !m->anonymous)
        p->exe_path = mem_strdup(m->path);
}

/* --- /proc --- */
static int read_small(uint32_t pid, const char *name, char *ret, size_t size)
{
    char path[64];
    _cleanup_(fd_closep) int fd = -1;
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%u/%s", pid, name);
    fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
    if (fd < 0)
        return fd;
    n = fd_read(fd, ret, size - 1);
    if (n < 0)
        return (int) n;
    ret[n] = 0;
    return 0;
}

/* Reads comm, ppid and start time. The name may contain any character, so fields are counted from the last ')'. */
static int read_stat(struct process *p)
{
    char text[1024], *name, *end;
    struct str rest;
    uint64_t ppid = 0;
    int r = read_small(p->pid, "stat", text, sizeof text);

    if (r < 0)
        return r;
    name = strchr(text, '(');
    end = strrchr(text, ')');
    if (!name || !end || end < name)
        return -EBADMSG;
    *end = 0;
    snprintf(p->comm, sizeof p->comm, "%.15s", name + 1);
    rest = str_trim(str_from(end + 1));
    for (int field = 3; rest.n && field <= 22; field++) {
        struct str v = str_cut(&rest, ' ');

        if (field == 4 && str_to_u64(v, 10, &ppid) == 0)
            p->ppid = (uint32_t) ppid;
        if (field == 22)
            str_to_u64(v, 10, &p->start_ticks);
    }
    return 0;
}

static void read_exe(struct process *p)
{
    char link[64], path[4096];

    snprintf(link, sizeof link, "/proc/%u/exe", p->pid);
    if (!proc_path_of_exe(link, path, sizeof path).n)
        return;
    mem_free(p->exe_path);
    p->exe_path = mem_strdup(path);
}

int processes_refresh(struct processes *s, struct process *p)
{
    FAR_FOR(p->pid);
    int r = process_maps_read(p, p->pid);

    (void) s;
    if (r < 0)
        return r;
    p->maps_read = true;
    if (!p->exe_path)
        read_exe(p);
    return 0;
}

struct process *processes_get(struct processes *s, uint32_t pid, uint64_t time_ns)
{
    struct process *p = processes_find(s, pid, time_ns), *parent;

    if (!p) {
        p = newest(s, pid);
        if (p && p->until_ns != UINT64_MAX)
            return NULL; /* before the first image that is known, or between two */
        p = p ? p : begin(s, pid, 0);
    }
    if (!p)
        return NULL;
    if (!p->maps_read && processes_refresh(s, p) < 0 && !p->n_mappings) {
        parent = p->ppid ? newest(s, p->ppid) : NULL; /* forked, never called exec, and gone: as its parent */
        if (!parent || (!parent->maps_read && processes_refresh(s, parent) < 0) || process_maps_copy(p, parent) < 0)
            return p;
        p->maps_read = true;
    }
    if (!p->since_ns && !p->start_ticks && !p->exited) /* for others the kernel's records are enough */
        read_stat(p);
    return p;
}

void processes_read_running(struct processes *s)
{
    pid_t pids[PIDS_READ_MAX] = {1};
    size_t n = 1;

    proc_add_descendants(pids, &n, PIDS_READ_MAX);
    for (size_t i = 0; i < n; i++)
        processes_get(s, (uint32_t) pids[i], (uint64_t) clock_mono());
}

ssize_t process_read(const struct process *p, uint64_t address, void *ret, size_t n)
{
    return far_read_memory((int) p->pid, address, ret, n);
}

int process_open(const struct process *p, const char *path)
{
    char root[64];
    int fd;

    snprintf(root, sizeof root, "/proc/%u/root", p->pid);
    fd = fd_open_in_root(root, path);
    if (fd == -ENOENT &&
        access(root, F_OK) < 0) { /* gone: most processes have the root of their parent, or the agent's */
        snprintf(root, sizeof root, "/proc/%u/root", p->ppid);
        fd = p->ppid ? fd_open_in_root(root, path) : -ENOENT;
        if (fd == -ENOENT)
            fd = fd_open_in_root("/", path);
    }
    return fd;
}

/* --- all of them --- */
void processes_each(struct processes *s, void (*f)(void *arg, struct process *p), void *arg)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct process *p = s->buckets[i], *next; p; p = next) {
            next = p->next;
            f(arg, p);
        }
}

void processes_distrust(struct processes *s)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct process *p = s->buckets[i]; p; p = p->next)
            if (p->until_ns == UINT64_MAX && !p->exited)
                p->maps_read = false;
}

static bool is_over(const struct process *p, uint64_t now_ns)
{
    uint64_t end = p->until_ns != UINT64_MAX ? p->until_ns : p->exited ? p->last_sample_ns : UINT64_MAX;

    return end != UINT64_MAX && now_ns > end && now_ns - end > LINGER_NS;
}

void processes_sweep(struct processes *s, uint64_t now_ns, void (*forget)(void *arg, struct process *p), void *arg)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct process **at = &s->buckets[i], *p; (p = *at);) {
            if (!is_over(p, now_ns)) {
                at = &p->next;
                continue;
            }
            forget(arg, p);
            *at = p->next;
            process_free(p);
            s->n--;
        }
}

uint64_t processes_maps_left_out(const struct processes *s)
{
    uint64_t n = 0;

    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct process *p = s->buckets[i]; p; p = p->next)
            n += p->exited ? 0 : p->maps_left_out;
    return n;
}

uint64_t processes_refused(const struct processes *s)
{
    return s->refused;
}
