/* SPDX-License-Identifier: Apache-2.0 */
/* Local programs with /debug/pprof/, for the web UI's Start page: serve/serve_scrape.c implements it. */
#ifndef SERVER_SCRAPING_H
#define SERVER_SCRAPING_H

#include "base/buf.h"
#include "base/err.h"

struct scraping {
    /* Appends a JSON array of the programs found, [{"url", "program", "scraped"}]. Blocks for seconds; any thread. */
    int (*find)(void *ctx, struct buf *out, struct err *e);
    /* Scrapes url, which must be on loopback, until the server stops. Any thread. */
    int (*add)(void *ctx, const char *url, struct err *e);
    void *ctx;
};

#endif
