/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pyroscope's AdHocProfileService, see pyroscope.h: profiles in any format that wick reads are uploaded, listed, shown and
 * compared without becoming part of the stored data. Each is a file of the tenant (tenant_files.h), as it was uploaded,
 * named by its ID: a ULID, which contains the time, a dash, and the name that the client gave.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/mem.h"
#include "codec/input.h"
#include "model/convert.h"
#include "server/pyroscope.h"
#include "server/tenant_files.h"

enum { ULID_SIZE = 26, NAME_BYTES = TENANT_FILE_NAME_MAX - ULID_SIZE - 1, TYPES_MAX = 64, NODES_DEFAULT = 8192 };

static const char crockford[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/* --- IDs --- */

/* 48 bits of milliseconds, then, so that uploads within a millisecond sort by their time, 20 bits of nanoseconds within it, and 60
   random ones; five bits per character. */
static int make_ulid(int64_t ns, char ret[ULID_SIZE])
{
    uint64_t ms = (uint64_t) (ns / NS_PER_MS), rest = (uint64_t) (ns % NS_PER_MS);
    uint8_t noise[12];

    if (getrandom(noise, sizeof noise, 0) != (ssize_t) sizeof noise)
        return -errno;
    for (int i = 0; i < 10; i++)
        ret[i] = crockford[ms >> (45 - 5 * i) & 31];
    for (int i = 0; i < 4; i++)
        ret[10 + i] = crockford[rest >> (15 - 5 * i) & 31];
    for (int i = 14; i < ULID_SIZE; i++)
        ret[i] = crockford[noise[i - 14] & 31];
    return 0;
}

/* The time of an ID; negative if it is not an ID. */
static int64_t time_of(struct str id)
{
    uint64_t ms = 0;

    if (id.n <= ULID_SIZE || id.p[ULID_SIZE] != '-')
        return -1;
    for (int i = 0; i < ULID_SIZE; i++) {
        const char *at = strchr(crockford, id.p[i]);

        if (!at || !*at)
            return -1;
        if (i < 10)
            ms = ms << 5 | (uint64_t) (at - crockford);
    }
    return (int64_t) ms;
}

static struct str name_of(struct str id)
{
    return str_slice(id, ULID_SIZE + 1, id.n);
}

/* ULID-NAME; characters that Pyroscope does not allow become underscores. */
static int make_id(struct call *c, struct str name, struct str *ret, struct err *e)
{
    struct str kept = str_slice(name, 0, NAME_BYTES);
    char *text = arena_alloc_aligned(&c->q->arena, ULID_SIZE + 1 + (size_t) kept.n + 1, 1);
    int r;

    if (!text)
        return -ENOMEM;
    r = make_ulid(clock_wall(), text);
    if (r < 0)
        return err_set(e, r, "cannot make an ID: %m");
    text[ULID_SIZE] = '-';
    for (uint32_t i = 0; i < kept.n; i++) {
        char x = kept.p[i];
        bool ok = (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z') || (x >= '0' && x <= '9') || x == '.' || x == '-';

        text[ULID_SIZE + 1 + i] = ok ? x : '_';
    }
    *ret = (struct str){text, ULID_SIZE + 1 + kept.n};
    return 0;
}

/* --- one profile --- */

/* What an uploaded file contains: one entry per sample type. */
struct adhoc {
    struct batch *b;
    struct adhoc_type {
        uint32_t profile, type;
        struct str name, unit;
    } types[TYPES_MAX];
    uint32_t n, chosen;
};

static void adhoc_done(struct adhoc *x)
{
    batch_unref(x->b);
}

static void list_types(struct adhoc *x, struct str wanted)
{
    const struct batch *b = x->b;

    for (uint32_t i = 0; i < b->n_profiles; i++)
        for (uint32_t k = 0; k < b->profiles[i].n_types && x->n < TYPES_MAX; k++) {
            struct adhoc_type t = {i, k, batch_string(b, b->profiles[i].types[k].type),
                                   batch_string(b, b->profiles[i].types[k].unit)};

            if (str_eq(t.name, wanted))
                x->chosen = x->n;
            x->types[x->n++] = t;
        }
}

/* Takes ownership of content. */
static int read_profile(struct call *c, struct buf *content, struct str wanted, struct adhoc *ret, struct err *e)
{
    struct input_limits limits = {.memory = front_options(c->front)->memory_limit};
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    int r = input_decode(content, INPUT_AUTO, &limits, &b, NULL, e);

    if (r == 0)
        r = convert_to_single(b, &ret->b, e);
    if (r < 0)
        return r == -ENOMEM ? r : err_prefix(e, -EINVAL, "cannot read the profile: ");
    list_types(ret, wanted);
    return ret->n ? 0 : err_set(e, -EINVAL, "cannot read the profile: it has no samples");
}

static int load_profile(struct call *c, struct str id, struct str wanted, struct adhoc *ret, struct err *e)
{
    _cleanup_(buf_done) struct buf content = BUF_INIT;
    int r;

    if (!tenant_file_name_ok(id) || time_of(id) < 0)
        return err_set(e, -EINVAL, "'%.*s' is not the ID of a profile", (int) MIN(id.n, 80u), id.p);
    r = tenant_files_get(front_options(c->front)->files, c->who.tenant, id, &content, e);
    if (r == -ENOENT)
        return err_set(e, -ENOENT, "profile %.*s not found", STR_FMT(id));
    return r < 0 ? r : read_profile(c, &content, wanted, ret, e);
}

/* --- answers --- */

static int add_tree(const struct adhoc *x, struct tree *t, uint32_t column)
{
    const struct adhoc_type *k = &x->types[x->chosen];

    return convert_to_tree(x->b, &x->b->profiles[k->profile], k->type, t, column);
}

/* The flame graph of one profile, or the difference of two, as Pyroscope's JSON in a string. */
static int put_flame(struct call *c, const struct adhoc *left, const struct adhoc *right, int64_t max_nodes,
                     struct buf *out)
{
    _cleanup_(tree_freep) struct tree *all = NULL, *t = NULL;
    struct tree_prune how = {.max_nodes = (uint32_t) (max_nodes > 0 ? MIN(max_nodes, 1 << 20) : NODES_DEFAULT)};
    const struct adhoc_type *k = &left->types[left->chosen];
    int r = tree_new(right ? 2 : 1, front_options(c->front)->memory_limit, &all);

    if (r == 0)
        r = add_tree(left, all, 0);
    if (r == 0 && right)
        r = add_tree(right, all, 1);
    if (r == 0) {
        tree_sum_up(all);
        r = tree_prune(all, &how, &t);
    }
    if (r == 0)
        r = py_put_flamebearer(out, t, k->name, k->unit);
    if (r == 0)
        buf_puts(out, ",\"timeline\":null,\"groups\":null,\"heatmap\":null}");
    return r < 0 ? r : buf_error(out);
}

static int put_answer(struct call *c, struct str id, const struct adhoc *x, int64_t max_nodes, struct pbjson *w)
{
    _cleanup_(buf_done) struct buf flame = BUF_INIT;
    int r = put_flame(c, x, NULL, max_nodes, &flame);

    if (r < 0)
        return r;
    pbjson_str(w, 1, "id", id);
    pbjson_str(w, 2, "name", name_of(id));
    pbjson_i64(w, 3, "uploadedAt", time_of(id));
    pbjson_str(w, 4, "profileType", x->types[x->chosen].name);
    pbjson_list(w, "profileTypes");
    for (uint32_t i = 0; i < x->n; i++)
        pbjson_str(w, 5, NULL, x->types[i].name);
    pbjson_list_end(w);
    pbjson_str(w, 6, "flamebearerProfile", buf_str(&flame));
    return 0;
}

int py_adhoc_upload(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    _cleanup_(adhoc_done) struct adhoc x = {0};
    _cleanup_(buf_done) struct buf content = BUF_INIT, kept = BUF_INIT;
    struct str id = {0};
    char *bytes = mem_alloc(base64_decoded_max(r->value));
    ssize_t n = bytes ? base64_decode(r->value, bytes) : -ENOMEM;
    int result;

    if (n > 0) {
        buf_put(&content, bytes, (size_t) n);
        buf_put(&kept, bytes, (size_t) n);
    }
    mem_free(bytes);
    if (n == -ENOMEM || buf_error(&content) || buf_error(&kept))
        return -ENOMEM;
    if (n <= 0)
        return err_set(e, -EINVAL, "'profile' must be a profile in base64");
    result = read_profile(c, &content, (struct str){0}, &x, e);
    if (result == 0)
        result = make_id(c, r->name.n ? r->name : STR("profile"), &id, e);
    if (result == 0)
        result = tenant_files_put(front_options(c->front)->files, c->who.tenant, id, buf_str(&kept), e);
    return result < 0 ? result : put_answer(c, id, &x, r->left.max_nodes, w);
}

int py_adhoc_get(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    _cleanup_(adhoc_done) struct adhoc x = {0};
    int result = load_profile(c, r->name, r->left.type_id, &x, e);

    return result < 0 ? result : put_answer(c, r->name, &x, r->left.max_nodes, w);
}

/* --- the list --- */

struct adhoc_list {
    struct arena *arena;
    struct str ids[TENANT_FILES_MAX];
    uint32_t n;
};

static int add_id(void *arg, struct str name)
{
    struct adhoc_list *l = arg;

    if (time_of(name) < 0 || l->n == TENANT_FILES_MAX)
        return 0;
    l->ids[l->n] = arena_str(l->arena, name);
    return l->ids[l->n++].p ? 0 : -ENOMEM;
}

static int newest_first(const void *a, const void *b)
{
    return str_cmp(*(const struct str *) b, *(const struct str *) a); /* IDs begin with the time */
}

int py_adhoc_list(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    struct adhoc_list *l = arena_zalloc(&c->q->arena, sizeof *l);
    int result;

    (void) r;
    if (!l)
        return -ENOMEM;
    l->arena = &c->q->arena;
    result = tenant_files_each(front_options(c->front)->files, c->who.tenant, add_id, l, e);
    if (result < 0)
        return result;
    if (l->n)
        qsort(l->ids, l->n, sizeof *l->ids, newest_first);
    pbjson_list(w, "profiles");
    for (uint32_t i = 0; i < l->n; i++) {
        pbjson_begin(w, 1, NULL);
        pbjson_str(w, 1, "id", l->ids[i]);
        pbjson_str(w, 2, "name", name_of(l->ids[i]));
        pbjson_i64(w, 3, "uploadedAt", time_of(l->ids[i]));
        pbjson_end(w);
    }
    pbjson_list_end(w);
    return 0;
}

/* --- differences --- */

static bool has_type(const struct adhoc *x, struct str name)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (str_eq(x->types[i].name, name))
            return true;
    return false;
}

int py_adhoc_diff(struct call *c, struct py_request *r, struct pbjson *w, struct err *e)
{
    _cleanup_(adhoc_done) struct adhoc left = {0}, right = {0};
    _cleanup_(buf_done) struct buf flame = BUF_INIT;
    struct str left_type, right_type;
    int result = load_profile(c, r->name, r->left.type_id, &left, e);

    if (result == 0)
        result = load_profile(c, r->value, r->left.type_id, &right, e);
    if (result < 0)
        return result;
    left_type = left.types[left.chosen].name;
    right_type = right.types[right.chosen].name;
    if (!str_eq(left_type, right_type))
        return err_set(e, -EINVAL, "the profiles have different types, %.*s and %.*s: choose one that both have",
                       (int) MIN(left_type.n, 80u), left_type.p, (int) MIN(right_type.n, 80u), right_type.p);
    result = put_flame(c, &left, &right, r->left.max_nodes, &flame);
    if (result < 0)
        return result;
    pbjson_list(w, "profileTypes");
    for (uint32_t i = 0; i < left.n; i++)
        if (has_type(&right, left.types[i].name))
            pbjson_str(w, 1, NULL, left.types[i].name);
    pbjson_list_end(w);
    pbjson_str(w, 2, "flamebearerProfile", buf_str(&flame));
    return 0;
}
