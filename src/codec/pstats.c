/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads pstats files (pstats.h). Of Python's marshal format these types occur: dictionaries, tuples, strings, integers and
 * floats; the high bit of a type notes the value in a list, to which 'r' refers. Only functions and strings are kept in that
 * list: nothing else is referred to in a way that matters here.
 */
#include "codec/pstats.h"

#include <errno.h>
#include <math.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/wrap.h"
#include "codec/sample_sum.h"
#include "model/builder.h"
#include "model/semconv.h"

enum { REF = 0x80, DICT_END = '0' };

/* A value: a string, a number, or a function, which is a tuple of both. */
struct pstats_value {
    struct str text;
    double number;
    uint32_t location; /* of a function, plus one */
};

struct pstats {
    struct cursor c;
    size_t memory;
    struct builder *b;
    struct sample_sum sum;
    struct pstats_value *refs;
    size_t n_refs, cap_refs;
    uint32_t frame_type;
    int error;
};

static size_t note(struct pstats *p, uint8_t type)
{
    size_t limit = p->memory ? p->memory / sizeof *p->refs + 1 : UINT32_MAX;

    if (!(type & REF) || p->error)
        return SIZE_MAX;
    p->error = array_push(p->refs, p->n_refs, p->cap_refs, limit, (struct pstats_value){0});
    return p->error ? SIZE_MAX : p->n_refs - 1;
}

static struct str get_text(struct pstats *p, uint32_t n)
{
    const unsigned char *s = get_raw(&p->c, n);

    return (struct str){(const char *) s, s ? n : 0};
}

/* A scalar, or a reference to a value. */
static struct pstats_value get_scalar(struct pstats *p, uint8_t type)
{
    struct pstats_value v = {0};
    size_t ref = note(p, type);
    uint64_t bits;
    uint32_t i;

    switch (type & ~REF) {
    case 'z':
    case 'Z':
        v.text = get_text(p, get_u8(&p->c));
        break;
    case 'a':
    case 'A':
    case 'u':
    case 't':
    case 's':
        v.text = get_text(p, get_u32(&p->c));
        break;
    case 'i':
        v.number = (int32_t) get_u32(&p->c);
        break;
    case 'g':
        bits = get_u64(&p->c);
        memcpy(&v.number, &bits, sizeof v.number);
        break;
    case 'r':
        i = get_u32(&p->c);
        if (i < p->n_refs)
            v = p->refs[i];
        else
            cursor_fail(&p->c);
        break;
    default:
        cursor_fail(&p->c);
    }
    if (ref != SIZE_MAX)
        p->refs[ref] = v;
    return v;
}

/* The number of elements of a tuple; 0 and an error if there is none. */
static uint32_t begin_tuple(struct pstats *p, uint8_t type, size_t *ret_ref)
{
    *ret_ref = note(p, type);
    if ((type & ~REF) == ')')
        return get_u8(&p->c);
    if ((type & ~REF) == '(')
        return get_u32(&p->c);
    return (uint32_t) cursor_fail(&p->c);
}

/* (file, line, function), or a reference to one. */
static uint32_t get_function(struct pstats *p, uint8_t type)
{
    struct pstats_value file, line, name;
    struct function f = {0};
    struct line at = {0};
    size_t ref;

    if ((type & ~REF) == 'r')
        return get_scalar(p, type).location;
    if (begin_tuple(p, type, &ref) != 3)
        cursor_fail(&p->c);
    file = get_scalar(p, get_u8(&p->c));
    line = get_scalar(p, get_u8(&p->c));
    name = get_scalar(p, get_u8(&p->c));
    if (p->c.bad || p->error)
        return 0;
    f.name = builder_string(p->b, name.text.n ? name.text : STR("[unknown]"));
    f.filename = builder_string(p->b, str_is(file.text, "~") ? STR("") : file.text);
    at.line = MAX(clamp_double(line.number), 0);
    at.function = builder_function(p->b, &f);
    line.location = 1 + builder_location(p->b, &(struct builder_location){
                                                   .lines = &at, .n_lines = 1, .attrs = &p->frame_type, .n_attrs = 1});
    if (ref != SIZE_MAX)
        p->refs[ref] = line;
    return line.location;
}

