/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of the interactive shell (pprof_shell.h). Lines are read in pprof_lines.c and interpreted here. */
#include "pprof/pprof_shell.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "pprof/pprof_lines.h"
#include "pprof/pprof_output.h"
#include "pprof/pprof_source.h"
#include "report/report_driver.h"

enum { TOKENS_MAX = 256, EXPANSION_MAX = 8 };

struct shell {
    struct prof *p;
    struct pprof_config config;
    struct arena arena;
};

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    char small[1024];
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(small, sizeof(small), fmt, args);
    va_end(args);
    if (n >= (int) sizeof(small)) {
        char *room = buf_reserve(&text, (size_t) n + 1);

        va_start(args, fmt);
        if (room)
            vsnprintf(room, (size_t) n + 1, fmt, args);
        va_end(args);
        pprof_say(NULL, room ? room : small);
        return;
    }
    pprof_say(NULL, small);
}

/* --- options --- */

static void type_list(const struct prof *p, struct buf *out, const char *between)
{
    for (uint32_t i = 0; i < p->n_types; i++)
        buf_printf(out, "%s%.*s", i ? between : "", STR_FMT(prof_str(p, p->types[i].type)));
}

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

static void choice_list(const struct config_field *f, struct buf *out)
{
    const char *sorted[CONFIG_CHOICES_MAX];
    size_t n = 0;

    for (; f->choices[n]; n++)
        sorted[n] = f->choices[n];
    qsort(sorted, n, sizeof(*sorted), compare_words);
    for (size_t i = 0; i < n; i++)
        buf_printf(out, "%s%s", i ? " | " : "", sorted[i]);
}

static void option_line(const struct shell *s, const struct config_field *f, struct buf *out)
{
    _cleanup_(buf_done) struct buf value = BUF_INIT, comment = BUF_INIT;

    config_get(&s->config, f, &value);
    if (f->choices[0]) {
        buf_puts(&comment, "//: [");
        choice_list(f, &comment);
        buf_putc(&comment, ']');
    } else if (strcmp(f->name, "sample_index") == 0) {
        if (!value.n)
            buf_put_str(&value, prof_str(s->p, s->p->types[s->p->n_types - 1].type));
        buf_puts(&comment, "//: [");
        type_list(s->p, &comment, " | ");
        buf_putc(&comment, ']');
    } else if (strcmp(f->name, "nodecount") == 0 && str_is(buf_str(&value), "-1")) {
        buf_puts(&comment, "//: default");
    } else if (!value.n) {
        buf_puts(&value, "\"\"");
    }
    if (strcmp(f->name, "granularity") == 0 && !value.n)
        buf_puts(&value, "(default)");
    buf_printf(out, "  %-25s = %-20.*s %.*s", f->name, STR_FMT(buf_str(&value)), STR_FMT(buf_str(&comment)));
}

static void print_options(const struct shell *s)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    size_t n, used = 0;
    const struct config_field *all = config_fields(&n);
    const char *names[64];

    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].name, "source_path") != 0)
            names[used++] = all[i].name;
    qsort(names, used, sizeof(*names), compare_words);
    for (size_t i = 0; i < used; i++) {
        option_line(s, config_find(str_from(names[i])), &out);
        buf_putc(&out, '\n');
    }
    if (buf_cstr(&out))
        pprof_say(NULL, out.p);
}

/* --- help --- */

static void print_help(const struct shell *s, struct str what)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    const struct pprof_command *c = pprof_command_find(what);
    const char *help = config_help(what);

    if (!what.n) {
        pprof_usage(false, &out);
        buf_puts(&out, "\n  :   Clear focus/ignore/hide/tagfocus/tagignore\n\n"
                       "  type \"help <cmd|option>\" for more information\n");
    } else if (c) {
        pprof_command_help(c, &out);
    } else if (help) {
        buf_puts(&out, help);
        if (str_is(what, "sample_index")) {
            buf_puts(&out, "Or use sample_index=name, with name in [");
            type_list(s->p, &out, " ");
            buf_puts(&out, "].\n");
        }
        buf_putc(&out, '\n');
    } else {
        buf_printf(&out, "Unknown command: %.*s", STR_FMT(what));
    }
    if (buf_cstr(&out))
        pprof_say(NULL, out.p);
}

/* --- assignments --- */

