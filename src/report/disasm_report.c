/* SPDX-License-Identifier: Apache-2.0 */
/* -disasm: the instructions of functions that match, with the values of their addresses. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "report/gopath.h"
#include "report/source.h"

/* A matching symbol of one of the binaries. */
struct found {
    const struct report_symbol *symbol;
    struct report_object *object;
    uint32_t first, n; /* its nodes, in disassembler.nodes */
    int64_t flat;      /* these two only if the heaviest are requested */
    uint32_t order;
};

struct sample_node {
    uint64_t address; /* the object's */
    uint32_t node;
};

struct disassembler {
    struct report *r;
    struct graph *g;
    struct report_objects *objects;
    struct buf *out;
    uint64_t address; /* the expression as a number */
    bool has_address;
    struct found *found;
    struct sample_node *nodes;
    size_t n_found, cap_found, n_nodes, cap_nodes;
};

static void put_value_or_dot(struct disassembler *d, int64_t v)
{
    if (v)
        report_column(d->r, d->out, v, 10);
    else
        report_pad(d->out, STR("."), 10);
    buf_putc(d->out, ' ');
}

/* True when a node of this binary has a name that matches. */
static bool is_sampled(struct disassembler *d, uint32_t file)
{
    _cleanup_(buf_done) struct buf name = BUF_INIT;

    for (size_t i = 0; i < d->g->n_order; i++) {
        const struct graph_info *info = graph_node_info(d->g, d->g->order[i]);

        if (!info->object || !str_eq(prof_str(d->r->prof, info->object), prof_str(d->r->prof, file)))
            continue;
        buf_reset(&name);
        graph_put_name(d->g, &name, info);
        if (regex_search(d->r->o.symbol, buf_str(&name)))
            return true;
    }
    return false;
}

static int add_symbols(struct disassembler *d, struct report_object *x)
{
    struct report_symbols s;
    int r = d->objects->symbols(x, d->r->o.symbol, d->address, &s);

    if (r == -ENOMEM)
        return r;
    for (uint32_t i = 0; r >= 0 && i < s.n; i++) {
        r = array_push(d->found, d->n_found, d->cap_found, UINT32_MAX, (struct found){.symbol = &s.v[i], .object = x});
        if (r < 0)
            return r;
    }
    return 0;
}

static int find_symbols(struct disassembler *d)
{
    struct prof *p = d->r->prof;

    for (size_t i = 1; i < p->n_mappings; i++) {
        const struct prof_mapping *m = &p->mappings[i];
        struct report_mapping where = {prof_str(p, m->file), m->start, m->limit, m->offset};
        struct report_object *x;
        struct err e = {0};
        int r;

        if (!is_sampled(d, m->file) && !(d->has_address && m->start <= d->address && d->address <= m->limit))
            continue;
        r = d->objects->open(d->objects, &where, &x, &e);
        if (r == -ENOMEM)
            return r;
        if (r < 0) {
            buf_printf(d->out, "%s\n", err_message(&e, r));
            continue;
        }
        r = add_symbols(d, x);
        if (r < 0)
            return r;
    }
    return 0;
}

static int by_address(const void *a, const void *b)
{
    const struct sample_node *x = a, *y = b;

    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return x->node < y->node ? -1 : 1;
}

/* The nodes with an address inside the symbol, by address. */
static int find_nodes(struct disassembler *d, struct found *f)
{
    f->first = (uint32_t) d->n_nodes;
    for (size_t i = 0; i < d->g->n_order; i++) {
        uint32_t node = d->g->order[i];
        uint64_t at;
        int r;

        if (d->objects->address(f->object, graph_node_info(d->g, node)->address, &at) < 0 || at < f->symbol->start ||
            at >= f->symbol->end)
            continue;
        r = array_push(d->nodes, d->n_nodes, d->cap_nodes, UINT32_MAX, (struct sample_node){at, node});
        if (r < 0)
            return r;
    }
    f->n = (uint32_t) d->n_nodes - f->first;
    if (f->n)
        qsort(d->nodes + f->first, f->n, sizeof(*d->nodes), by_address);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    int c = str_cmp(x->symbol->names[0], y->symbol->names[0]);

    if (c)
        return c;
    return x->symbol->start < y->symbol->start ? -1 : x->symbol->start > y->symbol->start;
}

