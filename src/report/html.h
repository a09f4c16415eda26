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
#include "base/macros.h"

struct tree;

/* Larger trees should be pruned first (tree_prune): a browser can easily draw this many. */
enum { HTML_NODES_MAX = 200000 };

/* What the page says about itself. */
struct html_page {
    struct str title;
    struct str link;             /* where it came from, http:// or https://; may be empty */
    uint32_t rate_min, rate_max; /* sampling rates in Hz; 0 = not known */
    double rate_mean;
};

/* Of profiles that were sampled at these rates; of one profile, both are the same. */
static inline struct html_page html_page_of(struct str title, const uint32_t rates[2])
{
    uint32_t low = MIN(rates[0], rates[1]); /* 0 if one is not known: then nothing can be said about noise */

    return (struct html_page){
        .title = title, .rate_min = low, .rate_max = low ? MAX(rates[0], rates[1]) : 0, .rate_mean = low};
}

/* -ENOTSUP in a build without the web UI. */
int html_flame(const struct tree *t, const struct html_page *about, struct buf *out, struct err *e);

#endif
