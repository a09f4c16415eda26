/* SPDX-License-Identifier: Apache-2.0 */
/* Source URLs as `go tool pprof` reads them. */
#ifndef PPROF_PPROF_URL_H
#define PPROF_PPROF_URL_H

#include "base/buf.h"

/* The URL that a source means, behind out: HOST:PORT/PATH gets "http://", an empty path Go's CPU profile handler, the
 * query is written anew in the order of its keys with seconds in it when seconds > 0. *seconds becomes that of the query
 * when it was not given. False when the source is no URL. */
bool pprof_url_adjust(struct str source, int64_t *seconds, struct buf *out);
/* The URL that a Location header means, relative to base. */
void pprof_url_redirect(struct str base, struct str location, struct buf *out);

#endif
