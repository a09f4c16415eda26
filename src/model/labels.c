/* SPDX-License-Identifier: Apache-2.0 */
/* Makes labels of resources, and parses and prints selectors (see labels.h). The grammar of selectors is PromQL's, with
 * dots allowed in names and quoted names for the rest. */
#include "model/labels.h"

#include <errno.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/regex.h"
#include "model/batch.h"
#include "model/semconv.h"

enum { LABELS_MAX = 64, MATCHERS_MAX = 64, VALUE_MAX_BYTES = 4096 };

const char *const labels_default_allow[] = {
    "service.name",
    "service.namespace",
    "service.version",
    "deployment.environment",
    "deployment.environment.name",
    "host.name",
    "k8s.namespace.name",
    "k8s.deployment.name",
    "k8s.statefulset.name",
    "k8s.daemonset.name",
    "k8s.job.name",
    "k8s.cronjob.name",
    SEMCONV_WICK_HIDDEN_RUNTIME,
    NULL,
};

static int label_cmp(const void *a, const void *b)
{
    return str_cmp(((const struct label *) a)->name, ((const struct label *) b)->name);
}

static int put_label(struct labels *l, struct str name, struct str value)
{
    if (l->n >= LABELS_MAX)
        return -E2BIG;
    l->v[l->n++] = (struct label){name, str_slice(value, 0, VALUE_MAX_BYTES)};
    return 0;
}

/* Returns a string as it is; prints any other value into the arena. */
static int label_text(const struct value *v, struct arena *a, struct str *ret)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    if (v->kind == VALUE_STR) {
        *ret = value_str(v);
        return 0;
    }
    value_print(&b, v);
    if (buf_error(&b) < 0)
        return buf_error(&b);
    *ret = arena_str(a, buf_str(&b));
    return b.n && !ret->p ? -ENOMEM : 0;
}

/* Finds a service.version when none was configured: the revision in Go's build info, the image's tag, or the build
 * ID. */
static int find_version(const struct batch *b, const struct resource *r, struct arena *a, struct str *ret)
{
    static const char *const keys[] = {"vcs.ref.head.revision",          "container.image.tag",
                                       "container.image.tags",           "process.executable.build_id.gnu",
                                       "process.executable.build_id.go", "process.executable.build_id.htlhash"};

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        const struct value *v = kvs_get(&r->attrs, str_from(keys[i]));
        int rc;

        if (!v)
            continue;
        if (v->kind == VALUE_ARRAY)
            v = v->n ? &v->array[0] : NULL;
        if (!v)
            continue;
        rc = label_text(v, a, ret);
        if (rc < 0 || ret->n)
            return rc;
    }
    (void) b;
    return 0;
}

static int find_fallback(const struct batch *b, const struct resource *r, const char *name, struct arena *a,
                         struct str *ret)
{
    const struct value *v;

    if (strcmp(name, "service.version") == 0)
        return find_version(b, r, a, ret);
    if (strcmp(name, "service.name") != 0)
        return 0;
    v = kvs_get(&r->attrs, STR("process.executable.name"));
    *ret = v && value_str(v).n ? value_str(v) : STR("unknown_service");
    return 0;
}

struct str labels_service(struct str name)
{
    static const struct str prefix = STR("unknown_service:");

    return name.n > prefix.n && str_starts(name, prefix) ? str_slice(name, prefix.n, name.n) : name;
}

int labels_from_resource(const struct batch *b, const struct resource *r, const char *const *allow, struct arena *a,
                         struct labels *ret)
{
    struct labels l = {0};
    size_t n = 0;
    int rc = 0;

    while (allow[n])
        n++;
    l.v = arena_zalloc_array(a, MIN(n, (size_t) LABELS_MAX) + 1, sizeof *l.v);
    if (!l.v)
        return -ENOMEM;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct value *v = labels_find_kv(&r->attrs, str_from(allow[i]));
        struct str text = {0};

        if (v)
            rc = label_text(v, a, &text);
        if (strcmp(allow[i], SEMCONV_SERVICE_NAME) == 0)
            text = labels_service(text);
        if (rc == 0 && !text.n)
            rc = find_fallback(b, r, allow[i], a, &text);
        if (rc == 0 && text.n)
            rc = put_label(&l, str_from(allow[i]), text);
    }
    if (rc < 0)
        return rc;
    qsort(l.v, l.n, sizeof *l.v, label_cmp);
    *ret = l;
    return 0;
}

struct id128 labels_id(const struct labels *l)
{
    struct hash128_state s;

    hash128_init(&s, 0x6c6162656c73ull);
    for (uint32_t i = 0; i < l->n; i++) {
        hash128_bytes(&s, l->v[i].name.p, l->v[i].name.n);
        hash128_bytes(&s, l->v[i].value.p, l->v[i].value.n);
    }
    return hash128_final(&s);
}

static char fold(char c)
{
    return c == '.' || c == '-' || c == '/' ? '_' : c;
}

