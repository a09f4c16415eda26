/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/v1/profile: the profiles of a selection as a file. The default is pprof, so that `go tool pprof
 * 'http://HOST:4040/api/v1/profile?query=…'` works. Other values of format: otlp, otlp-json, folded, speedscope, and
 * html, a self-contained flame graph (of a diff if base_* parameters are given). /api/v1/symbolz is where pprof asks for the
 * names that such a profile lacks.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/compress.h"
#include "codec/folded.h"
#include "codec/otlp.h"
#include "codec/pprof.h"
#include "codec/speedscope.h"
#include "model/convert.h"
#include "query/query.h"
#include "report/html.h"
#include "server/api.h"
#include "server/front.h"
#include "server/name_source.h"

/* The input of a writer: all profiles as sent, and the same merged into one (NULL if the selection is empty). */
struct profile_export {
    struct batch *all;
    struct batch *single;
    const struct profile *one;
    struct str comment; /* about damage; empty: none */
};

static int write_pprof(const struct profile_export *x, struct buf *out, struct err *e)
{
    _cleanup_(buf_done) struct buf plain = BUF_INIT;
    int r = pprof_encode_with(x->single, x->one, x->comment, &plain, e);

    return r < 0 ? r : compress_deflate(COMPRESS_GZIP, 1, plain.p, plain.n, out, e);
}

static int write_otlp(const struct profile_export *x, struct buf *out, struct err *e)
{
    return otlp_encode(x->all, NULL, out, e);
}

static int write_otlp_json(const struct profile_export *x, struct buf *out, struct err *e)
{
    return otlp_json_encode(x->all, out, e);
}

static int write_folded(const struct profile_export *x, struct buf *out, struct err *e)
{
    return folded_encode(x->single, x->one, 0, false, out, e);
}

static int write_speedscope(const struct profile_export *x, struct buf *out, struct err *e)
{
    return speedscope_encode(x->single, x->one, STR("wick"), out, e);
}

static const struct format {
    const char *name, *content_type, *extension;
    bool single; /* needs one merged profile */
    int (*write)(const struct profile_export *x, struct buf *out, struct err *e);
} formats[] = {
    {"pprof", "application/octet-stream", "pb.gz", true, write_pprof},
    {"otlp", "application/x-protobuf", "otlp.pb", false, write_otlp},
    {"otlp-json", "application/json", "otlp.json", false, write_otlp_json},
    {"folded", "text/plain; charset=utf-8", "folded", true, write_folded},
    {"speedscope", "application/json", "speedscope.json", true, write_speedscope},
};

static const struct format *find_format(struct str name)
{
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
        if (!name.n || str_is(name, formats[i].name))
            return &formats[i];
    return NULL;
}

static struct str param_of(void *ctx, const char *name)
{
    return call_param(ctx, name);
}

static int read_params(struct call *c, struct query_params *ret, struct err *e)
{
    static const char *const names[] = {"query", "from",  "to",     "trace_id", "span_id", "profile",
                                        "times", "focus", "ignore", "hide",     NULL};

    *ret = (struct query_params){.tenant = c->who.tenant,
                                 .names = name_source_names(front_options(c->front)->names),
                                 .now = clock_wall(),
                                 .memory_limit = front_options(c->front)->memory_limit,
                                 .cancel = &c->cancel,
                                 .notes = &c->notes};
    return query_params_read(ret, names, param_of, c, e);
}

static int select_profiles(struct call *c, struct batch **ret, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    struct query_params p;
    struct store *s;
    int r = call_store(c, &s, e);

    if (r == 0)
        r = read_params(c, &p, e);
    if (r == 0)
        r = query_compile(&p, &q, e);
    if (r < 0)
        return r;
    return query_export(s, q, ret, e);
}

/* The file is called what the client asks for (the UI: service, type and time), as far as that is harmless in a header and
 * in a name. */
static void add_file_name(struct call *c, const char *extension)
{
    struct str name = call_param(c, "name");
    bool plain = name.n > 0 && name.n <= 120 && name.p[0] != '.';
    char *header;

    for (uint32_t i = 0; i < name.n && plain; i++)
        plain = isalnum((unsigned char) name.p[i]) || strchr("._-", name.p[i]);
    if (!plain)
        name = STR("profile");
    header = arena_printf(&c->q->arena, "attachment; filename=\"%.*s.%s\"", (int) name.n, name.p, extension);
    if (header)
        http_add_header(c->q, "content-disposition", str_from(header));
}

