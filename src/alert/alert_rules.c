/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and compiles the sections `alerts` and `recording` of wick.yaml. See alert_rules.h. */
#include "alert/alert_rules.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/regex.h"
#include "net/address.h"

enum { TEXT_LIMIT = 64 << 20, NAME_MAX_BYTES = 200, LABELS_MAX = 32, RECORDED_OF_RULE_MAX = 100 };
#define WINDOW_DEFAULT (10 * 60 * NS_PER_S)
#define WINDOW_SHORT (5 * 60 * NS_PER_S)
#define WINDOW_MIN (10 * NS_PER_S)
#define WINDOW_MAX (31 * 86400 * NS_PER_S)
#define HOLD_DEFAULT (10 * 60 * NS_PER_S)

/* What is compiled, and where it is in the file. */
struct alert_compile {
    struct alert_rules *rules;
    struct map names, sources;    /* of rules and of sources */
    const struct conf_node *node; /* of the rule at hand */
    struct err *e;
};

/* --- limits --- */

static const struct {
    const char *suffix;
    double factor;
} sizes[] = {{"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}, {"TB", 1e12},
             {"GB", 1e9},     {"MB", 1e6},     {"kB", 1e3},     {"B", 1}};

static bool cut_suffix(struct str *s, const char *suffix)
{
    if (!str_ends(*s, str_from(suffix)))
        return false;
    *s = str_trim(str_slice(*s, 0, s->n - strlen(suffix)));
    return true;
}

static int wrong_limit(struct str text, const struct type *t, struct err *e)
{
    const char *like = "20% or 12/s";

    if (str_is(t->unit, "nanoseconds"))
        like = "20% or 1.5 cores";
    else if (str_is(t->unit, "bytes"))
        like = t->rule == TYPE_GAUGE ? "20% or 2GiB" : "20% or 100MiB/s";
    else if (t->rule == TYPE_GAUGE)
        like = "20% or 1000";
    return err_set(e, -EINVAL, "'%.*s' is not a limit for %.*s, such as %s", STR_FMT(text), STR_FMT(t->name), like);
}

int alert_limit_parse(struct str text, const struct type *t, enum alert_unit *ret_unit, double *ret, struct err *e)
{
    struct str s = str_trim(text);
    bool share = cut_suffix(&s, "%"), seconds = str_is(t->unit, "nanoseconds"), bytes = str_is(t->unit, "bytes");
    double factor = share ? 0.01 : 1, value;

    if (!share && seconds) {
        if (!cut_suffix(&s, "cores"))
            cut_suffix(&s, "core");
    } else if (!share) {
        if (cut_suffix(&s, "/s") && t->rule == TYPE_GAUGE)
            return wrong_limit(text, t, e);
        for (size_t i = 0; bytes && i < ARRAY_SIZE(sizes); i++)
            if (cut_suffix(&s, sizes[i].suffix)) {
                factor = sizes[i].factor;
                break;
            }
    }
    if (str_to_double(s, &value) < 0 || !isfinite(value) || value < 0 || (share && value > 100))
        return wrong_limit(text, t, e);
    *ret_unit = share ? ALERT_SHARE : ALERT_RATE;
    *ret = value * factor;
    return 0;
}

void alert_put_duration(struct buf *out, int64_t ns)
{
    static const struct {
        const char *unit;
        int64_t ns;
    } units[] = {
        {"d", 86400 * NS_PER_S}, {"h", 3600 * NS_PER_S}, {"m", 60 * NS_PER_S}, {"s", NS_PER_S}, {"ms", NS_PER_MS}};
    size_t before = out->n;

    for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
        if (ns >= units[i].ns)
            buf_printf(out, "%lld%s", (long long) (ns / units[i].ns), units[i].unit);
        ns %= units[i].ns;
    }
    if (out->n == before)
        buf_puts(out, "0s");
}

/* --- errors and copies --- */

/* The node of a key of the rule at hand, or that of the rule where the key is absent. */
static const struct conf_node *at(const struct alert_compile *c, const char *key)
{
    const struct conf_node *n = conf_get(c->node, key);

    return n ? n : c->node;
}

static int wrong_key(const struct alert_compile *c, const char *key, const char *what)
{
    return conf_error(at(c, key), -EINVAL, c->e, "'%s' %s", key, what);
}

