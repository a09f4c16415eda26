/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's own views as pages (pprof_http_pages.h). They show what pprof shows at the same address: the same report of
 * the same profile with the same options, and the same status if there is none. The page around it is our own, and has
 * no script: it uses links and one form.
 */
#include "pprof/pprof_http_pages.h"

#include <errno.h>

#include "base/wrap.h"
#include "net/http.h"
#include "pprof/pprof_http_files.h"
#include "pprof/pprof_objects.h"
#include "pprof/pprof_source.h"
#include "pprof/pprof_view.h"
#include "report/html_escape.h"
#include "report/report_driver.h"
#include "report/source.h"
#include "server/assets.h"
#include "server/front.h"

extern const char pprof_http_css[];
extern const size_t pprof_http_css_size;

enum { TOP_ROWS = 500, LISTED = 50 };

/* One view. */
struct view {
    const char *path, *title, *help;
    struct report_command command; /* argument: filled from "f" where has_argument */
    bool has_argument;
    int (*put)(struct call *c, struct report *r, struct buf *legend, struct buf *out, struct err *e);
};

static int put_top(struct call *c, struct report *r, struct buf *legend, struct buf *out, struct err *e);
static int put_graph(struct call *c, struct report *r, struct buf *legend, struct buf *out, struct err *e);
static int put_peek(struct call *c, struct report *r, struct buf *legend, struct buf *out, struct err *e);
static int put_source(struct call *c, struct report *r, struct buf *legend, struct buf *out, struct err *e);
static int put_disasm(struct call *c, struct report *r, struct buf *legend, struct buf *out, struct err *e);

static const struct view views[] = {
    {"top", "Top", "Outputs top entries in text form", {"top", REPORT_TEXT, {0}}, false, put_top},
    {"graph", "Graph", "Display profile as a directed graph", {"svg", REPORT_DOT, {0}}, false, put_graph},
    {"peek", "Peek", "Output callers/callees of functions matching regexp", {"peek", REPORT_TREE, {0}}, true, put_peek},
    {"source",
     "Source",
     "Output annotated source for functions matching regexp",
     {"weblist", REPORT_WEBLIST, {0}},
     true,
     put_source},
    {"disasm",
     "Disassemble",
     "Output assembly listings annotated with samples",
     {"disasm", REPORT_DISASM, {0}},
     true,
     put_disasm},
};

static struct pprof_files *files_of(struct call *c)
{
    return front_options(c->front)->store_ctx;
}

/* --- links --- */

/* The request's query with one parameter changed, escaped for an attribute. */
static void put_query(struct call *c, struct buf *out, const char *name, struct str value)
{
    _cleanup_(buf_done) struct buf q = BUF_INIT;
    struct str rest = c->q->query, key, old;

    while (http_query_next(&rest, &c->q->arena, &key, &old)) {
        if (str_is(key, name) || !old.n)
            continue;
        buf_putc(&q, q.n ? '&' : '?');
        http_percent_encode(&q, key);
        buf_putc(&q, '=');
        http_percent_encode(&q, old);
    }
    if (value.n) {
        buf_printf(&q, "%c%s=", q.n ? '&' : '?', name);
        http_percent_encode(&q, value);
    }
    html_put(out, buf_str(&q));
}

/* A regular expression that matches exactly this name. */
static struct str exactly(struct call *c, struct str name)
{
    _cleanup_(buf_done) struct buf re = BUF_INIT;

    buf_putc(&re, '^');
    for (uint32_t i = 0; i < name.n; i++) {
        if (name.p[i] && strchr("\\.+*?()|[]{}^$", name.p[i]))
            buf_putc(&re, '\\');
        buf_putc(&re, name.p[i]);
    }
    buf_putc(&re, '$');
    return arena_str(&c->q->arena, buf_str(&re));
}

/* --- the views' contents --- */

static void put_number_cells(const struct report *r, struct buf *out, int64_t v)
{
    buf_printf(out, "<td data-value=\"%lld\">", (long long) v);
    report_value(r, out, v);
    buf_puts(out, "</td><td>");
    units_percentage(out, v, r->total);
    buf_puts(out, "</td>");
}

