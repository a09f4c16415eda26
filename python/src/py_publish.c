/* SPDX-License-Identifier: Apache-2.0 */
/* Publishes the current span of threads (py_publish.h). All functions run with the GIL. */
#include "cpython_layout.h"

#include <stdbool.h>

#include "py_publish.h"
#include "py_span.h"

static void publish(PyObject *context)
{
    uint8_t trace_id[16], span_id[8];

    if (context && py_span_of_context(context, trace_id, span_id))
        wick_ext_span(trace_id, span_id);
    else
        wick_ext_span(NULL, NULL);
}

/* --- OpenTelemetry's attach() and detach() --- */
static PyObject *call_and_publish(PyObject *original, PyObject *arg)
{
    PyObject *result = PyObject_CallFunctionObjArgs(original, arg, NULL);

    publish(PyThreadState_Get()->context);
    return result;
}

static bool replace_method(PyObject *runtime, PyMethodDef *by)
{
    PyObject *original = PyObject_GetAttrString(runtime, by->ml_name);
    PyObject *function = original ? PyCFunction_New(by, original) : NULL;
    bool done = function && PyObject_SetAttrString(runtime, by->ml_name, function) == 0;

    Py_XDECREF(function);
    Py_XDECREF(original);
    return done;
}

bool py_publish_attach(PyObject *runtime)
{
    static PyMethodDef attach = {"attach", call_and_publish, METH_O, "Sets the current context."};
    static PyMethodDef detach = {"detach", call_and_publish, METH_O, "Sets the context before the current one."};

    return replace_method(runtime, &attach) && replace_method(runtime, &detach);
}

/* --- steps of tasks --- */
#if PY_VERSION_HEX >= 0x030e0000
static int on_switch(PyContextEvent event, PyObject *context)
{
    if (event == Py_CONTEXT_SWITCHED)
        publish(context == Py_None ? NULL : context);
    return 0;
}

bool py_publish_steps(PyObject *handle)
{
    static int watcher = -1;

    if (watcher < 0)
        watcher = PyContext_AddWatcher(on_switch);
    return watcher >= 0;
}
#else
static PyObject *run_original, *context_name;

static PyObject *run_step(PyObject *self, PyObject *handle)
{
    PyObject *context = PyObject_GetAttr(handle, context_name), *result;

    if (!context)
        PyErr_Clear();
    publish(context);
    Py_XDECREF(context);
    result = PyObject_CallFunctionObjArgs(run_original, handle, NULL);
    publish(PyThreadState_Get()->context);
    return result;
}

bool py_publish_steps(PyObject *handle)
{
    static PyMethodDef run = {"_run", run_step, METH_O, "Runs the callback."};
    PyObject *function, *method;
    bool done;

    if (run_original)
        return true;
    context_name = PyUnicode_InternFromString("_context");
    run_original = context_name ? PyObject_GetAttrString(handle, "_run") : NULL;
    function = run_original ? PyCFunction_New(&run, NULL) : NULL;
    method = function ? PyInstanceMethod_New(function) : NULL; /* binds as a function of Python does */
    done = method && PyObject_SetAttrString(handle, "_run", method) == 0;
    Py_XDECREF(method);
    Py_XDECREF(function);
    return done;
}
#endif
