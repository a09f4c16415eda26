/* SPDX-License-Identifier: Apache-2.0 */
/* wick pgo SERVICE: writes a CPU profile of a service in production, for `go build -pgo`. */
#include <errno.h>
#include <stdio.h>

#include "base/fd.h"
#include "client/ask.h"
#include "cli/command.h"
#include "conf/args.h"
#include "net/http.h"

struct pgo_options {
    struct ask_target target;
    const char *from, *to, *output;
    bool help;
};

static const struct arg pgo_args[] = {
    {'o', "output", ARG_STRING, offsetof(struct pgo_options, output), "FILE", "output file (default: default.pgo)"},
    {0, "from", ARG_TIME, offsetof(struct pgo_options, from), "TIME", "start of the time range (default: now-24h)"},
    {0, "to", ARG_TIME, offsetof(struct pgo_options, to), "TIME", "end of the time range (default: now)"},
    {0, "server", ARG_STRING, offsetof(struct pgo_options, target.server), "URL",
     "server to query (default: $WICK_SERVER, else http://localhost:4040)"},
    {0, "token", ARG_STRING, offsetof(struct pgo_options, target.token), "TOKEN",
     "token for the server (default: $WICK_TOKEN)"},
    {'h', "help", ARG_FLAG, offsetof(struct pgo_options, help), NULL, "show this help"},
    {0},
};

static int fetch(const struct pgo_options *o, const char *service, struct buf *out, struct err *e)
{
    _cleanup_(buf_done) struct buf path = BUF_INIT, selector = BUF_INIT;

    buf_puts(&selector, "cpu{service.name=\"");
    for (const char *c = service; *c; c++)
        buf_printf(&selector, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
    buf_puts(&selector, "\"}");
    buf_puts(&path, "/api/v1/profile?format=pprof&query=");
    http_percent_encode(&path, buf_str(&selector));
    buf_puts(&path, "&from=");
    http_percent_encode(&path, str_from(o->from ? o->from : "now-24h"));
    buf_puts(&path, "&to=");
    http_percent_encode(&path, str_from(o->to ? o->to : "now"));
    return buf_cstr(&path) ? ask_server(&o->target, path.p, out, e) : -ENOMEM;
}

static int pgo_run(int argc, char **argv)
{
    _cleanup_(buf_done) struct buf profile = BUF_INIT;
    struct pgo_options o = {.output = "default.pgo"};
    struct err e = {0};
    int n, r = args_parse(pgo_args, &o, argc - 1, argv + 1, &n, &e);

    if (o.help) {
        args_text("usage: wick pgo SERVICE [-o default.pgo] [--from now-24h]\n\n"
                  "Writes a CPU profile of SERVICE for profile-guided optimization with `go build -pgo=default.pgo`.\n\n",
                  stdout);
        args_help(pgo_args, stdout);
        return EXIT_DONE;
    }
    if (r < 0 || n != 1)
        return command_misused("pgo", "%s", r < 0 ? e.message : "SERVICE is required");
    r = fetch(&o, argv[1], &profile, &e);
    if (r == 0)
        r = fd_write_file(o.output, profile.p, profile.n, &e);
    if (r == 0 && strcmp(o.output, "-") != 0)
        fprintf(stderr, "wick: wrote %s; build with: go build -pgo=%s\n", o.output, o.output);
    return command_end("pgo", r, &e);
}

const struct command command_pgo = {"pgo", "write a profile of a service for go build -pgo", pgo_run};
