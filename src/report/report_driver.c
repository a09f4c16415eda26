/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares a report from a profile and pprof's options: overrides, filters, granularity. */
#include "report/report_driver.h"

#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "report/gopath.h"

enum { NODES_DEFAULT = 80 };

/* Commands that show single functions need every node. granularity: NULL: the option's; noinlines: -1: the option's. */
static const struct whole_command {
    const char *name, *granularity;
    int noinlines;
} whole_commands[] = {
    {"disasm", "addresses", 1},
    {"weblist", "addresses", 0},
    {"list", "lines", -1},
    {"peek", NULL, -1},
};

static const struct whole_command *whole_command(const char *name)
{
    const struct whole_command *w = whole_commands, *end = whole_commands + ARRAY_SIZE(whole_commands);

    while (w < end && strcmp(w->name, name) != 0)
        w++;
    return w < end ? w : NULL;
}

static void apply_overrides(const struct report_command *cmd, struct pprof_config *c)
{
    bool is_profile = cmd->format == REPORT_PROTO || cmd->format == REPORT_RAW || cmd->format == REPORT_CALLGRIND;
    bool is_list = cmd->format == REPORT_TEXT || cmd->format == REPORT_TOPPROTO;
    const struct whole_command *w = whole_command(cmd->name);

    if (is_profile)
        c->granularity = STR("addresses");
    else if (w && w->granularity)
        c->granularity = str_from(w->granularity);
    if (w && w->noinlines >= 0)
        c->noinlines = w->noinlines;
    if (w || is_profile)
        c->trim = false;
    if (!c->trim)
        c->nodefraction = c->edgefraction = 0;
    if (!c->trim || c->nodecount == -1)
        c->nodecount = !c->trim || is_list ? 0 : NODES_DEFAULT;
}

static struct graph_detail detail_of(const struct pprof_config *c)
{
    struct graph_detail d = {.inlines = !c->noinlines};
    struct str g = c->granularity;

    d.address = str_is(g, "addresses");
    d.line = d.address || str_is(g, "lines");
    d.filename = d.line || str_is(g, "files") || str_is(g, "filefunctions");
    d.function = !str_is(g, "files");
    d.column = c->showcolumns || (d.address && d.inlines); /* then no lines are merged */
    return d;
}

/* --- filters --- */

static void warn_no_match(const struct report_say *say, bool matched, const char *option)
{
    char text[80];

    if (matched || !say->fn)
        return;
    snprintf(text, sizeof(text), "%s expression matched no samples", option);
    say->fn(say->arg, text);
}

static int compile(const char *name, struct str text, struct regex **ret, struct err *e)
{
    int r;

    if (!text.n)
        return 0;
    r = regex_new_go(text, ret, e);
    return r < 0 ? err_prefix(e, r, "parsing %s regexp: ", name) : 0;
}

static int compile_tag(const char *name, struct str text, struct tag_filter **ret, const struct report_say *say,
                       struct err *e)
{
    _cleanup_(buf_done) struct buf note = BUF_INIT;
    bool range;
    int r;

    if (!text.n)
        return 0;
    r = tag_filter_new(name, text, ret, &range, e);
    if (r < 0)
        return r;
    if (range) {
        buf_printf(&note, "%s:Interpreted '%.*s' as range, not regexp", name, STR_FMT(tag_filter_value(text)));
        if (say->fn && buf_cstr(&note))
            say->fn(say->arg, note.p);
    }
    return 0;
}

struct filters {
    struct regex *focus, *ignore, *hide, *show, *show_from, *prune_from, *tagshow, *taghide;
    struct tag_filter *tagfocus, *tagignore;
};

static void filters_done(struct filters *f)
{
    struct regex *all[] = {f->focus, f->ignore, f->hide, f->show, f->show_from, f->prune_from, f->tagshow, f->taghide};

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        regex_free(all[i]);
    tag_filter_free(f->tagfocus);
    tag_filter_free(f->tagignore);
}

