/* SPDX-License-Identifier: Apache-2.0 */
/* What `record`, `agent` and `top` share around an agent: options, signals, starting a command, status lines. */
#ifndef HOST_WATCH_H
#define HOST_WATCH_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#include "agent/agent.h"
#include "base/buf.h"
#include "conf/args.h"

enum { WATCH_RATE_MAX = 10000 };

struct watch_options {
    struct arg_list pids, include, exclude, rename;
    const char *types, *events, *unwind, *via;
    int64_t rate, threshold;
    bool no_kernel, no_names, no_lines, jcmd;
};

/* Lines of an option table for the above; base is the offset of struct watch_options in the command's own struct. */
#define WATCH_ARGS(base)                                                                                                           \
    {'p', "pid", ARG_LIST, (base) + offsetof(struct watch_options, pids), "PID", "process to sample; repeatable"},                 \
        {'F',     "rate",                                                                                                          \
         ARG_INT, (base) + offsetof(struct watch_options, rate),                                                                   \
         "HZ",    "samples per second and CPU (default 99; agent: 19)"},                                                           \
        {'t', "type", ARG_STRING, (base) + offsetof(struct watch_options, types), "TYPES", "what to sample (default cpu); some of: cpu, offcpu"},             \
        {0,                                                                                                                        \
         "include",                                                                                                                \
         ARG_LIST,                                                                                                                 \
         (base) + offsetof(struct watch_options, include),                                                                         \
         "RULE",                                                                                                                   \
         "include only processes that match: name=nginx, exe=node, user=www, cgroup~REGEXP, service~REGEXP; /N: one sample in N"}, \
        {0,        "exclude",                                                                                                      \
         ARG_LIST, (base) + offsetof(struct watch_options, exclude),                                                               \
         "RULE",   "exclude processes that match"},                                                                                \
        {0,        "rename",                                                                                                       \
         ARG_LIST, (base) + offsetof(struct watch_options, rename),                                                                \
         "RULE",   "REGEXP=NAME: rename services whose whole name matches; \\1 is the first group"},                               \
        {0,          "unwind",                                                                                                     \
         ARG_STRING, (base) + offsetof(struct watch_options, unwind),                                                              \
         "rows|copy", "rows (default): unwind in the kernel; copy: copy stacks and unwind in user space"},                          \
        {0,          "via",                                                                                                        \
         ARG_STRING, (base) + offsetof(struct watch_options, via),                                                                 \
         "bpf|old-bpf|perf", "default: what the kernel allows; old-bpf: for kernels before 5.17; perf: without BPF, own processes only"},                              \
        {0, "no-kernel", ARG_FLAG, (base) + offsetof(struct watch_options, no_kernel), NULL, "omit kernel frames"},                \
        {0,        "no-names",                                                                                                     \
         ARG_FLAG, (base) + offsetof(struct watch_options, no_names),                                                              \
         NULL,     "record only build ids and addresses; symbolize later"},                                                        \
        {0,        "no-lines",                                                                                                     \
         ARG_FLAG, (base) + offsetof(struct watch_options, no_lines),                                                              \
         NULL,     "omit lines and inlined functions from debug information"},                                                     \
        {0,        "jcmd",                                                                                                         \
         ARG_FLAG, (base) + offsetof(struct watch_options, jcmd),                                                                  \
         NULL,     "ask Java programs for the names of their code, as 'jcmd PID Compiler.perfmap' does"},                          \
    {                                                                                                                              \
        0, "threshold", ARG_DURATION, (base) + offsetof(struct watch_options, threshold), "TIME",                                  \
            "offcpu: shorter waits are ignored (default 1ms)"                                                                      \
    }

struct filter;
struct file_reader;
struct symbolizer;

/* Whether the options can be used at all; what is wrong with them is the fault of the command line. */
int watch_check(const struct watch_options *w, struct err *e);
/* Converts them to options of an agent. *ret_filter is owned by the caller and must outlive the agent. pids has room
 * for ARG_LIST_MAX. */
int watch_agent_options(const struct watch_options *w, pid_t *pids, struct agent_options *ret,
                        struct filter **ret_filter, struct err *e);

/* The symbolizer that reads lines from debug information, for an agent's options: a separate process that is started
 * when needed. NULL when lines are turned off. */
struct symbolizer *watch_symbolizer(const struct watch_options *w);
/* Starts the confined process that reads binaries, for agent_options; to be freed with file_reader_free() after the
 * agent. */
int watch_reader(struct file_reader **ret, struct err *e);

/* A command that waits until it is released, so that it is sampled from its first instruction on. */
struct watch_command {
    pid_t pid;
    int gate;   /* closing it lets the command run */
    int failed; /* reads the errno of a failed exec */
    const char *name;
};
int watch_command_start(char **argv, struct watch_command *ret, struct err *e);
/* Releases it; fails if it cannot be executed. Does nothing without a command. */
int watch_command_go(struct watch_command *c, struct err *e);

/* Gives this process, and those that it starts from now on, priority over ordinary ones: what is sampled waits in a buffer
 * of limited size, and on a busy machine the process that reads it must get its turn. Does nothing without the right to
 * (CAP_SYS_NICE), or if the user chose a priority. Returns true if it was raised; watch_calm() lowers it again. */
bool watch_hurry(void);
void watch_calm(bool hurried);

/* Returns a descriptor for SIGINT, SIGTERM, SIGHUP and SIGCHLD, and blocks them. To be called before threads start. */
int watch_signals(sigset_t *ret_old);
/* The next signal, 0 when there is none. */
int watch_next_signal(int fd);

/* "12 s, 1234 samples via bpf, 0 lost, cost 0.31 % of the machine" into ret. */
void watch_line(const struct agent_counts *c, int64_t elapsed_ns, char *ret, size_t size);

/* A line about why a better way of sampling is not used, and one about what the kernel refuses; nothing if all is well. */
void watch_way(const struct agent_counts *c, const char *prefix, struct buf *out);

/* "12 % of the CPU time is in PHP, whose functions are not shown" for each such runtime, a line each; nothing below 1 %. */
void watch_foreign(const struct agent_counts *c, const char *prefix, struct buf *out);

/* All counts as one JSON object and a newline. */
void watch_json(const struct agent_counts *c, int64_t elapsed_ns, struct buf *out);

#endif
