/* SPDX-License-Identifier: Apache-2.0 */
/* wick collector: runs the OpenTelemetry Collector's YAML configuration, for profiles (other signals are passed
 * through). */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/macros.h"
#include "cli/command.h"
#include "conf/args.h"
#include "conf/yaml.h"
#include "pipeline/graph/flow.h"
#include "symbol/dwarf_symbolizer.h"

struct collector_options {
    struct arg_list config, set, feature_gates;
    const char *mode, *format;
    bool lenient, help, markdown;
    int64_t loops;
};

static const struct arg args[] = {
    {'c', "config", ARG_LIST, offsetof(struct collector_options, config), "SOURCE",
     "PATH, file:PATH, env:NAME or yaml:KEY::KEY: VALUE; repeatable, later ones override"},
    {0, "set", ARG_LIST, offsetof(struct collector_options, set), "KEY=VALUE",
     "set one value, as in a.b.c=1; applied after all --config"},
    {0, "lenient", ARG_FLAG, offsetof(struct collector_options, lenient), NULL,
     "skip unsupported components with a warning instead of failing"},
    {0, "feature-gates", ARG_LIST, offsetof(struct collector_options, feature_gates), "LIST",
     "accepted for compatibility with the Collector; has no effect"},
    {0, "loops", ARG_INT, offsetof(struct collector_options, loops), "N",
     "threads for connections (default: number of CPUs, at most 4)"},
    {0, "mode", ARG_STRING, offsetof(struct collector_options, mode), "redacted|unredacted|unvalidated",
     "print-config: what is printed of secrets (default redacted); unvalidated: without a check"},
    {0, "format", ARG_STRING, offsetof(struct collector_options, format), "yaml",
     "print-config: yaml is the only format"},
    {0, "markdown", ARG_FLAG, offsetof(struct collector_options, markdown), NULL,
     "components: print the reference page with every option"},
    {'h', "help", ARG_FLAG, offsetof(struct collector_options, help), NULL, "show this help"},
    {0},
};

static void usage(void)
{
    args_text("usage: wick collector [validate|print-config|components] --config FILE [options]\n\n"
          "Runs the pipelines of an OpenTelemetry Collector configuration: receivers, processors and exporters for "
          "profiles; traces, metrics and logs are passed through from otlp to otlp.\n\n"
          "  validate      check the configuration and exit\n"
          "  print-config  print the configuration merged, expanded and with defaults\n"
          "  components    list the components; components TYPE shows the options of one\n\n",
          stdout);
    args_help(args, stdout);
}

static void warn(void *arg, const char *message)
{
    (void) arg;
    log_warn("%s", message);
}

static int load(struct conf *c, const struct collector_options *o, struct err *e)
{
    int r = 0;

    conf_init(c);
    c->warn = warn;
    for (size_t i = 0; r == 0 && i < o->config.n; i++)
        r = conf_add(c, str_from(o->config.v[i]), e);
    for (size_t i = 0; r == 0 && i < o->set.n; i++)
        r = conf_set(c, str_from(o->set.v[i]), e);
    return r < 0 ? r : conf_expand(c, e);
}

static int print_out(struct buf *b)
{
    if (buf_error(b))
        return buf_error(b);
    return fd_write_all(STDOUT_FILENO, b->p ? b->p : "", b->n);
}

/* --- components --- */

static void list_components(struct buf *b)
{
    static const char *const titles[COMPONENT_KINDS] = {"receivers", "processors", "exporters", "extensions"};

    for (int k = 0; k < COMPONENT_KINDS; k++) {
        buf_printf(b, "%s:\n", titles[k]);
        for (const struct component *const *c = components; *c; c++) {
            if ((*c)->kind != (enum component_kind) k)
                continue;
            buf_printf(b, "    - name: %s\n      help: %s\n", (*c)->name, (*c)->help);
            for (const char *const *a = (*c)->aliases; a && *a; a++)
                buf_printf(b, "      also: %s\n", *a);
            if (k == COMPONENT_EXTENSION)
                continue;
            buf_puts(b, "      signals: [");
            for (int s = 0, first = 1; s < SIGNALS; s++)
                if ((*c)->signals & 1u << s) {
                    buf_printf(b, "%s%s", first ? "" : ", ", signal_names[s]);
                    first = 0;
                }
            buf_puts(b, "]\n");
        }
    }
}

static void describe(struct buf *b, const struct component *c, bool markdown)
{
    buf_printf(b, markdown ? "### %s `%s`\n\n%s.\n\n" : "%s %s: %s\n\n", component_kind_names[c->kind], c->name,
               c->help);
    option_help(b, c->options, markdown ? 0 : 2, markdown);
    buf_putc(b, '\n');
}

static int run_components(const struct collector_options *o, const char *type)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    bool found = false;

    for (const struct component *const *c = components; *c && (type || o->markdown); c++) {
        if (type && component_find((*c)->kind, str_from(type)) != *c)
            continue;
        found = true;
        describe(&b, *c, o->markdown);
    }
    if (type && !found) {
        log_error("unknown component '%s'; 'wick collector components' lists all", type);
        return EXIT_FAILED;
    }
    if (!type && !o->markdown)
        list_components(&b);
    return print_out(&b) < 0 ? EXIT_FAILED : EXIT_DONE;
}

/* --- running --- */

/* A configuration and what runs by it. */
struct collector_run {
    struct conf conf;
    struct plan *plan;
    struct flow *flow;
};

