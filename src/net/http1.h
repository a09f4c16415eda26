/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 on the wire: heads and bodies, for both directions, without any I/O. Strict where leniency lets requests be
 * smuggled: both Content-Length and Transfer-Encoding, differing lengths, blanks before a colon, bare CR, folded lines
 * are all -EBADMSG. A bare LF ends a line (RFC 9112 allows it) of a head, but not of a chunk.
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

/* Where the head ends: its length with the empty line, 0 when it is not complete. from: bytes known not to hold the end
 * yet (pass the length of the last try). -EMSGSIZE over limit. */
ssize_t http1_head_length(const char *p, size_t n, size_t from, size_t limit);
/* Parses a complete head of n bytes. Strings point into p, whose header names are folded to lower case in place; the
 * header array comes from the arena. -EBADMSG; -E2BIG for too many headers; -EPROTONOSUPPORT for another version;
 * -ENOTSUP for a transfer coding that is not "chunked". */
int http1_parse_request(char *p, size_t n, const struct http1_limits *lim, struct arena *a, struct http1_head *ret,
                        struct err *e);
/* head_request: it answers HEAD, so there is no body whatever the headers say. */
int http1_parse_response(char *p, size_t n, const struct http1_limits *lim, bool head_request, struct arena *a,
                         struct http1_head *ret, struct err *e);

/* A body being read. */
struct http1_body {
    enum http1_framing framing;
    uint64_t left;     /* of the content or of the chunk */
    uint32_t overhead; /* bytes of chunk lines and trailers since the last data: bounded */
    uint8_t state;
    bool done;
};

void http1_body_init(struct http1_body *b, const struct http1_head *h);
/* Takes bytes off *p, *n. Returns the next run of content (pointing into *p, empty when more input is needed or the body
 * is done: see done). -EBADMSG for bad chunks. */
int http1_body_next(struct http1_body *b, const char **p, size_t *n, struct str *ret);

/* Writers. */
void http1_put_header(struct buf *b, struct str name, struct str value);

#endif
