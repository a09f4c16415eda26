/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stored profiles in memory: in the memtable, before encoding into a chunk, and after decoding. A `prof` is one sample
 * type of one profile. A row is a stack and a value; attributes, a link or a timestamp, which few rows have, are in
 * extras.
 */
#ifndef SEGMENT_ROWS_H
#define SEGMENT_ROWS_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/hash.h"
#include "model/batch.h"

#define WINDOW_5M (300 * NS_PER_S)
#define WINDOW_1H (3600 * NS_PER_S)
#define WINDOW_1D (86400 * NS_PER_S)

struct row {
    uint32_t node;
    uint32_t extra; /* index into the prof's extras + 1; 0 = none */
    int64_t value;
};

struct extra {
    uint64_t timestamp; /* 0 = none */
    uint32_t attrs;     /* attribute set in the dictionary, 0 = none */
    bool has_link;
    struct link link;
};

struct stored_profile {
    uint32_t series, header; /* symbols' series; dictionary's header */
    uint32_t service, type;  /* of the series, for sorting */
    bool gauge;
    int64_t time_ns, duration_ns, value;
    struct id128 instance;
    uint8_t id[16];
    uint32_t group;
    uint32_t n_rows, n_extras;
    struct row *rows;
    struct extra *extras;
};

static inline int64_t window_start(int64_t t, int64_t size)
{
    int64_t k = t / size;

    return (t % size < 0 ? k - 1 : k) * size;
}

#endif
