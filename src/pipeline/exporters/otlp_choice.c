/* SPDX-License-Identifier: Apache-2.0 */
/* Asks a peer whether it takes OTLP/HTTP and sends gRPC otherwise, see otlp_choice.h. All functions but encode run on the
 * sender's loop. */
#include "pipeline/exporters/otlp_choice.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"

struct otlp_choice {
    struct otlp_client *http, *grpc, *chosen;
    const char *id;
};

/* One request that waits for the peer's response to the question. */
struct otlp_question {
    struct otlp_choice *x;
    struct send_request *rq;
};

int otlp_choice_new(struct otlp_client *http, struct otlp_client *grpc, const char *id, struct otlp_choice **ret)
{
    struct otlp_choice *x = mem_zalloc(sizeof *x);

    if (!x)
        return -ENOMEM;
    *x = (struct otlp_choice){.http = http, .grpc = grpc, .id = id};
    *ret = x;
    return 0;
}

void otlp_choice_free(struct otlp_choice *x)
{
    mem_free(x);
}

static int open_both(void *arg, struct loop *l, struct err *e)
{
    struct otlp_choice *x = arg;
    int r = otlp_client_ops.open(x->http, l, e);

    if (r < 0)
        return r;
    r = otlp_client_ops.open(x->grpc, l, e);
    if (r < 0)
        otlp_client_ops.close(x->http);
    return r;
}

static void close_both(void *arg)
{
    struct otlp_choice *x = arg;

    otlp_client_ops.close(x->http);
    otlp_client_ops.close(x->grpc);
}

static int encode(void *arg, const struct batch *b, struct buf *out, struct err *e)
{
    struct otlp_choice *x = arg;

    return otlp_client_ops.encode(x->grpc, b, out, e);
}

static void choose(struct otlp_choice *x, struct otlp_client *c)
{
    if (x->chosen)
        return;
    x->chosen = c;
    log_info("%s: %s accepts OTLP over %s; using that", x->id, otlp_client_peer(c),
             c == x->http ? "HTTP" : "gRPC");
}

static void fail(struct send_request *rq, const char *message)
{
    struct ack_result result = {.status = SINK_UNAVAILABLE};

    snprintf(result.message, sizeof result.message, "%.200s", message);
    sender_sent(rq, &result);
}

static void on_asked(void *arg, enum otlp_fit fit, const char *message)
{
    struct otlp_question *q = arg;
    struct otlp_choice *x = q->x;
    struct send_request *rq = q->rq;

    mem_free(q);
    if (fit == OTLP_NO_PEER) {
        fail(rq, message);
        return;
    }
    if (fit == OTLP_FITS)
        choose(x, x->http);
    otlp_client_ops.send(x->chosen ? x->chosen : x->grpc, rq); /* gRPC is chosen when it works */
}

static void send(void *arg, struct send_request *rq)
{
    struct otlp_choice *x = arg;
    struct otlp_question *q;
    struct err e = {0};
    int r;

    if (otlp_client_responded(x->grpc))
        choose(x, x->grpc);
    if (x->chosen) {
        otlp_client_ops.send(x->chosen, rq);
        return;
    }
    q = mem_zalloc(sizeof *q);
    if (!q) {
        fail(rq, "out of memory");
        return;
    }
    *q = (struct otlp_question){x, rq};
    r = otlp_client_ask(x->http, on_asked, q, &e);
    if (r < 0) {
        mem_free(q);
        fail(rq, err_message(&e, r));
    }
}

const struct sender_ops otlp_choice_ops = {encode, send, open_both, close_both};
