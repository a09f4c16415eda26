/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles in the JSON formats of other tools. Which of them a file has is seen from the keys of its outermost object:
 *
 *   cpuprofile    V8's CPU profiles (Node --cpu-prof, Chrome DevTools): "nodes"
 *   heapprofile   V8's sampled heap (Node --heap-prof): "head"
 *   chrome-trace  Chrome's trace events, of which Profile and ProfileChunk are read: "traceEvents", or an array
 *   speedscope    speedscope's own format: "shared" and "profiles", or "$schema"
 *   firefox       Firefox Profiler, as it saves profiles (samply too) and as Gecko dumps them: "meta" and "threads"
 *   gprof2dot     gprof2dot's JSON, which `memray transform gprof2dot` writes: "functions" and "events"
 */
#ifndef CODEC_JSON_FILE_H
#define CODEC_JSON_FILE_H

#include "base/err.h"
#include "base/str.h"

struct batch;

enum json_file_form {
    JSON_FILE_NONE,
    JSON_FILE_CPUPROFILE,
    JSON_FILE_HEAPPROFILE,
    JSON_FILE_CHROME_TRACE,
    JSON_FILE_SPEEDSCOPE,
    JSON_FILE_FIREFOX,
    JSON_FILE_GPROF2DOT,
};

enum json_file_form json_file_detect(struct str text);
/* Decodes text as one of the forms. times: keeps those of samples (sample_sum.h). memory bounds the batch and the tables needed while decoding; 0 = no limit. -EINVAL
 * with an error message that names the format, and the byte where the JSON is malformed. */
int json_file_decode(struct str text, enum json_file_form form, size_t memory, bool times, struct batch **ret,
                     struct err *e);

#endif
