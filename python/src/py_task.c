/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the name of the running task (py_task.h). Runs in signal handlers. */
#include "py_task.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "code_names.h"
#include "peek.h"
#include "py_frames.h"

static struct {
    _Atomic uint64_t code; /* address of Handle._run's code; 0: not bound. Stored last */
    uint64_t callback_offset, name_offset, task_type;
    int key;
} bound;

bool py_task_bind(PyObject *code, PyObject *handle_callback, PyObject *task, PyObject *name)
{
    PyTypeObject *type = Py_TYPE(task);
    const PyMemberDescrObject *member = (const PyMemberDescrObject *) handle_callback;
    uint64_t at = 0;

    if (atomic_load(&bound.code) || Py_TYPE(handle_callback) != &PyMemberDescr_Type)
        return false;
    for (Py_ssize_t i = sizeof(PyObject); i + 8 <= type->tp_basicsize && !at; i += 8)
        if (memcmp((char *) task + i, &name, sizeof name) == 0)
            at = (uint64_t) i;
    bound.key = wick_ext_label_key("asyncio.task.name");
    if (!at || bound.key < 0)
        return false;
    Py_INCREF(code);
    Py_INCREF(type);
    bound.callback_offset = (uint64_t) member->d_member->offset;
    bound.name_offset = at;
    bound.task_type = (uint64_t) (uintptr_t) type;
    atomic_store(&bound.code, (uint64_t) (uintptr_t) code);
    return true;
}

static bool is_task(struct peek *p, uint64_t object)
{
    uint64_t type = 0;

    return object && peek_u64(p, object + offsetof(PyObject, ob_type), &type) && type == bound.task_type;
}

/* The task that a callback belongs to: a built-in method of it, or the object that makes its first step. */
static uint64_t task_of(struct peek *p, uint64_t callback)
{
    uint64_t at = 0;

    if (peek_u64(p, callback + offsetof(PyCFunctionObject, m_self), &at) && is_task(p, at))
        return at;
    if (peek_u64(p, callback + sizeof(PyObject), &at) && is_task(p, at))
        return at;
    return 0;
}

static void put_label(struct wick_ext_stack *s, struct peek *p, uint64_t name)
{
    char text[96] = "Task-";
    uint64_t type = 0;
    uint32_t n;

    if (!peek_u64(p, name + offsetof(PyObject, ob_type), &type))
        return;
    if (type == (uint64_t) (uintptr_t) &PyLong_Type) { /* a number, until the name is asked for (3.13) */
        uint32_t digit = 0, k = 0;
        char reversed[12];

        if (!peek_copy(p, name + 24, &digit, sizeof digit))
            return;
        do
            reversed[k++] = (char) ('0' + digit % 10);
        while (digit /= 10);
        for (n = 5; k;)
            text[n++] = reversed[--k];
    } else {
        n = code_names_text(p, name, text, sizeof text);
    }
    if (n)
        wick_ext_label(s, bound.key, text, n);
}

void py_task_label(struct wick_ext_stack *s, PyObject *task)
{
    uint64_t name = 0;
    struct peek p;

    if (!atomic_load(&bound.code))
        return;
    peek_init(&p, false);
    memcpy(&name, (char *) task + bound.name_offset, sizeof name);
    if (name)
        put_label(s, &p, name);
}

void py_task_find(struct wick_ext_stack *s, uint64_t tstate)
{
    uint64_t code = atomic_load(&bound.code), at = 0;
    struct peek p;

    if (!code || !py_frames_local(tstate, s->tid != 0, code, &at) || !at)
        return;
    peek_init(&p, s->tid != 0);
    if (peek_u64(&p, at + bound.callback_offset, &at) && (at = task_of(&p, at)) &&
        peek_u64(&p, at + bound.name_offset, &at) && at)
        put_label(s, &p, at);
}
