/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Determines which opentelemetry-proto a request was made with. Versions 1.4 to 1.11 share one package name and one
 * path, and fields were renumbered in between, so the version must be inferred from the fields themselves:
 *
 *   generation  proto    what changed on the wire
 *   G0          1.3      v1experimental: ProfileContainer (2, 3 are fixed64 times, 8 is the profile)
 *   G1          1.4 1.5  no dictionary: tables inside Profile (3 mapping_table ... 10 string_table)
 *   -           1.6      tables in ProfilesData (6 string_table)
 *   G2          1.7      dictionary
 *   G3          1.8      stack_table; Sample 2 values, 3 attribute_indices, 4 link_index, 5 times
 *   G4          1.9      Profile as in G5; Sample as in G3
 *   G5          1.10     Sample 2 attribute_indices, 3 link_index, 4 values, 5 times
 *
 * A request is of the current generation (G5) unless it cannot be. The scan removes from `possible` every generation
 * that does not have a field with the wire type it came with; packed and unpacked lists are both valid in every
 * generation.
 *
 * Types alone do not rule G5 out for a sample of G4 without attributes: its values would be attribute indices (field 2)
 * and its link an unpacked value (field 4). Such a request is refused when, read as G5, it makes no sense:
 *   - a sample has neither values nor times, or one attribute several times and as many attributes as times;
 *   - field 4 may be a link in all samples (one number, within the link table), nothing else refers to the link table,
 *     and that has links;
 *   - an attribute index is out of range (found by the second pass).
 */
#include <errno.h>

#include "base/buf.h"
#include "codec/otlp_scan.h"

const char *otlp_generation_name(enum otlp_generation g)
{
    static const char *const names[] = {
        [OTLP_G0] = "opentelemetry-proto 1.3, v1experimental (generation G0)",
        [OTLP_G1] = "opentelemetry-proto 1.4 or 1.5 (generation G1)",
        [OTLP_G1_6] = "opentelemetry-proto 1.6 (between generations G1 and G2)",
        [OTLP_G2] = "opentelemetry-proto 1.7 (generation G2)",
        [OTLP_G3] = "opentelemetry-proto 1.8 (generation G3)",
        [OTLP_G3_OR_G4] = "opentelemetry-proto 1.8 or 1.9 (generation G3 or G4)",
        [OTLP_G4] = "opentelemetry-proto 1.9 (generation G4)",
        [OTLP_G5] = "opentelemetry-proto 1.10 or later (generation G5)",
    };

    return names[g];
}

enum {
    B0 = OTLP_BIT(OTLP_G0),
    B1 = OTLP_BIT(OTLP_G1),
    B2 = OTLP_BIT(OTLP_G1_6) | OTLP_BIT(OTLP_G2), /* Profile is the same in both */
    B3 = OTLP_BIT(OTLP_G3),
    B4 = OTLP_BIT(OTLP_G4),
    B5 = OTLP_BIT(OTLP_G5),
};

/* Profile (ProfileContainer of G0) by field number and wire type. In G5, fields above its last one are taken as later
 * additions. */
static const struct {
    uint8_t varint, i64, len;
} profile_fields[] = {
    [1] = {.len = B0 | B1 | B2 | B3 | B4 | B5},
    [2] = {.i64 = B0, .len = B1 | B2 | B3 | B4 | B5},
    [3] = {.varint = B2, .i64 = B0 | B3 | B4 | B5, .len = B1 | B2},
    [4] = {.varint = B2 | B3 | B4 | B5, .len = B0 | B1},
    [5] = {.varint = B0 | B1 | B2, .len = B1 | B3 | B4 | B5},
    [6] = {.varint = B3 | B4 | B5, .len = B0 | B1 | B2},
    [7] = {.varint = B2 | B3, .len = B0 | B1 | B3 | B4 | B5},
    [8] = {.varint = B2 | B4 | B5, .len = B0 | B1 | B2 | B3},
    [9] = {.varint = B2 | B3, .len = B1 | B4 | B5},
    [10] = {.len = B1 | B2 | B3 | B4 | B5},
    [11] = {.varint = B1 | B2 | B4 | B5, .len = B3 | B4 | B5},
    [12] = {.varint = B1 | B3 | B5, .len = B2 | B3 | B5},
    [13] = {.varint = B5, .len = B1 | B2 | B5},
    [14] = {.varint = B1 | B2 | B5, .len = B2 | B5},
    [15] = {.varint = B1 | B5, .len = B1 | B5},
    [16] = {.varint = B1 | B5, .len = B5},
    [17] = {.varint = B5, .len = B1 | B5},
    [18] = {.varint = B5, .len = B5},
    [19] = {.varint = B1 | B5, .len = B5},
    [20] = {.varint = B5, .len = B1 | B5},
    [21] = {.varint = B5, .len = B1 | B5},
    [22] = {.varint = B1 | B5, .len = B1 | B5},
};

