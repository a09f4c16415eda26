/* SPDX-License-Identifier: Apache-2.0 */
/* wick alerts check|list|test: checks the rules of a configuration file, lists the alerts of a server, tries its rules
 * out. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "alert/alert_json.h"
#include "base/fd.h"
#include "cli/command.h"
#include "client/ask.h"
#include "client/record_text.h"
#include "conf/args.h"
#include "net/http.h"
#include "serve/serve_load.h"

struct alerts_options_cli {
    struct ask_target target;
    const char *rule;
    bool send, json, help;
};

static const struct arg alerts_args[] = {
    {0, "server", ARG_STRING, offsetof(struct alerts_options_cli, target.server), "URL",
     "server (default: $WICK_SERVER, else http://localhost:4040)"},
    {0, "token", ARG_STRING, offsetof(struct alerts_options_cli, target.token), "TOKEN",
     "token for the server (default: $WICK_TOKEN)"},
    {0, "rule", ARG_STRING, offsetof(struct alerts_options_cli, rule), "NAME", "test: only this rule"},
    {0, "send", ARG_FLAG, offsetof(struct alerts_options_cli, send), NULL,
     "test: also post a test message to every receiver"},
    {0, "json", ARG_FLAG, offsetof(struct alerts_options_cli, json), NULL, "print JSON"},
    {'h', "help", ARG_FLAG, offsetof(struct alerts_options_cli, help), NULL, "show this help"},
    {0},
};

static void alerts_help(void)
{
    args_text(
        "usage: wick alerts check FILE...\n"
        "       wick alerts list [--json]\n"
        "       wick alerts test [--rule NAME] [--send] [--json]\n\n"
        "check reads configuration files as wick serve does and names the file, line and column of what is wrong. list "
        "shows the alerts and rules of a server. test evaluates its rules now and prints what they find; no state changes, "
        "and nothing is sent without --send. See docs/alerts.md.\n\n",
        stdout);
    args_help(alerts_args, stdout);
}

/* --- check --- */

static int alerts_check(const void *options, int argc, char **argv, struct err *e)
{
    struct serve_args args = {0};
    struct serve_load load = {0};
    int r;

    (void) options;
    for (int i = 0; i < argc && i < ARG_LIST_MAX; i++)
        args.config.v[args.config.n++] = argv[i];
    r = serve_load(&args, &load, e);
    if (r == 0)
        printf("%u alert rules, %u recording rules, %u receivers: valid\n", load.alerts->n, load.alerts->n_recordings,
               load.alerts->n_targets);
    serve_load_done(&load);
    return r;
}

/* --- list --- */

static int bad_answer(int r, struct err *e)
{
    return r < 0 ? err_set(e, -EPROTO, "the server's response cannot be parsed: %s", err_message(e, r)) : r;
}

/* Prints what could not be notified, and if all is set, what could; returns whether there is one that could not. */
static bool print_targets(const struct record_list *targets, bool all, struct buf *out)
{
    const struct alert_target_row *v = targets->v;
    bool failed = false;

    for (uint32_t i = 0; i < targets->n; i++) {
        failed |= v[i].error[0] != 0;
        if (v[i].error[0])
            buf_printf(out, "%s cannot be notified: %s\n", v[i].host, v[i].error);
        else if (all)
            buf_printf(out, "sent a test message to %s\n", v[i].host);
    }
    return failed;
}

