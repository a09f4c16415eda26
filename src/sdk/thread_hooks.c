/* SPDX-License-Identifier: Apache-2.0 */
/* Replacement of pthread_create() (thread_hooks.h): a start routine of ours sets up the state of the thread, calls the
 * host's routine, and releases the state at the end. */
#include "sdk/thread_hooks.h"

#include <string.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "sdk/core.h"
#include "sdk/provider.h"

struct start {
    void *(*run)(void *);
    void *arg;
    size_t stack;
    uint32_t created_n;
    uint64_t created[THR_CREATED];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t end_key;
static bool have_end_key;
static size_t default_stack = 8 << 20;

/* For pthread_exit() and cancellation; a thread that returns has already left. */
static void on_end(void *p)
{
    struct thr *t = p;

    if (t == thr_self)
        thr_leave(t, 0);
}

static void prepare(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < default_stack)
        default_stack = limit.rlim_cur;
    have_end_key = pthread_key_create(&end_key, on_end) == 0;
}

void thread_hooks_watch_end(struct thr *t)
{
    pthread_once(&once, prepare);
    if (have_end_key)
        pthread_setspecific(end_key, t);
}

static struct thr *enter(struct start *s, uint64_t sp)
{
    uint64_t hi = ALIGN_UP(sp, 4096ul);
    struct thr *t = thr_enter(hi - s->stack, hi);

    if (t) {
        memcpy(t->created, s->created, s->created_n * sizeof *s->created);
        t->created_n = s->created_n;
    }
    if (t && have_end_key)
        pthread_setspecific(end_key, t);
    mem_free(s);
    return t;
}

static void *thread_main(void *p)
{
    void *(*run)(void *) = ((struct start *) p)->run;
    void *arg = ((struct start *) p)->arg, *r;
    struct thr *t = enter(p, (uint64_t) (uintptr_t) &arg);

    /* So that this function saves its caller's registers, where a reader of the stack of a sleeping thread finds
     * them. */
#if defined(__x86_64__) && defined(SDK_NO_FRAME_POINTER)
    __asm__ volatile("" : : : "rbx", "rbp");
#endif
    r = run(arg);
    if (t && t == thr_self) {
        if (have_end_key)
            pthread_setspecific(end_key, NULL);
        thr_leave(t, (uint64_t) (uintptr_t) run);
    }
    return r;
}

int thread_hooks_create(pthread_create_fn *real, pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *),
                        void *arg)
{
    struct start *s;
    int r;

    pthread_once(&once, prepare);
    if (!atomic_load_explicit(&core.running, memory_order_relaxed) || run == background_main ||
        !(s = mem_alloc(sizeof *s)))
        return real(ret, attr, run, arg);
    *s = (struct start){.run = run, .arg = arg, .stack = default_stack};
    if (attr)
        pthread_attr_getstacksize(attr, &s->stack);
    if (thr_self) {
        uint32_t generation;
        uint8_t flags;

        s->created_n = handler_walk_here(thr_self, s->created, THR_CREATED, &flags, &generation);
    }
    r = real(ret, attr, thread_main, s);
    if (r)
        mem_free(s);
    return r;
}
