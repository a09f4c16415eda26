/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gperftools' binary CPU profile: words of 4 or 8 bytes in either byte order.
 *
 *   header    0, 3, kind (0 native, 1 Java), sampling period in microseconds, 0
 *   samples   count, depth, depth addresses (leaf first) ...
 *   end       0, 1, 0
 *   then      native: a memory map; Java: symbols
 *
 * All addresses except the leaf are return addresses, so the address minus one is inside the call. If nearly all
 * samples have the same frame above the leaf, it belongs to the signal handler and is removed; at most twice.
 */
#include <errno.h>

#include "base/hash.h"
#include "base/mem.h"
#include "codec/pprof_legacy.h"

/* Reads words from p on; p becomes NULL, and stays so, if less than a whole word is left. */
struct cpu_words {
    const unsigned char *p, *end;
    unsigned size;
    bool big;
};

static uint64_t next_word(struct cpu_words *w)
{
    uint64_t v = 0;

    if (!w->p || (size_t) (w->end - w->p) < w->size) {
        w->p = NULL;
        return 0;
    }
    for (unsigned i = 0; i < w->size; i++)
        v |= (uint64_t) w->p[w->big ? w->size - 1 - i : i] << (8 * i);
    w->p += w->size;
    return v;
}

static int read_sample(struct legacy *l, struct cpu_words *w, uint64_t count, uint64_t depth, uint64_t adjust)
{
    struct legacy_sample *s = legacy_add_sample(l);

    if (!s)
        return -ENOMEM;
    s->values[0] = (int64_t) count;
    s->values[1] = wrap_mul((int64_t) count, l->period);
    for (uint64_t i = 0; i < depth; i++) {
        int r = legacy_add_ref(l, next_word(w) - (i ? adjust : 0));

        if (r < 0)
            return r;
    }
    return 0;
}

static int read_samples(struct legacy *l, struct cpu_words *w, uint64_t adjust)
{
    while (w->p && w->p < w->end) {
        uint64_t count = next_word(w), depth = next_word(w);
        int r;

        if (!w->p || depth > (uint64_t) (w->end - w->p) / 4)
            return -ENOMSG;
        if (count == 0 && depth == 1) {
            struct cpu_words ahead = *w;

            if (next_word(&ahead) == 0) {
                *w = ahead;
                break;
            }
        }
        r = read_sample(l, w, count, depth, adjust);
        if (r < 0)
            return r;
    }
    return 0;
}

static uint64_t second_address(const struct legacy *l, const struct legacy_sample *s)
{
    return l->locations[l->refs[s->first + 1]].address;
}

/* The address above the leaf in all but `margin` samples. A majority vote finds the only candidate. */
static bool common_second(const struct legacy *l, size_t margin, uint64_t *ret)
{
    size_t votes = 0, count = 0;

    for (size_t i = 0; i < l->n_samples; i++) {
        if (l->samples[i].n < 2)
            continue;
        if (!votes)
            *ret = second_address(l, &l->samples[i]);
        votes += second_address(l, &l->samples[i]) == *ret ? 1 : -1;
    }
    if (!votes)
        return false;
    for (size_t i = 0; i < l->n_samples; i++)
        count += l->samples[i].n > 1 && second_address(l, &l->samples[i]) == *ret;
    return count >= l->n_samples - margin;
}

static void drop_handler_frames(struct legacy *l)
{
    enum { FRAMES_MAX = 2, SIMILAR = 32 };
    uint64_t address;

    for (int round = 0; round < FRAMES_MAX; round++) {
        if (!common_second(l, l->n_samples / SIMILAR, &address))
            return;
        for (size_t i = 0; i < l->n_samples; i++)
            if (l->samples[i].n > 1 && second_address(l, &l->samples[i]) == address)
                legacy_drop_ref(l, &l->samples[i], 1);
    }
}

static int read_profile(struct legacy *l, struct cpu_words *w, bool java, int64_t period_us)
{
    static const struct legacy_type types[] = {{STR("samples"), STR("count")}, {STR("cpu"), STR("nanoseconds")}};
    int r;

    legacy_set_types(l, types, 2);
    l->period_type = types[1];
    l->period = wrap_mul(period_us, 1000);
    r = read_samples(l, w, java ? 0 : 1);
    if (r < 0)
        return r;
    l->pos = w->p ? (size_t) ((const char *) w->p - l->data.p) : l->data.n;
    if (java)
        return legacy_java_symbols(l, str_slice(l->data, l->pos, l->data.n));
    drop_handler_frames(l);
    r = legacy_read_maps(l);
    if (r == 0)
        legacy_drop_double_leaf(l);
    return r;
}

int legacy_cpu(struct legacy *l)
{
    static const struct cpu_words forms[] = {
        {.size = 4}, {.size = 4, .big = true}, {.size = 8}, {.size = 8, .big = true}};

    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        struct cpu_words w = forms[i];
        uint64_t header[5];

        w.p = (const unsigned char *) l->data.p;
        w.end = w.p + l->data.n;
        for (size_t k = 0; k < ARRAY_SIZE(header); k++)
            header[k] = next_word(&w);
        if (w.p && header[0] == 0 && header[1] == 3 && header[2] <= 1 && (int64_t) header[3] != 0 && header[4] == 0)
            return read_profile(l, &w, header[2] == 1, (int64_t) header[3]);
    }
    return -ENOMSG;
}
