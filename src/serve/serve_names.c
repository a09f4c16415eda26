/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and stops symbolization at query time for `wick serve`. See serve_names.h. */
#include "serve/serve_names.h"

#include <errno.h>

#include "server/name_source.h"
#include "server/serve_config.h"
#include "symbol/symbol_process.h"

enum { ASK_TIMEOUT_MS = 20000 };

int serve_names_start(struct serve_names *n, const struct serve_symbols *config, const char *dir, struct err *e)
{
    const char *child[] = {"/proc/self/exe", "symbolize", "--only", "/usr/lib/debug", dir ? "--only" : NULL, dir, NULL};
    struct name_source_options o = {
        .debuginfod = {.urls = config->debuginfod.v,
                       .n_urls = config->debuginfod.n,
                       .timeout_ns = config->fetch_timeout,
                       .max_bytes = (uint64_t) config->fetch_size,
                       .per_minute = config->fetches_per_minute},
        .retry_ns = config->retry,
    };
    int r = dir ? binary_store_open(dir, (uint64_t) config->quota, (uint64_t) config->max_file, &n->files, e) : 0;

    if (r < 0)
        return r;
    o.files = n->files;
    o.symbolizer = symbol_process_new(child, ASK_TIMEOUT_MS);
    if (!o.symbolizer)
        return -ENOMEM;
    return name_source_new(&o, &n->source, e);
}

void serve_names_stop(struct serve_names *n)
{
    name_source_free(n->source);
    binary_store_free(n->files);
    *n = (struct serve_names){0};
}
