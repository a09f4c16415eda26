/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks of semaphores (py_lock.h). */
#include "cpython_layout.h"

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

static bool is_in(const char *file, const char *const *files, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ends(file, files[i]))
            return true;
    return false;
}

/* Functions of threading.py and its relatives that wait for a lock. */
static bool is_acquisition(const char *function)
{
    return ends(function, "acquire") || ends(function, "__enter__");
}

/* --- SimpleQueue.get(), which is written in C: its caller is the innermost Python function --- */
typedef PyObject *any_method(void *, void *, void *, void *, void *, void *);

static any_method *simple_queue_get;
static __thread unsigned in_simple_queue;

static PyObject *counted_get(void *a, void *b, void *c, void *d, void *e, void *f)
{
    PyObject *got;

    in_simple_queue++;
    got = simple_queue_get(a, b, c, d, e, f); /* further arguments than it has do no harm */
    in_simple_queue--;
    return got;
}

static void watch_simple_queue(void)
{
    PyObject *module = simple_queue_get ? NULL : PyImport_ImportModule("_queue");
    PyObject *type = module ? PyObject_GetAttrString(module, "SimpleQueue") : NULL;
    PyObject *get = type ? PyObject_GetAttrString(type, "get") : NULL;

    if (get && Py_TYPE(get) == &PyMethodDescr_Type) {
        PyMethodDef *def = ((PyMethodDescrObject *) get)->d_method;

        simple_queue_get = (any_method *) (void (*)(void)) def->ml_meth;
        def->ml_meth = (PyCFunction) (void (*)(void)) counted_get;
    }
    PyErr_Clear();
    Py_XDECREF(get);
    Py_XDECREF(type);
    Py_XDECREF(module);
}

/*
 * The innermost Python functions wait for something to happen, rather than for a lock. In threading.py a condition's
 * wait() is idle, unless a semaphore waits by it.
 */
static bool is_idle(void)
{
    static const char *const idle[] = {"/queue.py", "/concurrent/futures/thread.py", "/selectors.py",
                                       "/multiprocessing/queues.py"};
    static const char *const either[] = {"/threading.py", "/multiprocessing/synchronize.py"};
    const char *function, *file;
    uint64_t frames[2];
    uint32_t n = py_walk_here(frames, 2);

    if (!n || in_simple_queue)
        return true; /* no Python code: a thread of the interpreter itself */
    for (uint32_t i = 0; i < n; i++) {
        if (!code_names_texts(frames[i], &function, &file))
            return i > 0;
        if (i == 0 && is_in(file, idle, sizeof idle / sizeof idle[0]))
            return true;
        if (!is_in(file, either, sizeof either / sizeof either[0]))
            return i > 0;
        if (is_acquisition(function))
            return false;
    }
    return true;
}

static void waited(int64_t from)
{
    int saved = errno;

    if (!is_idle())
        lock_waited(sys_clock_ns(CLOCK_MONOTONIC) - from);
    errno = saved;
}

/*
 * The interpreter tries a lock before it waits for it. In between it gives up the interpreter's own lock, and may have to wait until
 * another thread has taken that: the wait begins where the lock was found taken.
 */
static __thread const sem_t *taken;
static __thread int64_t taken_at;

static int hook_sem_trywait(sem_t *s)
{
    int r = sem_trywait(s);

    if (r < 0 && errno == EAGAIN && atomic_load_explicit(&lock_on, memory_order_relaxed)) {
        taken = s;
        taken_at = sys_clock_ns(CLOCK_MONOTONIC);
    }
    return r;
}

static int64_t begin(const sem_t *s)
{
    int64_t from = s == taken ? taken_at : sys_clock_ns(CLOCK_MONOTONIC);

    taken = NULL;
    return from;
}

/* Defines the hook of a function that waits for a semaphore. */
#define WAIT_HOOK(name, params, args)                              \
    static int hook_##name params                                  \
    {                                                              \
        int64_t from;                                              \
        int r;                                                     \
                                                                   \
        if (!atomic_load_explicit(&lock_on, memory_order_relaxed)) \
            return name args;                                      \
        from = begin(s);                                           \
        r = name args;                                             \
        waited(from);                                              \
        return r;                                                  \
    }

WAIT_HOOK(sem_wait, (sem_t * s), (s))
WAIT_HOOK(sem_timedwait, (sem_t * s, const struct timespec *until), (s, until))
#ifdef HAVE_CLOCKWAIT
WAIT_HOOK(sem_clockwait, (sem_t * s, clockid_t clock, const struct timespec *until), (s, clock, until))
#endif

void py_lock_start(void)
{
    static const struct got_hook hooks[] = {
        {"sem_trywait", hook_sem_trywait},
        {"sem_wait", hook_sem_wait},
        {"sem_timedwait", hook_sem_timedwait},
#ifdef HAVE_CLOCKWAIT
        {"sem_clockwait", hook_sem_clockwait},
#endif
    };

    watch_simple_queue();
    got_keep(hooks, sizeof hooks / sizeof hooks[0]);
    got_install(hooks, sizeof hooks / sizeof hooks[0], NULL);
}
