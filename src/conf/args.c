/* SPDX-License-Identifier: Apache-2.0 */
/* Parses command-line options by a table, and prints their help (args.h). */
#include "conf/args.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

/* What the option takes, if its value is written "this|that". */
static bool has_words(const struct arg *a)
{
    return a->value && strchr(a->value, '|');
}

/* "this, that or other". */
static int not_a_word(const struct arg *a, const char *text, struct err *e)
{
    struct str rest = str_from(a->value);
    char list[256] = "";
    size_t n = 0;

    while (rest.n && n < sizeof list) {
        struct str word = str_cut(&rest, '|');

        n += (size_t) snprintf(list + n, sizeof list - n, "%s%.*s", !n ? "" : rest.n ? ", " : " or ", STR_FMT(word));
    }
    return err_set(e, -EINVAL, "--%s: '%s' is not %s", a->name, text, list);
}

static int check_word(const struct arg *a, const char *text, struct err *e)
{
    struct str rest = str_from(a->value);

    while (rest.n)
        if (str_is(str_cut(&rest, '|'), text))
            return 0;
    return not_a_word(a, text, e);
}

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
        return has_words(a) ? check_word(a, text, e) : 0;
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
    case ARG_TIME: {
        int64_t unused;

        *(const char **) p = text;
        r = clock_parse(s, clock_wall(), &unused, e);
        return r < 0 ? err_prefix(e, r, "--%s: ", a->name) : 0;
    }
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

/* --- help --- */

enum { HELP_WIDTH = 80, HELP_COLUMN = 31, WORDS_MAX = 48 };

/* Columns that UTF-8 text takes on a terminal; help has no wide characters. */
static size_t columns_of(struct str s)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++)
        n += ((unsigned char) s.p[i] & 0xc0) != 0x80;
    return n;
}

/* Prints the words of text; lines after the first are indented. column: where the first one begins. */
static void fill(struct str text, size_t column, size_t indent, FILE *out)
{
    size_t at = column;

    while (text.n) {
        struct str word = str_cut(&text, ' ');
        size_t n = columns_of(word);

        if (at > column && at + 1 + n > HELP_WIDTH) {
            fprintf(out, "\n%*s", (int) indent, "");
            at = column = indent;
        } else if (at > column) {
            fputc(' ', out);
            at++;
        }
        fprintf(out, "%.*s", STR_FMT(word));
        at += n;
    }
    fputc('\n', out);
}

/* Where the second column of a line of a list begins, after two spaces or more: there its further lines go on. */
static size_t hanging(struct str line)
{
    size_t i = 0, gap;

    while (i < line.n && line.p[i] == ' ')
        i++;
    for (gap = i; gap + 1 < line.n; gap++)
        if (line.p[gap] == ' ' && line.p[gap + 1] == ' ') {
            while (gap < line.n && line.p[gap] == ' ')
                gap++;
            return gap;
        }
    return i;
}

void args_text(const char *text, FILE *out)
{
    struct str rest = str_from(text);

    while (rest.n) {
        struct str line = str_cut(&rest, '\n');
        size_t at = hanging(line);

        fprintf(out, "%.*s", (int) at, line.p);
        fill(str_slice(line, at, line.n), columns_of(str_slice(line, 0, at)), at, out);
    }
}

/* "one of: this, that" after the help of an option with more words than fit beside its name. */
static void put_words(char *to, size_t size, const char *words)
{
    struct str rest = str_from(words);
    size_t n = strlen(to);

    for (const char *sep = "; one of: "; rest.n && n < size; sep = ", ") {
        struct str word = str_cut(&rest, '|');

        n += (size_t) snprintf(to + n, size - n, "%s%.*s", sep, STR_FMT(word));
    }
}

void args_help(const struct arg *table, FILE *out)
{
    for (const struct arg *a = table; a->name; a++) {
        bool listed = has_words(a) && strlen(a->value) > WORDS_MAX;
        const char *value = listed ? "WORD" : a->value;
        char left[128], text[1024];

        snprintf(left, sizeof left, "  %c%c%c --%s %s", a->letter ? '-' : ' ', a->letter ? a->letter : ' ',
                 a->letter ? ',' : ' ', a->name, value ? value : "");
        snprintf(text, sizeof text, "%s", a->help);
        if (listed)
            put_words(text, sizeof text, a->value);
        if (strlen(left) > HELP_COLUMN - 2)
            fprintf(out, "%s\n%*s", left, HELP_COLUMN, "");
        else
            fprintf(out, "%-*s", HELP_COLUMN, left);
        fill(str_from(text), HELP_COLUMN, HELP_COLUMN, out);
    }
}
