/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of a source of names: what knows more about the addresses of a binary than the profiles that were sent.
 * `server/name_source.h` implements it with uploaded files, debuginfod and the debug files of this system. A query with
 * a source (query.h) looks up the frames of its answer that lack a name or a line, hands what it learns to the store
 * (store_ops.name_later, the engine's symbols: a job of the writer's queue), and asks the store again. So each address
 * is looked up once, and the step costs nothing when nothing is missing.
 *
 * Functions may be called from any thread.
 */
#ifndef QUERY_NAMES_H
#define QUERY_NAMES_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct names;
struct symbol_answer;

/* Addresses of a binary to look up. */
struct names_request {
    const char *tenant;
    struct str build_id;
    const uint64_t *addresses;
    uint32_t n;
};

/* What is to be expected of a lookup. */
enum names_hope {
    NAMES_NONE,  /* nothing, at present */
    NAMES_LATER, /* nothing yet: the file is being fetched, or reading it failed for a reason that passes */
    NAMES_NOW
};

struct names_ops {
    /* lines: whether a line is wanted, too; nothing is to be expected when the file of this build ID is known to have none. */
    enum names_hope (*hope)(struct names *n, const char *tenant, struct str build_id, bool lines);
    /* Looks up those of these addresses that were not looked up before: *ret_addresses are they, in the order of the
     * answer (free them with mem_free(), the answer with symbol_answer_free()). -ENOENT if there is nothing new; -EAGAIN if
     * the names are to come, and others should not be waited for either. */
    int (*look_up)(struct names *n, const struct names_request *q, struct symbol_answer **ret, uint64_t **ret_addresses,
                   struct err *e);
};

struct names {
    const struct names_ops *ops;
};

#endif