static const char *copy(struct alert_compile *c, const char *s)
{
    return arena_cstr(&c->rules->arena, str_from(s ? s : ""));
}

static int compile_regex(struct alert_compile *c, const char *text, const char **ret_text, struct regex **ret)
{
    struct err sub = {0};
    int r;

    if (!text || !*text)
        return 0;
    *ret_text = copy(c, text);
    r = *ret_text ? regex_new(str_from(text), ret, &sub) : -ENOMEM;
    return r == 0 || r == -ENOMEM ? r : conf_error(at(c, "function"), r, c->e, "'function': %s", err_message(&sub, r));
}

/* --- receivers --- */

static uint64_t target_id(enum alert_target_kind kind, const char *url)
{
    struct hash128_state s;

    hash128_init(&s, kind);
    hash128_bytes(&s, url, strlen(url));
    return hash128_final(&s).hi;
}

/* An Alertmanager is named by its address; a path in the URL is a prefix. */
static char *target_url(struct arena *a, enum alert_target_kind kind, const char *url)
{
    size_t n = strlen(url);

    if (kind == ALERT_WEBHOOK)
        return arena_cstr(a, str_from(url));
    while (n && url[n - 1] == '/')
        n--;
    return arena_printf(a, "%.*s/api/v2/alerts", (int) n, url);
}

static int add_target(struct alert_compile *c, enum alert_target_kind kind, const char *text,
                      const struct conf_node *node, uint32_t *mask)
{
    struct alert_rules *x = c->rules;
    struct alert_target t = {.kind = kind, .url = target_url(&x->arena, kind, text)};
    struct http_url url;
    struct err sub = {0};
    int r = t.url ? http_url_parse(t.url, &url, &sub) : -ENOMEM;

    if (r < 0)
        return r == -ENOMEM ? r
                            : conf_error(node, r, c->e, /* the URL may contain a secret: it is not printed */
                                         "not the URL of a receiver; expected http://HOST… or https://HOST…, without a "
                                         "user name, spaces or control characters");
    if (!x->allow_link_local && address_is_link_local(url.host))
        return conf_error(node, -EPERM, c->e, "'%s' is a link-local address (allow_link_local is off)", url.host);
    t.id = target_id(kind, t.url);
    t.host = arena_cstr(&x->arena, str_from(url.unix_path[0] ? url.unix_path : url.authority));
    if (!t.host)
        return -ENOMEM;
    for (uint32_t i = 0; i < x->n_targets; i++)
        if (x->targets[i].id == t.id) {
            *mask |= 1u << i;
            return 0;
        }
    if (x->n_targets == ALERT_TARGETS_MAX)
        return conf_error(node, -E2BIG, c->e, "too many receivers; the maximum is %d", ALERT_TARGETS_MAX);
    *mask |= 1u << x->n_targets;
    x->targets[x->n_targets++] = t;
    return 0;
}

static int add_targets(struct alert_compile *c, enum alert_target_kind kind, const struct option_strings *urls,
                       const struct conf_node *node, uint32_t *mask)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < urls->n; i++)
        r = add_target(c, kind, urls->v[i], node && node->kind == CONF_LIST && i < node->n ? node->items[i] : node,
                       mask);
    return r;
}

static int compile_headers(struct alert_compile *c, const struct alert_config *a, const struct conf_node *node)
{
    for (uint32_t i = 0; i < a->headers.n; i++) {
        const struct option_pair *p = &a->headers.v[i];
        struct str value = str_trim(str_from(p->value)); /* a file usually ends with a newline */
        int r = http_headers_add(&c->rules->headers, &c->rules->arena, str_from(p->name), value);

        if (r < 0)
            return r == -ENOMEM ? r
                                : conf_error(conf_get(node, "headers"), r, c->e,
                                             "'headers': '%s' is not a valid header", p->name);
    }
    return 0;
}

static int compile_tls(struct alert_compile *c, const struct alert_tls_config *t)
{
    struct tls_options *o = &c->rules->tls;

    *o = (struct tls_options){.insecure_skip_verify = t->insecure_skip_verify, .http1 = true};
    o->ca_file = t->ca_file ? copy(c, t->ca_file) : NULL;
    o->cert_file = t->cert_file ? copy(c, t->cert_file) : NULL;
    o->key_file = t->key_file ? copy(c, t->key_file) : NULL;
    return c->rules->arena.failed ? -ENOMEM : 0;
}