static void add(struct pstats *p, uint32_t function, uint32_t caller, double calls, double seconds)
{
    uint32_t stack[] = {function - 1, caller - 1};
    struct sum_row row = {0};

    if (p->c.bad || p->error || !function || !(calls >= 0 && calls < 0x1p53) || !(seconds >= 0 && seconds < 1e9))
        return;
    row.stack = builder_stack(p->b, stack, caller ? 2 : 1);
    row.values[0] = (int64_t) calls;
    row.values[1] = llround(seconds * 1e9);
    p->error = builder_error(p->b) ? builder_error(p->b) : sample_sum_add(&p->sum, &row);
}

/* {caller: (calls, primitive calls, own, cumulative)}; profile, the slow one, has only the number of calls. */
static uint32_t read_callers(struct pstats *p, uint32_t function)
{
    uint8_t type = get_u8(&p->c), key;
    uint32_t n = 0;

    note(p, type);
    if ((type & ~REF) != '{')
        cursor_fail(&p->c);
    while (!p->c.bad && !p->error && (key = get_u8(&p->c)) != DICT_END) {
        uint32_t caller = get_function(p, key), k;
        double v[4] = {0};
        size_t ref;

        k = begin_tuple(p, get_u8(&p->c), &ref);
        if (k != 4)
            cursor_fail(&p->c);
        for (uint32_t i = 0; i < 4 && !p->c.bad; i++)
            v[i] = get_scalar(p, get_u8(&p->c)).number;
        add(p, function, caller, v[0], v[2]);
        n += caller > 0;
    }
    return n;
}

static int read_all(struct pstats *p, struct err *e)
{
    uint8_t type = get_u8(&p->c), key;
    struct value_type types[2];

    note(p, type);
    if ((type & ~REF) != '{')
        cursor_fail(&p->c);
    while (!p->c.bad && !p->error && (key = get_u8(&p->c)) != DICT_END) {
        uint32_t function = get_function(p, key);
        double v[4] = {0};
        size_t ref;

        if (begin_tuple(p, get_u8(&p->c), &ref) != 5)
            cursor_fail(&p->c);
        for (int i = 0; i < 4 && !p->c.bad; i++)
            v[i] = get_scalar(p, get_u8(&p->c)).number;
        if (read_callers(p, function) == 0)
            add(p, function, 0, v[1], v[2]);
    }
    if (p->error)
        return err_set(e, p->error, "pstats: %m");
    if (p->c.bad)
        return err_set(e, -EINVAL,
                       "pstats: the file is damaged, or was written by the module profile, which cProfile replaces");
    if (!p->sum.n)
        return err_set(e, -ENODATA, "pstats: no functions");
    types[0] = (struct value_type){builder_string(p->b, STR("calls")), builder_string(p->b, STR("count"))};
    types[1] = (struct value_type){builder_string(p->b, STR("wall")), builder_string(p->b, STR("nanoseconds"))};
    return sample_sum_write(&p->sum, 0, &(struct profile){.types = types, .n_types = 2}, 1, p->b);
}

bool pstats_probe(struct str data)
{
    return data.n > 8 && (data.p[0] & 0x7f) == '{' && ((data.p[1] & 0x7f) == '(' || (data.p[1] & 0x7f) == ')') &&
           (data.p[1] & 0x80 || data.p[0] & 0x80);
}

int pstats_decode(struct str data, size_t memory, struct batch **ret, struct err *e)
{
    struct pstats p = {.c = cursor_of(data.p, data.n), .memory = memory, .sum = {.limit = sample_sum_limit(memory)}};
    int r = builder_new(&(struct builder_limits){.memory = memory}, &p.b);

    if (r == 0) {
        builder_resource(p.b);
        builder_scope(p.b, (struct str){0}, (struct str){0});
        p.frame_type = builder_attr_str(p.b, STR(SEMCONV_FRAME_TYPE), STR("cpython"));
        r = read_all(&p, e);
    }
    if (r == 0)
        r = builder_finish(p.b, ret, e);
    builder_free(p.b);
    sample_sum_done(&p.sum);
    mem_free(p.refs);
    return r;
}
