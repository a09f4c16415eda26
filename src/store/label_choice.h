/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses which resource attributes are labels of series besides those of the allow-list: all that senders declare, as
 * long as an attribute has few values. An attribute with more values than the limit is not a label of the series that
 * begin afterwards; it becomes one again when it has had few values for half a day. Series that exist keep their labels.
 *
 * Bounds, each per tenant where values or sets are concerned: `values` values of an attribute, LABEL_CHOICE_SETS
 * distinct sets of chosen labels in half a day, LABEL_CHOICE_MAX chosen labels of a series. Attributes that identify one
 * process, file or moment (process.pid, container.id, host.ip, process.command_line) are never chosen: each restart
 * would begin a new series. Belongs to the thread that appends.
 */
#ifndef STORE_LABEL_CHOICE_H
#define STORE_LABEL_CHOICE_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/map.h"

struct resource;

enum { LABEL_CHOICE_VALUES = 100, LABEL_CHOICE_SETS = 2000, LABEL_CHOICE_MAX = 32 };

struct choice_name;
struct choice_count;
struct choice_sets;

struct label_choice {
    const char *const *allow; /* names that always are labels, NULL-terminated */
    uint32_t values;          /* values of one attribute; 0: nothing is chosen */
    struct arena names_arena;
    struct choice_name *names; /* of all tenants */
    size_t cap_names;
    uint32_t n_names;
    struct map name_map;
    struct choice_count *counts; /* per tenant and name */
    size_t cap_counts;
    uint32_t n_counts;
    struct map count_map;
    struct choice_sets *sets; /* per tenant */
    size_t cap_sets;
    uint32_t n_sets;
    int64_t turned; /* when counting began anew, by the caller's clock */
};

void label_choice_done(struct label_choice *c);
/* The names of the labels of this resource, NULL-terminated: those of `allow`, then the chosen ones, whose text lives as long
 * as the choice. The list lives in the arena. -ENOMEM. */
int label_choice_pick(struct label_choice *c, struct id128 tenant, const struct resource *r, int64_t now,
                      struct arena *a, const char *const **ret);

#endif