/* True if the line was an assignment (even an invalid one). */
static bool assign(struct shell *s, struct str line)
{
    ptrdiff_t eq = str_find_char(line, '=');
    struct str name = str_trim(eq < 0 ? line : str_slice(line, 0, (size_t) eq)), value = {0};
    struct err e = {0};
    int r;

    if (!config_find(name))
        return false;
    if (eq < 0 && !config_is_bool(name)) {
        say("please specify a value, e.g. %.*s=<val>", STR_FMT(name));
        return true;
    }
    if (eq >= 0) {
        value = str_slice(line, (size_t) eq + 1, line.n);
        for (size_t i = value.n; i-- > 0;) /* the text after the last "//:" is a comment */
            if (str_starts(str_slice(value, i, value.n), STR("//:"))) {
                value = str_slice(value, 0, i);
                break;
            }
        value = str_trim(value);
    }
    if (str_is(name, "sample_index")) {
        r = prof_type_index(s->p, value, &e);
        if (r < 0) {
            say("%s", err_message(&e, r));
            return true;
        }
        value = prof_str(s->p, s->p->types[r].type);
    }
    r = config_set(&s->config, name, value, &s->arena, &e);
    if (r < 0)
        say("%s", err_message(&e, r));
    return true;
}

/* --- commands --- */

static void add_expression(struct shell *s, struct str *to, struct str more)
{
    char *both;

    if (!to->n || !more.n) {
        if (!to->n)
            *to = arena_str(&s->arena, more);
        return;
    }
    both = arena_printf(&s->arena, "%.*s|%.*s", STR_FMT(*to), STR_FMT(more));
    if (both)
        *to = str_from(both);
}

static int parse_words(struct shell *s, const struct pprof_command *c, const struct str *words, size_t n,
                       struct pprof_config *cfg, struct err *e)
{
    struct str focus = {0}, ignore = {0};
    bool tags = strcmp(c->name, "tags") == 0;

    for (size_t i = 0; i < n; i++) {
        struct str t = words[i];
        int64_t number;

        if (str_to_i64(t, 10, &number) == 0 && number == (int32_t) number) {
            cfg->nodecount = number;
        } else if (t.p[0] == '>') {
            cfg->output = arena_str(&s->arena, str_slice(t, 1, t.n));
            if (!cfg->output.n) {
                if (++i >= n)
                    return err_set(e, -EINVAL, "unexpected end of line after >");
                cfg->output = arena_str(&s->arena, words[i]);
            }
        } else if (str_is(t, "-cum") || str_is(t, "--cum")) {
            cfg->sort = STR("cum");
        } else if (t.p[0] == '-') {
            add_expression(s, &ignore, str_slice(t, 1, t.n));
        } else {
            add_expression(s, &focus, t);
        }
    }
    if (focus.n)
        *(tags ? &cfg->tagfocus : &cfg->focus) = focus;
    if (ignore.n)
        *(tags ? &cfg->tagignore : &cfg->ignore) = ignore;
    return 0;
}

/* "top10" is "top 10". */
static const struct pprof_command *split_digits(struct str *name, struct str *ret_digits)
{
    size_t n = name->n;
    const struct pprof_command *c;

    while (n && name->p[n - 1] >= '0' && name->p[n - 1] <= '9')
        n--;
    if (!n || n == name->n)
        return NULL;
    c = pprof_command_find(str_slice(*name, 0, n));
    *ret_digits = str_slice(*name, n, name->n);
    *name = str_slice(*name, 0, n);
    return c;
}

static int run_command(struct shell *s, struct str *words, size_t n, struct err *e)
{
    _cleanup_(prof_freep) struct prof *copy = NULL;
    struct str name = words[0], argument = {0}, *args = words + 1;
    const struct pprof_command *c = pprof_command_find(name);
    struct pprof_config cfg = s->config;
    size_t n_args = n - 1;
    int r;

    if (!c) {
        struct str digits;

        c = split_digits(&name, &digits);
        if (c) {
            words[0] = digits;
            args = words;
            n_args = n;
        }
    }
    if (!c && config_help(name))
        return err_set(e, -EINVAL, "did you mean: %.*s=%.*s", STR_FMT(name), STR_FMT(n_args ? args[0] : STR("<val>")));
    if (!c)
        return err_set(e, -EINVAL, "unrecognized command: \"%.*s\"", STR_FMT(name));
    if (c->has_argument) {
        if (!n_args)
            return err_set(e, -EINVAL, "command %s requires an argument", c->name);
        argument = *args++;
        n_args--;
    }
    r = parse_words(s, c, args, n_args, &cfg, e);
    if (r < 0)
        return r;
    if (cfg.nodecount == -1 && c->format == REPORT_TEXT)
        cfg.nodecount = 10;
    r = prof_copy(s->p, &copy);
    return r < 0 ? r : pprof_report(copy, c, argument, &cfg, true, e);
}

