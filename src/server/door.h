/* SPDX-License-Identifier: Apache-2.0 */
/* Who stands at the door: Host and Origin checks, then the token or session. See server.h for the rules. */
#ifndef SERVER_DOOR_H
#define SERVER_DOOR_H

#include "net/server.h"
#include "server/auth.h"

/* hosts: names besides loopback's, NULL-terminated; "*" is any. 0 with *ret filled (scope AUTH_NONE for a stranger), or the status to answer with *ret_why in words. */
int door_check(struct auth *a, const char *const *hosts, const struct http_request *q, struct auth_identity *ret,
               const char **ret_why);
bool door_peer_is_local(const struct http_request *q);

#endif
