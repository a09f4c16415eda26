/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where names of native frames come from at query time: the files that a tenant uploaded, files from debuginfod, and
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
#include "server/binary_store.h"
#include "server/debuginfod.h"

enum name_state { NAMES_FOUND, NAMES_MISSING, NAMES_FETCHING, NAMES_FAILED };
const char *name_state_word(enum name_state s);

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

/* False if a lookup for this build id is known to be useless at present. */
bool name_source_may_know(struct name_source *s, const char *tenant, struct str build_id);
/* The same for lines: also false when the file of this build id is known to have none. */
bool name_source_may_line(struct name_source *s, const char *tenant, struct str build_id);
/* Looks up addresses that were not looked up before; *ret_addresses are those, in the order of the answer (free them
 * with mem_free, the answer with symbol_answer_free). -ENOENT if there is nothing new to know. */
int name_source_ask(struct name_source *s, const char *tenant, struct str build_id, const uint64_t *addresses,
                    uint32_t n, struct symbol_answer **ret, uint64_t **ret_addresses, struct err *e);
/* Checks that the file holds symbols of this build id. Returns its quality, or -EINVAL with an error message. */
int name_source_check(struct name_source *s, const char *path, struct str build_id, struct err *e);
/* A new file has arrived: discards what is remembered about its build id. */
void name_source_changed(struct name_source *s, const char *tenant, struct str build_id);
/* A copy of what is known about a tenant's build ids, to be freed with mem_free(). */
int name_source_list(struct name_source *s, const char *tenant, struct name_status **ret, size_t *ret_n);
struct binary_store *name_source_files(struct name_source *s);

#endif
