/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads perf.data as `perf record` writes it to a file. Each event becomes a profile: samples/count, and the event's own
 * count (cpu/nanoseconds for cpu-clock and task-clock). Frames have the address and the mapping that they had in the
 * process, with the build id of the mapping where the file has it (MMAP2 with build ids, or the table of build ids);
 * names are left to a symbolizer. Callers are at the address of the call, one byte before the address in the call chain.
 *
 * Refused with a message: perf.data in pipe mode, compressed records (`perf record -z`), another byte order, and hardware
 * traces.
 */
#ifndef CODEC_PERF_DATA_H
#define CODEC_PERF_DATA_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct batch;

bool perf_data_probe(struct str data);
/* memory bounds the batch and the tables needed while decoding; 0 = no limit. */
int perf_data_decode(struct str data, size_t memory, struct batch **ret, struct err *e);

#endif
