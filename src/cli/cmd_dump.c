/* SPDX-License-Identifier: Apache-2.0 */
/* wick dump PID: prints the current stack of every thread (agent/dump/dump.h), with lines and inlined calls from the
 * symbolizer. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/dump/dump.h"
#include "agent/lang/lang.h"
#include "agent/reader/file_reader.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/command.h"
#include "conf/args.h"
#include "host/watch.h"
#include "model/symbolizer.h"
#include "symbol/symbol_process.h"

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

/* The symbolizer's answers about the modules. */
struct answers {
    struct symbol_answer **v; /* by module */
    uint64_t **addresses;     /* sorted, as requested */
    uint32_t *n;
    uint32_t n_modules;
};

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}

static uint32_t collect_stack(const struct dump_stack *t, uint32_t module, uint64_t *out, uint32_t n)
{
    for (uint32_t k = 0; k < t->n_frames; k++) {
        if (t->frames[k].module != (int32_t) module)
            continue;
        if (out)
            out[n] = t->frames[k].elf;
        n++;
    }
    return n;
}

static uint32_t collect(const struct dump *s, uint32_t module, uint64_t *out)
{
    uint32_t n = 0, kept = 0;

    for (uint32_t i = 0; i < s->n_threads; i++)
        n = collect_stack(&s->threads[i].stack, module, out, n);
    for (uint32_t i = 0; i < s->n_tasks; i++)
        n = collect_stack(&s->tasks[i].stack, module, out, n);
    if (!out || !n)
        return n;
    qsort(out, n, sizeof *out, compare_u64);
    for (uint32_t i = 0; i < n; i++)
        if (!i || out[i] != out[i - 1])
            out[kept++] = out[i];
    return kept;
}

static void ask_module(const struct dump *s, uint32_t module, struct symbolizer *y, struct answers *a)
{
    const struct object *o = s->modules[module].object;
    struct symbol_request q = {.build_id = str_from(o->gnu_id), .lines = true};
    uint32_t n = collect(s, module, NULL);
    int fd = o->fd;
    char path[4200];

    if (!n || o->kind != OBJECT_FILE)
        return;
    object_reach(o, path, sizeof path);
    q.path = str_from(path);
    if (fd >= 0)
        q.fd = &fd; /* the confined symbolizer may not reach the file */
    a->addresses[module] = mem_zalloc_array(n, sizeof(uint64_t));
    if (!a->addresses[module])
        return;
    a->n[module] = q.n_addresses = collect(s, module, a->addresses[module]);
    q.addresses = a->addresses[module];
    symbolizer_resolve(y, &q, &a->v[module], NULL);
}

static void ask(const struct dump *s, struct answers *a)
{
    _cleanup_(symbolizer_freep) struct symbolizer *y = NULL;
    const char *const argv[] = {"/proc/self/exe", "symbolize", NULL};

    a->n_modules = s->n_modules;
    a->v = mem_zalloc_array(s->n_modules + 1u, sizeof *a->v);
    a->addresses = mem_zalloc_array(s->n_modules + 1u, sizeof *a->addresses);
    a->n = mem_zalloc_array(s->n_modules + 1u, sizeof *a->n);
    y = symbol_process_new(argv, 0);
    for (uint32_t i = 0; y && a->v && a->addresses && a->n && i < s->n_modules; i++)
        ask_module(s, i, y, a);
}

static void answers_done(struct answers *a)
{
    for (uint32_t i = 0; i < a->n_modules; i++) {
        if (a->v)
            symbol_answer_free(a->v[i]);
        if (a->addresses)
            mem_free(a->addresses[i]);
    }
    mem_free(a->v);
    mem_free(a->addresses);
    mem_free(a->n);
}

