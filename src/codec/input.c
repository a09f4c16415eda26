/* SPDX-License-Identifier: Apache-2.0 */
/* Detects the format of a profile and decodes it (input.h). */
#include "codec/input.h"

#include <errno.h>

#include "base/compress.h"
#include "base/fd.h"
#include "base/wire.h"
#include "codec/folded.h"
#include "codec/input_refuse.h"
#include "codec/jfr/jfr.h"
#include "codec/jsonfile/json_file.h"
#include "codec/otlp_file.h"
#include "codec/perf_data.h"
#include "codec/perf_script.h"
#include "codec/pprof.h"
#include "codec/pprof_legacy.h"
#include "codec/pstats.h"

enum { INFLATED_DEFAULT = 64 << 20 };

const struct input_limits input_local = {.inflated = UINT32_MAX - 1};

static const char *const names[] = {
    [INPUT_AUTO] = "auto",
    [INPUT_PPROF] = "pprof",
    [INPUT_LEGACY] = "pprof-legacy",
    [INPUT_OTLP] = "otlp",
    [INPUT_OTLP_JSON] = "otlp-json",
    [INPUT_OTLP_FRAMED] = "otlp-framed",
    [INPUT_FOLDED] = "folded",
    [INPUT_PERF_SCRIPT] = "perf-script",
    [INPUT_PERF_DATA] = "perf-data",
    [INPUT_PSTATS] = "pstats",
    [INPUT_JFR] = "jfr",
    [INPUT_CPUPROFILE] = "cpuprofile",
    [INPUT_HEAPPROFILE] = "heapprofile",
    [INPUT_CHROME_TRACE] = "chrome-trace",
    [INPUT_SPEEDSCOPE] = "speedscope",
    [INPUT_FIREFOX] = "firefox",
    [INPUT_GPROF2DOT] = "gprof2dot",
};

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

/* A pprof's sample_type holds numbers only; at the same place OTLP has a resource or a table, which contain
 * messages. */
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

/* Protobuf that is not a complete OTLP request: a pprof has fields above 2 (at least its string table). Input that ends
 * too early or has a field of the wrong type is recognised by its first field: text rarely begins with a line end. */
static enum input_format detect_protobuf(struct str data)
{
    const uint8_t *p = str_bytes(data), *end = p + data.n;
    enum input_format first = INPUT_AUTO, all = INPUT_AUTO;
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

static enum input_format json_input(enum json_file_form form)
{
    return (enum input_format)(INPUT_CPUPROFILE + (form - JSON_FILE_CPUPROFILE));
}

static enum json_file_form json_form(enum input_format f)
{
    return (enum json_file_form)(JSON_FILE_CPUPROFILE + (f - INPUT_CPUPROFILE));
}

/* Formats that have a distinctive beginning; INPUT_AUTO for others. */
static enum input_format detect(struct str data)
{
    enum json_file_form json;

    if (jfr_probe(data))
        return INPUT_JFR;
    if (perf_data_probe(data))
        return INPUT_PERF_DATA;
    if (pstats_probe(data))
        return INPUT_PSTATS;
    switch (otlp_file_detect(data.p, data.n)) {
    case OTLP_FILE_PROTOBUF:
        return INPUT_OTLP;
    case OTLP_FILE_JSON:
        return INPUT_OTLP_JSON;
    case OTLP_FILE_FRAMED:
        return INPUT_OTLP_FRAMED;
    default:
        json = json_file_detect(data);
        return json ? json_input(json) : detect_protobuf(data);
    }
}

/* --- decoding --- */

static size_t text_memory(const struct input_limits *l)
{
    return l->memory ? l->memory : l->inflated * 8;
}

/* As in pprof: input that is not profile.proto may be a legacy format; if it is not, the first error is more useful. */
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
    rl = pprof_legacy_decode(buf_str(in), text_memory(l), ret, legacy ? e : &again);
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
    struct folded_options folded = {.memory = text_memory(l)};
    struct jfr_options jfr = {.memory = text_memory(l), .times = l->times};
    struct perf_data_options perf = {text_memory(l), l->unwinder, l->times};
    struct str data = buf_str(in);
    int r;

    switch (f) {
    case INPUT_FOLDED:
        r = folded_decode(data, &folded, ret, e);
        break;
    case INPUT_JFR:
        r = jfr_decode(data, &jfr, ret, e);
        break;
    case INPUT_PSTATS:
        r = pstats_decode(data, text_memory(l), ret, e);
        break;
    case INPUT_PERF_DATA:
        r = perf_data_decode(data, &perf, ret, e);
        break;
    case INPUT_PERF_SCRIPT:
        r = perf_script_decode(data, text_memory(l), l->times, ret, e);
        break;
    default:
        r = json_file_decode(data, json_form(f), text_memory(l), l->times, ret, e);
    }
    if (r == 0)
        buf_done(in);
    return r;
}

/* Text, or binary data without a known beginning. Legacy formats are tried first: their first line is unambiguous. */
static int decode_unmarked(struct buf *in, const struct input_limits *l, struct batch **ret, enum input_format *format,
                           struct err *e)
{
    const char *known = input_refuse(buf_str(in));
    int r = known ? -ENOMSG : decode_pprof(in, l, true, ret, format, e);

    if (r != -ENOMSG)
        return r;
    if (!known && perf_script_probe(buf_str(in)))
        *format = INPUT_PERF_SCRIPT;
    else if (!known && folded_probe(buf_str(in)))
        *format = INPUT_FOLDED;
    else
        return err_set(e, -EINVAL, "%s", known ? known : "unrecognized profile format");
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
        return otlp_file_decode(in, &otlp, ret, e);
    case INPUT_FOLDED:
    case INPUT_PERF_SCRIPT:
    case INPUT_PERF_DATA:
    case INPUT_PSTATS:
    case INPUT_JFR:
    case INPUT_CPUPROFILE:
    case INPUT_HEAPPROFILE:
    case INPUT_CHROME_TRACE:
    case INPUT_SPEEDSCOPE:
    case INPUT_FIREFOX:
    case INPUT_GPROF2DOT:
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
