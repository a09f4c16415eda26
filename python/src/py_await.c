/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at tasks that await (py_await.h). All functions run with the GIL, which the thread gives up between two looks. */
#include "py_await.h"

#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "peek.h"
#include "py_frames.h"
#include "py_span.h"
#include "py_task.h"
#include "sdk/ext.h"

enum {
    DEPTH_MAX = 256,
    LOOKED_AT = 64, /* tasks of a look: of more than that, one of every few, which stands for them */
    OFF_NS = 200000000,
    FULL_NS = 1000000,
    FULL_TIMES = 1000,
};

static struct {
    PyTypeObject *type;
    PyObject *get_coro; /* a method of the class: a program's subclass may have another */
    size_t context_offset;
    uint64_t root;
    unsigned started; /* which thread is to watch: the last one that was started */
} tasks;

bool py_await_bind(PyObject *task, PyObject *context)
{
    PyTypeObject *type = Py_TYPE(task);

    for (Py_ssize_t i = sizeof(PyObject); i + 8 <= type->tp_basicsize && !tasks.context_offset; i += 8)
        if (memcmp((char *) task + i, &context, sizeof context) == 0)
            tasks.context_offset = (size_t) i;
    if (tasks.context_offset && !tasks.get_coro)
        tasks.get_coro = PyObject_GetAttrString((PyObject *) type, "get_coro");
    if (!tasks.get_coro)
        return false;
    Py_INCREF(type);
    tasks.type = type;
    return true;
}

void py_await_stop(void)
{
    tasks.started++;
}

/* --- the stack of a task: the coroutines that wait for each other --- */
static bool is_set(PyObject *o, const char *attribute)
{
    PyObject *v = PyObject_GetAttrString(o, attribute);
    bool yes = v == Py_True;

    Py_XDECREF(v);
    PyErr_Clear();
    return yes;
}

/* A coroutine, generator or asynchronous generator that waits for another: what that is, else NULL. */
static PyObject *awaited(PyObject *o)
{
    const char *attribute = PyCoro_CheckExact(o)       ? "cr_await"
                            : PyGen_CheckExact(o)      ? "gi_yieldfrom"
                            : PyAsyncGen_CheckExact(o) ? "ag_await"
                                                       : NULL;
    PyObject *v = attribute ? PyObject_GetAttrString(o, attribute) : NULL;

    PyErr_Clear();
    return v;
}

static const py_frame *frame_of(PyObject *o)
{
#if PY_VERSION_HEX >= 0x030b0000
    return (const py_frame *) &((PyGenObject *) o)->gi_iframe;
#else
    return ((PyGenObject *) o)->gi_frame;
#endif
}

/* It has begun, and neither runs nor has ended. */
static bool is_suspended(PyObject *coroutine)
{
#if PY_VERSION_HEX >= 0x030b0000
    return is_set(coroutine, "cr_suspended");
#else
    const py_frame *f = frame_of(coroutine);

    return f && f->f_lasti >= 0 && !is_set(coroutine, "cr_running");
#endif
}

/* Frames, leaf first; their number. Takes the reference to the first. */
static uint32_t stack_of(PyObject *coroutine, uint64_t frames[DEPTH_MAX + 1])
{
    PyObject *at = coroutine, *next;
    struct peek p;
    uint32_t n = 0;

    peek_init(&p, false);
    while (n < DEPTH_MAX && (next = awaited(at))) {
        uint64_t frame = py_frames_number(&p, frame_of(at));

        if (frame)
            frames[n++] = frame;
        Py_DECREF(at);
        at = next;
    }
    Py_DECREF(at);
    for (uint32_t i = 0; i < n / 2; i++) {
        uint64_t swapped = frames[i];

        frames[i] = frames[n - 1 - i];
        frames[n - 1 - i] = swapped;
    }
    frames[n] = tasks.root;
    return n ? n + 1 : 0;
}

