/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of the server fed with bytes over a socket pair: HTTP/1.1 or HTTP/2 as they say; with the first byte odd,
 * HTTP/2's preface and settings go before. Every request is answered, some with trailers, some late.
 */
#include "net/encoding.h"
#include "net/grpc.h"
#include "served.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct http_request *late;

static void cancelled(struct http_request *q)
{
    late = NULL;
    http_reply(q, 499, NULL, STR(""));
}

static void handle(void *arg, struct http_request *q)
{
    struct buf inflated = BUF_INIT;
    struct grpc_status st = {0};
    struct str message = {0};

    if (grpc_is_request(q)) {
        grpc_request_message(q, 1 << 16, &inflated, &message, &st);
        grpc_reply(q, &st, message);
    } else if (str_is(q->path, "/s")) {
        http_add_trailer(q, "x-end", STR("1"));
        http_reply(q, 200, "text/plain", STR("abc"));
    } else if (str_is(q->path, "/l") && !late) {
        late = q;
        q->cancelled = cancelled;
    } else {
        http_decode_body(q, 1 << 16, &inflated, &message, NULL);
        buf_put_str(&q->answer, message);
        http_encode_answer(q);
        http_finish(q);
    }
    buf_done(&inflated);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    int fd;

    if (size < 1 || size > 100000)
        return 0;
    fd = served_open((struct http_server_options){.handle = handle, .max_body = 1 << 16, .max_head = 8192});
    if (fd < 0)
        return 0;
    if (data[0] & 1)
        send(fd, preface, sizeof preface, MSG_NOSIGNAL);
    send(fd, data + 1, size - 1, MSG_NOSIGNAL);
    served_run(fd, 20);
    if (late && (data[0] & 2)) {
        struct http_request *q = late;

        late = NULL;
        http_reply(q, 200, "text/plain", STR("late"));
        loop_run_once(loop, 0);
    }
    served_end(fd);
    return 0;
}
