/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile that `wick pprof -http` serves, in two forms:
 *   - as pprof's reports work on it (report/prof.h): a copy per report, filtered by the parameters of the URL;
 *   - as a store in memory, so that the web UI's queries (query/answer.h) are answered by the same code as in wick
 *     serve. There is one store per recently used set of filters. A profile with a base (-diff_base, -base) is two
 *     profiles there, distinguished by the label `file`: "profile" and "base".
 *
 * Profiles are not thread-safe: pprof_files_lock() is held while one is in use. Stores are thread-safe.
 */
#ifndef PPROF_PPROF_HTTP_FILES_H
#define PPROF_PPROF_HTTP_FILES_H

#include "pprof/pprof_args.h"
#include "report/prof.h"
#include "report/prof_filter.h"

struct pprof_files;
struct store;

enum { PPROF_STORES_MAX = 8 };

/* prof and args belong to the caller and must outlive it. */
int pprof_files_new(struct prof *prof, const struct pprof_args *a, struct pprof_files **ret, struct err *e);
void pprof_files_free(struct pprof_files *f);
DEFINE_CLEANUP(struct pprof_files *, pprof_files_free)

const struct prof *pprof_files_prof(const struct pprof_files *f);
const struct pprof_args *pprof_files_args(const struct pprof_files *f);
void pprof_files_lock(struct pprof_files *f);
void pprof_files_unlock(struct pprof_files *f);

/* The options of the command line, overridden by those of a URL's query, by pprof's names. Values live in the arena.
 * -EINVAL with pprof's error message. */
int pprof_files_config(const struct pprof_files *f, struct str query, struct arena *a, struct pprof_config *ret,
                       struct err *e);
/* The store of the profile after the filters of a URL's query; release it when it is no longer used. */
int pprof_files_store(struct pprof_files *f, struct str query, struct store **ret, struct err *e);
void pprof_files_store_done(struct pprof_files *f, struct store *s);

/* The web UI's first query ("cpu", or "cpu{file=\"profile\"}"), the query to compare it with (NULL: none), and a time
 * range that contains everything. */
const char *pprof_files_query(const struct pprof_files *f);
const char *pprof_files_base_query(const struct pprof_files *f);
void pprof_files_range(const struct pprof_files *f, int64_t *ret_from, int64_t *ret_to);

#endif
