/* SPDX-License-Identifier: Apache-2.0 */
/* Access check of a request: Host and Origin, then the token or session. See front.h for the rules. */
#ifndef SERVER_REQUEST_GATE_H
#define SERVER_REQUEST_GATE_H

#include "net/server.h"
#include "server/auth.h"

/* hosts: names allowed besides the loopback names, NULL-terminated; "*" allows any. Returns 0 with *ret filled (scope
 * AUTH_NONE for an unknown client), or the HTTP status to answer with, and the error message in *ret_why. */
int request_gate_check(struct auth *a, const char *const *hosts, const struct http_request *q,
                       struct auth_identity *ret, const char **ret_why);
bool request_gate_peer_is_local(const struct http_request *q);

#endif
