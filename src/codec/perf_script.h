/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the output of `perf script`:
 *
 *     COMM PID[/TID] [CPU] TIME: PERIOD EVENT:
 *             ADDRESS SYMBOL+0xOFFSET (DSO)
 *             ADDRESS SYMBOL (inlined)
 *       FILE:LINE                            with -F +srcline, of the frame above
 *
 * and an empty line. Without call graphs the only frame is at the end of the first line. Everything after the pid may
 * be missing (perf script -F comm,tid,ip,sym).
 *
 * Each event becomes a profile: type samples/count and, if periods are given, a second one that adds them up
 * (cpu/nanoseconds for cpu-clock and task-clock, EVENT/count for others). Samples of equal stack, command, pid, tid and
 * CPU are added up; these are the attributes thread.name, process.pid, thread.id and cpu.logical_number.
 */
#ifndef CODEC_PERF_SCRIPT_H
#define CODEC_PERF_SCRIPT_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct batch;

/* True if the first line that is neither empty nor a comment is the header of a sample. */
bool perf_script_probe(struct str text);
/* memory limits the batch, 0 = none. times: keeps those of samples (sample_sum.h). Other lines are errors (-EINVAL), with an error message that names the line. */
int perf_script_decode(struct str text, size_t memory, bool times, struct batch **ret, struct err *e);

#endif
