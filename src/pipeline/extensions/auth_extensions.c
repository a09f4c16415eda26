/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bearertokenauth` and `basicauth`, for both sides: a client's header, a server's check. Secrets are compared in
 * constant time. A token file is read again when it changes; it may hold several tokens, one per line.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "net/grpc.h"
#include "pipeline/graph/auth.h"
#include "pipeline/graph/component.h"

enum { SECRETS_MAX = 1 << 20 };

struct bearer_config {
    const char *scheme, *token, *filename, *header;
    struct option_strings tokens;
};

struct htpasswd_config {
    const char *inline_text, *file;
};

struct client_config {
    const char *username, *password, *username_file, *password_file;
};

struct basic_config {
    struct htpasswd_config htpasswd;
    struct client_config client_auth;
};

struct auth_extension {
    struct instance instance;
    const struct bearer_config *bearer;
    const struct basic_config *basic;
    pthread_mutex_t lock;
    struct buf secrets; /* content of the file: tokens, or user:password lines */
    struct timespec mtime;
    char header[128];
};

static const struct option bearer_options[] = {
    {"header", OPT_STRING, offsetof(struct bearer_config, header), "Authorization", "name of the header"},
    {"scheme", OPT_STRING, offsetof(struct bearer_config, scheme), "Bearer", "scheme before the token"},
    {"token", OPT_STRING, offsetof(struct bearer_config, token), NULL, "the token", .secret = true},
    {"tokens", OPT_STRINGS, offsetof(struct bearer_config, tokens), NULL, "tokens that a server accepts",
     .secret = true},
    {"filename", OPT_STRING, offsetof(struct bearer_config, filename), NULL,
     "file with the token; reread when it changes"},
    {0},
};

static const struct option htpasswd_options[] = {
    {"file", OPT_STRING, offsetof(struct htpasswd_config, file), NULL, "file of user:password lines"},
    {"inline", OPT_STRING, offsetof(struct htpasswd_config, inline_text), NULL, "user:password lines", .secret = true},
    {0},
};

static const struct option client_options[] = {
    {"username", OPT_STRING, offsetof(struct client_config, username), NULL, "user name"},
    {"password", OPT_STRING, offsetof(struct client_config, password), NULL, "password", .secret = true},
    {"username_file", OPT_STRING, offsetof(struct client_config, username_file), NULL, "file with the user name"},
    {"password_file", OPT_STRING, offsetof(struct client_config, password_file), NULL, "file with the password"},
    {0},
};

static const struct option basic_options[] = {
    {"htpasswd", OPT_TABLE, offsetof(struct basic_config, htpasswd), NULL,
     "server: accepted users (plain-text passwords)", .table = htpasswd_options},
    {"client_auth", OPT_TABLE, offsetof(struct basic_config, client_auth), NULL, "client: credentials to send",
     .table = client_options},
    {0},
};

static bool equal_secret(struct str a, struct str b)
{
    unsigned char differ = a.n != b.n;

    for (uint32_t i = 0; i < a.n && i < b.n; i++)
        differ |= (unsigned char) (a.p[i] ^ b.p[i]);
    return !differ && b.n;
}

/* Reads the file of secrets if it has changed. The lock must be held. */
static int refresh(struct auth_extension *a, const char *path, struct err *e)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct stat st;
    int r;

    if (stat(path, &st) < 0)
        return a->secrets.n ? 0 : err_set(e, -errno, "cannot read '%s': %m", path);
    if (a->secrets.n && memcmp(&st.st_mtim, &a->mtime, sizeof a->mtime) == 0)
        return 0;
    r = fd_read_file(path, SECRETS_MAX, &b, e);
    if (r < 0)
        return a->secrets.n ? 0 : r; /* what was read before stays valid */
    buf_done(&a->secrets);
    a->secrets = b;
    b = BUF_INIT;
    a->mtime = st.st_mtim;
    return 0;
}

static bool any_line(struct str lines, struct str secret)
{
    bool found = false;

    while (lines.n)
        found |= equal_secret(secret, str_trim(str_cut(&lines, '\n')));
    return found;
}

/* --- bearer --- */

static struct str without_scheme(const struct bearer_config *c, struct str value)
{
    struct str scheme = str_from(c->scheme);

    value = str_trim(value);
    if (scheme.n && value.n > scheme.n && http_eq_nocase(str_slice(value, 0, scheme.n), c->scheme) &&
        value.p[scheme.n] == ' ')
        return str_trim(str_slice(value, scheme.n, value.n));
    return scheme.n ? (struct str){0} : value;
}

static bool bearer_check(struct instance *i, struct str value)
{
    struct auth_extension *a = container_of(i, struct auth_extension, instance);
    const struct bearer_config *c = a->bearer;
    struct str token = without_scheme(c, value);
    bool found = false;

    if (c->token)
        found |= equal_secret(token, str_from(c->token));
    for (uint32_t k = 0; k < c->tokens.n; k++)
        found |= equal_secret(token, str_from(c->tokens.v[k]));
    if (c->filename) {
        pthread_mutex_lock(&a->lock);
        if (refresh(a, c->filename, NULL) == 0)
            found |= any_line(buf_str(&a->secrets), token);
        pthread_mutex_unlock(&a->lock);
    }
    return found;
}

static int bearer_value(struct instance *i, struct buf *out, struct err *e)
{
    struct auth_extension *a = container_of(i, struct auth_extension, instance);
    const struct bearer_config *c = a->bearer;
    struct str token = str_from(c->token ? c->token : c->tokens.n ? c->tokens.v[0] : ""), lines;
    int r = 0;

    if (*c->scheme)
        buf_printf(out, "%s ", c->scheme);
    if (c->filename) {
        pthread_mutex_lock(&a->lock);
        r = refresh(a, c->filename, e);
        lines = buf_str(&a->secrets);
        if (r == 0)
            buf_put_str(out, str_trim(str_cut(&lines, '\n')));
        pthread_mutex_unlock(&a->lock);
    } else {
        buf_put_str(out, token);
    }
    return r < 0 ? r : buf_error(out);
}

/* --- basic --- */

/* The decoded value after "Basic ": user:password. */
static int basic_pair(struct str value, struct buf *ret)
{
    value = str_trim(value);
    if (value.n < 6 || !http_eq_nocase(str_slice(value, 0, 6), "basic "))
        return -EINVAL;
    return grpc_base64_decode(ret, str_trim(str_slice(value, 6, value.n)));
}

static struct str basic_user(struct str value, struct arena *a)
{
    _cleanup_(buf_done) struct buf pair = BUF_INIT;
    struct str rest;

    if (basic_pair(value, &pair) < 0)
        return (struct str){0};
    rest = buf_str(&pair);
    return arena_str(a, str_cut(&rest, ':'));
}

static bool basic_check(struct instance *i, struct str value)
{
    struct auth_extension *a = container_of(i, struct auth_extension, instance);
    const struct htpasswd_config *c = &a->basic->htpasswd;
    _cleanup_(buf_done) struct buf pair = BUF_INIT;
    bool found = false;

    if (basic_pair(value, &pair) < 0)
        return false;
    if (c->inline_text)
        found |= any_line(str_from(c->inline_text), buf_str(&pair));
    if (c->file) {
        pthread_mutex_lock(&a->lock);
        if (refresh(a, c->file, NULL) == 0)
            found |= any_line(buf_str(&a->secrets), buf_str(&pair));
        pthread_mutex_unlock(&a->lock);
    }
    return found;
}

static int put_text(struct buf *out, const char *text, const char *file, struct err *e)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    int r;

    if (!file) {
        buf_puts(out, text ? text : "");
        return 0;
    }
    r = fd_read_file(file, SECRETS_MAX, &b, e);
    if (r == 0)
        buf_put_str(out, str_trim(buf_str(&b)));
    return r;
}

static int basic_value(struct instance *i, struct buf *out, struct err *e)
{
    const struct client_config *c = &container_of(i, struct auth_extension, instance)->basic->client_auth;
    _cleanup_(buf_done) struct buf pair = BUF_INIT;
    int r = put_text(&pair, c->username, c->username_file, e);

    buf_putc(&pair, ':');
    if (r == 0)
        r = put_text(&pair, c->password, c->password_file, e);
    buf_puts(out, "Basic ");
    grpc_base64_encode(out, buf_str(&pair));
    for (size_t n = pair.n; n % 3; n++) /* HTTP requires the padding */
        buf_putc(out, '=');
    return r < 0 ? r : buf_error(out);
}

static const char *header_name(struct instance *i)
{
    return container_of(i, struct auth_extension, instance)->header;
}

static const struct auth_api bearer_api = {bearer_check, bearer_value, header_name, NULL};
static const struct auth_api basic_api = {basic_check, basic_value, header_name, basic_user};

int auth_of(struct instance *x, const struct auth_api **ret, struct err *e)
{
    if (x->api != &bearer_api && x->api != &basic_api)
        return err_set(e, -EINVAL, "extension '%s' is not an authenticator", x->id);
    *ret = x->api;
    return 0;
}

static void free_instance(struct instance *i)
{
    struct auth_extension *a = container_of(i, struct auth_extension, instance);

    buf_done(&a->secrets);
    pthread_mutex_destroy(&a->lock);
    mem_free(a);
}

static int make(const struct auth_api *api, const char *header, struct auth_extension **ret)
{
    struct auth_extension *a = mem_zalloc(sizeof *a);

    if (!a)
        return -ENOMEM;
    pthread_mutex_init(&a->lock, NULL);
    for (size_t i = 0; header[i] && i < sizeof a->header - 1; i++)
        a->header[i] = header[i] >= 'A' && header[i] <= 'Z' ? (char) (header[i] | 0x20) : header[i];
    a->instance = (struct instance){.api = api, .free = free_instance};
    *ret = a;
    return 0;
}

static int create_bearer(const struct component_args *args, struct instance **ret, struct err *e)
{
    const struct bearer_config *c = args->config;
    struct auth_extension *a;
    int r = make(&bearer_api, c->header, &a);

    (void) e;
    if (r < 0)
        return r;
    a->bearer = c;
    *ret = &a->instance;
    return 0;
}

static int create_basic(const struct component_args *args, struct instance **ret, struct err *e)
{
    struct auth_extension *a;
    int r = make(&basic_api, "authorization", &a);

    (void) e;
    if (r < 0)
        return r;
    a->basic = args->config;
    *ret = &a->instance;
    return 0;
}

static int check_bearer(const void *config, const struct conf_node *node, struct err *e)
{
    const struct bearer_config *c = config;

    if (!c->token && !c->filename && !c->tokens.n)
        return conf_error(node, -EINVAL, e, "'token', 'tokens' or 'filename' is required");
    return 0;
}

static int check_basic(const void *config, const struct conf_node *node, struct err *e)
{
    const struct basic_config *c = config;

    if (!c->htpasswd.file && !c->htpasswd.inline_text && !c->client_auth.username && !c->client_auth.username_file)
        return conf_error(node, -EINVAL, e, "'htpasswd' or 'client_auth' is required");
    return 0;
}

const struct component component_bearertokenauth_extension = {
    .kind = COMPONENT_EXTENSION,
    .name = "bearertokenauth",
    .help = "bearer token in a header, for clients and servers",
    .options = bearer_options,
    .config_size = sizeof(struct bearer_config),
    .check = check_bearer,
    .create = create_bearer,
};

const struct component component_basicauth_extension = {
    .kind = COMPONENT_EXTENSION,
    .name = "basicauth",
    .help = "HTTP basic authentication, for clients and servers",
    .options = basic_options,
    .config_size = sizeof(struct basic_config),
    .check = check_basic,
    .create = create_basic,
};