bool label_name_eq(struct str a, struct str b)
{
    if (a.n != b.n)
        return false;
    for (uint32_t i = 0; i < a.n; i++)
        if (a.p[i] != b.p[i] && fold(a.p[i]) != fold(b.p[i]))
            return false;
    return true;
}

uint64_t label_name_hash(struct str name)
{
    uint64_t h = name.n;

    for (uint32_t i = 0; i < name.n; i++)
        h = hash_mix(h ^ (unsigned char) fold(name.p[i]), 0x9e3779b97f4a7c15ull);
    return h;
}

const struct value *labels_find_kv(const struct kvs *kvs, struct str name)
{
    for (uint32_t i = 0; i < kvs->n; i++)
        if (label_name_eq(kvs->v[i].key, name))
            return &kvs->v[i].value;
    return NULL;
}

struct str labels_get(const struct labels *l, struct str name)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (label_name_eq(l->v[i].name, name))
            return l->v[i].value;
    return (struct str){0};
}

bool labels_eq(const struct labels *a, const struct labels *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (!str_eq(a->v[i].name, b->v[i].name) || !str_eq(a->v[i].value, b->v[i].value))
            return false;
    return true;
}

static bool is_name_char(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' ||
           (!first && ((c >= '0' && c <= '9') || c == '/' || c == '-'));
}

static bool is_plain_name(struct str s)
{
    for (uint32_t i = 0; i < s.n; i++)
        if (!is_name_char(s.p[i], i == 0))
            return false;
    return s.n > 0;
}

/* Names that may be written with underscores, as users of Prometheus and Pyroscope do. */
static const char *const dotted[] = {
    "service.name",
    "service.namespace",
    "service.version",
    "service.instance.id",
    "deployment.environment",
    "deployment.environment.name",
    "host.name",
    "host.id",
    "k8s.namespace.name",
    "k8s.deployment.name",
    "k8s.statefulset.name",
    "k8s.daemonset.name",
    "k8s.job.name",
    "k8s.cronjob.name",
    SEMCONV_WICK_HIDDEN_RUNTIME,
    "k8s.pod.name",
    "k8s.node.name",
    "k8s.container.name",
    "container.id",
    "container.name",
    "process.pid",
    "process.executable.name",
    "process.command_line",
    "thread.id",
    "thread.name",
    "telemetry.sdk.language",
    "cloud.region",
};

struct str label_canonical_name(struct str name)
{
    for (size_t i = 0; i < ARRAY_SIZE(dotted); i++)
        if (label_name_eq(name, str_from(dotted[i])))
            return str_from(dotted[i]);
    return name;
}

/* --- selectors --- */

struct parser {
    struct str text;
    uint32_t pos;
    struct arena *arena;
    struct err *err;
};

static void skip_space(struct parser *p)
{
    while (p->pos < p->text.n && strchr(" \t\r\n", p->text.p[p->pos]) && p->text.p[p->pos])
        p->pos++;
}

static bool eat(struct parser *p, char c)
{
    skip_space(p);
    if (p->pos >= p->text.n || p->text.p[p->pos] != c)
        return false;
    p->pos++;
    return true;
}

static int fail_at(struct parser *p, const char *what)
{
    return err_set(p->err, -EINVAL, "selector '%.*s': %s at character %u", STR_FMT(p->text), what, p->pos + 1);
}

static int parse_name(struct parser *p, struct str *ret)
{
    uint32_t from;

    skip_space(p);
    from = p->pos;
    while (p->pos < p->text.n && is_name_char(p->text.p[p->pos], p->pos == from))
        p->pos++;
    *ret = str_slice(p->text, from, p->pos);
    return ret->n ? 0 : -EINVAL;
}

static int unescape(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case '\\':
    case '"':
    case '\'':
    case '`':
        return c;
    default:
        return -1;
    }
}

static int parse_quoted(struct parser *p, struct str *ret)
{
    char quote, *out;
    uint32_t n = 0;

    skip_space(p);
    quote = p->pos < p->text.n ? p->text.p[p->pos] : 0;
    if (quote != '"' && quote != '\'' && quote != '`')
        return fail_at(p, "a quoted value is missing");
    p->pos++;
    out = arena_alloc_aligned(p->arena, p->text.n - p->pos + 1, 1);
    if (!out)
        return err_set(p->err, -ENOMEM, "selector: out of memory");
    while (p->pos < p->text.n && p->text.p[p->pos] != quote) {
        char c = p->text.p[p->pos++];

        if (c == '\\' && quote != '`' && p->pos < p->text.n) {
            int u = unescape(p->text.p[p->pos]);

            if (u >= 0) {
                c = (char) u;
                p->pos++;
            } /* others stay unchanged: "\." in a regular expression */
        }
        out[n++] = c;
    }
    if (p->pos >= p->text.n)
        return fail_at(p, "the closing quote is missing");
    p->pos++;
    *ret = (struct str){out, n};
    return 0;
}

