/* SPDX-License-Identifier: Apache-2.0 */
/* -raw: the profile as text, table by table. See report.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "report/gopath.h"
#include "report/report.h"

static void put_duration(struct buf *out, int64_t ns)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    size_t i = 0;

    gotime_duration(&text, ns);
    /* Four characters of it: what "%.4v" makes of a duration. */
    for (size_t runes = 0; i < text.n; i++)
        if (((unsigned char) text.p[i] & 0xc0) != 0x80 && ++runes > 4)
            break;
    buf_printf(out, "Duration: %.*s\n", (int) i, text.p);
}

static void put_header(const struct prof *p, struct buf *out)
{
    _cleanup_(buf_done) struct buf types = BUF_INIT;

    for (size_t i = 0; i < p->n_comments; i++)
        report_put_text(p, out, "Comment: ", p->comments[i], "\n");
    if (p->doc_url)
        report_put_text(p, out, "Doc: ", p->doc_url, "\n");
    if (p->has_period_type) {
        report_put_text(p, out, "PeriodType: ", p->period_type.type, " ");
        report_put_text(p, out, "", p->period_type.unit, "\n");
    }
    buf_printf(out, "Period: %lld\n", (long long) p->period);
    if (p->time_ns) {
        buf_puts(out, "Time: ");
        gotime_local(out, p->time_ns, true);
        buf_putc(out, '\n');
    }
    if (p->duration_ns)
        put_duration(out, p->duration_ns);
    buf_puts(out, "Samples:\n");
    for (uint32_t i = 0; i < p->n_types; i++) {
        report_put_text(p, &types, "", p->types[i].type, "/");
        report_put_text(p, &types, "", p->types[i].unit, p->types[i].type == p->default_type ? "[dflt] " : " ");
    }
    buf_put_str(out, str_trim(buf_str(&types)));
    buf_putc(out, '\n');
}

static int compare_strings(const void *a, const void *b)
{
    return str_cmp(*(const struct str *) a, *(const struct str *) b);
}

/* "key:[v1 v2]" per key, sorted as text. */
static void put_label_line(const struct prof *p, struct buf *out, const struct prof_label *l, uint32_t n, bool numeric)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    _cleanup_(mem_freep) struct str *parts = mem_zalloc_array(n + 1, sizeof(*parts));
    _cleanup_(mem_freep) size_t *starts = mem_zalloc_array(n + 1, sizeof(*starts));
    uint32_t count = 0;

    if (!parts || !starts || !n)
        return;
    for (uint32_t i = 0; i < n; count++) {
        uint32_t key = l[i].key, end = i;
        bool units;

        while (end < n && l[end].key == key)
            end++;
        units = numeric && prof_labels_have_unit(l + i, end - i);
        starts[count] = text.n;
        report_put_text(p, &text, "", key, ":[");
        for (uint32_t k = i; k < end; k++) {
            if (k > i)
                buf_putc(&text, ' ');
            if (numeric)
                buf_printf(&text, "%lld", (long long) l[k].num);
            if (units)
                report_put_text(p, &text, " ", l[k].unit, "");
            else if (!numeric)
                report_put_text(p, &text, "", l[k].str, "");
        }
        buf_putc(&text, ']');
        i = end;
    }
    starts[count] = text.n;
    for (uint32_t i = 0; i < count; i++)
        parts[i] = (struct str){text.p + starts[i], (uint32_t) (starts[i + 1] - starts[i])};
    qsort(parts, count, sizeof(*parts), compare_strings);
    buf_pad(out, ' ', 16);
    for (uint32_t i = 0; i < count; i++) {
        if (i)
            buf_putc(out, ' ');
        buf_put_str(out, parts[i]);
    }
    buf_putc(out, '\n');
}

static void put_sample(const struct prof *p, struct buf *out, const struct prof_sample *s)
{
    const struct prof_labels *set = &p->label_sets[s->labels];

    for (uint32_t i = 0; i < p->n_types; i++)
        buf_printf(out, " %10lld", (long long) p->values[s->values + i]);
    buf_puts(out, ": ");
    for (uint32_t i = 0; i < s->frames.n; i++)
        buf_printf(out, "%llu ", (unsigned long long) prof_location_id(p, p->frames[s->frames.off + i]));
    buf_putc(out, '\n');
    put_label_line(p, out, p->labels + set->off, set->n_str, false);
    put_label_line(p, out, p->labels + set->off + set->n_str, set->n_num, true);
}

/* Go's "%#x". */
static void put_hex(struct buf *out, uint64_t v)
{
    buf_printf(out, "0x%llx", (unsigned long long) v);
}

static void put_location(const struct report *r, struct buf *out, uint32_t i)
{
    const struct prof *p = r->prof;
    const struct prof_location *l = &p->locations[i];
    /* Without inlines only the outermost line is kept, and columns only if requested. */
    bool cut = !r->o.detail.inlines;
    uint32_t first = cut && l->lines.n > 1 ? l->lines.n - 1 : 0;

    buf_printf(out, "%6llu: ", (unsigned long long) prof_location_id(p, i));
    put_hex(out, l->address);
    buf_putc(out, ' ');
    if (l->mapping)
        buf_printf(out, "M=%llu ", (unsigned long long) prof_mapping_id(p, l->mapping));
    if (l->is_folded)
        buf_puts(out, "[F] ");
    if (!l->lines.n)
        buf_putc(out, '\n');
    for (uint32_t k = first; k < l->lines.n; k++) {
        const struct line *ln = &p->lines[l->lines.off + k];
        const struct prof_function *f = &p->functions[ln->function];

        if (k > first)
            buf_pad(out, ' ', 13);
        if (!ln->function) {
            buf_puts(out, "??\n");
            continue;
        }
        report_put_text(p, out, "", f->name, " ");
        report_put_text(p, out, "", f->filename, "");
        buf_printf(out, ":%lld:%lld s=%lld", (long long) ln->line,
                   cut && !r->o.detail.column ? 0ll : (long long) ln->column, (long long) f->start_line);
        if (f->name != f->system_name)
            report_put_text(p, out, "(", f->system_name, ")");
        buf_putc(out, '\n');
    }
}

int report_raw(struct report *r, struct buf *out)
{
    const struct prof *p = r->prof;

    put_header(p, out);
    for (size_t i = 0; i < p->n_samples; i++)
        put_sample(p, out, &p->samples[i]);
    buf_puts(out, "Locations\n");
    for (uint32_t i = 1; i < p->n_locations; i++)
        put_location(r, out, i);
    buf_puts(out, "Mappings\n");
    for (uint32_t i = 1; i < p->n_mappings; i++) {
        const struct prof_mapping *m = &p->mappings[i];

        buf_printf(out, "%llu: ", (unsigned long long) prof_mapping_id(p, i));
        put_hex(out, m->start);
        buf_putc(out, '/');
        put_hex(out, m->limit);
        buf_putc(out, '/');
        put_hex(out, m->offset);
        report_put_text(p, out, " ", m->file, " ");
        report_put_text(p, out, "", m->build_id, " ");
        buf_printf(out, "%s%s%s%s\n", m->has_functions ? "[FN]" : "", m->has_filenames ? "[FL]" : "",
                   m->has_line_numbers ? "[LN]" : "", m->has_inline_frames && r->o.detail.inlines ? "[IN]" : "");
    }
    return 0;
}
