/* SPDX-License-Identifier: Apache-2.0 */
/* Parses command-line options by a table, and prints their help (args.h). */
#include "conf/args.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

static int set_value(const struct arg *a, void *options, const char *text, struct err *e)
{
    void *p = (char *) options + a->offset;
    struct str s = str_from(text);
    int r = 0;

    switch (a->kind) {
    case ARG_FLAG:
        break;
    case ARG_STRING:
        *(const char **) p = text;
        break;
    case ARG_LIST: {
        struct arg_list *l = p;

        if (l->n == ARG_LIST_MAX)
            return err_set(e, -E2BIG, "--%s is given more than %d times", a->name, ARG_LIST_MAX);
        l->v[l->n++] = text;
        break;
    }
    case ARG_INT:
        r = str_to_i64(s, 0, p);
        break;
    case ARG_DOUBLE:
        r = str_to_double(s, p);
        break;
    case ARG_DURATION:
        r = clock_parse_duration(s, p, e);
        return r < 0 ? err_prefix(e, r, "--%s: ", a->name) : 0;
    case ARG_SIZE:
        r = str_to_size(s, p);
        break;
    }
    if (r < 0)
        return err_set(e, r, "--%s: '%s' is not a valid %s", a->name, text, a->value ? a->value : "value");
    return 0;
}

static const struct arg *find_long(const struct arg *table, struct str name, bool *ret_no)
{
    *ret_no = false;
    for (const struct arg *a = table; a->name; a++)
        if (str_is(name, a->name))
            return a;
    if (!str_starts(name, STR("no-")))
        return NULL;
    *ret_no = true;
    for (const struct arg *a = table; a->name; a++)
        if (a->kind == ARG_FLAG && str_is(str_slice(name, 3, name.n), a->name))
            return a;
    return NULL;
}

static int unknown(const struct arg *table, struct str name, struct err *e)
{
    struct str_guess guess = {name, NULL, 0};

    for (const struct arg *a = table; a->name; a++)
        str_guess_offer(&guess, a->name);
    if (guess.best)
        return err_set(e, -EINVAL, "unknown option --%.*s; did you mean --%s?", STR_FMT(name), guess.best);
    return err_set(e, -EINVAL, "unknown option --%.*s; --help lists all options", STR_FMT(name));
}

/* One "--name[=value]"; *i is advanced if the value is the next argument. */
static int parse_long(const struct arg *table, void *options, int argc, char **argv, int *i, struct err *e)
{
    struct str text = str_from(argv[*i] + 2), name = str_cut(&text, '=');
    bool no, has_value = text.p != NULL;
    const struct arg *a = find_long(table, name, &no);

    if (!a)
        return unknown(table, name, e);
    if (a->kind == ARG_FLAG) {
        if (has_value)
            return err_set(e, -EINVAL, "--%s takes no value", a->name);
        *(bool *) ((char *) options + a->offset) = !no;
        return 0;
    }
    if (!has_value && *i + 1 >= argc)
        return err_set(e, -EINVAL, "--%s requires a value (%s)", a->name, a->value);
    return set_value(a, options, has_value ? text.p : argv[++*i], e);
}

/* One "-xyz" or "-nVALUE". */
static int parse_short(const struct arg *table, void *options, int argc, char **argv, int *i, struct err *e)
{
    for (const char *c = argv[*i] + 1; *c; c++) {
        const struct arg *a = table;

        while (a->name && a->letter != *c)
            a++;
        if (!a->name)
            return err_set(e, -EINVAL, "unknown option -%c; --help lists all options", *c);
        if (a->kind == ARG_FLAG) {
            *(bool *) ((char *) options + a->offset) = true;
            continue;
        }
        if (c[1])
            return set_value(a, options, c + 1, e);
        if (*i + 1 >= argc)
            return err_set(e, -EINVAL, "-%c requires a value (%s)", *c, a->value);
        return set_value(a, options, argv[++*i], e);
    }
    return 0;
}

/* Returns the number of arguments that are not options. */
static int parse(const struct arg *table, void *options, int argc, char **argv, bool stop_at_word, struct err *e)
{
    int words = 0, i, r;

    for (i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (argv[i][0] != '-' || !argv[i][1]) {
            if (stop_at_word)
                break;
            argv[words++] = argv[i];
            continue;
        }
        r = argv[i][1] == '-' ? parse_long(table, options, argc, argv, &i, e)
                              : parse_short(table, options, argc, argv, &i, e);
        if (r < 0)
            return r;
    }
    while (i < argc)
        argv[words++] = argv[i++];
    return words;
}

int args_parse(const struct arg *table, void *options, int argc, char **argv, int *ret_n, struct err *e)
{
    int n = parse(table, options, argc, argv, false, e);

    *ret_n = MAX(n, 0);
    return MIN(n, 0);
}

int args_parse_leading(const struct arg *table, void *options, int argc, char **argv, int *ret_n, struct err *e)
{
    int n = parse(table, options, argc, argv, true, e);

    *ret_n = MAX(n, 0);
    return MIN(n, 0);
}

void args_help(const struct arg *table, FILE *out)
{
    for (const struct arg *a = table; a->name; a++) {
        char left[64];

        snprintf(left, sizeof left, "%c%c%s --%s%s%s", a->letter ? '-' : ' ', a->letter ? a->letter : ' ',
                 a->letter ? "," : " ", a->name, a->value ? " " : "", a->value ? a->value : "");
        fprintf(out, "  %-28s %s\n", left, a->help);
    }
}
