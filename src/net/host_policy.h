/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one policy for the Host and Origin headers, shared by `wick serve`, `wick pprof -http` and the SDK's /debug/pprof.
 *
 * It stops DNS rebinding: a web page under a name that its owner points at this machine makes the browser send requests
 * here, and the only trace is the name in Host. IP addresses cannot be rebound, so every address literal is allowed; of
 * names, only `localhost` and those that the operator listed are.
 */
#ifndef NET_HOST_POLICY_H
#define NET_HOST_POLICY_H

#include "base/str.h"

/*
 * True if a request with this Host header (or :authority), with or without a port, may be answered. names are the allowed
 * names besides localhost, NULL-terminated; names may be NULL; "*" allows every well-formed value. A missing or malformed
 * value is not allowed.
 */
bool host_policy_allows(struct str host, const char *const *names);

/* True if origin ("http://host:port") names the host that the request was sent to. "null" never does. */
bool host_policy_same_origin(struct str origin, struct str host);

#endif