static void add_task(PyObject *task, int64_t ns, int64_t count)
{
    PyObject *coroutine = PyObject_CallFunctionObjArgs(tasks.get_coro, task, NULL), *context = NULL;
    struct wick_ext_sample s = WICK_EXT_SAMPLE_INIT;
    uint8_t trace_id[16], span_id[8];
    struct wick_ext_stack labels;
    uint64_t frames[DEPTH_MAX + 1];

    if (!coroutine || !PyCoro_CheckExact(coroutine) || !is_suspended(coroutine)) {
        Py_XDECREF(coroutine);
        PyErr_Clear();
        return;
    }
    s.n_frames = stack_of(coroutine, frames);
    s.frames = frames;
    s.type = WICK_WALL;
    s.value = ns * count;
    s.count = count;
    memcpy(&context, (char *) task + tasks.context_offset, sizeof context);
    if (context && PyContext_CheckExact(context) && py_span_of_context(context, trace_id, span_id)) {
        s.trace_id = trace_id;
        s.span_id = span_id;
    }
    labels.labels_n = 0;
    py_task_label(&labels, task);
    s.labels = labels.labels;
    s.labels_n = labels.labels_n;
    if (s.n_frames)
        wick_ext_sample(&s);
}

/* --- all tasks --- */
static void append(PyObject *list, PyObject *item)
{
    PyObject *o = item;

#if PY_VERSION_HEX >= 0x030d0000
    if (PyWeakref_Check(item)) {
        if (PyWeakref_GetRef(item, &o) != 1)
            return;
    } else {
        Py_INCREF(o);
    }
#else
    o = PyWeakref_Check(item) ? PyWeakref_GetObject(item) : item;
    Py_INCREF(o);
#endif
    if (PyObject_TypeCheck(o, tasks.type))
        PyList_Append(list, o);
    Py_DECREF(o);
}

static void append_all(PyObject *list, PyObject *set)
{
    PyObject *each = set ? PyObject_GetIter(set) : NULL, *item;

    while (each && (item = PyIter_Next(each))) {
        append(list, item);
        Py_DECREF(item);
    }
    Py_XDECREF(each);
    PyErr_Clear();
}

#if PY_VERSION_HEX >= 0x030e0000
/* Of the loops that run now. */
static void append_tasks(PyObject *list, PyObject *all_tasks)
{
    PyThreadState *t = PyInterpreterState_ThreadHead(PyThreadState_Get()->interp);

    for (; t; t = PyThreadState_Next(t)) {
        PyObject *loop = ((_PyThreadStateImpl *) t)->asyncio_running_loop, *set;

        if (!loop || loop == Py_None)
            continue;
        Py_INCREF(loop);
        set = PyObject_CallFunctionObjArgs(all_tasks, loop, NULL);
        append_all(list, set);
        Py_XDECREF(set);
        Py_DECREF(loop);
    }
}
#else
#define append_tasks append_all
#endif

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void pause_for(int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};

    Py_BEGIN_ALLOW_THREADS nanosleep(&t, NULL);
    Py_END_ALLOW_THREADS
}

static void look(PyObject *sources, int64_t ns, uint64_t random)
{
    PyObject *list = PyList_New(0);
    Py_ssize_t n, every;

    for (Py_ssize_t i = 0; list && i < PyTuple_GET_SIZE(sources); i++)
        append_tasks(list, PyTuple_GET_ITEM(sources, i));
    n = list ? PyList_GET_SIZE(list) : 0;
    every = n / LOOKED_AT + 1;
    for (Py_ssize_t i = (Py_ssize_t) (random % (uint64_t) every); i < n; i += every) {
        for (int k = 0; wick_ext_helper_full() && k < FULL_TIMES; k++)
            pause_for(FULL_NS);
        add_task(PyList_GET_ITEM(list, i), ns, every);
    }
    Py_XDECREF(list);
    PyErr_Clear();
}

/* --- the thread --- */
PyObject *py_await_watch(PyObject *sources)
{
    unsigned me = ++tasks.started;
    int64_t last = now_ns(), now;

    if (!tasks.root)
        tasks.root = wick_ext_frame(&(struct wick_ext_frame){.function = "[await]", .kind = "cpython"});
    if (!tasks.root || wick_ext_helper_begin() != WICK_OK)
        Py_RETURN_NONE;
    prctl(PR_SET_NAME, "wick-await");
    while (tasks.started == me) {
        int64_t interval = wick_ext_helper_interval();

        now = now_ns();
        pause_for(interval ? interval * 3 / 4 + (now >> 10) % (interval / 2) : OFF_NS); /* as looks at threads */
        if (tasks.started != me)
            break;
        now = now_ns();
        if (interval)
            look(sources, now - last, (uint64_t) now >> 8);
        last = now;
    }
    wick_ext_helper_end();
    Py_RETURN_NONE;
}