/* Frames of an address, innermost inlined first; 0 if only the symbol table's name is known. */
static uint32_t lookup(const struct answers *a, const struct dump_frame *f, const struct symbol_frame **ret)
{
    const uint64_t *at;
    uint32_t i;

    if (f->module < 0 || !a->v || (uint32_t) f->module >= a->n_modules || !a->v[f->module])
        return 0;
    at = bsearch(&f->elf, a->addresses[f->module], a->n[f->module], sizeof *at, compare_u64);
    if (!at)
        return 0;
    i = (uint32_t) (at - a->addresses[f->module]);
    if (a->v[f->module]->quality != SYMBOLS_LINES && f->n_lines && f->lines[0].file.n) /* Go's table has more */
        return 0;
    *ret = a->v[f->module]->frames + a->v[f->module]->first[i];
    return a->v[f->module]->first[i + 1] - a->v[f->module]->first[i];
}

/* One line of a stack: a frame, or one of the calls that were inlined into it. */
struct shown {
    struct str function, file, module;
    int64_t line;
    const char *kind;
    bool inlined;
    uint64_t address;
};

typedef void put_fn(struct buf *b, const struct shown *f, uint32_t number);

static struct str base_name(struct str path)
{
    for (uint32_t i = path.n; i > 0; i--)
        if (path.p[i - 1] == '/')
            return str_slice(path, i, path.n);
    return path;
}

static uint32_t put_frame(struct buf *b, const struct dump *s, const struct answers *a, const struct dump_frame *f,
                          uint32_t number, put_fn *put)
{
    const struct symbol_frame *more = NULL;
    uint32_t n = f->module >= 0 ? lookup(a, f, &more) : 0;
    struct shown one = {.kind = f->type, .address = f->address};

    if (f->module >= 0)
        one.module = str_from(s->modules[f->module].path);
    if (!n && !f->n_lines)
        put(b, &one, number++);
    for (uint32_t i = 0; !n && i < f->n_lines; i++) {
        one.function = f->lines[i].function;
        one.file = f->lines[i].file;
        one.line = f->lines[i].line;
        one.inlined = i + 1 < f->n_lines;
        put(b, &one, number++);
    }
    for (uint32_t i = 0; i < n; i++) {
        one.function = more[i].function;
        if (!one.function.n && f->n_lines)
            one.function = f->lines[f->n_lines - 1].function;
        one.file = more[i].file;
        one.line = more[i].line;
        one.inlined = more[i].inlined;
        put(b, &one, number++);
    }
    return number;
}

static void put_text(struct buf *b, const struct shown *f, uint32_t number)
{
    buf_printf(b, "  #%-3u ", number);
    if (f->function.n)
        buf_put_str(b, f->function);
    else
        buf_printf(b, "0x%" PRIx64, f->address);
    if (f->file.n)
        buf_printf(b, "  %.*s", STR_FMT(f->file));
    if (f->file.n && f->line)
        buf_printf(b, ":%" PRId64, f->line);
    else if (!f->file.n && f->module.n)
        buf_printf(b, "  (%.*s)", STR_FMT(base_name(f->module)));
    buf_puts(b, f->inlined ? " inlined\n" : "\n");
}

static void put_json(struct buf *b, const struct shown *f, uint32_t number)
{
    bool first = true;

    if (number)
        buf_putc(b, ',');
    buf_putc(b, '{');
    json_put_key(b, &first, "type");
    json_put_str(b, str_from(f->kind));
    json_put_key(b, &first, "function");
    json_put_str(b, f->function);
    json_put_key(b, &first, "file");
    json_put_str(b, f->file);
    json_put_key(b, &first, "line");
    json_put_i64(b, f->line);
    json_put_key(b, &first, "module");
    json_put_str(b, f->module);
    json_put_key(b, &first, "address");
    json_put_u64(b, f->address);
    if (f->inlined)
        buf_puts(b, ",\"inlined\":true");
    buf_putc(b, '}');
}

static const char *state_words(char c)
{
    switch (c) {
    case 'R':
        return "running";
    case 'S':
        return "sleeping";
    case 'D':
        return "waiting in the kernel";
    case 'T':
    case 't':
        return "stopped";
    case 'Z':
        return "ended";
    case 'I':
        return "idle";
    default:
        return "";
    }
}

