/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module wick._wick: starts and stops libwick, which is linked into it, with the walker and the hooks of this package.
 * wick/profiler.py is what programs use.
 *
 * The module stays loaded until the process ends, as libwick does.
 */
#include "cpython_layout.h"

#include <stdbool.h>
#include <string.h>

#include "code_names.h"
#include "py_alloc.h"
#include "py_await.h"
#include "py_lock.h"
#include "py_publish.h"
#include "py_span.h"
#include "py_task.h"
#include "py_walk.h"
#include "wick.h"

static struct wick_provider *provider;

static PyObject *raise_error(int code)
{
    const char *message = wick_last_error();

    PyErr_SetString(code == WICK_EINVAL ? PyExc_ValueError : PyExc_RuntimeError,
                    message && message[0] ? message : wick_strerror(code));
    return NULL;
}

/* None, or the exception. */
static PyObject *change(int r)
{
    if (r < 0)
        return raise_error(r);
    Py_RETURN_NONE;
}

/* --- modules that are imported after the start --- */
/* On the main thread, between two instructions of its program. */
static int bind_late(void *unused)
{
    PyObject *module = PyImport_ImportModule("wick.spans");
    PyObject *done = module ? PyObject_CallMethod(module, "bind_late", NULL) : NULL;

    Py_XDECREF(done);
    Py_XDECREF(module);
    PyErr_Clear();
    return 0;
}

/* Names a frame on wick's own thread. The first frame of asyncio, or of OpenTelemetry, means that they are there now. */
static int name_frame(uint64_t number, struct wick_ext_frame *ret)
{
    static bool asyncio_seen, opentelemetry_seen;
    int r = code_names_namer(number, ret);

    if (r && !asyncio_seen && strstr(ret->file, "/asyncio/base_events.py")) {
        asyncio_seen = true;
        Py_AddPendingCall(bind_late, NULL);
    }
    if (r && !opentelemetry_seen && strstr(ret->file, "/opentelemetry/")) {
        opentelemetry_seen = true;
        Py_AddPendingCall(bind_late, NULL);
    }
    return r;
}

static void stop_hooks(void)
{
    py_alloc_stop();
    py_walk_stop();
}

/* The interpreter's locks need the GIL for a moment only; everything that may take long runs without it. */
static PyObject *start(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {
        "types",       "rate",        "endpoint",   "protocol",    "insecure",       "headers",
        "certificate", "compression", "timeout_ms", "file",        "service_name",   "service_version",
        "resource",    "interval_ms", "max_depth",  "max_samples", "alloc_interval", "lock_interval_ns",
        "cpu_budget",  "native",      NULL};
    struct wick_options o = WICK_OPTIONS_INIT;
    unsigned long long alloc = 0, lock = 0;
    const char *message = NULL;
    int native = PY_NATIVE_EXTENSIONS;
    PyThreadState *held;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$IIzipzziIzzzzIIIKKdi", names, &o.types, &o.rate, &o.endpoint,
                                     &o.protocol, &o.insecure, &o.headers, &o.ca_file, &o.compression, &o.timeout_ms,
                                     &o.file, &o.service_name, &o.service_version, &o.resource_attributes,
                                     &o.export_interval_ms, &o.max_depth, &o.max_samples, &alloc, &lock, &o.cpu_budget,
                                     &native))
        return NULL;
    o.alloc_interval = alloc;
    o.lock_interval_ns = lock;
    if (provider)
        return PyErr_Format(PyExc_RuntimeError, "a profiler is already running in this process");
#ifdef Py_GIL_DISABLED
    return PyErr_Format(PyExc_RuntimeError, "free-threaded builds of Python are not supported");
#endif
    if (py_walk_start((enum py_native) native, &message) < 0)
        return PyErr_Format(PyExc_RuntimeError, "cannot start profiling: %s", message);
    wick_ext_set_namer(name_frame);
    held = PyEval_SaveThread();
    provider = wick_provider_new(&o);
    PyEval_RestoreThread(held);
    if (!provider) {
        stop_hooks();
        return raise_error(wick_last_code());
    }
    if (o.types & (WICK_ALLOC | WICK_HEAP))
        py_alloc_start();
    if (o.types & WICK_LOCK)
        py_lock_start();
    Py_RETURN_NONE;
}

static PyObject *stop(PyObject *self, PyObject *unused)
{
    struct wick_provider *p = provider;
    PyThreadState *held;
    int code = 0;

    if (!p)
        Py_RETURN_NONE;
    provider = NULL;
    py_await_stop();
    py_alloc_stop();
    held = PyEval_SaveThread();
    code = wick_stop(p);
    wick_provider_free(p);
    PyEval_RestoreThread(held);
    py_walk_stop();
    if (code < 0)
        return PyUnicode_FromString(wick_last_error());
    Py_RETURN_NONE;
}

static PyObject *flush(PyObject *self, PyObject *args)
{
    unsigned timeout_ms = 0;
    PyThreadState *held;
    int code;

    if (!PyArg_ParseTuple(args, "|I", &timeout_ms))
        return NULL;
    held = PyEval_SaveThread();
    code = wick_flush(NULL, timeout_ms);
    PyEval_RestoreThread(held);
    return change(code);
}

static PyObject *serve_pprof(PyObject *self, PyObject *args)
{
    const char *address;
    PyThreadState *held;
    int r;

    if (!PyArg_ParseTuple(args, "s", &address))
        return NULL;
    held = PyEval_SaveThread();
    r = wick_serve_pprof(NULL, address);
    PyEval_RestoreThread(held);
    return r < 0 ? raise_error(r) : PyLong_FromLong(r);
}

