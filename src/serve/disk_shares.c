/* SPDX-License-Identifier: Apache-2.0 */
/* The shares of tenants in the disk, see disk_shares.h. */
#include "serve/disk_shares.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "server/binary_store.h"
#include "server/serve_config.h"
#include "server/tenant_files.h"
#include "span/span_index.h"

enum { UPLOADS = 2, SPANS = 8, FILES = 16 }; /* fractions of a limit */

struct disk_shares {
    pthread_mutex_t limits_lock; /* protects config; the last to be taken */
    const struct serve_config *config _guarded_by_(limits_lock);
    pthread_mutex_t lock; /* protects what follows */
    struct binary_store *binaries _guarded_by_(lock);
    struct tenant_files *files _guarded_by_(lock);
    struct span_index *spans _guarded_by_(lock);
};

int disk_shares_new(struct disk_shares **ret)
{
    struct disk_shares *d = mem_zalloc(sizeof *d);

    if (!d)
        return -ENOMEM;
    pthread_mutex_init(&d->limits_lock, NULL);
    pthread_mutex_init(&d->lock, NULL);
    *ret = d;
    return 0;
}

void disk_shares_free(struct disk_shares *d)
{
    if (!d)
        return;
    pthread_mutex_destroy(&d->limits_lock);
    pthread_mutex_destroy(&d->lock);
    mem_free(d);
}

void disk_shares_set(struct disk_shares *d, const struct serve_config *c)
{
    pthread_mutex_lock(&d->limits_lock);
    d->config = c;
    pthread_mutex_unlock(&d->limits_lock);
}

void disk_shares_count(struct disk_shares *d, struct binary_store *binaries, struct tenant_files *files,
                       struct span_index *spans)
{
    pthread_mutex_lock(&d->lock);
    d->binaries = binaries;
    d->files = files;
    d->spans = spans;
    pthread_mutex_unlock(&d->lock);
}

uint64_t disk_shares_limit(void *shares, const char *tenant)
{
    struct disk_shares *d = shares;
    uint64_t limit;

    pthread_mutex_lock(&d->limits_lock);
    limit = (uint64_t) MAX(serve_limits_of(&d->config->limits, tenant).size, 0);
    pthread_mutex_unlock(&d->limits_lock);
    return limit;
}

uint64_t disk_shares_beside(void *shares, const char *tenant)
{
    struct disk_shares *d = shares;
    uint64_t sum = 0;

    pthread_mutex_lock(&d->lock);
    if (d->binaries)
        sum += binary_store_tenant_bytes(d->binaries, tenant);
    if (d->files)
        sum += tenant_files_bytes(d->files, tenant);
    if (d->spans)
        sum += span_index_tenant_bytes(d->spans, tenant);
    pthread_mutex_unlock(&d->lock);
    return sum;
}

/* The limit that applies: the tenant's own, if it is lower than that of the store. */
static uint64_t applies(struct disk_shares *d, const char *tenant)
{
    uint64_t all, own = tenant ? disk_shares_limit(d, tenant) : 0;

    pthread_mutex_lock(&d->limits_lock);
    all = (uint64_t) d->config->retention.size;
    pthread_mutex_unlock(&d->limits_lock);
    return own ? MIN(own, all) : all;
}

static uint64_t uploads_of(void *d, const char *tenant)
{
    return applies(d, tenant) / UPLOADS;
}

static uint64_t spans_of(void *d, const char *tenant)
{
    return applies(d, tenant) / SPANS;
}

static uint64_t files_of(void *d, const char *tenant)
{
    return applies(d, tenant) / FILES;
}

struct quota disk_shares_uploads(struct disk_shares *d)
{
    return (struct quota){uploads_of, d};
}

struct quota disk_shares_spans(struct disk_shares *d)
{
    return (struct quota){spans_of, d};
}

struct quota disk_shares_files(struct disk_shares *d)
{
    return (struct quota){files_of, d};
}
