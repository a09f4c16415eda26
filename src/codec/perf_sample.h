/* SPDX-License-Identifier: Apache-2.0 */
/* The attributes of an event of perf.data, and the fields of the samples that they describe. */
#ifndef CODEC_PERF_SAMPLE_H
#define CODEC_PERF_SAMPLE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "codec/perf_data.h"

enum {
    SAMPLE_IP = 1,
    SAMPLE_TID = 2,
    SAMPLE_TIME = 4,
    SAMPLE_ADDR = 8,
    SAMPLE_READ = 16,
    SAMPLE_CALLCHAIN = 32,
    SAMPLE_ID = 64,
    SAMPLE_CPU = 128,
    SAMPLE_PERIOD = 256,
    SAMPLE_STREAM = 512,
    SAMPLE_RAW = 1 << 10,
    SAMPLE_BRANCHES = 1 << 11,
    SAMPLE_REGS_USER = 1 << 12,
    SAMPLE_STACK_USER = 1 << 13,
    SAMPLE_IDENTIFIER = 1 << 16
};

struct perf_attr {
    uint64_t sample_type, read_format, period, branch_type, regs;
    bool id_all, freq;
    size_t ids_at, n_ids;
    char name[64];
};

struct perf_sample {
    uint64_t ip, time, id, period;
    uint32_t pid, tid, cpu;
    bool has_cpu;
    uint64_t n_chain;
    const unsigned char *chain;
    bool has_stack; /* user is valid: of 64-bit code, with its registers */
    struct perf_stack user;
};

/* Sets the name that perf gives to an event of this type and number. */
void perf_attr_default_name(struct perf_attr *a, uint32_t type, uint64_t config);
/* False if the record is too short for its fields. */
bool perf_sample_parse(const struct perf_attr *a, struct cursor c, struct perf_sample *ret);
/* Whether an event copies stacks that have to be unwound. */
static inline bool perf_attr_copies(const struct perf_attr *a)
{
    return (a->sample_type & SAMPLE_REGS_USER) && (a->sample_type & SAMPLE_STACK_USER);
}

#endif
