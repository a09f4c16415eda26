/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of `wick pprof`, by the rules of Go's flag package: -x and --x are the same, the value is "=value"
 * or the next argument, the value of a boolean is given only with "=", and the first argument that is not a flag ends
 * them.
 */
#ifndef PPROF_PPROF_ARGS_H
#define PPROF_PPROF_ARGS_H

#include "pprof/pprof_commands.h"
#include "report/pprof_config.h"

enum { PPROF_BASES_MAX = 64 };

struct pprof_args {
    struct pprof_config config;
    const struct pprof_command *command; /* NULL = the shell */
    struct str argument;                 /* argument of the command, p == NULL = none */
    char **sources;                      /* the arguments after the flags; the first may be a binary */
    int n_sources;
    const char *bases[PPROF_BASES_MAX];
    size_t n_bases;
    bool diff_base, all_frames, no_browser, help;
    int64_t seconds, timeout;
    struct str symbolize, build_id, comment, tools, http, tls_cert, tls_key, tls_ca;
    struct arena arena;
};

/* -EINVAL with an error message; *ret_usage says whether the help should follow it. */
int pprof_args_parse(struct pprof_args *a, int argc, char **argv, bool *ret_usage, struct err *e);
void pprof_args_done(struct pprof_args *a);

#endif
