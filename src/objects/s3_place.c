/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the location of an object store and reads credentials; see s3_place.h. */
#include "objects/s3_place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "net/http.h"

#define SCHEME "s3://"

bool s3_is_place(struct str place)
{
    return str_starts(place, STR(SCHEME));
}

/* Names that are put into paths as they are: nothing that would have to be percent-encoded. */
static bool is_plain(struct str s, bool slash)
{
    for (uint32_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
              c == '.' || (slash && c == '/')))
            return false;
    }
    return true;
}

static int set_text(struct s3_place *p, const char **at, struct str value)
{
    *at = arena_cstr(&p->arena, value);
    return *at ? 0 : -ENOMEM;
}

static int set_endpoint(struct s3_place *p, struct str value, struct err *e)
{
    struct http_url url;
    int r;

    while (value.n && value.p[value.n - 1] == '/')
        value.n--;
    r = set_text(p, &p->endpoint, value);
    if (r == 0)
        r = http_url_parse(p->endpoint, &url, e);
    if (r == 0 && (url.target[0] || url.unix_path[0]))
        r = err_set(e, -EINVAL, "endpoint '%s' must be http://HOST:PORT or https://HOST:PORT", p->endpoint);
    return r;
}

static int set_option(struct s3_place *p, struct str name, struct str value, struct err *e)
{
    uint64_t n;

    if (str_is(name, "endpoint"))
        return set_endpoint(p, value, e);
    if (str_is(name, "region"))
        return is_plain(value, false) && value.n ? set_text(p, &p->region, value)
                                                 : err_set(e, -EINVAL, "region '%.*s' is not valid", STR_FMT(value));
    if (str_is(name, "credentials"))
        return set_text(p, &p->credentials, value);
    if (str_is(name, "ca"))
        return set_text(p, &p->ca, value);
    if (str_is(name, "insecure")) {
        p->insecure = str_is(value, "true");
        return p->insecure || str_is(value, "false") ? 0 : err_set(e, -EINVAL, "insecure must be true or false");
    }
    if (str_is(name, "timeout")) {
        if (str_to_u64(value, 10, &n) < 0 || !n || n > 3600)
            return err_set(e, -EINVAL, "timeout must be a number of seconds from 1 to 3600");
        p->timeout_ns = (int64_t) n * NS_PER_S;
        return 0;
    }
    return err_set(e, -EINVAL, "unknown option '%.*s'", STR_FMT(name));
}

static int parse_names(struct s3_place *p, struct str rest, struct err *e)
{
    struct str bucket = str_cut(&rest, '/');
    int r;

    while (rest.n && rest.p[rest.n - 1] == '/')
        rest.n--;
    if (str_find_char(bucket, '@') >= 0)
        return err_set(e, -EINVAL,
                       "it must not contain keys; use credentials=FILE or the environment variables "
                       "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
    if (bucket.n < 3 || bucket.n > 63 || !is_plain(bucket, false) || bucket.p[0] == '.')
        return err_set(e, -EINVAL, "'%.*s' is not a valid bucket", STR_FMT(bucket));
    if (rest.n && (rest.n > 512 || !is_plain(rest, true) || rest.p[0] == '/' || memmem(rest.p, rest.n, "//", 2) ||
                   memmem(rest.p, rest.n, "..", 2)))
        return err_set(e, -EINVAL, "'%.*s' is not a valid prefix: letters, digits and '-', '_', '.', '/' only",
                       STR_FMT(rest));
    r = set_text(p, &p->bucket, bucket);
    return r < 0 ? r : set_text(p, &p->prefix, rest);
}

int s3_place_parse(const char *place, struct s3_place *p, struct err *e)
{
    struct str rest = str_from(place), options;
    int r;

    *p = (struct s3_place){.prefix = "", .region = "us-east-1", .timeout_ns = 60 * NS_PER_S};
    arena_init(&p->arena, 0);
    if (!s3_is_place(rest))
        return err_set(e, -EINVAL, "'%s' is not a location of objects: " SCHEME "BUCKET/PREFIX", place);
    options = str_slice(rest, strlen(SCHEME), rest.n);
    rest = str_cut(&options, '?');
    r = parse_names(p, rest, e);
    while (r == 0 && options.n) {
        struct str value = str_cut(&options, '&'), name = str_cut(&value, '=');

        r = set_option(p, name, value, e);
    }
    if (r == 0 && !p->endpoint)
        p->endpoint = arena_printf(&p->arena, "https://s3.%s.amazonaws.com", p->region);
    if (r == 0 && !p->endpoint)
        r = -ENOMEM;
    return r == -ENOMEM ? err_set(e, r, "out of memory") : r < 0 ? err_prefix(e, r, "object store: ") : 0;
}

void s3_place_done(struct s3_place *p)
{
    arena_done(&p->arena);
}

int s3_credentials_parse(struct str text, struct s3_credentials *c, struct err *e)
{
    bool wanted = true, any = false;

    while (text.n) {
        struct str line = str_trim(str_cut(&text, '\n')), name;

        if (line.n && line.p[0] == '[') { /* [default], or the first section if there is none */
            wanted = str_is(line, "[default]") || !any;
            if (str_is(line, "[default]"))
                c->id = c->secret = c->token = NULL;
            any = true;
            continue;
        }
        if (!wanted || !line.n || line.p[0] == '#' || line.p[0] == ';' || str_find_char(line, '=') < 0)
            continue;
        name = str_trim(str_cut(&line, '='));
        line = str_trim(line);
        if (!http_value_ok(line) || line.n > 8192)
            continue;
        if (str_is(name, "aws_access_key_id"))
            c->id = arena_cstr(&c->arena, line);
        else if (str_is(name, "aws_secret_access_key"))
            c->secret = arena_cstr(&c->arena, line);
        else if (str_is(name, "aws_session_token"))
            c->token = arena_cstr(&c->arena, line);
    }
    if (!c->id || !c->secret || !*c->id || !*c->secret)
        return err_set(e, -EINVAL, "aws_access_key_id or aws_secret_access_key is missing");
    return 0;
}

int s3_credentials_read(const struct s3_place *p, struct s3_credentials *c, struct err *e)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    const char *token = getenv("AWS_SESSION_TOKEN");
    int r;

    *c = (struct s3_credentials){0};
    arena_init(&c->arena, 0);
    if (p->credentials) {
        r = fd_read_file(p->credentials, 65536, &text, e);
        if (r == 0)
            r = s3_credentials_parse(buf_str(&text), c, e);
        if (text.p)
            explicit_bzero(text.p, text.n);
        return r < 0 ? err_prefix(e, r, "credentials of the object store in '%s': ", p->credentials) : 0;
    }
    if (!getenv("AWS_ACCESS_KEY_ID") || !getenv("AWS_SECRET_ACCESS_KEY"))
        return err_set(
            e, -EINVAL,
            "there are no credentials for the object store: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            "or credentials=FILE in the location");
    c->id = arena_cstr(&c->arena, str_from(getenv("AWS_ACCESS_KEY_ID")));
    c->secret = arena_cstr(&c->arena, str_from(getenv("AWS_SECRET_ACCESS_KEY")));
    c->token = token && *token ? arena_cstr(&c->arena, str_from(token)) : NULL;
    return c->id && c->secret ? 0 : err_set(e, -ENOMEM, "out of memory");
}

void s3_credentials_done(struct s3_credentials *c)
{
    arena_done(&c->arena);
}
