/* SPDX-License-Identifier: Apache-2.0 */
/* wick mcp: the Model Context Protocol on stdin and stdout, one JSON message per line, for a server or a store. */
#include <errno.h>
#include <stdio.h>

#include "base/fd.h"
#include "client/ask.h"
#include "cli/command.h"
#include "conf/args.h"
#include "server/mcp.h"

enum { LINE_MAX_BYTES = 16 << 20 };

struct mcp_options {
    struct ask_target target;
    bool help;
};

static const struct arg mcp_args[] = {
    {0, "server", ARG_STRING, offsetof(struct mcp_options, target.server), "URL",
     "server to query (default: $WICK_SERVER, else http://localhost:4040)"},
    {0, "token", ARG_STRING, offsetof(struct mcp_options, target.token), "TOKEN",
     "token for the server (default: $WICK_TOKEN)"},
    {0, "store", ARG_STRING, offsetof(struct mcp_options, target.store), "DIR",
     "read this store directly, without a server"},
    {0, "tenant", ARG_STRING, offsetof(struct mcp_options, target.tenant), "NAME", "with --store: the tenant to read"},
    {'h', "help", ARG_FLAG, offsetof(struct mcp_options, help), NULL, "show this help"},
    {0},
};

static int ask(void *ctx, const struct question *what, struct str (*param)(void *, const char *), void *pctx,
               struct buf *out, struct err *e)
{
    return ask_question(ctx, what, param, pctx, out, e);
}

static int list_alerts(void *ctx, struct buf *out, struct err *e)
{
    return ask_server(ctx, "/api/v1/alerts", out, e);
}

/* Answers every complete line in b and keeps the rest. */
static int answer_lines(const struct mcp *m, struct buf *b)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct str rest = buf_str(b);
    size_t done = 0;

    for (ptrdiff_t end; (end = str_find_char(rest, '\n')) >= 0; rest = str_slice(rest, (size_t) end + 1, rest.n)) {
        struct str line = str_trim(str_slice(rest, 0, (size_t) end));
        size_t before = out.n;

        done += (size_t) end + 1;
        if (line.n)
            mcp_handle(m, line, &out);
        if (out.n > before)
            buf_putc(&out, '\n');
    }
    memmove(b->p, b->p + done, b->n - done);
    b->n -= done;
    return buf_error(&out) ? buf_error(&out) : fd_write_all(STDOUT_FILENO, out.p ? out.p : "", out.n);
}

static int converse(const struct mcp *m)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    buf_init(&b, LINE_MAX_BYTES);
    for (;;) {
        char *p = buf_reserve(&b, 65536);
        ssize_t n;
        int r;

        if (!p)
            return buf_error(&b);
        n = fd_read(STDIN_FILENO, p, 65536);
        if (n <= 0)
            return (int) n;
        b.n += (size_t) n;
        r = answer_lines(m, &b);
        if (r < 0)
            return r;
    }
}

static int mcp_run(int argc, char **argv)
{
    struct mcp_options o = {0};
    struct mcp m = {ask, &o.target};
    struct err e = {0};
    int n, r = args_parse(mcp_args, &o, argc - 1, argv + 1, &n, &e);

    if (o.help) {
        args_text("usage: wick mcp [--server URL | --store DIR]\n\n"
                  "Lets a coding agent query a wick server over the Model Context Protocol on standard input and output.\n\n",
                  stdout);
        args_help(mcp_args, stdout);
        return EXIT_DONE;
    }
    if (r == 0 && n)
        r = err_set(&e, -EINVAL, "unexpected argument '%s'", argv[1]);
    if (r < 0)
        return command_misused("mcp", "%s", e.message);
    m.alerts = o.target.store ? NULL : list_alerts; /* a store alone has no rules */
    return command_end("mcp", converse(&m), &e);
}

const struct command command_mcp = {"mcp", "let a coding agent query profiles over the Model Context Protocol",
                                    mcp_run};
