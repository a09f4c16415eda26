/* SPDX-License-Identifier: Apache-2.0 */
/* A server whose event loop hangs is not called alive, and is again when the loop goes on. */
#include <semaphore.h>
#include <unistd.h>

#include "serve/serve_state.h"
#include "tap.h"

struct holder {
    struct loop_call call;
    sem_t held, let_go;
};

static void hold(struct loop_call *c)
{
    struct holder *h = container_of(c, struct holder, call);

    sem_post(&h->held);
    sem_wait(&h->let_go);
}

/* Asks until the answer is as wanted: true at once if nothing hangs, later on a busy machine. */
static bool becomes(struct serve *s, bool wanted)
{
    for (int i = 0; i < 3000; i++) {
        if (serve_pulse(s) == wanted)
            return true;
        usleep(10000);
    }
    return false;
}

static void test_hanging_loop(void)
{
    static struct serve s;
    struct holder h = {.call.run = hold};

    sem_init(&h.held, 0, 0);
    sem_init(&h.let_go, 0, 0);
    eq_int(loop_group_new(2, "net", &s.loops, NULL), 0);
    ok(serve_pulse(&s)); /* nothing was asked before */
    ok(becomes(&s, true));
    eq_int(loop_post(loop_group_at(s.loops, 1), &h.call), 0);
    sem_wait(&h.held);
    serve_pulse(&s);
    for (int i = 0; i < 20; i++, usleep(1000))
        ok(!serve_pulse(&s));
    sem_post(&h.let_go);
    ok(becomes(&s, true));
    loop_group_free(s.loops);
    sem_destroy(&h.held);
    sem_destroy(&h.let_go);
}

int main(void)
{
    tap_run(test_hanging_loop);
    return tap_done();
}