static int read_config(struct collector_run *x, const struct collector_options *o, struct err *e)
{
    int r = load(&x->conf, o, e);

    return r < 0 ? r : plan_read(&x->conf, o->lenient, warn, NULL, &x->plan, e);
}

static int start(struct collector_run *x, const struct flow_inject *inject, struct err *e)
{
    int r;

    log_setup(x->plan->telemetry.level, x->plan->telemetry.format);
    r = flow_new(x->plan, inject, &x->flow, e);
    if (r == 0)
        r = flow_start(x->flow, e);
    if (r < 0)
        flow_free(TAKE(x->flow));
    else
        log_info("Everything is ready. Begin running and processing data.");
    return r;
}

static void stop(struct collector_run *x)
{
    flow_stop(x->flow);
    flow_free(TAKE(x->flow));
}

/* Runs by the configuration as it is now. One that cannot be read changes nothing; one that cannot be started gives way to
 * the old one. *x is what runs, *other is free. Negative: nothing runs. */
static int reload(struct collector_run **x, struct collector_run **other, const struct collector_options *o,
                  const struct flow_inject *inject, struct err *e)
{
    struct collector_run *fresh = *other;
    int r = read_config(fresh, o, e);

    if (r < 0) {
        log_error("the configuration was not reloaded, the old one stays in use: %s", err_message(e, r));
        conf_done(&fresh->conf);
        return 0;
    }
    log_info("Config updated, restart service");
    stop(*x);
    r = start(fresh, inject, e);
    if (r < 0) {
        log_error("the new configuration cannot be started, going back to the old one: %s", err_message(e, r));
        conf_done(&fresh->conf);
        return start(*x, inject, e);
    }
    conf_done(&(*x)->conf);
    *other = *x;
    *x = fresh;
    return 0;
}

/* Reloads at each SIGHUP, until SIGTERM or SIGINT; a second one of these ends the drain. */
static int run_until_signal(struct collector_run **x, struct collector_run **other, const struct collector_options *o,
                            const struct flow_inject *inject, struct err *e)
{
    sigset_t set;
    int r = 0, sig = SIGHUP;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    r = start(*x, inject, e);
    while (r == 0 && sig == SIGHUP) {
        if (sigwait(&set, &sig) == 0 && sig == SIGHUP)
            r = reload(x, other, o, inject, e);
    }
    if (r < 0)
        return r;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_IGN);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    log_info("Received signal %d, shutting down", sig);
    stop(*x);
    log_info("Shutdown complete.");
    return 0;
}

/* *x has been read; other is for the next configuration. */
static int run_flows(struct collector_run **x, struct collector_run *other, const struct collector_options *o,
                     struct err *e)
{
    _cleanup_(symbolizer_freep) struct symbolizer *symbolizer = dwarf_symbolizer_new();
    struct flow_inject inject = {.symbolizer = symbolizer, .n_loops = (unsigned) o->loops};

    signal(SIGPIPE, SIG_IGN);
    fd_raise_limit();
    /* Keep the memory of requests in the heap between them, but not that of large ones: in the heap a body that grows is
     * copied, which would hold up an event loop. */
    mallopt(M_MMAP_THRESHOLD, 4 << 20);
    mallopt(M_TRIM_THRESHOLD, 8 << 20);
    return run_until_signal(x, &other, o, &inject, e);
}

static int print_config(struct conf *c, struct plan *p, const struct collector_options *o)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct conf_node *n = c->root;

    if (p)
        n = plan_effective(p, o->mode && strcmp(o->mode, "unredacted") == 0);
    if (!n)
        return -ENOMEM;
    conf_print(&b, n, 0);
    return print_out(&b);
}

static int work(const char *verb, const struct collector_options *o, struct err *e)
{
    struct collector_run two[2] = {0}, *x = &two[0];
    bool print = verb && strcmp(verb, "print-config") == 0;
    int r;

    if (print && o->mode && strcmp(o->mode, "unvalidated") == 0) {
        r = load(&x->conf, o, e);
        if (r == 0)
            r = print_config(&x->conf, NULL, o);
    } else {
        r = read_config(x, o, e);
        if (r == 0 && print)
            r = print_config(&x->conf, x->plan, o);
        else if (r == 0 && !verb)
            r = run_flows(&x, &two[1], o, e);
    }
    conf_done(&x->conf);
    return r;
}

static int run(int argc, char **argv)
{
    static const char *const verbs[] = {"validate", "print-config", "components"};
    struct collector_options o = {0};
    struct err e = {0};
    int n, r = args_parse(args, &o, argc - 1, argv + 1, &n, &e);
    const char *verb = n ? argv[1] : NULL;
    bool known = !verb, list;

    if (r < 0)
        return command_misused("collector", "%s", e.message);
    if (o.help) {
        usage();
        return EXIT_DONE;
    }
    for (size_t i = 0; verb && i < ARRAY_SIZE(verbs); i++)
        known |= strcmp(verb, verbs[i]) == 0;
    if (!known)
        return command_misused("collector", "unknown subcommand '%s'", verb);
    list = verb && strcmp(verb, "components") == 0;
    if (n > 1 + list)
        return command_misused("collector", "unexpected argument '%s'", argv[n]);
    if (list)
        return run_components(&o, n > 1 ? argv[2] : NULL);
    if (!o.config.n)
        return command_misused("collector", "at least one --config is required");
    r = work(verb, &o, &e);
    if (r < 0)
        log_error("%s", err_message(&e, r));
    return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

const struct command command_collector = {"collector",
                                          "run profiles pipelines from an OpenTelemetry Collector configuration", run};