uint8_t otlp_generation_of_field(const struct wire_field *f)
{
    enum { PROFILE_ID = 7 };
    uint32_t field = f->tag >> 3;

    if (field >= ARRAY_SIZE(profile_fields))
        return UINT8_MAX;
    switch (f->tag & 7) {
    case WIRE_VARINT:
        return profile_fields[field].varint;
    case WIRE_I64:
        return profile_fields[field].i64;
    case WIRE_LEN:
        if (field == PROFILE_ID && f->v == 16)
            return profile_fields[field].len & ~B3; /* an id rather than 16 comments */
        return profile_fields[field].len;
    default:
        return UINT8_MAX; /* a field that no generation has */
    }
}

enum otlp_generation otlp_generation_older(const struct otlp_evidence *ev)
{
    unsigned p = ev->possible & ~(unsigned) B5;

    p &= ev->dictionary ? ~(unsigned) (B0 | B1) : ~(unsigned) (OTLP_BIT(OTLP_G2) | B3 | B4);
    p &= ev->top_strings ? OTLP_BIT(OTLP_G1_6) : ~OTLP_BIT(OTLP_G1_6);
    if ((p & (B3 | B4)) == (B3 | B4))
        return OTLP_G3_OR_G4;
    for (int g = OTLP_G4; g >= OTLP_G0; g--)
        if (g != OTLP_G3_OR_G4 && p & OTLP_BIT(g))
            return (enum otlp_generation) g;
    return OTLP_G5;
}

/* Whether field 4, where it is a single number, must be values. */
static bool has_values(const struct otlp_counts *c)
{
    return c->ev.sample_4_values || (c->ev.sample_4_varint && c->ev.sample_4_max >= MAX(c->links.n, 2u));
}

static bool is_g5(const struct otlp_counts *c)
{
    return c->ev.sample_g5 || c->ev.sample_2_set || has_values(c);
}

enum otlp_generation otlp_generation_verdict(const struct otlp_counts *c)
{
    const struct otlp_evidence *ev = &c->ev;
    bool links = ev->sample_4_varint && c->links.n > 1;

    if (!(ev->possible & B5))
        return otlp_generation_older(ev);
    if (!is_g5(c) && (ev->sample_2_alone || ev->sample_2_repeats || links))
        return otlp_generation_older(ev);
    return OTLP_G5;
}

enum otlp_generation otlp_generation_of_bad_attribute(const struct otlp_counts *c)
{
    return is_g5(c) ? OTLP_G5 : otlp_generation_older(&c->ev);
}

int otlp_generation_refuse(enum otlp_generation g, struct err *e)
{
    return err_set(e, -EPROTONOSUPPORT, "this is OTLP profiles of %s; wick reads 1.10 and later: update the sender",
                   otlp_generation_name(g));
}

int otlp_check_path(struct str path, struct err *e)
{
    static const struct str good[] = {
        STR("/v1development/profiles"),
        STR("/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"),
    };

    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        if (str_eq(path, good[i]))
            return 0;
    if (str_find(path, STR("v1experimental")) >= 0 && str_find(path, STR("profiles")) >= 0)
        return otlp_generation_refuse(OTLP_G0, e);
    return err_set(e, -ENOENT, "'%.*s' is not a path of OTLP profiles", STR_FMT(path));
}

int otlp_check_version(struct str value, struct err *e)
{
    /* A version whose messages the decoder reads is one more line here. */
    static const char *const accepted[] = {
        OTLP_VERSION,
    };
    _cleanup_(buf_done) struct buf list = BUF_INIT;

    for (size_t i = 0; i < ARRAY_SIZE(accepted); i++) {
        if (str_is(value, accepted[i]))
            return 0;
        buf_printf(&list, "%s%s", i ? ", " : "", accepted[i]);
    }
    return err_set(e, -EPROTONOSUPPORT, OTLP_VERSION_HEADER ": '%.*s' is not supported; supported: %.*s",
                   (int) MIN(value.n, 40u), value.p, STR_FMT(buf_str(&list)));
}