/* --- sources --- */

static uint64_t source_hash(const struct alert_source *s)
{
    return hash64_str(str_from(s->selector)) ^ hash64_str(str_from(s->tenant)) * 3 ^
           hash64_u64((uint64_t) s->window * 8 + s->kind) ^ hash64_u64((uint64_t) s->baseline * 2 + s->each) * 5;
}

static bool same_source(const struct alert_source *a, const struct alert_source *b)
{
    return a->kind == b->kind && a->each == b->each && a->window == b->window && a->baseline == b->baseline &&
           a->min_points == b->min_points && strcmp(a->tenant, b->tenant) == 0 && strcmp(a->selector, b->selector) == 0;
}

/* The selector in its canonical form, so that rules which spell it differently share a source. */
static int compile_selector(struct alert_compile *c, const char *text, const char *type, struct alert_source *s)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct err sub = {0};
    int r = selector_parse(str_from(text ? text : ""), &c->rules->arena, &s->parsed, &sub);

    if (r < 0)
        return r == -ENOMEM ? r : conf_error(at(c, "selector"), r, c->e, "'selector': %s", err_message(&sub, r));
    if (!s->parsed.type.n)
        s->parsed.type = str_from(type);
    if (str_is(s->parsed.type, "*"))
        return wrong_key(c, "selector", "must name a type, such as cpu");
    type_by_name(s->parsed.type, &s->value);
    if (s->parsed.n)
        selector_print(&b, &s->parsed);
    else
        buf_put_str(&b, s->parsed.type);
    s->selector = arena_cstr(&c->rules->arena, buf_str(&b));
    return s->selector && !buf_error(&b) ? 0 : -ENOMEM;
}

/* Finds or adds the source; takes s->parsed. */
static int add_source(struct alert_compile *c, struct alert_source *s, uint32_t *ret)
{
    struct alert_rules *x = c->rules;
    uint64_t h = source_hash(s);

    for (struct map_pos p = map_find(&c->sources, h); p.index != MAP_NONE; p = map_next(&c->sources, p))
        if (same_source(&x->sources[p.index], s)) {
            selector_done(&s->parsed);
            *ret = p.index;
            return 0;
        }
    x->sources[x->n_sources] = *s;
    *ret = x->n_sources++;
    return map_insert(&c->sources, h, *ret);
}

static int link_sources(struct alert_rules *x)
{
    for (uint32_t i = 0; i < x->n_sources; i++) {
        struct alert_source *s = &x->sources[i];

        for (uint32_t k = 0; k < x->n; k++)
            s->n_rules += x->v[k].source == i;
        for (uint32_t k = 0; k < x->n_recordings; k++)
            s->n_recordings += x->recordings[k].source == i;
        s->rules = arena_zalloc_array(&x->arena, s->n_rules + 1u, sizeof *s->rules);
        s->recordings = arena_zalloc_array(&x->arena, s->n_recordings + 1u, sizeof *s->recordings);
        if (!s->rules || !s->recordings)
            return -ENOMEM;
        s->n_rules = s->n_recordings = 0;
    }
    for (uint32_t k = 0; k < x->n; k++) {
        struct alert_source *s = &x->sources[x->v[k].source];

        s->rules[s->n_rules++] = k;
    }
    for (uint32_t k = 0; k < x->n_recordings; k++) {
        struct alert_source *s = &x->sources[x->recordings[k].source];

        s->recordings[s->n_recordings++] = k;
    }
    return 0;
}

/* --- rules --- */

#define OF(type) (1u << (type))

