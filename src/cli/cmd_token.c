/* SPDX-License-Identifier: Apache-2.0 */
/* wick token create|list|revoke: manages access to a server. It works on the token file; a running server notices the
 * change. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/record.h"
#include "cli/command.h"
#include "client/record_text.h"
#include "conf/args.h"
#include "conf/paths.h"
#include "serve/serve_load.h"
#include "server/auth.h"

struct token_options {
    const char *file, *scope, *tenant, *note;
    struct arg_list config;
    bool json, help;
};

static const struct arg token_args[] = {
    {0, "scope", ARG_STRING, offsetof(struct token_options, scope), "read|write|admin",
     "read (default): query; write: send; admin: everything"},
    {0, "tenant", ARG_STRING, offsetof(struct token_options, tenant), "NAME",
     "tenant it gives access to (default: the default tenant)"},
    {0, "note", ARG_STRING, offsetof(struct token_options, note), "TEXT", "description, shown by list"},
    {0, "file", ARG_STRING, offsetof(struct token_options, file), "FILE",
     "the token file (default: tokens in the data directory)"},
    {'c', "config", ARG_LIST, offsetof(struct token_options, config), "FILE",
     "the server's configuration file, which names the token file (auth.tokens); repeatable, as for wick serve"},
    {0, "json", ARG_FLAG, offsetof(struct token_options, json), NULL, "print JSON"},
    {'h', "help", ARG_FLAG, offsetof(struct token_options, help), NULL, "show this help"},
    {0},
};

static void token_help(void)
{
    args_text(
        "usage: wick token create [--scope SCOPE] [--tenant NAME] [--note TEXT]\n"
        "       wick token list\n"
        "       wick token revoke ID\n\n"
        "Tokens authenticate senders and readers of wick serve. Only a hash is stored: a token is shown once, on creation.\n\n",
        stdout);
    args_help(token_args, stdout);
}

/* Opens the file that a server with this configuration uses; 1: the configuration names none. */
static int open_configured(const struct token_options *o, struct auth **ret, struct err *e)
{
    struct serve_args args = {.config = o->config};
    struct serve_load l = {0};
    int r = serve_load(&args, &l, e);

    if (r == 0)
        r = l.config.auth.tokens ? auth_open(l.config.auth.tokens, ret, e) : 1;
    serve_load_done(&l);
    return r;
}

static int open_tokens(const struct token_options *o, struct auth **ret, struct err *e)
{
    char dir[PATH_SIZE], path[PATH_SIZE + 8];
    int r = 1;

    if (o->file && o->config.n)
        return err_set(e, -EINVAL, "--file and --config exclude each other");
    if (o->file)
        return auth_open(o->file, ret, e);
    if (o->config.n)
        r = open_configured(o, ret, e);
    if (r <= 0)
        return r;
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

/* A token as it is shown. */
struct shown_token {
    struct auth_token t;
    const char *scope;
};

static const struct record_field token_fields[] = {
    {"id", RECORD_CHARS, offsetof(struct shown_token, t.id), .column = 1},
    {"scope", RECORD_TEXT, offsetof(struct shown_token, scope), .column = 2},
    {"tenant", RECORD_CHARS, offsetof(struct shown_token, t.tenant), .column = 3},
    {"created", RECORD_TIME, offsetof(struct shown_token, t.created_ns), .column = 4},
    {"note", RECORD_CHARS, offsetof(struct shown_token, t.note), .column = 5},
    {0},
};

static int token_list(const void *options, int argc, char **argv, struct err *e)
{
    _cleanup_(auth_freep) struct auth *a = NULL;
    _cleanup_(mem_freep) struct auth_token *tokens = NULL;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    _cleanup_(mem_freep) struct shown_token *shown = NULL;
    const struct token_options *o = options;
    struct record_list list;
    size_t n;
    int r = open_tokens(o, &a, e);

    if (r < 0)
        return r;
    r = auth_list(a, &tokens, &n);
    if (r < 0)
        return err_set(e, r, "cannot list tokens: %m");
    shown = mem_zalloc_array(n + 1, sizeof *shown);
    if (!shown)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        shown[i] = (struct shown_token){tokens[i], auth_scope_name(tokens[i].scope)};
    list = (struct record_list){shown, (uint32_t) n};
    if (o->json)
        record_put_list(&out, token_fields, sizeof *shown, &list);
    else
        r = record_text(&out, 0, token_fields, sizeof *shown, &list, NULL);
    if (r < 0)
        return r;
    buf_puts(&out, o->json ? "\n" : "");
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
    struct err e = {0};
    int n, r = args_parse(token_args, &o, argc - 1, argv + 1, &n, &e);

    if (r < 0)
        return command_misused("token", "%s", e.message);
    if (o.help) {
        token_help();
        return EXIT_DONE;
    }
    return command_verb("token", verbs, &o, n, argv + 1);
}

const struct command command_token = {"token", "create, list and revoke the tokens of a server", token_run};
