/* SPDX-License-Identifier: Apache-2.0 */
/*
 * google.rpc.Status with RetryInfo, both ways; see grpc.h. This is the only protobuf in src/net, so it has a varint of
 * its own:
 *
 *   Status    { 1: code varint, 2: message bytes, 3: details (repeated Any) }
 *   Any       { 1: type_url "type.googleapis.com/google.rpc.RetryInfo", 2: value }
 *   RetryInfo { 1: retry_delay Duration { 1: seconds varint, 2: nanos varint } }
 */
#include "net/grpc.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"

#define RETRY_INFO "type.googleapis.com/google.rpc.RetryInfo"

static void put_varint(struct buf *b, uint64_t v)
{
    for (; v >= 128; v >>= 7)
        buf_putc(b, (char) (v | 128));
    buf_putc(b, (char) v);
}

static void put_bytes(struct buf *b, int field, struct str s)
{
    put_varint(b, (uint64_t) field << 3 | 2);
    put_varint(b, s.n);
    buf_put_str(b, s);
}

static void put_number(struct buf *b, int field, uint64_t v)
{
    if (!v)
        return;
    put_varint(b, (uint64_t) field << 3);
    put_varint(b, v);
}

void grpc_status_encode(struct buf *b, const struct grpc_status *s)
{
    _cleanup_(buf_done) struct buf duration = BUF_INIT, info = BUF_INIT, any = BUF_INIT;

    put_number(b, 1, (uint64_t) s->code);
    if (s->message[0])
        put_bytes(b, 2, str_from(s->message));
    if (!s->has_retry)
        return;
    put_number(&duration, 1, (uint64_t) (s->retry_ns / NS_PER_S));
    put_number(&duration, 2, (uint64_t) (s->retry_ns % NS_PER_S));
    put_bytes(&info, 1, buf_str(&duration));
    put_bytes(&any, 1, STR(RETRY_INFO));
    put_bytes(&any, 2, buf_str(&info));
    put_bytes(b, 3, buf_str(&any));
}

static int get_varint(struct str *s, uint64_t *ret)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < 10 && i < s->n; i++) {
        v |= (uint64_t) (s->p[i] & 127) << (7 * i);
        if (!(s->p[i] & 128)) {
            *s = str_slice(*s, i + 1, s->n);
            *ret = v;
            return 0;
        }
    }
    return -EBADMSG;
}

/* Reads the next field: its number, and either a number or bytes. Returns 0 at the end, 1 for a field. */
static int get_field(struct str *s, uint64_t *ret_field, uint64_t *ret_value, struct str *ret_bytes)
{
    uint64_t key, n;

    *ret_value = 0;
    *ret_bytes = (struct str){0};
    if (!s->n)
        return 0;
    if (get_varint(s, &key) < 0)
        return -EBADMSG;
    *ret_field = key >> 3;
    switch (key & 7) {
    case 0:
        return get_varint(s, ret_value) < 0 ? -EBADMSG : 1;
    case 1:
    case 5:
        n = (key & 7) == 1 ? 8 : 4;
        break;
    case 2:
        if (get_varint(s, &n) < 0)
            return -EBADMSG;
        break;
    default:
        return -EBADMSG;
    }
    if (n > s->n)
        return -EBADMSG;
    *ret_bytes = str_slice(*s, 0, n);
    *s = str_slice(*s, n, s->n);
    return 1;
}

static int get_delay(struct str info, int64_t *ret)
{
    uint64_t field, value, seconds = 0, nanos = 0;
    struct str bytes, duration = {0};
    int r;

    while ((r = get_field(&info, &field, &value, &bytes)) > 0)
        if (field == 1)
            duration = bytes;
    while (r == 0 && (r = get_field(&duration, &field, &value, &bytes)) > 0) {
        if (field == 1)
            seconds = value;
        else if (field == 2)
            nanos = value;
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
    uint64_t field, number;
    int r;

    while ((r = get_field(&any, &field, &number, &bytes)) > 0) {
        if (field == 1)
            type = bytes;
        else if (field == 2)
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
    uint64_t field, value;
    struct str bytes;
    int r;

    while ((r = get_field(&s, &field, &value, &bytes)) > 0) {
        if (field == 1)
            st.code = value > 16 ? GRPC_UNKNOWN : (enum grpc_code) value;
        else if (field == 2)
            snprintf(st.message, sizeof st.message, "%.*s", (int) MIN(bytes.n, sizeof st.message - 1),
                     bytes.p ? bytes.p : "");
        else if (field == 3 && get_detail(bytes, &st) < 0)
            return -EBADMSG;
    }
    if (r < 0)
        return r;
    *ret = st;
    return 0;
}
