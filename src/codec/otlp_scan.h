/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first of the decoder's two passes: it counts the entries of a request, so that the second can allocate every
 * table once and exactly, check every index against the size of its table whatever the order of the fields, and refuse
 * a request that would grow out of proportion before anything is allocated. It also collects the evidence by which
 * generations are distinguished.
 *
 * It does not look inside the dictionary's entries, which are most of a request, except for one location in 8: from
 * those it estimates the number of lines and attributes of all locations. If the estimate is too low, the pools grow.
 */
#ifndef CODEC_OTLP_SCAN_H
#define CODEC_OTLP_SCAN_H

#include <stdbool.h>

#include "base/wire.h"
#include "codec/otlp.h"

/* What the fields of Profile and Sample say about the generation; otlp_generation.c explains the rules. */
struct otlp_evidence {
    uint8_t possible;      /* OTLP_BIT() of the generations in which every field seen has the type that was received */
    bool dictionary;       /* request field 2 */
    bool top_strings;      /* request field 6: 1.6 kept the tables in ProfilesData */
    bool sample_g5;        /* field 3 VARINT (link_index) or 4 LEN (values) */
    bool sample_2_alone;   /* field 2 without values and times: in G5 the sample would have no value at all */
    bool sample_2_repeats; /* field 2 as long as the times, with a repeated element: values rather than a set */
    bool sample_2_set;     /* field 2 not as long as the times: attributes rather than values */
    bool sample_4_varint;  /* field 4 VARINT: an unpacked value of G5, or the link_index of G3 and G4 */
    bool sample_4_values;  /* it occurred twice in a sample, or without field 2 and times: only possible in G5 */
    uint64_t sample_4_max; /* the largest of them: not a link_index unless there are more links */
};

#define OTLP_BIT(generation) (1u << (generation))

struct otlp_table_count {
    uint32_t n;   /* number of entries sent */
    bool shifted; /* entry 0 is not the zero value */
};

struct otlp_counts {
    struct otlp_table_count strings, mappings, functions, locations, stacks, links, attrs;
    uint64_t indices; /* of samples and profiles */
    uint64_t resources, scopes, profiles, samples, values, timestamps;
    uint64_t stack_indices;               /* upper bound of the locations in all stacks */
    uint64_t looked, lines, attr_indices; /* locations that were examined, and their elements */
    uint64_t empty;                       /* messages of two bytes among all of these; see WIRE_EMPTY_MAX */
    uint64_t kvs;                         /* attributes of resources and scopes, not counting nested ones */
    struct otlp_evidence ev;
};

int otlp_scan(const uint8_t *p, const uint8_t *end, struct otlp_counts *ret, struct wire_err *w);
/* The generations in which Profile has this field with this wire type, as a set of OTLP_BIT(). */
uint8_t otlp_generation_of_field(const struct wire_field *f);
/* The newest generation before G5 that the evidence allows; G5 if it allows none, so that the decoder reports the
 * error. */
enum otlp_generation otlp_generation_older(const struct otlp_evidence *ev);
/* G5, unless the request cannot be of that generation. */
enum otlp_generation otlp_generation_verdict(const struct otlp_counts *c);
/* The generation of a request in which an attribute index is out of range: G5, unless the attributes may be the values
 * of an older generation. */
enum otlp_generation otlp_generation_of_bad_attribute(const struct otlp_counts *c);
/* Refuses an older generation with an error message that names it: -EPROTONOSUPPORT. */
int otlp_generation_refuse(enum otlp_generation g, struct err *e);

#endif
