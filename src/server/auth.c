/* SPDX-License-Identifier: Apache-2.0 */
/* The token file, checking a token against it, and browser sessions. See auth.h. */
#include "server/auth.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "server/service_user.h"

enum { FILE_SIZE_MAX = 4 << 20, TOKEN_BYTES = 24, SESSION_BYTES = 32 };
#define SESSION_LIFE (12 * 3600 * NS_PER_S)
#define RELOAD_EVERY NS_PER_S

struct session {
    char text[AUTH_SESSION_SIZE];
    struct auth_identity who;
    int64_t expires; /* monotonic */
};

/* The tokens as read from the file at one time. */
struct tokens {
    struct auth_token *v;
    size_t n, cap;
};

struct auth {
    pthread_mutex_t lock;
    char *path; /* NULL: a single token, in memory only */
    char cookie[32];
    struct tokens tokens _guarded_by_(lock);
    bool required _guarded_by_(lock); /* tokens exist or existed: requests without one are denied */
    bool locked _guarded_by_(lock);   /* the file could not be read since the start */
    struct session *sessions _guarded_by_(lock);
    size_t n_sessions _guarded_by_(lock), cap_sessions _guarded_by_(lock);
    int64_t next_look _guarded_by_(lock); /* monotonic */
    struct stat seen _guarded_by_(lock);  /* of the file that was read last; st_ino 0: no file, or it was damaged */
    struct log_limit log_damage _guarded_by_(lock);
    uid_t trusted[AUTH_TRUSTED_MAX]; /* set before threads start */
    unsigned n_trusted;
    enum auth_scope anonymous; /* of other machines; set before threads start */
    const struct people_config *people;
};

static const struct {
    const char *name;
    enum auth_scope scope;
} scopes[] = {{"read", AUTH_READ}, {"write", AUTH_WRITE}, {"admin", AUTH_ADMIN}}; /* no token has AUTH_SEND alone */

const char *auth_scope_name(enum auth_scope s)
{
    for (size_t i = 0; i < ARRAY_SIZE(scopes); i++)
        if (scopes[i].scope == s)
            return scopes[i].name;
    return s & AUTH_READ ? "read" : s & AUTH_SEND ? "send" : "none";
}

int auth_scope_parse(struct str s, enum auth_scope *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(scopes); i++)
        if (str_is(s, scopes[i].name)) {
            *ret = scopes[i].scope;
            return 0;
        }
    return -EINVAL;
}

static void copy_text(char *out, size_t size, struct str s)
{
    size_t n = MIN(s.n, size - 1);

    if (n)
        memcpy(out, s.p, n);
    out[n] = 0;
}

/* --- the file --- */

/* One line: id, hash, scope, tenant ("-" for the default one), created, note. */
static int parse_line(struct str line, struct auth_token *ret)
{
    struct str id = str_cut(&line, ' '), hash = str_cut(&line, ' '), scope = str_cut(&line, ' ');
    struct str tenant = str_cut(&line, ' '), created = str_cut(&line, ' ');

    *ret = (struct auth_token){0};
    if (!id.n || id.n >= sizeof ret->id || hash.n != 2 * SHA256_SIZE || hex_decode(hash, ret->hash) < 0 ||
        auth_scope_parse(scope, &ret->scope) < 0 || !tenant.n || tenant.n >= sizeof ret->tenant ||
        clock_parse(created, 0, &ret->created_ns, NULL) < 0)
        return -EINVAL;
    copy_text(ret->id, sizeof ret->id, id);
    copy_text(ret->tenant, sizeof ret->tenant, str_is(tenant, "-") ? (struct str){0} : tenant);
    copy_text(ret->note, sizeof ret->note, line);
    return 0;
}

static int add_token(struct tokens *l, const struct auth_token *t)
{
    return array_push(l->v, l->n, l->cap, AUTH_TOKENS_MAX, *t);
}

static int parse(const char *path, struct str text, struct tokens *ret, struct err *e)
{
    struct str rest;
    unsigned line_no = 0;
    int r;

    for (rest = text; rest.n;) {
        struct str line = str_trim(str_cut(&rest, '\n'));
        struct auth_token t;

        line_no++;
        if (!line.n || line.p[0] == '#')
            continue;
        if (parse_line(line, &t) < 0)
            return err_set(e, -EINVAL, "%s:%u: not a token line; create tokens with 'wick token create'", path,
                           line_no);
        r = add_token(ret, &t);
        if (r < 0)
            return err_set(e, r, "%s: more than %d tokens", path, AUTH_TOKENS_MAX);
    }
    return 0;
}

