/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a profile of any format that wick reads, by its content: gzip, zstd or plain, then
 *
 *   pprof         profile.proto
 *   pprof-legacy  gperftools' and other formats before it (pprof_legacy.h)
 *   otlp          one OTLP request (ProfilesData), protobuf
 *   otlp-json     one or more of them as JSON, one after the other (the Collector's file exporter writes lines)
 *   otlp-framed   requests with a length of 4 bytes, big-endian, before each (its `format: proto`)
 *   folded        stacks in the format of flamegraph.pl and async-profiler
 *   perf-script   the text of `perf script`
 *   perf-data     perf.data (perf_data.h)
 *   pstats        what Python's cProfile writes (pstats.h)
 *   jfr           Java Flight Recorder: the JDK's and async-profiler's (jfr.h)
 *   cpuprofile, heapprofile, chrome-trace, speedscope, firefox, gprof2dot
 *                 JSON of other tools (json_file.h)
 *
 * Several OTLP requests become one batch (otlp_file.h).
 */
#ifndef CODEC_INPUT_H
#define CODEC_INPUT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct batch;
struct perf_unwinder;

enum input_format {
    INPUT_AUTO,
    INPUT_PPROF,
    INPUT_LEGACY,
    INPUT_OTLP,
    INPUT_OTLP_JSON,
    INPUT_OTLP_FRAMED,
    INPUT_FOLDED,
    INPUT_PERF_SCRIPT,
    INPUT_PERF_DATA,
    INPUT_PSTATS,
    INPUT_JFR,
    INPUT_CPUPROFILE, /* from here to INPUT_GPROF2DOT in the order of enum json_file_form */
    INPUT_HEAPPROFILE,
    INPUT_CHROME_TRACE,
    INPUT_SPEEDSCOPE,
    INPUT_FIREFOX,
    INPUT_GPROF2DOT,
};

struct input_limits {
    size_t inflated; /* bytes after decompression; 0 = 64 MiB, suitable for untrusted input */
    size_t
        memory; /* bytes of the batch; 0 = in proportion to the input: see otlp.h and pprof.h; text: 8 times inflated */
    bool times; /* keep the times of samples where the file has them: such a profile has one type (sample_sum.h) */
    struct perf_unwinder *unwinder; /* for perf.data with copied stacks; NULL: they are refused (perf_data.h) */
};

/* For files that the user named: as large as indices allow. */
extern const struct input_limits input_local;

int input_format_parse(struct str name, enum input_format *ret); /* -EINVAL */

/* Decodes `in`, which is taken over on success and may be inflated on failure. as = INPUT_AUTO detects. ret_format may
 * be NULL. The error message names format, byte or line. */
int input_decode(struct buf *in, enum input_format as, const struct input_limits *limits, struct batch **ret,
                 enum input_format *ret_format, struct err *e);
/* The same for a file; "-" is standard input. Error messages begin with the path. */
int input_open(const char *path, enum input_format as, const struct input_limits *limits, struct batch **ret,
               enum input_format *ret_format, struct err *e);

#endif
