/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What HTTP servers and clients share: headers, URLs, query strings, cookies, dates. Header names are lower-case
 * everywhere inside wick; those of HTTP/1.1 are converted when they are parsed.
 */
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct http_header {
    struct str name, value;
};

/* A growable list whose strings and array live in an arena. */
struct http_headers {
    struct http_header *v;
    uint32_t n, cap;
};

/* The first value with that name; p == NULL if there is none. */
struct str http_headers_get(const struct http_headers *h, const char *name);
bool http_headers_has(const struct http_headers *h, const char *name);
/* Appends without copying the strings. 0, -ENOMEM. */
int http_headers_push(struct http_headers *h, struct arena *a, struct str name, struct str value);
/* Copies both, the name in lower case. -EINVAL if they hold bytes that a header may not (which prevents header
 * injection). */
int http_headers_add(struct http_headers *h, struct arena *a, struct str name, struct str value);
/* True if the comma-separated list contains the token, ignoring case: ("keep-alive, Upgrade", "upgrade"). */
bool http_list_has(struct str list, const char *token);
bool http_name_ok(struct str name);   /* a token of RFC 9110 */
bool http_value_ok(struct str value); /* no NUL, CR, LF or other control bytes except tab */
bool http_eq_nocase(struct str a, const char *b);

const char *http_reason(int status); /* "Not Found"; "" for unknown ones */

/* The value of a cookie in the "cookie" headers; p == NULL if it is absent. */
struct str http_cookie(const struct http_headers *h, const char *name);

/* --- URLs --- */
struct http_url {
    bool https;
    char host[256];      /* without brackets */
    char port[8];        /* as given, or the scheme's default */
    char authority[272]; /* for Host: with the port unless it is the scheme's default */
    const char *target;  /* points into the text: path and query, "" or starting with '/' or '?' */
    char unix_path[108]; /* "unix:///path.sock": everything is sent there, target is "" */
};

int http_url_parse(const char *text, struct http_url *ret, struct err *e);

/* --- query strings and percent-coding --- */
/* Decodes into the arena; plus: '+' means a space (forms, query strings). {NULL,0} on bad escapes or no memory. */
struct str http_percent_decode(struct arena *a, struct str s, bool plus);
void http_percent_encode(struct buf *b, struct str s); /* encodes all but RFC 3986 unreserved */
/* Iterates over "a=1&b=2": returns true and the next pair, decoded, until the end. Pairs that cannot be decoded are
 * skipped. */
bool http_query_next(struct str *query, struct arena *a, struct str *ret_name, struct str *ret_value);
/* The first value with that name; p == NULL if it is absent. */
struct str http_query_get(struct str query, struct arena *a, const char *name);

/* --- dates --- */
void http_date_format(int64_t wall_ns, char out[40]); /* "Sun, 06 Nov 1994 08:49:37 GMT" */
/* Retry-After: seconds or a date, as nanoseconds from now; -EINVAL. At most a day. */
int http_retry_after(struct str value, int64_t now_wall, int64_t *ret);

#endif
