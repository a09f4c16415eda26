/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the line of an instruction in the line tables of CPython. */
#include "agent/lang/python/python_lines.h"

#include <stdbool.h>

enum { NO_LINE = -128, UNIT = 2 };

static int64_t line_by_lnotab(struct str t, int64_t line, int64_t instr)
{
    int64_t at = 0;

    for (uint32_t i = 0; i + 1 < t.n; i += 2) {
        at += (uint8_t) t.p[i];
        if (at > instr)
            break;
        line += (int8_t) t.p[i + 1];
    }
    return line;
}

static int64_t line_by_pairs(struct str t, int64_t first, int64_t instr)
{
    int64_t at = 0, line = first;

    for (uint32_t i = 0; i + 1 < t.n; i += 2) {
        int change = (int8_t) t.p[i + 1];

        if (change != NO_LINE)
            line += change;
        at += (uint8_t) t.p[i];
        if (at > instr)
            return change == NO_LINE ? 0 : line;
    }
    return first;
}

static uint32_t take_varint(struct str *t)
{
    uint32_t v = 0;

    for (unsigned shift = 0; t->n; shift += 6) {
        uint8_t c = (uint8_t) *t->p;

        *t = str_slice(*t, 1, t->n);
        if (shift < 30)
            v |= (uint32_t) (c & 0x3f) << shift;
        if (!(c & 0x40))
            break;
    }
    return v;
}

static int64_t take_svarint(struct str *t)
{
    uint32_t v = take_varint(t);

    return v & 1 ? -(int64_t) (v >> 1) : (int64_t) (v >> 1);
}

/* The change of line of an entry whose first byte was read; the rest of the entry is skipped. */
static int64_t take_entry(struct str *t, unsigned kind)
{
    int64_t change = 0;

    if (kind == 13 || kind == 14) {
        change = take_svarint(t);
        for (int i = 0; kind == 14 && i < 3; i++)
            take_varint(t);
    } else if (kind < 15) {
        *t = str_slice(*t, kind < 10 ? 1 : 2, t->n);
        change = kind < 10 ? 0 : (int64_t) kind - 10;
    }
    return change;
}

static int64_t line_by_entries(struct str t, int64_t first, int64_t instr)
{
    int64_t at = 0, line = first;

    while (t.n) {
        uint8_t head = (uint8_t) *t.p;
        unsigned kind = head >> 3 & 15;

        if (!(head & 0x80)) /* not the start of an entry: damaged */
            return first;
        t = str_slice(t, 1, t.n);
        line += take_entry(&t, kind);
        at += ((head & 7) + 1) * UNIT;
        if (at > instr)
            return kind == 15 ? 0 : line;
    }
    return first;
}

int64_t python_line(unsigned minor, struct str table, int32_t first_line, int64_t instr)
{
    int64_t line;

    if (instr < 0)
        return first_line;
    line = minor <= 9    ? line_by_lnotab(table, first_line, instr)
           : minor == 10 ? line_by_pairs(table, first_line, instr)
                         : line_by_entries(table, first_line, instr);
    return line < 0 || line > INT32_MAX ? first_line : line;
}