/* Reads the file. On failure the previous tokens stay in force: a file read in part never decides who has which
 * rights. */
static int load(struct auth *a, struct err *e) _locked_(a->lock)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct tokens l = {0};
    int r = fd_read_file(a->path, FILE_SIZE_MAX, &text, e);
    bool exists = r >= 0;

    if (r < 0 && r != -ENOENT)
        return r;
    r = parse(a->path, buf_str(&text), &l, e);
    if (r < 0) {
        mem_free(l.v);
        return r;
    }
    mem_free(a->tokens.v);
    a->tokens = l;
    a->required = a->required || exists;
    a->locked = false;
    return 0;
}

/* Chooses the owner of the file, so that a server that does not run as root can read what root writes for it: the owner
 * of the old file, else the owner of its directory, else the user that the server switches to. */
static struct fd_owner find_owner(int dir, const char *name)
{
    struct fd_owner ret = {0600, (uid_t) -1, (gid_t) -1};
    struct service_user user;
    struct stat st;

    if (geteuid() != 0)
        return ret;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
        return (struct fd_owner){0600, st.st_uid, st.st_gid};
    if (fstat(dir, &st) == 0 && st.st_uid != 0)
        return (struct fd_owner){0600, st.st_uid, st.st_gid};
    service_user_find(NULL, &user);
    return (struct fd_owner){0600, user.uid, user.gid};
}

static int write_file(const char *path, struct str text, struct err *e)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    _cleanup_(mem_freep) char *folder = slash ? mem_dup(path, (size_t) (slash - path) + 2) : mem_strdup(".");
    _cleanup_(fd_closep) int dir = -1;
    struct fd_owner owner;

    if (!folder)
        return -ENOMEM;
    if (slash)
        folder[slash - path + 1] = 0;
    dir = fd_open(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY, 0);
    if (dir < 0)
        return err_set(e, dir, "cannot write '%s': %s", path, strerror(-dir));
    owner = find_owner(dir, name);
    return fd_replace(dir, name, &owner, text.p, text.n, e);
}

static int save(struct auth *a, struct err *e) _locked_(a->lock)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    int r;

    buf_puts(&text,
             "# wick tokens: id, SHA-256 of the token, scope, tenant, created, note. Written by 'wick token'.\n");
    for (size_t i = 0; i < a->tokens.n; i++) {
        const struct auth_token *t = &a->tokens.v[i];

        buf_printf(&text, "%s ", t->id);
        hex_encode(&text, t->hash, SHA256_SIZE);
        buf_printf(&text, " %s %s ", auth_scope_name(t->scope), t->tenant[0] ? t->tenant : "-");
        clock_format(&text, t->created_ns);
        buf_printf(&text, "%s%s\n", t->note[0] ? " " : "", t->note);
    }
    r = buf_error(&text) ? buf_error(&text) : write_file(a->path, buf_str(&text), e);
    a->required = a->required || r == 0;
    return r;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Reads the file again if it changed, at most once a second. A damaged file is read again each time. */
static void refresh(struct auth *a) _locked_(a->lock)
{
    int64_t now = clock_mono();
    struct err e = {0};
    struct stat st;
    uint64_t held;
    int r;

    if (!a->path || now < a->next_look)
        return;
    a->next_look = now + RELOAD_EVERY;
    if (stat(a->path, &st) < 0)
        st = (struct stat){0};
    if (same_file(&st, &a->seen))
        return;
    r = load(a, &e);
    a->seen = r < 0 ? (struct stat){0} : st;
    if (r < 0 && log_limited(&a->log_damage, 60 * NS_PER_S, &held))
        log_error("cannot %s: %s",
                  a->locked ? "read the tokens; all requests are refused until it is possible"
                            : "reload tokens, keeping the previous ones",
                  err_message(&e, r));
}

static struct auth *auth_alloc(void)
{
    struct auth *a = mem_zalloc(sizeof *a);

    if (a) {
        pthread_mutex_init(&a->lock, NULL);
        snprintf(a->cookie, sizeof a->cookie, "wick_session");
    }
    return a;
}

_unshared_ int auth_open(const char *path, struct auth **ret, struct err *e)
{
    _cleanup_(auth_freep) struct auth *a = auth_alloc();
    int r;

    if (!a)
        return -ENOMEM;
    a->path = mem_strdup(path);
    if (!a->path)
        return -ENOMEM;
    r = load(a, e);
    if (r < 0)
        return r;
    *ret = TAKE(a);
    return 0;
}

