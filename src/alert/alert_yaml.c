/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a rule from what a person looks at: YAML to be pasted into wick.yaml. The server never changes its own
 * configuration. See alert.h. */
#include <errno.h>
#include <string.h>

#include "alert/alert.h"
#include "conf/yaml.h"
#include "model/labels.h"

enum { NAME_PART = 60 };

/* Text of wick.yaml, in which $$ stands for a dollar sign. */
static void put_scalar(struct buf *out, struct str s)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    for (uint32_t i = 0; i < s.n; i++) {
        if (s.p[i] == '$')
            buf_putc(&b, '$');
        buf_putc(&b, s.p[i]);
    }
    conf_print_scalar(out, buf_str(&b), true);
}

static void put_key(struct buf *out, const char *key, struct str value)
{
    buf_printf(out, "      %s: ", key);
    put_scalar(out, value);
    buf_putc(out, '\n');
}

/* The name in a regular expression: characters that mean something there get a backslash. */
static void put_quoted(struct buf *out, struct str s)
{
    for (uint32_t i = 0; i < s.n; i++) {
        if (strchr("\\.+*?()|[]{}^$", s.p[i]))
            buf_putc(out, '\\');
        buf_putc(out, s.p[i]);
    }
}

static void put_name(struct buf *out, const char *type, struct str service, struct str function)
{
    buf_puts(out, type);
    if (service.n)
        buf_printf(out, " %.*s", (int) MIN(service.n, (uint32_t) NAME_PART), service.p);
    if (function.n)
        buf_printf(out, " %.*s", (int) MIN(function.n, (uint32_t) NAME_PART), function.p);
}

static int type_of(struct str text, bool has_function, enum alert_type *ret, struct err *e)
{
    *ret = has_function ? ALERT_THRESHOLD : ALERT_DRIFT;
    if (!text.n)
        return 0;
    for (int i = 0; alert_type_names[i]; i++)
        if (str_is(text, alert_type_names[i])) {
            *ret = (enum alert_type) i;
            return 0;
        }
    return err_set(e, -EINVAL, "type: '%.*s' is not drift, verdict, threshold, spike or lost", (int) MIN(text.n, 60u),
                   text.p);
}

static void put_rule(struct buf *out, enum alert_type type, const struct selector *s, struct str function)
{
    _cleanup_(buf_done) struct buf name = BUF_INIT, selector = BUF_INIT, regex = BUF_INIT;
    bool by_function = function.n && (type == ALERT_THRESHOLD || type == ALERT_DRIFT);

    put_name(&name, alert_type_names[type], alert_service_of(s), by_function ? function : (struct str){"", 0});
    selector_print(&selector, s);
    put_quoted(&regex, function);
    buf_puts(out, "alerts:\n  rules:\n    - name: ");
    put_scalar(out, buf_str(&name));
    buf_printf(out, "\n      type: %s\n", alert_type_names[type]);
    put_key(out, "selector", buf_str(&selector));
    if (by_function)
        put_key(out, "function", buf_str(&regex));
    if (type == ALERT_THRESHOLD)
        buf_printf(out, "      over: %s\n", by_function ? "20%" : "1");
    if (type == ALERT_DRIFT)
        buf_puts(out, "      baseline: 1d\n      min_points: 2\n");
    if (type != ALERT_VERDICT && type != ALERT_LOST)
        buf_puts(out, "      for: 10m\n");
}

int alert_rule_yaml(struct str query, struct str function, struct str type, struct buf *out, struct err *e)
{
    struct selector s = {0};
    enum alert_type t;
    struct arena a;
    int r;

    arena_init(&a, 1 << 20);
    r = type_of(type, function.n, &t, e);
    if (r == 0)
        r = selector_parse(query, &a, &s, e);
    if (r == 0) {
        if (!s.type.n)
            s.type = t == ALERT_SPIKE ? STR("alloc") : STR("cpu");
        put_rule(out, t, &s, function);
        r = buf_error(out);
    }
    selector_done(&s);
    arena_done(&a);
    return r;
}
