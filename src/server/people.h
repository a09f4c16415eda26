/* SPDX-License-Identifier: Apache-2.0 */
/*
 * People who are known by something else than a token: a proxy that has authenticated them and names them in headers, or an OpenID
 * provider (oidc.h). Grants say what a person may do: the first one whose user or group fits; without one, nothing.
 *
 * Headers are believed only of peers in `proxy.from`; such a peer is never taken for a user of this machine. Only configuration, set
 * before the server listens: safe from any thread.
 */
#ifndef SERVER_PEOPLE_H
#define SERVER_PEOPLE_H

#include "conf/option.h"
#include "net/server.h"
#include "server/auth.h"

struct people_grant {
    const char *group, *user, *tenant;
    int scope; /* index into the option's words */
};

struct people_proxy {
    bool present;
    struct option_strings from;
    const char *user_header, *groups_header;
};

struct people_oidc {
    bool present;
    const char *issuer, *client_id, *client_secret, *ca_file, *user_claim, *groups_claim, *name;
    struct option_strings scopes;
    int64_t session;
};

struct people_config {
    struct option_tables grants; /* struct people_grant */
    struct people_proxy proxy;
    struct people_oidc oidc;
};

extern const struct option people_grant_options[], people_proxy_options[], people_oidc_options[];

/* -EINVAL for what can never work: nothing is granted, an address that is none, an issuer without TLS. */
int people_check(const struct people_config *c, const struct conf_node *auth, struct err *e);

/* Gives *ret the rights of the first grant that fits; -EACCES if there is none. groups: separated by commas. */
int people_identify(const struct people_config *c, struct str user, struct str groups, struct auth_identity *ret);

/* Whom the proxy names: 1 with *ret filled (scope AUTH_NONE: no grant fits), 0 if the peer is a trusted proxy that names no one
 * (or has a header twice: then one of them may be the client's), -ENOENT if the peer is not a trusted proxy. */
int people_of_proxy(const struct people_config *c, const struct http_request *q, struct auth_identity *ret);

#endif
