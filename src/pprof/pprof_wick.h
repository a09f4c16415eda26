/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick://HOST[:4040]/SERVICE?type=cpu&from=now-1h&to=now: a service's profiles on a running wick server, as a source of
 * wick pprof. wicks:// is the same over TLS. trace_id, span_id and profile restrict the selection; any other parameter
 * is a label.
 */
#ifndef PPROF_PPROF_WICK_H
#define PPROF_PPROF_WICK_H

#include "base/buf.h"

/* Appends the URL of the server's API for the source to out. False if the source is not a wick:// URL. */
bool pprof_wick_url(struct str source, struct buf *out);

#endif
