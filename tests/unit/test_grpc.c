/* SPDX-License-Identifier: Apache-2.0 */
/* gRPC between a server and a client: codings, statuses, limits, and the parts of its framing. */
#include "../tools/grpc_client.h"
#include "net_pair.h"

static void call_done(struct grpc_call *c)
{
    n_done++;
}

static void test_grpc_calls(void)
{
    static const enum compression all[] = {COMPRESS_NONE, COMPRESS_GZIP, COMPRESS_ZLIB, COMPRESS_ZSTD};
    char *big = mem_zalloc(600000);
    struct client *c;

    start_server(NULL);
    c = new_client(CLIENT_HTTP2);
    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        struct grpc_call call = {.path = STR("/x.Y/Echo"),
                                 .message = {big, 600000},
                                 .compression = all[i],
                                 .timeout_ns = 5 * NS_PER_S,
                                 .done = call_done};

        eq_int(grpc_call_start(c, &call), 0);
        run_until((int) i + 1);
        eq_int(call.status.code, GRPC_OK);
        ok(call.from_peer);
        eq_int(call.answer.n, 600000);
        grpc_call_done(&call);
    }
    client_free(c);
    stop_server();
    mem_free(big);
}

static void test_grpc_failures(void)
{
    struct grpc_call fail = {.path = STR("/x.Y/Fail"), .message = STR("m"), .done = call_done};
    struct grpc_call large = {.path = STR("/x.Y/Echo"), .done = call_done};
    struct grpc_call bomb = {.path = STR("/x.Y/Echo"), .compression = COMPRESS_GZIP, .done = call_done};
    char *big = mem_zalloc(2 << 20);
    struct client *c;

    start_server(NULL);
    c = new_client(CLIENT_HTTP2);
    large.message = bomb.message = (struct str){big, 2 << 20};
    eq_int(grpc_call_start(c, &fail), 0);
    eq_int(grpc_call_start(c, &large), 0);
    eq_int(grpc_call_start(c, &bomb), 0);
    run_until(3);
    eq_int(fail.status.code, GRPC_RESOURCE_EXHAUSTED);
    eq_str(str_from(fail.status.message), STR("zu voll: 100% \xc3\xa4"));
    ok(fail.status.has_retry);
    eq_int(fail.status.retry_ns, 1500 * NS_PER_MS);
    eq_int(large.status.code, GRPC_RESOURCE_EXHAUSTED);
    eq_int(bomb.status.code, GRPC_RESOURCE_EXHAUSTED);
    grpc_call_done(&fail);
    grpc_call_done(&large);
    grpc_call_done(&bomb);
    client_free(c);
    stop_server();
    mem_free(big);
}

static void test_grpc_parts(void)
{
    static const char *const plain[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
    static const char *const coded[] = {"", "Zg", "Zm8", "Zm9v", "Zm9vYg", "Zm9vYmE", "Zm9vYmFy"};
    struct str body = STR("\0\0\0\0\2ab\1\0\0\0\1c"), m;
    bool compressed;

    for (size_t i = 0; i < ARRAY_SIZE(plain); i++) { /* RFC 4648, 10 */
        _cleanup_(buf_done) struct buf a = BUF_INIT, b = BUF_INIT;

        grpc_base64_encode(&a, str_from(plain[i]));
        eq_str(buf_str(&a), str_from(coded[i]));
        eq_int(grpc_base64_decode(&b, str_from(coded[i])), 0);
        eq_str(buf_str(&b), str_from(plain[i]));
    }
    eq_int(grpc_unframe(&body, 10, &m, &compressed), 0);
    eq_str(m, STR("ab"));
    eq_int(grpc_unframe(&body, 10, &m, &compressed), 0);
    ok(compressed && body.n == 0);
    eq_int(grpc_unframe(&body, 10, &m, &compressed), -ENODATA);
    body = STR("\2\0\0\0\0");
    eq_int(grpc_unframe(&body, 10, &m, &compressed), -EBADMSG);
    body = STR("\0\0\0\0\20");
    eq_int(grpc_unframe(&body, 10, &m, &compressed), -EMSGSIZE);
}

int main(void)
{
    tap_run(test_grpc_calls);
    tap_run(test_grpc_failures);
    tap_run(test_grpc_parts);
    return tap_done();
}