static int filters_compile(struct filters *f, const struct pprof_config *c, const struct report_say *say, struct err *e)
{
    int r = compile("focus", c->focus, &f->focus, e);

    if (r >= 0)
        r = compile("ignore", c->ignore, &f->ignore, e);
    if (r >= 0)
        r = compile("hide", c->hide, &f->hide, e);
    if (r >= 0)
        r = compile("show", c->show, &f->show, e);
    if (r >= 0)
        r = compile("show_from", c->show_from, &f->show_from, e);
    if (r >= 0)
        r = compile_tag("tagfocus", c->tagfocus, &f->tagfocus, say, e);
    if (r >= 0)
        r = compile_tag("tagignore", c->tagignore, &f->tagignore, say, e);
    if (r >= 0)
        r = compile("prune_from", c->prune_from, &f->prune_from, e);
    return r;
}

static int filter_tags(struct prof *p, struct filters *f, const struct pprof_config *c, const struct report_say *say,
                       struct err *e)
{
    bool shown, hidden;
    int r = compile("tagshow", c->tagshow, &f->tagshow, e);

    if (r >= 0)
        r = compile("taghide", c->taghide, &f->taghide, e);
    if (r >= 0 && (f->tagshow || f->taghide)) {
        r = filter_tags_by_name(p, f->tagshow, f->taghide, &shown, &hidden);
        warn_no_match(say, !f->tagshow || shown, "TagShow");
        warn_no_match(say, !f->taghide || hidden, "TagHide");
    }
    return r;
}

static int apply_filters(struct prof *p, const struct label_units *units, const struct pprof_config *c,
                         const struct report_say *say, struct err *e)
{
    _cleanup_(filters_done) struct filters f = {0};
    struct name_match m;
    bool matched, ignored;
    int r = filters_compile(&f, c, say, e);

    if (r >= 0)
        r = filter_by_name(p, f.focus, f.ignore, f.hide, f.show, &m);
    if (r < 0)
        return r;
    warn_no_match(say, !f.focus || m.focus, "Focus");
    warn_no_match(say, !f.ignore || m.ignore, "Ignore");
    warn_no_match(say, !f.hide || m.hide, "Hide");
    warn_no_match(say, !f.show || m.show, "Show");
    if (f.show_from) {
        r = filter_show_from(p, f.show_from, &matched);
        warn_no_match(say, matched, "ShowFrom");
    }
    if (r >= 0 && (f.tagfocus || f.tagignore)) {
        r = filter_by_tag(p, units, f.tagfocus, f.tagignore, &matched, &ignored);
        warn_no_match(say, !f.tagfocus || matched, "TagFocus");
        warn_no_match(say, !f.tagignore || ignored, "TagIgnore");
    }
    if (r >= 0)
        r = filter_tags(p, &f, c, say, e);
    if (r >= 0 && f.prune_from)
        r = filter_prune_from(p, f.prune_from);
    return r;
}

/* --- options --- */

static void add_filter(struct report_options *o, struct arena *a, const char *name, struct str value)
{
    char *text = value.n ? arena_printf(a, "%s=%.*s", name, STR_FMT(value)) : NULL;

    if (text && o->n_filters < REPORT_FILTERS_MAX)
        o->filters[o->n_filters++] = str_from(text);
}

static int make_options(const struct prof *p, const struct pprof_config *c, struct arena *a, struct report_options *o,
                        struct err *e)
{
    int index;

