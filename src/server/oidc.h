/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Login with an OpenID provider: authorization code with PKCE (RFC 6749, 7636; OpenID Connect Core 1.0, 3.1).
 *
 * The ID token is fetched from the provider itself over TLS, which authenticates it (Core, 3.1.3.7, step 6): its signature is not looked
 * at, its issuer, audience, times and nonce are. A login belongs to the browser that began it, by a cookie; it is used once, within ten
 * minutes, and at most OIDC_LOGINS_MAX wait at a time. Both calls ask the provider and block. Safe from any thread.
 */
#ifndef SERVER_OIDC_H
#define SERVER_OIDC_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "server/people.h"

enum { OIDC_STATE_SIZE = 65, OIDC_LOGINS_MAX = 1000 };

struct oidc;

int oidc_new(const struct people_config *c, struct oidc **ret);
void oidc_free(struct oidc *o);
const struct people_oidc *oidc_config(const struct oidc *o);

/* ret_url: where the browser goes. redirect: URL of this server's callback; to: path of this server for afterwards. */
int oidc_begin(struct oidc *o, struct str redirect, struct str to, char ret_state[OIDC_STATE_SIZE], struct buf *ret_url,
               struct err *e);
/* What the provider's redirect brings back. */
struct oidc_answer {
    struct str state, code;
};
/* -EACCES: the answer is not of a login that was begun here, or the provider or no grant lets the person in. *ret_to is in a. */
int oidc_finish(struct oidc *o, const struct oidc_answer *q, struct arena *a, struct auth_identity *ret,
                struct str *ret_to, struct err *e);

/* Decodes an ID token and checks what it claims; also for tests and fuzzing. */
struct oidc_claims {
    struct str user, groups; /* groups: separated by commas */
};
struct oidc_expected {
    const struct people_oidc *config;
    const char *nonce;
    int64_t now; /* wall clock, ns */
};
int oidc_claims_read(const struct oidc_expected *x, struct str token, struct arena *a, struct oidc_claims *ret,
                     struct err *e);

#endif