static void put_row(struct call *c, const struct report *r, struct buf *out, const struct report_item *i, int64_t sum)
{
    struct str re = exactly(c, i->name);

    buf_puts(out, "<tr>");
    put_number_cells(r, out, i->flat);
    buf_puts(out, "<td>");
    units_percentage(out, sum, r->total);
    buf_puts(out, "</td>");
    put_number_cells(r, out, i->cum);
    buf_puts(out, "<td class=\"name\"><a href=\"peek");
    put_query(c, out, "f", re);
    buf_puts(out, "\">");
    html_put(out, i->name);
    buf_printf(out, "</a></td><td class=\"more\">%s</td><td class=\"more\"><a href=\"source", i->inline_label);
    put_query(c, out, "f", re);
    buf_puts(out, "\">source</a></td></tr>\n");
}

static int put_top(struct call *c, struct report *r, struct buf *legend, struct buf *out, struct err *e)
{
    struct report_item *items;
    int64_t sum = 0;
    size_t n;
    int result = report_items(r, &c->q->arena, &items, &n, legend);

    (void) e;
    if (result < 0)
        return result;
    buf_puts(out,
             "<table id=\"toptable\"><caption class=\"more\"></caption><thead><tr><th scope=\"col\"><a href=\"top");
    put_query(c, out, "sort", STR("flat"));
    buf_puts(out,
             "\">Flat</a></th><th scope=\"col\">Flat%</th><th scope=\"col\">Sum%</th><th scope=\"col\"><a href=\"top");
    put_query(c, out, "sort", STR("cum"));
    buf_puts(out, "\">Cum</a></th><th scope=\"col\">Cum%</th><th scope=\"col\" class=\"name\">Name</th>"
                  "<th scope=\"col\">Inlined?</th><th scope=\"col\">More</th></tr></thead><tbody>\n");
    for (size_t i = 0; i < n; i++) {
        wrap_inc(&sum, items[i].flat);
        put_row(c, r, out, &items[i], sum);
    }
    buf_puts(out, "</tbody></table>\n");
    return 0;
}

static int put_graph(struct call *c, struct report *r, struct buf *legend, struct buf *out, struct err *e)
{
    _cleanup_(buf_done) struct buf svg = BUF_INIT;
    struct err problem = {0};
    ptrdiff_t at;
    int result = report_print(r, &svg, e);

    if (result < 0)
        return result;
    report_profile_labels(r, legend);
    result = pprof_run_dot("svg", false, &svg, &problem);
    if (result < 0) {
        c->q->status = 501;
        return err_set(e, result, "Could not execute dot; may need to install graphviz.");
    }
    at = str_find(buf_str(&svg), STR("<svg")); /* the text before it is only for standalone files */
    buf_put_str(out, str_slice(buf_str(&svg), at < 0 ? 0 : (size_t) at, svg.n));
    return 0;
}

static void put_pre(struct buf *out, const struct buf *text)
{
    buf_puts(out, "<pre id=\"text\">\n");
    html_put(out, buf_str(text));
    buf_puts(out, "</pre>\n");
}

static int put_peek(struct call *c, struct report *r, struct buf *legend, struct buf *out, struct err *e)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    int result = report_print(r, &text, e);

    (void) c;
    if (result < 0)
        return result;
    report_profile_labels(r, legend);
    put_pre(out, &text);
    return 0;
}

static int put_source(struct call *c, struct report *r, struct buf *legend, struct buf *out, struct err *e)
{
    _cleanup_(pprof_objects_freep) struct pprof_objects *o = NULL;
    int result = pprof_objects_new(pprof_files_args(files_of(c))->tools, &o, e);

    if (result < 0)
        return result;
    report_profile_labels(r, legend);
    buf_puts(out, "<div class=\"source\">");
    result = report_weblist(r, pprof_objects_table(o), out, e);
    buf_puts(out, "</div>\n");
    return result;
}

static int put_disasm(struct call *c, struct report *r, struct buf *legend, struct buf *out, struct err *e)
{
    _cleanup_(pprof_objects_freep) struct pprof_objects *o = NULL;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    int result = pprof_objects_new(pprof_files_args(files_of(c))->tools, &o, e);

    if (result >= 0)
        result = report_disasm(r, pprof_objects_table(o), &text, e);
    if (result < 0)
        return result;
    report_profile_labels(r, legend);
    put_pre(out, &text);
    return 0;
}

/* --- the page around them --- */

static struct str legend_value(struct str legend, struct str key)
{
    while (legend.n) {
        struct str line = str_cut(&legend, '\n');

        if (str_starts(line, key))
            return str_slice(line, key.n, line.n);
    }
    return STR("unknown");
}

