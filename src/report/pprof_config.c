/* SPDX-License-Identifier: Apache-2.0 */
/* The table of pprof's options, and reading and printing their values. The help texts are those that pprof's shell
 * prints. */
#include "report/pprof_config.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define FIELD(n, k, h)                                      \
    {                                                       \
#n, k, offsetof(struct pprof_config, n), {NULL }, h \
    }

static const struct config_field fields[] = {
    FIELD(output, CONFIG_STRING, "Output filename for file-based outputs\n"),
    FIELD(call_tree, CONFIG_BOOL,
          "Create a context-sensitive call tree\n"
          "Treat locations reached through different paths as separate.\n"),
    FIELD(relative_percentages, CONFIG_BOOL,
          "Show percentages relative to focused subgraph\n"
          "If unset, percentages are relative to full graph before focusing\n"
          "to facilitate comparison with original graph.\n"),
    FIELD(unit, CONFIG_STRING,
          "Measurement units to display\n"
          "Scale the sample values to this unit.\n"
          "For time-based profiles, use seconds, milliseconds, nanoseconds, etc.\n"
          "For memory profiles, use megabytes, kilobytes, bytes, etc.\n"
          "Using auto will scale each value independently to the most natural unit.\n"),
    FIELD(compact_labels, CONFIG_BOOL, "Show minimal headers"),
    FIELD(source_path, CONFIG_STRING, "Search path for source files"),
    FIELD(trim_path, CONFIG_STRING, "Path to trim from source paths before search"),
    FIELD(intel_syntax, CONFIG_BOOL,
          "Show assembly in Intel syntax\n"
          "Only applicable to commands `disasm` and `weblist`\n"),
    FIELD(mean, CONFIG_BOOL,
          "Average sample value over first value (count)\n"
          "For memory profiles, report average memory per allocation.\n"
          "For time-based profiles, report average time per event.\n"),
    FIELD(sample_index, CONFIG_STRING,
          "Sample value to report (0-based index or name)\n"
          "Profiles contain multiple values per sample.\n"
          "Use sample_index=i to select the ith value (starting at 0).\n"),
    FIELD(divide_by, CONFIG_FLOAT,
          "Ratio to divide all samples before visualization\n"
          "Divide all samples values by a constant, eg the number of processors or jobs.\n"),
    FIELD(normalize, CONFIG_BOOL, "Scales profile based on the base profile.\n"),
    {"sort", CONFIG_STRING, offsetof(struct pprof_config, sort), {"cum", "flat"}, NULL},
    FIELD(tagroot, CONFIG_STRING,
          "Adds pseudo stack frames for labels key/value pairs at the callstack root.\n"
          "A comma-separated list of label keys.\n"
          "The first key creates frames at the new root.\n"),
    FIELD(tagleaf, CONFIG_STRING,
          "Adds pseudo stack frames for labels key/value pairs at the callstack leaf.\n"
          "A comma-separated list of label keys.\n"
          "The last key creates frames at the new leaf.\n"),
    FIELD(drop_negative, CONFIG_BOOL,
          "Ignore negative differences\n"
          "Do not show any locations with values <0.\n"),
    FIELD(nodecount, CONFIG_INT,
          "Max number of nodes to show\n"
          "Uses heuristics to limit the number of locations to be displayed.\n"
          "On graphs, dotted edges represent paths through nodes that have been removed.\n"),
    FIELD(nodefraction, CONFIG_FLOAT, "Hide nodes below <f>*total"),
    FIELD(edgefraction, CONFIG_FLOAT, "Hide edges below <f>*total"),
    FIELD(trim, CONFIG_BOOL,
          "Honor nodefraction/edgefraction/nodecount defaults\n"
          "Set to false to get the full profile, without any trimming.\n"),
    FIELD(focus, CONFIG_STRING,
          "Restricts to samples going through a node matching regexp\n"
          "Discard samples that do not include a node matching this regexp.\n"
          "Matching includes the function name, filename or object name.\n"),
    FIELD(ignore, CONFIG_STRING,
          "Skips paths going through any nodes matching regexp\n"
          "If set, discard samples that include a node matching this regexp.\n"
          "Matching includes the function name, filename or object name.\n"),
    FIELD(prune_from, CONFIG_STRING,
          "Drops any functions below the matched frame.\n"
          "If set, any frames matching the specified regexp and any frames\n"
          "below it will be dropped from each sample.\n"),
    FIELD(hide, CONFIG_STRING,
          "Skips nodes matching regexp\n"
          "Discard nodes that match this location.\n"
          "Other nodes from samples that include this location will be shown.\n"
          "Matching includes the function name, filename or object name.\n"),
    FIELD(show, CONFIG_STRING,
          "Only show nodes matching regexp\n"
          "If set, only show nodes that match this location.\n"
          "Matching includes the function name, filename or object name.\n"),
    FIELD(show_from, CONFIG_STRING,
          "Drops functions above the highest matched frame.\n"
          "If set, all frames above the highest match are dropped from every sample.\n"
          "Matching includes the function name, filename or object name.\n"),
    FIELD(tagfocus, CONFIG_STRING,
          "Restricts to samples with tags in range or matched by regexp\n"
          "Use name=value syntax to limit the matching to a specific tag.\n"
          "Numeric tag filter examples: 1kb, 1kb:10kb, memory=32mb:\n"
          "String tag filter examples: foo, foo.*bar, mytag=foo.*bar\n"),
    FIELD(tagignore, CONFIG_STRING,
          "Discard samples with tags in range or matched by regexp\n"
          "Use name=value syntax to limit the matching to a specific tag.\n"
          "Numeric tag filter examples: 1kb, 1kb:10kb, memory=32mb:\n"
          "String tag filter examples: foo, foo.*bar, mytag=foo.*bar\n"),
    FIELD(tagshow, CONFIG_STRING,
          "Only consider tags matching this regexp\n"
          "Discard tags that do not match this regexp\n"),
    FIELD(taghide, CONFIG_STRING,
          "Skip tags matching this regexp\n"
          "Discard tags that match this regexp\n"),
    FIELD(noinlines, CONFIG_BOOL,
          "Ignore inlines.\n"
          "Attributes inlined functions to their first out-of-line caller.\n"),
    FIELD(showcolumns, CONFIG_BOOL, "Show column numbers at the source code line level.\n"),
    {"granularity",
     CONFIG_STRING,
     offsetof(struct pprof_config, granularity),
     {"functions", "filefunctions", "files", "lines", "addresses"},
     NULL},
};

