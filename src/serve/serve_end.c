/* SPDX-License-Identifier: Apache-2.0 */
/* Ends the process in time, see serve_end.h. */
#include "serve/serve_end.h"

#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

enum { END_SECONDS = 8 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum { LIFE_STARTS, LIFE_RUNS, LIFE_ENDS } state;
} life = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, LIFE_STARTS};

bool serve_end_is_asked(void)
{
    sigset_t set;

    return sigpending(&set) == 0 && (sigismember(&set, SIGTERM) == 1 || sigismember(&set, SIGINT) == 1);
}

static void *watch(void *arg)
{
    int64_t until = INT64_MAX;

    (void) arg;
    pthread_mutex_lock(&life.lock);
    while (clock_mono() < until) {
        int64_t now = clock_mono();

        if (until == INT64_MAX && (life.state == LIFE_ENDS || (life.state == LIFE_STARTS && serve_end_is_asked())))
            until = now + END_SECONDS * NS_PER_S;
        thread_wait(&life.changed, &life.lock, life.state == LIFE_STARTS ? MIN(until, now + NS_PER_S / 2) : until);
    }
    log_warn("stopping takes more than %d s: ending now; what was acknowledged is on the disk", END_SECONDS);
    _exit(0);
}

int serve_end_watch(struct err *e)
{
    pthread_t thread;
    int r = thread_start(&thread, "end", watch, NULL, e);

    return r < 0 ? r : -pthread_detach(thread);
}

static void enter(int state)
{
    pthread_mutex_lock(&life.lock);
    life.state = state;
    pthread_cond_signal(&life.changed);
    pthread_mutex_unlock(&life.lock);
}

void serve_end_started(void)
{
    enter(LIFE_RUNS);
}

void serve_end_begin(void)
{
    enter(LIFE_ENDS);
}
