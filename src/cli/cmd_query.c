/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick query: sends the queries of query/answer.h to a server or runs them on a store's directory. The options are the
 * parameters of the queries; both ways give the same JSON, which query_text.c prints as human-readable text.
 */
#include <ctype.h>
#include <errno.h>
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
    bool json, reference, help;
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
    {0, "print-reference", ARG_FLAG, offsetof(struct query_options, reference), NULL,
     "print what all queries take and answer"},
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
    for (const struct question *q = questions; q->name; q++) {
        char line[256];

        snprintf(line, sizeof line, "  %-12s  %s\n", q->name, q->summary);
        args_text(line, out);
    }
    fputs(
        "\nexamples:\n"
        "  wick query top 'cpu{service.name=\"checkout\"}' --from now-15m --limit 20\n"
        "  wick query top cpu --base-from now-2h --base-to now-1h --sort delta\n"
        "  wick query callers cpu --function json_encode\n"
        "  wick query span_names --service checkout\n"
        "  wick query span --service checkout --span-name 'POST /pay' --slowest 5\n\n"
        "The exit status is 4 if nothing matches.\n'wick query WHAT --help' lists what a query takes; the options of all are:\n\n",
        out);
    args_help(args, out);
}

/* The option of a question, or one of own_args that has a meaning for it. */
static bool is_taken(const struct question *q, const char *param)
{
    static const char *const range[] = {"query", "from", "to"};

    for (size_t i = 0; q->common && i < ARRAY_SIZE(range); i++)
        if (strcmp(param, range[i]) == 0)
            return true;
    for (const char *const *p = q->params; *p; p++)
        if (strcmp(param, *p) == 0)
            return true;
    return q->diff && strncmp(param, "base_", 5) == 0;
}

/* Help of one question: only what it takes. */
static void question_help(const struct question *q, const struct arg *args)
{
    const struct arg *params = args + ARRAY_SIZE(own_args);
    struct arg taken[ARRAY_SIZE(own_args) + PARAMS_MAX + 1];
    char text[512];
    size_t n = 0;

    for (size_t i = 0; params[i].name; i++)
        if (is_taken(q, answer_params[i].name))
            taken[n++] = params[i];
    for (size_t i = 0; i < ARRAY_SIZE(own_args); i++)
        if (strcmp(own_args[i].name, "print-reference") != 0 &&
            (strcmp(own_args[i].name, "html") != 0 || strcmp(q->name, "verdict") == 0))
            taken[n++] = own_args[i];
    taken[n] = (struct arg){0};
    snprintf(text, sizeof text, "usage: wick query %s%s [options]\n\n%c%s.\n\n", q->name,
             q->common ? " [SELECTOR]" : "", toupper((unsigned char) q->summary[0]), q->summary + 1);
    args_text(text, stdout);
    args_help(taken, stdout);
}

