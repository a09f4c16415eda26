/* SPDX-License-Identifier: Apache-2.0 */
/* wick top: like top, but by function: shows what uses the machine's CPU right now. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/filter.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "cli/args.h"
#include "cli/command.h"
#include "host/watch.h"
#include "model/batch.h"

struct top_options {
    struct watch_options watch;
    int64_t interval, iterations, rows;
    bool cum, json, help;
};

#define AT(field) offsetof(struct top_options, field)
static const struct arg top_args[] = {
    WATCH_ARGS(AT(watch)),
    {'d', "interval", ARG_DURATION, AT(interval), "TIME", "between two pictures (default 2s)"},
    {'n', "iterations", ARG_INT, AT(iterations), "N", "end after so many (default: never)"},
    {0, "rows", ARG_INT, AT(rows), "N", "functions shown (default: as many as fit)"},
    {0, "cum", ARG_FLAG, AT(cum), NULL, "order by time in a function and what it calls"},
    {0, "json", ARG_FLAG, AT(json), NULL, "one object a picture"},
    {'h', "help", ARG_FLAG, AT(help), NULL, "this text"},
    {0},
};

struct row {
    struct str function, service;
    int64_t self, total;
    uint32_t last; /* last sample counted into total, so that recursion counts once */
};

struct rows {
    struct row *v;
    size_t n, cap;
    struct map map;
    int64_t sum;
};

static struct row *row_of(struct rows *t, struct str function, struct str service)
{
    uint64_t h = hash64_str(function) ^ hash64_str(service) * 3;

    for (struct map_pos p = map_find(&t->map, h); p.index != MAP_NONE; p = map_next(&t->map, p))
        if (str_eq(t->v[p.index].function, function) && str_eq(t->v[p.index].service, service))
            return &t->v[p.index];
    if (array_reserve(t->v, t->cap, t->n + 1, 1 << 20) < 0 || map_insert(&t->map, h, (uint32_t) t->n) < 0)
        return NULL;
    t->v[t->n] = (struct row){.function = function, .service = service};
    return &t->v[t->n++];
}

/* The name of a location, or its file in brackets. */
static struct str name_of(const struct batch *b, uint32_t location, char *text, size_t size)
{
    const struct location *l = &b->dict.locations[location];
    struct str file, base;

    if (l->lines.n)
        return batch_string(b, b->dict.functions[b->dict.lines[l->lines.off].function].name);
    file = base = batch_string(b, b->dict.mappings[l->mapping].filename);
    for (uint32_t i = 0; i < file.n; i++)
        if (file.p[i] == '/')
            base = str_slice(file, i + 1, file.n);
    snprintf(text, size, "[%.*s]", STR_FMT(base));
    return str_from(text);
}

/* Names made here for locations without one; they are valid as long as the current screen. */
struct made {
    struct arena arena;
};

static void add_sample(struct rows *t, struct made *m, const struct batch *b, const struct profile *p, uint32_t sample,
                       struct str service)
{
    struct run s = b->dict.stacks[b->samples[sample].stack];
    int64_t value = batch_sample_value(b, p, &b->samples[sample], 0);

    t->sum += value;
    for (uint32_t i = 0; i < s.n; i++) {
        char text[256];
        struct str name = name_of(b, b->dict.indices[s.off + i], text, sizeof text);
        struct row *r = row_of(t, name.p == text ? arena_str(&m->arena, name) : name, service);

        if (!r)
            return;
        if (i == 0)
            r->self += value;
        if (r->last != sample + 1)
            r->total += value;
        r->last = sample + 1;
    }
}

static void add_batch(struct rows *t, struct made *m, const struct batch *b)
{
    for (uint32_t i = 0; i < b->n_resources; i++) {
        const struct resource *res = &b->resources[i];
        const struct value *service = kvs_get(&res->attrs, STR("service.name"));
        struct str name = service ? value_str(service) : STR("");

        for (uint32_t s = res->scopes.off; s < res->scopes.off + res->scopes.n; s++)
            for (uint32_t k = b->scopes[s].profiles.off; k < b->scopes[s].profiles.off + b->scopes[s].profiles.n; k++)
                for (uint32_t x = 0; x < b->profiles[k].samples.n; x++)
                    add_sample(t, m, b, &b->profiles[k], b->profiles[k].samples.off + x, name);
    }
}

static int by_self(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    if (x->self != y->self)
        return x->self > y->self ? -1 : 1;
    return x->total > y->total ? -1 : x->total < y->total;
}

static int by_total(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    return x->self > y->self ? -1 : x->self < y->self;
}

static void put_json(struct buf *out, const struct rows *t, size_t n, int64_t interval)
{
    buf_puts(out, "{\"cores\":");
    json_put_double(out, (double) t->sum / (double) interval);
    buf_puts(out, ",\"functions\":[");
    for (size_t i = 0; i < n; i++) {
        buf_puts(out, i ? ",{\"function\":" : "{\"function\":");
        json_put_str(out, t->v[i].function);
        buf_puts(out, ",\"service\":");
        json_put_str(out, t->v[i].service);
        buf_puts(out, ",\"self\":");
        json_put_double(out, (double) t->v[i].self / (double) interval);
        buf_puts(out, ",\"total\":");
        json_put_double(out, (double) t->v[i].total / (double) interval);
        buf_putc(out, '}');
    }
    buf_puts(out, "]}\n");
}

