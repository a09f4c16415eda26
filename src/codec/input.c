/* SPDX-License-Identifier: Apache-2.0 */
/* See input.h. */
#include "codec/input.h"

#include <ctype.h>
#include <errno.h>

#include "base/compress.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "codec/folded.h"
#include "codec/otlp.h"
#include "codec/perf_script.h"
#include "codec/pprof.h"
#include "codec/pprof_legacy.h"
#include "codec/wire.h"
#include "model/builder.h"

enum { INFLATED_DEFAULT = 64 << 20, FRAME_HEADER = 4 };

const struct input_limits input_local = {.inflated = UINT32_MAX - 1, .memory = SIZE_MAX / 2};

static const char *const names[] = {
    [INPUT_AUTO] = "auto",           [INPUT_PPROF] = "pprof",
    [INPUT_LEGACY] = "pprof-legacy", [INPUT_OTLP] = "otlp",
    [INPUT_OTLP_JSON] = "otlp-json", [INPUT_OTLP_FRAMED] = "otlp-framed",
    [INPUT_FOLDED] = "folded",       [INPUT_PERF_SCRIPT] = "perf-script",
};

const char *input_format_name(enum input_format f)
{
    return names[f];
}

int input_format_parse(struct str name, enum input_format *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (str_is(name, names[i])) {
            *ret = (enum input_format) i;
            return 0;
        }
    return -EINVAL;
}

/* --- detection --- */

/* A pprof's sample_type holds numbers only; where OTLP has a resource or a table, there are messages. */
static bool only_varints(const uint8_t *p, const uint8_t *end)
{
    struct wire_field f;

    while (p < end) {
        p = wire_next(p, end, &f);
        if (!p || (f.tag & 7) != WIRE_VARINT)
            return false;
    }
    return true;
}

/* The wire types of Profile's fields 1..15. Comments (13) may be packed or not. */
static bool is_pprof_field(uint32_t tag)
{
    uint32_t num = tag >> 3, type = tag & 7;

    if (num == 13)
        return type == WIRE_LEN || type == WIRE_VARINT;
    return type == (num <= 6 || num == 11 ? WIRE_LEN : WIRE_VARINT);
}

/* Protobuf by its fields: a pprof has fields above 2 (its string table at least), OTLP has none. A message that ends too
 * early, or has a field of the wrong type, is told by its first one: text rarely begins with a line end. */
static enum input_format detect_protobuf(struct str data)
{
    const uint8_t *p = (const uint8_t *) data.p, *end = p + data.n;
    enum input_format first = INPUT_AUTO, all = INPUT_OTLP;
    struct wire_field f;

    while (p < end) {
        p = wire_next(p, end, &f);
        if (!p || (f.tag >> 3 <= 15 && !is_pprof_field(f.tag)))
            return first;
        if (f.tag >> 3 > 2)
            all = INPUT_PPROF;
        else if (first == INPUT_AUTO && f.tag >> 3 == 1)
            first = f.v && only_varints(f.data, f.data + f.v) ? INPUT_PPROF : INPUT_OTLP;
    }
    return all;
}

static uint32_t frame_length(struct str data)
{
    const unsigned char *p = (const unsigned char *) data.p;

    return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3];
}

/* Lengths that lead exactly to the end, each before something that begins as a request does. */
static bool is_framed(struct str data)
{
    bool any = false;

    while (data.n > FRAME_HEADER) {
        uint32_t n = frame_length(data);
        char first = data.p[FRAME_HEADER];

        if (!n || n > data.n - FRAME_HEADER || (first != 0x0a && first != 0x12))
            return false;
        data = str_slice(data, (size_t) FRAME_HEADER + n, data.n);
        any = true;
    }
    return any && !data.n;
}

/* Formats that have a mark of their own; INPUT_AUTO for others. */
static enum input_format detect(struct str data)
{
    uint32_t i = 0;

