/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent could not do since it started, by kind. Each is logged when it begins, counted, and shown in the status of
 * the server whose child it is. */
#ifndef AGENT_AGENT_LOSS_H
#define AGENT_AGENT_LOSS_H

#include <stdint.h>

enum agent_loss {
    LOSS_SAMPLES,
    LOSS_COPIES,
    LOSS_RECORDS,
    LOSS_PROCESSES,
    LOSS_LOADS,
    LOSS_MAPPINGS,
    LOSS_DESCRIPTORS,
    LOSS_HANGS,
    LOSS_READER,
    LOSS_READS,
    LOSS_PERF_MAPS,
    LOSS_TABLES,
    AGENT_LOSSES
};

struct agent_losses {
    uint64_t n[AGENT_LOSSES];
};

struct agent_loss_kind {
    const char *name, *text; /* text: what is lost, and what can be done */
};

extern const struct agent_loss_kind agent_loss_kinds[AGENT_LOSSES];

struct agent;
void agent_losses(struct agent *a, struct agent_losses *ret);

#endif
