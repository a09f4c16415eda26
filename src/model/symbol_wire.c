/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes the messages between a symbolizer process and its parent (symbol_wire.h). */
#include "model/symbol_wire.h"

#include <errno.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"

enum { FRAME_SIZE = 25 };

/* Begins a message; its length is filled in by finish(). */
static size_t begin(struct buf *b)
{
    put_u32(b, 0);
    return b->n;
}

static int finish(struct buf *b, size_t start, size_t most)
{
    uint32_t n = (uint32_t) (b->n - start);

    if (buf_error(b))
        return buf_error(b);
    if (b->n - start > most) {
        b->n = start - SYMBOL_WIRE_PREFIX;
        return -E2BIG;
    }
    memcpy(b->p + start - SYMBOL_WIRE_PREFIX, &n, sizeof(n));
    return 0;
}

int symbol_wire_put_request(struct buf *out, const struct symbol_request *q)
{
    size_t start = begin(out);

    if (q->path.n > UINT16_MAX || q->build_id.n > UINT16_MAX || q->owner.n > UINT16_MAX)
        return -E2BIG;
    buf_putc(out, (char) q->lines);
    put_u16(out, (uint16_t) q->path.n);
    put_u16(out, (uint16_t) q->build_id.n);
    put_u16(out, (uint16_t) q->owner.n);
    put_u32(out, q->n_addresses);
    buf_put_str(out, q->path);
    buf_put_str(out, q->build_id);
    buf_put_str(out, q->owner);
    buf_put(out, q->addresses, (size_t) q->n_addresses * sizeof(*q->addresses));
    return finish(out, start, SYMBOL_WIRE_REQUEST_MAX);
}

int symbol_wire_put_error(struct buf *out, int code, const char *message)
{
    size_t start = begin(out), n = strlen(message);

    put_u32(out, (uint32_t) code);
    put_u16(out, (uint16_t) MIN(n, ERR_MESSAGE_MAX - 1));
    buf_put(out, message, MIN(n, ERR_MESSAGE_MAX - 1));
    return finish(out, start, SYMBOL_WIRE_ANSWER_MAX);
}

/* The strings of an answer, each stored once. */
struct strings {
    struct str *v;
    size_t n, cap;
    struct map map;
};

static int string_number(struct strings *t, struct str s, uint32_t *ret)
{
    uint64_t h = hash64_str(s);
    int r;

    for (struct map_pos p = map_find(&t->map, h); p.index != MAP_NONE; p = map_next(&t->map, p))
        if (str_eq(t->v[p.index], s)) {
            *ret = p.index;
            return 0;
        }
    r = array_reserve(t->v, t->cap, t->n + 1, UINT32_MAX / 2);
    if (r >= 0)
        r = map_insert(&t->map, h, (uint32_t) t->n);
    if (r < 0)
        return r;
    t->v[t->n] = s;
    *ret = (uint32_t) t->n++;
    return 0;
}

static int put_frame(struct buf *out, struct strings *t, const struct symbol_frame *f)
{
    uint32_t function, system, file;
    int r = string_number(t, f->function, &function);

    if (r >= 0)
        r = string_number(t, f->system_name, &system);
    if (r >= 0)
        r = string_number(t, f->file, &file);
    if (r < 0)
        return r;
    put_u32(out, function);
    put_u32(out, system);
    put_u32(out, file);
    put_u32(out, (uint32_t) f->line);
    put_u32(out, (uint32_t) f->column);
    put_u32(out, (uint32_t) f->start_line);
    buf_putc(out, (char) f->inlined);
    return 0;
}

int symbol_wire_put_answer(struct buf *out, const struct symbol_answer *a)
{
    _cleanup_(buf_done) struct buf frames = BUF_INIT;
    struct strings t = {0};
    size_t start = begin(out);
    uint32_t n = a->first[a->n_addresses];
    int r = 0;

    for (uint32_t i = 0; i < n && r >= 0; i++)
        r = put_frame(&frames, &t, &a->frames[i]);
    put_u32(out, 0);
    buf_putc(out, (char) (uint8_t) a->quality);
    put_u16(out, (uint16_t) MIN(a->build_id.n, UINT16_MAX));
    buf_put(out, a->build_id.p, MIN(a->build_id.n, UINT16_MAX));
    put_u32(out, (uint32_t) t.n);
    for (size_t i = 0; i < t.n; i++) {
        put_u32(out, t.v[i].n);
        buf_put_str(out, t.v[i]);
    }
    put_u32(out, a->n_addresses);
    for (uint32_t i = 0; i < a->n_addresses; i++)
        put_u32(out, a->first[i + 1] - a->first[i]);
    put_u32(out, n);
    buf_put_str(out, buf_str(&frames));
    mem_free(t.v);
    map_done(&t.map);
    if (r >= 0)
        r = buf_error(&frames);
    return r < 0 ? r : finish(out, start, SYMBOL_WIRE_ANSWER_MAX);
}

/* --- reading: each function returns false if the message is too short --- */

static bool get(struct str *s, void *ret, size_t n)
{
    if (s->n < n)
        return false;
    memcpy(ret, s->p, n);
    *s = str_slice(*s, n, s->n);
    return true;
}

