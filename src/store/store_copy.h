/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `wick store copy`: copies one tenant's profiles from a store to another, of any engines, hour by hour. After each hour its end is
 * recorded in a file, so that a copy that was interrupted goes on where it stopped: the hour that was being copied is
 * copied again, and the target recognises the profiles that it has.
 */
#ifndef STORE_STORE_COPY_H
#define STORE_STORE_COPY_H

#include "base/err.h"
#include "base/macros.h"

struct store;

struct store_copy {
    struct store *from, *to;
    const char *tenant;
    int64_t begin, end;             /* [begin, end) */
    const char *state;              /* file */
    void (*report)(const char *line); /* called for progress and for what goes wrong on the way */
};

int store_copy_run(const struct store_copy *c, struct err *e);

#endif
