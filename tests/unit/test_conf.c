/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/clock.h"
#include "conf/option.h"
#include "tap.h"

static const char *warned;

static void on_warn(void *arg, const char *message)
{
    warned = message ? "yes" : NULL;
    (void) arg;
}

/* Parses text and prints the tree again. */
static const char *round_trip(const char *text)
{
    static char out[4096];
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct conf_node *n = NULL;
    struct conf c;
    struct err e = {0};

    conf_init(&c);
    if (conf_parse(&c, str_from(text), "t.yaml", &n, &e) < 0)
        snprintf(out, sizeof out, "%s", e.message);
    else {
        conf_print(&b, n, 0);
        snprintf(out, sizeof out, "%s", buf_cstr(&b));
    }
    conf_done(&c);
    return out;
}

static void test_parse(void)
{
    eq_str(str_from(round_trip("a: 1\nb: [x, 'true']\n")), STR("a: 1\nb:\n    - x\n    - \"true\"\n"));
    eq_str(str_from(round_trip("a: &x {b: 1}\nc: *x\n")), STR("a:\n    b: 1\nc:\n    b: 1\n"));
    eq_str(str_from(round_trip("base: &x {b: 1, d: 2}\nc:\n  <<: *x\n  b: 3\n")),
           STR("base:\n    b: 1\n    d: 2\nc:\n    b: 3\n    d: 2\n"));
    ok(strstr(round_trip("a: 1\na: 2\n"), "t.yaml:2:1: key 'a' appears twice"));
    ok(strstr(round_trip("a: [1\n"), "t.yaml:"));
    ok(strstr(round_trip("a: *nobody\n"), "unknown anchor"));
    ok(strstr(round_trip("a: &x [*x]\n"), "a node that contains it"));
    ok(strstr(round_trip("a: 1\n---\nb: 2\n"), "second document"));
    eq_str(str_from(round_trip("")), STR("\n"));
    eq_str(str_from(round_trip("a: \"x: y\\n\"\n")), STR("a: \"x: y\\n\"\n"));
}