    while (i < data.n && isspace((unsigned char) data.p[i]))
        i++;
    if (i < data.n && data.p[i] == '{')
        return INPUT_OTLP_JSON;
    return is_framed(data) ? INPUT_OTLP_FRAMED : detect_protobuf(data);
}

/* --- OTLP in pieces --- */

/* One batch of several. The first stays as it was decoded; a second one makes a builder of both. */
struct joiner {
    struct batch *first;
    struct builder *b;
    struct otlp_limits limits;
};

static int join(struct joiner *j, bool json, const char *p, size_t n, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *one = NULL;
    int r =
        json ? otlp_json_decode_borrowed(p, n, &j->limits, &one, e) : otlp_decode_borrowed(p, n, &j->limits, &one, e);

    if (r < 0)
        return r;
    if (!j->first) {
        j->first = TAKE(one);
        return 0;
    }
    if (!j->b) {
        r = builder_new(&(struct builder_limits){.memory = j->limits.memory}, &j->b);
        if (r == 0)
            r = builder_append(j->b, j->first);
    }
    return r < 0 ? r : builder_append(j->b, one);
}

static int join_frames(struct joiner *j, struct str data, struct err *e)
{
    size_t at = 0;

    while (data.n) {
        uint32_t n = data.n >= FRAME_HEADER ? frame_length(data) : 0;
        int r;

        if (!n || n > data.n - FRAME_HEADER)
            return err_set(e, -EINVAL, "OTLP frame at byte %zu: its length runs past the end", at);
        r = join(j, false, data.p + FRAME_HEADER, n, e);
        if (r < 0)
            return err_prefix(e, r, "OTLP frame at byte %zu: ", at);
        data = str_slice(data, (size_t) FRAME_HEADER + n, data.n);
        at += (size_t) FRAME_HEADER + n;
    }
    return 0;
}

/* JSON objects behind one another: json_raw() finds where each ends. */
static int join_json(struct joiner *j, struct str data, struct err *e)
{
    struct str rest = str_trim(data);

    while (rest.n) {
        struct arena scratch;
        struct json reader;
        struct str one;
        int r;

        arena_init(&scratch, 0);
        json_init(&reader, rest, &scratch);
        one = json_raw(&reader);
        r = reader.err;
        if (r < 0)
            r = json_error(&reader, e);
        else
            r = join(j, true, one.p, one.n, e);
        arena_done(&scratch);
        if (r < 0)
            return err_prefix(e, r, "OTLP JSON object at byte %zu: ", (size_t) (rest.p - data.p));
        rest = str_trim(str_slice(rest, (size_t) (one.p + one.n - rest.p), rest.n));
    }
    return 0;
}

static int decode_pieces(struct buf *in, enum input_format f, const struct input_limits *l, struct batch **ret,
                         struct err *e)
{
    struct joiner j = {.limits = {.input = l->inflated, .memory = l->memory}};
    int r = f == INPUT_OTLP_JSON ? join_json(&j, buf_str(in), e) : join_frames(&j, buf_str(in), e);

    if (r == 0 && j.b) {
        r = builder_finish(j.b, ret, e);
        if (r == 0)
            buf_done(in);
    } else if (r == 0 && j.first) {
        otlp_own(j.first, in);
        *ret = TAKE(j.first);
    } else if (r == 0) {
        r = err_set(e, -ENODATA, "no OTLP request in it");
    }
    batch_unref(j.first);
    builder_free(j.b);
    return r;
}

/* --- decoding --- */

/* As pprof does: what is not profile.proto may be a legacy format; if it is none, the first error tells more. */
static int decode_pprof(struct buf *in, const struct input_limits *l, bool legacy, struct batch **ret,
                        enum input_format *format, struct err *e)
{
    struct pprof_limits limits = {.inflated = l->inflated, .memory = l->memory};
    struct err again = {0};
    int r = -EBADMSG, rl;

