/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The constant pools of a JFR chunk. Checkpoint events hold them; of each constant that an event may lead to, its
 * position is noted under (role of its class, key).
 */
#include <errno.h>

#include "base/mem.h"
#include "codec/jfr/jfr_reader.h"

static uint64_t hash_constant(enum jfr_role role, uint64_t key)
{
    return hash64_u64(key) ^ hash64_u64((uint64_t) role << 56);
}

static int add_constant(struct jfr_reader *r, const struct jfr_class *k, uint64_t key, size_t at)
{
    size_t limit = r->memory ? r->memory / (sizeof(struct jfr_constant) + 2 * sizeof(struct map_slot)) + 1 : UINT32_MAX;
    int rc = array_reserve(r->constants, r->cap_constants, r->n_constants + 1, MIN(limit, (size_t) UINT32_MAX));

    if (rc == 0)
        rc = map_insert(&r->constant_map, hash_constant(k->role, key), (uint32_t) r->n_constants);
    if (rc == 0)
        r->constants[r->n_constants++] =
            (struct jfr_constant){.key = key, .class = (uint32_t) (k - r->classes), .at = (uint32_t) at};
    return rc;
}

static int read_pool(struct jfr_reader *r, struct cursor *c, const struct jfr_class *k)
{
    bool noted = k->role != JFR_ROLE_NONE && k->role < JFR_ROLE_EVENT;
    int rc = 0;

    for (uint64_t n = jfr_get(c); n > 0 && !c->bad && rc == 0; n--) {
        uint64_t key = jfr_get(c);
        struct jfr_value text;

        if (noted)
            rc = add_constant(r, k, key, (size_t) ((const char *) c->p - r->data.p));
        if (k->form == JFR_STRING_FORM)
            jfr_get_text(r, c, false, &text);
        else
            jfr_get_object(r, c, k, NULL);
    }
    return rc;
}

int jfr_read_checkpoint(struct jfr_reader *r, struct cursor c, struct err *e)
{
    size_t at = (size_t) ((const char *) c.p - r->data.p);
    int rc = 0;

    for (int i = 0; i < 3; i++) /* start, duration, delta */
        jfr_get(&c);
    get_u8(&c); /* flags */
    for (uint64_t n = jfr_get(&c); n > 0 && !c.bad && rc == 0; n--) {
        uint64_t id = jfr_get(&c);
        const struct jfr_class *k = jfr_class_by_id(r, id);

        if (!k)
            return err_set(e, -EINVAL, "JFR: the checkpoint at byte %zu has constants of the unknown type %llu", at,
                           (unsigned long long) id);
        rc = read_pool(r, &c, k);
    }
    if (rc < 0)
        return err_set(e, rc, "JFR: the checkpoint at byte %zu: %m", at);
    return c.bad ? err_set(e, -EINVAL, "JFR: the checkpoint at byte %zu is damaged", at) : 0;
}

void jfr_forget_pools(struct jfr_reader *r)
{
    r->n_constants = 0;
    map_reset(&r->constant_map);
}

struct jfr_constant *jfr_constant(struct jfr_reader *r, enum jfr_role role, uint64_t key)
{
    uint64_t h = hash_constant(role, key);

    for (struct map_pos p = map_find(&r->constant_map, h); p.index != MAP_NONE; p = map_next(&r->constant_map, p)) {
        struct jfr_constant *k = &r->constants[p.index];

        if (k->key == key && r->classes[k->class].role == role)
            return k;
    }
    return NULL;
}

bool jfr_look_up(struct jfr_reader *r, enum jfr_role role, uint64_t key, struct jfr_object *ret)
{
    struct jfr_constant *k = jfr_constant(r, role, key);
    struct cursor c;

    if (!k)
        return false;
    c = jfr_cursor(r, k->at);
    memset(ret, 0, sizeof *ret);
    if (r->classes[k->class].form == JFR_STRING_FORM)
        jfr_get_text(r, &c, true, &ret->v[JFR_STRING]);
    else
        jfr_get_object(r, &c, &r->classes[k->class], ret);
    return !c.bad;
}

struct str jfr_string(struct jfr_reader *r, const struct jfr_value *v)
{
    struct jfr_object o;

    if (v->text.n || !v->n || !jfr_look_up(r, JFR_TEXT, (uint64_t) v->n, &o))
        return v->text;
    return o.v[JFR_STRING].text;
}

struct str jfr_symbol(struct jfr_reader *r, const struct jfr_value *v)
{
    struct jfr_object o;

    if (v->text.n || !v->n || !jfr_look_up(r, JFR_SYMBOL, (uint64_t) v->n, &o))
        return jfr_string(r, v);
    return jfr_string(r, &o.v[JFR_STRING]);
}
