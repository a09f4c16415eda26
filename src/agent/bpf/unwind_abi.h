/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the BPF unwinder and its loader share, besides the rows themselves (unwind/rows.h).
 *
 *   shards      rows by index / 65536: array of maps, each one struct unwind_shard; made as they are needed
 *   rules       all files' rules behind one another; a page says where its file's begin
 *   pages       (file, ELF address / 65536) -> where its rows are. Only pages that were hit need to be there: a miss is
 *               reported with the sample, and the loader adds the page
 *   processes   pid -> its executable mappings, sorted by start
 */
#ifndef AGENT_UNWIND_ABI_H
#define AGENT_UNWIND_ABI_H

#include "unwind/rows.h"

enum {
    UNWIND_MAPPINGS = 256, /* of a process; a power of two */
    UNWIND_FRAMES = 512,
    UNWIND_SHARDS = 256,
    UNWIND_RULES = 1 << 18,
};

struct unwind_shard {
    struct unwind_row rows[UNWIND_SHARD_ROWS];
};

struct unwind_page_key {
    __u32 file, page;
};

struct unwind_page_value {
    __u32 row, n; /* row: shard * 65536 + place in it */
    __u32 rules;  /* where the file's rules begin */
};

struct unwind_mapping {
    __u64 start, end, bias; /* ELF address = address - bias */
    __u32 file, pad;
};

struct unwind_process {
    __u32 n, pad;
    struct unwind_mapping v[UNWIND_MAPPINGS];
};

enum unwind_end {
    UNWIND_END_NONE,
    UNWIND_END_ROOT,       /* the stack is whole */
    UNWIND_END_NO_PROCESS, /* its mappings are not loaded */
    UNWIND_END_NO_PAGE,    /* missing_file and missing_page say which */
    UNWIND_END_NO_RULE,    /* nothing known at this address */
    UNWIND_END_READ,       /* memory that cannot be read */
    UNWIND_END_DEPTH,
    UNWIND_END_BAD, /* a frame that makes no sense */
};

struct unwind_sample {
    __u32 pid, tid, cpu;
    __u32 end; /* enum unwind_end */
    __u32 n;
    __u32 missing_file, missing_page, pad;
    __u64 time_ns;
    __u64 pc[UNWIND_FRAMES]; /* leaf first */
};

#endif
