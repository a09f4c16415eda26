/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions with RE2's syntax and linear time, as in Go and pprof. Safe on untrusted input. */
#ifndef BASE_REGEX_H
#define BASE_REGEX_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct regex;

/* The error message names the expression and the problem. */
int regex_new(struct str pattern, struct regex **ret, struct err *e);
/* The same, with error messages as in Go's regexp package: "error parsing regexp: missing closing ): `(`". */
int regex_new_go(struct str pattern, struct regex **ret, struct err *e);
void regex_free(struct regex *r);
bool regex_search(const struct regex *r, struct str text); /* matches anywhere */
bool regex_full(const struct regex *r, struct str text);   /* matches the whole text */
/* First match at or after `from`: [*start, *end) and up to n_groups capture groups (p == NULL where unset). */
bool regex_find(const struct regex *r, struct str text, size_t from, size_t *start, size_t *end, struct str *groups,
                int n_groups);
int regex_group_count(const struct regex *r);
/* Name of capture group i (1-based) or an empty string. */
const char *regex_group_name(const struct regex *r, int i);

#endif
