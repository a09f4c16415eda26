/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where names of native frames come from at query time (the contract is query/names.h): the files that a tenant uploaded, files from debuginfod, and
 * the debug files of this system (/usr/lib/debug), in this order. The given symbolizer, a separate process, reads them.
 *
 * For each build id that was looked up, the result is remembered, and a failed lookup is not repeated at once.
 * debuginfod is asked in the background: the first query is answered without names.
 */
#ifndef SERVER_NAME_SOURCE_H
#define SERVER_NAME_SOURCE_H

#include "base/err.h"
#include "base/str.h"
#include "model/symbolizer.h"
#include "query/names.h"
#include "server/binary_store.h"
#include "server/debuginfod.h"

/* NAMES_DELAYED: reading the file failed for a reason that may pass; it is tried again soon. */
enum name_state { NAMES_FOUND, NAMES_MISSING, NAMES_FETCHING, NAMES_FAILED, NAMES_DELAYED };
extern const char *const name_state_words[]; /* by enum name_state, NULL-terminated */

struct name_status {
    char tenant[AUTH_TENANT_SIZE];
    char build_id[BINARY_ID_SIZE];
    enum name_state state;
    enum symbol_quality quality;
    uint64_t asked, named; /* addresses */
    char why[200];         /* for missing and failed */
};

struct name_source_options {
    struct symbolizer *symbolizer; /* ownership is taken */
    struct binary_store *files;    /* owned by the caller; NULL: no uploads, no debuginfod */
    struct debuginfod_options debuginfod;
    int64_t retry_ns; /* how long a failure is remembered, 0 = 10 min */
};

struct name_source;

int name_source_new(const struct name_source_options *o, struct name_source **ret, struct err *e);
void name_source_free(struct name_source *s);
DEFINE_CLEANUP(struct name_source *, name_source_free)

/* The same as a source for queries; s may be NULL. */
struct names *name_source_names(struct name_source *s);
/* Checks that the file holds symbols of this build id. Returns its quality, or -EINVAL with an error message. */
int name_source_check(struct name_source *s, const char *path, struct str build_id, struct err *e);
/* Names and lines of addresses of a file, or of the file of this build ID if path is "". Nothing is remembered. */
int name_source_resolve(struct name_source *s, const char *path, const struct names_request *q,
                        struct symbol_answer **ret, struct err *e);
/* A new file has arrived: discards what is remembered about its build id. */
void name_source_changed(struct name_source *s, const char *tenant, struct str build_id);
/* A copy of what is known about a tenant's build ids, to be freed with mem_free(). */
int name_source_list(struct name_source *s, const char *tenant, struct name_status **ret, size_t *ret_n);
struct binary_store *name_source_files(struct name_source *s);

#endif