_unshared_ int auth_open_serving(const char *path, struct auth **ret)
{
    _cleanup_(auth_freep) struct auth *a = auth_alloc();
    struct err e = {0};
    int r;

    if (!a)
        return -ENOMEM;
    a->path = mem_strdup(path);
    if (!a->path)
        return -ENOMEM;
    r = load(a, &e);
    if (r == -ENOMEM)
        return r;
    if (r < 0) {
        a->locked = a->required = true;
        log_error("cannot read the tokens; all requests are refused until it is possible: %s", err_message(&e, r));
    }
    *ret = TAKE(a);
    return 0;
}

bool auth_locked(struct auth *a)
{
    bool locked;

    pthread_mutex_lock(&a->lock);
    refresh(a);
    locked = a->locked;
    pthread_mutex_unlock(&a->lock);
    return locked;
}

_unshared_ void auth_free(struct auth *a)
{
    if (!a)
        return;
    pthread_mutex_destroy(&a->lock);
    mem_free(a->path);
    mem_free(a->tokens.v);
    mem_free(a->sessions);
    mem_free(a);
}

/* --- checking --- */

void auth_trust(struct auth *a, uid_t uid)
{
    if (!auth_trusts(a, uid) && a->n_trusted < AUTH_TRUSTED_MAX)
        a->trusted[a->n_trusted++] = uid;
}

bool auth_trusts(const struct auth *a, uid_t uid)
{
    for (unsigned i = 0; i < a->n_trusted; i++)
        if (a->trusted[i] == uid)
            return true;
    return false;
}

void auth_allow_anonymous(struct auth *a, enum auth_scope scope)
{
    a->anonymous = scope;
}

void auth_set_people(struct auth *a, const struct people_config *c)
{
    a->people = c;
    pthread_mutex_lock(&a->lock);
    a->required = true;
    pthread_mutex_unlock(&a->lock);
}

const struct people_config *auth_people(const struct auth *a)
{
    return a->people;
}

enum auth_scope auth_anonymous(const struct auth *a)
{
    return a->anonymous;
}

bool auth_required(struct auth *a)
{
    bool required;

    pthread_mutex_lock(&a->lock);
    refresh(a);
    required = a->required;
    pthread_mutex_unlock(&a->lock);
    return required;
}

/* Compares in constant time. */
static bool hash_eq(const uint8_t *a, const uint8_t *b)
{
    unsigned diff = 0;

    for (size_t i = 0; i < SHA256_SIZE; i++)
        diff |= a[i] ^ b[i];
    return diff == 0;
}

static const struct auth_token *find_token(struct auth *a, struct str token) _locked_(a->lock)
{
    const struct auth_token *found = NULL;
    uint8_t hash[SHA256_SIZE];

    sha256_of(token.p, token.n, hash);
    for (size_t i = 0; i < a->tokens.n; i++)
        if (hash_eq(hash, a->tokens.v[i].hash))
            found = &a->tokens.v[i];
    return found;
}

static void identify(const struct auth_token *t, struct auth_identity *ret)
{
    *ret = (struct auth_identity){.scope = t->scope};
    memcpy(ret->tenant, t->tenant, sizeof ret->tenant);
    memcpy(ret->token_id, t->id, sizeof ret->token_id);
}

int auth_check(struct auth *a, struct str token, struct auth_identity *ret)
{
    const struct auth_token *t;

    pthread_mutex_lock(&a->lock);
    refresh(a);
    t = find_token(a, token);
    if (t)
        identify(t, ret);
    pthread_mutex_unlock(&a->lock);
    return t ? 0 : -EACCES;
}

/* --- sessions --- */

static void drop_session(struct auth *a, size_t i) _locked_(a->lock)
{
    a->sessions[i] = a->sessions[--a->n_sessions];
}

static void drop_expired(struct auth *a) _locked_(a->lock)
{
    int64_t now = clock_mono();

    for (size_t i = 0; i < a->n_sessions;)
        if (a->sessions[i].expires < now)
            drop_session(a, i);
        else
            i++;
}

static int random_text(char *out, size_t bytes)
{
    uint8_t raw[64];

    if (getrandom(raw, bytes, 0) != (ssize_t) bytes)
        return -EIO;
    *hex_write(out, raw, bytes) = 0;
    return 0;
}

static uint64_t hash_of(const struct session *s)
{
    return hash64_str(str_from(s->who.token_id));
}