static int alerts_list(const void *options, int argc, char **argv, struct err *e)
{
    _cleanup_(buf_done) struct buf answer = BUF_INIT, out = BUF_INIT;
    const struct alerts_options_cli *o = options;
    struct alerts_answer x = {0};
    struct arena a;
    int r = ask_server(&o->target, "/api/v1/alerts", &answer, e);

    (void) argc;
    (void) argv;
    if (r < 0)
        return r;
    if (o->json)
        return fd_write_all(STDOUT_FILENO, answer.p, answer.n);
    arena_init(&a, 0);
    r = bad_answer(record_read(buf_str(&answer), alerts_answer_fields, RECORD_FILE, &a, &x, e), e);
    if (r == 0)
        r = record_text(&out, 0, alert_row_fields, sizeof(struct alert_row), &x.alerts, NULL);
    buf_puts(&out, x.alerts.n ? "\n" : "No alerts.\n");
    if (r == 0)
        r = record_text(&out, 0, alert_rule_row_fields, sizeof(struct alert_rule_row), &x.rules, NULL);
    if (r == 0)
        print_targets(&x.targets, false, &out);
    arena_done(&a);
    return r < 0 ? r : command_print(&out);
}

/* --- test --- */

/* What one rule found. */
static bool print_tested(const struct alert_tested_row *t, struct buf *out)
{
    const struct alert_row *v = t->alerts.v;

    buf_printf(out, "%s: ", t->name);
    for (uint32_t i = 0; i < t->alerts.n; i++)
        buf_printf(out, "\n  %s\n  %s", v[i].summary, v[i].url);
    buf_puts(out, t->error[0] ? t->error : t->alerts.n ? "" : "nothing");
    buf_putc(out, '\n');
    return t->error[0];
}

/* Returns 1 if a receiver could not be notified or a rule could not be evaluated. */
static int print_test(struct str text, struct buf *out, struct err *e)
{
    struct alerts_tested x = {0};
    struct arena a;
    bool failed = false;
    int r;

    arena_init(&a, 0);
    r = record_read(text, alerts_tested_fields, RECORD_FILE, &a, &x, e);
    for (uint32_t i = 0; r == 0 && i < x.rules.n; i++)
        failed |= print_tested((const struct alert_tested_row *) x.rules.v + i, out);
    if (r == 0)
        failed |= print_targets(&x.sent, true, out);
    arena_done(&a);
    return r < 0 ? r : failed;
}

static int alerts_try(const void *options, int argc, char **argv, struct err *e)
{
    _cleanup_(buf_done) struct buf path = BUF_INIT, answer = BUF_INIT, out = BUF_INIT;
    const struct alerts_options_cli *o = options;
    struct ask_request q = {.method = "POST"};
    int failed, r;

    (void) argc;
    (void) argv;
    buf_printf(&path, "/api/v1/alerts/test?send=%s", o->send ? "true" : "false");
    if (o->rule) {
        buf_puts(&path, "&rule=");
        http_percent_encode(&path, str_from(o->rule));
    }
    q.path = buf_cstr(&path);
    if (!q.path)
        return -ENOMEM;
    r = ask_send(&o->target, &q, &answer, NULL, e);
    if (r < 0)
        return r;
    failed = print_test(buf_str(&answer), &out, e);
    if (failed < 0)
        return bad_answer(failed, e);
    if (!o->json && !out.n)
        buf_puts(&out, "The server has no rules.\n");
    r = o->json ? fd_write_all(STDOUT_FILENO, answer.p, answer.n) : command_print(&out);
    return r < 0 ? r : failed;
}

static int alerts_run(int argc, char **argv)
{
    static const struct command_verb verbs[] = {
        {"check", "a configuration file", 1, ARG_LIST_MAX, alerts_check},
        {"list", "no arguments", 0, 0, alerts_list},
        {"test", "no arguments", 0, 0, alerts_try},
        {0},
    };
    struct alerts_options_cli o = {0};
    struct err e = {0};
    int n, r = args_parse(alerts_args, &o, argc - 1, argv + 1, &n, &e);

    if (r < 0)
        return command_misused("alerts", "%s", e.message);
    if (o.help) {
        alerts_help();
        return EXIT_DONE;
    }
    return command_verb("alerts", verbs, &o, n, argv + 1);
}

const struct command command_alerts = {"alerts", "check alert rules, list alerts, try rules out", alerts_run};