/* --- text --- */
static void put_stack_text(struct buf *b, const struct dump *s, const struct answers *a, const struct dump_stack *t)
{
    uint32_t number = 0;

    for (uint32_t k = 0; k < t->n_labels; k++)
        buf_printf(b, "  %.*s=%.*s\n", STR_FMT(t->labels[k].key), STR_FMT(t->labels[k].value));
    for (uint32_t k = 0; k < t->n_frames; k++)
        number = put_frame(b, s, a, &t->frames[k], number, put_text);
}

static void put_thread_text(struct buf *b, const struct dump *s, const struct answers *a, const struct dump_thread *t)
{
    buf_printf(b, "\nthread %d", t->tid);
    if (t->name[0])
        buf_printf(b, " \"%s\"", t->name);
    if (*state_words(t->state))
        buf_printf(b, ", %s", state_words(t->state));
    if (t->task_id)
        buf_printf(b, ", %s %" PRIu64, s->task_word, t->task_id);
    buf_putc(b, '\n');
    put_stack_text(b, s, a, &t->stack);
    if (!t->stack.whole && t->stack.n_frames)
        buf_puts(b, "  [truncated]\n");
}

/* At least so long: the runtime notes it from time to time. */
static void put_wait(struct buf *b, int64_t ns)
{
    int64_t s = ns / 1000000000;

    if (s >= 120)
        buf_printf(b, " for %" PRId64 " minutes", s / 60);
    else if (ns >= 0)
        buf_printf(b, " for %" PRId64 " seconds", s);
}

static void put_task_text(struct buf *b, const struct dump *s, const struct answers *a, const struct dump_task *t)
{
    bool is_python = s->process->lang && s->process->lang->are_tasks_threads;

    buf_printf(b, "\n%s", s->task_word);
    if (is_python || t->id)
        buf_printf(b, is_python ? " 0x%" PRIx64 : " %" PRIu64, t->id);
    if (t->name.n)
        buf_printf(b, " \"%.*s\"", STR_FMT(t->name));
    if (t->state.n)
        buf_printf(b, ", %.*s", STR_FMT(t->state));
    put_wait(b, t->wait_ns);
    if (t->apart && t->tid)
        buf_printf(b, ", thread %d", t->tid);
    if (t->is_system)
        buf_puts(b, ", of the runtime");
    buf_putc(b, '\n');
    put_stack_text(b, s, a, &t->stack);
    if (!is_python && !t->stack.whole && t->stack.n_frames)
        buf_puts(b, "  [truncated]\n");
}

static void print_text(struct buf *b, const struct dump *s, const struct answers *a)
{
    buf_printf(b, "process %d", s->pid);
    if (s->runtime.n)
        buf_printf(b, ", %.*s", STR_FMT(s->runtime));
    if (s->n_threads)
        buf_printf(b, ", %u thread%s", s->n_threads, s->n_threads == 1 ? "" : "s");
    if (s->n_tasks)
        buf_printf(b, ", %u %s%s", s->n_tasks, s->task_word, s->n_tasks == 1 ? "" : "s");
    buf_putc(b, '\n');
    for (uint32_t i = 0; i < s->n_threads; i++)
        put_thread_text(b, s, a, &s->threads[i]);
    for (int system = 0; system < 2; system++)
        for (uint32_t i = 0; i < s->n_tasks; i++)
            if ((!s->tasks[i].tid || s->tasks[i].apart) && s->tasks[i].is_system == system)
                put_task_text(b, s, a, &s->tasks[i]);
    if (s->tasks_left_out)
        buf_printf(b, "\n%" PRIu64 " more %ss are not shown\n", s->tasks_left_out, s->task_word);
}

/* --- JSON --- */
/* "java_thread" */
static void put_json_word(struct buf *b, const char *word)
{
    for (; *word; word++)
        buf_putc(b, *word == ' ' ? '_' : (char) (*word | 0x20));
}

