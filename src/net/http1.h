/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 on the wire: heads and bodies, for both directions, without any I/O. Strict where leniency permits request
 * smuggling: both Content-Length and Transfer-Encoding, differing lengths, blanks before a colon, bare CR and folded
 * lines are all -EBADMSG. A bare LF ends a line of a head (RFC 9112 allows it), but not of a chunk.
 */
#ifndef NET_HTTP1_H
#define NET_HTTP1_H

#include <sys/types.h>

#include "net/http.h"

enum http1_framing {
    HTTP1_NO_BODY,
    HTTP1_LENGTH, /* content_length bytes */
    HTTP1_CHUNKED,
    HTTP1_TO_CLOSE, /* responses only */
};

struct http1_limits {
    size_t head_bytes; /* the whole head */
    uint32_t headers;  /* lines */
    bool head_request; /* responses: to a HEAD request; no body follows whatever the headers say */
};

struct http1_head {
    struct str method, target; /* requests */
    int status;                /* responses */
    int minor;                 /* of HTTP/1.x: 0 or 1 */
    struct http_headers headers;
    enum http1_framing framing;
    uint64_t content_length;
    bool keep_alive, expect_continue;
};

/* The length of the head with its empty line, 0 if it is not complete. from: number of bytes known not to contain the
 * end (pass the length of the last try). -EMSGSIZE over limit. */
ssize_t http1_head_length(const char *p, size_t n, size_t from, size_t limit);
/* Parses a complete head of n bytes. Strings point into p, whose header names are converted to lower case in place; the
 * header array comes from the arena. -EBADMSG; -E2BIG for too many headers; -EPROTONOSUPPORT for another version;
 * -ENOTSUP for a transfer coding that is not "chunked". */
int http1_parse_request(char *p, size_t n, const struct http1_limits *lim, struct arena *a, struct http1_head *ret,
                        struct err *e);
int http1_parse_response(char *p, size_t n, const struct http1_limits *lim, struct arena *a, struct http1_head *ret,
                         struct err *e);

/* A body being read. */
struct http1_body {
    enum http1_framing framing;
    uint64_t left;     /* bytes left of the content or of the chunk */
    uint32_t overhead; /* bytes of chunk lines and trailers since the last data; limited */
    uint8_t state;
    bool done;
};

void http1_body_init(struct http1_body *b, const struct http1_head *h);
/* Consumes bytes from *p, *n. Returns the next run of content (pointing into *p; empty if more input is needed or the
 * body is complete: see done). -EBADMSG for bad chunks. */
int http1_body_next(struct http1_body *b, const char **p, size_t *n, struct str *ret);

/* Writers. */
void http1_put_header(struct buf *b, struct str name, struct str value);

#endif
