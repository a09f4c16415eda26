/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a configuration node by node, for programs that need one without a file:
 *
 *     struct conf_maker m = {&conf, "--export", 0};
 *     make_text(&m, make_map(&m, conf.root, "exporters"), "endpoint", STR("localhost:4317"));
 *     return m.r;
 */
#ifndef CONF_CONF_MAKE_H
#define CONF_CONF_MAKE_H

#include "base/str.h"
#include "conf/yaml.h"

struct conf_maker {
    struct conf *conf;
    const char *source; /* in the place of a file name in error messages */
    int r;              /* the first failure; after it nothing is made */
};

/* Each appends to `into` under the key (NULL: an item of a list), and copies the texts. NULL on failure. */
struct conf_node *make_node(struct conf_maker *m, struct conf_node *into, const char *key, enum conf_kind kind);
struct conf_node *make_map(struct conf_maker *m, struct conf_node *into,
                           const char *key); /* or the one that is there */
void make_text(struct conf_maker *m, struct conf_node *into, const char *key, struct str text);
/* A string whatever it looks like, as if it were quoted. */
void make_string(struct conf_maker *m, struct conf_node *into, const char *key, struct str text);
void make_list(struct conf_maker *m, struct conf_node *into, const char *key,
               const char *const *items); /* ends with NULL */

#endif
