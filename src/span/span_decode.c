/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes ExportTraceServiceRequest in protobuf; see span_decode.h. Nothing is copied or allocated. */
#include "span/span_decode.h"

#include <errno.h>

#include "base/wire.h"
#include "model/labels.h"
#include "model/semconv.h"

void span_decoded_add(struct span_decoded *d, struct span_row *s, uint64_t start, uint64_t end)
{
    static const struct link none;

    if (memcmp(s->link.trace_id, none.trace_id, 16) == 0 || memcmp(s->link.span_id, none.span_id, 8) == 0 || !start ||
        start > INT64_MAX) {
        d->refused++;
        return;
    }
    s->start = (int64_t) start;
    s->duration = end > start && end <= INT64_MAX ? (int64_t) (end - start) : 0;
    if (s->kind >= SPAN_KINDS)
        s->kind = SPAN_UNSPECIFIED;
    if (s->status >= SPAN_STATUSES)
        s->status = SPAN_UNSET;
    d->span(d->ctx, s);
}

/* --- resources --- */

/* AnyValue: only text. */
static int read_text(struct wire_err *w, const uint8_t *p, const uint8_t *end, struct str *ret)
{
    struct wire_field f;
    int r = 0;

    while (wire_each(w, &p, end, &f, &r))
        if (f.tag == WIRE_TAG(1, WIRE_LEN))
            *ret = wire_str(&f);
    return r;
}

static int read_attribute(struct wire_err *w, const uint8_t *p, const uint8_t *end, struct span_row *s)
{
    struct str key = {0}, value = {0};
    struct wire_field f;
    int r = 0;

    while (wire_each(w, &p, end, &f, &r)) {
        if (f.tag == WIRE_TAG(1, WIRE_LEN))
            key = wire_str(&f);
        else if (f.tag == WIRE_TAG(2, WIRE_LEN))
            r = read_text(w, f.data, p, &value);
    }
    if (str_is(key, SEMCONV_SERVICE_NAME))
        s->service = labels_service(value);
    else if (str_is(key, SEMCONV_SERVICE_VERSION))
        s->version = value;
    else if (str_is(key, SEMCONV_SERVICE_INSTANCE_ID))
        s->instance = value;
    return r;
}

static int read_resource(struct wire_err *w, const uint8_t *p, const uint8_t *end, struct span_row *s)
{
    struct wire_field f;
    uint32_t n = 0;
    int r = 0;

    while (wire_each(w, &p, end, &f, &r))
        if (f.tag == WIRE_TAG(1, WIRE_LEN))
            r = wire_path(w, read_attribute(w, f.data, p, s), "attributes", n++);
    return r;
}

/* --- spans --- */

static int read_status(struct wire_err *w, const uint8_t *p, const uint8_t *end, struct span_row *s)
{
    struct wire_field f;
    int r = 0;

    while (wire_each(w, &p, end, &f, &r))
        if (f.tag == WIRE_TAG(3, WIRE_VARINT))
            s->status = (uint8_t) MIN(f.v, 255u);
    return r;
}

static void read_id(const struct wire_field *f, uint8_t *ret, size_t n)
{
    if (f->v == n)
        memcpy(ret, f->data, n);
}

static int read_span(struct wire_err *w, const uint8_t *p, const uint8_t *end, const struct span_row *sender,
                     struct span_decoded *d)
{
    struct span_row s = *sender;
    uint64_t start = 0, stop = 0;
    struct wire_field f;
    int r = 0;

    while (wire_each(w, &p, end, &f, &r))
        switch (f.tag) {
        case WIRE_TAG(1, WIRE_LEN):
            read_id(&f, s.link.trace_id, 16);
            break;
        case WIRE_TAG(2, WIRE_LEN):
            read_id(&f, s.link.span_id, 8);
            break;
        case WIRE_TAG(4, WIRE_LEN):
            read_id(&f, s.parent, 8);
            break;
        case WIRE_TAG(5, WIRE_LEN):
            s.name = wire_str(&f);
            break;
        case WIRE_TAG(6, WIRE_VARINT):
            s.kind = (uint8_t) MIN(f.v, 255u);
            break;
        case WIRE_TAG(7, WIRE_I64):
            start = f.v;
            break;
        case WIRE_TAG(8, WIRE_I64):
            stop = f.v;
            break;
        case WIRE_TAG(15, WIRE_LEN):
            r = wire_path(w, read_status(w, f.data, p, &s), "status", WIRE_NO_INDEX);
            break;
        default:
            break;
        }
    if (r == 0)
        span_decoded_add(d, &s, start, stop);
    return r;
}

static int read_scope(struct wire_err *w, const uint8_t *p, const uint8_t *end, const struct span_row *sender,
                      struct span_decoded *d)
{
    struct wire_field f;
    uint32_t n = 0;
    int r = 0;

    while (wire_each(w, &p, end, &f, &r))
        if (f.tag == WIRE_TAG(2, WIRE_LEN))
            r = wire_path(w, read_span(w, f.data, p, sender, d), "spans", n++);
    return r;
}

/* The resource may come after its spans, so it is looked for first. */
static int read_resource_spans(struct wire_err *w, const uint8_t *p, const uint8_t *end, struct span_decoded *d)
{
    struct span_row sender = {0};
    const uint8_t *again = p;
    struct wire_field f;
    uint32_t n = 0;
    int r = 0;

    while (wire_each(w, &p, end, &f, &r))
        if (f.tag == WIRE_TAG(1, WIRE_LEN))
            r = wire_path(w, read_resource(w, f.data, p, &sender), "resource", WIRE_NO_INDEX);
    while (wire_each(w, &again, end, &f, &r))
        if (f.tag == WIRE_TAG(2, WIRE_LEN))
            r = wire_path(w, read_scope(w, f.data, again, &sender, d), "scope_spans", n++);
    return r;
}

int span_decode(struct str message, struct span_decoded *d, struct err *e)
{
    const uint8_t *start = str_bytes(message), *p = start, *end = p + message.n;
    struct wire_err w = {0};
    struct wire_field f;
    uint32_t n = 0;
    int r = 0;

    while (wire_each(&w, &p, end, &f, &r))
        if (f.tag == WIRE_TAG(1, WIRE_LEN))
            r = wire_path(&w, read_resource_spans(&w, f.data, p, d), "resource_spans", n++);
    return r < 0 ? wire_report(&w, start, r, "OTLP traces", e) : 0;
}