/* Keys that not every type has. */
static int check_keys(const struct alert_compile *c, enum alert_type type)
{
    static const struct {
        const char *key;
        unsigned types;
    } keys[] = {
        {"function", OF(ALERT_DRIFT) | OF(ALERT_THRESHOLD)},
        {"of", OF(ALERT_THRESHOLD)},
        {"over", OF(ALERT_THRESHOLD) | OF(ALERT_LOST)},
        {"window", OF(ALERT_DRIFT) | OF(ALERT_THRESHOLD) | OF(ALERT_SPIKE) | OF(ALERT_LOST)},
        {"baseline", OF(ALERT_DRIFT) | OF(ALERT_THRESHOLD) | OF(ALERT_SPIKE) | OF(ALERT_LOST)},
        {"min_points", OF(ALERT_DRIFT) | OF(ALERT_VERDICT)},
        {"factor", OF(ALERT_SPIKE)},
        {"direction", OF(ALERT_DRIFT)},
    };

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        const struct conf_node *n = conf_get(c->node, keys[i].key);

        if (n && !(keys[i].types & OF(type)))
            return conf_error(n, -EINVAL, c->e, "'%s' does not apply to rules of type %s", keys[i].key,
                              alert_type_names[type]);
    }
    return 0;
}

static int check_times(const struct alert_compile *c, const struct alert_rule *r)
{
    if (r->window < WINDOW_MIN || r->window > WINDOW_MAX)
        return wrong_key(c, "window", "must be between 10s and 31d");
    if (r->baseline < r->window || r->baseline > WINDOW_MAX)
        return wrong_key(c, "baseline", "must be between the length of the window and 31d");
    if (r->hold < 0 || r->hold > WINDOW_MAX)
        return wrong_key(c, "for", "must be between 0s and 31d");
    if (r->keep < 0 || r->keep > WINDOW_MAX)
        return wrong_key(c, "keep", "must be between 0s and 31d");
    return 0;
}

static int check_numbers(const struct alert_compile *c, const struct alert_rule *r)
{
    if (!(r->min_points >= 0 && r->min_points <= 100))
        return wrong_key(c, "min_points", "must be between 0 and 100");
    if (!(r->factor > 1 && r->factor <= 1e6))
        return wrong_key(c, "factor", "must be greater than 1");
    return 0;
}

static int compile_limit(struct alert_compile *c, const struct alert_rule_config *from, const struct type *t,
                         struct alert_rule *r)
{
    const char *text = from->over ? from->over : from->type == ALERT_LOST ? "5%" : NULL;
    struct err sub = {0};
    int x;

    r->unit = from->type == ALERT_SPIKE ? ALERT_RATIO : from->type == ALERT_LOST ? ALERT_SECONDS : ALERT_POINTS;
    r->limit = from->type == ALERT_SPIKE  ? r->factor
               : from->type == ALERT_LOST ? (double) r->window / 1e9
                                          : r->min_points;
    if (from->type != ALERT_THRESHOLD && from->type != ALERT_LOST)
        return 0;
    if (!text)
        return wrong_key(c, "over", "is required, as in 20% or 1.5 cores");
    r->over = copy(c, text);
    x = alert_limit_parse(str_from(text), t, &r->unit, &r->limit, &sub);
    if (x < 0)
        return conf_error(at(c, "over"), x, c->e, "'over': %s", err_message(&sub, x));
    if (from->type == ALERT_LOST && r->unit != ALERT_SHARE)
        return wrong_key(c, "over", "must be a share of the profiles, as in 5%");
    if (from->type == ALERT_THRESHOLD && r->unit == ALERT_SHARE && !r->regex)
        return wrong_key(c, "over", "is a share, which is that of a function: 'function' is required");
    return r->over ? 0 : -ENOMEM;
}

static bool is_label_name(const char *s)
{
    for (const char *p = s; *p; p++)
        if (!(*p == '_' || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (p > s && *p >= '0' && *p <= '9')))
            return false;
    return *s;
}

static int compile_labels(struct alert_compile *c, const struct option_map *from, struct alert_rule *r)
{
    struct label *v = arena_zalloc_array(&c->rules->arena, from->n + 1u, sizeof *v);

    if (!v)
        return -ENOMEM;
    if (from->n > LABELS_MAX)
        return wrong_key(c, "labels", "has too many entries; the maximum is 32");
    for (uint32_t i = 0; i < from->n; i++) {
        if (!is_label_name(from->v[i].name))
            return conf_error(at(c, "labels"), -EINVAL, c->e,
                              "'labels': '%s' is not a label name: letters, digits and _", from->v[i].name);
        v[i] = (struct label){arena_str(&c->rules->arena, str_from(from->v[i].name)),
                              arena_str(&c->rules->arena, str_from(from->v[i].value))};
    }
    r->labels = v;
    r->n_labels = from->n;
    return c->rules->arena.failed ? -ENOMEM : 0;
}

