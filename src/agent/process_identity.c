/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a process that the agent watches: collects what the agent already knows of it and calls
 * identity_read.c for the rest. See identity.h. */
#include "agent/identity.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/identity_read.h"
#include "agent/process.h"
#include "agent/reader/file_reader.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "model/builder.h"
#include "model/semconv.h"
#include "proc/far_call.h"

struct identity {
    struct identity_attrs attrs;
    char *service;
    uint64_t context_ns; /* when the process published its context, if the agent had found it */
    bool brief, seen;
    unsigned tries; /* how often it was read without a command line or environment */
};

enum { TRIES = 3 }; /* a program may have no environment */

static const struct identity_rules *rules; /* set once, before the agent runs */

void identity_set_rules(const struct identity_rules *r)
{
    rules = r;
}

/* The link /proc/PID/exe, or "". */
static void read_link(const struct process *p, char *ret, size_t size)
{
    char link[64];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/%u/exe", p->pid);
    n = readlink(link, ret, size - 1);
    ret[MAX(n, 0)] = 0;
}

/* True when the process now runs another program than the one that was mapped: the mapping is older than an exec. */
static bool is_replaced(const struct process *p, const char *link)
{
    return *link && p->exe_path && strncmp(link, p->exe_path, strlen(p->exe_path)) != 0;
}

/* From the file itself, which is not known as an object. */
static bool read_exe(const struct process *p, struct file_answer *a, struct identity_exe *ret)
{
    struct file_request q = {.op = FILE_FACTS};
    int fds[2] = {-1, -1}, r;
    char path[64];

    snprintf(path, sizeof path, "/proc/%u/exe", p->pid);
    fds[0] = fd_open_regular(path);
    if (fds[0] < 0)
        return false;
    file_request_path(&q, path);
    r = file_reader_ask(p->reader, &q, fds, a, NULL);
    fd_close(fds[0]);
    if (r < 0)
        return false;
    *ret = (struct identity_exe){a->facts.gnu_id, a->facts.go_id, NULL, NULL, false};
    if (a->facts.has_go_build) {
        ret->go_version = a->facts.go_version;
        ret->go_revision = a->facts.go_revision;
        ret->go_modified = a->facts.go_modified;
    }
    return true;
}

static bool get_exe(const struct process *p, const char *link, struct file_answer *a, struct identity_exe *ret)
{
    const struct object *o = p->exe;

    if (!p->exited && is_replaced(p, link))
        return read_exe(p, a, ret);
    if (!o)
        return false;
    *ret = (struct identity_exe){o->gnu_id, o->go_id, NULL, NULL, false};
    if (o->go) {
        ret->go_version = o->go->version;
        ret->go_revision = o->go->revision;
        ret->go_modified = o->go->modified;
    }
    return true;
}

/* CLOCK_BOOTTIME at which the process was forked; 0 when that was before the agent started. */
static uint64_t start_of(const struct process *p)
{
    struct timespec boot, mono;

    if (!p->start_ns)
        return 0;
    clock_gettime(CLOCK_BOOTTIME, &boot);
    clock_gettime(CLOCK_MONOTONIC, &mono);
    return p->start_ns + (uint64_t) ((boot.tv_sec - mono.tv_sec) * NS_PER_S + boot.tv_nsec - mono.tv_nsec);
}

/* True when the kernel's records and a copied stack say which program it is: /proc need not be asked. */
static bool is_followed(const struct process *p)
{
    return p->brief || p->exited || (p->since_ns && p->exe_path && p->seen);
}

/* After an exec, /proc describes the new image, so the version has to be that of the new image, too: time between fork
 * and exec counts for the program that was started. */
int identity_new(const struct process *p, struct identity **ret, struct err *e)
{
    static struct identity_cache cache;
    struct file_answer answer;
    struct identity_exe exe;
    struct proc_memory memory = proc_memory_of((int) p->pid);
    struct identity_source s = {
        .proc = "/proc",
        .root = "/",
        .pid = (int) p->pid,
        .memory = !p->brief && own_profiles_may_have_context(p, (uint64_t) clock_mono()) ? &memory : NULL,
        .start_ns = start_of(p),
        .exe_path = p->exe_path,
        .comm = p->comm,
        .rules = rules,
        .cache = &cache,
        .seen = p->seen,
        .groups = p->groups,
        .ppid = p->ppid,
        .uid = p->uid,
        .has_uid = p->has_uid,
        .brief = p->brief};
    struct identity *i = mem_zalloc(sizeof *i);
    char link[4096] = "";
    struct str name;
    int r;

    if (!i)
        return -ENOMEM;
    i->brief = p->brief;
    i->seen = p->seen != NULL;
    i->context_ns = p->own.published_ns;
    if (!is_followed(p)) {
        read_link(p, link, sizeof link);
        s.exe_link = link;
    }
    if (get_exe(p, link, &answer, &exe))
        s.exe = &exe;
    r = identity_read(&s, &i->attrs);
    name = identity_attrs_get(&i->attrs, STR(SEMCONV_SERVICE_NAME));
    if (r == 0 && !(i->service = mem_alloc(name.n + 1u)))
        r = -ENOMEM;
    if (r < 0) {
        identity_free(i);
        return err_set(e, r, "out of memory for the identity of process %u", p->pid);
    }
    memcpy(i->service, name.p ? name.p : "", name.n);
    i->service[name.n] = 0;
    *ret = i;
    return 0;
}

static void copy_attr(const struct identity_attrs *a, const char *key, char *ret, size_t n)
{
    struct str v = identity_attrs_get(a, str_from(key));

    snprintf(ret, n, "%.*s", v.n < n ? (int) v.n : 0, v.p ? v.p : "");
}

void identity_name(int pid, char *ret_service, size_t n, char *ret_command, size_t n_command)
{
    struct proc_memory memory = proc_memory_of(pid);
    struct identity_source s = {.proc = "/proc", .root = "/", .pid = pid, .memory = &memory, .rules = rules};
    struct identity_attrs attrs = {0};

    identity_read(&s, &attrs);
    copy_attr(&attrs, SEMCONV_SERVICE_NAME, ret_service, n);
    copy_attr(&attrs, "process.command", ret_command, n_command);
    identity_attrs_done(&attrs);
}

void identity_free(struct identity *i)
{
    if (!i)
        return;
    identity_attrs_done(&i->attrs);
    mem_free(i->service);
    mem_free(i);
}

void identity_put(const struct identity *i, struct builder *b)
{
    for (uint32_t k = 0; k < i->attrs.n; k++)
        builder_resource_attr(b, i->attrs.v[k].key, &i->attrs.v[k].value);
}

bool identity_is_outdated(const struct identity *i, const struct process *p)
{
    if (p->exited || p->until_ns != UINT64_MAX)
        return false;
    return (i->brief && (!p->brief || (p->seen && !i->seen))) || i->context_ns != p->own.published_ns ||
           (i->attrs.partial && i->tries < TRIES);
}

void identity_update(struct process *p)
{
    struct identity *old = p->identity, *new = NULL;
    FAR_FOR(p->pid);

    if ((old && !identity_is_outdated(old, p)) || identity_new(p, &new, NULL) < 0)
        return;
    new->tries = (old ? old->tries : 0) + new->attrs.partial;
    if (old && new->attrs.partial && !old->attrs.partial && !old->brief) { /* it has ended in the meantime */
        old->context_ns = new->context_ns;
        identity_free(new);
        return;
    }
    identity_free(old);
    p->identity = new;
}

const char *identity_service(const struct identity *i)
{
    return i->service;
}
