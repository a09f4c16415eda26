/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names from the process that a profile was fetched from: servers of net/http/pprof and gperftools answer a POST of
 * addresses, joined by '+', with lines of an address and a name.
 *
 *     profile from                     names from
 *     http://H/debug/pprof/profile     http://H/debug/pprof/symbol   (also .../pprof/heap and so on: gperftools)
 *     http://H/profilez                http://H/symbolz
 */
#ifndef PPROF_PPROF_REMOTE_H
#define PPROF_PPROF_REMOTE_H

#include "pprof/pprof_args.h"
#include "report/prof.h"

/* Where the mappings of a build id, or else of a file, were fetched from. Strings are ids of the pool. */
struct pprof_origin {
    uint32_t key, url;
    uint64_t start; /* start of the mapping in that process */
};

struct pprof_origins {
    struct pprof_origin *v;
    size_t n, cap;
};

void pprof_origins_done(struct pprof_origins *o);
/* Records that p came from url. A mapping without build id and file gets the URL as its file until
 * pprof_origins_forget(). */
int pprof_origins_add(struct pprof_origins *o, struct prof *p, struct str url);
/* Requests the names of locations that have no line yet, in mappings without functions (in all, with force). */
int pprof_symbolize_remote(struct prof *p, bool force, const struct pprof_origins *o, const struct pprof_args *a,
                           struct err *e);
void pprof_origins_forget(struct prof *p);
/* The URL that returns names for a profile's URL; false if there is none. */
bool pprof_symbol_url(struct str url, struct buf *out);

#endif
