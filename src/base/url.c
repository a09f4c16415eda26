/* SPDX-License-Identifier: Apache-2.0 */
/* Removes passwords from URLs before they are printed (url.h). */
#include "base/url.h"

#include <stdio.h>
#include <string.h>

const char *url_redact(const char *url, char *out, size_t n)
{
    const char *host = strstr(url, "://"), *at, *colon;

    host = host ? host + 3 : url;
    at = memrchr(host, '@', strcspn(host, "/?#"));
    colon = at ? memchr(host, ':', (size_t) (at - host)) : NULL;
    if (colon)
        snprintf(out, n, "%.*s:xxxxx%s", (int) (colon - url), url, at);
    else
        snprintf(out, n, "%s", url);
    return out;
}
