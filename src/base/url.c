/* SPDX-License-Identifier: Apache-2.0 */
/* Removes passwords from URLs before they are printed, and takes endpoints apart (url.h). */
#include "base/url.h"

#include <errno.h>
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

/* "host:port", "[::1]:port", "host" */
static int read_authority(struct str a, struct url_endpoint *ret, struct err *e)
{
    struct str host = a, port = {0};
    uint64_t n = 0;
    ptrdiff_t at;

    if (str_find_char(a, '@') >= 0)
        return err_set(e, -EINVAL, "endpoint: user names and passwords in URLs are not supported; use a header");
    if (a.n && a.p[0] == '[') {
        at = str_find_char(a, ']');
        if (at < 0)
            return err_set(e, -EINVAL, "endpoint '%.*s': '[' without ']'", STR_FMT(a));
        host = str_slice(a, 1, (size_t) at);
        port = str_slice(a, (size_t) at + 1, a.n);
    } else if ((at = str_find_char(a, ':')) >= 0) {
        host = str_slice(a, 0, (size_t) at);
        port = str_slice(a, (size_t) at, a.n);
    }
    if (port.n && (port.p[0] != ':' || str_to_u64(str_slice(port, 1, port.n), 10, &n) < 0 || !n || n > 65535))
        return err_set(e, -EINVAL, "endpoint '%.*s' has no valid port", STR_FMT(a));
    if (!host.n)
        return err_set(e, -EINVAL, "endpoint '%.*s' has no host", STR_FMT(a));
    ret->host = host;
    ret->port = (uint16_t) n;
    return 0;
}

int url_endpoint(const char *text, struct url_endpoint *ret, struct err *e)
{
    struct str rest = str_from(text), authority;
    struct url_endpoint u = {.scheme = true};
    char shown[URL_SHOWN];
    int r;

    if (str_starts(rest, STR("http://"))) {
        rest = str_slice(rest, 7, rest.n);
    } else if (str_starts(rest, STR("https://"))) {
        rest = str_slice(rest, 8, rest.n);
        u.tls = true;
    } else if (str_find(rest, STR("://")) >= 0) {
        return err_set(e, -EINVAL, "endpoint '%s': the scheme must be http or https",
                       url_redact(text, shown, sizeof shown));
    } else {
        u.scheme = false;
    }
    authority = str_cut(&rest, '/');
    r = read_authority(authority, &u, e);
    if (r < 0)
        return r;
    if (rest.p)
        u.path = (struct str){rest.p - 1, rest.n + 1};
    *ret = u;
    return 0;
}
