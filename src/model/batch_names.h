/* SPDX-License-Identifier: Apache-2.0 */
/* Adds functions, files and lines to the native locations of a batch that have none. */
#ifndef MODEL_BATCH_NAMES_H
#define MODEL_BATCH_NAMES_H

#include "model/batch.h"

struct symbol_answer;

struct batch_resolver {
    /* The frames of addresses, which are those of the batch's locations and may be changed. *ret, if it is set, belongs to
     * the caller. What is not found is not an error. */
    int (*resolve)(struct batch_resolver *r, const struct batch *b, uint32_t mapping, uint64_t *addresses, uint32_t n,
                   struct symbol_answer **ret);
};

/* Asks for each mapping once. *ret is a new batch that shares what is unchanged, or b itself if nothing lacks a name. */
int batch_add_names(struct batch *b, struct batch_resolver *resolver, struct batch **ret);

#endif