static void test_limits(void)
{
    static char deep[4000], laughs[4000];
    size_t n = 0;

    memset(deep, '[', sizeof deep - 1);
    ok(strstr(round_trip(deep), "deep"));
    n += (size_t) snprintf(laughs, sizeof laughs, "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for (int i = 1; i < 12; i++)
        n += (size_t) snprintf(laughs + n, sizeof laughs - n,
                               "a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n", i, i, i - 1, i - 1,
                               i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    ok(strstr(round_trip(laughs), "too much") || strstr(round_trip(laughs), "too large"));
}

static const char *load(const char *const *sources, const char *set)
{
    static char out[4096];
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct conf c;
    struct err e = {0};
    int r = 0;

    warned = NULL;
    conf_init(&c);
    c.warn = on_warn;
    for (; r == 0 && *sources; sources++)
        r = conf_add(&c, str_from(*sources), &e);
    if (r == 0 && set)
        r = conf_set(&c, str_from(set), &e);
    if (r == 0)
        r = conf_expand(&c, &e);
    if (r < 0)
        snprintf(out, sizeof out, "%s", e.message);
    else {
        conf_print(&b, c.root, 0);
        snprintf(out, sizeof out, "%s", buf_cstr(&b));
    }
    conf_done(&c);
    return out;
}

static void test_sources(void)
{
    const char *two[] = {"yaml:a: {b: 1, l: [1, 2]}", "yaml:a::l: [3]", NULL};
    const char *vars[] = {"yaml:a:\n  n: '${env:T_NUMBER}'\n  m: ${env:T_NUMBER}\n  t: x${env:T_NUMBER}y\n"
                          "  d: ${env:T_NO:-7}\n  dollar: $$x\n  none: ${env:T_UNSET}\n  bare: ${T_NUMBER}\n"
                          "  in: ${env:T_NO:-${env:T_NUMBER}}\n",
                          NULL};
    const char *tree[] = {"yaml:a: '${yaml:x: {y: 1}}'", NULL};
    const char *bad[] = {"yaml:a: ${env:1x}", NULL}, *open[] = {"yaml:a: x${env:Y", NULL};
    const char *missing[] = {"file:/nonexistent/wick.yaml", NULL};
    const char *out;

    setenv("T_NUMBER", "12", 1);
    eq_str(str_from(load(two, NULL)), STR("a:\n    b: 1\n    l:\n        - 3\n"));
    eq_str(str_from(load(two, "a.c.d=e")), STR("a:\n    b: 1\n    l:\n        - 3\n    c:\n        d: e\n"));
    out = load(vars, NULL);
    ok(strstr(out, "n: \"12\""));
    ok(strstr(out, "m: 12\n"));
    ok(strstr(out, "t: x12y\n"));
    ok(strstr(out, "d: 7\n"));
    ok(strstr(out, "dollar: $x\n"));
    ok(strstr(out, "none:\n"));
    ok(strstr(out, "bare: 12\n"));
    ok(strstr(out, "in: 12\n"));
    ok(warned != NULL);
    eq_str(str_from(load(tree, NULL)), STR("a:\n    x:\n        y: 1\n"));
    ok(strstr(load(bad, NULL), "not a valid name of an environment variable"));
    ok(strstr(load(open, NULL), "without '}'"));
    ok(strstr(load(missing, NULL), "/nonexistent/wick.yaml"));
}

struct inner {
    int64_t port;
    const char *name;
};

struct outer {
    bool on;
    int64_t wait, size;
    double ratio;
    struct option_strings list;
    struct option_map headers;
    int mode;
    struct inner inner;
    bool has_inner;
    struct option_tables many;
    const struct conf_node *custom;
};

static const char *const modes[] = {"none", "gzip", "zstd", NULL};
static const struct option inner_options[] = {
    {"port", OPT_INT, offsetof(struct inner, port), "80", "where"},
    {"name", OPT_STRING, offsetof(struct inner, name), NULL, "who", .secret = true},
    {0},
};
static const struct option outer_options[] = {
    {"on", OPT_BOOL, offsetof(struct outer, on), "true", "whether"},
    {"wait", OPT_DURATION, offsetof(struct outer, wait), "5s", "how long"},
    {"size", OPT_SIZE, offsetof(struct outer, size), "4MiB", "how much"},
    {"ratio", OPT_DOUBLE, offsetof(struct outer, ratio), "1.5", "how"},
    {"list", OPT_STRINGS, offsetof(struct outer, list), NULL, "which"},
    {"headers", OPT_MAP, offsetof(struct outer, headers), NULL, "extra", .secret = true},
    {"mode", OPT_ENUM, offsetof(struct outer, mode), "gzip", "compression", .words = modes},
    {"inner", OPT_TABLE, offsetof(struct outer, inner), NULL, "in", .table = inner_options,
     .present = offsetof(struct outer, has_inner)},
    {"many", OPT_TABLES, offsetof(struct outer, many), NULL, "items", .table = inner_options,
     .size = sizeof(struct inner)},
    {"custom", OPT_CUSTOM, offsetof(struct outer, custom), NULL, "own"},
    {0},
};

static int parse_outer(struct conf *c, const char *text, struct outer *out, struct err *e)
{
    struct conf_node *n = NULL;
    int r = conf_parse(c, str_from(text), "o.yaml", &n, e);

    memset(out, 0, sizeof *out);
    return r < 0 ? r : option_parse(c, outer_options, n, out, e);
}

static void test_options(void)
{
    struct conf c;
    struct outer o;
    struct err e = {0};

    conf_init(&c);
    ok(parse_outer(&c, "", &o, &e) == 0);
    ok(o.on && o.wait == 5 * NS_PER_S && o.size == 4 << 20 && o.mode == 1 && o.inner.port == 80 && !o.has_inner);
    ok(parse_outer(&c,
                   "on: false\nwait: 1m\nlist: [a, b]\nheaders: {A: b}\nmode: zstd\ninner:\nmany: [{port: 1}, {}]\n",
                   &o, &e) == 0);
    ok(!o.on && o.wait == 60 * NS_PER_S && o.list.n == 2 && o.mode == 2 && o.has_inner && o.many.n == 2);
    eq_str(str_from(o.headers.v[0].value), STR("b"));
    eq_int(((struct inner *) o.many.v)[1].port, 80);
    ok(parse_outer(&c, "headers:\n - {name: X, value: y}\n", &o, &e) == 0);
    eq_str(str_from(o.headers.v[0].name), STR("X"));
    conf_done(&c);
}

static void test_option_errors(void)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"on: 1\nhedders: {}\n", "o.yaml:1:5: 'on' must be true or false, not '1'"},
        {"on: true\nhedders: {}\n", "o.yaml:2:1: unknown key 'hedders'; did you mean 'headers'?"},
        {"inner:\n  prot: 1\n", "o.yaml:2:3: unknown key 'prot'; did you mean 'port'?"},
        {"wait: 10\n", "'wait' requires a unit"},
        {"wait: soon\n", "o.yaml:1:7: 'wait'"},
        {"mode: lz4\n", "one of none, gzip, zstd"},
        {"inner: 3\n", "a map of options"},
        {"zzzzzzzzzzzz: 3\n", "unknown key 'zzzzzzzzzzzz'"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct conf c;
        struct outer o;
        struct err e = {0};

        conf_init(&c);
        ok(parse_outer(&c, cases[i].text, &o, &e) < 0);
        if (!strstr(e.message, cases[i].message))
            tap_fail("'%s' lacks '%s'", e.message, cases[i].message);
        conf_done(&c);
    }
}

static void test_effective(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT, h = BUF_INIT;
    struct conf_node *n = NULL;
    struct conf c;
    struct err e = {0};

    conf_init(&c);
    ok(conf_parse(&c, STR("headers: {Authorization: secret}\ninner: {name: x}\n"), "o.yaml", &n, &e) == 0);
    n = option_effective(&c, outer_options, n, false);
    ok(n != NULL);
    conf_print(&b, n, 0);
    buf_cstr(&b);
    ok(strstr(b.p, "wait: 5s\n") && strstr(b.p, "Authorization: \"[REDACTED]\"") && !strstr(b.p, "secret"));
    ok(strstr(b.p, "port: 80\n"));
    option_help(&h, outer_options, 2, false);
    ok(strstr(buf_cstr(&h), "mode (none|gzip|zstd, default gzip)"));
    conf_done(&c);
}

static int torture_load(void)
{
    struct conf c;
    struct outer o = {0};
    int r;

    conf_init(&c);
    r = conf_add(&c, STR("yaml:{list: [a, b], headers: {x: '${env:T_NUMBER}'}, inner: {name: '${yaml:q}'}}"), NULL);
    if (r == 0)
        r = conf_expand(&c, NULL);
    if (r == 0)
        r = option_parse(&c, outer_options, c.root, &o, NULL);
    conf_done(&c);
    return r;
}

int main(void)
{
    tap_run(test_parse);
    tap_run(test_limits);
    tap_run(test_sources);
    tap_run(test_options);
    tap_run(test_option_errors);
    tap_run(test_effective);
    tap_torture(torture_load);
    return tap_done();
}
