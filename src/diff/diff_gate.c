/* SPDX-License-Identifier: Apache-2.0 */
/* Parses and evaluates the conditions of `wick diff` (diff_gate.h). */
#include "diff/diff_gate.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "query/drift_stats.h"

/* --- parsing --- */

static const struct {
    const char *name;
    enum diff_measure measure;
    double scale;
} units[] = {
    {"pt", DIFF_POINTS, 1},  {"points", DIFF_POINTS, 1}, {"%", DIFF_PERCENT, 1},  {"cores", DIFF_CORES, 1},
    {"core", DIFF_CORES, 1}, {"ns", DIFF_VALUE, 1},      {"us", DIFF_VALUE, 1e3}, {"ms", DIFF_VALUE, 1e6},
    {"s", DIFF_VALUE, 1e9},  {"B", DIFF_VALUE, 1},       {"kB", DIFF_VALUE, 1e3}, {"MB", DIFF_VALUE, 1e6},
    {"GB", DIFF_VALUE, 1e9}, {"", DIFF_VALUE, 1},
};

static const char *skip_space(const char *s)
{
    while (isspace((unsigned char) *s))
        s++;
    return s;
}

static int bad_at(const struct diff_gate *g, const char *at, const char *want, struct err *e)
{
    return err_set(e, -EINVAL, "--fail-if '%s': at '%.20s': expected %s, as in 'total(\"main.parse\") > +2pt'", g->text,
                   *at ? at : "(end)", want);
}

/* The text in quotes; \" stands for a quote, other escapes belong to the regular expression. */
static int parse_regex(struct diff_gate *g, const char **at, struct err *e)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    const char *s = *at;
    int r;

    if (*s != '"')
        return bad_at(g, s, "a regular expression in double quotes", e);
    for (s++; *s && *s != '"'; s++) {
        if (s[0] == '\\' && s[1] == '"')
            s++;
        else if (s[0] == '\\' && s[1])
            buf_putc(&text, *s++);
        buf_putc(&text, *s);
    }
    if (*s != '"')
        return bad_at(g, s, "a closing quote", e);
    *at = s + 1;
    r = regex_new(buf_str(&text), &g->regex, e);
    return r < 0 ? err_prefix(e, r, "--fail-if: ") : 0;
}

static int parse_subject(struct diff_gate *g, const char **at, struct err *e)
{
    const char *s = skip_space(*at);
    int r;

    if (strncmp(s, "total", 5) == 0)
        s += 5;
    else if (strncmp(s, "self", 4) == 0) {
        g->self = true;
        s += 4;
    } else {
        return bad_at(g, s, "total or self", e);
    }
    s = skip_space(s);
    if (*s != '(') {
        *at = s;
        return g->self ? bad_at(g, s, "(\"REGEXP\")", e) : 0;
    }
    s = skip_space(s + 1);
    r = parse_regex(g, &s, e);
    if (r < 0)
        return r;
    s = skip_space(s);
    if (*s != ')')
        return bad_at(g, s, "')'", e);
    *at = s + 1;
    return 0;
}

static int parse_limit(struct diff_gate *g, const char *s, struct err *e)
{
    char *end;
    size_t n;

    s = skip_space(s);
    if (*s != '<' && *s != '>')
        return bad_at(g, s, "> >= < or <=", e);
    g->compare[0] = *s++;
    if (*s == '=')
        g->compare[1] = *s++;
    s = skip_space(s);
    g->change = *s == '+' || *s == '-';
    if (!isdigit((unsigned char) s[g->change]) && s[g->change] != '.')
        return bad_at(g, s, "a number", e);
    g->limit = strtod(s, &end);
    s = skip_space(end);
    n = strlen(s);
    while (n && isspace((unsigned char) s[n - 1]))
        n--;
    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (strlen(units[i].name) == n && strncmp(s, units[i].name, n) == 0) {
            g->measure = units[i].measure;
            g->scale = units[i].scale;
            g->unit = units[i].name;
            return 0;
        }
    return bad_at(g, s, "a unit: pt, %, cores, s, ms, us, ns, B, kB, MB or GB", e);
}

int diff_gate_parse(const char *text, struct diff_gate *ret, struct err *e)
{
    const char *at = text;
    int r;

    *ret = (struct diff_gate){.text = text, .p = NAN};
    r = parse_subject(ret, &at, e);
    return r < 0 ? r : parse_limit(ret, at, e);
}

void diff_gate_done(struct diff_gate *g)
{
    regex_free(g->regex);
    *g = (struct diff_gate){0};
}

/* --- evaluating --- */

