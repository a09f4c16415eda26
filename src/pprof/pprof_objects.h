/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binaries of a profile for `wick pprof`: where their addresses are mapped, their lines, symbols and instructions.
 * It implements report/objects.h, and the symbolization step uses it.
 */
#ifndef PPROF_PPROF_OBJECTS_H
#define PPROF_PPROF_OBJECTS_H

#include "model/symbolizer.h"
#include "report/objects.h"

struct pprof_objects;

/* tools: the value of -tools. */
int pprof_objects_new(struct str tools, struct pprof_objects **ret, struct err *e);
void pprof_objects_free(struct pprof_objects *o);
DEFINE_CLEANUP(struct pprof_objects *, pprof_objects_free)

/* The table of functions, for the reports. */
struct report_objects *pprof_objects_table(struct pprof_objects *o);

/* Build id of an open binary, "" if it has none. */
const char *pprof_object_build_id(struct report_object *x);
/* The frames of n addresses of the profile, innermost first. -ERANGE or another error with a message if the addresses
 * cannot belong to the binary. The caller owns the answer. */
int pprof_object_resolve(struct report_object *x, const uint64_t *addresses, uint32_t n, struct symbol_answer **ret,
                         struct err *e);
/* The name only, from nm: empty if it has none. */
int pprof_object_name(struct report_object *x, uint64_t address, struct str *ret);

#endif
