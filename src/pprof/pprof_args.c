/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the command line of `wick pprof` (pprof_args.h). */
#include "pprof/pprof_args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Flags that are not options of the configuration; options and commands are flags too. */
enum flag_kind { FLAG_STRING, FLAG_INT, FLAG_BOOL, FLAG_BASE, FLAG_DIFF_BASE, FLAG_LEGACY };

#define OWN(n, k)                                   \
    {                                               \
#n, k, offsetof(struct pprof_args, n), NULL \
    }

static const struct own_flag {
    const char *name;
    enum flag_kind kind;
    size_t offset;
    const char *type; /* FLAG_LEGACY: the sample type it stands for */
} own_flags[] = {
    OWN(seconds, FLAG_INT),
    OWN(timeout, FLAG_INT),
    OWN(symbolize, FLAG_STRING),
    {"buildid", FLAG_STRING, offsetof(struct pprof_args, build_id), NULL},
    {"add_comment", FLAG_STRING, offsetof(struct pprof_args, comment), NULL},
    OWN(all_frames, FLAG_BOOL),
    OWN(tools, FLAG_STRING),
    OWN(http, FLAG_STRING),
    OWN(no_browser, FLAG_BOOL),
    OWN(tls_cert, FLAG_STRING),
    OWN(tls_key, FLAG_STRING),
    OWN(tls_ca, FLAG_STRING),
    {"base", FLAG_BASE, 0, NULL},
    {"diff_base", FLAG_DIFF_BASE, 0, NULL},
    {"total_delay", FLAG_LEGACY, 0, "delay"},
    {"mean_delay", FLAG_LEGACY, 1, "delay"},
    {"contentions", FLAG_LEGACY, 2, "contentions"},
    {"inuse_space", FLAG_LEGACY, 3, "inuse_space"},
    {"inuse_objects", FLAG_LEGACY, 4, "inuse_objects"},
    {"alloc_space", FLAG_LEGACY, 5, "alloc_space"},
    {"alloc_objects", FLAG_LEGACY, 6, "alloc_objects"},
};

enum { LEGACY_FLAGS = 7, LEGACY_FIRST = 14, FORMATS_MAX = 64, CHOICES_MAX = 16 };

struct args_parse {
    struct pprof_args *a;
    bool legacy[LEGACY_FLAGS];
    bool base, diff;
    const struct pprof_command *formats[FORMATS_MAX]; /* requested, in order */
    struct str arguments[FORMATS_MAX];
    size_t n_formats;
    struct str choices[CHOICES_MAX];
    size_t n_choices;
    struct err *e;
};

static const struct own_flag *find_own(struct str name)
{
    for (size_t i = 0; i < ARRAY_SIZE(own_flags); i++)
        if (str_is(name, own_flags[i].name))
            return &own_flags[i];
    return NULL;
}

/* Go's strconv.ParseBool. */
static int parse_bool(struct str s, bool *ret)
{
    static const char *const yes[] = {"1", "t", "T", "TRUE", "true", "True"};
    static const char *const no[] = {"0", "f", "F", "FALSE", "false", "False"};

    for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
        if (str_is(s, yes[i]) || str_is(s, no[i])) {
            *ret = str_is(s, yes[i]);
            return 0;
        }
    }
    return -EINVAL;
}

static int parse_int(struct str s, int64_t *ret)
{
    if (s.n && s.p[0] == '+')
        s = str_slice(s, 1, s.n);
    return str_to_i64(s, 0, ret);
}

static int bad_value(struct args_parse *p, struct str name, struct str value)
{
    return err_set(p->e, -EINVAL, "invalid value \"%.*s\" for flag -%.*s: parse error", STR_FMT(value), STR_FMT(name));
}

