/* SPDX-License-Identifier: Apache-2.0 */
/* What both sides need to use libnghttp2 the way wick does: its memory from base/mem, its strings from struct str. */
#ifndef NET_H2_H
#define NET_H2_H

#include <nghttp2/nghttp2.h>

#include "base/str.h"

enum {
    H2_STREAM_WINDOW = 4 << 20, /* a default OTLP message without a wait for credit */
    H2_CONNECTION_WINDOW = 16 << 20,
    H2_OUTPUT_HIGH = 256 << 10, /* no more frames are made while this much waits for the socket */
};

enum h2_side { H2_CLIENT, H2_SERVER };

/* A session with the callbacks that `set` puts in, which all get `arg`. The limits are those of a peer that we do not
 * trust. -ENOMEM. */
int h2_session_new(enum h2_side side, void (*set)(nghttp2_session_callbacks *cb), void *arg, nghttp2_session **ret);

static inline nghttp2_nv h2_nv(struct str name, struct str value)
{
    return (nghttp2_nv){.name = (uint8_t *) (uintptr_t) name.p,
                        .namelen = name.n,
                        .value = (uint8_t *) (uintptr_t) (value.p ? value.p : ""),
                        .valuelen = value.n,
                        .flags = NGHTTP2_NV_FLAG_NONE};
}

#endif
