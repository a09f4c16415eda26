/* SPDX-License-Identifier: Apache-2.0 */
/* What both sides need to use libnghttp2 with the conventions of wick: memory from base/mem, strings as struct str. */
#ifndef NET_H2_H
#define NET_H2_H

#include <nghttp2/nghttp2.h>

#include "base/str.h"

enum {
    H2_STREAM_WINDOW = 4 << 20, /* room for an OTLP message of the default size without waiting for a window update */
    H2_CONNECTION_WINDOW = 16 << 20,
    H2_OUTPUT_HIGH = 256 << 10, /* no more frames are made while this many bytes wait for the socket */
};

enum h2_side { H2_CLIENT, H2_SERVER };

/* Creates a session with the callbacks that `set` installs, which all get `arg`. The limits assume an untrusted peer.
 * -ENOMEM. */
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
