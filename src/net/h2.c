/* SPDX-License-Identifier: Apache-2.0 */
/* Creates sessions of libnghttp2 with wick's allocator and limits. See h2.h. */
#include "net/h2.h"

#include <errno.h>

#include "base/mem.h"

static void *h2_malloc(size_t n, void *arg)
{
    return mem_alloc(n);
}

static void h2_free(void *p, void *arg)
{
    mem_free(p);
}

static void *h2_calloc(size_t n, size_t size, void *arg)
{
    return mem_zalloc_array(n, size);
}

static void *h2_realloc(void *p, size_t n, void *arg)
{
    return mem_realloc(p, n);
}

static void limit_server(nghttp2_option *opt)
{
    nghttp2_option_set_max_outbound_ack(opt, 500);
    nghttp2_option_set_max_settings(opt, 32);
#ifdef HAVE_NGHTTP2_MAX_CONTINUATIONS /* before nghttp2 1.61 a head's time limit ends such a flood */
    nghttp2_option_set_max_continuations(opt, 8);
#endif
    nghttp2_option_set_stream_reset_rate_limit(opt, 500, 50);
}

int h2_session_new(enum h2_side side, void (*set)(nghttp2_session_callbacks *cb), void *arg, nghttp2_session **ret)
{
    static nghttp2_mem mem = {NULL, h2_malloc, h2_free, h2_calloc, h2_realloc};
    nghttp2_session_callbacks *cb;
    nghttp2_option *opt;
    int r;

    if (nghttp2_session_callbacks_new(&cb))
        return -ENOMEM;
    if (nghttp2_option_new(&opt)) {
        nghttp2_session_callbacks_del(cb);
        return -ENOMEM;
    }
    set(cb);
    nghttp2_option_set_no_closed_streams(opt, 1);
    if (side == H2_SERVER) {
        limit_server(opt);
        r = nghttp2_session_server_new3(ret, cb, arg, opt, &mem);
    } else {
        nghttp2_option_set_peer_max_concurrent_streams(opt, 100);
        r = nghttp2_session_client_new3(ret, cb, arg, opt, &mem);
    }
    nghttp2_option_del(opt);
    nghttp2_session_callbacks_del(cb);
    return r ? -ENOMEM : 0;
}
