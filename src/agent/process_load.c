/* SPDX-License-Identifier: Apache-2.0 */
/* Puts records of processes into the BPF maps, and removes them. */
#include "agent/process_load.h"

#include <errno.h>
#include <unistd.h>

#include "agent/bpf_side.h"
#include "agent/lang/lang.h"
#include "agent/process.h"
#include "agent/process_maps.h"
#include "agent/row_store.h"
#include "agent/span_find.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

/* A record of a process is worth its cost, a few stacks that are copied instead, if the process lives longer than that.
 * Frames of a language and spans need the record: a program is first loaded at once, and only known to have neither
 * (`plain`) for a while. */
enum { WORTH_SAMPLES = 4 };
static const uint64_t WORTH_NS = NS_PER_S / 4, PLAIN_NS = 60ull * NS_PER_S;

struct process_loader {
    struct bpf_side *bpf;
    struct processes *processes;
    size_t n_loaded; /* processes in the BPF map */
    uint64_t refused;
    struct agent_process record;
};

int process_loader_new(struct bpf_side *bpf, struct processes *processes, struct process_loader **ret)
{
    struct process_loader *l = mem_zalloc(sizeof *l);

    if (!l)
        return -ENOMEM;
    l->bpf = bpf;
    l->processes = processes;
    *ret = l;
    return 0;
}

void process_loader_free(struct process_loader *l)
{
    mem_free(l);
}

static void find_language(struct process_loader *l, struct process *p)
{
    bool refused = p->lang_refused;
    struct err e = {0};

    for (uint32_t i = 0; i < p->n_mappings; i++)
        processes_resolve(l->processes, p, &p->mappings[i]);
    if (!p->lang && lang_find(p, &e) < 0 && p->lang_refused && !refused)
        log_warn("process %u: %s", p->pid, err_message(&e, -ENOTSUP));
    if (p->span.kind == AGENT_SPAN_NONE)
        p->span_again = span_find(p);
}

/* The record of a process says what of its files is walked by frame pointers, which is known once there are tables. */
static void make_tables(struct process_loader *l, struct process *p, uint64_t now_ns)
{
    for (uint32_t i = 0; i < p->n_mappings; i++)
        if (p->mappings[i].object)
            objects_table(processes_objects(l->processes), p->mappings[i].object, now_ns);
}

static void forget(struct process_loader *l, struct process *p)
{
    if (!p->loaded)
        return;
    bpf_side_forget(l->bpf, p->pid);
    p->loaded = false;
    l->n_loaded--;
}

struct oldest {
    struct process *found;
};

static void find_oldest(void *arg, struct process *p)
{
    struct oldest *o = arg;

    if (p->loaded && (!o->found || p->last_sample_ns < o->found->last_sample_ns))
        o->found = p;
}

/* A record takes 8 KiB of kernel memory: the process that was not sampled for the longest time is removed. */
static void make_room(struct process_loader *l)
{
    struct oldest o = {0};

    if (l->n_loaded < AGENT_PROCESSES)
        return;
    processes_each(l->processes, find_oldest, &o);
    if (o.found)
        forget(l, o.found);
}

bool process_load_is_due(const struct process *p, uint64_t now_ns)
{
    if (p->brief || p->until_ns != UINT64_MAX || p->exited || !p->maps_read || (p->loaded && !p->stale))
        return false;
    return p->loaded || !p->since_ns || !p->exe || now_ns >= p->exe->plain_until_ns || p->own.likely ||
           p->samples >= WORTH_SAMPLES || now_ns - p->since_ns >= WORTH_NS;
}

void process_load(struct process_loader *l, struct process *p, uint64_t now_ns)
{
    if (!p->lang || p->span.kind == AGENT_SPAN_NONE)
        find_language(l, p);
    if (p->exe)
        p->exe->plain_until_ns =
            p->lang || p->span.kind != AGENT_SPAN_NONE || p->span_again || p->own.likely ? 0 : now_ns + PLAIN_NS;
    if (p->lang && p->lang->frame)
        make_tables(l, p, now_ns);
    processes_record(l->processes, p, &l->record);
    if (!p->loaded)
        make_room(l);
    if (bpf_side_load_process(l->bpf, p->pid, &l->record, p->lang_in_bpf ? &p->lang_record : NULL) == 0) {
        l->n_loaded += !p->loaded;
        p->loaded = true;
    } else {
        l->refused++;
    }
    p->stale = false;
}

void process_load_given(struct process_loader *l, struct process *p, struct row_store *rows, size_t most)
{
    uint64_t now = (uint64_t) clock_mono();

    if (!p->maps_read || p->loaded)
        return;
    for (uint32_t i = 0; i < p->n_mappings && row_store_memory(rows) <= most; i++) {
        if (p->ppid == (uint32_t) getpid()) /* a command that will call exec */
            break;
        processes_resolve(l->processes, p, &p->mappings[i]);
        if (p->mappings[i].object)
            row_store_load_all(rows, p->mappings[i].object, now);
    }
    process_load(l, p, now); /* last: its record says what of a file has no tables */
}

void process_unload(struct process_loader *l, struct process *p)
{
    if (p->until_ns == UINT64_MAX) /* else the record belongs to a later image */
        forget(l, p);
    else
        l->n_loaded -= p->loaded;
}

uint64_t process_loader_refused(const struct process_loader *l)
{
    return l->refused;
}
