/* SPDX-License-Identifier: Apache-2.0 */
/* Converts and prints values with units, as pprof does. */
#include "report/units.h"

#include <math.h>
#include <stdio.h>

struct unit_names {
    const char *name, *aliases[3];
    double factor;
};

static const struct unit_names memory_units[] = {
    {"B", {"b", "byte"}, 1},
    {"kB", {"kb", "kbyte", "kilobyte"}, 1024.0},
    {"MB", {"mb", "mbyte", "megabyte"}, 1048576.0},
    {"GB", {"gb", "gbyte", "gigabyte"}, 1073741824.0},
    {"TB", {"tb", "tbyte", "terabyte"}, 1099511627776.0},
    {"PB", {"pb", "pbyte", "petabyte"}, 1125899906842624.0},
};
static const struct unit_names time_units[] = {
    {"ns", {"ns", "nanosecond"}, 1},    {"us", {"\xce\xbcs", "us", "microsecond"}, 1e3},
    {"ms", {"ms", "millisecond"}, 1e6}, {"s", {"s", "sec", "second"}, 1e9},
    {"hrs", {"hour", "hr"}, 3600e9},
};
static const struct unit_names gcu_units[] = {
    {"n*GCU", {"nanogcu"}, 1e-9}, {"u*GCU", {"microgcu"}, 1e-6}, {"m*GCU", {"milligcu"}, 1e-3},
    {"GCU", {"gcu"}, 1},          {"k*GCU", {"kilogcu"}, 1e3},   {"M*GCU", {"megagcu"}, 1e6},
    {"G*GCU", {"gigagcu"}, 1e9},  {"T*GCU", {"teragcu"}, 1e12},  {"P*GCU", {"petagcu"}, 1e15},
};

static const struct family {
    const struct unit_names *units;
    size_t n;
    struct unit_names fallback; /* when the target is of another family */
} families[] = {
    {memory_units, ARRAY_SIZE(memory_units), {"B", {NULL}, 1}},
    {time_units, ARRAY_SIZE(time_units), {"s", {NULL}, 1e9}},
    {gcu_units, ARRAY_SIZE(gcu_units), {"GCU", {NULL}, 1}},
};

/* The unit with this name, lower-cased and without a plural s. */
static const struct unit_names *family_find(const struct family *f, struct str s)
{
    char low[32];
    size_t n = s.n;

    if (n >= sizeof(low))
        return NULL;
    for (size_t i = 0; i < n; i++)
        low[i] = (char) (s.p[i] >= 'A' && s.p[i] <= 'Z' ? s.p[i] | 0x20 : s.p[i]);
    if (n > 2 && low[n - 1] == 's')
        n--;
    for (size_t i = 0; i < f->n; i++)
        for (size_t j = 0; j < ARRAY_SIZE(f->units[i].aliases) && f->units[i].aliases[j]; j++)
            if (str_eq((struct str){low, (uint32_t) n}, str_from(f->units[i].aliases[j])))
                return &f->units[i];
    return NULL;
}

static bool is_automatic(struct str to)
{
    return str_eq(to, STR("minimum")) || str_eq(to, STR("auto"));
}

void units_prepare(struct units_conversion *c, struct str from, struct str to)
{
    static const struct str plain[] = {STR("count"), STR("sample"), STR("unit"), STR("minimum"), STR("auto")};

    *c = (struct units_conversion){.family = -1, .to = to, .automatic = is_automatic(to)};
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        const struct unit_names *u = family_find(&families[i], from), *target;

        if (!u)
            continue;
        target = family_find(&families[i], to);
        if (!target)
            target = &families[i].fallback;
        c->family = (int8_t) i;
        c->from_factor = u->factor;
        c->to_factor = target->factor;
        c->name = str_from(target->name);
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
        if (str_eq(to, plain[i]))
            c->to = (struct str){0};
}

/* In the largest unit of which there is at least one; the units of a family are in the order of their size. */
static double scale_automatic(const struct units_conversion *c, double v, struct str *ret_unit)
{
    const struct family *f = &families[c->family];
    const struct unit_names *u = &f->fallback;

    for (size_t i = f->n; i > 0 && u == &f->fallback; i--)
        if (v / f->units[i - 1].factor >= 1.0)
            u = &f->units[i - 1];
    *ret_unit = str_from(u->name);
    return v / u->factor;
}

double units_convert(const struct units_conversion *c, int64_t value, struct str *ret_unit)
{
    bool negative = value < 0 && value != INT64_MIN;
    double v = (double) (negative ? -value : value);

    if (c->family < 0) {
        *ret_unit = c->to;
    } else {
        v *= c->from_factor;
        if (c->automatic) {
            v = scale_automatic(c, v, ret_unit);
        } else {
            v /= c->to_factor;
            *ret_unit = c->name;
        }
    }
    return negative ? -v : v;
}

double units_scale(int64_t value, struct str from, struct str to, struct str *ret_unit)
{
    struct units_conversion c;

    units_prepare(&c, from, to);
    return units_convert(&c, value, ret_unit);
}

static void put_number(struct buf *out, double v, struct str unit)
{
    char text[352];
    int n;

    if (v == trunc(v) && fabs(v) < 1e15) { /* the same text as "%.2f" with ".00" cut, without the work */
        int64_t i = (int64_t) v;

        if (i == 0) {
            buf_putc(out, '0');
            return;
        }
        n = snprintf(text, sizeof(text), "%lld", (long long) i);
    } else {
        n = snprintf(text, sizeof(text), "%.2f", v);
        if (n > 3 && memcmp(text + n - 3, ".00", 3) == 0)
            n -= 3;
        if ((n == 1 && text[0] == '0') || (n == 2 && text[0] == '-' && text[1] == '0')) {
            buf_putc(out, '0');
            return;
        }
    }
    buf_put(out, text, (size_t) n);
    buf_put_str(out, unit);
}

void units_put(struct buf *out, const struct units_conversion *c, int64_t value)
{
    struct str unit = {0};
    double v = units_convert(c, value, &unit);

    put_number(out, v, unit);
}

void units_label(struct buf *out, int64_t value, struct str from, struct str to)
{
    struct units_conversion c;

    units_prepare(&c, from, to);
    units_put(out, &c, value);
}

void units_percentage(struct buf *out, int64_t value, int64_t total)
{
    double ratio = total ? fabs((double) value / (double) total) * 100 : 0;

    if (ratio >= 99.95 && ratio <= 100.05)
        buf_puts(out, "  100%");
    else if (ratio >= 1.0)
        buf_printf(out, "%5.2f%%", ratio);
    else if (ratio == 0)
        buf_puts(out, "    0%");
    else
        buf_printf(out, "%5.2g%%", ratio);
}

static struct str without_plural(struct str s)
{
    return s.n && s.p[s.n - 1] == 's' ? str_slice(s, 0, s.n - 1) : s;
}

/* The family of a unit, NULL if it has none. No name is in two families. */
static const struct family *family_of(struct str unit)
{
    const struct family *f = families;

    while (f < families + ARRAY_SIZE(families) && !family_find(f, unit))
        f++;
    return f < families + ARRAY_SIZE(families) ? f : NULL;
}

bool units_compatible(struct str type1, struct str unit1, struct str type2, struct str unit2)
{
    bool convertible = str_eq(unit1, unit2) || (family_of(unit1) && family_of(unit1) == family_of(unit2));

    return convertible && str_eq(without_plural(type1), without_plural(type2));
}
