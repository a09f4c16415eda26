/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the location of a ClickHouse store; see click_url.h. */
#include "store/engines/clickhouse/click_url.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"

#define SCHEME "clickhouse://"

/* Names that are put into SQL and URLs as they are. */
static bool is_name(struct str s)
{
    for (uint32_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
              (i && c == '-')))
            return false;
    }
    return s.n && s.n < 64;
}

int click_password_read(const char *path, struct buf *ret, struct err *e)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct str line;
    int r = fd_read_file(path, 4096, &text, e);

    if (r < 0)
        return err_prefix(e, r, "cannot read the password of ClickHouse: ");
    line = buf_str(&text);
    line = str_trim(str_cut(&line, '\n'));
    buf_put(ret, line.p, line.n);
    return buf_error(ret);
}

static int read_password(struct click_url *u, struct str file, struct err *e)
{
    _cleanup_(buf_done) struct buf password = BUF_INIT;
    int r;

    u->password_file = arena_cstr(&u->arena, file);
    if (!u->password_file)
        return -ENOMEM;
    r = click_password_read(u->password_file, &password, e);
    if (r < 0)
        return r;
    u->password = arena_cstr(&u->arena, buf_str(&password));
    return u->password ? 0 : -ENOMEM;
}

static int set_option(struct click_url *u, struct str name, struct str value, struct err *e)
{
    uint64_t n = 0;

    if (str_is(name, "cluster")) {
        if (!is_name(value))
            return err_set(e, -EINVAL, "clickhouse: cluster '%.*s' is not a valid name", STR_FMT(value));
        u->cluster = arena_cstr(&u->arena, value);
        return u->cluster ? 0 : -ENOMEM;
    }
    if (str_is(name, "password_file"))
        return read_password(u, value, e);
    if (str_is(name, "ca")) {
        u->ca = arena_cstr(&u->arena, value);
        return u->ca ? 0 : -ENOMEM;
    }
    if (str_is(name, "tls") || str_is(name, "insecure")) {
        if (!str_is(value, "true") && !str_is(value, "false"))
            return err_set(e, -EINVAL, "clickhouse: %.*s must be true or false", STR_FMT(name));
        *(str_is(name, "tls") ? &u->tls : &u->insecure) = str_is(value, "true");
        return 0;
    }
    if (str_is(name, "quorum") || str_is(name, "timeout")) {
        if (str_to_u64(value, 10, &n) < 0 || !n || n > 3600)
            return err_set(e, -EINVAL, "clickhouse: %.*s must be a number from 1 to 3600", STR_FMT(name));
        if (str_is(name, "quorum"))
            u->quorum = (uint32_t) n;
        else
            u->timeout_ns = (int64_t) n * NS_PER_S;
        return 0;
    }
    return err_set(e, -EINVAL, "clickhouse: unknown option '%.*s' in the location", STR_FMT(name));
}

static int add_host(struct click_url *u, struct str host, struct err *e)
{
    const char *port = str_find_char(host, ':') < 0 ? (u->tls ? ":8443" : ":8123") : "";

    if (!host.n)
        return err_set(e, -EINVAL, "clickhouse: the location has an empty host name");
    if (u->n_hosts == CLICK_HOSTS_MAX)
        return err_set(e, -EINVAL, "clickhouse: more than %d hosts", CLICK_HOSTS_MAX);
    u->hosts[u->n_hosts] = arena_printf(&u->arena, "%s://%.*s%s", u->tls ? "https" : "http", STR_FMT(host), port);
    return u->hosts[u->n_hosts++] ? 0 : -ENOMEM;
}

static int parse_user(struct click_url *u, struct str *rest, struct err *e)
{
    struct str user;

    if (str_find_char(*rest, '@') < 0)
        return 0;
    user = str_cut(rest, '@');
    if (str_find_char(user, ':') >= 0)
        return err_set(e, -EINVAL,
                       "clickhouse: the location must not contain a password; use password_file=FILE or the "
                       "environment variable WICK_CLICKHOUSE_PASSWORD");
    u->user = arena_cstr(&u->arena, user);
    return u->user ? 0 : -ENOMEM;
}

int click_url_parse(const char *place, struct click_url *u, struct err *e)
{
    struct str rest = str_from(place), hosts, database, options;
    const char *password = getenv("WICK_CLICKHOUSE_PASSWORD");
    int r;

    *u = (struct click_url){.user = "default", .cluster = "", .password = "", .timeout_ns = 60 * NS_PER_S};
    arena_init(&u->arena, 0);
    if (!str_starts(rest, STR(SCHEME)))
        return err_set(e, -EINVAL, "'%s' is not a location of ClickHouse: " SCHEME "USER@HOST:PORT/DATABASE", place);
    if (password && !(u->password = arena_cstr(&u->arena, str_from(password))))
        return -ENOMEM;
    rest = str_slice(rest, strlen(SCHEME), rest.n);
    r = parse_user(u, &rest, e);
    options = rest;
    rest = str_cut(&options, '?');
    hosts = str_cut(&rest, '/');
    database = rest.n ? rest : STR("wick");
    if (r == 0 && !is_name(database))
        r = err_set(e, -EINVAL, "clickhouse: database '%.*s' is not a valid name", STR_FMT(database));
    while (r == 0 && options.n) {
        struct str value = str_cut(&options, '&'), name = str_cut(&value, '=');

        r = set_option(u, name, value, e);
    }
    u->database = arena_cstr(&u->arena, database);
    do {
        struct str host = str_cut(&hosts, ',');

        if (r == 0)
            r = add_host(u, host, e);
    } while (hosts.n);
    if (!u->quorum && *u->cluster)
        u->quorum = 2;
    return r < 0 ? r : u->database ? 0 : -ENOMEM;
}

void click_url_done(struct click_url *u)
{
    arena_done(&u->arena);
}
