/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's options as one table: command-line flags, assignments in the shell, its list of options and their help all
 * come from it. A choice ("cum", "lines") is an option name of its own that sets its group.
 *
 * Values are slices in the arena given when they are set, so a config can be copied by assignment.
 */
#ifndef REPORT_PPROF_CONFIG_H
#define REPORT_PPROF_CONFIG_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

struct pprof_config {
    struct str output, unit, source_path, trim_path, sample_index, sort, tagroot, tagleaf;
    struct str focus, ignore, prune_from, hide, show, show_from, tagfocus, tagignore, tagshow, taghide, granularity;
    bool call_tree, relative_percentages, compact_labels, intel_syntax, mean, normalize, drop_negative, trim, noinlines,
        showcolumns;
    int64_t nodecount;
    double divide_by, nodefraction, edgefraction;
};

enum config_kind { CONFIG_BOOL, CONFIG_INT, CONFIG_FLOAT, CONFIG_STRING };
enum { CONFIG_CHOICES_MAX = 5 };

struct config_field {
    const char *name;
    enum config_kind kind;
    size_t offset;
    const char *choices[CONFIG_CHOICES_MAX + 1]; /* of a string: the values it may have, NULL-terminated */
    const char *help;
};

/* All fields, in pprof's order. */
const struct config_field *config_fields(size_t *ret_n);
/* The field of this name, or of this choice; NULL when there is none. */
const struct config_field *config_find(struct str name);
/* Help of a field or choice, or NULL. */
const char *config_help(struct str name);
void config_defaults(struct pprof_config *c);
/* A field's value as text. */
void config_get(const struct pprof_config *c, const struct config_field *f, struct buf *out);
/* Sets an option by name; fails with pprof's error message when the value is invalid. A choice is set by a true
 * value. */
int config_set(struct pprof_config *c, struct str name, struct str value, struct arena *a, struct err *e);
/* The name of a field in the URLs of pprof's web interface ("f" for focus), or NULL when it has none there. */
const char *config_url_name(const struct config_field *f);
/* Whether the name may be used alone, without "=value". */
bool config_is_bool(struct str name);

/* "true t yes y 1" and nothing, "false f no n 0", in any case. */
int config_parse_bool(struct str s, bool *ret);
/* A number as Go prints it by default. */
void config_put_double(struct buf *out, double v);

#endif