static const struct {
    const char *name, *help;
} choice_help[] = {
    {"flat", "Sort entries based on own weight\n"},
    {"cum", "Sort entries based on cumulative weight\n"},
    {"functions", "Aggregate at the function level.\n"
                  "Ignores the filename where the function was defined.\n"},
    {"filefunctions", "Aggregate at the function level.\n"
                      "Takes into account the filename where the function was defined.\n"},
    {"files", "Aggregate at the file level."},
    {"lines", "Aggregate at the source code line level."},
    {"addresses", "Aggregate at the address level.\n"
                  "Includes functions' addresses in the output.\n"},
};

static const struct {
    const char *name, *url;
} url_names[] = {
    {"drop_negative", "dropneg"},
    {"call_tree", "calltree"},
    {"relative_percentages", "rel"},
    {"unit", "unit"},
    {"compact_labels", "compact"},
    {"intel_syntax", "intel"},
    {"nodecount", "n"},
    {"nodefraction", "nf"},
    {"edgefraction", "ef"},
    {"trim", "trim"},
    {"focus", "f"},
    {"ignore", "i"},
    {"prune_from", "prunefrom"},
    {"hide", "h"},
    {"show", "s"},
    {"show_from", "sf"},
    {"tagfocus", "tf"},
    {"tagignore", "ti"},
    {"tagshow", "ts"},
    {"taghide", "th"},
    {"mean", "mean"},
    {"sample_index", "si"},
    {"normalize", "norm"},
    {"sort", "sort"},
    {"granularity", "g"},
    {"noinlines", "noinlines"},
    {"showcolumns", "showcolumns"},
};

const char *config_url_name(const struct config_field *f)
{
    for (size_t i = 0; i < ARRAY_SIZE(url_names); i++)
        if (strcmp(f->name, url_names[i].name) == 0)
            return url_names[i].url;
    return NULL;
}

const struct config_field *config_fields(size_t *ret_n)
{
    *ret_n = ARRAY_SIZE(fields);
    return fields;
}

const struct config_field *config_find(struct str name)
{
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
        if (str_is(name, fields[i].name))
            return &fields[i];
        for (size_t k = 0; fields[i].choices[k]; k++)
            if (str_is(name, fields[i].choices[k]))
                return &fields[i];
    }
    return NULL;
}

const char *config_help(struct str name)
{
    for (size_t i = 0; i < ARRAY_SIZE(choice_help); i++)
        if (str_is(name, choice_help[i].name))
            return choice_help[i].help;
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
        if (str_is(name, fields[i].name))
            return fields[i].help;
    return NULL;
}

