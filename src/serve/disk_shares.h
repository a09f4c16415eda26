/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the disk is shared: between tenants (limits.tenant_size), and between profiles and what else is kept for a tenant. Of the
 * limit that applies, uploaded files may have half, spans an eighth, and small files (notes, views, settings, rules) a sixteenth; the
 * rest, and what these do not use, is for profiles (store/engines/segment/write/retain_size.c).
 *
 * Safe from any thread. What is counted may not call disk_shares_beside() while it holds a lock of its own.
 */
#ifndef SERVE_DISK_SHARES_H
#define SERVE_DISK_SHARES_H

#include "base/quota.h"

struct binary_store;
struct disk_shares;
struct serve_config;
struct span_index;
struct tenant_files;

int disk_shares_new(struct disk_shares **ret);
void disk_shares_free(struct disk_shares *d);
/* Applies retention.size and the limits of tenants. c must live until the next call. */
void disk_shares_set(struct disk_shares *d, const struct serve_config *c);
/* What counts from now on; each may be NULL, as all must be before they are freed. */
void disk_shares_count(struct disk_shares *d, struct binary_store *binaries, struct tenant_files *files,
                       struct span_index *spans);

/* For store_config: the limit of a tenant, 0 = none of its own; and what is kept for it beside profiles. */
uint64_t disk_shares_limit(void *shares, const char *tenant);
uint64_t disk_shares_beside(void *shares, const char *tenant);
struct quota disk_shares_uploads(struct disk_shares *d);
struct quota disk_shares_files(struct disk_shares *d);
struct quota disk_shares_spans(struct disk_shares *d);

#endif
