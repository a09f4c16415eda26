/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent's BPF programs and its user side share, besides the rows themselves (unwind/rows.h).
 *
 * Maps
 *   shards      rows by index / 65536: array of maps, each one struct agent_shard; created as needed
 *   rules       every distinct rule once, for all files; rows in shards point here (row.rule is global there)
 *   pages       (file, ELF address / 65536) -> where its rows are. Contains only pages that were hit: a miss is
 *               reported with the sample, and the user side adds the page
 *   code_rules  (file, ELF address) -> the number of a rule that the user side inferred from code without call frame information;
 *               0: there is none. What is not in it is reported with the sample
 *   processes   pid -> struct agent_process: its identity and its executable mappings, sorted by start. Loaded when a
 *               pid is first sampled
 *   langs       pid -> struct agent_lang (lang_abi.h): what the steps of a language need to know of the process
 *   filter      pid -> u32: AGENT_SKIP, or 1 for "sample it", or n > 1 for one sample in n. Checked first
 *   events      ring buffer, struct agent_event, struct agent_stack and struct agent_memory; only a copied stack wakes the
 *               reader (see agent_control.wake)
 *   stats       per CPU, struct agent_stats
 *
 * Event: a run of words after the header, kernel frames first, then user frames, leaf first in both.
 *   A kernel word is an address. A user word has its kind in the top byte (enum agent_word) and, for native code, the
 *   address in the rest. The frames of a language are stored after all native ones; each has AGENT_WORD_LANG + the
 *   number of the language in the top byte, and takes AGENT_LANG_WORDS words in all, whose meaning is private to the
 *   language's BPF and user sides.
 *
 * A stack that could not be walked to its end because something is not loaded yet (process, mapping, page) has
 * AGENT_EVENT_RESUME set: `resume` is where the walk stopped, and a struct agent_stack with the stack's bytes from
 * there was put into the ring just before, by the same CPU at the same time_ns. The user side walks on with the same
 * rows.
 */
#ifndef AGENT_ABI_H
#define AGENT_ABI_H

#include "unwind/rows.h"

enum {
    AGENT_MAPPINGS = 256, /* of a process; a power of two */
    AGENT_KERNEL_FRAMES = 127,
    AGENT_USER_FRAMES = 1023,
    AGENT_WORDS = 3584, /* of an event, all kinds together */
    AGENT_SHARDS = 256, /* at most; the user side stays within its budget */
    AGENT_RULES = 65536,
    AGENT_PAGES = 65536,
    AGENT_CODE_RULES = 16384,
    AGENT_PROCESSES = 1024,    /* loaded at a time; 8 KiB each */
    AGENT_STACK_BYTES = 65536, /* of a stack copy */
    AGENT_ARGS_BYTES = 8192,   /* of the command line and the environment */
    AGENT_LANG_WORDS = 3,
    AGENT_PIECES = 6, /* of a struct agent_memory */
    AGENT_MEMORY_BYTES = 32768,
    AGENT_WAIT_WORDS = 128, /* of the stack of a wait, kept with its task; deeper stacks are sent ahead */
    AGENT_STEPS = 1600,     /* of a walk: native frames and languages' */
    AGENT_RED_ZONE = 128,   /* below sp; copied as well, because leaf functions keep things there */
#if defined(__x86_64__)
    AGENT_LEAF_REGS = 16,
#else
    AGENT_LEAF_REGS = 32,
#endif
};

struct agent_shard {
    struct unwind_row rows[UNWIND_SHARD_ROWS];
};

/* Elements of an array map lie 8 bytes aligned: this is what user space sees when it maps one. */
struct agent_rule {
    struct unwind_rule rule;
    __u32 pad;
};

struct agent_page_key {
    __u32 file, page;
};

struct agent_page {
    __u32 row, n; /* row: shard * 65536 + index in it; n == 0: the page has no rows */
};

struct agent_code_key {
    __u64 address;
    __u32 file, pad;
};

