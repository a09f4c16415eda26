/* SPDX-License-Identifier: Apache-2.0 */
/* Drops privileges, and finds the paths by which the server can reach its files afterwards (serve_rights.h). See
 * serve_state.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "serve/serve_state.h"

/* Replaces a path by one that this process can use after it has dropped its privileges. */
static int reach(struct serve *s, const char **path)
{
    char *to = arena_alloc(&s->paths, SERVE_PATH_SIZE + 64);

    if (!*path)
        return 0;
    if (!to)
        return -ENOMEM;
    serve_rights_path(&s->rights, *path, to, SERVE_PATH_SIZE + 64);
    *path = to;
    return 0;
}

int serve_reach_sources(struct serve *s, struct serve_config *c)
{
    struct serve_source *sources = c->source.v;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < c->source.n; i++) {
        sources[i].reached = sources[i].dir;
        r = reach(s, &sources[i].reached);
    }
    return r;
}

static void add_dir(struct serve *s, const char *path, enum serve_dir_kind kind, const char *file)
{
    if (s->rights.n_dirs < SERVE_DIRS_MAX)
        s->rights.dirs[s->rights.n_dirs++] = (struct serve_dir){.path = path, .kind = kind, .file = file, .fd = -1};
}

/* Adds the directory that contains a file. */
static int add_dir_of(struct serve *s, const char *file, enum serve_dir_kind kind)
{
    const char *slash = file ? strrchr(file, '/') : NULL;
    char *dir;

    if (!slash)
        return 0;
    dir = arena_printf(&s->paths, "%.*s", (int) MAX(slash - file, 1), file);
    if (dir)
        add_dir(s, dir, kind, slash + 1);
    return dir ? 0 : -ENOMEM;
}

/* Adds the directories of files that a reload reads again, and of the socket. */
static int add_reached(struct serve *s)
{
    const struct serve_config *c = &s->config;
    const struct serve_source *sources = c->source.v;
    const char *const files[] = {
        c->listen.tls.cert_file,      c->listen.tls.key_file,
        c->listen.tls.client_ca_file, c->auth.audit,
        c->auth.people.oidc.ca_file,  strncmp(c->listen.http, "unix:", 5) == 0 ? c->listen.http + 5 : NULL};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++)
        r = add_dir_of(s, files[i], SERVE_DIR_REACH);
    for (size_t i = 0; r == 0 && i < s->args->config.n; i++)
        r = add_dir_of(s, s->args->config.v[i], SERVE_DIR_REACH);
    for (uint32_t i = 0; r == 0 && i < c->source.n; i++)
        if (sources[i].dir)
            add_dir(s, sources[i].dir, SERVE_DIR_REACH, NULL);
    return r;
}

static int reach_all(struct serve *s)
{
    struct serve_tls *t = &s->config.listen.tls;
    const char **const paths[] = {&s->token_file,     &s->reached_store,     &s->config.symbols.dir,
                                  &s->spool_dir,      &t->cert_file,         &t->key_file,
                                  &t->client_ca_file, &s->config.auth.audit, &s->config.auth.people.oidc.ca_file};
    const char *http = s->config.listen.http;
    int r = 0;

    s->reached_store = s->store_dir;
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(paths); i++)
        r = reach(s, paths[i]);
    for (size_t i = 0; r == 0 && i < s->args->config.n; i++)
        r = reach(s, &s->args->config.v[i]);
    if (r == 0 && strncmp(http, "unix:", 5) == 0) {
        http += 5;
        r = reach(s, &http);
        if (r == 0)
            s->config.listen.http = arena_printf(&s->paths, "unix:%s", http);
    }
    if (r == 0)
        r = serve_reach_sources(s, &s->config);
    return r == 0 && s->config.listen.http ? 0 : -ENOMEM;
}

int serve_drop_rights(struct serve *s, struct err *e)
{
    const struct serve_config *c = &s->config;
    int r = 0;

    if (!c->auth.tokens)
        add_dir(s, s->data_dir, SERVE_DIR_DATA, "tokens");
    else
        r = add_dir_of(s, s->token_file, SERVE_DIR_FILE);
    if (serve_store_in_dir(c))
        add_dir(s, s->store_dir, SERVE_DIR_STORE, NULL);
    else if (c->store.ack == SERVE_ACK_SPOOL)
        add_dir(s, s->spool_dir, SERVE_DIR_OTHER, NULL);
    if (c->symbols.dir)
        add_dir(s, c->symbols.dir, SERVE_DIR_OTHER, NULL);
    if (r == 0)
        r = add_reached(s);
    s->rights.user = c->user;
    s->rights.low_port = serve_has_low_port(c);
    if (r == 0)
        r = serve_rights_drop(&s->rights, e);
    return r < 0 ? r : reach_all(s);
}
