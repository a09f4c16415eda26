/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out why a question has no answer by asking for what there is: services, types, labels, functions (query_nearest.h). */
#include "client/query_nearest.h"

#include <string.h>

#include "base/mem.h"
#include "model/labels.h"
#include "model/semconv.h"
#include "query/answer_fields.h"

enum { LISTED = 5, NAMES_MAX = 1 << 20 };

struct nearest_names {
    struct str *v;
    size_t n, cap;
};

struct asking {
    const struct ask_target *target;
    ask_param_fn param; /* of the original question */
    void *ctx;
    const char *type;  /* that a selector without one means */
    const char *from;  /* replaces it; NULL: as asked */
    bool same_query;   /* passes on the selector, too */
    const char *limit; /* NULL: none */
    struct arena arena;
    struct buf answer;
};

static struct str param_of(void *ctx, const char *name)
{
    struct asking *a = ctx;

    if (strcmp(name, "from") == 0 && a->from)
        return str_from(a->from);
    if (strcmp(name, "limit") == 0 && a->limit)
        return str_from(a->limit);
    if (strcmp(name, "from") == 0 || (strcmp(name, "to") == 0 && !a->from) ||
        (strcmp(name, "query") == 0 && a->same_query))
        return a->param(a->ctx, name);
    return (struct str){"", 0};
}

/* Asks a question and reads what it answers. */
static bool has_answer(struct asking *a, const char *question, void *ret)
{
    const struct question *q = question_find(str_from(question));
    struct err e = {0};

    buf_reset(&a->answer);
    return ask_question(a->target, q, param_of, a, &a->answer, &e) == 0 &&
           record_read_value(buf_str(&a->answer), q->answer, RECORD_ANSWER, &a->arena, ret, &e) == 0;
}

static void add(struct nearest_names *to, struct asking *a, struct str name)
{
    for (size_t i = 0; i < to->n; i++)
        if (str_eq(to->v[i], name))
            return;
    if (name.n)
        (void) array_push(to->v, to->n, to->cap, NAMES_MAX, arena_str(&a->arena, name));
}

/* Services and their types in the range. */
static void list_services(struct asking *a, struct nearest_names *services, struct nearest_names *types)
{
    struct record_list l = {0};
    const struct query_service *v;

    if (!has_answer(a, "services", &l))
        return;
    v = l.v;
    for (uint32_t i = 0; i < l.n; i++) {
        add(services, a, v[i].name);
        for (uint32_t k = 0; k < v[i].n_types; k++)
            add(types, a, v[i].types[k]);
    }
}

static void list_labels(struct asking *a, struct nearest_names *to)
{
    struct record_list l = {0};

    if (has_answer(a, "labels", &l))
        for (uint32_t i = 0; i < l.n; i++)
            add(to, a, ((const struct str *) l.v)[i]);
}

static void list_functions(struct asking *a, struct nearest_names *to)
{
    struct query_table t = {0};

    a->same_query = true;
    a->limit = "2000";
    if (has_answer(a, "top", &t))
        for (uint32_t i = 0; i < t.n; i++)
            add(to, a, t.rows[i].name);
}

static bool has(const struct nearest_names *n, struct str name)
{
    for (size_t i = 0; i < n->n; i++)
        if (str_eq(n->v[i], name))
            return true;
    return false;
}

/* "; nearest KIND: a, b": what is spelled alike or contains the name; "; KINDs: a, b, …" where nothing does. */
static void put_nearest(struct buf *out, const char *kind, struct str name, const struct nearest_names *n)
{
    size_t shown = 0;

    for (size_t i = 0; i < n->n && shown < LISTED; i++) {
        if (!str_is_typo(name, n->v[i]) && (name.n < 3 || str_find(n->v[i], name) < 0))
            continue;
        buf_printf(out, "%s%.*s", shown++ ? ", " : "", STR_FMT(n->v[i]));
        if (shown == 1) { /* the heading goes before the first one */
            out->n -= n->v[i].n;
            buf_printf(out, "; nearest %s: %.*s", kind, STR_FMT(n->v[i]));
        }
    }
    if (shown || !n->n)
        return;
    buf_printf(out, "; %ss: ", kind);
    for (size_t i = 0; i < MIN(n->n, (size_t) LISTED); i++)
        buf_printf(out, "%s%.*s", i ? ", " : "", STR_FMT(n->v[i]));
    if (n->n > LISTED)
        buf_puts(out, ", …");
}