static int check_name(struct alert_compile *c, const struct alert_rule *r, uint32_t index)
{
    uint64_t h = hash64_str(str_from(r->name)) ^ hash64_str(str_from(r->tenant)) * 3;

    if (!r->name[0] || strlen(r->name) > NAME_MAX_BYTES || !str_is_utf8(str_from(r->name)))
        return wrong_key(c, "name", "must be text of 1 to 200 bytes");
    for (struct map_pos p = map_find(&c->names, h); p.index != MAP_NONE; p = map_next(&c->names, p)) {
        const struct alert_rule *other = &c->rules->v[p.index];

        if (strcmp(other->name, r->name) == 0 && strcmp(other->tenant, r->tenant) == 0)
            return conf_error(at(c, "name"), -EEXIST, c->e, "another rule is already named '%s'", r->name);
    }
    return map_insert(&c->names, h, index);
}

static int compile_source(struct alert_compile *c, const struct alert_rule_config *from, struct alert_rule *r)
{
    static const enum alert_source_kind kinds[] = {ALERT_DRIFTS, ALERT_VERDICTS, ALERT_TABLE, ALERT_RATES,
                                                   ALERT_PRESENCE};
    struct alert_source s = {.kind = kinds[r->type], .tenant = r->tenant, .each = r->each, .window = r->window};
    int x = compile_selector(c, from->selector, r->type == ALERT_SPIKE ? "alloc" : "cpu", &s);

    if (r->type != ALERT_THRESHOLD && r->type != ALERT_VERDICT)
        s.baseline = r->baseline;
    if (r->type == ALERT_DRIFT || r->type == ALERT_VERDICT)
        s.min_points = r->min_points;
    if (x == 0 && r->type == ALERT_SPIKE && s.value.rule == TYPE_GAUGE)
        x = wrong_key(c, "selector", "names what a program holds; spikes are found in what it spends, such as alloc");
    if (x == 0 && r->type == ALERT_VERDICT && !r->each && !alert_service_of(&s.parsed).n)
        x = wrong_key(c, "selector",
                      "must name one service, as in cpu{service.name=\"checkout\"}, unless each_service is true");
    if (x == 0)
        x = compile_limit(c, from, &s.value, r);
    r->selector = s.selector;
    if (x == 0)
        return add_source(c, &s, &r->source);
    selector_done(&s.parsed);
    return x;
}

static int compile_rule(struct alert_compile *c, const struct alert_rule_config *from, uint32_t defaults,
                        struct alert_rule *r)
{
    bool by_service = from->type == ALERT_VERDICT || from->type == ALERT_LOST;
    bool is_short = from->type == ALERT_THRESHOLD || from->type == ALERT_SPIKE;
    int x;

    *r = (struct alert_rule){.name = copy(c, from->name),
                             .tenant = copy(c, from->tenant),
                             .id = "",
                             .type = (enum alert_type) from->type,
                             .self = from->of == ALERT_OF_SELF,
                             .each = from->has_each ? from->each : by_service,
                             .direction = (enum alert_direction) from->direction,
                             .min_points = from->min_points,
                             .factor = from->factor,
                             .window = from->window ? from->window
                                       : is_short   ? WINDOW_SHORT
                                                    : WINDOW_DEFAULT,
                             .baseline = from->baseline,
                             .hold = from->has_hold ? from->hold
                                     : by_service   ? 0
                                                    : HOLD_DEFAULT,
                             .keep = from->keep};
    if (!r->name || !r->tenant)
        return -ENOMEM;
    x = check_name(c, r, (uint32_t) (r - c->rules->v));
    if (x == 0)
        x = check_keys(c, r->type);
    if (x == 0)
        x = check_times(c, r);
    if (x == 0)
        x = check_numbers(c, r);
    if (x == 0)
        x = compile_regex(c, from->function, &r->function, &r->regex);
    if (x == 0)
        x = compile_labels(c, &from->labels, r);
    if (x == 0)
        x = add_targets(c, ALERT_WEBHOOK, &from->webhooks, conf_get(c->node, "webhooks"), &r->targets);
    if (x == 0)
        x = add_targets(c, ALERT_ALERTMANAGER, &from->alertmanagers, conf_get(c->node, "alertmanagers"), &r->targets);
    if (!from->webhooks.n && !from->alertmanagers.n)
        r->targets = defaults;
    return x < 0 ? x : compile_source(c, from, r);
}

