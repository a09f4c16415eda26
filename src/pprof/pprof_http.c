/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server of `wick pprof -http` (pprof_http.h). Everything is under /ui/: the web UI (with the routes of wick serve,
 * answered from the file), pprof's own views, and the API that both use. Other paths are redirected there, with their
 * query.
 *
 * Every request needs the random token in the URL that is printed and opened in the browser, because other users of
 * this machine can connect on loopback as well. The first request with the token is answered with a session cookie and
 * a redirect to the same address without the token. Host must be an address, localhost, or a name of this machine.
 */
#include "pprof/pprof_http.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "net/loop.h"
#include "pprof/pprof_http_files.h"
#include "pprof/pprof_http_pages.h"
#include "pprof/pprof_source.h"
#include "pprof/pprof_view.h"
#include "report/source_reader.h"
#include "server/api.h"
#include "server/front.h"
#include "server/ui_info.h"

enum { WORKERS = 2, QUEUE_MAX = 64, HOST_MAX = 256, BODY_MAX = 64 << 10 };

struct http_ui {
    const struct pprof_args *args;
    struct pprof_files *files;
    struct auth *auth;
    struct workers *workers;
    struct front *front;
    struct loop_group *loops;
    struct http_server *server;
    struct ui_info info;
    char host[HOST_MAX], machine[HOST_MAX];
    const char *hosts[3]; /* names that are allowed in Host */
    char token[AUTH_TEXT_SIZE];
};

/* --- the address --- */

/* "host:port" as Go splits it; an empty host is localhost, an empty port any. */
static int split_address(struct http_ui *u, struct str address, uint64_t *ret_port, struct err *e)
{
    ptrdiff_t colon = -1;
    struct str host, port;

    for (uint32_t i = 0; i < address.n; i++)
        if (address.p[i] == ':')
            colon = i;
    if (colon < 0)
        return err_set(e, -EINVAL, "could not split http address: address %.*s: missing port in address",
                       STR_FMT(address));
    host = str_slice(address, 0, (size_t) colon);
    port = str_slice(address, (size_t) colon + 1, address.n);
    if (str_find_char(host, ':') >= 0 && (!str_starts(host, STR("[")) || !str_ends(host, STR("]"))))
        return err_set(e, -EINVAL, "could not split http address: address %.*s: too many colons in address",
                       STR_FMT(address));
    if (!host.n)
        host = STR("localhost");
    if (host.n >= sizeof u->host)
        return err_set(e, -EINVAL, "could not split http address: host name too long");
    memcpy(u->host, host.p, host.n);
    *ret_port = 0;
    if (port.n && (str_to_u64(port, 10, ret_port) < 0 || *ret_port > 65535))
        return err_set(e, -EINVAL, "invalid port number: strconv.Atoi: parsing \"%.*s\": invalid syntax",
                       STR_FMT(port));
    if (gethostname(u->machine, sizeof u->machine - 1) < 0)
        u->machine[0] = 0;
    u->hosts[0] = u->host;
    u->hosts[1] = u->machine[0] ? u->machine : NULL;
    return 0;
}

/* --- requests --- */

static void redirect(struct http_request *q, const char *to)
{
    char *target = arena_printf(&q->arena, "%s%s%.*s", to, q->query.n ? "?" : "", STR_FMT(q->query));

    if (target)
        http_add_header(q, "location", str_from(target));
    http_reply(q, 307, NULL, (struct str){0});
}

/* The address of the request without the token. */
static void put_address_without_token(struct http_request *q, struct buf *out)
{
    struct str rest = q->query, name, value;
    char gap = '?';

    buf_put_str(out, q->path);
    while (http_query_next(&rest, &q->arena, &name, &value)) {
        if (str_is(name, "token"))
            continue;
        buf_putc(out, gap);
        gap = '&';
        http_percent_encode(out, name);
        buf_putc(out, '=');
        http_percent_encode(out, value);
    }
}

