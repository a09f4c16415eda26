/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files that a tenant keeps on the server: settings of Grafana's Profiles Drilldown and profiles that it uploads.
 * On disk, in one directory: a folder for each tenant, named by 32 hexadecimal digits of a hash of its name, with the files
 * by their names. Without a directory (a store in memory) the files are kept in memory. A file is replaced as a whole.
 * Names have 1 to 200 characters of A-Z a-z 0-9 . _ - and do not begin with a dot.
 *
 * Safe from any thread; never called on an event loop.
 */
#ifndef SERVER_TENANT_FILES_H
#define SERVER_TENANT_FILES_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum { TENANT_FILE_NAME_MAX = 200, TENANT_FILES_MAX = 1000 };

struct tenant_files;

/* dir: NULL for memory. quota: bytes per tenant. */
int tenant_files_open(const char *dir, uint64_t quota, struct tenant_files **ret, struct err *e);
void tenant_files_free(struct tenant_files *f);

bool tenant_file_name_ok(struct str name);
/* Writes a file or replaces it. -EDQUOT if the tenant has too many bytes or TENANT_FILES_MAX files. */
int tenant_files_put(struct tenant_files *f, const char *tenant, struct str name, struct str content, struct err *e);
/* Appends the content to ret; -ENOENT. */
int tenant_files_get(struct tenant_files *f, const char *tenant, struct str name, struct buf *ret, struct err *e);
/* Calls fn for each name, in no order; a negative result ends it. */
int tenant_files_each(struct tenant_files *f, const char *tenant, int (*fn)(void *arg, struct str name), void *arg,
                      struct err *e);

#endif
