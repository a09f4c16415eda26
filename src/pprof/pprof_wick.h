/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick://HOST[:4040]/SERVICE?type=cpu&from=now-1h&to=now: a service's profiles in a running wick, as a source of wick pprof.
 * wicks:// is the same over TLS. trace_id, span_id and profile narrow it down, any other parameter is a label.
 */
#ifndef PPROF_PPROF_WICK_H
#define PPROF_PPROF_WICK_H

#include "base/buf.h"

/* The URL of the server's API that the source means, behind out. False when the source is no such thing. */
bool pprof_wick_url(struct str source, struct buf *out);

#endif