/* A URL with the token: the browser gets a session, and an address that can be copied and bookmarked. */
static void log_in(struct http_ui *u, struct http_request *q, struct str token)
{
    _cleanup_(buf_done) struct buf to = BUF_INIT;
    char session[AUTH_SESSION_SIZE];
    char *cookie = NULL;

    if (auth_login(u->auth, token, session, NULL) == 0)
        cookie = arena_printf(&q->arena, "%s=%s; Path=/; HttpOnly; SameSite=Strict", auth_cookie(u->auth), session);
    put_address_without_token(q, &to);
    if (!cookie || !buf_cstr(&to)) {
        http_reply(q, 403, "text/plain", STR("This token is not known. Open the URL that wick pprof printed.\n"));
        return;
    }
    http_add_header(q, "set-cookie", str_from(cookie));
    http_add_header(q, "cache-control", STR("no-store"));
    http_add_header(q, "referrer-policy", STR("no-referrer"));
    http_add_header(q, "location", arena_str(&q->arena, buf_str(&to)));
    http_reply(q, 303, NULL, (struct str){0});
}

static void handle(void *arg, struct http_request *q)
{
    struct http_ui *u = arg;
    struct str token = http_query_get(q->query, &q->arena, "token");

    if (token.p) {
        log_in(u, q, token);
    } else if (str_is(q->path, "/ui")) {
        redirect(q, "/ui/");
    } else if (!str_starts(q->path, STR("/ui/"))) {
        redirect(q, "/ui");
    } else {
        q->path = str_slice(q->path, 3, q->path.n);
        front_handle(u->front, q);
    }
}

static int store_of(void *ctx, struct call *c, struct store **ret, struct err *e)
{
    return pprof_files_store(ctx, c->q->query, ret, e);
}

static void store_done(void *ctx, struct store *s)
{
    pprof_files_store_done(ctx, s);
}

/* Only files that the profile names are read: the route must not give access to any file of the user. */
static bool profile_names(struct pprof_files *f, struct str file)
{
    const struct prof *p = pprof_files_prof(f);
    bool found = false;

    pprof_files_lock(f);
    for (size_t i = 1; !found && i < p->n_functions; i++)
        found = str_eq(prof_str(p, p->functions[i].filename), file);
    pprof_files_unlock(f);
    return found;
}

/* Reads a source file using -source_path and -trim_path, as -list does. */
static int read_source(void *ctx, struct str file, struct buf *out, struct err *e)
{
    const struct http_ui *u = ctx;
    struct source_reader reader;
    struct str line;
    const char *why;
    int r;

    if (!profile_names(u->files, file))
        return err_set(e, -ENOENT, "the profile does not name this file");
    r = source_reader_init(&reader, u->args->config.source_path, u->args->config.trim_path, e);

    if (r < 0)
        return r;
    for (int64_t i = 1; (r = source_reader_line(&reader, file, i, &line)) > 0; i++) {
        buf_put_str(out, line);
        buf_putc(out, '\n');
    }
    why = source_reader_error(&reader, file);
    if (r == 0 && !out->n)
        r = err_set(e, -ENOENT, "%s: set the location of sources with -source_path and -trim_path",
                    why ? why : "the file is empty");
    source_reader_done(&reader);
    return r;
}

/* --- start and stop --- */

static void describe(struct http_ui *u, const struct pprof_args *a)
{
    struct ui_info *i = &u->info;

    *i = (struct ui_info){.mode = "files",
                          .n_files = a->n_bases ? 2 : 1,
                          .default_query = pprof_files_query(u->files),
                          .base_query = pprof_files_base_query(u->files),
                          .read_source = read_source,
                          .ctx = u};
    i->files[0].name = a->sources[a->n_sources - 1];
    i->files[0].type = "profile";
    if (a->n_bases)
        i->files[1] = (struct ui_file){a->bases[0], "base"};
    pprof_files_range(u->files, &i->from, &i->to);
}

