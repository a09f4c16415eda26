/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which opentelemetry-proto a request was made with. All of 1.4 to 1.11 share one package name and one path, and the
 * fields changed places in between, so the types of the fields are the only witness:
 *
 *   generation  proto    what changed on the wire
 *   G0          1.3      v1experimental: ProfileContainer (2, 3 are fixed64 times, 8 is the profile)
 *   G1          1.4 1.5  no dictionary: tables inside Profile (3 mapping_table LEN ... 10 string_table LEN)
 *   -           1.6      tables in ProfilesData (6 string_table)
 *   G2          1.7      dictionary; Profile 3 location_indices LEN, 6 period_type LEN, 7 period VARINT
 *   G3          1.8      Profile 3 time fixed64, 8 profile_id LEN, 12 attribute_indices; Sample 2 values, 3 attributes
 *   G4          1.9      Profile as in G5; Sample as in G3
 *   G5          1.10     Sample 2 attribute_indices LEN, 3 link_index VARINT, 4 values LEN
 *
 * The trap: a G4 sample without attributes and link (fields 1, 2, 5) is also a well-formed G5 sample, with its values
 * as attribute indices. It gives itself away by what a G5 sample cannot be: without any value, or with one attribute
 * several times and as many of them as there are times.
 */
#include <errno.h>

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

static enum otlp_generation g3_or_g4(const struct otlp_evidence *ev)
{
    if (ev->profile_8_len || ev->profile_12)
        return OTLP_G3;
    return ev->profile_7_id ? OTLP_G4 : OTLP_G3_OR_G4;
}

enum otlp_generation otlp_generation_verdict(const struct otlp_evidence *ev)
{
    bool like_g4 = ev->sample_g4 || (ev->sample_4_varint && !ev->unpacked);

    if (ev->profile_2_i64)
        return OTLP_G0;
    if (ev->profile_3_len || ev->profile_6_len || ev->profile_7_varint) {
        if (ev->top_strings)
            return OTLP_G1_6;
        return ev->dictionary ? OTLP_G2 : OTLP_G1;
    }
    if (ev->profile_8_len)
        return OTLP_G3;
    if (ev->sample_g5)
        return OTLP_G5;
    if (like_g4)
        return g3_or_g4(ev);
    if ((ev->sample_2_alone || ev->sample_2_repeats) && !ev->sample_2_set)
        return g3_or_g4(ev);
    return OTLP_G5;
}

int otlp_generation_refuse(enum otlp_generation g, struct err *e)
{
    return err_set(e, -EPROTONOSUPPORT, "this is OTLP profiles of %s; wick reads 1.10 and later: update the sender",
                   otlp_generation_name(g));
}

int otlp_generation_detect(const void *p, size_t n, enum otlp_generation *ret, struct err *e)
{
    struct otlp_counts counts;
    struct wire_err w;
    const uint8_t *start = p;
    int r = otlp_scan(start, start + n, &counts, &w);
    enum otlp_generation g = otlp_generation_verdict(&counts.ev);

    if (r < 0 && g == OTLP_G5)
        return wire_report(&w, start, r, "OTLP profiles", e);
    *ret = g;
    return 0;
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
    return err_set(e, -ENOENT, "'%.*s' is no path of OTLP profiles", STR_FMT(path));
}
