/* SPDX-License-Identifier: Apache-2.0 */
/* Symbolization at query time for `wick serve`: the symbolizer process, the files it reads, and the store that uses
 * them. */
#ifndef SERVE_SERVE_NAMES_H
#define SERVE_SERVE_NAMES_H

#include "base/err.h"

struct binary_store;
struct name_source;
struct serve_symbols;
struct store;

struct serve_names {
    struct binary_store *files; /* NULL: no files are kept */
    struct name_source *source;
    struct store *store; /* the store that answers queries */
};

/* dir: where files are kept, NULL for nowhere. behind is the store that is wrapped; the caller owns it, and it must
 * outlive this. */
int serve_names_start(struct serve_names *n, const struct serve_symbols *config, const char *dir, struct store *behind,
                      struct err *e);
void serve_names_stop(struct serve_names *n);

#endif