static void put_links(struct call *c, struct buf *out, const struct view *v)
{
    buf_puts(out, "<nav aria-label=\"views\"><a href=\"flamegraph");
    put_query(c, out, "", (struct str){0});
    buf_puts(out, "\">Explore</a>");
    for (size_t i = 0; i < ARRAY_SIZE(views); i++) {
        buf_printf(out, "<a title=\"%s\"%s href=\"%s", views[i].help, v == &views[i] ? " aria-current=\"page\"" : "",
                   views[i].path);
        put_query(c, out, "", (struct str){0});
        buf_printf(out, "\">%s</a>", views[i].title);
    }
    buf_puts(out, "<a href=\"download\">Download</a></nav>");
}

static void put_sample_types(struct call *c, struct buf *out)
{
    const struct prof *p = pprof_files_prof(files_of(c));
    struct str chosen = call_param(c, "si");
    int index = prof_type_index(p, chosen.n ? chosen : pprof_files_args(files_of(c))->config.sample_index, NULL);

    buf_puts(out, "<label>Sample <select name=\"si\">");
    for (uint32_t i = 0; i < p->n_types; i++) {
        buf_puts(out, "<option");
        buf_puts(out, (int) i == index ? " selected>" : ">");
        html_put(out, prof_str(p, p->types[i].type));
        buf_puts(out, "</option>");
    }
    buf_puts(out, "</select></label>");
}

/* Filters as one form; the other parameters of the URL are kept. */
static void put_form(struct call *c, struct buf *out, const struct view *v)
{
    static const char *const shown[][2] = {{"f", "Focus"}, {"i", "Ignore"},     {"h", "Hide"},
                                           {"s", "Show"},  {"sf", "Show from"}, {"tf", "Tag focus"}};
    struct str rest = c->q->query, key, value;

    buf_printf(out, "<form action=\"%s\" role=\"search\">", v->path);
    put_sample_types(c, out);
    for (size_t i = 0; i < ARRAY_SIZE(shown); i++) {
        buf_printf(out, "<label>%s <input name=\"%s\" value=\"", shown[i][1], shown[i][0]);
        html_put(out, call_param(c, shown[i][0]));
        buf_puts(out, "\"></label>");
    }
    while (http_query_next(&rest, &c->q->arena, &key, &value)) {
        bool known = str_is(key, "si");

        for (size_t i = 0; i < ARRAY_SIZE(shown); i++)
            known |= str_is(key, shown[i][0]);
        if (known)
            continue;
        buf_puts(out, "<input type=\"hidden\" name=\"");
        html_put(out, key);
        buf_puts(out, "\" value=\"");
        html_put(out, value);
        buf_puts(out, "\">");
    }
    buf_printf(out, "<button>Refine</button> <a href=\"%s\">Reset</a></form>", v->path);
}