static void put_table(struct buf *out, const struct rows *t, size_t n, int64_t interval, int columns)
{
    int room = MAX(columns - 37, 20);

    buf_printf(out, "%7s %7s  %-*s %s\n", "SELF%", "TOTAL%", room, "FUNCTION", "SERVICE");
    for (size_t i = 0; i < n; i++) { /* percent of one CPU, as in top */
        const struct row *r = &t->v[i];

        buf_printf(out, "%7.1f %7.1f  %-*.*s %.*s\n", 100.0 * (double) r->self / (double) interval,
                   100.0 * (double) r->total / (double) interval, room, (int) MIN(r->function.n, (uint32_t) room),
                   r->function.p, (int) MIN(r->service.n, 18u), r->service.p);
    }
}

static void show(const struct top_options *o, struct agent *a, struct rows *t, int64_t elapsed, int64_t interval)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct winsize w = {.ws_row = 30, .ws_col = 110};
    bool live = isatty(STDOUT_FILENO) && !o->json;
    struct agent_counts c;
    char line[200];
    size_t n;

    ioctl(STDOUT_FILENO, TIOCGWINSZ, &w);
    n = o->rows ? (size_t) o->rows : (size_t) MAX(w.ws_row - 4, 5);
    if (t->n)
        qsort(t->v, t->n, sizeof *t->v, o->cum ? by_total : by_self);
    n = MIN(n, t->n);
    if (o->json) {
        put_json(&out, t, n, interval);
    } else {
        agent_counts(a, &c);
        watch_line(&c, elapsed, line, sizeof line);
        buf_printf(&out, "wick top: %.2f cores busy; %s\n\n", (double) t->sum / (double) interval, line);
        put_table(&out, t, n, interval, w.ws_col);
    }
    if (live)
        fd_write_all(STDOUT_FILENO, "\033[H\033[J", 6);
    command_print(&out);
}

/* Shows one screen; returns 1 if a signal asks to end. */
static int watch_once(const struct top_options *o, struct agent *a, int signal_fd, int64_t begin, struct err *e)
{
    struct pollfd fds[] = {{agent_fd(a), POLLIN, 0}, {signal_fd, POLLIN, 0}};
    int64_t start = clock_mono(), end = start + o->interval;
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    struct rows t = {0};
    struct made made;
    int r = 0;

    for (int64_t wait; r == 0 && (wait = end - clock_mono()) > 0;) {
        poll(fds, 2, (int) (wait / NS_PER_MS + 1));
        if (fds[1].revents && watch_next_signal(signal_fd))
            return 1;
        if (fds[0].revents)
            r = agent_poll(a, 0, e);
    }
    if (r == 0)
        r = agent_take(a, &b, e);
    if (r < 0)
        return r;
    arena_init(&made.arena, 16 << 20);
    if (b)
        add_batch(&t, &made, b);
    show(o, a, &t, clock_mono() - begin, clock_mono() - start);
    arena_done(&made.arena);
    map_done(&t.map);
    mem_free(t.v);
    return 0;
}

static int top(const struct top_options *o, struct err *e)
{
    _cleanup_(filter_freep) struct filter *filter = NULL;
    _cleanup_(agent_freep) struct agent *a = NULL;
    pid_t pids[ARG_LIST_MAX];
    struct agent_options options;
    int64_t begin;
    sigset_t old;
    int signal_fd, r = watch_agent_options(&o->watch, pids, &options, &filter, e);

    if (r < 0)
        return r;
    options.inherit = options.n_pids > 0;
    signal_fd = watch_signals(&old);
    r = agent_new(&options, &a, e);
    begin = clock_mono();
    for (int64_t i = 0; r == 0 && (!o->iterations || i < o->iterations); i++)
        r = watch_once(o, a, signal_fd, begin, e);
    fd_close(signal_fd);
    return r < 0 ? r : 0;
}

static int run(int argc, char **argv)
{
    struct top_options o = {.interval = 2 * NS_PER_S, .watch.rate = 99};
    struct err e = {0};
    int n = 0, r = args_parse(top_args, &o, argc - 1, argv + 1, false, &n, &e);

    if (r == 0 && o.help) {
        printf("usage: wick top [options]\n\nThe functions that take the CPU right now, over all processes.\n\n");
        args_help(top_args, stdout);
        return EXIT_DONE;
    }
    if (r == 0 && (n || o.interval < NS_PER_S / 10))
        r = err_set(&e, -EINVAL, "no words, and at least 100ms between pictures; wick top --help tells more");
    if (r < 0) {
        fprintf(stderr, "wick top: %s\n", err_message(&e, r));
        return EXIT_USAGE;
    }
    r = top(&o, &e);
    if (r < 0)
        fprintf(stderr, "wick top: %s\n", err_message(&e, r));
    return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

const struct command command_top = {"top", "the functions that take the CPU right now", run};
