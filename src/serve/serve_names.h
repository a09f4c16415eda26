/* SPDX-License-Identifier: Apache-2.0 */
/* Symbolization at query time for `wick serve`: the symbolizer process and the files it reads. */
#ifndef SERVE_SERVE_NAMES_H
#define SERVE_SERVE_NAMES_H

#include "base/err.h"

struct binary_store;
struct name_source;
struct serve_symbols;

struct serve_names {
    struct binary_store *files; /* NULL: no files are kept */
    struct name_source *source;
};

/* dir: where files are kept, NULL for nowhere. */
int serve_names_start(struct serve_names *n, const struct serve_symbols *config, const char *dir, struct err *e);
void serve_names_stop(struct serve_names *n);

#endif
