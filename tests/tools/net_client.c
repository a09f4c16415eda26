/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of src/net as a command, for tests against real servers.
 *
 *   net_client [--http2|--auto] [--grpc] [--ca F] [--cert F --key F] [--insecure] [--name HOST] [--min13]
 *              [--data FILE] [--timeout MS] [--gzip] [--header name:value]... [--repeat N] URL
 *
 * Prints one line per request: "STATUS BYTES" (gRPC: "CODE BYTES retry=NS message"), or "error: words". Exit 1 when one failed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "grpc_client.h"
#include "net/client.h"

static struct loop *loop;
static int left, failed;

static void http_done(struct client_request *r)
{
    if (r->error)
        printf("error: %s\n", r->err.message);
    else
        printf("%d %u %.*s\n", r->status, r->answer.n, (int) MIN(r->answer.n, 200), r->answer.p ? r->answer.p : "");
    failed |= r->error != 0;
    client_request_done(r);
    if (--left == 0)
        loop_stop(loop);
}

static void grpc_done(struct grpc_call *c)
{
    printf("%s %u retry=%lld %s\n", grpc_code_name(c->status.code), c->answer.n,
           c->status.has_retry ? (long long) c->status.retry_ns : -1ll, c->status.message);
    failed |= c->status.code != GRPC_OK;
    grpc_call_done(c);
    if (--left == 0)
        loop_stop(loop);
}

int main(int argc, char **argv)
{
    struct client_options o = {0};
    struct tls_options t = {0};
    struct tls_context *tls = NULL;
    struct http_header headers[16];
    struct client *client;
    struct client_request *requests;
    struct grpc_call *calls;
    struct http_url url;
    struct buf data = BUF_INIT;
    struct err e = {0};
    int64_t timeout = 10 * NS_PER_S;
    int repeat = 1, n_headers = 0;
    bool grpc = false, gzip = false;

    for (int i = 1; i < argc; i++) {
        const char *k = argv[i];
        bool more = i + 1 < argc;

        if (strcmp(k, "--http2") == 0)
            o.protocol = CLIENT_HTTP2;
        else if (strcmp(k, "--auto") == 0)
            o.protocol = CLIENT_AUTO;
        else if (strcmp(k, "--grpc") == 0)
            grpc = true, o.protocol = CLIENT_HTTP2;
        else if (strcmp(k, "--gzip") == 0)
            gzip = true;
        else if (strcmp(k, "--insecure") == 0)
            t.insecure_skip_verify = true;
        else if (strcmp(k, "--min13") == 0)
            t.min_version = TLS_VERSION_1_3;
        else if (strcmp(k, "--ca") == 0 && more)
            t.ca_file = argv[++i];
        else if (strcmp(k, "--cert") == 0 && more)
            t.cert_file = argv[++i];
        else if (strcmp(k, "--key") == 0 && more)
            t.key_file = argv[++i];
        else if (strcmp(k, "--name") == 0 && more)
            t.server_name = argv[++i];
        else if (strcmp(k, "--timeout") == 0 && more)
            timeout = strtol(argv[++i], NULL, 10) * NS_PER_MS;
        else if (strcmp(k, "--repeat") == 0 && more)
            repeat = (int) strtol(argv[++i], NULL, 10);
        else if (strcmp(k, "--data") == 0 && more)
            fd_read_file(argv[++i], 64 << 20, &data, NULL);
        else if (strcmp(k, "--header") == 0 && more && n_headers < 16) {
            struct str value = str_from(argv[++i]), name = str_cut(&value, ':');

            headers[n_headers++] = (struct http_header){name, value};
        } else {
            o.url = k;
        }
    }
    t.http2 = o.protocol != CLIENT_HTTP1;
    t.http1 = o.protocol != CLIENT_HTTP2;
    if (!o.url || loop_new(&loop, &e) < 0 || http_url_parse(o.url, &url, &e) < 0)
        goto fail;
    if (url.https && tls_openssl.context_new(&t, false, &tls, &e) < 0)
        goto fail;
    o.loop = loop;
    o.tls = tls;
    if (client_new(&o, &client, &e) < 0)
        goto fail;
    requests = calloc((size_t) repeat, sizeof *requests);
    calls = calloc((size_t) repeat, sizeof *calls);
    left = repeat;
    for (int i = 0; i < repeat; i++)
        if (grpc) {
            calls[i] = (struct grpc_call){.path = str_from(url.target),
                                          .message = buf_str(&data),
                                          .headers = headers,
                                          .n_headers = (size_t) n_headers,
                                          .timeout_ns = timeout,
                                          .done = grpc_done,
                                          .compression = gzip ? COMPRESS_GZIP : COMPRESS_NONE,
                                          .max_answer = 32 << 20};
            grpc_call_start(client, &calls[i]);
        } else {
            requests[i] = (struct client_request){.method = data.n ? "POST" : "GET",
                                                  .target = str_from(url.target),
                                                  .headers = headers,
                                                  .n_headers = (size_t) n_headers,
                                                  .body = buf_str(&data),
                                                  .timeout_ns = timeout,
                                                  .done = http_done};
            client_start(client, &requests[i]);
        }
    loop_run(loop);
    client_free(client);
    loop_free(loop);
    tls_context_free(tls);
    buf_done(&data);
    free(requests);
    free(calls);
    return failed;
fail:
    printf("error: %s\n", err_message(&e, -1));
    return 1;
}