/* The value of a tree: of everything, of stacks with a frame that matches, or of frames that match themselves. */
static int measure(struct diff_gate *g, const struct tree *t, double *ret)
{
    _cleanup_(mem_freep) uint8_t *hit = NULL, *frames = NULL;

    *ret = (double) t->total[0][0];
    if (!g->regex)
        return 0;
    hit = mem_zalloc_array(t->n_nodes + 1, 1);
    frames = mem_zalloc_array(t->n_frames + 1, 1);
    if (!hit || !frames)
        return -ENOMEM;
    for (uint32_t i = 1; i < t->n_frames; i++)
        g->matched |= frames[i] = regex_search(g->regex, t->frames[i].function);
    *ret = 0;
    for (uint32_t i = 1; i < t->n_nodes; i++) {
        hit[i] = frames[t->frame[i]] || (!g->self && hit[t->parent[i]]);
        *ret += hit[i] ? (double) t->self[0][i] : 0;
    }
    return 0;
}

/* One number for each profile of a side, in the unit of the limit. */
static int numbers(struct diff_gate *g, const struct diff_side *side, bool rates, double *ret)
{
    for (uint32_t i = 0; i < side->n; i++) {
        const struct diff_profile *p = &side->v[i];
        double v;
        int r = measure(g, p->tree, &v);

        if (r < 0)
            return r;
        if (g->measure == DIFF_POINTS || (g->measure == DIFF_PERCENT && !g->change))
            ret[i] = 100 * v / (double) p->tree->total[0][0];
        else if (rates)
            ret[i] = v / (double) p->duration_ns;
        else
            ret[i] = v / g->scale;
    }
    return 0;
}

static double mean(const double *v, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += v[i];
    return sum / n;
}

static bool holds(const struct diff_gate *g, double value)
{
    bool over = g->compare[0] == '>';

    if (g->compare[1] && value == g->limit)
        return true;
    return over ? value > g->limit : value < g->limit;
}

static enum diff_outcome decide(const struct diff_gate *g, double alpha)
{
    double reach = g->compare[0] == '>' ? g->reach : -g->reach;

    if (isnan(g->p))
        return holds(g, g->value) ? DIFF_FAILED : DIFF_PASSED;
    if (holds(g, g->value))
        return g->p < alpha ? DIFF_FAILED : DIFF_INCONCLUSIVE;
    return holds(g, g->value + reach) ? DIFF_INCONCLUSIVE : DIFF_PASSED;
}

const char *diff_outcome_name(enum diff_outcome o)
{
    static const char *const names[] = {"passed", "inconclusive", "failed"};

    return names[o];
}

static bool have_durations(const struct diff_input *in)
{
    for (int s = 0; s < 2; s++)
        for (uint32_t i = 0; i < in->sides[s].n; i++)
            if (in->sides[s].v[i].duration_ns <= 0)
                return false;
    return true;
}

static int check_unit(const struct diff_gate *g, const struct diff_input *in, struct err *e)
{
    bool time = str_is(in->unit, "nanoseconds");

    if (g->measure == DIFF_CORES && (!time || !have_durations(in)))
        return err_set(e, -EINVAL, "--fail-if '%s': cores require profiles in nanoseconds that have a duration",
                       g->text);
    if (g->measure == DIFF_VALUE &&
        ((strchr(g->unit, 's') && !time) || (strchr(g->unit, 'B') && !str_is(in->unit, "bytes"))))
        return err_set(e, -EINVAL, "--fail-if '%s': the profiles are in %.*s", g->text, STR_FMT(in->unit));
    return 0;
}

int diff_gate_run(struct diff_gate *g, const struct diff_input *in, double alpha, struct err *e)
{
    double old[DIFF_PROFILES_MAX], new[DIFF_PROFILES_MAX];
    bool rates = g->measure == DIFF_CORES || (g->measure == DIFF_PERCENT && g->change && have_durations(in));
    int r = check_unit(g, in, e);

    if (r == 0)
        r = numbers(g, &in->sides[0], rates, old);
    if (r == 0)
        r = numbers(g, &in->sides[1], rates, new);
    if (r < 0)
        return r;
    if (g->regex && !g->matched)
        return err_set(e, -EINVAL, "--fail-if '%s': no function of either side matches; check its spelling", g->text);
    g->before = mean(old, in->sides[0].n);
    g->now = mean(new, in->sides[1].n);
    g->value = !g->change ? g->now : g->now - g->before;
    if (g->change && g->measure == DIFF_PERCENT)
        g->value = g->before > 0 ? 100 * (g->now / g->before - 1) : g->now > 0 ? INFINITY : 0;
    g->p = g->change ? drift_welch(old, in->sides[0].n, new, in->sides[1].n) : NAN;
    g->reach = g->change ? drift_welch_reach(old, in->sides[0].n, new, in->sides[1].n, alpha) : NAN;
    if (g->change && g->measure == DIFF_PERCENT && g->before > 0)
        g->reach *= 100 / g->before;
    g->outcome = decide(g, alpha);
    return 0;
}
