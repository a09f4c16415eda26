/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the stacks of a process as text and as JSON (dump_print.h). */
#include "record/dump_print.h"

#include <inttypes.h>

#include "agent/dump/dump.h"
#include "agent/lang/lang.h"
#include "base/json.h"
#include "base/unnamed.h"
#include "model/symbolizer.h"
#include "record/dump_names.h"

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

static uint32_t put_frame(struct buf *b, const struct dump *s, const struct dump_names *a, const struct dump_frame *f,
                          uint32_t number, put_fn *put)
{
    const struct symbol_frame *more = NULL;
    uint32_t n = f->module >= 0 ? dump_names_find(a, f, &more) : 0;
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
        unnamed_put_at(b, f->module, f->address);
    if (f->file.n)
        buf_printf(b, "  %.*s", STR_FMT(f->file));
    if (f->file.n && f->line)
        buf_printf(b, ":%" PRId64, f->line);
    else if (!f->file.n && f->module.n && f->function.n)
        buf_printf(b, "  (%.*s)", STR_FMT(base_name(f->module)));
    buf_puts(b, f->inlined ? " inlined\n" : "\n");
}

static void put_json(struct buf *b, const struct shown *f, uint32_t number)
{
    bool first = true;

    if (number)
        buf_putc(b, ',');
    buf_putc(b, '{');
    json_put_key_text(b, &first, "type", f->kind);
    json_put_key_str(b, &first, "function", f->function);
    json_put_key_str(b, &first, "file", f->file);
    json_put_key_i64(b, &first, "line", f->line);
    json_put_key_str(b, &first, "module", f->module);
    json_put_key_u64(b, &first, "address", f->address);
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
static void put_stack_text(struct buf *b, const struct dump *s, const struct dump_names *a, const struct dump_stack *t)
{
    uint32_t number = 0;

    for (uint32_t k = 0; k < t->n_labels; k++)
        buf_printf(b, "  %.*s=%.*s\n", STR_FMT(t->labels[k].key), STR_FMT(t->labels[k].value));
    for (uint32_t k = 0; k < t->n_frames; k++)
        number = put_frame(b, s, a, &t->frames[k], number, put_text);
}

static void put_thread_text(struct buf *b, const struct dump *s, const struct dump_names *a,
                            const struct dump_thread *t)
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

static void put_task_text(struct buf *b, const struct dump *s, const struct dump_names *a, const struct dump_task *t)
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
    if (t->own_moment && t->tid)
        buf_printf(b, ", thread %d", t->tid);
    if (t->is_system)
        buf_puts(b, ", of the runtime");
    buf_putc(b, '\n');
    put_stack_text(b, s, a, &t->stack);
    if (!is_python && !t->stack.whole && t->stack.n_frames)
        buf_puts(b, "  [truncated]\n");
}

void dump_print_text(const struct dump *s, const struct dump_names *a, struct buf *b)
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
            if ((!s->tasks[i].tid || s->tasks[i].own_moment) && s->tasks[i].is_system == system)
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

static void put_stack_json(struct buf *b, const struct dump *s, const struct dump_names *a, const struct dump_stack *t)
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

static void put_thread_json(struct buf *b, const struct dump *s, const struct dump_names *a,
                            const struct dump_thread *t)
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

static void put_task_json(struct buf *b, const struct dump *s, const struct dump_names *a, const struct dump_task *t)
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
void dump_print_json(const struct dump *s, const struct dump_names *a, struct buf *b)
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
