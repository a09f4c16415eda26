/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A selector split into matchers on labels of the allow-list, which decide about a series (a missing label is empty), and
 * matchers on anything else: those decide about a series that has such a label, and about each sample of the others. See
 * store.h.
 */
#ifndef STORE_MATCH_H
#define STORE_MATCH_H

#include "model/labels.h"
#include "model/types.h"
#include "store/store.h"

enum { MATCH_DETAIL_MAX = 64 };

struct match {
    const struct selector *selector;
    struct type type; /* canonical; empty name = any */
    bool any_type;
    const struct matcher *detail[MATCH_DETAIL_MAX];
    uint32_t n_detail;
    uint64_t series_mask;               /* bit per matcher on a label of the allow-list */
    const struct store_span_set *spans; /* set by match_column(); NULL: samples of any span */
    const struct store_column *column;  /* set by match_column(): when samples must have been taken */
};

/* Whether the allow-list has this name in any spelling. allow: NULL-terminated. */
bool match_is_label(const char *const *allow, struct str name);
/* need_type: returns -EINVAL with an error message when the selector has no type. */
int match_init(struct match *m, const struct selector *s, const char *const *allow, bool need_type, struct err *e);
/* The same for a column of a query, with its set of spans. */
int match_column(struct match *m, const struct store_column *c, const char *const *allow, bool need_type,
                 struct err *e);
/* Whether a series may have selected samples. */
bool match_series(const struct match *m, struct str type, const struct labels *l);
/* Whether match_series() has decided for all samples of a series: it has a label for every matcher on detail. */
bool match_decides(const struct match *m, const struct labels *l);

/* Identifies a profile for as long as it is stored, the same in every engine. */
struct id128 match_profile_handle(struct id128 labels_id, struct id128 instance, struct str type, int64_t time_ns,
                                  int64_t duration_ns, int64_t value);

#endif