static bool get_text(struct str *s, size_t n, struct str *ret)
{
    if (s->n < n)
        return false;
    *ret = str_slice(*s, 0, n);
    *s = str_slice(*s, n, s->n);
    return true;
}

int symbol_wire_get_request(struct str s, struct symbol_request *ret, uint64_t **ret_addresses)
{
    struct symbol_request q = {0};
    uint8_t lines;
    uint16_t n_path, n_id, n_owner;
    uint64_t *v;

    if (!get(&s, &lines, 1) || !get(&s, &n_path, 2) || !get(&s, &n_id, 2) || !get(&s, &n_owner, 2) ||
        !get(&s, &q.n_addresses, 4) || !get_text(&s, n_path, &q.path) || !get_text(&s, n_id, &q.build_id) ||
        !get_text(&s, n_owner, &q.owner) || s.n != (uint64_t) q.n_addresses * sizeof(uint64_t))
        return -EBADMSG;
    v = mem_alloc((size_t) s.n + 1);
    if (!v)
        return -ENOMEM;
    memcpy(v, s.p, s.n);
    q.lines = lines;
    q.addresses = *ret_addresses = v;
    *ret = q;
    return 0;
}

/* -4095 is the lowest error code in Linux. */
static int get_error(struct str s, int code, struct err *e)
{
    struct str message;
    uint16_t n;

    if (code > 0 || code < -4095 || !get(&s, &n, 2) || !get_text(&s, n, &message) || s.n)
        return -EBADMSG;
    return err_set(e, code, "%.*s", STR_FMT(message));
}

static int get_strings(struct str *s, struct arena *a, struct str **ret, uint32_t *ret_n)
{
    uint32_t n, len;

    if (!get(s, &n, 4) || n > s->n / 4)
        return -EBADMSG;
    *ret = arena_zalloc_array(a, (size_t) n + 1, sizeof(**ret));
    if (!*ret)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        struct str text;

        if (!get(s, &len, 4) || !get_text(s, len, &text))
            return -EBADMSG;
        (*ret)[i] = text.n ? arena_str(a, text) : STR("");
        if (!(*ret)[i].p)
            return -ENOMEM;
    }
    *ret_n = n;
    return 0;
}

static bool get_frame(struct str *s, const struct str *strings, uint32_t n, struct symbol_frame *ret)
{
    uint32_t text[3];
    int32_t numbers[3];
    uint8_t inlined;

    if (!get(s, text, sizeof(text)) || !get(s, numbers, sizeof(numbers)) || !get(s, &inlined, 1) || text[0] >= n ||
        text[1] >= n || text[2] >= n)
        return false;
    *ret = (struct symbol_frame){strings[text[0]], strings[text[1]], strings[text[2]], numbers[0],
                                 numbers[1],       numbers[2],       inlined};
    return true;
}

static int get_frames(struct str s, const struct str *strings, uint32_t n_strings, struct symbol_answer *a)
{
    uint32_t n, count;
    uint64_t sum = 0;

    a->first = arena_zalloc_array(&a->arena, (size_t) a->n_addresses + 1, sizeof(*a->first));
    if (!a->first)
        return -ENOMEM;
    for (uint32_t i = 0; i < a->n_addresses; i++) {
        if (!get(&s, &count, 4))
            return -EBADMSG;
        sum += count;
        if (sum > UINT32_MAX)
            return -EBADMSG;
        a->first[i + 1] = (uint32_t) sum;
    }
    if (!get(&s, &n, 4) || n != sum || s.n != (uint64_t) n * FRAME_SIZE)
        return -EBADMSG;
    a->frames = arena_zalloc_array(&a->arena, (size_t) n + 1, sizeof(*a->frames));
    if (!a->frames)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        if (!get_frame(&s, strings, n_strings, &a->frames[i]))
            return -EBADMSG;
    return 0;
}

int symbol_wire_get_answer(struct str s, uint32_t n_addresses, struct symbol_answer **ret, struct err *e)
{
    _cleanup_(symbol_answer_freep) struct symbol_answer *a = NULL;
    struct str id, *strings;
    int32_t code;
    uint8_t quality;
    uint16_t n_id;
    uint32_t n_strings;
    int r;

    if (!get(&s, &code, 4))
        return -EBADMSG;
    if (code)
        return get_error(s, code, e);
    a = mem_zalloc(sizeof(*a));
    if (!a)
        return -ENOMEM;
    arena_init(&a->arena, (size_t) SYMBOL_WIRE_ANSWER_MAX * 4);
    if (!get(&s, &quality, 1) || quality > SYMBOLS_LINES || !get(&s, &n_id, 2) || !get_text(&s, n_id, &id))
        return -EBADMSG;
    a->quality = (enum symbol_quality) quality;
    a->build_id = id.n ? arena_str(&a->arena, id) : STR("");
    r = a->build_id.p ? get_strings(&s, &a->arena, &strings, &n_strings) : -ENOMEM;
    if (r < 0)
        return r;
    if (!get(&s, &a->n_addresses, 4) || a->n_addresses != n_addresses || a->n_addresses > s.n / 4)
        return -EBADMSG;
    r = get_frames(s, strings, n_strings, a);
    if (r < 0)
        return r;
    *ret = TAKE(a);
    return 0;
}
