/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where names of native frames come from at query time: the files a tenant uploaded, what debuginfod gave, the debug files
 * of this system (/usr/lib/debug), in this order; read by the symbolizer that was injected, which is a process of its own.
 *
 * For each build id that somebody asked about it knows how that went, and does not try again at once what failed.
 * debuginfod is asked in the background: the question that came first is answered without names.
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
    char why[200];         /* of missing and failed */
};

struct name_source_options {
    struct symbolizer *symbolizer; /* taken over */
    struct binary_store *files;    /* the caller's; NULL: no uploads, no debuginfod */
    struct debuginfod_options debuginfod;
    int64_t retry_ns; /* how long a failure is remembered, 0 = 10 min */
};

struct name_source;

int name_source_new(const struct name_source_options *o, struct name_source **ret, struct err *e);
void name_source_free(struct name_source *s);
DEFINE_CLEANUP(struct name_source *, name_source_free)

/* False when asking for this build id now is known to be useless. */
bool name_source_may_know(struct name_source *s, const char *tenant, struct str build_id);
/* The same for lines: also false when the file of this build id is known to have none. */
bool name_source_may_line(struct name_source *s, const char *tenant, struct str build_id);
/* Names of addresses that were not asked for before; *ret_addresses are those, in the answer's order (mem_free both ways;
 * the answer with symbol_answer_free). -ENOENT when there is nothing (new) to know. */
int name_source_ask(struct name_source *s, const char *tenant, struct str build_id, const uint64_t *addresses,
                    uint32_t n, struct symbol_answer **ret, uint64_t **ret_addresses, struct err *e);
/* Does this file hold symbols of this build id? Its quality, or -EINVAL with words. */
int name_source_check(struct name_source *s, const char *path, struct str build_id, struct err *e);
/* A file came: what is remembered about its build id is forgotten. */
void name_source_changed(struct name_source *s, const char *tenant, struct str build_id);
/* A copy of what is known of a tenant's build ids, to be mem_free'd. */
int name_source_list(struct name_source *s, const char *tenant, struct name_status **ret, size_t *ret_n);
struct binary_store *name_source_files(struct name_source *s);

#endif