/* A boolean flag or one of a group, with its value v. */
static int set_bool(struct args_parse *p, struct str name, bool v)
{
    const struct own_flag *own = find_own(name);
    const struct config_field *f = config_find(name);
    const struct pprof_command *c = pprof_command_find(name);

    if (own && own->kind == FLAG_LEGACY) {
        p->legacy[own->offset] = v;
    } else if (own) {
        *(bool *) ((char *) p->a + own->offset) = v;
    } else if (f && !str_is(name, f->name)) {
        if (v && p->n_choices < CHOICES_MAX)
            p->choices[p->n_choices++] = name;
    } else if (f) {
        *(bool *) ((char *) &p->a->config + f->offset) = v;
    } else if (v && c && p->n_formats < FORMATS_MAX) {
        p->formats[p->n_formats++] = c;
    }
    return 0;
}

static int set_value(struct args_parse *p, struct str name, struct str value)
{
    const struct own_flag *own = find_own(name);
    const struct config_field *f = config_find(name);
    const struct pprof_command *c = pprof_command_find(name);
    struct pprof_args *a = p->a;

    if (own && own->kind == FLAG_INT)
        return parse_int(value, (int64_t *) ((char *) a + own->offset)) < 0 ? bad_value(p, name, value) : 0;
    if (own && own->kind == FLAG_STRING) {
        *(struct str *) ((char *) a + own->offset) = value;
        return 0;
    }
    if (own) { /* -base, -diff_base */
        if (!value.n)
            return 0;
        *(own->kind == FLAG_BASE ? &p->base : &p->diff) = true;
        if (a->n_bases == PPROF_BASES_MAX)
            return err_set(p->e, -E2BIG, "more than %d base profiles", PPROF_BASES_MAX);
        a->bases[a->n_bases++] = value.p;
        return 0;
    }
    if (f && f->kind == CONFIG_INT)
        return parse_int(value, (int64_t *) ((char *) &a->config + f->offset)) < 0 ? bad_value(p, name, value) : 0;
    if (f && f->kind == CONFIG_FLOAT)
        return str_to_double(value, (double *) ((char *) &a->config + f->offset)) < 0 ? bad_value(p, name, value) : 0;
    if (f) {
        *(struct str *) ((char *) &a->config + f->offset) = value;
    } else if (value.n && p->n_formats < FORMATS_MAX) {
        p->arguments[p->n_formats] = value;
        p->formats[p->n_formats++] = c;
    }
    return 0;
}

static bool is_bool_flag(struct str name)
{
    const struct own_flag *own = find_own(name);
    const struct pprof_command *c = pprof_command_find(name);

    if (own)
        return own->kind == FLAG_BOOL || own->kind == FLAG_LEGACY;
    return config_find(name) ? config_is_bool(name) : c && !c->has_argument;
}

static bool is_flag(struct str name)
{
    const struct config_field *f = config_find(name);

    /* The groups themselves ("sort", "granularity") are not flags, but their choices are. */
    if (f && f->choices[0] && str_is(name, f->name))
        return false;
    return find_own(name) || f || pprof_command_find(name);
}

/* Parses one flag; *i is advanced if it takes the next argument. */
static int parse_flag(struct args_parse *p, int argc, char **argv, int *i, bool *ret_usage)
{
    struct str word = str_from(argv[*i]), name = str_slice(word, word.n > 1 && word.p[1] == '-' ? 2 : 1, word.n), value;
    ptrdiff_t eq = str_find_char(name, '=');
    bool has_value = eq > 0, v;

    *ret_usage = true;
    if (!name.n || name.p[0] == '-' || name.p[0] == '=')
        return err_set(p->e, -EINVAL, "bad flag syntax: %s", argv[*i]);
    value = has_value ? str_slice(name, (size_t) eq + 1, name.n) : (struct str){0};
    name = has_value ? str_slice(name, 0, (size_t) eq) : name;
    if (!is_flag(name)) {
        if (str_is(name, "h") || str_is(name, "help")) {
            p->a->help = true;
            return 0;
        }
        return err_set(p->e, -EINVAL, "flag provided but not defined: -%.*s", STR_FMT(name));
    }
    if (is_bool_flag(name)) {
        v = true;
        if (has_value && parse_bool(value, &v) < 0)
            return err_set(p->e, -EINVAL, "invalid boolean value \"%.*s\" for -%.*s: parse error", STR_FMT(value),
                           STR_FMT(name));
        return set_bool(p, name, v);
    }
    if (!has_value) {
        if (*i + 1 >= argc)
            return err_set(p->e, -EINVAL, "flag needs an argument: -%.*s", STR_FMT(name));
        value = str_from(argv[++*i]);
    }
    return set_value(p, name, value);
}