/* Leaves an invalid rule out. The names map may keep its index, which another rule gets: names are compared. */
static int add_invalid(struct alert_compile *c, struct alert_added *a)
{
    struct alert_rules *x = c->rules;

    a->invalid = true;
    x->invalid[x->n_invalid++] = (struct alert_invalid){copy(c, a->config.name), copy(c, a->config.tenant),
                                                        copy(c, a->id), copy(c, a->problem.message)};
    return x->arena.failed ? -ENOMEM : 0;
}

static int compile_added(struct alert_compile *c, struct alert_added *a, uint32_t defaults)
{
    struct alert_rules *x = c->rules;
    struct alert_rule *rule = &x->v[x->n];
    struct err *e = c->e;
    int r;

    if (a->invalid)
        return add_invalid(c, a);
    c->node = a->node;
    c->e = &a->problem;
    r = compile_rule(c, &a->config, defaults, rule);
    c->e = e;
    if (r == 0) {
        rule->id = copy(c, a->id);
        x->n++;
        return rule->id ? 0 : -ENOMEM;
    }
    regex_free(rule->regex);
    *rule = (struct alert_rule){0};
    return r == -ENOMEM ? r : add_invalid(c, a);
}

static int compile_recording(struct alert_compile *c, const struct alert_recording_config *from,
                             struct alert_recording *r)
{
    struct alert_source s = {.kind = ALERT_TABLE, .each = from->each, .window = from->window};
    int x;

    *r = (struct alert_recording){.name = copy(c, from->name),
                                  .tenant = copy(c, from->tenant),
                                  .self = from->of == ALERT_OF_SELF,
                                  .limit = (uint32_t) from->limit};
    if (!r->name || !r->tenant)
        return -ENOMEM;
    s.tenant = r->tenant;
    if (!r->name[0] || strlen(r->name) > NAME_MAX_BYTES)
        return wrong_key(c, "name", "must be text of 1 to 200 bytes");
    if (from->window < WINDOW_MIN || from->window > WINDOW_MAX)
        return wrong_key(c, "window", "must be between 10s and 31d");
    if (from->limit < 1 || from->limit > RECORDED_OF_RULE_MAX)
        return wrong_key(c, "limit", "must be between 1 and 100");
    x = compile_regex(c, from->function, &r->function, &r->regex);
    if (x == 0)
        x = compile_selector(c, from->selector, "cpu", &s);
    if (x == 0)
        return add_source(c, &s, &r->source);
    selector_done(&s.parsed);
    return x;
}

/* --- the whole --- */

static int compile_settings(struct alert_compile *c, const struct alert_sections *s)
{
    const struct alert_config *a = s->alerts;
    struct alert_rules *x = c->rules;
    int r;

    c->node = s->alerts_node;
    if (a->interval < NS_PER_S || a->interval > 86400 * NS_PER_S)
        return wrong_key(c, "interval", "must be between 1s and 1d");
    if (a->timeout < NS_PER_S || a->timeout > 300 * NS_PER_S)
        return wrong_key(c, "timeout", "must be between 1s and 5m");
    if (!(a->budget >= 0 && a->budget <= 100))
        return wrong_key(c, "budget", "must be between 0 and 100 percent of a core");
    if (a->repeat < 0)
        return wrong_key(c, "repeat", "must not be negative");
    x->interval = a->interval;
    x->repeat = a->repeat;
    x->timeout = a->timeout;
    x->budget = a->budget / 100;
    x->allow_link_local = a->allow_link_local;
    r = compile_headers(c, a, s->alerts_node);
    return r < 0 ? r : compile_tls(c, &a->tls);
}

static const struct conf_node *item_of(const struct conf_node *list, uint32_t i)
{
    return list && list->kind == CONF_LIST && i < list->n ? list->items[i] : list;
}

/* Receivers without any rules get the verdict on every new version: a deploy needs no more than a URL. */
static const struct alert_rule_config default_rule = {.name = "new version is worse",
                                                      .type = ALERT_VERDICT,
                                                      .baseline = 86400 * NS_PER_S,
                                                      .keep = 5 * 60 * NS_PER_S,
                                                      .min_points = 2,
                                                      .factor = 3};