static void put_stack_json(struct buf *b, const struct dump *s, const struct answers *a, const struct dump_stack *t)
{
    uint32_t number = 0;
    bool first = true;

    buf_printf(b, ",\"whole\":%s,\"labels\":{", t->whole ? "true" : "false");
    for (uint32_t k = 0; k < t->n_labels; k++) {
        json_sep(b, &first);
        json_put_str(b, t->labels[k].key);
        buf_putc(b, ':');
        json_put_str(b, t->labels[k].value);
    }
    buf_puts(b, "},\"frames\":[");
    for (uint32_t k = 0; k < t->n_frames; k++)
        number = put_frame(b, s, a, &t->frames[k], number, put_json);
    buf_puts(b, "]}");
}

static void put_thread_json(struct buf *b, const struct dump *s, const struct answers *a, const struct dump_thread *t)
{
    buf_printf(b, "{\"tid\":%d,\"name\":", t->tid);
    json_put_str(b, str_from(t->name));
    buf_printf(b, ",\"state\":\"%c\"", t->state);
    if (t->task_id) {
        buf_puts(b, ",\"");
        put_json_word(b, s->task_word);
        buf_printf(b, "\":%" PRIu64, t->task_id);
    }
    put_stack_json(b, s, a, &t->stack);
}

static void put_task_json(struct buf *b, const struct dump *s, const struct answers *a, const struct dump_task *t)
{
    buf_printf(b, "{\"id\":%" PRIu64 ",\"state\":", t->id);
    json_put_str(b, t->state);
    if (t->name.n) {
        buf_puts(b, ",\"name\":");
        json_put_str(b, t->name);
    }
    if (t->wait_ns >= 0)
        buf_printf(b, ",\"wait_ns\":%" PRId64, t->wait_ns);
    if (t->tid)
        buf_printf(b, ",\"tid\":%d", t->tid);
    if (t->is_system)
        buf_puts(b, ",\"system\":true");
    put_stack_json(b, s, a, &t->stack);
}

static void put_tasks_key(struct buf *b, const struct dump *s)
{
    buf_puts(b, "],\"");
    put_json_word(b, s->task_word);
    buf_puts(b, "s\":[");
}

/* Tasks are in an array of their name; Python's threads are in that of the threads. */
static void print_json(struct buf *b, const struct dump *s, const struct answers *a)
{
    bool as_threads = s->process->lang && s->process->lang->are_tasks_threads;

    buf_printf(b, "{\"pid\":%d,\"runtime\":", s->pid);
    json_put_str(b, s->runtime);
    buf_printf(b, ",\"stopped_ns\":%" PRId64 ",\"threads\":[", s->stopped_ns);
    for (uint32_t i = 0; i < s->n_threads; i++) {
        buf_puts(b, i ? "," : "");
        put_thread_json(b, s, a, &s->threads[i]);
    }
    if (s->task_word && !as_threads)
        put_tasks_key(b, s);
    for (uint32_t i = 0; i < s->n_tasks; i++) {
        buf_puts(b, i ? "," : "");
        put_task_json(b, s, a, &s->tasks[i]);
    }
    buf_puts(b, "]}\n");
}

static int dump(int pid, const struct dump_arguments *o)
{
    struct dump_options so = {.nonblocking = o->nonblocking, .no_native = o->no_native};
    _cleanup_(file_reader_freep) struct file_reader *reader = NULL;
    _cleanup_(dump_freep) struct dump *s = NULL;
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct answers a = {0};
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
        ask(s, &a);
    if (o->json)
        print_json(&b, s, &a);
    else
        print_text(&b, s, &a);
    answers_done(&a);
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
        fputs(
            "usage: wick dump [OPTION...] PID\n\n"
            "Prints the current stack of every thread of a process: C, C++, Rust, Go, and Python (CPython 3.9 to 3.14)\n"
            "with line numbers; of a Go program also every goroutine, with its state and how long it has been waiting;\n"
            "of a Java program its threads, which it is asked for as jstack does.\n"
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