/* The token with most sessions, as the index of one of them. */
static int find_greediest(const struct auth *a, size_t *ret) _locked_(a->lock)
{
    _cleanup_(mem_freep) uint32_t *count = mem_zalloc_array(a->n_sessions, sizeof *count);
    _cleanup_(map_done) struct map first = MAP_INIT; /* the first session of each token */
    uint32_t most = 0;

    if (!count || map_reserve(&first, (uint32_t) a->n_sessions) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < a->n_sessions; i++) {
        struct map_pos p = map_find(&first, hash_of(&a->sessions[i]));

        while (p.index != MAP_NONE && strcmp(a->sessions[p.index].who.token_id, a->sessions[i].who.token_id) != 0)
            p = map_next(&first, p);
        if (p.index == MAP_NONE)
            map_insert(&first, hash_of(&a->sessions[i]), p.index = i);
        if (++count[p.index] > most) {
            most = count[p.index];
            *ret = p.index;
        }
    }
    return 0;
}

/* Makes room for another session of this token. */
static int replace_oldest(struct auth *a, const char *token_id) _locked_(a->lock)
{
    size_t n = 0, of = 0, oldest;

    for (size_t i = 0; i < a->n_sessions; i++)
        if (strcmp(a->sessions[i].who.token_id, token_id) == 0) {
            of = i;
            n++;
        }
    if (n < AUTH_TOKEN_SESSIONS_MAX && a->n_sessions < AUTH_SESSIONS_MAX)
        return 0;
    if (n < AUTH_TOKEN_SESSIONS_MAX && find_greediest(a, &of) < 0)
        return -ENOMEM;
    oldest = of;
    for (size_t i = 0; i < a->n_sessions; i++)
        if (strcmp(a->sessions[i].who.token_id, a->sessions[of].who.token_id) == 0 &&
            a->sessions[i].expires < a->sessions[oldest].expires)
            oldest = i;
    drop_session(a, oldest);
    return 0;
}

static int add_session(struct auth *a, const struct auth_identity *who, int64_t life,
                       char ret_session[AUTH_SESSION_SIZE], struct err *e) _locked_(a->lock)
{
    struct session s = {.who = *who, .expires = clock_mono() + MIN(life, SESSION_LIFE)};
    int r;

    drop_expired(a);
    r = replace_oldest(a, who->token_id);
    if (r == 0)
        r = array_reserve(a->sessions, a->cap_sessions, a->n_sessions + 1, AUTH_SESSIONS_MAX);
    if (r == 0)
        r = random_text(s.text, SESSION_BYTES);
    if (r < 0)
        return err_set(e, r, "cannot open a session: %m");
    a->sessions[a->n_sessions++] = s;
    memcpy(ret_session, s.text, sizeof s.text);
    return 0;
}

int auth_login(struct auth *a, struct str token, char ret_session[AUTH_SESSION_SIZE], struct err *e)
{
    const struct auth_token *t;
    struct auth_identity who;
    int r;

    pthread_mutex_lock(&a->lock);
    refresh(a);
    t = find_token(a, token);
    if (t)
        identify(t, &who);
    r = t ? add_session(a, &who, SESSION_LIFE, ret_session, e)
          : err_set(e, -EACCES, "unknown token; create one with 'wick token create --scope read'");
    pthread_mutex_unlock(&a->lock);
    return r;
}

int auth_login_person(struct auth *a, const struct auth_identity *who, int64_t life,
                      char ret_session[AUTH_SESSION_SIZE], struct err *e)
{
    int r;

    pthread_mutex_lock(&a->lock);
    r = add_session(a, who, life, ret_session, e);
    pthread_mutex_unlock(&a->lock);
    return r;
}

/* A session ends when its token is revoked. */
static bool token_lives(const struct auth *a, const char *id) _locked_(a->lock)
{
    for (size_t i = 0; i < a->tokens.n; i++)
        if (strcmp(a->tokens.v[i].id, id) == 0)
            return true;
    return false;
}

int auth_session(struct auth *a, struct str session, struct auth_identity *ret)
{
    int64_t now = clock_mono();
    int r = -EACCES;

    pthread_mutex_lock(&a->lock);
    refresh(a);
    for (size_t i = 0; i < a->n_sessions; i++)
        if (str_is(session, a->sessions[i].text) && a->sessions[i].expires >= now &&
            (a->sessions[i].who.person[0] || token_lives(a, a->sessions[i].who.token_id))) {
            *ret = a->sessions[i].who;
            r = 0;
        }
    pthread_mutex_unlock(&a->lock);
    return r;
}

