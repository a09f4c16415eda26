/* SPDX-License-Identifier: Apache-2.0 */
/* wick dump PID: prints the current stack of every thread (agent/dump/dump.h), with lines and inlined calls from the
 * symbolizer. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "agent/dump/dump.h"
#include "agent/reader/file_reader.h"
#include "base/buf.h"
#include "cli/command.h"
#include "conf/args.h"
#include "host/watch.h"
#include "record/dump_names.h"
#include "record/dump_print.h"

struct dump_arguments {
    bool help, json, nonblocking, no_native, no_lines;
};

static const struct arg args[] = {
    {0, "json", ARG_FLAG, offsetof(struct dump_arguments, json), NULL, "print one JSON object"},
    {0, "nonblocking", ARG_FLAG, offsetof(struct dump_arguments, nonblocking), NULL,
     "do not stop the process: only Python frames, goroutines and Java threads; the first two may be inconsistent"},
    {0, "python", ARG_FLAG, offsetof(struct dump_arguments, no_native), NULL,
     "only the Python frames of threads that run Python"},
    {0, "no-lines", ARG_FLAG, offsetof(struct dump_arguments, no_lines), NULL,
     "use symbol tables only: faster with large binaries"},
    {'h', "help", ARG_FLAG, offsetof(struct dump_arguments, help), NULL, "show this help"},
    {0},
};

static int dump(int pid, const struct dump_arguments *o)
{
    struct dump_options so = {.nonblocking = o->nonblocking, .no_native = o->no_native};
    _cleanup_(file_reader_freep) struct file_reader *reader = NULL;
    _cleanup_(dump_freep) struct dump *s = NULL;
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct dump_names names = {0};
    struct err e = {0};
    int r = kill(pid, 0) < 0 && errno == ESRCH ? err_set(&e, -ESRCH, "no such process: %d", pid)
                                               : watch_reader(&reader, &e);

    so.reader = reader;
    if (r == 0)
        r = dump_take(pid, &so, &s, &e);
    if (r < 0)
        return command_end("dump", r, &e);
    if (s->warning.n)
        fprintf(stderr, "wick dump: %.*s\n", STR_FMT(s->warning));
    if (!o->no_lines)
        dump_names_ask(s, &names);
    if (o->json)
        dump_print_json(s, &names, &b);
    else
        dump_print_text(s, &names, &b);
    dump_names_done(&names);
    r = command_print(&b); /* the output of json_put_str() has no control characters, so JSON is not changed */
    return command_end("dump", r, NULL);
}

static int run(int argc, char **argv)
{
    struct dump_arguments o = {0};
    struct err e = {0};
    uint64_t pid;
    int n, r = args_parse(args, &o, argc - 1, argv + 1, &n, &e);

    if (r < 0)
        return command_misused("dump", "%s", e.message);
    if (o.help) {
        args_text(
            "usage: wick dump [OPTION...] PID\n\n"
            "Prints the current stack of every thread of a process: C, C++, Rust, Go, and Python (CPython 3.9 to 3.14) "
            "with line numbers; of a Go program also every goroutine, with its state and how long it has been waiting; "
            "of a Java program its threads, which it is asked for as jstack does. "
            "The process is stopped for a few milliseconds and needs no preparation.\n\n",
            stdout);
        args_help(args, stdout);
        return EXIT_DONE;
    }
    if (n != 1 || str_to_u64(str_from(argv[1]), 10, &pid) < 0 || pid == 0 || pid > INT32_MAX)
        return command_misused("dump", "exactly one PID is required");
    return dump((int) pid, &o);
}

const struct command command_dump = {"dump", "print the stacks of all threads of a process", run};
