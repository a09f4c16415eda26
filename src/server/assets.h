/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The web UI's files, inside the binary. tools/ui makes the table: every file is gzipped once, at build time.
 *
 * Serving
 *   - Clients that accept gzip get the stored bytes without a copy; others get them decompressed.
 *   - The page refers to its files as assets/app.js?v=ETAG. Responses to such requests may be cached forever.
 *     Everything else is revalidated each time, and answered with 304 if its ETag still matches.
 *   - The path of a view (`places` in assets.c) is a location that the UI's router reads, and gets index.html.
 *   - No token is required: the files hold no data, and the login page is one of them.
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
extern const struct asset docs_table[];   /* the documents, by tools/docs; paths start with /docs/ */

/* The file at the path, or index.html for a location inside the UI, or NULL. */
const struct asset *asset_find(struct str path);
/* Sets status, headers and body of the response; the caller sends it. */
int asset_answer(const struct asset *a, struct http_request *q);
/* Adds the headers of every page: the content security policy and related ones. */
void asset_page_headers(struct http_request *q);

#endif
