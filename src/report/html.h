/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree as one HTML file: a flame graph that needs no network and no server. Search, zoom, keyboard, tooltips; with
 * two columns it is a diff (base, new). The page is the web UI's own flame graph (web/src/page.js, bundled by
 * tools/ui); names are passed as JSON in which every '<' is escaped, so a function called "<script>" is only a name.
 */
#ifndef REPORT_HTML_H
#define REPORT_HTML_H

#include "base/buf.h"
#include "base/err.h"

struct tree;

/* Larger trees should be pruned first (tree_prune): a browser can easily draw this many. */
enum { HTML_NODES_MAX = 200000 };

/* What the page says about itself. */
struct html_page {
    struct str title;
    struct str link; /* where it came from, http:// or https://; may be empty */
};

/* -ENOTSUP in a build without the web UI. */
int html_flame(const struct tree *t, const struct html_page *about, struct buf *out, struct err *e);

#endif
