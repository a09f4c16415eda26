/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a tally, shared by tally.c, which fills them, and tally_batch.c, which reads them. */
#ifndef AGENT_TALLY_TABLES_H
#define AGENT_TALLY_TABLES_H

#include "agent/tally.h"
#include "base/arena.h"
#include "base/map.h"

enum tally_frame_kind { FRAME_OBJECT, FRAME_KERNEL, FRAME_JIT, FRAME_LANG, FRAME_MARK };

struct tally_frame {
    uint8_t kind;          /* enum tally_frame_kind */
    const char *type;      /* profile.frame.type */
    struct object *object; /* a reference */
    uint64_t address;      /* ELF address; kernel address; address in the process */
    uint64_t owner;        /* number of the process: JIT and languages */
    uint64_t words[AGENT_LANG_WORDS];
    struct str function, file; /* in the arena; languages, JIT, marks */
    int64_t line, start_line;
    const struct lang_frame *inlined; /* calls inlined into it, innermost first; in the arena */
    uint32_t n_inlined;
};

struct tally_stack {
    uint32_t process, first, n; /* frame numbers: [first, first + n) of `list`, leaf first */
};

struct tally_process {
    uint64_t number;
    uint32_t pid;
    struct process *process;   /* NULL once it is gone */
    struct identity *identity; /* taken over when it went */
    struct own_profiles own;   /* taken over when it went */
    enum foreign foreign;      /* taken over when it went */
    struct object *exe;        /* its program; a reference; NULL: not known */
    bool kernel;               /* all kernel threads */
    int64_t plain_ns, step_ns; /* its CPU samples at a period each; the largest of them */
    int64_t used_ns;           /* what they stand for (process_cpu.h) */
    int64_t balance_ns;        /* taken over when it went */
    double weight;             /* of its CPU samples, when the batch is made */
    char comm[16];
};

struct tally_time {
    uint64_t mono_ns;
    int64_t value;
    uint32_t next; /* + 1; 0: the last */
};

struct tally_row {
    uint32_t process, stack, tid, cpu;
    uint8_t kind; /* enum agent_kind */
    bool has_span, inferred;
    int64_t period_ns;
    char comm[16];
    uint8_t trace_id[16], span_id[8];
    struct str labels; /* in the arena */
    int64_t count, value;
    uint32_t first, last; /* times, + 1 */
};

struct tally {
    struct tally_options options;
    struct kernel_names *kernel;
    bool kernel_tried;
    struct tally_frame *frames;
    struct tally_stack *stacks;
    struct tally_process *processes;
    struct tally_row *rows;
    struct tally_time *times;
    uint32_t *list;
    size_t n_frames, n_stacks, n_processes, n_rows, n_times, n_list;
    size_t cap_frames, cap_stacks, cap_processes, cap_rows, cap_times, cap_list;
    struct map by_frame, by_stack, by_process, by_row;
    struct arena arena;
    uint64_t begin_mono_ns;
    uint64_t until_ns; /* CPU time after that does not count; 0: all does */
    struct tally_counts counts;
};

/* Label i of a row, truncated as it was received; false when there are no more. */
bool tally_label(struct str labels, uint32_t i, struct str *ret_key, struct str *ret_value);
/* Looks up the names of JIT code that had none when it was sampled (tally.c). */
void tally_name_jit(struct tally *t);
/* Empties it, keeping its memory (tally.c). */
void tally_clear(struct tally *t);

#endif