    if (!p->n_types)
        return err_set(e, -EINVAL, "profile has no samples");
    index = prof_type_index(p, c->sample_index, e);
    if (index < 0)
        return index;
    if (c->divide_by == 0)
        return err_set(e, -EINVAL, "zero divisor specified");
    *o = (struct report_options){
        .cum_sort = str_is(c->sort, "cum"),
        .call_tree = c->call_tree,
        .drop_negative = c->drop_negative,
        .compact_labels = c->compact_labels,
        .mean = c->mean,
        .intel_syntax = c->intel_syntax,
        .ratio = 1 / c->divide_by,
        .node_count = (int) c->nodecount,
        .node_fraction = c->nodefraction,
        .edge_fraction = c->edgefraction,
        .value = (uint32_t) index,
        .sample_type = prof_str(p, p->types[index].type),
        .sample_unit = prof_str(p, p->types[index].unit),
        .output_unit = c->unit,
        .source_path = c->source_path,
        .trim_path = c->trim_path,
        .detail = detail_of(c),
    };
    if (c->mean) {
        char *name = arena_printf(a, "mean_%.*s", STR_FMT(o->sample_type));

        o->sample_type = str_from(name);
    }
    if (p->n_mappings > 1 && p->mappings[1].file)
        o->title = gopath_base(prof_str(p, p->mappings[1].file));
    add_filter(o, a, "focus", c->focus);
    add_filter(o, a, "ignore", c->ignore);
    add_filter(o, a, "hide", c->hide);
    add_filter(o, a, "show", c->show);
    add_filter(o, a, "show_from", c->show_from);
    add_filter(o, a, "tagfocus", c->tagfocus);
    add_filter(o, a, "tagignore", c->tagignore);
    add_filter(o, a, "tagshow", c->tagshow);
    add_filter(o, a, "taghide", c->taghide);
    return 0;
}

static int add_label_frames(struct prof *p, const struct pprof_config *c, const struct report_say *say)
{
    bool root, leaf;
    int r = filter_add_label_frames(p, c->tagroot, c->tagleaf, c->unit, &root, &leaf);

    if (r < 0)
        return r;
    warn_no_match(say, !c->tagroot.n || root, "TagRoot");
    warn_no_match(say, !c->tagleaf.n || leaf, "TagLeaf");
    return 0;
}

static int compile_argument(struct report_run *run, const struct report_command *cmd, struct report_options *o,
                            struct err *e)
{
    int r;

    if (!cmd->argument.p)
        return 0;
    r = regex_new_go(cmd->argument, &run->symbol, e);
    if (r < 0)
        return err_prefix(e, r, "parsing argument regexp %.*s: ", STR_FMT(cmd->argument));
    o->symbol = run->symbol;
    o->symbol_text = cmd->argument;
    return 0;
}

int report_run_prepare(struct report_run *run, struct prof *p, const struct report_command *cmd,
                       const struct pprof_config *config, const struct report_say *say, struct err *e)
{
    struct pprof_config c = *config;
    struct report_options o;
    struct label_units units = {0};
    unsigned long failures = mem_failures();
    static const struct report_say silent;
    int r;

    if (!say)
        say = &silent;
    *run = (struct report_run){0};
    arena_init(&run->arena, 0);
    r = label_units_find(p, &units, say->fn, say->arg);
    apply_overrides(cmd, &c);
    if (r >= 0)
        r = add_label_frames(p, &c, say);
    if (r >= 0 && c.relative_percentages)
        r = apply_filters(p, &units, &c, say, e);
    if (r >= 0)
        r = make_options(p, &c, &run->arena, &o, e);
    if (r >= 0) {
        o.format = cmd->format;
        r = compile_argument(run, cmd, &o, e);
    }
    if (r >= 0)
        report_init(&run->report, p, &o, &units);
    if (r >= 0 && !c.relative_percentages)
        r = apply_filters(p, &run->report.units, &c, say, e);
    label_units_done(&units);
    if (r >= 0 && mem_failures() != failures)
        r = -ENOMEM;
    return r == -ENOMEM ? err_set(e, r, "not enough memory for the report") : r;
}

void report_run_done(struct report_run *run)
{
    report_done(&run->report);
    regex_free(run->symbol);
    arena_done(&run->arena);
}

int report_greeting(struct prof *p, const struct pprof_config *config, struct buf *out, int64_t *ret_total,
                    filter_message *say, void *arg)
{
    struct label_units units = {0};
    struct report_options o;
    struct report report;
    struct arena a;
    int r = label_units_find(p, &units, say, arg);

    arena_init(&a, 0);
    if (r >= 0)
        r = make_options(p, config, &a, &o, NULL);
    if (r >= 0) {
        report_init(&report, p, &o, &units);
        report_profile_labels(&report, out);
        *ret_total = report.total;
        report_done(&report);
    }
    label_units_done(&units);
    arena_done(&a);
    return r;
}
