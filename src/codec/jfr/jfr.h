/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads Java Flight Recorder files, those of the JDK and those of async-profiler. Each kind of event becomes a profile
 * whose types are those that Pyroscope gives it:
 *
 *   event                                types                                                period type
 *   jdk.ExecutionSample, state not       cpu/nanoseconds                                      cpu/nanoseconds
 *     sleeping; jdk.CPUTimeSample
 *   profiler.WallClockSample, and        wall/nanoseconds                                     wall/nanoseconds
 *     jdk.ExecutionSample if async-profiler's event is "wall"
 *   jdk.NativeMethodSample               native/nanoseconds                                   native/nanoseconds
 *   jdk.ObjectAllocationInNewTLAB        alloc_in_new_tlab_objects/count, ..._bytes/bytes     space/bytes
 *   jdk.ObjectAllocationOutsideTLAB      alloc_outside_tlab_objects/count, ..._bytes/bytes    space/bytes
 *   jdk.ObjectAllocationSample           alloc_sample_objects/count, ..._bytes/bytes          space/bytes
 *   profiler.LiveObject                  live/count, inuse_space/bytes                        objects/count
 *   profiler.Malloc                      malloc_objects/count, malloc_bytes/bytes             -
 *   jdk.JavaMonitorEnter                 contentions/count, delay/nanoseconds                 mutex/count
 *   jdk.ThreadPark                       contentions/count, delay/nanoseconds                 block/count
 *
 * A sample of cpu, wall and native stands for a period: that of the options, else that of the recording's settings, else
 * the sampler's default; delays are converted from ticks. Frames are named Class.method with '/' in the class name, as
 * async-profiler and Pyroscope do; numbers in the names of generated classes are dropped, so that runs can be compared.
 * Samples have the thread as attributes, and the labels of their context (see below).
 */
#ifndef CODEC_JFR_H
#define CODEC_JFR_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct batch;

struct jfr_options {
    int64_t period_ns; /* of cpu and wall samples; 0 = as the recording says */
    /* The part `labels` of a push by Pyroscope's Java agent, plain or compressed with gzip; may be empty:
     *   LabelsSnapshot { map<int64, Context> contexts = 1; map<int64, string> strings = 2; }
     *   Context { map<int64, int64> labels = 1; }    both numbers are keys of strings
     * An event's contextId chooses the context. */
    struct str labels;
    bool no_threads; /* leave out the attributes thread.name and thread.id */
    bool times;      /* keep those of samples (sample_sum.h) */
    size_t memory;   /* bytes of the batch, and of the tables needed while decoding; 0 = no limit */
};

/* True if data begins with a chunk. */
bool jfr_probe(struct str data);
/* Decodes all chunks of an uncompressed recording. opts may be NULL. -EINVAL with an error message that names the byte
 * for input that is damaged, and -ENODATA for a recording without samples. */
int jfr_decode(struct str data, const struct jfr_options *opts, struct batch **ret, struct err *e);

#endif
