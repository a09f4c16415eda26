/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration as a tree in which every node has its file, line and column. It is made from YAML (libyaml's events),
 * environment variables and `--set`; merged, expanded, then read by the option tables of option.h.
 *
 * A tree and all its text live in the arena of the struct conf it was read into, and are freed with it. Nodes are
 * changed only by merging and expansion, before they are read. Not thread-safe.
 */
#ifndef CONF_YAML_H
#define CONF_YAML_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum conf_kind { CONF_NULL, CONF_SCALAR, CONF_LIST, CONF_MAP };

enum {
    CONF_SIZE_MAX = 4 << 20,  /* bytes of one document */
    CONF_DEPTH_MAX = 64,      /* nesting */
    CONF_NODES_MAX = 200000,  /* over all documents of a conf; also bounds the expansion of aliases */
    CONF_EXPAND_MAX = 100,    /* ${...} within ${...}, and sources in one string */
    CONF_TEXT_MAX = 16 << 20, /* arena of a conf */
};

struct conf_node {
    enum conf_kind kind;
    bool quoted;                   /* a scalar that was written in quotes or as a block: always a string */
    struct str text;               /* SCALAR */
    const char *file;              /* as given by the user */
    uint32_t line;                 /* from 1 */
    uint32_t column;               /* from 1; 0: not known */
    uint32_t key_line, key_column; /* of the key that it is under; 0: it is under none */
    uint32_t n, cap;               /* LIST, MAP */
    struct conf_node **items;
    struct str *keys; /* MAP: items[i] is under keys[i] */
};

struct conf {
    struct arena arena;
    uint32_t n_nodes;
    struct conf_node *root; /* what conf_add() made so far; NULL before the first */
    /* Called for warnings (an unset variable); may be NULL. */
    void (*warn)(void *arg, const char *message);
    void *warn_arg;
};

void conf_init(struct conf *c);
void conf_done(struct conf *c);

/* Parses one YAML document; an empty one is a CONF_NULL. `name` is used in messages. */
int conf_parse(struct conf *c, struct str text, const char *name, struct conf_node **ret, struct err *e);
/* Adds a source to c->root: "file:PATH", "env:NAME" (its value is YAML), "yaml:a::b: v" or a bare path. Maps merge, all
 * else replaces; later wins. */
int conf_add(struct conf *c, struct str uri, struct err *e);
/* --set a.b=c: c is YAML. */
int conf_set(struct conf *c, struct str assignment, struct err *e);
/* Replaces every ${...} below c->root. Call once, after all sources. */
int conf_expand(struct conf *c, struct err *e);

/* The node under key of a map, or NULL (also for NULL and for other kinds). */
struct conf_node *conf_get(const struct conf_node *map, const char *key);
struct conf_node *conf_get_str(const struct conf_node *map, struct str key);
/* "file:line:column" of n into e's message in front of fmt; returns code. */
int conf_error(const struct conf_node *n, int code, struct err *e, const char *fmt, ...) _printf_(4, 5);

/* Makers, for merging, defaults and tests. NULL without memory or over CONF_NODES_MAX. */
struct conf_node *conf_new(struct conf *c, enum conf_kind kind, const char *file, uint32_t line);
int conf_append(struct conf *c, struct conf_node *list_or_map, struct str key, struct conf_node *item);
/* Merges `over` into `base` and returns the result, which may be either. */
struct conf_node *conf_merge(struct conf *c, struct conf_node *base, struct conf_node *over);

/* YAML 1.2 core types of a plain scalar. */
bool conf_is_null(const struct conf_node *n);
bool conf_to_bool(const struct conf_node *n, bool *ret);
bool conf_to_int(const struct conf_node *n, int64_t *ret);
bool conf_to_double(const struct conf_node *n, double *ret);

/* The tree as YAML text, strings quoted where they need it. */
void conf_print(struct buf *out, const struct conf_node *n, int indent);
void conf_print_scalar(struct buf *out, struct str text, bool quoted);

#endif
