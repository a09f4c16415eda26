/* SPDX-License-Identifier: Apache-2.0 */
/* Filters by label and frames made of labels: see prof_filter.h. All work is per label set, not per sample. */
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "report/prof_filter.h"
#include "report/units.h"

enum { TAG_EXPRESSIONS_MAX = 64 };

/* --- units of numeric labels --- */

static struct label_unit *units_entry(struct label_units *u, uint32_t key)
{
    for (size_t i = 0; i < u->n; i++)
        if (u->v[i].key == key)
            return &u->v[i];
    if (array_reserve(u->v, u->cap, u->n + 1, 1u << 20) < 0)
        return NULL;
    u->v[u->n] = (struct label_unit){key, 0};
    return &u->v[u->n++];
}

void label_units_done(struct label_units *u)
{
    mem_free(u->v);
    *u = (struct label_units){0};
}

struct str label_unit(const struct prof *p, const struct label_units *u, uint32_t key)
{
    for (size_t i = 0; i < u->n; i++)
        if (u->v[i].key == key)
            return prof_str(p, u->v[i].unit);
    return (struct str){0};
}

struct other_unit {
    uint32_t key, unit;
};

static int compare_others(const void *a, const void *b, void *pool)
{
    const struct other_unit *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return str_cmp(strtab_get(pool, x->unit), strtab_get(pool, y->unit));
}

static void say_others(const struct prof *p, const struct label_units *u, struct other_unit *o, size_t n,
                       filter_message *say, void *arg)
{
    if (n)
        qsort_r(o, n, sizeof(*o), compare_others, &p->pool->strings);
    for (size_t i = 0; i < n;) {
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        uint32_t key = o[i].key;

        buf_printf(&text, "For tag %.*s used unit %.*s, also encountered unit(s) %.*s", STR_FMT(prof_str(p, key)),
                   STR_FMT(label_unit(p, u, key)), STR_FMT(prof_str(p, o[i].unit)));
        for (i++; i < n && o[i].key == key; i++)
            if (o[i].unit != o[i - 1].unit)
                buf_printf(&text, ", %.*s", STR_FMT(prof_str(p, o[i].unit)));
        if (buf_cstr(&text))
            say(arg, text.p);
    }
}

static int find_units_of_set(struct prof *p, const struct prof_labels *s, struct label_units *u,
                             struct other_unit **others, size_t *n, size_t *cap)
{
    for (uint32_t i = 0; i < s->n_num; i++) {
        const struct prof_label *l = &p->labels[s->off + s->n_str + i];
        struct label_unit *entry = units_entry(u, l->key);

        if (!entry)
            return -ENOMEM;
        if (!l->unit || entry->unit == l->unit)
            continue;
        if (!entry->unit) {
            entry->unit = l->unit;
            continue;
        }
        if (array_push(*others, *n, *cap, 1u << 24, (struct other_unit){l->key, l->unit}) < 0)
            return -ENOMEM;
    }
    return 0;
}

int label_units_find(struct prof *p, struct label_units *ret, filter_message *say, void *arg)
{
    _cleanup_(mem_freep) uint8_t *done = mem_zalloc(p->n_label_sets);
    _cleanup_(mem_freep) struct other_unit *others = NULL;
    size_t n = 0, cap = 0;

    *ret = (struct label_units){0};
    if (!done)
        return -ENOMEM;
    done[0] = 1;
    for (size_t i = 0; i < p->n_samples; i++) {
        uint32_t set = p->samples[i].labels;

        if (done[set])
            continue;
        done[set] = 1;
        if (find_units_of_set(p, &p->label_sets[set], ret, &others, &n, &cap) < 0)
            return -ENOMEM;
    }
    for (size_t i = 0; i < ret->n; i++) {
        struct str key = prof_str(p, ret->v[i].key);

        if (ret->v[i].unit)
            continue;
        ret->v[i].unit = str_is(key, "alignment") || str_is(key, "request")
                             ? strtab_copy(&p->pool->strings, STR("bytes"))
                             : ret->v[i].key;
    }
    if (say)
        say_others(p, ret, others, n, say, arg);
    return 0;
}

/* --- tagfocus, tagignore --- */

struct tag_filter {
    struct str key; /* p == NULL: any */
    bool range, has_min, has_max;
    double min, max;
    struct str unit;
    struct regex *re[TAG_EXPRESSIONS_MAX];
    size_t n_re;
    struct arena arena;
};

void tag_filter_free(struct tag_filter *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->n_re; i++)
        regex_free(f->re[i]);
    arena_done(&f->arena);
    mem_free(f);
}

static bool is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

struct amount {
    struct str whole, number, unit;
};

