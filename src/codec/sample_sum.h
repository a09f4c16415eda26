/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums samples by profile, stack and attributes, for decoders whose input has one record per sample. The builder takes
 * the samples of one profile after those of the other, while the records of a file are mixed: they are collected here
 * and written at the end.
 */
#ifndef CODEC_SAMPLE_SUM_H
#define CODEC_SAMPLE_SUM_H

#include "base/clock.h"
#include "base/map.h"
#include "model/batch.h"

struct builder;

enum { SAMPLE_SUM_VALUES = 2 };
#define SAMPLE_SUM_PART_NS (300 * NS_PER_S)

struct sum_row {
    uint32_t profile; /* a number that the decoder chose */
    uint32_t stack;   /* of the builder */
    struct run attrs; /* of the builder */
    int64_t values[SAMPLE_SUM_VALUES];
    int64_t
        time; /* when it was taken or, of what lasts, when it ended: Unix, or since an instant of the file's own; 0 = not known */
};

/* One sample of a row, if times are kept. */
struct sum_point {
    uint32_t row, part;
    int64_t time, values[SAMPLE_SUM_VALUES];
};

struct sample_sum {
    struct sum_row *rows;
    size_t n, cap;
    size_t limit; /* rows, and points; 0 = as many as an index allows */
    struct map map;
    bool times; /* keep them */
    struct sum_point *points;
    size_t n_points, cap_points;
};

/* The limit for a decoder that may use `memory` bytes; 0 = none. */
size_t sample_sum_limit(size_t memory);
/* Adds the values of row to those of an equal one. -ENOMEM, or -E2BIG over the limit. */
int sample_sum_add(struct sample_sum *s, const struct sum_row *row);
/* Adds a profile to the builder with the types, period and times of `as`, and the rows of `profile` in order of their first
 * arrival. scale multiplies all values. Where times are kept and known, there is a profile for each type, and of the last one a
 * profile for each SAMPLE_SUM_PART_NS, whose samples have times: a store finds the profiles that begin shortly before a time. -ENOMEM. */
int sample_sum_write(const struct sample_sum *s, uint32_t profile, const struct profile *as, int64_t scale,
                     struct builder *b);
/* True if there is a row of this profile. */
bool sample_sum_has(const struct sample_sum *s, uint32_t profile);
void sample_sum_done(struct sample_sum *s);

#endif
