/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick pprof: a drop-in replacement for `go tool pprof`. Its command line, messages and exit status (2 for every
 * failure) are pprof's; docs/pprof-compat.md lists the differences.
 */
#include <stdio.h>

#include "base/fd.h"
#include "cli/command.h"
#include "conf/args.h"
#include "pprof/pprof_args.h"
#include "pprof/pprof_http.h"
#include "pprof/pprof_output.h"
#include "pprof/pprof_shell.h"
#include "pprof/pprof_source.h"

static int fail(const struct err *e, int code)
{
    fprintf(stderr, "pprof: %s\n", err_message(e, code));
    return EXIT_USAGE;
}

static void print_help(FILE *out)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;

    pprof_help(&text);
    if (buf_cstr(&text))
        args_text(text.p, out);
}

static int run_report(struct pprof_args *a, struct err *e)
{
    struct prof_pool pool;
    struct prof *p = NULL;
    int r = prof_pool_init(&pool);

    pprof_output_tools(a->tools);
    if (r >= 0)
        r = pprof_load(a, &pool, &p, e);
    if (r >= 0 && a->http.n)
        r = pprof_http(p, a, e);
    else if (r >= 0 && a->command)
        r = pprof_report(p, a->command, a->argument, &a->config, false, e);
    else if (r >= 0)
        r = pprof_shell(p, &a->config, e);
    prof_free(p);
    prof_pool_done(&pool);
    pprof_output_done();
    return r;
}

static int run_pprof(int argc, char **argv)
{
    struct pprof_args a;
    struct err e = {0};
    bool usage = false;
    int r = pprof_args_parse(&a, argc, argv, &usage, &e);

    if (r >= 0 && a.help) {
        print_help(stderr);
        r = EXIT_DONE;
    } else if (r < 0) {
        if (usage && a.n_sources == 0 && !a.sources) /* the flags were wrong: print the error message before the help */
            fprintf(stderr, "%s\n", err_message(&e, r));
        if (usage)
            print_help(stderr);
        if (a.sources)
            fail(&e, r);
        r = EXIT_USAGE;
    } else {
        r = run_report(&a, &e);
        r = r < 0 ? fail(&e, r) : EXIT_DONE;
    }
    pprof_args_done(&a);
    return r;
}

const struct command command_pprof = {"pprof", "read profiles like `go tool pprof`, also OTLP files", run_pprof};
