/* SPDX-License-Identifier: Apache-2.0 */
/* The size of the ring buffer between the BPF programs and the agent. */
#ifndef AGENT_SAMPLE_RING_H
#define AGENT_SAMPLE_RING_H

#include <stdbool.h>
#include <stddef.h>

struct agent_options;

/* In bytes, a power of two. */
size_t sample_ring_bytes(const struct agent_options *o, int n_cpus);
/* Halves the size after an allocation failed: the control group may have a limit. False when it is the smallest. */
bool sample_ring_less(size_t *bytes);

#endif
