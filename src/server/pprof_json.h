/* SPDX-License-Identifier: Apache-2.0 */
/* google.v1.Profile (pprof's profile.proto) from protobuf to proto3's JSON, for Connect clients that use JSON. */
#ifndef SERVER_PPROF_JSON_H
#define SERVER_PPROF_JSON_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* Appends the members without the outer braces; *first as for json_put_key(). -EINVAL if the input is not protobuf. */
int pprof_json(struct buf *out, bool *first, struct str profile, struct err *e);

#endif