/* The first option that was given and that the question does not take, or NULL. */
static const char *option_not_taken(const struct question *q, const struct query_options *o, const struct arg *args)
{
    for (size_t i = 0; answer_params[i].name; i++)
        if (o->params[i] && !is_taken(q, answer_params[i].name))
            return args[ARRAY_SIZE(own_args) + i].name;
    return NULL;
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

/* The answer is text, not JSON. */
static bool is_text(struct query_options *o)
{
    return str_is(query_param(o, "format"), "text");
}

/* Lines of such an answer besides headings: they begin with a share, a growth, or indentation. */
static size_t text_rows(struct str text)
{
    size_t n = 0;

    while (text.n) {
        struct str line = str_cut(&text, '\n');

        n += line.n && strchr(" +-0123456789", line.p[0]) != NULL;
    }
    return n;
}

static int query_print(const struct query_options *o, struct buf *json, const struct buf *text, struct err *e)
{
    if (o->json && json->n && json->p[json->n - 1] != '\n')
        buf_putc(json, '\n');
    if (o->json || o->output)
        text = o->json ? json : text;
    else
        return command_print(text);
    return fd_write_file(o->output ? o->output : "-", text->p ? text->p : "", text->n, e);
}

/* As text for people, on standard error. */
static void query_say(const char *prefix, struct str s)
{
    _cleanup_(buf_done) struct buf safe = BUF_INIT;

    while (s.n) {
        buf_reset(&safe);
        printable_put(&safe, str_cut(&s, '\n'), false);
        fprintf(stderr, "%s%.*s\n", prefix, STR_FMT(buf_str(&safe)));
    }
}

/* Returns 1 if nothing matches, after saying so on standard error. */
static int query_ask(const struct question *what, struct query_options *o, struct err *e)
{
    _cleanup_(buf_done) struct buf answer = BUF_INIT, why = BUF_INIT;
    _cleanup_(query_text_done) struct query_text text = {BUF_INIT, BUF_INIT, 0};
    int r = ask_question(&o->target, what, query_param, o, &answer, e);

    if (r == 0 && is_text(o)) {
        text.rows = text_rows(buf_str(&answer));
        if (text.rows)
            buf_put(&text.text, answer.p, answer.n);
    } else if (r == 0) {
        r = query_text(what, buf_str(&answer), terminal_width(o), &text, e) < 0 ? -EBADMSG : 0;
    }
    if (r == 0)
        r = query_print(o, &answer, &text.text, e);
    if (r == 0 && !o->json)
        query_say("", buf_str(&text.notes));
    if (r == 0 && o->html && text.rows)
        r = verdict_html(&o->target, buf_str(&answer), o->html, e);
    if (r < 0 || text.rows)
        return r;
    query_nearest(&o->target, what, query_param, o, buf_str(&answer), &why);
    query_say("wick query: ", buf_str(&why));
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

/* What the question itself says is wrong with its options. */
static int question_misused(const struct question *what, const struct err *e)
{
    char name[64], prefix[64];
    struct str message = str_from(e->message);

    snprintf(name, sizeof name, "query %s", what->name);
    snprintf(prefix, sizeof prefix, "%s: ", what->name);
    if (str_starts(message, str_from(prefix))) /* it names itself */
        message = str_slice(message, strlen(prefix), message.n);
    return command_misused(name, "%.*s", STR_FMT(message));
}

static int print_reference(void)
{
    _cleanup_(buf_done) struct buf page = BUF_INIT;
    struct err e = {0};

    answer_reference(&page);
    return command_end("query", command_print(&page), &e);
}

static int query_run(int argc, char **argv)
{
    char names[PARAMS_MAX][OPTION_NAME_MAX];
    struct arg args[ARRAY_SIZE(own_args) + PARAMS_MAX + 1];
    struct query_options o = {0};
    const struct question *what;
    const char *option;
    struct err e = {0};
    int n, r;

    build_args(args, names);
    r = args_parse(args, &o, argc - 1, argv + 1, &n, &e);
    if (o.help) {
        what = n ? question_find(str_from(argv[1])) : NULL;
        if (what)
            question_help(what, args);
        else
            query_help(stdout, args);
        return EXIT_DONE;
    }
    if (r < 0)
        return command_misused("query", "%s", e.message);
    if (o.reference)
        return print_reference();
    if (n < 1)
        return command_misused("query", "WHAT is required; wick query --help lists the queries");
    what = question_find(str_from(argv[1]));
    if (!what && nearest_question(argv[1]))
        return command_misused("query", "unknown query '%s'; did you mean '%s'?", argv[1], nearest_question(argv[1]));
    if (!what)
        return command_misused("query", "unknown query '%s'; wick query --help lists all", argv[1]);
    if (o.html && strcmp(what->name, "verdict") != 0)
        return command_misused("query", "--html is an option of verdict");
    if (o.json && is_text(&o))
        return command_misused("query", "--json and --format text exclude each other");
    if (n > 2)
        return command_misused("query", "unexpected argument '%s': only one selector is allowed", argv[3]);
    if (n == 2 && !argv[2][0])
        return command_misused("query", "the selector is empty; 'cpu' or 'cpu{service.name=\"shop\"}' is one");
    if (n == 2)
        o.params[0] = argv[2]; /* answer_params[0] is the selector */
    option = option_not_taken(what, &o, args);
    if (option)
        return command_misused("query", "--%s is not an option of '%s'; wick query %s --help lists them", option,
                               what->name, what->name);
    r = query_ask(what, &o, &e);
    if (r == -EINVAL)
        return question_misused(what, &e);
    return r > 0 ? EXIT_NO_DATA : command_end("query", r, &e);
}

const struct command command_query = {"query", "query a server or a store: flame, top, callers, series, leaks, …",
                                      query_run};
