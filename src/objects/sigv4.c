/* SPDX-License-Identifier: Apache-2.0 */
/* Signs requests to S3; see sigv4.h. The vectors of AWS's documentation are in tests/unit/test_objects.c. */
#include "objects/sigv4.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

enum { BLOCK = 64 };

void sigv4_date(int64_t wall_ns, char ret[SIGV4_DATE_SIZE])
{
    time_t t = (time_t) (wall_ns / NS_PER_S);
    struct tm tm;

    gmtime_r(&t, &tm);
    if (strftime(ret, SIGV4_DATE_SIZE, "%Y%m%dT%H%M%SZ", &tm) == 0)
        ret[0] = 0;
}

void sigv4_hex(const uint8_t hash[SHA256_SIZE], char ret[2 * SHA256_SIZE + 1])
{
    for (int i = 0; i < SHA256_SIZE; i++)
        snprintf(ret + 2 * i, 3, "%02x", hash[i]);
}

void sigv4_hmac(struct str key, struct str text, uint8_t ret[SHA256_SIZE])
{
    uint8_t block[BLOCK] = {0}, pad[BLOCK], inner[SHA256_SIZE];
    struct sha256 s;

    if (key.n > BLOCK)
        sha256_of(key.p, key.n, block);
    else if (key.n)
        memcpy(block, key.p, key.n);
    for (int i = 0; i < BLOCK; i++)
        pad[i] = block[i] ^ 0x36;
    sha256_init(&s);
    sha256_add(&s, pad, BLOCK);
    sha256_add(&s, text.p, text.n);
    sha256_final(&s, inner);
    for (int i = 0; i < BLOCK; i++)
        pad[i] = block[i] ^ 0x5c;
    sha256_init(&s);
    sha256_add(&s, pad, BLOCK);
    sha256_add(&s, inner, sizeof inner);
    sha256_final(&s, ret);
}

static struct str bytes_of(const uint8_t hash[SHA256_SIZE])
{
    return (struct str){(const char *) hash, SHA256_SIZE};
}

static void put_names(const struct sigv4_request *r, struct buf *ret)
{
    for (size_t i = 0; i < r->n_headers; i++) {
        if (i)
            buf_putc(ret, ';');
        buf_put_str(ret, r->headers[i].name);
    }
}

static void put_request(const struct sigv4_request *r, struct buf *ret)
{
    buf_printf(ret, "%s\n%.*s\n%.*s\n", r->method, STR_FMT(r->path), STR_FMT(r->query));
    for (size_t i = 0; i < r->n_headers; i++)
        buf_printf(ret, "%.*s:%.*s\n", STR_FMT(r->headers[i].name), STR_FMT(r->headers[i].value));
    buf_putc(ret, '\n');
    put_names(r, ret);
    buf_printf(ret, "\n%s", r->payload);
}

void sigv4_sign(const struct sigv4_keys *keys, const struct sigv4_request *r, struct buf *ret)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT, to_sign = BUF_INIT, secret = BUF_INIT;
    struct str day = {r->date, 8};
    uint8_t key[SHA256_SIZE], hash[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1];

    put_request(r, &text);
    sha256_of(text.p, text.n, hash);
    sigv4_hex(hash, hex);
    buf_printf(&to_sign, "AWS4-HMAC-SHA256\n%s\n%.*s/%s/%s/aws4_request\n%s", r->date, STR_FMT(day), r->region,
               r->service, hex);
    buf_printf(&secret, "AWS4%s", keys->secret);
    sigv4_hmac(buf_str(&secret), day, key);
    sigv4_hmac(bytes_of(key), str_from(r->region), key);
    sigv4_hmac(bytes_of(key), str_from(r->service), key);
    sigv4_hmac(bytes_of(key), STR("aws4_request"), key);
    sigv4_hmac(bytes_of(key), buf_str(&to_sign), hash);
    sigv4_hex(hash, hex);
    buf_printf(ret, "AWS4-HMAC-SHA256 Credential=%s/%.*s/%s/%s/aws4_request,SignedHeaders=", keys->id, STR_FMT(day),
               r->region, r->service);
    put_names(r, ret);
    buf_printf(ret, ",Signature=%s", hex);
    if (buf_error(&text) || buf_error(&to_sign) || buf_error(&secret))
        buf_fail(ret, -ENOMEM);
    if (secret.p)
        explicit_bzero(secret.p, secret.n);
}
