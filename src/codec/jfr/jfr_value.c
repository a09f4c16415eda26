/* SPDX-License-Identifier: Apache-2.0 */
/* Reads single values of a JFR chunk: integers, strings, and objects by the description of their class. */
#include <errno.h>

#include "base/utf8.h"
#include "codec/jfr/jfr_reader.h"

enum { DEPTH_MAX = 16, LONG_BYTES = 9 };

enum string_form { TEXT_NULL, TEXT_EMPTY, TEXT_CONSTANT, TEXT_UTF8, TEXT_CHARS, TEXT_LATIN1 };

struct cursor jfr_cursor(const struct jfr_reader *r, size_t at)
{
    return cursor_of(r->data.p + at, r->end - at);
}

bool jfr_spend(struct jfr_reader *r, uint64_t n)
{
    r->steps -= MIN(n, r->steps);
    return r->steps > 0;
}

uint64_t jfr_get(struct cursor *c)
{
    uint64_t v = 0;

    for (int i = 0; i < LONG_BYTES; i++) {
        uint8_t byte = get_u8(c);

        if (i == LONG_BYTES - 1)
            return v | (uint64_t) byte << 56;
        v |= (uint64_t) (byte & 0x7f) << (7 * i);
        if (byte < 0x80)
            break;
    }
    return v;
}

/* Characters of one unit each, as UTF-8. Surrogates are rare in names and stay as they are. */
static struct str transcode(struct jfr_reader *r, struct cursor *c, uint64_t n, bool latin1)
{
    size_t left = (size_t) (c->end - c->p);
    char *text = n <= left ? arena_alloc(&r->arena, 3 * (size_t) n + 1) : NULL, *to = text;

    if (!text) {
        cursor_fail(c);
        return (struct str){0};
    }
    for (uint64_t i = 0; i < n && !c->bad; i++)
        to = utf8_write(to, latin1 ? get_u8(c) : (uint32_t) (jfr_get(c) & 0xffff));
    return (struct str){text, (uint32_t) (to - text)};
}

static struct str get_latin1(struct jfr_reader *r, struct cursor *c, uint64_t n)
{
    struct cursor look = *c;
    const unsigned char *p = n <= UINT32_MAX ? get_raw(&look, n) : NULL;

    for (uint64_t i = 0; p && i < n; i++)
        if (p[i] >= 0x80)
            return transcode(r, c, n, true);
    if (!p)
        cursor_fail(c);
    else
        *c = look;
    return (struct str){(const char *) p, p ? (uint32_t) n : 0};
}

static void skip_chars(struct cursor *c, uint64_t n)
{
    for (uint64_t i = 0; i < n && !c->bad; i++)
        jfr_get(c);
}

void jfr_get_text(struct jfr_reader *r, struct cursor *c, bool want, struct jfr_value *ret)
{
    uint8_t form = get_u8(c);
    uint64_t n = form >= TEXT_CONSTANT ? jfr_get(c) : 0;

    ret->n = 0;
    ret->text = (struct str){0};
    switch (form) {
    case TEXT_NULL:
    case TEXT_EMPTY:
        break;
    case TEXT_CONSTANT:
        ret->n = (int64_t) n;
        break;
    case TEXT_CHARS:
        if (want)
            ret->text = transcode(r, c, n, false);
        else
            skip_chars(c, n);
        break;
    case TEXT_LATIN1:
        if (want) {
            ret->text = get_latin1(r, c, n);
            break;
        }
        __attribute__((fallthrough));
    case TEXT_UTF8: {
        const unsigned char *p = n <= UINT32_MAX ? get_raw(c, n) : NULL;

        if (p)
            ret->text = (struct str){(const char *) p, (uint32_t) n};
        else
            cursor_fail(c);
        break;
    }
    default:
        cursor_fail(c);
    }
}

static void get_fields(struct jfr_reader *r, struct cursor *c, const struct jfr_class *k, struct jfr_object *ret,
                       int depth);

/* One value, or one element of an array. */
static void get_value(struct jfr_reader *r, struct cursor *c, const struct jfr_field *f, struct jfr_value *ret,
                      int depth)
{
    const struct jfr_class *k = f->class != UINT32_MAX ? &r->classes[f->class] : NULL;
    struct jfr_value ignored;

    if (!jfr_spend(r, 1)) {
        cursor_fail(c);
        return;
    }
    if (f->constant) {
        (ret ? ret : &ignored)->n = (int64_t) jfr_get(c);
        return;
    }
    if (!k || depth > DEPTH_MAX) {
        cursor_fail(c);
        return;
    }
    switch (k->form) {
    case JFR_BYTE:
        (ret ? ret : &ignored)->n = (int8_t) get_u8(c);
        break;
    case JFR_INTEGER:
        (ret ? ret : &ignored)->n = (int64_t) jfr_get(c);
        break;
    case JFR_FLOAT:
        get_raw(c, 4);
        break;
    case JFR_DOUBLE:
        get_raw(c, 8);
        break;
    case JFR_STRING_FORM:
        jfr_get_text(r, c, ret, ret ? ret : &ignored);
        break;
    default:
        get_fields(r, c, k, NULL, depth + 1);
    }
}

static void get_fields(struct jfr_reader *r, struct cursor *c, const struct jfr_class *k, struct jfr_object *ret,
                       int depth)
{
    for (size_t i = 0; i < k->n_fields && !c->bad; i++) {
        const struct jfr_field *f = &k->fields[i];
        struct jfr_value *v = ret && f->slot ? &ret->v[f->slot] : NULL;
        uint64_t n;

        if (!f->array) {
            get_value(r, c, f, v, depth);
            continue;
        }
        n = jfr_get(c);
        if (v) {
            v->n = (int64_t) n;
            v->at = (size_t) ((const char *) c->p - r->data.p);
        }
        if (n > (uint64_t) (c->end - c->p))
            cursor_fail(c);
        for (; n > 0 && !c->bad; n--)
            get_value(r, c, f, NULL, depth);
    }
}

void jfr_get_object(struct jfr_reader *r, struct cursor *c, const struct jfr_class *k, struct jfr_object *ret)
{
    if (ret)
        for (size_t i = 0; i < k->n_fields; i++)
            ret->v[k->fields[i].slot] = (struct jfr_value){0};
    get_fields(r, c, k, ret, 0);
}
