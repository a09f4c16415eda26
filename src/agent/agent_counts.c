/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent has done and what it costs (agent_counts()). */
#include <string.h>

#include "agent/agent_state.h"
#include "agent/bpf_side.h"
#include "agent/object_lines.h"
#include "agent/perf_side.h"
#include "agent/process.h"
#include "agent/reader/file_reader.h"
#include "agent/row_store.h"
#include "agent/sideband.h"
#include "agent/tally.h"
#include "agent/waits.h"
#include "base/clock.h"
#include "proc/far_call.h"

uint64_t agent_own_cpu_ns(const struct agent *a)
{
    return (uint64_t) (clock_cpu() - a->cpu_start_ns + file_reader_cpu_ns(a->options.reader) + far_cpu_ns()) +
           (a->lines && !a->options.wait_for_lines ? object_lines_cpu_ns(a->lines) : 0);
}

uint64_t agent_bpf_ns(const struct agent_stats *st)
{
    return st->ns + st->switch_ns + st->switches * WAITS_SWITCH_NS;
}

static size_t kernel_memory(struct agent *a)
{
    return a->perf ? perf_side_memory(a->perf)
                   : bpf_side_memory(a->bpf) + row_store_memory(a->rows) + sideband_memory(a->sideband);
}

static const char *most_cut(struct objects *objects)
{
    const struct object *most = NULL;

    for (size_t i = 0; i < objects_count(objects); i++) {
        const struct object *o = objects_at(objects, i);

        if (o->cut > (most ? most->cut : 0))
            most = o;
    }
    return most ? most->path : NULL;
}

void agent_counts(struct agent *a, struct agent_counts *ret)
{
    struct agent_stats st = {0};
    struct tally_counts t;
    struct far_counts far;

    far_counts(&far);
    if (a->bpf)
        bpf_side_stats(a->bpf, &st);
    tally_counts(a->tally, &t);
    *ret = (struct agent_counts){.samples = a->samples,
                                 .also_sent = t.also_sent,
                                 .lost = st.lost + a->refused + (a->perf ? perf_side_lost(a->perf) : 0),
                                 .frames = t.frames,
                                 .frames_named = t.frames_named,
                                 .stacks_whole = t.whole,
                                 .stacks_cut = t.cut,
                                 .stacks_inferred = t.inferred,
                                 .cut_in = most_cut(a->objects),
                                 .bpf_ns = agent_bpf_ns(&st),
                                 .bpf_runs = st.samples,
                                 .bpf_frames = st.frames,
                                 .stack_copies = st.copies,
                                 .stacks_uncopied = st.uncopied,
                                 .switches = st.switches,
                                 .switch_ns = st.switch_ns,
                                 .switch_samples = st.switch_samples,
                                 .own_cpu_ns = agent_own_cpu_ns(a),
                                 .maps_left_out = processes_maps_left_out(a->processes),
                                 .processes_sampled = a->processes_sampled,
                                 .objects = objects_count(a->objects),
                                 .map_bytes = kernel_memory(a),
                                 .ring_bytes = a->ring_bytes,
                                 .hangs = far.hangs,
                                 .hung = far.last & FAR_FILE ? 0 : far.last,
                                 .hung_pause_ns = far.pause_ns,
                                 .reader_deaths = file_reader_deaths(a->options.reader),
                                 .rate_hz = a->hz,
                                 .governor = a->governor.text,
                                 .cpu_ns = a->cpu_ns,
                                 .used_ns = perf_side_used(a->perf),
                                 .by_perf = a->perf != NULL,
                                 .via = a->perf                   ? "perf"
                                        : bpf_side_is_old(a->bpf) ? "old-bpf"
                                                                  : "bpf",
                                 .why = a->why,
                                 .lacks = a->bpf ? bpf_side_lacks(a->bpf) : ""};
    memcpy(ret->foreign_ns, a->foreign_ns, sizeof ret->foreign_ns);
}
