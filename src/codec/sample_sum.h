/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums samples by profile, stack and attributes, for decoders whose input has one record per sample. The builder takes
 * the samples of one profile after those of the other, while the records of a file are mixed: they are collected here
 * and written at the end.
 */
#ifndef CODEC_SAMPLE_SUM_H
#define CODEC_SAMPLE_SUM_H

#include "base/map.h"
#include "model/batch.h"

struct builder;

enum { SAMPLE_SUM_VALUES = 2 };

struct sum_row {
    uint32_t profile; /* a number that the decoder chose */
    uint32_t stack;   /* of the builder */
    struct run attrs; /* of the builder */
    int64_t values[SAMPLE_SUM_VALUES];
};

struct sample_sum {
    struct sum_row *rows;
    size_t n, cap;
    size_t limit; /* rows; 0 = as many as an index allows */
    struct map map;
};

/* The limit for a decoder that may use `memory` bytes; 0 = none. */
size_t sample_sum_limit(size_t memory);
/* Adds the values of row to those of an equal one. -ENOMEM, or -E2BIG over the limit. */
int sample_sum_add(struct sample_sum *s, const struct sum_row *row);
/* Writes the rows of a profile, in order of their first arrival, into the builder's last profile. scale multiplies all
 * values. */
void sample_sum_write(const struct sample_sum *s, uint32_t profile, uint32_t n_values, int64_t scale,
                      struct builder *b);
/* True if there is a row of this profile. */
bool sample_sum_has(const struct sample_sum *s, uint32_t profile);
void sample_sum_done(struct sample_sum *s);

#endif
