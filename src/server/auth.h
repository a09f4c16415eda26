/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authentication and rights: bearer tokens, and browser sessions that are created from one.
 *
 * Tokens live in a text file, one per line, written by `wick token` and read again by the server when it changes:
 *
 *     id  sha256-of-the-token  scope  tenant  created  note
 *
 * Only the hash is stored: the token itself is shown once, when it is created. A token belongs to one tenant ("" is the
 * default one). Scopes: read queries, write sends, admin does both, deletes, and may profile processes.
 *
 * A file that exists but holds no tokens denies everything: access without a token is possible only if the file was
 * never written. A file that cannot be read or has a damaged line changes nothing: the tokens that were read before
 * stay in force until the file is valid again. Removing the file while the server runs denies everything, too.
 *
 * Without a token file, the users given to auth_trust() are administrators, identified by the uid of their connection
 * over loopback or a unix socket; other users of the machine may send profiles but not read; other machines have the
 * rights that auth_allow_anonymous() gives, by default none. Safe from any thread.
 */
#ifndef SERVER_AUTH_H
#define SERVER_AUTH_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"

/* Bits. AUTH_SEND allows sending profiles only, AUTH_WRITE symbol files too; admin includes all. */
enum auth_scope { AUTH_NONE = 0, AUTH_READ = 1, AUTH_SEND = 8, AUTH_WRITE = 2 | AUTH_SEND, AUTH_ADMIN = 15 };

enum {
    AUTH_ID_SIZE = 9,
    AUTH_TENANT_SIZE = 65,
    AUTH_NOTE_SIZE = 81,
    AUTH_PERSON_SIZE = 201,
    AUTH_TEXT_SIZE = 64,
    AUTH_TOKENS_MAX = 10000
};

struct auth_token {
    char id[AUTH_ID_SIZE]; /* used in lists and for revoking */
    uint8_t hash[SHA256_SIZE];
    enum auth_scope scope;
    char tenant[AUTH_TENANT_SIZE];
    char note[AUTH_NOTE_SIZE];
    int64_t created_ns;
};

/* The identity and rights of the sender of a request. */
struct auth_identity {
    enum auth_scope scope;
    char tenant[AUTH_TENANT_SIZE];
    char token_id[AUTH_ID_SIZE];   /* "" if access needs no token; of a person "@" and a hash */
    char person[AUTH_PERSON_SIZE]; /* people.h; "": known by a token, or not at all */
};

struct auth;

/* Reads the tokens from a file, which need not exist yet. */
int auth_open(const char *path, struct auth **ret, struct err *e);
/* The same for a server, which a file that cannot be read does not keep from starting: it is logged and read again every
 * second, and every token is refused until then. */
int auth_open_serving(const char *path, struct auth **ret);
/* True while the file could not be read since the start: who may do what is not known. */
bool auth_locked(struct auth *a);
void auth_free(struct auth *a);
DEFINE_CLEANUP(struct auth *, auth_free)

/* Generates one token with this scope for the default tenant and keeps it in memory only. ret_text receives it. */
int auth_open_fixed(enum auth_scope scope, char ret_text[AUTH_TEXT_SIZE], struct auth **ret, struct err *e);
/* The name of the session cookie. Each auth_open_fixed() has its own, because all ports of a host share cookies. */
const char *auth_cookie(const struct auth *a);

/* While there are no tokens, connections of this user have administrator rights. At most AUTH_TRUSTED_MAX users, set
 * before the server listens. */
enum { AUTH_TRUSTED_MAX = 4 };
void auth_trust(struct auth *a, uid_t uid);
bool auth_trusts(const struct auth *a, uid_t uid);

/* What peers on other machines may do while there are no tokens (default: nothing). Set before the server listens. */
void auth_allow_anonymous(struct auth *a, enum auth_scope scope);
enum auth_scope auth_anonymous(const struct auth *a);

/* People are known by other means than tokens (people.h): from now on every request needs a token, a session or a person, as if there
 * were a file with tokens. Before the server listens; c must outlive a. */
struct people_config;
void auth_set_people(struct auth *a, const struct people_config *c);
const struct people_config *auth_people(const struct auth *a); /* NULL: none */

/* True if a token is required: there are tokens, or there were. */
bool auth_required(struct auth *a);
/* Fills *ret; -EACCES for an unknown token. Takes the same time for all wrong tokens of the same length. */
int auth_check(struct auth *a, struct str token, struct auth_identity *ret);

/* --- sessions: a cookie's value stands for the token given at login --- */
enum { AUTH_SESSION_SIZE = 65, AUTH_SESSIONS_MAX = 10000, AUTH_TOKEN_SESSIONS_MAX = 100 };
/* A token that has AUTH_TOKEN_SESSIONS_MAX sessions loses its oldest one to the new one; when there are AUTH_SESSIONS_MAX,
 * the token that has most of them does. */
int auth_login(struct auth *a, struct str token, char ret_session[AUTH_SESSION_SIZE], struct err *e);
/* For a person; it ends after life, which is at most 12 hours. */
int auth_login_person(struct auth *a, const struct auth_identity *who, int64_t life,
                      char ret_session[AUTH_SESSION_SIZE], struct err *e);
int auth_session(struct auth *a, struct str session, struct auth_identity *ret);
void auth_logout(struct auth *a, struct str session);

/* --- administration (wick token) --- */
struct auth_request {
    enum auth_scope scope;
    struct str tenant, note;
};
/* ret_text receives the token, to be shown once. */
int auth_create(struct auth *a, const struct auth_request *q, char ret_text[AUTH_TEXT_SIZE], struct auth_token *ret,
                struct err *e);
int auth_revoke(struct auth *a, struct str id, struct err *e); /* -ENOENT */
/* All tokens, newest last; *ret is mem_free'd by the caller. */
int auth_list(struct auth *a, struct auth_token **ret, size_t *ret_n);

const char *auth_scope_name(enum auth_scope s);
int auth_scope_parse(struct str s, enum auth_scope *ret);

#endif
