/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick query: sends the queries of query/answer.h to a server or runs them on a store's directory. The options are the
 * parameters of the queries; both ways give the same JSON, which query_text.c prints as human-readable text.
 */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/printable.h"
#include "cli/command.h"
#include "client/ask.h"
#include "client/query_nearest.h"
#include "client/query_text.h"
#include "client/verdict_html.h"
#include "conf/args.h"
#include "query/answer.h"

enum { PARAMS_MAX = 64, OPTION_NAME_MAX = 24 };

struct query_options {
    const char *params[PARAMS_MAX]; /* in the order of answer_params */
    struct ask_target target;
    const char *output, *html;
    bool json, help;
};

static const struct arg own_args[] = {
    {0, "store", ARG_STRING, offsetof(struct query_options, target.store), "DIR",
     "read this store directly, without a server"},
    {0, "server", ARG_STRING, offsetof(struct query_options, target.server), "URL",
     "server to query (default: $WICK_SERVER, else http://localhost:4040)"},
    {0, "token", ARG_STRING, offsetof(struct query_options, target.token), "TOKEN",
     "token for the server (default: $WICK_TOKEN)"},
    {0, "tenant", ARG_STRING, offsetof(struct query_options, target.tenant), "NAME",
     "with --store: the tenant to read"},
    {'o', "output", ARG_STRING, offsetof(struct query_options, output), "FILE",
     "write to this file instead of standard output"},
    {0, "html", ARG_STRING, offsetof(struct query_options, html), "FILE",
     "verdict: write what was compared as a self-contained HTML file"},
    {0, "json", ARG_FLAG, offsetof(struct query_options, json), NULL, "print JSON"},
    {'h', "help", ARG_FLAG, offsetof(struct query_options, help), NULL, "show this help"},
};

/* Builds the option table: own_args, then an option for each parameter. The names are stored in `names`. */
static void build_args(struct arg *args, char names[][OPTION_NAME_MAX])
{
    size_t n = ARRAY_SIZE(own_args);

    memcpy(args, own_args, sizeof own_args);
    for (size_t i = 0; answer_params[i].name && i < PARAMS_MAX; i++) {
        snprintf(names[i], OPTION_NAME_MAX, "%s", answer_params[i].name);
        for (char *c = names[i]; *c; c++)
            if (*c == '_')
                *c = '-';
        args[n++] = (struct arg){0,          names[i],
                                 ARG_STRING, offsetof(struct query_options, params) + i * sizeof(char *),
                                 "VALUE",    answer_params[i].help};
    }
    args[n] = (struct arg){0};
}

static void query_help(FILE *out, const struct arg *args)
{
    fputs("usage: wick query WHAT [SELECTOR] [options]\n\n", out);
    for (const struct question *q = questions; q->name; q++)
        fprintf(out, "  %-10s %s\n", q->name, q->summary);
    fputs(
        "\nexamples:\n"
        "  wick query top 'cpu{service.name=\"checkout\"}' --from now-15m --limit 20\n"
        "  wick query top cpu --base-from now-2h --base-to now-1h --sort delta\n"
        "  wick query callers cpu --function json_encode\n"
        "  wick query span_names --service checkout\n"
        "  wick query span --service checkout --span-name 'POST /pay' --slowest 5\n\nThe exit status is 4 if nothing matches.\n\noptions:\n",
        out);
    args_help(args, out);
}

static struct str query_param(void *ctx, const char *name)
{
    const struct query_options *o = ctx;

    for (size_t i = 0; answer_params[i].name; i++)
        if (strcmp(answer_params[i].name, name) == 0)
            return o->params[i] ? str_from(o->params[i]) : (struct str){"", 0};
    return (struct str){"", 0};
}

/* --- the command --- */

static int terminal_width(const struct query_options *o)
{
    struct winsize w;

    if (o->output || !isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0)
        return 0;
    return w.ws_col;
}

/* Returns 1 if nothing matches, after saying so on standard error. */
static int query_ask(const struct question *what, struct query_options *o, struct err *e)
{
    _cleanup_(buf_done) struct buf json = BUF_INIT, text = BUF_INIT, why = BUF_INIT, safe = BUF_INIT;
    int r = ask_question(&o->target, what, query_param, o, &json, e);
    size_t rows = 0;

    if (r == 0)
        r = query_text(str_from(what->name), buf_str(&json), terminal_width(o), &text, &rows, e);
    if (r == 0 && o->json) {
        if (json.n && json.p[json.n - 1] != '\n')
            buf_putc(&json, '\n');
        r = fd_write_file(o->output ? o->output : "-", json.p, json.n, e);
    } else if (r == 0) {
        r = o->output ? fd_write_file(o->output, text.p ? text.p : "", text.n, e) : command_print(&text);
    }
    if (r == 0 && o->html && rows)
        r = verdict_html(&o->target, buf_str(&json), o->html, e);
    if (r < 0 || rows)
        return r;
    query_nearest(&o->target, what, query_param, o, buf_str(&json), &why);
    printable_put(&safe, buf_str(&why), false);
    fprintf(stderr, "wick query: %.*s\n", STR_FMT(buf_str(&safe)));
    return 1;
}

/* The name that was probably meant, or NULL. */
static const char *nearest_question(const char *word)
{
    struct str_guess guess = {str_from(word), NULL, 0};

    for (const struct question *q = questions; q->name; q++)
        str_guess_offer(&guess, q->name);
    return guess.best;
}

static int query_run(int argc, char **argv)
{
    char names[PARAMS_MAX][OPTION_NAME_MAX];
    struct arg args[ARRAY_SIZE(own_args) + PARAMS_MAX + 1];
    struct query_options o = {0};
    const struct question *what;
    struct err e = {0};
    int n, r;

    build_args(args, names);
    r = args_parse(args, &o, argc - 1, argv + 1, &n, &e);
    if (o.help) {
        query_help(stdout, args);
        return EXIT_DONE;
    }
    if (r < 0)
        return command_misused("query", "%s", e.message);
    if (n < 1)
        return command_misused("query", "WHAT is required; wick query --help lists the queries");
    what = question_find(str_from(argv[1]));
    if (!what && nearest_question(argv[1]))
        return command_misused("query", "unknown query '%s'; did you mean '%s'?", argv[1], nearest_question(argv[1]));
    if (!what)
        return command_misused("query", "unknown query '%s'; wick query --help lists all", argv[1]);
    if (o.html && strcmp(what->name, "verdict") != 0)
        return command_misused("query", "--html is an option of verdict");
    if (n > 2)
        return command_misused("query", "unexpected argument '%s': only one selector is allowed", argv[3]);
    if (n == 2 && !argv[2][0])
        return command_misused("query", "the selector is empty; 'cpu' or 'cpu{service.name=\"shop\"}' is one");
    if (n == 2)
        o.params[0] = argv[2]; /* answer_params[0] is the selector */
    r = query_ask(what, &o, &e);
    return r > 0 ? EXIT_NO_DATA : command_end("query", r, &e);
}

const struct command command_query = {"query", "query a server or a store: flame, top, callers, series, leaks, …",
                                      query_run};
