/* SPDX-License-Identifier: Apache-2.0 */
/* wick collector: runs the OpenTelemetry Collector's YAML configuration, for profiles (other signals are passed
 * through). */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
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
    {0, "mode", ARG_STRING, offsetof(struct collector_options, mode), "MODE",
     "print-config: redacted (default), unredacted or unvalidated"},
    {0, "format", ARG_STRING, offsetof(struct collector_options, format), "yaml",
     "print-config: yaml is the only format"},
    {0, "markdown", ARG_FLAG, offsetof(struct collector_options, markdown), NULL,
     "components: print the reference page with every option"},
    {'h', "help", ARG_FLAG, offsetof(struct collector_options, help), NULL, "show this help"},
    {0},
};

static void usage(void)
{
    fputs("usage: wick collector [validate|print-config|components] --config FILE [options]\n\n"
          "Runs the pipelines of an OpenTelemetry Collector configuration: receivers, processors and exporters for\n"
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

/* Waits until SIGTERM or SIGINT; a second signal ends the drain. */
static int wait_for_signal(sigset_t *set)
{
    int fd = signalfd(-1, set, SFD_CLOEXEC);
    struct signalfd_siginfo si;
    ssize_t n;

    if (fd < 0)
        return -errno;
    do
        n = read(fd, &si, sizeof si);
    while (n < 0 && errno == EINTR);
    close(fd);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, set, NULL);
    return n < 0 ? -errno : (int) si.ssi_signo;
}

static int run_flow(struct plan *p, const struct collector_options *o, struct err *e)
{
    _cleanup_(symbolizer_freep) struct symbolizer *symbolizer = dwarf_symbolizer_new();
    struct flow_inject inject = {.symbolizer = symbolizer, .n_loops = (unsigned) o->loops};
    struct flow *g = NULL;
    sigset_t set;
    int r;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    fd_raise_limit();
    /* Keep the memory of requests in the heap between them, but not that of large ones: in the heap a body that grows is
     * copied, which would hold up an event loop. */
    mallopt(M_MMAP_THRESHOLD, 4 << 20);
    mallopt(M_TRIM_THRESHOLD, 8 << 20);
    r = flow_new(p, &inject, &g, e);
    if (r == 0)
        r = flow_start(g, e);
    if (r == 0) {
        log_info("Everything is ready. Begin running and processing data.");
        r = wait_for_signal(&set);
        log_info("Received signal %d, shutting down", r);
        flow_stop(g);
        log_info("Shutdown complete.");
    }
    flow_free(g);
    return r < 0 ? r : 0;
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
    struct plan *p = NULL;
    struct conf c;
    int r = load(&c, o, e);

    if (r == 0 && verb && strcmp(verb, "print-config") == 0 && o->mode && strcmp(o->mode, "unvalidated") == 0) {
        r = print_config(&c, NULL, o);
    } else {
        if (r == 0)
            r = plan_read(&c, o->lenient, warn, NULL, &p, e);
        if (r == 0 && verb && strcmp(verb, "print-config") == 0) {
            r = print_config(&c, p, o);
        } else if (r == 0 && !verb) {
            log_setup(p->telemetry.level, p->telemetry.format);
            r = run_flow(p, o, e);
        }
    }
    conf_done(&c);
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
