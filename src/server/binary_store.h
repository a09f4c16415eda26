/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binaries and debug files that names are read from: uploaded by a tenant, or fetched from debuginfod. Fetched files
 * are shared by all tenants (tenant BINARY_SHARED). A file that one tenant uploaded is never read for another, so that
 * no tenant can change the frame names of another.
 *
 * On disk, in one directory: files named by 32 hexadecimal digits (a hash of tenant and build id), `NAME.part` while
 * one is being received, and `index`, one line per file, rewritten as a whole:
 *
 *     name  bytes  unix-time  quality  origin  tenant  build-id            ("-" for the default tenant)
 *
 * Large files are sent in pieces: each PUT gives its offset and the size of the whole file; a piece that does not
 * continue what was received is refused with the offset that is expected. A complete file has a name of its own
 * (`NAME-N.part`) until it is accepted or dropped, so that data sent for the same build id in between does not touch
 * it. Safe from any thread; never called on an event loop.
 */
#ifndef SERVER_BINARY_STORE_H
#define SERVER_BINARY_STORE_H

#include "base/err.h"
#include "base/quota.h"
#include "base/str.h"
#include "model/symbolizer.h"
#include "server/auth.h"

enum { BINARY_ID_SIZE = 256, BINARY_NAME_SIZE = 33, BINARY_FILES_MAX = 100000, BINARY_PATH_SIZE = 4352 };
#define BINARY_SHARED "*"

enum binary_origin { BINARY_UPLOADED, BINARY_FETCHED };

struct binary_info {
    char name[BINARY_NAME_SIZE];
    char tenant[AUTH_TENANT_SIZE];
    char build_id[BINARY_ID_SIZE];
    uint64_t bytes;
    int64_t time_ns;
    enum symbol_quality quality;
    enum binary_origin origin;
};

struct binary_store;

/* quota: bytes per tenant, and for all fetched files together; max_file: bytes per file. */
int binary_store_open(const char *dir, uint64_t quota, uint64_t max_file, struct binary_store **ret, struct err *e);
void binary_store_free(struct binary_store *s);
DEFINE_CLEANUP(struct binary_store *, binary_store_free)

/* A share of a disk: what a tenant's uploads may have besides quota, and all files together. Where all have too much, the tenant
 * with the most is refused or, for the files of others, loses its oldest. Before the first call of another function. */
void binary_store_share(struct binary_store *s, const struct quota *share);

/* A piece of an upload: bytes at an offset of a file of size bytes. */
struct binary_piece {
    const char *tenant;
    struct str build_id;
    uint64_t offset, size;
    struct str bytes;
};

/* Writes a piece. Returns 1 when the file is complete (ret_path: where it is, to be
 * checked, then accepted or dropped), 0 if more is to come, -ESTALE if another offset was expected (*ret_have),
 * -EDQUOT, -EFBIG. */
int binary_store_write(struct binary_store *s, const struct binary_piece *piece, uint64_t *ret_have,
                       char ret_path[BINARY_PATH_SIZE], struct err *e);
/* Keeps a complete file. Those of BINARY_SHARED count as fetched, all others as uploaded. */
int binary_store_accept(struct binary_store *s, const char *tenant, struct str build_id, const char *path,
                        enum symbol_quality quality, struct err *e);
void binary_store_drop(struct binary_store *s, const char *path);

/* The file's path and, unless ret_info is NULL, its properties; -ENOENT. */
int binary_store_find(struct binary_store *s, const char *tenant, struct str build_id, char ret_path[BINARY_PATH_SIZE],
                      struct binary_info *ret_info);
int binary_store_delete(struct binary_store *s, const char *tenant, struct str build_id, struct err *e);
/* A copy of the list of a tenant's files and the shared ones, to be freed with mem_free(). */
int binary_store_list(struct binary_store *s, const char *tenant, struct binary_info **ret, size_t *ret_n);
uint64_t binary_store_bytes(struct binary_store *s);
uint64_t binary_store_tenant_bytes(struct binary_store *s, const char *tenant);

/* True for a valid build id: 4 to 255 bytes of letters, digits and -_/+=. */
bool binary_id_ok(struct str build_id);

#endif