static int compile_all(struct alert_compile *c, const struct alert_sections *s)
{
    const struct alert_rule_config *rules = s->alerts->rules.v;
    const struct alert_recording_config *recording = s->recording->v;
    const struct conf_node *list = conf_get(s->alerts_node, "rules");
    struct alert_rules *x = c->rules;
    uint32_t defaults = 0;
    int r = compile_settings(c, s);

    if (r == 0)
        r = add_targets(c, ALERT_WEBHOOK, &s->alerts->webhooks, conf_get(s->alerts_node, "webhooks"), &defaults);
    if (r == 0)
        r = add_targets(c, ALERT_ALERTMANAGER, &s->alerts->alertmanagers, conf_get(s->alerts_node, "alertmanagers"),
                        &defaults);
    for (uint32_t i = 0; r == 0 && i < s->alerts->rules.n; i++) {
        c->node = item_of(list, i);
        r = compile_rule(c, &rules[i], defaults, &x->v[x->n++]);
    }
    if (r == 0 && !list && x->n_targets) {
        c->node = s->alerts_node;
        r = compile_rule(c, &default_rule, defaults, &x->v[x->n++]);
    }
    for (uint32_t i = 0; r == 0 && s->added_rules && i < s->added_rules->n; i++)
        r = compile_added(c, &s->added_rules->v[i], defaults);
    for (uint32_t i = 0; r == 0 && i < s->recording->n; i++) {
        c->node = item_of(s->recording_node, i);
        r = compile_recording(c, &recording[i], &x->recordings[x->n_recordings++]);
    }
    c->node = NULL;
    for (uint32_t i = 0; r == 0 && s->added && i < s->added->n; i++) {
        const struct alert_recording_config *added = s->added->v;

        r = compile_recording(c, &added[i], &x->recordings[x->n_recordings]);
        x->recordings[x->n_recordings++].added = true;
    }
    return r < 0 ? r : link_sources(x);
}

int alert_rules_new(const struct alert_sections *s, struct alert_rules **ret, struct err *e)
{
    _cleanup_(alert_rules_unrefp) struct alert_rules *x = mem_zalloc(sizeof *x);
    struct alert_compile c = {.rules = x, .e = e};
    uint32_t n_added = s->added_rules ? s->added_rules->n : 0;
    size_t n = (size_t) s->alerts->rules.n + n_added, m = (size_t) s->recording->n + (s->added ? s->added->n : 0);
    int r;

    if (!x)
        return -ENOMEM;
    atomic_init(&x->refs, 1);
    arena_init(&x->arena, TEXT_LIMIT);
    if (s->alerts->rules.n > ALERT_RULES_MAX || m > ALERT_RULES_MAX)
        return conf_error(s->alerts_node, -E2BIG, e, "too many rules; the maximum is %d", ALERT_RULES_MAX);
    x->v = arena_zalloc_array(&x->arena, n + 1, sizeof *x->v); /* room for the default rule */
    x->invalid = arena_zalloc_array(&x->arena, n_added + 1u, sizeof *x->invalid);
    x->recordings = arena_zalloc_array(&x->arena, m + 1, sizeof *x->recordings);
    x->sources = arena_zalloc_array(&x->arena, n + m + 2, sizeof *x->sources);
    r = x->v && x->invalid && x->recordings && x->sources ? compile_all(&c, s) : -ENOMEM;
    map_done(&c.names);
    map_done(&c.sources);
    if (r < 0)
        return r;
    *ret = TAKE(x);
    return 0;
}

struct alert_rules *alert_rules_ref(struct alert_rules *r)
{
    atomic_fetch_add(&r->refs, 1);
    return r;
}

void alert_rules_unref(struct alert_rules *r)
{
    if (!r || atomic_fetch_sub(&r->refs, 1) != 1)
        return;
    for (uint32_t i = 0; i < r->n; i++)
        regex_free(r->v[i].regex);
    for (uint32_t i = 0; i < r->n_recordings; i++)
        regex_free(r->recordings[i].regex);
    for (uint32_t i = 0; i < r->n_sources; i++)
        selector_done(&r->sources[i].parsed);
    arena_done(&r->arena);
    mem_free(r);
}
