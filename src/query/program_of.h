/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which program a version of a service is a version of. Where no version was configured, a build ID takes its place, and a service
 * without a configured name has that of its program: two programs of one name (a script in Ruby and one in PHP, a binary and the
 * wrapper that starts it) then look like two versions. They are not compared, and neither is the build ID of an interpreter, which
 * says nothing about the program that it runs.
 */
#ifndef QUERY_PROGRAM_OF_H
#define QUERY_PROGRAM_OF_H

#include "query/query.h"

struct program {
    struct str path;         /* of the executable with most of the value; empty: the senders do not say */
    bool is_interpreters_id; /* the executable is an interpreter, and the version is its build ID */
};

/* A version that was not chosen by a person: the build ID of GNU's or Go's linker, or a revision. */
bool program_is_build_id(struct str version);
/* p selects one version of a service and a range. The path is copied into the arena. */
int program_read(struct store *s, const struct query_params *p, struct str version, struct arena *a,
                 struct program *ret, struct err *e);
/* The processes that p selects, which is a version of a service: how many senders name, and for how long, to the step, the one that
 * ran longest was seen. 0 of both: the senders do not say. */
struct program_processes {
    uint32_t n;
    int64_t longest;
};
int program_processes_read(struct store *s, const struct query_params *p, int64_t step, struct program_processes *ret,
                           struct err *e);
/* The same executable, possibly installed by another release: the names are equal apart from a version at their end, and so are
 * the folders, apart from those with digits in their names. Unknown ones are the same as any. */
bool program_is_same(const struct program *a, const struct program *b);

#endif