static size_t fields(struct str line, struct str *ret)
{
    size_t n = 0, i = 0;

    while (i < line.n && n < TOKENS_MAX) {
        size_t start;

        while (i < line.n && strchr(" \t\r\n\v\f", line.p[i]))
            i++;
        for (start = i; i < line.n && !strchr(" \t\r\n\v\f", line.p[i]);)
            i++;
        if (i > start)
            ret[n++] = str_slice(line, start, i);
    }
    return n;
}

/* Runs one command. Returns false if the shell should end. */
static bool run_line(struct shell *s, struct str line)
{
    struct str words[TOKENS_MAX + 1];
    struct err e = {0};
    size_t n;
    int r;

    if (assign(s, line))
        return true;
    n = fields(line, words);
    if (!n)
        return true;
    if (str_is(words[0], "o") || str_is(words[0], "options")) {
        print_options(s);
        return true;
    }
    if (str_is(words[0], "exit") || str_is(words[0], "quit") || str_is(words[0], "q"))
        return false;
    if (str_is(words[0], "help")) {
        _cleanup_(buf_done) struct buf what = BUF_INIT;

        for (size_t i = 1; i < n; i++)
            buf_printf(&what, "%s%.*s", i > 1 ? " " : "", STR_FMT(words[i]));
        print_help(s, buf_str(&what));
        return true;
    }
    r = run_command(s, words, n, &e);
    if (r < 0)
        say("%s", err_message(&e, r));
    return true;
}

/* ":" and the names of sample types are short forms of assignments. */
static bool run_expanded(struct shell *s, struct str line)
{
    static const char *const clear[] = {"focus=", "ignore=", "hide=", "tagfocus=", "tagignore="};

    line = str_trim(line);
    if (str_is(line, ":")) {
        for (size_t i = 0; i < ARRAY_SIZE(clear); i++)
            run_line(s, str_from(clear[i]));
        return true;
    }
    for (uint32_t i = 0; i < s->p->n_types; i++) {
        struct str type = prof_str(s->p, s->p->types[i].type);
        bool total = str_starts(line, STR("total_")), mean = str_starts(line, STR("mean_"));
        struct str rest = str_slice(line, total ? 6 : mean ? 5 : 0, line.n);
        char *set;

        if (!str_eq(line, type) && !((total || mean) && str_eq(rest, type)))
            continue;
        if (!str_eq(line, type))
            run_line(s, mean ? STR("mean=1") : STR("mean=0"));
        set = arena_printf(&s->arena, "sample_index=%.*s", STR_FMT(type));
        return set ? run_line(s, str_from(set)) : true;
    }
    return run_line(s, line);
}

static void greet(struct shell *s)
{
    _cleanup_(buf_done) struct buf labels = BUF_INIT;
    int64_t total = 0;

    if (report_greeting(s->p, &s->config, &labels, &total, pprof_say, NULL) >= 0 && buf_cstr(&labels)) {
        pprof_say(NULL, labels.p);
        if (!total && s->p->n_types > 1) {
            say("No samples were found with the default sample value type.");
            say("Try \"sample_index\" command to analyze different sample values.\n");
        }
    }
    say("Entering interactive mode (type \"help\" for commands, \"o\" for options)");
}

int pprof_shell(struct prof *p, const struct pprof_config *config, struct err *e)
{
    struct shell s = {.p = p, .config = *config};
    struct lines *lines = NULL;
    struct str line;
    int r = lines_new(p, &lines);

    if (r < 0)
        return err_set(e, r, "cannot read commands: %m");
    arena_init(&s.arena, 0);
    s.config.compact_labels = true;
    greet(&s);
    while (lines_next(lines, &line) && run_expanded(&s, line))
        ;
    lines_free(lines);
    arena_done(&s.arena);
    return 0;
}
