/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What HTTP servers and clients share: headers, URLs, query strings, cookies, dates. Names of headers are lower-case
 * everywhere inside wick; HTTP/1.1 is folded to that on the way in.
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

/* A growing list whose strings and array live in an arena. */
struct http_headers {
    struct http_header *v;
    uint32_t n, cap;
};

/* The first value of that name, with p == NULL when there is none. */
struct str http_headers_get(const struct http_headers *h, const char *name);
bool http_headers_has(const struct http_headers *h, const char *name);
/* Appends without copying the strings. 0, -ENOMEM. */
int http_headers_push(struct http_headers *h, struct arena *a, struct str name, struct str value);
/* Copies both, the name to lower case. -EINVAL when they hold what a header may not (so nothing can be smuggled in). */
int http_headers_add(struct http_headers *h, struct arena *a, struct str name, struct str value);
/* True when the comma-separated list holds the token, without regard to case: ("keep-alive, Upgrade", "upgrade"). */
bool http_list_has(struct str list, const char *token);
bool http_name_ok(struct str name);   /* a token of RFC 9110 */
bool http_value_ok(struct str value); /* no NUL, CR, LF or other control bytes but tab */
bool http_eq_nocase(struct str a, const char *b);

const char *http_reason(int status); /* "Not Found"; "" for unknown ones */

/* The value of a cookie in the "cookie" headers; p == NULL without it. */
struct str http_cookie(const struct http_headers *h, const char *name);

/* --- URLs --- */
struct http_url {
    bool https;
    char host[256];      /* without brackets */
    char port[8];        /* given, or by scheme */
    char authority[272]; /* for Host: with the port unless it is the scheme's own */
    const char *target;  /* into the text: path and query, "" or starting with '/' or '?' */
    char unix_path[108]; /* "unix:///path.sock": everything is sent there, target is "" */
};

int http_url_parse(const char *text, struct http_url *ret, struct err *e);

/* --- query strings and percent-coding --- */
/* Decodes into the arena; plus: '+' means a space (forms, query strings). {NULL,0} on bad escapes or no memory. */
struct str http_percent_decode(struct arena *a, struct str s, bool plus);
void http_percent_encode(struct buf *b, struct str s); /* all but RFC 3986 unreserved */
/* Walks "a=1&b=2": true and the next pair, decoded, until the end. Pairs that do not decode are skipped. */
bool http_query_next(struct str *query, struct arena *a, struct str *ret_name, struct str *ret_value);
/* The first value of that name; p == NULL without it. */
struct str http_query_get(struct str query, struct arena *a, const char *name);

/* --- dates --- */
void http_date_format(int64_t wall_ns, char out[40]); /* "Sun, 06 Nov 1994 08:49:37 GMT" */
/* Retry-After: seconds or a date, as nanoseconds from now; -EINVAL. At most a day. */
int http_retry_after(struct str value, int64_t now_wall, int64_t *ret);

#endif
