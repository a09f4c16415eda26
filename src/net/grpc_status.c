/* SPDX-License-Identifier: Apache-2.0 */
/*
 * google.rpc.Status with RetryInfo, both ways; see grpc.h.
 *
 *   Status    { 1: code varint, 2: message bytes, 3: details (repeated Any) }
 *   Any       { 1: type_url "type.googleapis.com/google.rpc.RetryInfo", 2: value }
 *   RetryInfo { 1: retry_delay Duration { 1: seconds varint, 2: nanos varint } }
 */
#include "net/grpc.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/wire.h"

#define RETRY_INFO "type.googleapis.com/google.rpc.RetryInfo"

void grpc_status_encode(struct buf *b, const struct grpc_status *s)
{
    size_t any, info, duration;

    wire_put_uint(b, 1, (uint64_t) s->code);
    wire_put_str(b, 2, str_from(s->message));
    if (!s->has_retry)
        return;
    any = wire_begin(b, 3, 0);
    wire_put_str(b, 1, STR(RETRY_INFO));
    info = wire_begin(b, 2, 0);
    duration = wire_begin(b, 1, 0);
    wire_put_uint(b, 1, (uint64_t) (s->retry_ns / NS_PER_S));
    wire_put_uint(b, 2, (uint64_t) (s->retry_ns % NS_PER_S));
    wire_end(b, duration);
    wire_end(b, info);
    wire_end(b, any);
}

/* Reads the next field. Returns 1, 0 at the end, or -EBADMSG. A field without bytes has an empty text. */
static int get_field(struct str *s, struct wire_field *f, struct str *ret_bytes)
{
    const uint8_t *p = (const uint8_t *) s->p, *next;

    if (!s->n)
        return 0;
    next = wire_next(p, p + s->n, f);
    if (!next)
        return -EBADMSG;
    *ret_bytes = (f->tag & 7) == WIRE_LEN ? wire_str(f) : (struct str){0};
    *s = str_slice(*s, (size_t) (next - p), s->n);
    return 1;
}

static int get_delay(struct str info, int64_t *ret)
{
    uint64_t seconds = 0, nanos = 0;
    struct wire_field f;
    struct str bytes, duration = {0};
    int r;

    while ((r = get_field(&info, &f, &bytes)) > 0)
        if (f.tag >> 3 == 1)
            duration = bytes;
    while (r == 0 && (r = get_field(&duration, &f, &bytes)) > 0) {
        if (f.tag >> 3 == 1)
            seconds = f.v;
        else if (f.tag >> 3 == 2)
            nanos = f.v;
        r = 0;
    }
    if (r < 0)
        return r;
    if ((int64_t) seconds < 0 || nanos >= NS_PER_S) /* a negative or invalid delay means none */
        seconds = nanos = 0;
    *ret = (int64_t) MIN(seconds, 86400) * NS_PER_S + (int64_t) nanos;
    return 0;
}

static int get_detail(struct str any, struct grpc_status *ret)
{
    struct str bytes, type = {0}, value = {0};
    struct wire_field f;
    int r;

    while ((r = get_field(&any, &f, &bytes)) > 0) {
        if (f.tag >> 3 == 1)
            type = bytes;
        else if (f.tag >> 3 == 2)
            value = bytes;
    }
    if (r < 0)
        return r;
    if (!str_ends(type, STR("/google.rpc.RetryInfo")))
        return 0;
    ret->has_retry = true;
    return get_delay(value, &ret->retry_ns);
}

int grpc_status_decode(struct str s, struct grpc_status *ret)
{
    struct grpc_status st = {0};
    struct wire_field f;
    struct str bytes;
    int r;

    while ((r = get_field(&s, &f, &bytes)) > 0) {
        if (f.tag >> 3 == 1)
            st.code = f.v > 16 ? GRPC_UNKNOWN : (enum grpc_code) f.v;
        else if (f.tag >> 3 == 2)
            snprintf(st.message, sizeof st.message, "%.*s", (int) MIN(bytes.n, sizeof st.message - 1),
                     bytes.p ? bytes.p : "");
        else if (f.tag >> 3 == 3 && get_detail(bytes, &st) < 0)
            return -EBADMSG;
    }
    if (r < 0)
        return r;
    *ret = st;
    return 0;
}