static int keep_sampled(struct disassembler *d)
{
    size_t n = 0;

    for (size_t i = 0; i < d->n_found; i++) {
        int r = find_nodes(d, &d->found[i]);

        if (r < 0)
            return r;
        if (d->found[i].n)
            d->found[n++] = d->found[i];
    }
    d->n_found = n;
    if (n)
        qsort(d->found, n, sizeof(*d->found), by_name);
    return 0;
}

/* An instruction with the samples that fell on it or into the middle of it. */
struct annotated {
    const struct report_inst *inst;
    struct str function, file;
    int64_t line, flat, flat_div, cum, cum_div;
};

static void annotate(struct disassembler *d, const struct found *f, uint64_t next, uint32_t *at, struct annotated *a)
{
    a->function = a->inst->function;
    a->file = a->inst->file.n ? gopath_base(a->inst->file) : STR("");
    a->line = a->inst->line;
    for (; *at < f->n && d->nodes[f->first + *at].address < next; ++*at) {
        uint32_t node = d->nodes[f->first + *at].node;
        const struct graph_node *n = &d->g->nodes[node];
        const struct graph_info *info = graph_node_info(d->g, node);

        a->flat += n->flat;
        a->flat_div += n->flat_div;
        a->cum += n->cum;
        a->cum_div += n->cum_div;
        if (info->file && !a->file.n)
            a->file = gopath_base(prof_str(d->r->prof, info->file));
        if (!a->line)
            a->line = info->line;
        if (info->name && !a->function.n)
            a->function = prof_str(d->r->prof, info->name);
    }
}

static void put_instruction(struct disassembler *d, const struct annotated *a)
{
    put_value_or_dot(d, a->flat_div ? a->flat / a->flat_div : a->flat);
    put_value_or_dot(d, a->cum_div ? a->cum / a->cum_div : a->cum);
    buf_printf(d->out, "%10" PRIx64 ": ", a->inst->address);
}

static void put_place(const struct annotated *a, struct buf *out)
{
    if (a->function.n)
        buf_printf(out, "%.*s ", STR_FMT(a->function));
    if (a->file.n) {
        buf_put_str(out, a->file);
        if (a->line)
            buf_printf(out, ":%" PRId64, a->line);
    }
}

/* The source position is printed where it changes: after a short instruction, above a long one. */
static void put_annotated(struct disassembler *d, const struct annotated *a, struct annotated *last)
{
    _cleanup_(buf_done) struct buf place = BUF_INIT;

    if (!str_eq(a->function, last->function) || !str_eq(a->file, last->file) || a->line != last->line) {
        *last = *a;
        put_place(a, &place);
    }
    if (place.n && a->inst->text.n >= 40) {
        buf_pad(d->out, ' ', 74);
        buf_printf(d->out, ";%.*s\n", STR_FMT(buf_str(&place)));
    }
    put_instruction(d, a);
    if (place.n && a->inst->text.n < 40) {
        report_pad(d->out, a->inst->text, -40);
        buf_printf(d->out, ";%.*s\n", STR_FMT(buf_str(&place)));
    } else {
        buf_put_str(d->out, a->inst->text);
        buf_putc(d->out, '\n');
    }
}

static int compare_weights(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    if (x->flat != y->flat)
        return x->flat < y->flat ? 1 : -1;
    return x->order < y->order ? -1 : 1;
}

/* The input is sorted by name, and equal entries stay in that order. */
static void keep_heaviest(struct disassembler *d, size_t limit)
{
    for (size_t i = 0; i < d->n_found; i++) {
        struct found *f = &d->found[i];

        f->order = (uint32_t) i;
        for (uint32_t k = 0; k < f->n; k++)
            f->flat += d->g->nodes[d->nodes[f->first + k].node].flat;
    }
    qsort(d->found, d->n_found, sizeof(*d->found), compare_weights);
    d->n_found = MIN(d->n_found, limit);
}

