/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of OTLP traces, protobuf and JSON: what decodes is written into blocks and read back the same, and blocks are not
 * much larger than the request. The first byte chooses the encoding. */
#include <stdlib.h>

#include "base/json.h"
#include "span/span_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take(void *ctx, const struct span_row *s)
{
    if (s->start <= 0 || s->duration < 0 || s->kind >= SPAN_KINDS || s->status >= SPAN_STATUSES)
        abort();
    span_writer_add(ctx, s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span_writer w;
    struct span_decoded d = {.span = take, .ctx = &w};
    struct span_block b = {0};
    struct span_row row;
    struct str in, rest;
    struct err e = {0};
    uint32_t n = 0;

    if (!size)
        return 0;
    in = (struct str){(const char *) data + 1, (uint32_t) (size - 1)};
    span_writer_init(&w, 1, 0);
    if (data[0] & 1)
        (void) span_decode_json(in, &d, &e);
    else
        (void) span_decode(in, &d, &e);
    if (span_writer_end(&w) < 0 || w.out.n > 16 * (size + 64))
        abort();
    for (rest = buf_str(&w.out); rest.n; rest = str_slice(rest, SPAN_BLOCK_HEADER + b.head.payload, rest.n)) {
        if (span_block_read(&b, rest.p, rest.n) < 0)
            abort();
        for (uint32_t i = 0; i < b.head.n_rows; i++, n++)
            span_block_row(&b, i, &row);
    }
    if (n != w.n)
        abort();
    span_block_done(&b);
    span_writer_done(&w);
    return 0;
}
