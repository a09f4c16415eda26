/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads perf.data as `perf record` writes it to a file. Each event becomes a profile: samples/count, and the event's own
 * count (cpu/nanoseconds for cpu-clock and task-clock). Frames have the address and the mapping that they had in the
 * process, with the build id of the mapping where the file has it (MMAP2 with build ids, or the table of build ids);
 * names are left to a symbolizer. Callers are at the address of the call, one byte before the address in the call chain.
 * Stacks that were copied (`--call-graph dwarf`) are unwound by the caller's unwinder, because that needs the binaries.
 *
 * Refused with a message: perf.data in pipe mode, compressed records (`perf record -z`), another byte order, and hardware
 * traces; copied stacks if there is no unwinder, or if they are of another kind of machine.
 */
#ifndef CODEC_PERF_DATA_H
#define CODEC_PERF_DATA_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/str.h"

struct batch;

enum { PERF_STACK_REGS = 32, PERF_STACK_FRAMES = 2048 };

/* A copied user stack: registers by DWARF number, and the bytes from sp upwards. */
struct perf_stack {
    uint64_t pc, sp;
    uint64_t regs[PERF_STACK_REGS];
    struct str bytes;
};

/* What is mapped at an address of the sample's process. */
struct perf_place {
    uint32_t mapping; /* its number: equal for equal mappings of the file */
    struct str file, build_id;
    uint64_t start, offset;
};

struct perf_space {
    bool (*find)(const struct perf_space *s, uint64_t address, struct perf_place *ret);
};

/* The file that was mapped, as the kernel identified it. */
struct perf_inode {
    uint32_t major, minor;
    uint64_t inode, generation;
};

enum { PERF_ID_MAX = 256 };

struct perf_unwinder {
    /* Fills ret with the addresses of the stack, leaf first: the interrupted instruction, and for callers the last byte of the
     * call. Returns their number; *whole if they reach the root. */
    uint32_t (*unwind)(struct perf_unwinder *u, const struct perf_stack *s, const struct perf_space *space,
                       uint64_t ret[PERF_STACK_FRAMES], bool *whole);
    /* The build id, in hex, of a file that was mapped and has none in perf.data, which has those of leaf frames alone; false if
     * this machine does not have the same file. */
    bool (*identify)(struct perf_unwinder *u, struct str file, const struct perf_inode *inode, char ret[PERF_ID_MAX]);
};

/* raw, of an MMAP2 record: u32 major and minor, u64 inode and generation. */
static inline bool perf_identify(struct perf_unwinder *u, struct str file, const unsigned char raw[24],
                                 char ret[PERF_ID_MAX])
{
    struct perf_inode inode = {load_u32(raw), load_u32(raw + 4), load_u64(raw + 8), load_u64(raw + 16)};

    return u && inode.inode && file.n && file.p[0] == '/' && u->identify(u, file, &inode, ret);
}

struct perf_data_options {
    size_t memory; /* bounds the batch and the tables needed while decoding; 0 = no limit */
    struct perf_unwinder *unwinder;
    bool times; /* keep those of samples (sample_sum.h) */
};

bool perf_data_probe(struct str data);
int perf_data_decode(struct str data, const struct perf_data_options *o, struct batch **ret, struct err *e);

#endif