/* The first "[+-]digits[letters]" at or after from. */
static bool find_amount(struct str s, size_t from, struct amount *ret)
{
    for (size_t i = from; i < s.n; i++) {
        size_t digits = i + (s.p[i] == '+' || s.p[i] == '-'), end = digits, unit;

        while (end < s.n && is_digit(s.p[end]))
            end++;
        if (end == digits)
            continue;
        for (unit = end; end < s.n && is_alpha(s.p[end]); end++)
            ;
        *ret = (struct amount){str_slice(s, i, end), str_slice(s, i, unit), str_slice(s, unit, end)};
        return true;
    }
    return false;
}

static int amount_value(struct amount a, int64_t *ret)
{
    if (a.number.p[0] == '+')
        a.number = str_slice(a.number, 1, a.number.n);
    return str_to_i64(a.number, 10, ret);
}

/* "32kb", ":64kb", "4mb:", "12kb:64mb"; false when the text is none of them. */
static bool parse_range(struct tag_filter *f, struct str s)
{
    struct amount a, b;
    struct str unit;
    int64_t v;

    if (!find_amount(s, 0, &a) || amount_value(a, &v) < 0)
        return false;
    f->min = f->max = units_scale(v, a.unit, a.unit, &f->unit);
    f->has_min = f->has_max = true;
    if (!find_amount(s, (size_t) (a.whole.p + a.whole.n - s.p), &b)) {
        if (a.whole.n == s.n)
            return true;
        if (a.whole.n + 1 != s.n)
            return false;
        f->has_max = s.p[s.n - 1] != ':';
        f->has_min = s.p[0] != ':';
        return f->has_min != f->has_max;
    }
    if (s.n != a.whole.n + 1 + b.whole.n || a.whole.p != s.p || s.p[a.whole.n] != ':' ||
        b.whole.p != s.p + a.whole.n + 1 || amount_value(b, &v) < 0)
        return false;
    f->max = units_scale(v, b.unit, f->unit, &unit);
    return str_eq(unit, f->unit);
}

struct str tag_filter_value(struct str text)
{
    ptrdiff_t eq = str_find_char(text, '=');

    return eq < 0 ? text : str_slice(text, (size_t) eq + 1, text.n);
}

int tag_filter_new(const char *name, struct str text, struct tag_filter **ret, bool *ret_range, struct err *e)
{
    _cleanup_(tag_filter_freep) struct tag_filter *f = mem_zalloc(sizeof(*f));
    struct str own, value;
    bool last = false;

    if (!f)
        return -ENOMEM;
    arena_init(&f->arena, 0);
    own = arena_str(&f->arena, text);
    value = tag_filter_value(own);
    if (value.p != own.p)
        f->key = str_slice(own, 0, (size_t) (value.p - own.p) - 1);
    f->range = parse_range(f, value);
    *ret_range = f->range;
    while (!f->range && !last) {
        struct str one;
        int r;

        last = str_find_char(value, ',') < 0;
        one = str_cut(&value, ',');
        if (f->n_re == TAG_EXPRESSIONS_MAX)
            return err_set(e, -E2BIG, "parsing %s regexp: too many expressions", name);
        r = regex_new_go(one, &f->re[f->n_re], e);
        if (r < 0)
            return err_prefix(e, r, "parsing %s regexp: ", name);
        f->n_re++;
    }
    *ret = TAKE(f);
    return 0;
}

static bool in_range(const struct tag_filter *f, int64_t v, struct str unit)
{
    struct str su;
    double sv = units_scale(v, unit, f->unit, &su);

    return str_eq(su, f->unit) && (!f->has_min || sv >= f->min) && (!f->has_max || sv <= f->max);
}

static bool match_range(const struct tag_filter *f, const struct prof *p, const struct label_units *units,
                        const struct prof_labels *s)
{
    for (uint32_t i = 0; i < s->n_num; i++) {
        const struct prof_label *l = &p->labels[s->off + s->n_str + i];

        if (f->key.p && f->key.n && !str_eq(prof_str(p, l->key), f->key))
            continue;
        if (in_range(f, l->num, label_unit(p, units, l->key)))
            return true;
    }
    return false;
}

static bool match_any_value(const struct tag_filter *f, const struct prof *p, const struct prof_labels *s)
{
    for (uint32_t i = 0; i < s->n_str; i++) {
        const struct prof_label *l = &p->labels[s->off + i];

        if (!str_eq(prof_str(p, l->key), f->key))
            continue;
        for (size_t k = 0; k < f->n_re; k++)
            if (regex_search(f->re[k], prof_str(p, l->str)))
                return true;
    }
    return false;
}

