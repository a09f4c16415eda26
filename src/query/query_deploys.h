/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which versions of which services ran when. Times are those of profiles, not of the buckets of a chart.
 *
 * A version runs from its first profile on, until no profile of it has arrived for a while and another version of the
 * service has: then it is a new run, as after a rollback. The latest version of a service is the one whose present run
 * began last among those that still run at the end of the range.
 *
 * A deploy is a change of what runs as a service: another version of the same program (program_of.h). A version that is a build ID
 * changes with every update of a package and with every tool that is compiled and run: it is a deploy only of a program that keeps
 * running, one version after the other. Whatever its version is called, a tool that is run again and again (a compiler) is none: of its
 * processes, where senders name them, none was seen for more than a minute.
 */
#ifndef QUERY_QUERY_DEPLOYS_H
#define QUERY_QUERY_DEPLOYS_H

#include "query/query.h"

struct query_deploy {
    struct str service, version;
    int64_t first, last; /* starts of the first and the last profile in the range */
    int64_t since;       /* start of the first profile of the last run */
    uint64_t profiles;
    bool latest;
    bool deployed;       /* the last run is a deploy that happened in the range */
    struct str previous; /* what it replaced; empty unless deployed */
};

struct query_deploys {
    struct arena arena;
    struct query_deploy *v; /* by service, then by since */
    uint32_t n;
};

/* like: as q was compiled from; tenant, limits and now are used. */
int query_deploys(struct store *s, const struct query *q, const struct query_params *like, struct query_deploys *ret,
                  struct err *e);
void query_deploys_done(struct query_deploys *d);

#endif
