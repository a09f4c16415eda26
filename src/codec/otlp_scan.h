/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first of the decoder's two passes: counts what a request holds, so that the second can allocate every table once
 * and exactly, check every index against the size of its table whatever the order of the fields, and refuse a request
 * that would grow out of proportion before anything is allocated. On the way it gathers what tells generations apart.
 *
 * It does not go inside of the dictionary's entries, which are most of a request, but for one location in 8: from
 * those, the number of lines and attributes of all is guessed, and should it be wrong the pools grow.
 */
#ifndef CODEC_OTLP_SCAN_H
#define CODEC_OTLP_SCAN_H

#include <stdbool.h>

#include "codec/otlp.h"
#include "codec/wire.h"

/* Fields of Profile and Sample whose types differ between generations. Set when seen at least once. */
struct otlp_evidence {
    bool dictionary;       /* request field 2 */
    bool top_strings;      /* request field 6: 1.6 kept the tables in ProfilesData */
    bool profile_2_i64;    /* G0: ProfileContainer.start_time */
    bool profile_3_len;    /* G1: mapping_table, G2: location_indices */
    bool profile_6_len;    /* G1: function_table, G2: period_type */
    bool profile_7_varint; /* G2: period */
    bool profile_7_id;     /* 16 bytes: profile_id since G4 */
    bool profile_8_len;    /* G3: profile_id */
    bool profile_12;       /* G3: attribute_indices */
    bool sample_g5;        /* field 3 VARINT (link_index) or 4 LEN (values) */
    bool sample_g4;        /* field 3 LEN (attribute_indices), or 4 VARINT (link_index) beside packed lists */
    bool sample_2_alone;   /* field 2 without values and times: no value at all, if this were G5 */
    bool sample_2_repeats; /* field 2 as long as the times, with an element twice: values rather than a set */
    bool sample_2_set;     /* field 2 not as long as the times: attributes rather than values */
    bool sample_4_varint;
    bool unpacked; /* a stack's locations came unpacked: so may the lists of samples */
};

struct otlp_table_count {
    uint32_t n;   /* entries as sent */
    bool shifted; /* entry 0 is not the zero value */
};

struct otlp_counts {
    struct otlp_table_count strings, mappings, functions, locations, stacks, links, attrs;
    uint64_t indices; /* of samples and profiles */
    uint64_t resources, scopes, profiles, samples, values, timestamps;
    uint64_t stack_indices;               /* at most so many locations of stacks */
    uint64_t looked, lines, attr_indices; /* locations that were looked into, and what they had */
    uint64_t empty;                       /* messages of two bytes among all those; see WIRE_EMPTY_MAX */
    uint64_t kvs;                         /* attributes of resources and scopes, without what lies inside of them */
    struct otlp_evidence ev;
};

int otlp_scan(const uint8_t *p, const uint8_t *end, struct otlp_counts *ret, struct wire_err *w);
enum otlp_generation otlp_generation_verdict(const struct otlp_evidence *ev);
/* Refuses an older generation by name: -EPROTONOSUPPORT. */
int otlp_generation_refuse(enum otlp_generation g, struct err *e);

#endif