/* At most one choice of a group may be set; it becomes the value of the group. */
static int apply_choices(struct args_parse *p)
{
    for (size_t i = 0; i < p->n_choices; i++) {
        const struct config_field *f = config_find(p->choices[i]);

        for (size_t k = 0; k < i; k++)
            if (config_find(p->choices[k]) == f && !str_eq(p->choices[k], p->choices[i]))
                return err_set(p->e, -EINVAL, "conflicting options set: [%.*s %.*s]", STR_FMT(p->choices[k]),
                               STR_FMT(p->choices[i]));
        *(struct str *) ((char *) &p->a->config + f->offset) = p->choices[i];
    }
    return 0;
}

static int apply_format(struct args_parse *p)
{
    struct pprof_args *a = p->a;

    for (size_t i = 0; i < p->n_formats; i++) {
        if (a->command && a->command != p->formats[i])
            return err_set(p->e, -EINVAL, "must set at most one output format");
        a->command = p->formats[i];
        a->argument = p->arguments[i];
    }
    if (a->command && a->http.n)
        return err_set(p->e, -EINVAL, "-http is not compatible with an output format on the command line");
    if (a->no_browser && !a->http.n)
        return err_set(p->e, -EINVAL, "-no_browser only makes sense with -http");
    return 0;
}

static void apply_legacy(struct args_parse *p)
{
    for (size_t i = 0; i < LEGACY_FLAGS; i++) {
        const struct own_flag *f = &own_flags[LEGACY_FIRST + i];

        if (!p->legacy[f->offset])
            continue;
        if (p->a->config.sample_index.n)
            fprintf(stderr, "Multiple value selections, ignoring -%s\n", f->name);
        else
            p->a->config.sample_index = str_from(f->type);
        if (f->offset == 1)
            p->a->config.mean = true;
    }
}

int pprof_args_parse(struct pprof_args *a, int argc, char **argv, bool *ret_usage, struct err *e)
{
    struct args_parse p = {.a = a, .e = e};
    const char *tools = getenv("PPROF_TOOLS");
    int i = 1, r = 0;

    *a = (struct pprof_args){.seconds = -1, .timeout = -1, .tools = str_from(tools)};
    arena_init(&a->arena, 0);
    config_defaults(&a->config);
    for (; r >= 0 && i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        if (str_is(str_from(argv[i]), "--")) {
            i++;
            break;
        }
        r = parse_flag(&p, argc, argv, &i, ret_usage);
        if (a->help)
            return 0;
    }
    if (r < 0)
        return r;
    a->sources = argv + i;
    a->n_sources = argc - i;
    *ret_usage = !a->n_sources;
    if (!a->n_sources)
        return err_set(e, -EINVAL, "no profile source specified");
    r = apply_choices(&p);
    if (r >= 0)
        r = apply_format(&p);
    if (r < 0)
        return r;
    apply_legacy(&p);
    if (p.base && p.diff)
        return err_set(e, -EINVAL, "-base and -diff_base flags cannot both be specified");
    a->diff_base = p.diff;
    if (a->config.normalize && !a->n_bases)
        return err_set(e, -EINVAL, "must have base profile to normalize by");
    return 0;
}

void pprof_args_done(struct pprof_args *a)
{
    arena_done(&a->arena);
}