static bool match_pair(const struct regex *re, const struct prof *p, const struct prof_labels *s, struct buf *scratch)
{
    for (uint32_t i = 0; i < s->n_str; i++) {
        const struct prof_label *l = &p->labels[s->off + i];

        buf_reset(scratch);
        buf_put_str(scratch, prof_str(p, l->key));
        buf_putc(scratch, ':');
        buf_put_str(scratch, prof_str(p, l->str));
        if (regex_search(re, buf_str(scratch)))
            return true;
    }
    return false;
}

static bool match_set(const struct tag_filter *f, const struct prof *p, const struct label_units *units,
                      const struct prof_labels *s)
{
    _cleanup_(buf_done) struct buf scratch = BUF_INIT;

    if (f->range)
        return match_range(f, p, units, s);
    if (f->key.n)
        return match_any_value(f, p, s);
    for (size_t k = 0; k < f->n_re; k++)
        if (!match_pair(f->re[k], p, s, &scratch))
            return false;
    return true;
}

int filter_by_tag(struct prof *p, const struct label_units *units, const struct tag_filter *focus,
                  const struct tag_filter *ignore, bool *ret_focused, bool *ret_ignored)
{
    _cleanup_(mem_freep) uint8_t *marks = mem_zalloc(p->n_label_sets);
    size_t kept = 0;

    *ret_focused = *ret_ignored = false;
    if (!marks)
        return -ENOMEM;
    for (size_t i = 0; i < p->n_label_sets; i++)
        marks[i] = (uint8_t) ((!focus || match_set(focus, p, units, &p->label_sets[i])) |
                              (ignore && match_set(ignore, p, units, &p->label_sets[i])) << 1);
    for (size_t i = 0; i < p->n_samples; i++) {
        uint8_t mark = marks[p->samples[i].labels];

        *ret_focused |= mark & 1;
        *ret_ignored |= mark >> 1;
        if (mark == 1)
            p->samples[kept++] = p->samples[i];
    }
    p->n_samples = kept;
    return 0;
}

/* --- tagshow, taghide --- */

static int64_t cut_set(struct prof *p, struct prof_labels s, const struct regex *show, const struct regex *hide,
                       bool *shown, bool *hidden)
{
    _cleanup_(mem_freep) struct prof_label *out = mem_zalloc_array(s.n_str + s.n_num + 1, sizeof(*out));
    uint32_t n = 0, n_str = 0;

    if (!out)
        return -ENOMEM;
    for (uint32_t i = 0; i < s.n_str + s.n_num; i++) {
        struct prof_label l = p->labels[s.off + i];
        bool in = !show || regex_search(show, prof_str(p, l.key));
        bool off = hide && regex_search(hide, prof_str(p, l.key));

        *shown |= in;
        *hidden |= off;
        if (!in || off)
            continue;
        out[n++] = l;
        n_str += i < s.n_str;
    }
    return prof_add_labels(p, out, n_str, n - n_str);
}

int filter_tags_by_name(struct prof *p, const struct regex *show, const struct regex *hide, bool *ret_shown,
                        bool *ret_hidden)
{
    size_t n_sets = p->n_label_sets;
    _cleanup_(mem_freep) uint32_t *moved = mem_alloc(n_sets * sizeof(*moved));

    *ret_shown = *ret_hidden = false;
    if (!moved)
        return -ENOMEM;
    memset(moved, 0xff, n_sets * sizeof(*moved));
    for (size_t i = 0; i < p->n_samples; i++) {
        uint32_t *set = &moved[p->samples[i].labels];

        if (*set == UINT32_MAX) {
            int64_t r = cut_set(p, p->label_sets[p->samples[i].labels], show, hide, ret_shown, ret_hidden);

            if (r < 0)
                return (int) r;
            *set = (uint32_t) r;
        }
        p->samples[i].labels = *set;
    }
    return 0;
}

/* --- tagroot, tagleaf --- */

enum { LABEL_KEYS_MAX = 64 };

struct label_frames {
    struct prof *p;
    uint32_t keys[2][LABEL_KEYS_MAX]; /* root, leaf; in the order of the option */
    size_t n[2];
    struct str unit;
    struct made {
        uint32_t name, key, location;
    } * made;
    size_t n_made, cap_made;
    bool matched[2];
    uint32_t *locations; /* per set: root frames then leaf frames, 0 = not made yet */
};

