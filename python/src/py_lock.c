/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks of semaphores (py_lock.h). */
#include "py_lock.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "code_names.h"
#include "py_walk.h"
#include "sdk/got.h"
#include "sdk/lock.h"
#include "sdk/sys.h"

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 30)
#define HAVE_CLOCKWAIT 1
#endif

static bool ends(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);

    return n >= k && strcmp(s + n - k, tail) == 0;
}

/* The innermost Python function waits for something to happen, rather than for a lock. */
static bool is_idle(void)
{
    static const char *const files[] = {"/threading.py", "/queue.py", "/concurrent/futures/thread.py", "/selectors.py"};
    const char *function, *file;
    uint64_t frame;

    if (!py_walk_here(&frame, 1))
        return true; /* no Python code: a thread of the interpreter itself */
    if (!code_names_texts(frame, &function, &file))
        return false;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (ends(file, files[i]))
            return true;
    return false;
}

static void waited(int64_t from)
{
    int saved = errno;

    if (!is_idle())
        lock_waited(sys_clock_ns(CLOCK_MONOTONIC) - from);
    errno = saved;
}

static int hook_sem_wait(sem_t *s)
{
    int64_t from;
    int r;

    if (!atomic_load_explicit(&lock_on, memory_order_relaxed))
        return sem_wait(s);
    from = sys_clock_ns(CLOCK_MONOTONIC);
    r = sem_wait(s);
    waited(from);
    return r;
}

static int hook_sem_timedwait(sem_t *s, const struct timespec *until)
{
    int64_t from;
    int r;

    if (!atomic_load_explicit(&lock_on, memory_order_relaxed))
        return sem_timedwait(s, until);
    from = sys_clock_ns(CLOCK_MONOTONIC);
    r = sem_timedwait(s, until);
    waited(from);
    return r;
}

#ifdef HAVE_CLOCKWAIT
static int hook_sem_clockwait(sem_t *s, clockid_t clock, const struct timespec *until)
{
    int64_t from;
    int r;

    if (!atomic_load_explicit(&lock_on, memory_order_relaxed))
        return sem_clockwait(s, clock, until);
    from = sys_clock_ns(CLOCK_MONOTONIC);
    r = sem_clockwait(s, clock, until);
    waited(from);
    return r;
}
#endif

void py_lock_start(void)
{
    static const struct got_hook hooks[] = {
        {"sem_wait", hook_sem_wait},
        {"sem_timedwait", hook_sem_timedwait},
#ifdef HAVE_CLOCKWAIT
        {"sem_clockwait", hook_sem_clockwait},
#endif
    };

    got_install(hooks, sizeof hooks / sizeof hooks[0], NULL);
}