static int parse_op(struct parser *p, enum match_op *ret)
{
    skip_space(p);
    if (eat(p, '=')) {
        if (p->pos < p->text.n && p->text.p[p->pos] == '~') {
            p->pos++;
            *ret = MATCH_RE;
        } else {
            *ret = MATCH_EQ;
        }
        return 0;
    }
    if (eat(p, '!') && p->pos < p->text.n) {
        char c = p->text.p[p->pos++];

        *ret = c == '~' ? MATCH_NRE : MATCH_NE;
        if (c == '~' || c == '=')
            return 0;
    }
    return fail_at(p, "one of = != =~ !~ is missing");
}

static int parse_matcher(struct parser *p, struct matcher *m)
{
    int r;

    skip_space(p);
    if (p->pos < p->text.n && strchr("\"'`", p->text.p[p->pos]))
        r = parse_quoted(p, &m->name);
    else if (parse_name(p, &m->name) < 0)
        return fail_at(p, "a label name is missing");
    else
        r = 0;
    if (r == 0)
        r = parse_op(p, &m->op);
    if (r == 0)
        r = parse_quoted(p, &m->value);
    if (r < 0)
        return r;
    m->name = label_canonical_name(m->name);
    if (m->op == MATCH_RE || m->op == MATCH_NRE)
        return regex_new(m->value, &m->regex, p->err);
    return 0;
}

static int parse_matchers(struct parser *p, struct selector *s)
{
    s->v = arena_zalloc_array(p->arena, MATCHERS_MAX, sizeof *s->v);
    if (!s->v)
        return err_set(p->err, -ENOMEM, "selector: out of memory");
    if (eat(p, '}'))
        return 0;
    for (;;) {
        int r;

        if (s->n >= MATCHERS_MAX)
            return fail_at(p, "too many matchers");
        r = parse_matcher(p, &s->v[s->n]);
        if (r < 0)
            return r;
        s->n++;
        if (eat(p, '}'))
            return 0;
        if (!eat(p, ','))
            return fail_at(p, "',' or '}' is missing");
        if (eat(p, '}')) /* a trailing comma, which PromQL allows */
            return 0;
    }
}

/* Everything up to the brace: a canonical type, one of its spellings, or Pyroscope's id with colons. */
static void parse_type(struct parser *p, struct selector *s)
{
    ptrdiff_t brace = str_find_char(p->text, '{');

    p->pos = brace < 0 ? p->text.n : (uint32_t) brace;
    s->type = str_trim(str_slice(p->text, 0, p->pos));
}

int selector_parse(struct str text, struct arena *a, struct selector *ret, struct err *e)
{
    struct selector s = {0};
    struct parser p = {.arena = a, .err = e};
    int r = 0;

    p.text = arena_str(a, str_trim(text)); /* the selector outlives the text it was parsed from */
    if (text.n && !p.text.p)
        return err_set(e, -ENOMEM, "selector: out of memory");
    parse_type(&p, &s);
    if (eat(&p, '{'))
        r = parse_matchers(&p, &s);
    skip_space(&p);
    if (r == 0 && p.pos < p.text.n)
        r = fail_at(&p, "unexpected text after the selector");
    for (uint32_t i = 0; r == 0 && i < s.type.n; i++)
        if (strchr(" \t\"'`=,}", s.type.p[i])) {
            p.pos = i;
            r = fail_at(&p, "invalid character in a profile type");
        }
    if (r < 0) {
        selector_done(&s);
        return r;
    }
    *ret = s;
    return 0;
}

void selector_done(struct selector *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        regex_free(s->v[i].regex);
        s->v[i].regex = NULL;
    }
    s->n = 0;
}

void selector_put_quoted(struct buf *out, struct str s)
{
    buf_putc(out, '"');
    for (uint32_t i = 0; i < s.n; i++) {
        if (s.p[i] == '"' || s.p[i] == '\\')
            buf_putc(out, '\\');
        buf_putc(out, s.p[i]);
    }
    buf_putc(out, '"');
}

void selector_print(struct buf *out, const struct selector *s)
{
    static const char *const ops[] = {[MATCH_EQ] = "=", [MATCH_NE] = "!=", [MATCH_RE] = "=~", [MATCH_NRE] = "!~"};

    buf_put_str(out, s->type);
    buf_putc(out, '{');
    for (uint32_t i = 0; i < s->n; i++) {
        if (i)
            buf_putc(out, ',');
        if (is_plain_name(s->v[i].name))
            buf_put_str(out, s->v[i].name);
        else
            selector_put_quoted(out, s->v[i].name);
        buf_puts(out, ops[s->v[i].op]);
        selector_put_quoted(out, s->v[i].value);
    }
    buf_putc(out, '}');
}

bool matcher_matches(const struct matcher *m, struct str value)
{
    switch (m->op) {
    case MATCH_EQ:
        return str_eq(m->value, value);
    case MATCH_NE:
        return !str_eq(m->value, value);
    case MATCH_RE:
        return regex_full(m->regex, value);
    case MATCH_NRE:
        return !regex_full(m->regex, value);
    }
    return false;
}

bool selector_matches(const struct selector *s, const struct labels *l)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (!matcher_matches(&s->v[i], labels_get(l, s->v[i].name)))
            return false;
    return true;
}
