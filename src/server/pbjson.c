/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes small messages as protobuf or JSON, see pbjson.h. Lengths of protobuf messages are written as
 * five-byte varints, filled in when the message ends. */
#include "server/pbjson.h"

#include <errno.h>

#include "base/json.h"
#include "base/wire.h"

enum { LENGTH_BYTES = 5 };

/* --- writing --- */

static void put_tag(struct pbjson *w, uint32_t field, enum wire_type type)
{
    wire_put_varint(w->out, WIRE_TAG(field, type));
}

/* Writes the comma and the field name if they are needed at this position. */
static void json_place(struct pbjson *w, const char *name)
{
    bool *first = &w->first[w->depth];

    if (name)
        json_put_key(w->out, first, name);
    else
        json_sep(w->out, first);
}

static void push(struct pbjson *w)
{
    if (w->depth + 1 < PBJSON_DEPTH_MAX * 2)
        w->depth++;
    else
        w->out->err = -E2BIG;
    w->first[w->depth] = true;
    w->start[w->depth] = w->out->n;
}

void pbjson_open(struct pbjson *w, struct buf *out, bool json)
{
    *w = (struct pbjson){.out = out, .json = json, .first = {true}};
    if (json)
        buf_putc(out, '{');
}

void pbjson_close(struct pbjson *w)
{
    if (w->json)
        buf_putc(w->out, '}');
}

void pbjson_begin(struct pbjson *w, uint32_t field, const char *name)
{
    if (w->json) {
        json_place(w, name);
        buf_putc(w->out, '{');
    } else {
        put_tag(w, field, WIRE_LEN);
        buf_pad(w->out, 0, LENGTH_BYTES);
    }
    push(w);
}

void pbjson_end(struct pbjson *w)
{
    size_t n = w->out->n - w->start[w->depth];
    unsigned char *at;

    if (w->json) {
        buf_putc(w->out, '}');
    } else if (!buf_error(w->out)) {
        at = (unsigned char *) w->out->p + w->start[w->depth] - LENGTH_BYTES;
        for (int i = 0; i < LENGTH_BYTES; i++)
            at[i] = (unsigned char) ((n >> (7 * i) & 0x7f) | (i < LENGTH_BYTES - 1 ? 0x80 : 0));
    }
    if (w->depth)
        w->depth--;
}

void pbjson_list(struct pbjson *w, const char *name)
{
    if (!w->json)
        return;
    json_place(w, name);
    buf_putc(w->out, '[');
    push(w);
}

void pbjson_list_end(struct pbjson *w)
{
    if (!w->json)
        return;
    buf_putc(w->out, ']');
    w->depth--;
}

void pbjson_str(struct pbjson *w, uint32_t field, const char *name, struct str v)
{
    if (w->json) {
        json_place(w, name);
        json_put_str(w->out, v);
        return;
    }
    put_tag(w, field, WIRE_LEN);
    wire_put_varint(w->out, v.n);
    buf_put_str(w->out, v);
}

void pbjson_i64(struct pbjson *w, uint32_t field, const char *name, int64_t v)
{
    if (w->json) {
        json_place(w, name);
        buf_putc(w->out, '"');
        json_put_i64(w->out, v);
        buf_putc(w->out, '"');
        return;
    }
    put_tag(w, field, WIRE_VARINT);
    wire_put_varint(w->out, (uint64_t) v);
}

void pbjson_i32(struct pbjson *w, uint32_t field, const char *name, int32_t v)
{
    if (w->json) {
        json_place(w, name);
        json_put_i64(w->out, v);
        return;
    }
    put_tag(w, field, WIRE_VARINT);
    wire_put_varint(w->out, (uint64_t) (int64_t) v);
}

void pbjson_double(struct pbjson *w, uint32_t field, const char *name, double v)
{
    uint64_t bits;

    if (w->json) {
        json_place(w, name);
        json_put_double(w->out, v);
        return;
    }
    memcpy(&bits, &v, sizeof bits);
    put_tag(w, field, WIRE_I64);
    put_u64(w->out, bits);
}

void pbjson_bool(struct pbjson *w, uint32_t field, const char *name, bool v)
{
    if (w->json) {
        json_place(w, name);
        buf_puts(w->out, v ? "true" : "false");
        return;
    }
    put_tag(w, field, WIRE_VARINT);
    wire_put_varint(w->out, v);
}

void pbjson_i64s(struct pbjson *w, uint32_t field, const char *name, const int64_t *v, size_t n)
{
    if (w->json) {
        pbjson_list(w, name);
        for (size_t i = 0; i < n; i++)
            pbjson_i64(w, field, NULL, v[i]);
        pbjson_list_end(w);
        return;
    }
    pbjson_begin(w, field, name);
    for (size_t i = 0; i < n; i++)
        wire_put_varint(w->out, (uint64_t) v[i]);
    pbjson_end(w);
}

/* --- reading --- */

static int add_str(struct pbjson_strs *l, struct str s, struct err *e)
{
    if (l->n == PBJSON_STRS_MAX)
        return err_set(e, -E2BIG, "more than %d strings in a list", PBJSON_STRS_MAX);
    l->v[l->n++] = s;
    return 0;
}

