/* SPDX-License-Identifier: Apache-2.0 */
/* Source URLs, interpreted as `go tool pprof` does. */
#ifndef PPROF_PPROF_URL_H
#define PPROF_PPROF_URL_H

#include "base/buf.h"

/* Appends the URL of a source to out: HOST:PORT/PATH gets "http://", an empty path becomes Go's CPU profile handler,
 * and the query is rewritten in the order of its keys, with seconds in it if seconds > 0. If seconds was not given,
 * *seconds becomes that of the query. False if the source is not a URL. */
bool pprof_url_adjust(struct str source, int64_t *seconds, struct buf *out);
/* The URL in a Location header, resolved relative to base. */
void pprof_url_redirect(struct str base, struct str location, struct buf *out);

#endif
