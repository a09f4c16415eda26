/* SPDX-License-Identifier: Apache-2.0 */
/* What gRPC reads from a peer: frames, answers with their status, base64, URLs and query strings beside. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "net/grpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void answer(struct str s)
{
    struct http_header h[] = {{STR("grpc-encoding"), STR("gzip")},
                              {STR("grpc-status"), STR("0")},
                              {STR("grpc-message"), s},
                              {STR("grpc-status-details-bin"), s}};
    struct http_headers list = {h, ARRAY_SIZE(h), ARRAY_SIZE(h)}, none = {0};
    struct buf inflated = BUF_INIT;
    struct grpc_status st;
    struct str message;

    grpc_answer(&(struct grpc_response){200, &list, &none, s}, 1 << 16, &inflated, &message, &st);
    assert(message.n <= 1 << 16);
    buf_done(&inflated);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str s = {(const char *) data, (uint32_t) size}, rest = s, m, name, value;
    struct buf b = BUF_INIT, again = BUF_INIT;
    struct grpc_status st;
    struct http_url url;
    struct arena a;
    bool compressed;
    char *text;

    while (grpc_unframe(&rest, 1 << 16, &m, &compressed) == 0)
        assert(m.n <= 1 << 16);
    if (grpc_status_decode(s, &st) == 0) {
        grpc_status_encode(&b, &st);
        assert(grpc_status_decode(buf_str(&b), &st) == 0);
    }
    buf_reset(&b);
    grpc_base64_encode(&b, s);
    assert(grpc_base64_decode(&again, buf_str(&b)) == 0 && str_eq(buf_str(&again), s));
    buf_reset(&again);
    grpc_base64_decode(&again, s);
    answer(s);
    arena_init(&a, 1 << 22);
    rest = s;
    while (http_query_next(&rest, &a, &name, &value))
        ;
    text = arena_cstr(&a, s);
    if (text)
        http_url_parse(text, &url, NULL);
    arena_done(&a);
    buf_done(&b);
    buf_done(&again);
    return 0;
}