    if (!legacy)
        r = pprof_decode(in, &limits, ret, e);
    if (r != -EBADMSG)
        return r;
    rl = pprof_legacy_decode(buf_str(in), l->memory, ret, legacy ? e : &again);
    if (rl == 0) {
        *format = INPUT_LEGACY;
        buf_done(in);
        return 0;
    }
    if (legacy || rl == -ENOMSG)
        return legacy ? rl : r;
    return err_set(e, rl, "%s", err_message(&again, rl));
}

static int decode_text(struct buf *in, enum input_format f, const struct input_limits *l, struct batch **ret,
                       struct err *e)
{
    struct folded_options folded = {.memory = l->memory};
    int r = f == INPUT_FOLDED ? folded_decode(buf_str(in), &folded, ret, e)
                              : perf_script_decode(buf_str(in), l->memory, ret, e);

    if (r == 0)
        buf_done(in);
    return r;
}

/* Text, or binary of no known mark. Legacy formats come first: their first line is unmistakable. */
static int decode_unmarked(struct buf *in, const struct input_limits *l, struct batch **ret, enum input_format *format,
                           struct err *e)
{
    int r = decode_pprof(in, l, true, ret, format, e);

    if (r != -ENOMSG)
        return r;
    if (perf_script_probe(buf_str(in)))
        *format = INPUT_PERF_SCRIPT;
    else if (folded_probe(buf_str(in)))
        *format = INPUT_FOLDED;
    else
        return err_set(e, -EINVAL, "unrecognized profile format");
    return decode_text(in, *format, l, ret, e);
}

static int decode_as(struct buf *in, enum input_format *f, const struct input_limits *l, struct batch **ret,
                     struct err *e)
{
    struct otlp_limits otlp = {.input = l->inflated, .memory = l->memory};

    switch (*f) {
    case INPUT_PPROF:
    case INPUT_LEGACY:
        return decode_pprof(in, l, *f == INPUT_LEGACY, ret, f, e);
    case INPUT_OTLP:
        return otlp_decode(in, &otlp, ret, e);
    case INPUT_OTLP_JSON:
    case INPUT_OTLP_FRAMED:
        return decode_pieces(in, *f, l, ret, e);
    case INPUT_FOLDED:
    case INPUT_PERF_SCRIPT:
        return decode_text(in, *f, l, ret, e);
    default:
        return decode_unmarked(in, l, ret, f, e);
    }
}

int input_decode(struct buf *in, enum input_format as, const struct input_limits *limits, struct batch **ret,
                 enum input_format *ret_format, struct err *e)
{
    struct input_limits l = limits ? *limits : (struct input_limits){0};
    enum input_format f = as;
    int r;

    if (!l.inflated)
        l.inflated = INFLATED_DEFAULT;
    if (!l.memory)
        l.memory = l.inflated * 8;
    r = compress_inflate_detect(in, l.inflated, e);
    if (r < 0)
        return r;
    if (!in->n)
        return err_set(e, -ENODATA, "empty input file");
    if (in->n > l.inflated)
        return err_set(e, -EFBIG, "%zu bytes, more than the limit of %zu", in->n, l.inflated);
    if (f == INPUT_AUTO)
        f = detect(buf_str(in));
    r = decode_as(in, &f, &l, ret, e);
    if (r == 0 && ret_format)
        *ret_format = f;
    return r;
}

int input_open(const char *path, enum input_format as, const struct input_limits *limits, struct batch **ret,
               enum input_format *ret_format, struct err *e)
{
    _cleanup_(buf_done) struct buf in = BUF_INIT;
    struct err why = {0};
    int r = fd_read_file(path, limits && limits->inflated ? limits->inflated : INFLATED_DEFAULT, &in, e);

    if (r < 0)
        return r;
    r = input_decode(&in, as, limits, ret, ret_format, &why);
    return r < 0 ? err_set(e, r, "%s: %s", strcmp(path, "-") == 0 ? "standard input" : path, err_message(&why, r)) : 0;
}