enum {
    AGENT_FILE_NONE,    /* code of no file (JIT): walked by frame pointers */
    AGENT_FILE_UNKNOWN, /* a file that is not loaded yet */
    AGENT_FILES_FIRST,
};

struct agent_mapping {
    __u64 start, end, bias; /* ELF address = address - bias */
    __u32 file, pad;
};

/* Where a thread's span context is (otel_thread_ctx_v1). */
enum agent_span_kind {
    AGENT_SPAN_NONE,
    AGENT_SPAN_STATIC, /* pointer at thread pointer + offset */
    AGENT_SPAN_DTV,    /* pointer in the module's TLS block: dtv[module] + offset */
};

struct agent_span {
    __u32 kind, module;
    __s64 offset;
};

enum {
    AGENT_PROCESS_LANG = 1 << 0,    /* there is a struct agent_lang for it */
    AGENT_PROCESS_PARTIAL = 1 << 1, /* it has more mappings than fit */
};

struct agent_process {
    __u64 mm; /* task->mm when it was loaded: a record of another image of the pid is ignored; 0: not known yet */
    __u32 n, flags;
    struct agent_span span;
    struct agent_mapping v[AGENT_MAPPINGS];
};

enum agent_end {
    AGENT_END_NONE,
    AGENT_END_ROOT,       /* the stack is complete */
    AGENT_END_NO_PROCESS, /* its mappings are not loaded */
    AGENT_END_NO_MAPPING, /* code at an address outside of the mappings in its record */
    AGENT_END_NO_PAGE,    /* missing_file and missing_page say which */
    AGENT_END_NO_RULE,    /* there is no rule for this address */
    AGENT_END_CODE,       /* the same, and the user side has not looked at the code there */
    AGENT_END_READ,       /* memory that cannot be read */
    AGENT_END_DEPTH,
    AGENT_END_BAD, /* an invalid frame */
    AGENT_ENDS,
};

enum agent_kind {
    AGENT_EVENT_STACK = 1, /* struct agent_stack; what follows are struct agent_event, but for AGENT_EVENT_MEMORY */
    AGENT_EVENT_CPU,
    AGENT_EVENT_OFFCPU,
    AGENT_EVENT_WAIT,         /* the stack of a wait that has begun, ahead of the AGENT_EVENT_OFFCPU that refer to it */
    AGENT_EVENT_MEMORY,       /* struct agent_memory */
    AGENT_EVENT_COUNTED = 16, /* + the number of the event (perf_events.h); value_ns: events that it stands for */
};

enum {
    AGENT_EVENT_RESUME = 1 << 0, /* see above */
    AGENT_EVENT_SPAN = 1 << 1,   /* trace_id and span_id are set */
    AGENT_EVENT_KERNEL_CUT = 1 << 2,
    AGENT_EVENT_NO_USER = 1 << 3,  /* a kernel thread, or a task without memory */
    AGENT_EVENT_LANG_CUT = 1 << 4, /* the language has more frames than are here */
    AGENT_EVENT_KEPT = 1 << 5,     /* its stack was sent in the AGENT_EVENT_WAIT with the same tid and wait_ns */
    AGENT_EVENT_ASK = 1 << 6,      /* AGENT_EVENT_WAIT: the user side reads the stack itself, from `resume` on */
    AGENT_EVENT_INFERRED = 1 << 7, /* a rule of code_rules was used */
};

enum agent_word {
    AGENT_WORD_NATIVE = 0, /* the call is just before it; also a leaf in a system call */
    AGENT_WORD_EXACT = 1, /* the instruction itself: interrupted (a leaf, or below a signal frame), or a signal frame */
    AGENT_WORD_LANG = 16, /* + the number of the language (lang_abi.h) */
};
#define AGENT_WORD_KIND(w) ((__u32) ((w) >> 56))
#define AGENT_WORD_VALUE(w) ((w) & ~(0xffull << 56))

