/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses address ranges for the objects of a pprof file (object_place.h). */
#include "agent/object_place.h"

#include "agent/object.h"
#include "base/macros.h"
#include "model/identity.h"

enum { PAGE = 4096, STEP = 2 << 20 };
#define PLACE_MAX (1ull << 40) /* of one object; a larger one is damaged */

static uint64_t round_down(uint64_t v)
{
    return v & ~(uint64_t) (PAGE - 1);
}

static uint64_t round_up(uint64_t v, uint64_t to)
{
    return (v + to - 1) & ~(to - 1);
}

/* The ELF addresses of the executable segments; false when they cannot be one mapping with one offset. */
static bool code_range(const struct object *o, uint64_t *ret_start, uint64_t *ret_end, uint64_t *ret_skew)
{
    bool first = true;

    *ret_start = UINT64_MAX;
    *ret_end = 0;
    for (uint32_t i = 0; i < o->n_segments; i++) {
        const struct elf_segment *s = &o->segments[i];

        if (!(s->flags & PF_X))
            continue;
        if (s->memsz > PLACE_MAX || s->vaddr > PLACE_MAX || s->vaddr < s->offset ||
            (!first && s->vaddr - s->offset != *ret_skew))
            return false;
        *ret_skew = s->vaddr - s->offset;
        first = false;
        *ret_start = MIN(*ret_start, round_down(s->vaddr));
        *ret_end = MAX(*ret_end, round_up(s->vaddr + s->memsz, PAGE));
    }
    return !first && *ret_skew % PAGE == 0 && *ret_start < *ret_end;
}

/* A program that is linked to a fixed address stays there. identity_elf_address() recognises it by that address. */
static bool place_fixed(const struct object *o, struct object_place *ret)
{
    const struct elf_segment *s = NULL;

    for (uint32_t i = 0; i < o->n_segments; i++)
        if (o->segments[i].flags & PF_X) {
            if (s)
                return false;
            s = &o->segments[i];
        }
    if (!s || s->vaddr < STEP || s->vaddr == s->offset || s->vaddr > IDENTITY_FIXED_MAX / 2 ||
        s->memsz > IDENTITY_FIXED_MAX / 2)
        return false;
    ret->start = round_down(s->vaddr);
    ret->limit = round_up(s->vaddr + s->memsz, PAGE);
    ret->offset = round_down(s->offset);
    return true;
}

void object_place_choose(const struct object *o, bool is_program, uint64_t *next, struct object_place *ret)
{
    uint64_t start, end, skew = 0;

    *ret = (struct object_place){0};
    if ((is_program && place_fixed(o, ret)) || !code_range(o, &start, &end, &skew))
        return;
    ret->bias = is_program ? OBJECT_PLACE_PROGRAM : *next;
    if (!is_program)
        *next += round_up(end, STEP) + STEP;
    ret->start = start + ret->bias;
    ret->limit = end + ret->bias;
    ret->offset = start - skew;
    ret->skew = skew;
}
