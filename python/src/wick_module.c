/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module wick._wick: starts and stops libwick, which is linked into it, with the walker and the hooks of this package.
 * wick/profiler.py is what programs use.
 *
 * The module stays loaded until the process ends, as libwick does.
 */
#include "cpython_layout.h"

#include <string.h>

#include "py_alloc.h"
#include "py_lock.h"
#include "py_span.h"
#include "py_task.h"
#include "py_walk.h"
#include "wick.h"

static struct wick_provider *provider;

static PyObject *raise(int code)
{
    const char *message = wick_last_error();

    PyErr_SetString(code == WICK_EINVAL ? PyExc_ValueError : PyExc_RuntimeError,
                    message && message[0] ? message : wick_strerror(code));
    return NULL;
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
    Py_BEGIN_ALLOW_THREADS provider = wick_provider_new(&o);
    Py_END_ALLOW_THREADS if (!provider)
    {
        stop_hooks();
        return raise(wick_last_code());
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
    int code = 0;

    if (!p)
        Py_RETURN_NONE;
    provider = NULL;
    py_alloc_stop();
    Py_BEGIN_ALLOW_THREADS code = wick_stop(p);
    wick_provider_free(p);
    Py_END_ALLOW_THREADS py_walk_stop();
    if (code < 0)
        return PyUnicode_FromString(wick_last_error());
    Py_RETURN_NONE;
}

static PyObject *flush(PyObject *self, PyObject *args)
{
    unsigned timeout_ms = 0;
    int code;

    if (!PyArg_ParseTuple(args, "|I", &timeout_ms))
        return NULL;
    Py_BEGIN_ALLOW_THREADS code = wick_flush(NULL, timeout_ms);
    Py_END_ALLOW_THREADS return code < 0 ? raise(code) : Py_NewRef(Py_None);
}

static PyObject *serve_pprof(PyObject *self, PyObject *args)
{
    const char *address;
    int r;

    if (!PyArg_ParseTuple(args, "s", &address))
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = wick_serve_pprof(NULL, address);
    Py_END_ALLOW_THREADS return r < 0 ? raise(r) : PyLong_FromLong(r);
}

static PyObject *snapshot(PyObject *self, PyObject *args)
{
    unsigned type;
    PyObject *bytes;
    size_t n = 0;
    void *p = NULL;
    int r;

    if (!PyArg_ParseTuple(args, "I", &type))
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = wick_snapshot(NULL, type, &p, &n);
    Py_END_ALLOW_THREADS if (r < 0) return raise(r);
    bytes = PyBytes_FromStringAndSize(p, (Py_ssize_t) n);
    wick_snapshot_free(p, n);
    return bytes;
}

static PyObject *change(int r)
{
    return r < 0 ? raise(r) : Py_NewRef(Py_None);
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
        return raise(r);
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