static PyObject *snapshot(PyObject *self, PyObject *args)
{
    unsigned type;
    PyObject *bytes;
    size_t n = 0;
    void *p = NULL;
    PyThreadState *held;
    int r;

    if (!PyArg_ParseTuple(args, "I", &type))
        return NULL;
    held = PyEval_SaveThread();
    r = wick_snapshot(NULL, type, &p, &n);
    PyEval_RestoreThread(held);
    if (r < 0)
        return raise_error(r);
    bytes = PyBytes_FromStringAndSize(p, (Py_ssize_t) n);
    wick_snapshot_free(p, n);
    return bytes;
}

static PyObject *pause_(PyObject *self, PyObject *unused)
{
    return change(wick_pause(NULL));
}

static PyObject *resume(PyObject *self, PyObject *unused)
{
    return change(wick_resume(NULL));
}

static PyObject *stats(PyObject *self, PyObject *unused)
{
    struct wick_stats s = WICK_STATS_INIT;
    int r = wick_get_stats(NULL, &s);

    if (r < 0)
        return raise_error(r);
    return Py_BuildValue(
        "{s:{s:K,s:K,s:K,s:K},s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:I,s:I,s:s}", "samples", "cpu",
        (unsigned long long) s.samples[0], "wall", (unsigned long long) s.samples[1], "alloc",
        (unsigned long long) s.samples[2], "lock", (unsigned long long) s.samples[4], "lost",
        (unsigned long long) s.lost, "truncated", (unsigned long long) s.truncated, "overflow",
        (unsigned long long) s.overflow, "live", (unsigned long long) s.live, "threads", (unsigned long long) s.threads,
        "handler_ns", (unsigned long long) s.handler_ns, "background_ns", (unsigned long long) s.background_ns,
        "memory", (unsigned long long) s.memory, "exports", (unsigned long long) s.exports, "failed_exports",
        (unsigned long long) s.failed_exports, "rate", s.rate, "governor", s.governor, "last_error", s.last_error);
}

static PyObject *set_label(PyObject *self, PyObject *args)
{
    const char *key, *value;
    int r;

    if (!PyArg_ParseTuple(args, "sz", &key, &value))
        return NULL;
    r = wick_label_set(key, value);
    return change(r);
}

static PyObject *bind_span(PyObject *self, PyObject *args)
{
    PyObject *variable, *key, *span_context;

    if (!PyArg_ParseTuple(args, "OOO", &variable, &key, &span_context))
        return NULL;
    py_span_bind(variable, key, span_context);
    Py_RETURN_NONE;
}

static PyObject *bind_task(PyObject *self, PyObject *args)
{
    PyObject *code, *callback, *task, *name;

    if (!PyArg_ParseTuple(args, "OOOO", &code, &callback, &task, &name))
        return NULL;
    return PyBool_FromLong(py_task_bind(code, callback, task, name));
}

static PyObject *bind_awaits(PyObject *self, PyObject *args)
{
    PyObject *task, *context;

    if (!PyArg_ParseTuple(args, "OO", &task, &context))
        return NULL;
    return PyBool_FromLong(py_await_bind(task, context));
}

static PyObject *watch_awaits(PyObject *self, PyObject *sources)
{
    return py_await_watch(sources);
}

static PyObject *publish_attach(PyObject *self, PyObject *runtime)
{
    if (!py_publish_attach(runtime))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *publish_steps(PyObject *self, PyObject *handle)
{
    if (!py_publish_steps(handle))
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"start", (PyCFunction) (void (*)(void)) start, METH_VARARGS | METH_KEYWORDS, "Starts profiling."},
    {"stop", stop, METH_NOARGS, "Stops profiling and sends the rest; returns an error message or None."},
    {"flush", flush, METH_VARARGS, "Exports now."},
    {"serve_pprof", serve_pprof, METH_VARARGS, "Serves /debug/pprof/; returns the port."},
    {"snapshot", snapshot, METH_VARARGS, "The profile of a type as gzip'd pprof."},
    {"pause", pause_, METH_NOARGS, "Pauses sampling."},
    {"resume", resume, METH_NOARGS, "Resumes sampling."},
    {"stats", stats, METH_NOARGS, "Counters of the profiler."},
    {"set_label", set_label, METH_VARARGS, "Sets a label of the calling thread, or removes it."},
    {"bind_span", bind_span, METH_VARARGS, "Where OpenTelemetry keeps the current span."},
    {"bind_task", bind_task, METH_VARARGS, "Where asyncio keeps the name of a task."},
    {"bind_awaits", bind_awaits, METH_VARARGS, "Where a task keeps its context."},
    {"watch_awaits", watch_awaits, METH_VARARGS, "Looks at tasks that await, in a thread of its own."},
    {"publish_attach", publish_attach, METH_O, "Publishes the span when OpenTelemetry changes it."},
    {"publish_steps", publish_steps, METH_O, "Publishes the span at each step of a task."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "wick._wick", "libwick in Python", -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__wick(void);
PyMODINIT_FUNC PyInit__wick(void)
{
    PyObject *m = PyModule_Create(&definition);

    if (m && PyModule_AddStringConstant(m, "version", wick_version()) < 0) {
        Py_DECREF(m);
        return NULL;
    }
    return m;
}