static void put_page(struct call *c, const struct view *v, const struct buf *legend, const struct buf *errors,
                     const struct buf *content)
{
    struct buf *out = &c->out;
    struct str lines = buf_str(legend), rest = buf_str(errors);

    buf_puts(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    html_put(out, legend_value(lines, STR("File: ")));
    buf_putc(out, ' ');
    html_put(out, legend_value(lines, STR("Type: ")));
    buf_printf(out,
               " – %s</title>\n<link rel=\"icon\" href=\"assets/icon.svg\">\n"
               "<link rel=\"stylesheet\" href=\"pprof.css\">\n</head>\n<body>\n"
               "<header><h1><img src=\"assets/icon.svg\" alt=\"\" width=\"20\" height=\"20\">wick</h1>",
               v->title);
    put_links(c, out, v);
    buf_puts(out, "</header>\n");
    put_form(c, out, v);
    buf_puts(out, "<main>\n");
    if (rest.n)
        buf_puts(out, "<ul class=\"errors\">");
    for (bool any = rest.n > 0; any; any = rest.n > 0) {
        buf_puts(out, "<li>");
        html_put(out, str_cut(&rest, '\n'));
        buf_puts(out, "</li>");
        if (!rest.n)
            buf_puts(out, "</ul>\n");
    }
    buf_puts(out, "<details class=\"legend\" open><summary>");
    html_put(out, legend_value(lines, STR("File: ")));
    buf_putc(out, ' ');
    html_put(out, legend_value(lines, STR("Type: ")));
    buf_puts(out, "</summary><pre id=\"legend\">\n");
    html_put(out, lines);
    buf_puts(out, "</pre></details>\n");
    buf_put_str(out, buf_str(content));
    buf_puts(out, "</main>\n</body>\n</html>\n");
}

/* --- running one --- */

static void collect_error(void *arg, const char *text)
{
    struct buf *errors = arg;

    buf_puts(errors, text);
    if (errors->n && errors->p[errors->n - 1] != '\n')
        buf_putc(errors, '\n');
    pprof_say(NULL, text);
}

/* Called with the profile's lock held. */
struct view_parts {
    struct buf legend, errors, content;
};

static void view_parts_done(struct view_parts *p)
{
    buf_done(&p->legend);
    buf_done(&p->errors);
    buf_done(&p->content);
}

static int make_view(struct call *c, const struct view *v, const struct pprof_config *config, struct view_parts *parts,
                     struct err *e)
{
    _cleanup_(prof_freep) struct prof *p = NULL;
    struct report_command cmd = v->command;
    struct report_run run;
    int r = prof_copy(pprof_files_prof(files_of(c)), &p);

    if (r < 0)
        return r;
    if (v->has_argument)
        cmd.argument = call_param(c, "f");
    r = report_run_prepare(&run, p, &cmd, config, &(struct report_say){collect_error, &parts->errors}, e);
    if (r >= 0) {
        run.report.o.part_of_page = LISTED;
        r = v->put(c, &run.report, &parts->legend, &parts->content, e);
    }
    report_run_done(&run);
    return r;
}

/* As in pprof, errors are answered in plain text. */
static int answer_error(struct call *c, const struct err *e, int r)
{
    if (c->q->status != 501)
        c->q->status = 400;
    c->content_type = "text/plain; charset=utf-8";
    buf_reset(&c->out);
    buf_printf(&c->out, "%s\n", err_message(e, r));
    pprof_say(NULL, err_message(e, r));
    return 0;
}

static int run_view(struct call *c, struct err *e)
{
    _cleanup_(view_parts_done) struct view_parts parts = {BUF_INIT, BUF_INIT, BUF_INIT};
    const struct view *v = c->route->arg;
    struct pprof_files *f = files_of(c);
    struct pprof_config config;
    int r = pprof_files_config(f, c->q->query, &c->q->arena, &config, e);

    if (strcmp(v->path, "top") == 0)
        config.nodecount = TOP_ROWS;
    if (strcmp(v->path, "peek") == 0)
        config.granularity = STR("lines");
    if (r >= 0) {
        pprof_files_lock(f);
        r = make_view(c, v, &config, &parts, e);
        pprof_files_unlock(f);
    }
    if (r == -ENOMEM)
        return r;
    if (r < 0)
        return answer_error(c, e, r);
    c->content_type = "text/html; charset=utf-8";
    asset_page_headers(c->q);
    put_page(c, v, &parts.legend, &parts.errors, &parts.content);
    return 0;
}

static int run_download(struct call *c, struct err *e)
{
    struct pprof_files *f = files_of(c);
    int r;

    pprof_files_lock(f);
    r = pprof_write(pprof_files_prof(f), &c->out, e);
    pprof_files_unlock(f);
    c->content_type = "application/vnd.google.protobuf+gzip";
    http_add_header(c->q, "content-disposition", STR("attachment;filename=profile.pb.gz"));
    return r;
}

static int run_css(struct call *c, struct err *e)
{
    (void) e;
    c->content_type = "text/css; charset=utf-8";
    buf_put(&c->out, pprof_http_css, pprof_http_css_size);
    return 0;
}

/* Redirects to the flame graph, with the same query. */
static int run_redirect(struct call *c, struct err *e)
{
    char *target = arena_printf(&c->q->arena, "flamegraph%s%.*s", c->q->query.n ? "?" : "", STR_FMT(c->q->query));

    (void) e;
    if (!target)
        return -ENOMEM;
    c->q->status = 301;
    http_add_header(c->q, "location", str_from(target));
    return 0;
}

static const struct route routes[] = {
    {"GET", "/", AUTH_READ, true, run_redirect},
    {"GET", "/flamegraph2", AUTH_READ, true, run_redirect},
    {"GET", "/flamegraphold", AUTH_READ, true, run_redirect},
    {"GET", "/top", AUTH_READ, false, run_view, (void *) &views[0]},
    {"GET", "/graph", AUTH_READ, false, run_view, (void *) &views[1]},
    {"GET", "/peek", AUTH_READ, false, run_view, (void *) &views[2]},
    {"GET", "/source", AUTH_READ, false, run_view, (void *) &views[3]},
    {"GET", "/disasm", AUTH_READ, false, run_view, (void *) &views[4]},
    {"GET", "/download", AUTH_READ, false, run_download},
    {"GET", "/pprof.css", AUTH_READ, true, run_css},
};

int pprof_pages_mount(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
