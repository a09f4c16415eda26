/* SPDX-License-Identifier: Apache-2.0 */
/* Splits the matchers of a selector, matches series, and computes profile handles; see match.h. */
#include "store/match.h"

#include <errno.h>

bool match_is_label(const char *const *allow, struct str name)
{
    for (; *allow; allow++)
        if (label_name_eq(name, str_from(*allow)))
            return true;
    return false;
}

int match_init(struct match *m, const struct selector *s, const char *const *allow, bool need_type, struct err *e)
{
    *m = (struct match){.selector = s, .any_type = !s->type.n};
    if (m->any_type && need_type)
        return err_set(e, -EINVAL, "the selector must name a profile type, as in cpu{...}");
    if (!m->any_type)
        type_by_name(s->type, &m->type);
    for (uint32_t i = 0; i < s->n; i++) {
        if (match_is_label(allow, s->v[i].name))
            m->series_mask |= 1ull << i;
        else
            m->detail[m->n_detail++] = &s->v[i];
    }
    return 0;
}

int match_column(struct match *m, const struct store_column *c, const char *const *allow, bool need_type, struct err *e)
{
    int r = match_init(m, c->selector, allow, need_type, e);

    m->spans = c->spans;
    m->column = c;
    return r;
}

bool match_series(const struct match *m, struct str type, const struct labels *l)
{
    if (!m->any_type && !str_eq(m->type.name, type))
        return false;
    for (uint32_t i = 0; i < m->selector->n; i++) {
        struct str value = labels_get(l, m->selector->v[i].name);

        if ((value.n || m->series_mask >> i & 1) && !matcher_matches(&m->selector->v[i], value))
            return false;
    }
    return true;
}

bool match_decides(const struct match *m, const struct labels *l)
{
    for (uint32_t i = 0; i < m->n_detail; i++)
        if (!labels_get(l, m->detail[i]->name).n)
            return false;
    return true;
}

struct id128 match_profile_handle(struct id128 labels_id, struct id128 instance, struct str type, int64_t time_ns,
                                  int64_t duration_ns, int64_t value)
{
    struct hash128_state s;

    hash128_init(&s, 0x70726f66);
    hash128_u64(&s, labels_id.hi);
    hash128_u64(&s, labels_id.lo);
    hash128_u64(&s, instance.hi);
    hash128_u64(&s, instance.lo);
    hash128_bytes(&s, type.p, type.n);
    hash128_u64(&s, (uint64_t) time_ns);
    hash128_u64(&s, (uint64_t) duration_ns);
    hash128_u64(&s, (uint64_t) value);
    return hash128_final(&s);
}
