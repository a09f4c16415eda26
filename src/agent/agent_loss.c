/* SPDX-License-Identifier: Apache-2.0 */
/* Collects what the parts of an agent count as lost (agent_loss.h). */
#include "agent/agent_loss.h"

#include "agent/agent_state.h"
#include "agent/perf_map.h"
#include "agent/process.h"
#include "agent/process_load.h"
#include "agent/row_store.h"
#include "base/fd.h"
#include "proc/far_call.h"

const struct agent_loss_kind agent_loss_kinds[AGENT_LOSSES] = {
    [LOSS_SAMPLES] = {"samples", "samples were dropped: a buffer was full, or there was no memory for stacks"},
    [LOSS_COPIES] = {"copies", "stacks are incomplete: there was no room in the buffer to copy them"},
    [LOSS_RECORDS] = {"records", "records of the kernel about processes were dropped: mappings are read again"},
    [LOSS_PROCESSES] = {"processes", "processes are not known: there are more than the agent keeps"},
    [LOSS_LOADS] = {"loads", "processes could not be loaded into the kernel: their stacks are copied"},
    [LOSS_MAPPINGS] = {"mappings", "executable mappings were left out of programs that have too many"},
    [LOSS_DESCRIPTORS] = {"descriptors",
                          "files could not be opened because too many are open: raise LimitNOFILE of the unit"},
    [LOSS_HANGS] = {"hangs", "reads of a program's memory or files did not return: the program was set aside"},
    [LOSS_READER] = {"reader", "binaries ended the process that reads them: they have no unwind tables and names"},
    [LOSS_READS] = {"reads", "reads of programs were refused that used their part of the budget: names are missing"},
    [LOSS_PERF_MAPS] = {"perf_maps", "perf maps are too large to be read whole: JIT code lacks names"},
    [LOSS_TABLES] = {"tables", "the kernel refused memory for unwind tables: stacks are copied and walked later"},
};

void agent_losses(struct agent *a, struct agent_losses *ret)
{
    struct agent_counts c;
    struct far_counts far;

    agent_counts(a, &c);
    far_counts(&far);
    *ret = (struct agent_losses){.n = {[LOSS_SAMPLES] = c.lost,
                                       [LOSS_COPIES] = c.stacks_uncopied,
                                       [LOSS_RECORDS] = a->records_lost,
                                       [LOSS_PROCESSES] = processes_refused(a->processes),
                                       [LOSS_LOADS] = a->loader ? process_loader_refused(a->loader) : 0,
                                       [LOSS_MAPPINGS] = c.maps_left_out,
                                       [LOSS_DESCRIPTORS] = fd_exhausted(),
                                       [LOSS_HANGS] = c.hangs,
                                       [LOSS_READER] = c.reader_deaths,
                                       [LOSS_READS] = far.refused,
                                       [LOSS_PERF_MAPS] = perf_maps_cut(),
                                       [LOSS_TABLES] = a->rows && row_store_refused(a->rows)}};
}
