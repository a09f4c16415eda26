/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files that a tenant keeps on the server: settings of Grafana's Profiles Drilldown, profiles that it uploads, notes,
 * views, recording rules.
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
#include "base/quota.h"
#include "base/str.h"

enum { TENANT_FILE_NAME_MAX = 200, TENANT_FILES_MAX = 1000 };

struct tenant_files;

/* dir: NULL for memory. quota: bytes per tenant. */
int tenant_files_open(const char *dir, uint64_t quota, struct tenant_files **ret, struct err *e);
/* What a tenant's files may have besides quota. Before the first call of another function. */
void tenant_files_share(struct tenant_files *f, const struct quota *share);
void tenant_files_free(struct tenant_files *f);

bool tenant_file_name_ok(struct str name);
/* Writes a file or replaces it. -EDQUOT if the tenant has too many bytes or TENANT_FILES_MAX files. */
int tenant_files_put(struct tenant_files *f, const char *tenant, struct str name, struct str content, struct err *e);
/* Appends the content to ret; -ENOENT. */
int tenant_files_get(struct tenant_files *f, const char *tenant, struct str name, struct buf *ret, struct err *e);
/* Sets a file aside (base/aside.h): there is none of that name afterwards, if it returns 0. */
int tenant_files_set_aside(struct tenant_files *f, const char *tenant, struct str name, const char *why);
/* For one who could not read or understand a file, for the reason r with e: sets the file aside if that is the file's fault and
 * returns 0; else, for example without memory, r. No other may write the file meanwhile. */
int tenant_files_recover(struct tenant_files *f, const char *tenant, struct str name, int r, struct err *e);
/* Calls fn with the file of this name of each tenant that has one. read: 0 or why it cannot be read, with what. fn returns the
 * name of the tenant, whose folder it must be; else the file is set aside for the reason in e. Files in memory are left out: they
 * are of this process. Never calls back while the lock is held. */
typedef const char *(*tenant_file_fn)(void *arg, int read, struct str content, struct err *e);
int tenant_files_load(struct tenant_files *f, struct str name, tenant_file_fn fn, void *arg, struct err *e);
/* Bytes of a tenant's files on the disk. */
uint64_t tenant_files_bytes(struct tenant_files *f, const char *tenant);
/* Calls fn for each name, in no order; a negative result ends it. */
int tenant_files_each(struct tenant_files *f, const char *tenant, int (*fn)(void *arg, struct str name), void *arg,
                      struct err *e);

#endif
