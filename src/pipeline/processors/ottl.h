/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conditions of OTTL that are used for profiles: comparisons (== != < <= > >=), and, or, not, parentheses,
 * IsMatch(path, "regex"), HasPrefix(path, "x"), HasSuffix(path, "x"), over these paths:
 *
 *   resource.attributes["key"]                    attributes["key"] (of the profile; in sample conditions of the sample)
 *   instrumentation_scope.name, .version (also scope.name)
 *   sample_type.type, sample_type.unit (also type)     period_type.type, .unit, period
 *   duration_unix_nano, time_unix_nano
 *   function (also function.name), file                any frame of the sample's stack
 *
 * A path may start with profile. or sample. Everything else of OTTL is refused, with an error message that names it and
 * its position. A comparison with an absent value is false, except for != and == nil.
 */
#ifndef PIPELINE_OTTL_H
#define PIPELINE_OTTL_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "model/batch.h"

enum ottl_scope { OTTL_RESOURCE, OTTL_PROFILE, OTTL_SAMPLE };

struct ottl;

/* What a condition is evaluated on; profile and sample are NULL above their level. */
struct ottl_subject {
    const struct batch *batch;
    const struct resource *resource;
    const struct scope *scope;
    const struct profile *profile;
    const struct sample *sample;
};

/* Compiles one condition for this level. It lives in the arena, except for its regular expressions: ottl_free(). */
int ottl_compile(struct str text, enum ottl_scope scope, struct arena *a, struct ottl **ret, struct err *e);
void ottl_free(struct ottl *o); /* frees the regular expressions; accepts NULL */
bool ottl_matches(const struct ottl *o, const struct ottl_subject *s);

#endif
