/* SPDX-License-Identifier: Apache-2.0 */
/* wick token create|list|revoke: manages access to a server. It works on the token file; a running server notices the
 * change. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/command.h"
#include "conf/paths.h"
#include "conf/args.h"
#include "server/auth.h"

struct token_options {
    const char *file, *scope, *tenant, *note;
    bool json, help;
};

static const struct arg token_args[] = {
    {0, "scope", ARG_STRING, offsetof(struct token_options, scope), "SCOPE",
     "read (query), write (send) or admin (everything); default: read"},
    {0, "tenant", ARG_STRING, offsetof(struct token_options, tenant), "NAME",
     "tenant it gives access to (default: the default tenant)"},
    {0, "note", ARG_STRING, offsetof(struct token_options, note), "TEXT", "description, shown by list"},
    {0, "file", ARG_STRING, offsetof(struct token_options, file), "FILE",
     "the token file (default: tokens in the data directory)"},
    {0, "json", ARG_FLAG, offsetof(struct token_options, json), NULL, "print JSON"},
    {'h', "help", ARG_FLAG, offsetof(struct token_options, help), NULL, "show this help"},
    {0},
};

static void token_help(void)
{
    fputs(
        "usage: wick token create [--scope SCOPE] [--tenant NAME] [--note TEXT]\n"
        "       wick token list\n"
        "       wick token revoke ID\n\n"
        "Tokens authenticate senders and readers of wick serve. Only a hash is stored: a token is shown once, on creation.\n\n",
        stdout);
    args_help(token_args, stdout);
}

static int open_tokens(const struct token_options *o, struct auth **ret, struct err *e)
{
    char dir[PATH_SIZE], path[PATH_SIZE + 8];
    int r;

    if (o->file)
        return auth_open(o->file, ret, e);
    r = path_data_dir(dir, e);
    if (r < 0)
        return r;
    r = fd_mkdir_all(dir, 0700);
    if (r < 0)
        return err_set(e, r, "cannot create '%s': %m", dir);
    snprintf(path, sizeof path, "%s/tokens", dir);
    return auth_open(path, ret, e);
}

static int token_create(const void *options, int argc, char **argv, struct err *e)
{
    _cleanup_(auth_freep) struct auth *a = NULL;
    const struct token_options *o = options;
    enum auth_scope scope = AUTH_READ;
    struct auth_token t;
    char text[AUTH_TEXT_SIZE];
    int r;

    if (o->scope)
        auth_scope_parse(str_from(o->scope), &scope);
    r = open_tokens(o, &a, e);
    if (r == 0)
        r = auth_create(a, &(struct auth_request){scope, str_from(o->tenant), str_from(o->note)}, text, &t, e);
    if (r < 0)
        return r;
    if (o->json)
        printf("{\"id\":\"%s\",\"token\":\"%s\",\"scope\":\"%s\"}\n", t.id, text, auth_scope_name(t.scope));
    else
        printf("%s\n", text);
    fprintf(stderr, "wick: created token %s (%s); it will not be shown again\n", t.id, auth_scope_name(t.scope));
    return 0;
}

static void print_json(struct buf *out, const struct auth_token *t, bool *first)
{
    json_sep(out, first);
    buf_printf(out, "{\"id\":\"%s\",\"scope\":\"%s\",\"tenant\":", t->id, auth_scope_name(t->scope));
    json_put_str(out, str_from(t->tenant));
    buf_puts(out, ",\"created\":\"");
    clock_format(out, t->created_ns);
    buf_puts(out, "\",\"note\":");
    json_put_str(out, str_from(t->note));
    buf_putc(out, '}');
}

static void print_row(struct buf *out, const struct auth_token *t)
{
    buf_printf(out, "%-10s %-6s %-16s ", t->id, auth_scope_name(t->scope), t->tenant[0] ? t->tenant : "-");
    clock_format(out, t->created_ns);
    buf_printf(out, "  %s\n", t->note);
}

static int token_list(const void *options, int argc, char **argv, struct err *e)
{
    _cleanup_(auth_freep) struct auth *a = NULL;
    _cleanup_(mem_freep) struct auth_token *tokens = NULL;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    const struct token_options *o = options;
    bool first = true;
    size_t n;
    int r = open_tokens(o, &a, e);

    if (r < 0)
        return r;
    r = auth_list(a, &tokens, &n);
    if (r < 0)
        return err_set(e, r, "cannot list tokens: %m");
    if (o->json)
        buf_putc(&out, '[');
    else
        buf_printf(&out, "%-10s %-6s %-16s %-20s  %s\n", "ID", "SCOPE", "TENANT", "CREATED", "NOTE");
    for (size_t i = 0; i < n; i++) {
        if (o->json)
            print_json(&out, &tokens[i], &first);
        else
            print_row(&out, &tokens[i]);
    }
    if (o->json)
        buf_puts(&out, "]\n");
    return fd_write_file("-", out.p, out.n, e);
}

static int token_revoke(const void *options, int argc, char **argv, struct err *e)
{
    _cleanup_(auth_freep) struct auth *a = NULL;
    int r = open_tokens(options, &a, e);

    return r < 0 ? r : auth_revoke(a, str_from(argv[0]), e);
}

static int token_run(int argc, char **argv)
{
    static const struct command_verb verbs[] = {
        {"create", "no arguments", 0, 0, token_create},
        {"list", "no arguments", 0, 0, token_list},
        {"revoke", "the id of a token, which 'wick token list' shows", 1, 1, token_revoke},
        {0},
    };
    struct token_options o = {0};
    enum auth_scope scope;
    struct err e = {0};
    int n, r = args_parse(token_args, &o, argc - 1, argv + 1, &n, &e);

    if (r < 0)
        return command_misused("token", "%s", e.message);
    if (o.help) {
        token_help();
        return EXIT_DONE;
    }
    if (o.scope && auth_scope_parse(str_from(o.scope), &scope) < 0)
        return command_misused("token", "--scope: '%s' is not read, write or admin", o.scope);
    return command_verb("token", verbs, &o, n, argv + 1);
}

const struct command command_token = {"token", "create, list and revoke the tokens of a server", token_run};