static void put_time(struct buf *out, int64_t t)
{
    clock_format(out, t - t % NS_PER_MS);
}

/* "cpu{service.name="x"}, 2026-11-16T08:00:00Z to 2026-11-16T09:00:00Z" */
static void put_column(struct buf *out, const struct store_column *column, struct str query)
{
    buf_printf(out, "%.*s, ", STR_FMT(query.n ? query : STR("cpu")));
    put_time(out, column->taken_to ? column->taken_from : column->from);
    buf_puts(out, " to ");
    put_time(out, column->taken_to ? column->taken_to : column->to);
}

/* Of a difference, what is now comes first. */
static void put_title(struct buf *out, const struct query *q, const struct query_params *p)
{
    put_column(out, &q->q.columns[q->q.n_columns - 1], p->query);
    if (q->q.n_columns < 2)
        return;
    buf_puts(out, " against ");
    put_column(out, &q->q.columns[0], p->base_query.n ? p->base_query : p->query);
}

static int run_html(struct call *c, struct err *e)
{
    _cleanup_(query_freep) struct query *q = NULL;
    _cleanup_(tree_freep) struct tree *t = NULL;
    _cleanup_(buf_done) struct buf title = BUF_INIT;
    static const char *const base[] = {"base_query", "base_from", "base_to", NULL};
    struct query_params p;
    struct html_page page;
    struct store *s;
    int r = call_store(c, &s, e);

    if (r == 0)
        r = read_params(c, &p, e);
    if (r == 0)
        r = query_params_read(&p, base, param_of, c, e);
    p.by = BY_FILEFUNCTION; /* as the UI asks: filters match files, too */
    if (r == 0)
        r = query_compile(&p, &q, e);
    if (r < 0)
        return r;
    q->q.max_nodes = HTML_NODES_MAX;
    r = query_flame(s, q, &t, e);
    if (r == 0)
        r = query_coverage(s, q, t->covered_ns, e);
    if (r < 0)
        return r;
    put_title(&title, q, &p);
    if (buf_error(&title))
        return buf_error(&title);
    page = (struct html_page){buf_str(&title), call_param(c, "link"), c->notes.rate_min, c->notes.rate_max,
                              c->notes.rate_mean};
    c->content_type = "text/html; charset=utf-8";
    add_file_name(c, "html");
    return html_flame(t, &page, &c->out, e);
}

static int run_profile(struct call *c, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *all = NULL, *single = NULL;
    const struct format *f = find_format(call_param(c, "format"));
    struct profile_export x;
    int r;

    if (str_is(call_param(c, "format"), "html"))
        return run_html(c, e);
    if (!f)
        return err_set(e, -EINVAL, "format must be pprof, otlp, otlp-json, folded, speedscope or html");
    if (call_param(c, "base_query").n || call_param(c, "base_from").n || call_param(c, "base_to").n)
        return err_set(e, -EINVAL, "base_query, base_from, base_to: only format=html compares two selections");
    r = select_profiles(c, &all, e);
    if (r == 0 && f->single)
        r = convert_to_single(all, &single, e);
    if (r < 0)
        return r;
    x = (struct profile_export){all, single, single && single->n_profiles ? &single->profiles[0] : NULL,
                                call_damage(c)};
    if (f->single && !x.one)
        return err_set(e, -ENOENT, "no profile matches; 'wick query services' lists what is stored");
    c->content_type = f->content_type;
    add_file_name(c, f->extension);
    return f->write(&x, &c->out, e);
}

int api_no_symbols(struct call *c, struct err *e)
{
    (void) e;
    c->content_type = "text/plain; charset=utf-8";
    buf_puts(&c->out, "num_symbols: 0\n");
    return 0;
}

static const struct route routes[] = {
    {"GET", "/api/v1/profile", AUTH_READ, false, run_profile},
    {"GET", "/api/v1/symbolz", AUTH_READ, true, api_no_symbols},
    {"POST", "/api/v1/symbolz", AUTH_READ, true, api_no_symbols},
};

int api_mount_profile(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
