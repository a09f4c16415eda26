/* SPDX-License-Identifier: Apache-2.0 */
/* Heads and bodies of HTTP/1.1, requests and responses. First byte: which, and how the body is cut into reads. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "net/http1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_body(struct http1_head *head, const char *p, size_t n, size_t step)
{
    struct http1_body body;
    size_t total = 0;

    http1_body_init(&body, head);
    while (n && !body.done) {
        size_t left = MIN(step, n), had = left;
        const char *q = p;
        struct str piece;

        while (left && !body.done) {
            if (http1_body_next(&body, &q, &left, &piece) < 0)
                return;
            assert(!piece.n || (piece.p >= p && piece.p + piece.n <= p + had));
            total += piece.n;
        }
        p = q;
        n -= had - left;
        if (had == left)
            break;
    }
    assert(head->framing != HTTP1_LENGTH || total <= head->content_length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http1_limits limits = {.head_bytes = 4096, .headers = 30, .head_request = size && data[0] & 2};
    struct http1_head head;
    struct arena a;
    ssize_t n;
    char *copy;
    int r;

    if (size < 2)
        return 0;
    arena_init(&a, 1 << 20);
    copy = mem_dup(data + 1, size - 1);
    n = http1_head_length(copy, size - 1, 0, limits.head_bytes);
    if (n > 0) {
        if (data[0] & 1)
            r = http1_parse_response(copy, (size_t) n, &limits, &a, &head, NULL);
        else
            r = http1_parse_request(copy, (size_t) n, &limits, &a, &head, NULL);
        if (r == 0) {
            assert(head.headers.n <= limits.headers);
            read_body(&head, copy + n, size - 1 - (size_t) n, 1 + (data[0] >> 2));
        }
    }
    mem_free(copy);
    arena_done(&a);
    return 0;
}
