/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes OTLP traces in JSON; see span_decode.h. IDs are hex (base64 is accepted too), 64-bit numbers are strings or
 * numbers, enums are numbers or names; unknown keys are ignored, and null means absent. A resource may follow its spans:
 * the text of the spans is kept aside until the object has been read.
 */
#include <errno.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/bytes.h"
#include "base/json.h"
#include "model/labels.h"
#include "model/semconv.h"
#include "span/span_decode.h"

enum { LISTS_MAX = 64, STRINGS_MAX = 64 << 20 };

static bool is_null(struct json *j)
{
    if (json_peek(j) != JSON_NULL)
        return false;
    json_skip(j);
    return true;
}

static bool begin_object(struct json *j)
{
    if (is_null(j))
        return false;
    json_begin_object(j);
    return !j->err;
}

static bool begin_array(struct json *j)
{
    if (is_null(j))
        return false;
    json_begin_array(j);
    return !j->err;
}

static void read_id(struct json *j, uint8_t *ret, size_t n)
{
    uint8_t bytes[64];
    struct str s = json_str(j);

    if (s.n == 2 * n && hex_decode(s, bytes) == 0)
        memcpy(ret, bytes, n);
    else if (base64_decoded_max(s) <= sizeof bytes && base64_decode(s, bytes) == (ssize_t) n)
        memcpy(ret, bytes, n);
}

/* 2, "2" or "SPAN_KIND_SERVER": the names without their common prefix are those of span_block.h, in capitals. */
static uint8_t read_enum(struct json *j, const char *prefix, const char *const *names, size_t n)
{
    struct str s;
    uint64_t v;

    if (json_peek(j) != JSON_STRING) {
        v = json_u64(j);
        return (uint8_t) MIN(v, 255u);
    }
    s = json_str(j);
    if (str_to_u64(s, 10, &v) == 0)
        return (uint8_t) MIN(v, 255u);
    if (!str_starts(s, str_from(prefix)))
        return 0;
    s = str_slice(s, strlen(prefix), s.n);
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;

        while (k < s.n && names[i][k] && (s.p[k] | 0x20) == names[i][k])
            k++;
        if (k == s.n && !names[i][k])
            return (uint8_t) i;
    }
    return 0;
}

/* --- resources --- */

static struct str read_value(struct json *j)
{
    struct str key, v = {0};

    if (begin_object(j))
        while (json_next_key(j, &key)) {
            if (str_is(key, "stringValue") && json_peek(j) == JSON_STRING)
                v = json_str(j);
            else
                json_skip(j);
        }
    return v;
}

static void read_attribute(struct json *j, struct span_row *s)
{
    struct str key, name = {0}, value = {0};

    if (begin_object(j))
        while (json_next_key(j, &key)) {
            if (str_is(key, "key"))
                name = json_str(j);
            else if (str_is(key, "value"))
                value = read_value(j);
            else
                json_skip(j);
        }
    if (str_is(name, SEMCONV_SERVICE_NAME))
        s->service = labels_service(value);
    else if (str_is(name, SEMCONV_SERVICE_VERSION))
        s->version = value;
    else if (str_is(name, SEMCONV_SERVICE_INSTANCE_ID))
        s->instance = value;
}

static void read_resource(struct json *j, struct span_row *s)
{
    struct str key;

    if (!begin_object(j))
        return;
    while (json_next_key(j, &key)) {
        if (!str_is(key, "attributes")) {
            json_skip(j);
            continue;
        }
        if (begin_array(j))
            while (json_next_item(j))
                read_attribute(j, s);
    }
}

/* --- spans --- */

static void read_status(struct json *j, struct span_row *s)
{
    struct str key;

    if (begin_object(j))
        while (json_next_key(j, &key)) {
            if (str_is(key, "code"))
                s->status = read_enum(j, "STATUS_CODE_", span_status_names, SPAN_STATUSES);
            else
                json_skip(j);
        }
}

static void read_span(struct json *j, const struct span_row *sender, struct span_decoded *d)
{
    struct span_row s = *sender;
    uint64_t start = 0, end = 0;
    struct str key;

    if (begin_object(j))
        while (json_next_key(j, &key)) {
            if (str_is(key, "traceId"))
                read_id(j, s.link.trace_id, 16);
            else if (str_is(key, "spanId"))
                read_id(j, s.link.span_id, 8);
            else if (str_is(key, "parentSpanId"))
                read_id(j, s.parent, 8);
            else if (str_is(key, "name"))
                s.name = json_str(j);
            else if (str_is(key, "kind"))
                s.kind = read_enum(j, "SPAN_KIND_", span_kind_names, SPAN_KINDS);
            else if (str_is(key, "startTimeUnixNano"))
                start = json_u64(j);
            else if (str_is(key, "endTimeUnixNano"))
                end = json_u64(j);
            else if (str_is(key, "status"))
                read_status(j, &s);
            else
                json_skip(j);
        }
    if (!j->err)
        span_decoded_add(d, &s, start, end);
}

static void read_scopes(struct json *j, const struct span_row *sender, struct span_decoded *d)
{
    struct str key;

    if (!begin_array(j))
        return;
    while (json_next_item(j)) {
        if (!begin_object(j))
            continue;
        while (json_next_key(j, &key)) {
            if (!str_is(key, "spans")) {
                json_skip(j);
                continue;
            }
            if (begin_array(j))
                while (json_next_item(j))
                    read_span(j, sender, d);
        }
    }
}

static void read_resource_spans(struct json *j, struct span_decoded *d)
{
    struct str lists[LISTS_MAX], key;
    struct span_row sender = {0};
    size_t n = 0;

    if (!begin_object(j))
        return;
    while (json_next_key(j, &key)) {
        if (str_is(key, "resource"))
            read_resource(j, &sender);
        else if (str_is(key, "scopeSpans") && n < LISTS_MAX)
            lists[n++] = json_raw(j);
        else
            json_skip(j);
    }
    for (size_t i = 0; i < n && !j->err; i++) {
        struct json part;

        json_init(&part, lists[i], j->arena);
        read_scopes(&part, &sender, d);
        if (part.err) {
            j->err = part.err;
            j->what = part.what;
        }
    }
}

int span_decode_json(struct str message, struct span_decoded *d, struct err *e)
{
    struct arena arena;
    struct str key;
    struct json j;
    int r;

    arena_init(&arena, STRINGS_MAX);
    json_init(&j, message, &arena);
    json_begin_object(&j);
    while (json_next_key(&j, &key)) {
        if (!str_is(key, "resourceSpans")) {
            json_skip(&j);
            continue;
        }
        if (begin_array(&j))
            while (json_next_item(&j))
                read_resource_spans(&j, d);
    }
    r = json_end(&j);
    if (r < 0) {
        r = json_error(&j, e);
        err_prefix(e, r, "OTLP traces: ");
    }
    arena_done(&arena);
    return r;
}
