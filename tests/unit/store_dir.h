/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for tests that run a segment store in its own directory. */
#ifndef TESTS_STORE_DIR_H
#define TESTS_STORE_DIR_H

#include <fcntl.h>
#include <ftw.h>
#include <unistd.h>

#include "base/fd.h"
#include "store_conformance.c"

#define DAYS(n) ((n) *86400 * NS_PER_S)

static char dir[128];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void) st;
    (void) type;
    (void) ftw;
    return remove(path);
}

static void begin(struct suite *s)
{
    struct err e = {0};

    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    suite_clock = GEN_T0;
    s->config.dir = dir;
    s->config.manual = true;
    s->config.now = suite_now;
    if (!s->config.min_free)
        s->config.min_free = -1;
    if (store_open(&store_segment, &s->config, &s->store, &e) < 0)
        tap_fail("open: %s", e.message);
}

_unused_ static void reopen(struct suite *s)
{
    struct err e = {0};

    store_close(s->store);
    s->store = NULL;
    if (store_open(&store_segment, &s->config, &s->store, &e) < 0)
        tap_fail("open: %s", e.message);
}

static void end(struct suite *s)
{
    store_close(s->store);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    suite_clock = GEN_T0;
}

static void flush(struct suite *s)
{
    struct err e = {0};

    if (s->store->ops->flush(s->store, &e) < 0)
        tap_fail("flush: %s", e.message);
}

_unused_ static void retain(struct suite *s)
{
    struct err e = {0};

    if (s->store->ops->retain(s->store, true, &e) < 0)
        tap_fail("retain: %s", e.message);
}

_unused_ static bool there(const char *name)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

#define EARLY (GEN_T0 - 3600 * NS_PER_S)

static int count_profile(void *ctx, const struct store_profile *p)
{
    (void) p;
    ++*(int *) ctx;
    return 0;
}

_unused_ static int profiles(struct suite *s)
{
    struct asked k;
    struct err e = {0};
    int n = 0;

    ask(&k, "cpu", ALL);
    ok(s->store->ops->profiles(s->store, &k.q, count_profile, &n, &e) >= 0);
    ask_done(&k);
    return n;
}

#endif