/* Data of other times: the shortest range that has some. */
static void put_other_range(struct asking *a, struct buf *out)
{
    static const struct {
        const char *from, *name;
    } ranges[] = {{"now-24h", "the last 24 hours"},
                  {"now-7d", "the last 7 days"},
                  {"now-30d", "the last 30 days"},
                  {"0", "older data"}};
    struct nearest_names services = {0}, types = {0};

    for (size_t i = 0; i < ARRAY_SIZE(ranges) && !services.n; i++) {
        a->from = ranges[i].from;
        list_services(a, &services, &types);
        if (services.n)
            buf_printf(out, " in this range; there is data in %s: --from %s", ranges[i].name, ranges[i].from);
    }
    if (!services.n)
        buf_puts(out, ": nothing has been received yet");
    mem_free(services.v);
    mem_free(types.v);
}

static const struct matcher *service_matcher(const struct selector *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->v[i].op == MATCH_EQ && str_is(label_canonical_name(s->v[i].name), SEMCONV_SERVICE_NAME))
            return &s->v[i];
    return NULL;
}

/* The label that a matcher asks for and no profile has; empty if they have all. */
static struct str unknown_label(const struct selector *s, const struct nearest_names *labels)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->v[i].op == MATCH_EQ && s->v[i].value.n && labels->n && !has(labels, label_canonical_name(s->v[i].name)))
            return s->v[i].name;
    return (struct str){"", 0};
}

static void explain(struct asking *a, const struct selector *s, struct buf *out)
{
    struct nearest_names services = {0}, types = {0}, others = {0};
    struct str function = a->param(a->ctx, "function"), label = a->param(a->ctx, "label"), wrong;
    struct str type = s->type.n ? s->type : str_from(a->type);
    const struct matcher *service = service_matcher(s);

    list_services(a, &services, &types);
    list_labels(a, &others);
    wrong = unknown_label(s, &others);
    if (!services.n) {
        put_other_range(a, out);
    } else if (!has(&types, type) && has(&services, type)) {
        buf_printf(out, "; did you mean '%s{service.name=\"%.*s\"}'?", a->type, STR_FMT(type));
    } else if (!has(&types, type)) {
        put_nearest(out, "type", type, &types);
    } else if (str_is(wrong, "service")) {
        buf_puts(out, "; no profile has a label 'service': did you mean service.name?");
    } else if (wrong.n) {
        buf_printf(out, "; no profile has a label '%.*s'", STR_FMT(wrong));
        put_nearest(out, "label", wrong, &others);
    } else if (service && !has(&services, service->value)) {
        put_nearest(out, "service", service->value, &services);
    } else if (label.n) {
        put_nearest(out, "label", label, &others);
    } else if (function.n) {
        others.n = 0;
        list_functions(a, &others);
        put_nearest(out, "function", function, &others);
    }
    mem_free(services.v);
    mem_free(types.v);
    mem_free(others.v);
}

static const char *missing_of(const struct question *what)
{
    static const char *const names[][2] = {
        {"spans", "samples with spans"}, {"symbols", "binaries"}, {"leaks", "growing memory"}};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(what->name, names[i][0]) == 0)
            return names[i][1];
    return "data";
}

/* Whether it is only the baseline of a drift that has no data. */
static bool is_only_baseline(struct asking *a, const struct question *what, struct str answer)
{
    struct drift_answer d = {0};

    return strcmp(what->name, "drift") == 0 &&
           record_read_value(answer, what->answer, RECORD_ANSWER, &a->arena, &d, NULL) == 0 &&
           strcmp(d.empty, "baseline") == 0;
}

void query_nearest(const struct ask_target *t, const struct question *what, ask_param_fn param, void *ctx,
                   struct str answer, struct buf *out)
{
    const char *type = what->type ? what->type : "cpu";
    struct asking a = {.target = t, .param = param, .ctx = ctx, .type = type, .answer = BUF_INIT};
    struct str query = param(ctx, "query"), function = param(ctx, "function"), label = param(ctx, "label");
    struct selector s = {0};
    struct err e = {0};

    arena_init(&a.arena, 0);
    buf_printf(out, "no %s", missing_of(what));
    if (strcmp(what->name, "labels") == 0 && label.n)
        buf_printf(out, " with a label '%.*s'", STR_FMT(label));
    else
        buf_printf(out, " for %.*s", STR_FMT(query.n ? query : str_from(type)));
    if (function.n)
        buf_printf(out, " with function '%.*s'", STR_FMT(function));
    if (is_only_baseline(&a, what, answer))
        buf_puts(
            out,
            " in the baseline, which is as much time before the range unless --baseline-from and --baseline-to say "
            "otherwise; the range itself has data");
    else if (selector_parse(query, &a.arena, &s, &e) == 0)
        explain(&a, &s, out);
    selector_done(&s);
    arena_done(&a.arena);
    buf_done(&a.answer);
}