bool config_is_bool(struct str name)
{
    const struct config_field *f = config_find(name);

    return f && (!str_is(name, f->name) || f->kind == CONFIG_BOOL);
}

void config_defaults(struct pprof_config *c)
{
    *c = (struct pprof_config){
        .unit = STR("minimum"),
        .nodecount = -1,
        .nodefraction = 0.005,
        .edgefraction = 0.001,
        .trim = true,
        .divide_by = 1,
        .sort = STR("flat"),
    };
}

void config_put_double(struct buf *out, double v)
{
    char text[40], digits[40];
    int n = 0, exp = 0;

    /* The smallest number of digits that reads back as v. */
    for (n = 1; n <= 17; n++) {
        snprintf(text, sizeof(text), "%.*e", n - 1, v);
        if (strtod(text, NULL) == v)
            break;
    }
    snprintf(digits, sizeof(digits), "%s", text);
    if (strchr(digits, 'e'))
        exp = (int) strtol(strchr(digits, 'e') + 1, NULL, 10);
    if (exp < -4 || exp >= 6)
        buf_puts(out, text);
    else
        buf_printf(out, "%.*f", n - 1 - exp > 0 ? n - 1 - exp : 0, v);
}

void config_get(const struct pprof_config *c, const struct config_field *f, struct buf *out)
{
    const void *at = (const char *) c + f->offset;

    switch (f->kind) {
    case CONFIG_BOOL:
        buf_puts(out, *(const bool *) at ? "true" : "false");
        break;
    case CONFIG_INT:
        buf_printf(out, "%lld", (long long) *(const int64_t *) at);
        break;
    case CONFIG_FLOAT:
        config_put_double(out, *(const double *) at);
        break;
    case CONFIG_STRING:
        buf_put_str(out, *(const struct str *) at);
        break;
    }
}

int config_parse_bool(struct str s, bool *ret)
{
    static const char *const yes[] = {"true", "t", "yes", "y", "1", ""}, *const no[] = {"false", "f", "no", "n", "0"};

    for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
        if (s.n == strlen(yes[i]) && strncasecmp(s.p ? s.p : "", yes[i], s.n) == 0) {
            *ret = true;
            return 0;
        }
    for (size_t i = 0; i < ARRAY_SIZE(no); i++)
        if (s.n == strlen(no[i]) && strncasecmp(s.p, no[i], s.n) == 0) {
            *ret = false;
            return 0;
        }
    return -EINVAL;
}

static int set_string(const struct config_field *f, struct str value, struct str *at, struct arena *a, struct err *e)
{
    struct str own = arena_str(a, value);
    bool allowed = !f->choices[0];

    for (size_t i = 0; f->choices[i]; i++)
        allowed |= str_is(value, f->choices[i]);
    if (!allowed)
        return err_set(e, -EINVAL, "invalid \"%s\" value \"%.*s\"", f->name, STR_FMT(value));
    if (value.n && !own.p)
        return -ENOMEM;
    *at = own;
    return 0;
}

static int set_field(struct pprof_config *c, const struct config_field *f, struct str value, struct arena *a,
                     struct err *e)
{
    void *at = (char *) c + f->offset;

    switch (f->kind) {
    case CONFIG_STRING:
        return set_string(f, value, at, a, e);
    case CONFIG_INT:
        if (str_to_i64(value, 10, at) < 0)
            return err_set(e, -EINVAL, "strconv.Atoi: parsing \"%.*s\": invalid syntax", STR_FMT(value));
        return 0;
    case CONFIG_FLOAT:
        if (str_to_double(value, at) < 0)
            return err_set(e, -EINVAL, "strconv.ParseFloat: parsing \"%.*s\": invalid syntax", STR_FMT(value));
        return 0;
    case CONFIG_BOOL:
        break;
    }
    if (config_parse_bool(value, at) < 0)
        return err_set(e, -EINVAL, "illegal value \"%.*s\" for bool variable", STR_FMT(value));
    return 0;
}

/* True for the values that Go's strconv.ParseBool accepts as true. */
static bool is_true(struct str s)
{
    static const char *const yes[] = {"1", "t", "T", "TRUE", "true", "True"};

    for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
        if (str_is(s, yes[i]))
            return true;
    return false;
}

int config_set(struct pprof_config *c, struct str name, struct str value, struct arena *a, struct err *e)
{
    const struct config_field *f = config_find(name);

    if (f && str_is(name, f->name))
        return set_field(c, f, value, a, e);
    if (f && is_true(value))
        return set_field(c, f, name, a, e);
    return err_set(e, -EINVAL, "unknown config field \"%.*s\"", STR_FMT(name));
}
