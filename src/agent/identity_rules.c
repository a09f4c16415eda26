/* SPDX-License-Identifier: Apache-2.0 */
/* Renames services by rules of the form REGEXP=NAME: see identity_read.h. */
#include <errno.h>

#include "agent/identity_read.h"
#include "base/mem.h"
#include "base/regex.h"

enum { RULES_MAX = 256, GROUPS = 9 };

struct rule {
    struct regex *regex;
    char *name;
};

struct identity_rules {
    struct rule *v;
    size_t n, cap;
};

int identity_rules_new(struct identity_rules **ret)
{
    struct identity_rules *r = mem_zalloc(sizeof *r);

    if (!r)
        return -ENOMEM;
    *ret = r;
    return 0;
}

void identity_rules_free(struct identity_rules *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n; i++) {
        regex_free(r->v[i].regex);
        mem_free(r->v[i].name);
    }
    mem_free(r->v);
    mem_free(r);
}

/* The rule is split at the last '=': expressions may contain one, service names do not. */
int identity_rules_add(struct identity_rules *r, struct str rule, struct err *e)
{
    uint32_t at = rule.n;
    struct rule one = {0};
    char *name;
    int code;

    while (at && rule.p[at - 1] != '=')
        at--;
    if (at < 2 || at == rule.n)
        return err_set(e, -EINVAL, "'%.*s' is not a renaming rule; expected REGEXP=NAME", STR_FMT(rule));
    code = array_reserve(r->v, r->cap, r->n + 1, RULES_MAX);
    if (code == -E2BIG)
        return err_set(e, code, "more than %d renaming rules", RULES_MAX);
    if (code < 0)
        return code;
    code = regex_new(str_slice(rule, 0, at - 1), &one.regex, e);
    if (code < 0)
        return code;
    name = mem_alloc(rule.n - at + 1);
    if (!name) {
        regex_free(one.regex);
        return -ENOMEM;
    }
    memcpy(name, rule.p + at, rule.n - at);
    name[rule.n - at] = 0;
    one.name = name;
    r->v[r->n++] = one;
    return 0;
}

bool identity_rules_apply(const struct identity_rules *r, struct str name, struct buf *out)
{
    for (size_t i = 0; r && i < r->n; i++) {
        struct str groups[GROUPS] = {0};
        size_t start, end;

        if (!regex_full(r->v[i].regex, name))
            continue;
        regex_find(r->v[i].regex, name, 0, &start, &end, groups, GROUPS);
        for (const char *c = r->v[i].name; *c; c++) {
            if (*c == '\\' && c[1] >= '1' && c[1] <= '9')
                buf_put_str(out, groups[*++c - '1']);
            else
                buf_putc(out, *c);
        }
        return true;
    }
    return false;
}