static int put_symbol(struct disassembler *d, const struct found *f, struct err *e)
{
    struct annotated last = {0};
    struct report_insts insts;
    int64_t flat = 0, cum = 0;
    uint32_t at = 0;
    int r = d->objects->disassemble(f->object, f->symbol->start, f->symbol->end, d->r->o.intel_syntax, &insts, e);

    if (r < 0)
        return r;
    for (uint32_t i = 0; i < f->n; i++) {
        flat += d->g->nodes[d->nodes[f->first + i].node].flat;
        cum += d->g->nodes[d->nodes[f->first + i].node].cum;
    }
    buf_printf(d->out, "ROUTINE ======================== %.*s\n", STR_FMT(f->symbol->names[0]));
    for (uint32_t i = 1; i < f->symbol->n_names; i++)
        buf_printf(d->out, "    AKA ======================== %.*s\n", STR_FMT(f->symbol->names[i]));
    report_column(d->r, d->out, flat, 10);
    buf_putc(d->out, ' ');
    report_column(d->r, d->out, cum, 10);
    buf_puts(d->out, " (flat, cum) ");
    units_percentage(d->out, cum, d->r->total);
    buf_puts(d->out, " of Total\n");
    for (uint32_t i = 0; i < insts.n; i++) {
        struct annotated a = {.inst = &insts.v[i]};

        annotate(d, f, i + 1 < insts.n ? insts.v[i + 1].address : UINT64_MAX, &at, &a);
        put_annotated(d, &a, &last);
    }
    return 0;
}

static int no_match(struct disassembler *d, size_t n_symbols, struct err *e)
{
    if (!d->has_address)
        return err_set(e, -ENOENT, "no matches found for regexp %.*s", STR_FMT(d->r->o.symbol_text));
    if (n_symbols == 0)
        return err_set(e, -ENOENT, "no matches found for address 0x%" PRIx64, d->address);
    return err_set(e, -ENOENT,
                   "address 0x%" PRIx64
                   " found in binary, but the corresponding symbols do not have samples in the profile",
                   d->address);
}

static int disassemble_all(struct disassembler *d, struct err *e)
{
    size_t n_symbols;
    int r = report_full_graph(d->r, &d->g);

    if (r >= 0)
        r = find_symbols(d);
    if (r < 0)
        return r;
    n_symbols = d->n_found;
    buf_puts(d->out, "Total: ");
    report_value(d->r, d->out, d->r->total);
    buf_putc(d->out, '\n');
    r = keep_sampled(d);
    if (r >= 0 && d->n_found == 0)
        return no_match(d, n_symbols, e);
    if (d->r->o.part_of_page)
        keep_heaviest(d, d->r->o.part_of_page);
    for (size_t i = 0; i < d->n_found && r >= 0; i++)
        r = put_symbol(d, &d->found[i], e);
    return r;
}

/* As Go reads a number: 0x…, 0b…, 0o…, 0…, or decimal. */
bool source_parse_address(struct str s, uint64_t *ret)
{
    char text[72], *end;

    if (s.n == 0 || s.n >= sizeof(text) || s.p[0] < '0' || s.p[0] > '9')
        return false;
    memcpy(text, s.p, s.n);
    text[s.n] = 0;
    errno = 0;
    *ret = strtoull(text, &end, 0);
    return !*end && !errno;
}

int report_disasm(struct report *r, struct report_objects *objects, struct buf *out, struct err *e)
{
    struct disassembler d = {.r = r, .objects = objects, .out = out};
    int n;

    d.has_address = source_parse_address(r->o.symbol_text, &d.address);
    n = disassemble_all(&d, e);
    graph_free(d.g);
    mem_free(d.found);
    mem_free(d.nodes);
    return n < 0 ? n : buf_error(out);
}
