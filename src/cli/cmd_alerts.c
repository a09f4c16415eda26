/* SPDX-License-Identifier: Apache-2.0 */
/* wick alerts check|list|test: checks the rules of a configuration file, lists the alerts of a server, tries its rules
 * out. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "cli/command.h"
#include "client/ask.h"
#include "client/text_table.h"
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
    fputs(
        "usage: wick alerts check FILE...\n"
        "       wick alerts list [--json]\n"
        "       wick alerts test [--rule NAME] [--send] [--json]\n\n"
        "check reads configuration files as wick serve does and names the file, line and column of what is wrong. list\n"
        "shows the alerts and rules of a server. test evaluates its rules now and prints what they find; no state changes,\n"
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

/* --- answers --- */

/* The texts of one object of the answer, by key. */
struct alert_fields {
    struct str rule, name, type, state, service, function, version, since, summary, error, delivery_error, url, host;
};

static struct str *field(struct alert_fields *f, struct str key)
{
    const struct {
        const char *key;
        struct str *at;
    } all[] = {{"rule", &f->rule},
               {"name", &f->name},
               {"type", &f->type},
               {"state", &f->state},
               {"service", &f->service},
               {"function", &f->function},
               {"version", &f->version},
               {"since", &f->since},
               {"summary", &f->summary},
               {"error", &f->error},
               {"url", &f->url},
               {"host", &f->host},
               {"delivery_error", &f->delivery_error}};

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if (str_is(key, all[i].key))
            return all[i].at;
    return NULL;
}

static struct alert_fields read_fields(struct json *j)
{
    struct alert_fields f = {0};
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        struct str *at = json_peek(j) == JSON_STRING ? field(&f, key) : NULL;

        if (at)
            *at = json_str(j);
        else
            json_skip(j);
    }
    return f;
}

static void put_alert(struct text_table *t, const struct alert_fields *f)
{
    text_table_put(t, "%.*s", STR_FMT(f->state));
    text_table_put(t, "%.*s", STR_FMT(f->since));
    text_table_put(t, "%.*s", STR_FMT(f->rule));
    text_table_put(t, "%.*s", STR_FMT(f->summary));
    text_table_put(t, "%.*s", STR_FMT(f->delivery_error));
}

static void put_rule(struct text_table *t, const struct alert_fields *f)
{
    text_table_put(t, "%.*s", STR_FMT(f->state));
    text_table_put(t, "%.*s", STR_FMT(f->type));
    text_table_put(t, "%.*s", STR_FMT(f->name));
    text_table_put(t, "%.*s", STR_FMT(f->error));
}

static void put_target(struct buf *out, const struct alert_fields *f)
{
    if (f->error.n)
        buf_printf(out, "%.*s cannot be notified: %.*s\n", STR_FMT(f->host), STR_FMT(f->error));
}

/* Walks the list under `name` of the answer and calls one of the functions above for each object. */
static int each(struct str text, const char *name, struct text_table *t,
                void (*row)(struct text_table *t, const struct alert_fields *f), struct buf *targets)
{
    struct arena a;
    struct json j;
    struct str key;
    int r;

    arena_init(&a, 0);
    json_init(&j, text, &a);
    json_begin_object(&j);
    while (json_next_key(&j, &key)) {
        if (!str_is(key, name)) {
            json_skip(&j);
            continue;
        }
        json_begin_array(&j);
        while (json_next_item(&j)) {
            struct alert_fields f = read_fields(&j);

            if (targets)
                put_target(targets, &f);
            else
                row(t, &f);
        }
    }
    r = json_end(&j);
    arena_done(&a);
    return r;
}

static int print_table(struct str text, const char *name, const struct text_column *columns, size_t n,
                       void (*row)(struct text_table *t, const struct alert_fields *f), struct buf *out)
{
    struct text_table t;
    int r;

    text_table_init(&t, n, columns);
    r = each(text, name, &t, row, NULL);
    if (r == 0 && text_table_rows(&t))
        r = text_table_print(&t, 0, out);
    text_table_done(&t);
    return r;
}

static int bad_answer(int r, struct err *e)
{
    return r < 0 ? err_set(e, -EPROTO, "the server's response cannot be parsed") : r;
}

static int alerts_list(const void *options, int argc, char **argv, struct err *e)
{
    static const struct text_column alert_columns[] = {{"STATE"}, {"SINCE"}, {"RULE"}, {"SUMMARY"}, {"DELIVERY ERROR"}};
    static const struct text_column rule_columns[] = {{"STATE"}, {"TYPE"}, {"RULE"}, {"ERROR"}};
    _cleanup_(buf_done) struct buf answer = BUF_INIT, out = BUF_INIT;
    const struct alerts_options_cli *o = options;
    int r = ask_server(&o->target, "/api/v1/alerts", &answer, e);

    (void) argc;
    (void) argv;
    if (r < 0)
        return r;
    if (o->json)
        return fd_write_all(STDOUT_FILENO, answer.p, answer.n);
    r = print_table(buf_str(&answer), "alerts", alert_columns, ARRAY_SIZE(alert_columns), put_alert, &out);
    buf_puts(&out, out.n ? "\n" : "No alerts.\n");
    if (r == 0)
        r = print_table(buf_str(&answer), "rules", rule_columns, ARRAY_SIZE(rule_columns), put_rule, &out);
    if (r == 0)
        r = each(buf_str(&answer), "targets", NULL, NULL, &out);
    return r < 0 ? bad_answer(r, e) : command_print(&out);
}

/* --- test --- */

/* What one rule found. */
static bool put_tested(struct json *j, struct buf *out)
{
    struct str key, name = {0}, error = {0};
    bool failed = false;
    size_t n = 0, at = out->n;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "name"))
            name = json_str(j);
        else if (str_is(key, "error"))
            error = json_str(j);
        else if (str_is(key, "alerts")) {
            buf_printf(out, "%.*s: ", STR_FMT(name));
            at = out->n;
            for (json_begin_array(j); json_next_item(j); n++) {
                struct alert_fields f = read_fields(j);

                buf_printf(out, "\n  %.*s\n  %.*s", STR_FMT(f.summary), STR_FMT(f.url));
            }
        } else {
            json_skip(j);
        }
    }
    failed = error.n;
    if (error.n)
        buf_printf(out, "%.*s", STR_FMT(error));
    else if (at == out->n)
        buf_puts(out, "nothing");
    buf_putc(out, '\n');
    return failed;
}

static bool put_sent(struct json *j, struct buf *out)
{
    struct alert_fields f = read_fields(j);

    if (f.error.n)
        buf_printf(out, "%.*s cannot be notified: %.*s\n", STR_FMT(f.host), STR_FMT(f.error));
    else
        buf_printf(out, "sent a test message to %.*s\n", STR_FMT(f.host));
    return f.error.n;
}

/* Returns 1 if a receiver could not be notified or a rule could not be evaluated. */
static int print_test(struct str text, struct buf *out)
{
    struct arena a;
    struct json j;
    struct str key;
    bool failed = false;
    int r;

    arena_init(&a, 0);
    json_init(&j, text, &a);
    json_begin_object(&j);
    while (json_next_key(&j, &key)) {
        bool rules = str_is(key, "rules");

        if (!rules && !str_is(key, "sent")) {
            json_skip(&j);
            continue;
        }
        json_begin_array(&j);
        while (json_next_item(&j))
            failed |= rules ? put_tested(&j, out) : put_sent(&j, out);
    }
    r = json_end(&j);
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
    failed = print_test(buf_str(&answer), &out);
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
