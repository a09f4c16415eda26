/* SPDX-License-Identifier: Apache-2.0 */
/* Finds profiles of a scope that were one pprof with several sample types: see otlp.h, "Groups". */
#ifndef CODEC_OTLP_GROUP_H
#define CODEC_OTLP_GROUP_H

#include "model/batch.h"
#include "model/semconv.h"

/* Sets `group` and, from the scope's attribute, `default_type` of every profile. */
void otlp_group_profiles(struct batch *b);
/* For encoders: the default type that must be added to s as an attribute, or empty if none is needed. */
struct str otlp_default_type(const struct batch *b, const struct scope *s);
/* For encoders: the id of the Profile that carries type t of p. The first has p's own. */
void otlp_profile_id(const struct profile *p, uint32_t t, uint8_t ret[16]);

#endif