void auth_logout(struct auth *a, struct str session)
{
    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < a->n_sessions;)
        if (str_is(session, a->sessions[i].text))
            drop_session(a, i);
        else
            i++;
    pthread_mutex_unlock(&a->lock);
}

/* --- administration --- */

static bool word_ok(struct str s)
{
    for (uint32_t i = 0; i < s.n; i++)
        if ((unsigned char) s.p[i] <= ' ' || s.p[i] == 0x7f)
            return false;
    return true;
}

/* Generates a token and adds it to those in memory. */
static int make_token(struct auth *a, struct auth_token *t, char ret_text[AUTH_TEXT_SIZE], struct err *e)
{
    char random[2 * TOKEN_BYTES + 1], id[AUTH_ID_SIZE];
    int r;

    r = random_text(random, TOKEN_BYTES);
    if (r == 0)
        r = random_text(id, (AUTH_ID_SIZE - 1) / 2);
    if (r < 0)
        return err_set(e, r, "cannot get random bytes for a token: %m");
    snprintf(ret_text, AUTH_TEXT_SIZE, "wick_%s", random);
    memcpy(t->id, id, sizeof t->id);
    sha256_of(ret_text, strlen(ret_text), t->hash);
    t->created_ns = clock_wall() / NS_PER_S * NS_PER_S;
    r = add_token(&a->tokens, t);
    return r < 0 ? err_set(e, r, "more than %d tokens", AUTH_TOKENS_MAX) : 0;
}

_unshared_ int auth_open_fixed(enum auth_scope scope, char ret_text[AUTH_TEXT_SIZE], struct auth **ret, struct err *e)
{
    _cleanup_(auth_freep) struct auth *a = auth_alloc();
    struct auth_token t = {.scope = scope};
    int r;

    if (!a)
        return -ENOMEM;
    a->required = true;
    r = make_token(a, &t, ret_text, e);
    if (r < 0)
        return r;
    snprintf(a->cookie, sizeof a->cookie, "wick_%s", t.id);
    *ret = TAKE(a);
    return 0;
}

const char *auth_cookie(const struct auth *a)
{
    return a->cookie;
}

int auth_create(struct auth *a, const struct auth_request *q, char ret_text[AUTH_TEXT_SIZE], struct auth_token *ret,
                struct err *e)
{
    struct auth_token t = {.scope = q->scope};
    struct str tenant = q->tenant, note = q->note;
    int r;

    if (tenant.n >= sizeof t.tenant || !word_ok(tenant) || str_is(tenant, "-"))
        return err_set(e, -EINVAL, "tenant '%.*s': a name has at most %zu bytes and no spaces", STR_FMT(tenant),
                       sizeof t.tenant - 1);
    if (note.n >= sizeof t.note || str_find_char(note, '\n') >= 0)
        return err_set(e, -EINVAL, "the note has more than %zu bytes or more than one line", sizeof t.note - 1);
    copy_text(t.tenant, sizeof t.tenant, tenant);
    copy_text(t.note, sizeof t.note, note);
    pthread_mutex_lock(&a->lock);
    r = load(a, e);
    if (r == 0)
        r = make_token(a, &t, ret_text, e);
    if (r == 0)
        r = save(a, e);
    pthread_mutex_unlock(&a->lock);
    if (r == 0)
        *ret = t;
    return r;
}

int auth_revoke(struct auth *a, struct str id, struct err *e)
{
    size_t kept = 0, n;
    int r;

    pthread_mutex_lock(&a->lock);
    r = load(a, e);
    n = a->tokens.n;
    for (size_t i = 0; r == 0 && i < n; i++)
        if (!str_is(id, a->tokens.v[i].id))
            a->tokens.v[kept++] = a->tokens.v[i];
    a->tokens.n = r == 0 ? kept : n;
    if (r == 0 && kept == n)
        r = err_set(e, -ENOENT, "no token has the id '%.*s'; 'wick token list' shows all ids", STR_FMT(id));
    else if (r == 0)
        r = save(a, e);
    pthread_mutex_unlock(&a->lock);
    return r;
}

int auth_list(struct auth *a, struct auth_token **ret, size_t *ret_n)
{
    int r = 0;

    pthread_mutex_lock(&a->lock);
    refresh(a);
    *ret = mem_dup(a->tokens.v, a->tokens.n * sizeof **ret);
    *ret_n = a->tokens.n;
    if (!*ret)
        r = -ENOMEM;
    pthread_mutex_unlock(&a->lock);
    return r;
}