struct agent_regs {
    __u64 pc, sp, fp, bx;
    __u64 leaf[AGENT_LEAF_REGS]; /* by DWARF number; valid while is_leaf */
    __u32 exact, is_leaf;
};

struct agent_event {
    __u8 kind, flags, end, pad; /* enum agent_kind, AGENT_EVENT_*, enum agent_end */
    __u32 cpu;
    __u64 time_ns; /* monotonic; off-CPU: when it was switched out */
    __u32 pid, tid;
    __u16 n_kernel, n_words; /* kernel words; words in all */
    __u32 weight;            /* samples this one stands for (filter's n); off-CPU: 1 / p */
    __u64 value_ns; /* off-CPU: duration, not multiplied by weight; AGENT_EVENT_WAIT: switches of the thread so far */
    __u64 wait_ns;  /* off-CPU: identifies the wait, together with tid */
    __u64 mm;
    __u32 missing_file, missing_page;
    char comm[16]; /* of the thread */
    __u8 trace_id[16], span_id[8];
    struct agent_regs resume;
    __u64 words[AGENT_WORDS];
};

/* What identifies a process besides its mappings, as the kernel knew it at the sample. It saves the user side from reading
 * /proc, which for a short process takes longer than anything else, and is there when the process is gone. */
struct agent_task {
    __u64 groups;                                 /* equal for processes in the same control groups; 0: not known */
    __u64 arg_start, arg_end, env_start, env_end; /* addresses of the command line and the environment; 0: not known */
    __u32 uid;                                    /* of the initial user namespace */
    __u32 n;                                      /* bytes from arg_start on, after those of the stack */
};

struct agent_stack {
    __u8 kind, pad[3];
    __u32 cpu;
    __u64 time_ns;
    __u64 sp; /* address of bytes[0] */
    __u32 tid, n;
    struct agent_task task;                           /* zero in copies that BPF did not make */
    __u8 bytes[AGENT_STACK_BYTES + AGENT_ARGS_BYTES]; /* n of the stack, then task.n */
};

/* What a language needs to name a frame, copied from the process at the first sample that has the frame: later it may be
 * something else. It is in the ring before the sample. */
struct agent_memory {
    __u8 kind, pad[3];
    __u32 pid;
    __u64 time_ns;
    __u64 words[AGENT_LANG_WORDS]; /* of the frame, as far as they identify its function */
    struct {
        __u64 address, n;
    } pieces[AGENT_PIECES]; /* in bytes, one after the other */
    __u8 bytes[AGENT_MEMORY_BYTES];
};

_Static_assert(sizeof(struct agent_memory) <= sizeof(struct agent_stack), "the BPF programs have one buffer for both");

struct agent_stats {
    __u64 samples, ns; /* program runs that took a sample; time of all runs */
    __u64 lost;        /* events that did not fit into the ring */
    __u64 copies;      /* stacks copied */
    __u64 uncopied;    /* stacks that were not, because the ring was half full */
    __u64 frames;
    __u64 switches, switch_ns, switch_samples; /* off-CPU */
    __u64 left, drawn; /* waits to skip before the next sampled one; the n (one in n) of the last draw */
};

enum { AGENT_SKIP = 0 };

/* Settings that the user side may change while programs run. */
struct agent_control {
    __u32 take_unknown; /* weight of processes that are not in the filter; 0: they are not sampled */
    __u32 inherit;      /* children of processes in the filter join it */
    __u32 no_kernel;    /* leave kernel frames out */
    __u32 copy_all;     /* do not walk in BPF: copy all stacks */
    __u32 off_cpu_n;    /* one wait in this many is sampled; 0: none */
    __u32 copy_room;    /* no stack is copied while the ring holds more bytes than this: the rest is for samples */
    __u32 wake;         /* every copied stack wakes the reader; 0: only when the ring holds an eighth of copy_room */
    __u32 pad;
    __u64 off_cpu_min_ns;
    __u64 last_look_ns; /* when all tasks were last visited; 0: not yet */
};

#endif