static const struct pbjson_field *field_named(const struct pbjson_field *f, struct str name)
{
    for (; f->name; f++)
        if (str_is(name, f->name) || (f->other && str_is(name, f->other)))
            return f;
    return NULL;
}

static int read_json(const struct pbjson_field *fields, struct json *j, void *out, struct err *e);

static int read_enum(const struct pbjson_field *f, struct json *j, int64_t *ret, struct err *e)
{
    struct str name;

    if (json_peek(j) != JSON_STRING) {
        *ret = json_i64(j);
        return 0;
    }
    name = json_str(j);
    for (int64_t i = 0; f->names && f->names[i]; i++)
        if (str_is(name, f->names[i])) {
            *ret = i;
            return 0;
        }
    return err_set(e, -EINVAL, "%s: '%.*s' is not a known value", f->name, STR_FMT(name));
}

static int read_json_message(const struct pbjson_field *f, struct json *j, void *p, struct err *e)
{
    int r = 0;

    if (json_peek(j) == JSON_OBJECT)
        return read_json(f->message, j, p, e);
    if (json_peek(j) != JSON_ARRAY) {
        json_skip(j);
        return 0;
    }
    json_begin_array(j);
    while (r == 0 && json_next_item(j)) {
        if (json_peek(j) == JSON_OBJECT)
            r = read_json(f->message, j, p, e);
        else
            json_skip(j);
    }
    return r;
}

static int read_json_value(const struct pbjson_field *f, struct json *j, void *out, struct err *e)
{
    void *p = (char *) out + f->offset;
    int r = 0;

    switch (f->kind) {
    case PBJSON_STR:
        *(struct str *) p = json_str(j);
        break;
    case PBJSON_I64:
        *(int64_t *) p = json_i64(j);
        break;
    case PBJSON_BOOL:
        *(int64_t *) p = json_bool(j);
        break;
    case PBJSON_ENUM:
        r = read_enum(f, j, p, e);
        break;
    case PBJSON_STR_ADD:
        r = add_str(p, json_str(j), e);
        break;
    case PBJSON_DOUBLE:
        *(double *) p = json_double(j);
        break;
    case PBJSON_STRS:
        json_begin_array(j);
        while (r == 0 && json_next_item(j))
            r = add_str(p, json_str(j), e);
        break;
    case PBJSON_MESSAGE:
        r = read_json_message(f, j, p, e);
        break;
    }
    return r;
}

static int read_json(const struct pbjson_field *fields, struct json *j, void *out, struct err *e)
{
    struct str key;
    int r = 0;

    json_begin_object(j);
    while (r == 0 && json_next_key(j, &key)) {
        const struct pbjson_field *f = field_named(fields, key);

        if (f)
            r = read_json_value(f, j, out, e);
        else
            json_skip(j);
    }
    return r;
}

static int read_wire(const struct pbjson_field *fields, struct str text, void *out, struct err *e);

static int read_wire_value(const struct pbjson_field *f, const struct wire_field *w, void *out, struct err *e)
{
    void *p = (char *) out + f->offset;
    uint32_t type = w->tag & 7;

    if ((f->kind == PBJSON_I64 || f->kind == PBJSON_BOOL || f->kind == PBJSON_ENUM) && type == WIRE_VARINT)
        *(int64_t *) p = (int64_t) w->v;
    else if (f->kind == PBJSON_DOUBLE && type == WIRE_I64)
        memcpy(p, &w->v, sizeof(double));
    else if (f->kind == PBJSON_STR && type == WIRE_LEN)
        *(struct str *) p = wire_str(w);
    else if ((f->kind == PBJSON_STRS || f->kind == PBJSON_STR_ADD) && type == WIRE_LEN)
        return add_str(p, wire_str(w), e);
    else if (f->kind == PBJSON_MESSAGE && type == WIRE_LEN)
        return read_wire(f->message, wire_str(w), p, e);
    return 0;
}

static int read_wire(const struct pbjson_field *fields, struct str text, void *out, struct err *e)
{
    const uint8_t *p = str_bytes(text), *end = p + text.n;
    int r = 0;

    while (r == 0 && p < end) {
        struct wire_field w;

        p = wire_next(p, end, &w);
        if (!p)
            return err_set(e, -EINVAL, "the message is not protobuf");
        for (const struct pbjson_field *f = fields; r == 0 && f->name; f++)
            if (f->field == w.tag >> 3)
                r = read_wire_value(f, &w, out, e);
    }
    return r;
}

int pbjson_read(const struct pbjson_field *fields, struct str text, bool json, struct arena *a, void *out,
                struct err *e)
{
    struct json j;
    int r;

    if (!json)
        return read_wire(fields, text, out, e);
    if (!str_trim(text).n)
        return 0; /* an empty body is an empty message */
    json_init(&j, text, a);
    r = read_json(fields, &j, out, e);
    if (r == 0 && json_end(&j) < 0)
        r = json_error(&j, e);
    return r;
}
