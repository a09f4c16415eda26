/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and stops an HTTP server for a component. See listener.h. */
#include "pipeline/graph/listener.h"

#include "base/clock.h"
#include "base/log.h"
#include "pipeline/graph/host.h"

enum { LOOPS_MAX = 64, GRACE_S = 10 };

int listener_start(struct host *h, const struct listener_options *o, struct http_server **ret, struct err *e)
{
    struct loop *loops[LOOPS_MAX];
    unsigned n = MIN(loop_group_size(h->loops), (unsigned) LOOPS_MAX);
    struct http_server_options so = {
        .loops = loops,
        .n_loops = n,
        .tls = o->tls,
        .arg = o->arg,
        .handle = o->handle,
        .max_body = o->max_body,
        .max_streams = o->max_streams,
    };
    struct http_server *s = NULL;
    int port = 0, r;

    for (unsigned i = 0; i < n; i++)
        loops[i] = loop_group_at(h->loops, i);
    r = http_server_new(&so, &s, e);
    if (r == 0)
        r = http_server_listen(s, o->address, &port, e);
    if (r < 0) {
        http_server_free(s);
        return r;
    }
    log_info("%s: listening on %s port=%d", o->id, o->address, port);
    *ret = s;
    return 0;
}

void listener_stop(struct http_server *s)
{
    if (!s)
        return;
    http_server_stop_wait(s, GRACE_S * NS_PER_S);
    http_server_free(s);
}