static int64_t label_location(struct label_frames *lf, uint32_t name, uint32_t key)
{
    struct line line = {0};
    int64_t function, location, lines;

    for (size_t i = 0; i < lf->n_made; i++)
        if (lf->made[i].name == name && lf->made[i].key == key)
            return lf->made[i].location;
    function = prof_add_function(lf->p, &(struct prof_function){.name = name, .filename = key});
    if (function < 0)
        return function;
    line.function = (uint32_t) function;
    lines = prof_add_lines(lf->p, &line, 1);
    if (lines < 0)
        return lines;
    location = prof_add_location(lf->p, &(struct prof_location){.lines = {(uint32_t) lines, 1}});
    if (location < 0 ||
        array_push(lf->made, lf->n_made, lf->cap_made, 1u << 24, (struct made){name, key, (uint32_t) location}) < 0)
        return -ENOMEM;
    return location;
}

/* All values of the key in the set, comma-separated. */
static uint32_t label_values(struct label_frames *lf, const struct prof_labels *s, uint32_t key, bool *ret_any)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct prof *p = lf->p;
    uint32_t first = s->n_str + s->n_num, count = 0;
    bool units;

    for (uint32_t i = 0; i < s->n_str; i++)
        if (p->labels[s->off + i].key == key) {
            buf_printf(&text, "%s%.*s", *ret_any ? "," : "", STR_FMT(prof_str(p, p->labels[s->off + i].str)));
            *ret_any = true;
        }
    for (uint32_t i = s->n_str; i < s->n_str + s->n_num; i++)
        if (p->labels[s->off + i].key == key) {
            first = MIN(first, i);
            count++;
        }
    units = prof_labels_have_unit(p->labels + s->off + first, count);
    for (uint32_t i = first; i < first + count; i++) {
        const struct prof_label *l = &p->labels[s->off + i];

        if (*ret_any)
            buf_putc(&text, ',');
        *ret_any = true;
        units_label(&text, l->num, units ? prof_str(p, l->unit) : STR(""), units ? lf->unit : STR(""));
    }
    return strtab_copy(&p->pool->strings, buf_str(&text));
}

static int make_set_frames(struct label_frames *lf, uint32_t set)
{
    size_t n = lf->n[0] + lf->n[1];
    uint32_t *out = lf->locations + set * n;

    for (int end = 0; end < 2; end++)
        for (size_t i = lf->n[end]; i-- > 0;) { /* the first key is nearest to the root */
            bool any = false;
            uint32_t name = label_values(lf, &lf->p->label_sets[set], lf->keys[end][i], &any);
            int64_t l = label_location(lf, name, lf->keys[end][i]);

            if (l < 0)
                return (int) l;
            lf->matched[end] |= any;
            *out++ = (uint32_t) l;
        }
    return 0;
}

static int add_set_frames(struct label_frames *lf, struct prof_sample *s)
{
    size_t n = lf->n[0] + lf->n[1];
    const uint32_t *made = lf->locations + s->labels * n;
    int64_t off;

    if (!made[0]) {
        int r = make_set_frames(lf, s->labels);

        if (r < 0)
            return r;
    }
    off = prof_add_frames(lf->p, made + lf->n[0], (uint32_t) lf->n[1]);
    for (uint32_t i = 0; off >= 0 && i < s->frames.n; i++) {
        uint32_t f = lf->p->frames[s->frames.off + i];

        if (prof_add_frames(lf->p, &f, 1) < 0)
            return -ENOMEM;
    }
    if (off < 0 || prof_add_frames(lf->p, made, (uint32_t) lf->n[0]) < 0)
        return -ENOMEM;
    s->frames = (struct run){(uint32_t) off, s->frames.n + (uint32_t) n};
    return 0;
}

static size_t split_keys(struct prof *p, struct str keys, uint32_t *ret)
{
    size_t n = 0;

    while (keys.n && n < LABEL_KEYS_MAX) {
        struct str one = str_cut(&keys, ',');

        if (one.n)
            ret[n++] = strtab_copy(&p->pool->strings, one);
    }
    return n;
}

int filter_add_label_frames(struct prof *p, struct str root_keys, struct str leaf_keys, struct str unit, bool *ret_root,
                            bool *ret_leaf)
{
    struct label_frames lf = {.p = p, .unit = unit};
    int r = 0;

    *ret_root = *ret_leaf = false;
    lf.n[0] = split_keys(p, root_keys, lf.keys[0]);
    lf.n[1] = split_keys(p, leaf_keys, lf.keys[1]);
    if (!(lf.n[0] + lf.n[1]))
        return 0;
    lf.locations = mem_zalloc_array(p->n_label_sets * (lf.n[0] + lf.n[1]), sizeof(*lf.locations));
    if (!lf.locations)
        return -ENOMEM;
    for (size_t i = 0; r >= 0 && i < p->n_samples; i++)
        r = add_set_frames(&lf, &p->samples[i]);
    *ret_root = lf.matched[0];
    *ret_leaf = lf.matched[1];
    mem_free(lf.locations);
    mem_free(lf.made);
    return r;
}
