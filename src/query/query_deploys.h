/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which versions of which services ran when. Times are those of profiles, not of the buckets of a chart.
 *
 * A version runs from its first profile on, until no profile of it has arrived for a while and another version of the
 * service has: then it is a new run, as after a rollback. The latest version of a service is the one whose present run
 * began last among those that still run at the end of the range.
 */
#ifndef QUERY_QUERY_DEPLOYS_H
#define QUERY_QUERY_DEPLOYS_H

#include "base/buf.h"
#include "query/query.h"

struct query_deploy {
    struct str service, version;
    int64_t first, last; /* starts of the first and the last profile in the range */
    int64_t since;       /* start of the first profile of the last run */
    uint64_t profiles;
    bool latest;
    bool deployed; /* the last run began in the range, after another version had run */
};

struct query_deploys {
    struct arena arena;
    struct query_deploy *v; /* by service, then by since */
    uint32_t n;
};

int query_deploys(struct store *s, const struct query *q, struct query_deploys *ret, struct err *e);
void query_deploys_json(struct buf *out, const struct query_deploys *d);
void query_deploys_done(struct query_deploys *d);

#endif
