/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The web UI's files, inside the binary. tools/ui makes the table: every file gzipped once, at build time.
 *
 * Serving
 *   - To whoever takes gzip the stored bytes go out as they are, without a copy; others get them inflated.
 *   - The page names its files as assets/app.js?v=ETAG: what was asked for like that may be kept for ever. Everything
 *     else is asked for again each time and answered with 304 when its ETag still fits.
 *   - A path of one part without a dot is a place inside the UI (its router reads it) and gets index.html.
 *   - Nobody needs a token for them: they hold no data, and the login page is one of them.
 */
#ifndef SERVER_ASSETS_H
#define SERVER_ASSETS_H

#include <stddef.h>

#include "base/str.h"

struct http_request;

struct asset {
    const char *path, *content_type, *etag; /* path starts with '/'; etag without its quotes */
    const unsigned char *gzip;
    size_t gzip_size, size;
};

extern const struct asset assets_table[]; /* ends with path == NULL */

/* The file at the path, or index.html for a place inside the UI, or NULL. */
const struct asset *asset_find(struct str path);
/* Sets status, headers and body of the answer; the caller finishes it. */
int asset_answer(const struct asset *a, struct http_request *q);
/* What every page says about itself: the content security policy and its like. */
void asset_page_headers(struct http_request *q);

#endif
