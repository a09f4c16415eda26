/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts a pprof profile from protobuf to JSON, see pprof_json.h. Driven by tables of fields, with one pass over the
 * message per field, so that repeated fields become one array whatever their order on the wire. 64-bit numbers are
 * strings in proto3's JSON.
 */
#include "server/pprof_json.h"

#include <errno.h>

#include "base/json.h"
#include "base/wire.h"

enum kind { INT, UINT, BOOL, TEXT, MESSAGE };

struct field {
    uint32_t number;
    const char *name;
    enum kind kind;
    bool repeated;
    const struct field *message;
};

static const struct field value_type[] = {{1, "type", INT}, {2, "unit", INT}, {0}};
static const struct field label[] = {{1, "key", INT}, {2, "str", INT}, {3, "num", INT}, {4, "numUnit", INT}, {0}};
static const struct field sample[] = {
    {1, "locationId", UINT, true}, {2, "value", INT, true}, {3, "label", MESSAGE, true, label}, {0}};
static const struct field mapping[] = {{1, "id", UINT},
                                       {2, "memoryStart", UINT},
                                       {3, "memoryLimit", UINT},
                                       {4, "fileOffset", UINT},
                                       {5, "filename", INT},
                                       {6, "buildId", INT},
                                       {7, "hasFunctions", BOOL},
                                       {8, "hasFilenames", BOOL},
                                       {9, "hasLineNumbers", BOOL},
                                       {10, "hasInlineFrames", BOOL},
                                       {0}};
static const struct field line[] = {{1, "functionId", UINT}, {2, "line", INT}, {3, "column", INT}, {0}};
static const struct field location[] = {{1, "id", UINT},       {2, "mappingId", UINT},
                                        {3, "address", UINT},  {4, "line", MESSAGE, true, line},
                                        {5, "isFolded", BOOL}, {0}};
static const struct field function[] = {{1, "id", UINT},      {2, "name", INT},      {3, "systemName", INT},
                                        {4, "filename", INT}, {5, "startLine", INT}, {0}};
static const struct field profile[] = {
    {1, "sampleType", MESSAGE, true, value_type},
    {2, "sample", MESSAGE, true, sample},
    {3, "mapping", MESSAGE, true, mapping},
    {4, "location", MESSAGE, true, location},
    {5, "function", MESSAGE, true, function},
    {6, "stringTable", TEXT, true},
    {7, "dropFrames", INT},
    {8, "keepFrames", INT},
    {9, "timeNanos", INT},
    {10, "durationNanos", INT},
    {11, "periodType", MESSAGE, false, value_type},
    {12, "period", INT},
    {13, "comment", INT, true},
    {14, "defaultSampleType", INT},
    {0},
};

static int put_message(struct buf *out, bool *first, const struct field *fields, struct str m);

static void put_number(struct buf *out, const struct field *f, uint64_t v)
{
    if (f->kind == BOOL) {
        buf_puts(out, v ? "true" : "false");
        return;
    }
    buf_putc(out, '"');
    if (f->kind == INT)
        json_put_i64(out, (int64_t) v);
    else
        json_put_u64(out, v);
    buf_putc(out, '"');
}

/* Writes the numbers of a packed field. */
static int put_packed(struct buf *out, bool *first, const struct field *f, struct str s)
{
    const uint8_t *p = str_bytes(s), *end = p + s.n;
    uint64_t v;

    while (p < end) {
        p = varint_read(p, end, &v);
        if (!p)
            return -EINVAL;
        json_sep(out, first);
        put_number(out, f, v);
    }
    return 0;
}

static int put_value(struct buf *out, bool *first, const struct field *f, const struct wire_field *w)
{
    bool inner = true, length = (w->tag & 7) == WIRE_LEN;
    int r = 0;

    if (f->kind < TEXT && length)
        return put_packed(out, first, f, wire_str(w));
    json_sep(out, first);
    if (f->kind == MESSAGE && length) {
        buf_putc(out, '{');
        r = put_message(out, &inner, f->message, wire_str(w));
        buf_putc(out, '}');
    } else if (f->kind == TEXT && length) {
        json_put_str(out, wire_str(w));
    } else {
        put_number(out, f, length ? 0 : w->v);
    }
    return r;
}

static int put_field(struct buf *out, bool *first, const struct field *f, struct str m)
{
    const uint8_t *p = str_bytes(m), *end = p + m.n;
    bool some = false, inner = true;
    int r = 0;

    while (r == 0 && p < end) {
        struct wire_field w;

        p = wire_next(p, end, &w);
        if (!p)
            return -EINVAL;
        if (w.tag >> 3 != f->number)
            continue;
        if (!some) {
            json_put_key(out, first, f->name);
            if (f->repeated)
                buf_putc(out, '[');
        } else if (!f->repeated) {
            return -EINVAL;
        }
        some = true;
        r = put_value(out, &inner, f, &w);
    }
    if (some && f->repeated)
        buf_putc(out, ']');
    return r;
}

static int put_message(struct buf *out, bool *first, const struct field *fields, struct str m)
{
    int r = 0;

    for (const struct field *f = fields; r == 0 && f->name; f++)
        r = put_field(out, first, f, m);
    return r;
}

int pprof_json(struct buf *out, bool *first, struct str message, struct err *e)
{
    int r = put_message(out, first, profile, message);

    return r < 0 ? err_set(e, r, "the profile cannot be read") : buf_error(out);
}
