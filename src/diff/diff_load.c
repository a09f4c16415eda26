/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the profiles of `wick diff` (diff_load.h). */
#include "diff/diff_load.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "codec/input.h"
#include "local/local_input.h"
#include "model/convert.h"
#include "pprof/pprof_wick.h"

/* Fetches a wick:// selection as pprof. */
static int fetch(const struct ask_target *target, struct buf *url, struct buf *out, struct err *e)
{
    struct ask_target t = *target;
    char *text = buf_cstr(url), *path = text ? strstr(text, "/api/") : NULL;
    _cleanup_(buf_done) struct buf server = BUF_INIT;

    if (!path)
        return -ENOMEM;
    buf_put(&server, text, (size_t) (path - text));
    t.server = buf_cstr(&server);
    return t.server ? ask_server(&t, path, out, e) : -ENOMEM;
}

static int open_source(const char *source, const struct ask_target *target, struct batch **ret, struct err *e)
{
    _cleanup_(buf_done) struct buf url = BUF_INIT, bytes = BUF_INIT;
    int r;

    if (!pprof_wick_url(str_from(source), &url))
        return local_input_open(source, INPUT_AUTO, ret, e);
    r = fetch(target, &url, &bytes, e);
    if (r == 0)
        r = input_decode(&bytes, INPUT_AUTO, &input_local, ret, NULL, e);
    return r < 0 ? err_prefix(e, r, "%s: ", source) : 0;
}

/* The profile and its sample type of that name; with an empty name, the default of the first profile. */
static const struct profile *choose(const struct batch *b, struct str type, uint32_t *ret_type)
{
    for (uint32_t i = 0; i < b->n_profiles; i++) {
        const struct profile *p = &b->profiles[i];

        if (!type.n) {
            *ret_type = p->default_type ? p->default_type - 1 : p->n_types - 1;
            return p;
        }
        for (uint32_t k = 0; k < p->n_types; k++)
            if (str_eq(batch_string(b, p->types[k].type), type)) {
                *ret_type = k;
                return p;
            }
    }
    return NULL;
}

static int add_profile(struct diff_input *d, struct diff_side *side, const struct batch *b, const char *source,
                       struct err *e)
{
    struct diff_profile *to = &side->v[side->n];
    uint32_t type;
    const struct profile *p = choose(b, d->type, &type);
    int r;

    if (!p && d->type.n)
        return err_set(e, -EINVAL, "'%s' has no sample type '%.*s'", source, STR_FMT(d->type));
    if (!p)
        return err_set(e, -ENODATA, "'%s' contains no profile", source);
    if (!d->unit.p) {
        d->type = arena_str(&d->arena, batch_string(b, p->types[type].type));
        d->unit = arena_str(&d->arena, batch_string(b, p->types[type].unit));
    }
    r = tree_new(1, 0, &to->tree);
    if (r == 0)
        r = convert_to_tree(b, p, type, to->tree, 0);
    if (r < 0) {
        tree_free(TAKE(to->tree));
        return r;
    }
    tree_sum_up(to->tree);
    to->duration_ns = p->duration_ns;
    side->n++;
    if (to->tree->total[0][0] <= 0)
        return err_set(e, -ENODATA, "'%s' has no samples of type '%.*s'", source, STR_FMT(d->type));
    return 0;
}

static int add_source(struct diff_input *d, struct diff_side *side, const char *source, const struct ask_target *target,
                      struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL, *single = NULL;
    int r;

    if (side->n == DIFF_PROFILES_MAX)
        return err_set(e, -E2BIG, "more than %d profiles on one side", DIFF_PROFILES_MAX);
    r = open_source(source, target, &b, e);
    if (r >= 0)
        r = convert_to_single(b, &single, e);
    return r < 0 ? r : add_profile(d, side, single, source, e);
}

static int load_side(struct diff_input *d, struct diff_side *side, const char *list, const struct ask_target *target,
                     struct err *e)
{
    struct str rest = str_from(list);
    int r = 0;

    if (access(list, F_OK) == 0) /* a name with a comma in it */
        return add_source(d, side, list, target, e);
    while (r == 0 && rest.n) {
        struct str one = str_cut(&rest, ',');
        const char *source = one.n ? arena_cstr(&d->arena, one) : "";

        if (one.n)
            r = source ? add_source(d, side, source, target, e) : -ENOMEM;
    }
    return r;
}

int diff_load(const char *old, const char *new, const char *type, const struct ask_target *target,
              struct diff_input *ret, struct err *e)
{
    int r;

    *ret = (struct diff_input){.type = type ? str_from(type) : (struct str){0}};
    arena_init(&ret->arena, 0);
    r = load_side(ret, &ret->sides[0], old, target, e);
    if (r == 0)
        r = load_side(ret, &ret->sides[1], new, target, e);
    if (r == 0 && (!ret->sides[0].n || !ret->sides[1].n))
        r = err_set(e, -EINVAL, "OLD or NEW is empty");
    return r;
}

void diff_input_done(struct diff_input *d)
{
    for (int s = 0; s < 2; s++)
        for (uint32_t i = 0; i < d->sides[s].n; i++)
            tree_free(d->sides[s].v[i].tree);
    arena_done(&d->arena);
    *d = (struct diff_input){0};
}