static int start_front(struct http_ui *u, struct err *e)
{
    static int (*const mounts[])(struct front *) = {pprof_pages_mount, api_mount_query, api_mount_status,
                                                    api_mount_profile, api_mount_views, api_mount_openapi,
                                                    api_mount_ui};
    struct front_options o = {.hosts = u->hosts,
                              .version = WICK_VERSION,
                              .ui = &u->info,
                              .store_of = store_of,
                              .store_done = store_done,
                              .store_ctx = u->files};
    struct str none = {0};
    int r = auth_open_fixed(AUTH_READ, u->token, &u->auth, e);

    if (r >= 0)
        r = workers_new(&(struct workers_options){.n = WORKERS, .waiting = QUEUE_MAX}, &u->workers, e);
    if (r >= 0) /* the status counts the profile as loaded */
        r = pprof_files_store(u->files, none, &o.store, e);
    o.auth = u->auth;
    o.workers = u->workers;
    if (r >= 0)
        r = front_new(&o, &u->front, e);
    for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(mounts); i++)
        r = mounts[i](u->front);
    return r;
}

static int start_server(struct http_ui *u, uint64_t port, int *ret_port, struct err *e)
{
    struct loop *loops[1];
    struct http_server_options o = {.loops = loops, .n_loops = 1, .arg = u, .handle = handle, .max_body = BODY_MAX};
    char address[HOST_MAX + 8];
    int r = loop_group_new(1, "net", &u->loops, e);

    if (r < 0)
        return r;
    loops[0] = loop_group_at(u->loops, 0);
    r = http_server_new(&o, &u->server, e);
    snprintf(address, sizeof address, "%s:%llu", u->host, (unsigned long long) port);
    return r < 0 ? r : http_server_listen(u->server, address, ret_port, e);
}

static void stop(struct http_ui *u)
{
    if (u->server) {
        http_server_stop_wait(u->server, 0);
        http_server_free(u->server);
    }
    workers_free(u->workers);
    loop_group_free(u->loops);
    front_free(u->front);
    pprof_files_free(u->files);
    auth_free(u->auth);
}

/* The address with the options of the command line in its query, as in pprof's own. */
static void put_url(const struct http_ui *u, int port, bool options, struct buf *out)
{
    size_t n;
    const struct config_field *fields = config_fields(&n);
    struct pprof_config defaults;

    config_defaults(&defaults);
    buf_printf(out, "http://%s:%d/?token=%s", u->host, port, u->token);
    for (size_t i = 0; options && i < n; i++) {
        _cleanup_(buf_done) struct buf value = BUF_INIT, standard = BUF_INIT;
        const char *name = config_url_name(&fields[i]);

        config_get(&u->args->config, &fields[i], &value);
        config_get(&defaults, &fields[i], &standard);
        if (!name || strcmp(name, "si") == 0 || str_eq(buf_str(&value), buf_str(&standard)))
            continue;
        buf_printf(out, "&%s=", name);
        http_percent_encode(out, fields[i].kind == CONFIG_BOOL ? str_slice(buf_str(&value), 0, 1) : buf_str(&value));
    }
}

static void announce(const struct http_ui *u, int port)
{
    _cleanup_(buf_done) struct buf plain = BUF_INIT, full = BUF_INIT;

    put_url(u, port, false, &plain);
    put_url(u, port, true, &full);
    if (!buf_cstr(&plain) || !buf_cstr(&full))
        return;
    fprintf(stderr, "Serving web UI on %s\n", plain.p);
    if (!u->args->no_browser && pprof_open_browser(full.p) < 0)
        fprintf(stderr, "%s\n", full.p);
}

int pprof_http(struct prof *p, const struct pprof_args *a, struct err *e)
{
    struct http_ui u = {.args = a};
    uint64_t port = 0;
    int bound = 0, sig, r = split_address(&u, a->http, &port, e);
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    signal(SIGPIPE, SIG_IGN);
    if (r >= 0)
        r = pprof_files_new(p, a, &u.files, e);
    if (r >= 0) {
        describe(&u, a);
        sigprocmask(SIG_BLOCK, &set, NULL);
        r = start_front(&u, e);
    }
    if (r >= 0)
        r = start_server(&u, port, &bound, e);
    if (r >= 0) {
        announce(&u, bound);
        sigwait(&set, &sig);
    }
    stop(&u);
    return r;
}
