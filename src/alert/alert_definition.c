/* SPDX-License-Identifier: Apache-2.0 */
/* Reads definitions of alert rules by the option table of wick.yaml. See alert_definition.h. */
#include "alert/alert_definition.h"

#include <errno.h>
#include <stdio.h>

#include "conf/conf_make.h"

enum { NAME_BYTES = 200, WORD_BYTES = 40, TEXT_BYTES = 2000, LABELS = 32 };

#define DEFINITION(member) offsetof(struct alert_definition, member)

const struct record_field alert_definition_fields[] = {
    {"id", RECORD_STR, DEFINITION(id), .flags = RECORD_OURS},
    {"name", RECORD_STR, DEFINITION(name), NAME_BYTES, "unique for the tenant", RECORD_REQUIRED},
    {"type", RECORD_STR, DEFINITION(type), WORD_BYTES, "drift, verdict, threshold, spike or lost", RECORD_REQUIRED},
    {"selector", RECORD_STR, DEFINITION(selector), TEXT_BYTES, "as in cpu{service.name=\"checkout\"}", RECORD_SPARSE},
    {"function", RECORD_STR, DEFINITION(function), TEXT_BYTES, "regular expression for whole names", RECORD_SPARSE},
    {"of", RECORD_STR, DEFINITION(of), WORD_BYTES, "total or self", RECORD_SPARSE},
    {"over", RECORD_STR, DEFINITION(over), WORD_BYTES, "the limit, as in 20% or 1.5 cores", RECORD_SPARSE},
    {"window", RECORD_STR, DEFINITION(window), WORD_BYTES, "as in 5m", RECORD_SPARSE},
    {"baseline", RECORD_STR, DEFINITION(baseline), WORD_BYTES, "as in 1d", RECORD_SPARSE},
    {"min_points", RECORD_NUMBER, DEFINITION(min_points), 0, "smallest change, in percentage points",
     .when = DEFINITION(has_min_points)},
    {"factor", RECORD_NUMBER, DEFINITION(factor), 0, "how many times the usual", .when = DEFINITION(has_factor)},
    {"direction", RECORD_STR, DEFINITION(direction), WORD_BYTES, "up, down or both", RECORD_SPARSE},
    {"for", RECORD_STR, DEFINITION(hold), WORD_BYTES, "how long the condition must hold, as in 10m", RECORD_SPARSE},
    {"keep", RECORD_STR, DEFINITION(keep), WORD_BYTES, "how long it must be over", RECORD_SPARSE},
    {"each_service", RECORD_BOOL, DEFINITION(each), 0, "one evaluation for each service", .when = DEFINITION(has_each)},
    {"labels", RECORD_MAP, DEFINITION(labels), LABELS, "labels of its alerts", RECORD_SPARSE},
    {0},
};

static void make_number(struct conf_maker *m, struct conf_node *into, const char *key, bool has, double x)
{
    char text[40];

    snprintf(text, sizeof text, "%.17g", x);
    if (has)
        make_text(m, into, key, str_from(text));
}

/* Texts are C strings from here on, and appear in logs and messages. */
static void check_text(const char *key, struct str text, struct err *problem)
{
    for (uint32_t i = 0; i < text.n; i++)
        if ((unsigned char) text.p[i] < ' ' || text.p[i] == 0x7f)
            err_set(problem, -EINVAL, "'%s' must not have control characters", key);
}

/* What is text in wick.yaml, and what is a word, a time or a size there. */
static struct conf_node *make_definition(struct conf_maker *m, const struct alert_definition *d, struct err *problem)
{
    const struct {
        const char *key;
        struct str text;
        bool is_string;
    } keys[] = {{"name", d->name, true},
                {"type", d->type},
                {"selector", d->selector, true},
                {"function", d->function, true},
                {"of", d->of},
                {"over", d->over, true},
                {"window", d->window},
                {"baseline", d->baseline},
                {"direction", d->direction},
                {"for", d->hold},
                {"keep", d->keep}};
    const struct record_entry *labels = d->labels.v;
    struct conf_node *map = conf_new(m->conf, CONF_MAP, NULL, 0);

    if (!map)
        m->r = -ENOMEM;
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        check_text(keys[i].key, keys[i].text, problem);
        if (keys[i].text.n)
            (keys[i].is_string ? make_string : make_text)(m, map, keys[i].key, keys[i].text);
    }
    make_number(m, map, "min_points", d->has_min_points, d->min_points);
    make_number(m, map, "factor", d->has_factor, d->factor);
    if (d->has_each)
        make_text(m, map, "each_service", d->each ? STR("true") : STR("false"));
    for (uint32_t i = 0; m->r == 0 && i < d->labels.n; i++) {
        struct conf_node *value, *into = make_map(m, map, "labels");

        check_text("labels", labels[i].name, problem);
        check_text("labels", labels[i].value, problem);
        value = make_node(m, into, NULL, CONF_SCALAR);
        if (value) { /* the name may be any text, which the compilation refuses where it is not a label's */
            value->text = arena_str(&m->conf->arena, labels[i].value);
            value->quoted = true;
            into->keys[into->n - 1] = arena_str(&m->conf->arena, labels[i].name);
        }
    }
    return map;
}

int alert_definition_read(const struct alert_definition *d, struct conf *c, struct alert_added *ret)
{
    struct conf_maker m = {.conf = c};
    int r;

    *ret = (struct alert_added){0};
    ret->node = make_definition(&m, d, &ret->problem);
    if (m.r == 0)
        ret->id = arena_cstr(&c->arena, d->id);
    if (m.r < 0 || !ret->id)
        return -ENOMEM;
    r = ret->problem.code;
    if (r == 0)
        r = option_parse(c, alert_rule_options, ret->node, &ret->config, &ret->problem);
    if (r == -ENOMEM)
        return r;
    ret->invalid = r < 0;
    ret->config.tenant = arena_cstr(&c->arena, d->tenant);
    return ret->config.tenant ? 0 : -ENOMEM;
}
