/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the parameters of a question from text (query.h): for HTTP, the command line and MCP. */
#include <errno.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "query/query.h"

static int read_text(struct str s, struct query_params *p, void *at, struct err *e)
{
    (void) p, (void) e;
    *(struct str *) at = s;
    return 0;
}

static int read_time(struct str s, struct query_params *p, void *at, struct err *e)
{
    struct query_time *t = at;

    t->given = true;
    return clock_parse(s, p->now, &t->ns, e);
}

static int read_hex(struct str s, uint8_t *ret, size_t n, struct err *e)
{
    if (s.n != 2 * n || hex_decode(s, ret) < 0)
        return err_set(e, -EINVAL, "'%.*s' is not %zu hexadecimal digits", STR_FMT(s), 2 * n);
    return 0;
}

static int read_trace(struct str s, struct query_params *p, void *at, struct err *e)
{
    p->has_trace = true;
    return read_hex(s, at, sizeof p->trace_id, e);
}

static int read_span(struct str s, struct query_params *p, void *at, struct err *e)
{
    p->has_span = true;
    return read_hex(s, at, sizeof p->span_id, e);
}

static int read_profile(struct str s, struct query_params *p, void *at, struct err *e)
{
    struct id128 *id = at;
    uint8_t handle[16] = {0};
    int r = read_hex(s, handle, sizeof handle, e);

    p->has_profile = true;
    for (int i = 0; i < 8; i++) {
        id->hi = id->hi << 8 | handle[i];
        id->lo = id->lo << 8 | handle[8 + i];
    }
    return r;
}

static int read_times(struct str s, struct query_params *p, void *at, struct err *e)
{
    (void) p;
    *(bool *) at = str_is(s, "sample");
    if (str_is(s, "sample") || str_is(s, "profile"))
        return 0;
    return err_set(e, -EINVAL, "'%.*s' is not sample or profile", STR_FMT(s));
}

static int read_by(struct str s, struct query_params *p, void *at, struct err *e)
{
    static const char *const names[] = {[BY_FUNCTION] = "function",
                                        [BY_FILEFUNCTION] = "filefunction",
                                        [BY_FILE] = "file",
                                        [BY_LINE] = "line",
                                        [BY_ADDRESS] = "address"};

    (void) p;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (str_is(s, names[i])) {
            *(enum granularity *) at = (enum granularity) i;
            return 0;
        }
    return err_set(e, -EINVAL, "'%.*s' is not function, filefunction, file, line or address", STR_FMT(s));
}

static int read_nodes(struct str s, struct query_params *p, void *at, struct err *e)
{
    uint64_t v;

    (void) p;
    if (str_to_u64(s, 10, &v) < 0 || v > UINT32_MAX)
        return err_set(e, -EINVAL, "'%.*s' is not a number", STR_FMT(s));
    *(uint32_t *) at = (uint32_t) v;
    return 0;
}

static int read_share(struct str s, struct query_params *p, void *at, struct err *e)
{
    double *v = at;

    (void) p;
    if (str_to_double(s, v) < 0 || !(*v >= 0 && *v <= 1))
        return err_set(e, -EINVAL, "'%.*s' is not between 0 and 1", STR_FMT(s));
    return 0;
}

static int read_true(struct str s, struct query_params *p, void *at, struct err *e)
{
    (void) p, (void) e;
    *(bool *) at = str_is(s, "true");
    return 0;
}

#define AT(member) offsetof(struct query_params, member)
static const struct reader {
    const char *name;
    int (*read)(struct str s, struct query_params *p, void *at, struct err *e);
    size_t offset;
} readers[] = {
    {"query", read_text, AT(query)},
    {"from", read_time, AT(from)},
    {"to", read_time, AT(to)},
    {"base_query", read_text, AT(base_query)},
    {"base_from", read_time, AT(base_from)},
    {"base_to", read_time, AT(base_to)},
    {"trace_id", read_trace, AT(trace_id)},
    {"span_id", read_span, AT(span_id)},
    {"times", read_times, AT(by_sample)},
    {"profile", read_profile, AT(profile)},
    {"focus", read_text, AT(focus)},
    {"ignore", read_text, AT(ignore)},
    {"hide", read_text, AT(hide)},
    {"by", read_by, AT(by)},
    {"max_nodes", read_nodes, AT(max_nodes)},
    {"min_share", read_share, AT(min_share)},
    {"zoom", read_text, AT(zoom)},
    {"no_inlines", read_true, AT(no_inlines)},
};

int query_params_set(struct query_params *p, const char *name, struct str text, struct err *e)
{
    const struct reader *reader = readers;
    int r;

    if (!text.n)
        return 0;
    while (strcmp(reader->name, name) != 0)
        reader++;
    r = reader->read(text, p, (char *) p + reader->offset, e);
    return r < 0 ? err_prefix(e, r, "%s: ", name) : 0;
}

int query_params_read(struct query_params *p, const char *const *names, struct str (*get)(void *ctx, const char *name),
                      void *ctx, struct err *e)
{
    int r = 0;

    for (; r == 0 && *names; names++)
        r = query_params_set(p, *names, get(ctx, *names), e);
    return r;
}
