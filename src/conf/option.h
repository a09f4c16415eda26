/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Option tables: the only place where an option is defined. One table per component or file section gives for each key
 * its kind, where it goes in a struct, its default and a line of help; parsing, validation (unknown keys are errors
 * with file:line and the closest known name), the reference page and print-config come from it.
 *
 *     static const struct option batch_options[] = {
 *         {"timeout", OPT_DURATION, offsetof(struct batch_config, timeout), "200ms", "how long to wait"},
 *         {"tls", OPT_TABLE, offsetof(struct config, tls), NULL, "encryption", .table = tls_options},
 *         {0},
 *     };
 *     r = option_parse(conf, batch_options, node, &config, e);
 *
 * Text in the struct lives as long as the struct conf.
 */
#ifndef CONF_OPTION_H
#define CONF_OPTION_H

#include <stdbool.h>

#include "conf/yaml.h"

enum option_kind {
    OPT_NONE,     /* ends a table */
    OPT_BOOL,     /* bool */
    OPT_INT,      /* int64_t */
    OPT_DOUBLE,   /* double */
    OPT_STRING,   /* const char *, NULL when not given and without default */
    OPT_DURATION, /* int64_t nanoseconds: "10s", "1h30m"; a bare number only when it is 0 */
    OPT_SIZE,     /* int64_t bytes: 512, "64k", "10MiB" */
    OPT_STRINGS,  /* struct option_strings; a single string counts as a list of one */
    OPT_MAP,      /* struct option_map of strings; also a list of {name, value} */
    OPT_ENUM,     /* int, index into words */
    OPT_TABLE,    /* an embedded struct with its own table */
    OPT_TABLES,   /* struct option_tables: a list of such structs */
    OPT_CUSTOM,   /* const struct conf_node *, read by the component itself; NULL when not given */
    OPT_IGNORED,  /* accepted without effect; help says why */
    OPT_REFUSED,  /* known, not supported, and must not be ignored: an error when it is given; help says why */
};

struct option {
    const char *name;
    enum option_kind kind;
    size_t offset;
    const char *def;  /* as a user would write it; NULL: zero or absent */
    const char *help; /* one line */
    const struct option *table;
    size_t size;              /* OPT_TABLES: sizeof one element */
    size_t present;           /* offset of a bool that is set when the key is given (OPT_TABLE: even empty); 0 = none */
    const char *const *words; /* OPT_ENUM, NULL-terminated */
    bool elsewhere;           /* OPT_IGNORED: it has an effect, but another part of the program reads it */
    bool secret;              /* printed as [REDACTED] */
    bool required;
};

struct option_strings {
    const char **v;
    uint32_t n;
};

struct option_pair {
    const char *name, *value;
};

struct option_map {
    struct option_pair *v;
    uint32_t n;
};

struct option_tables {
    void *v; /* n structs of option.size bytes */
    uint32_t n;
};

/* Fills *out from node (NULL or empty: only defaults). *out must be zeroed. The message has file:line. */
int option_parse(struct conf *c, const struct option *table, const struct conf_node *node, void *out, struct err *e);
/* Returns the configuration as a tree, with defaults filled in and secrets hidden (unless show_secrets). */
struct conf_node *option_effective(struct conf *c, const struct option *table, const struct conf_node *node,
                                   bool show_secrets);
/* Help: one line per option, sub-tables indented. As markdown list items when markdown is true. */
void option_help(struct buf *out, const struct option *table, int indent, bool markdown);
/* The name of `names` (NULL-terminated) closest to `name`, or NULL when none is similar. */
const char *option_closest(struct str name, const char *const *names);

#endif
