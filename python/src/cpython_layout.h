/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs between the versions of CPython: 3.9 to 3.14. The package is compiled for each, so that the layouts come
 * from the interpreter's own headers where they have them.
 *
 *   3.9, 3.10  tstate->frame, a chain of frame objects; one call of the evaluation loop for each
 *   3.11       tstate->cframe->current_frame; `is_entry` marks the last frame of a call of the loop
 *   3.12       the same; a frame of owner 3, without code, ends a call of the loop
 *   3.13       tstate->current_frame
 *   3.14       f_executable is tagged in its low bits; owners 3 and 4 are without code
 */
#ifndef PYTHON_CPYTHON_LAYOUT_H
#define PYTHON_CPYTHON_LAYOUT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>
#include <structmember.h>

#if PY_VERSION_HEX < 0x03090000 || PY_VERSION_HEX >= 0x030f0000
#error "wick supports CPython 3.9 to 3.14"
#endif

#define PY_MINOR ((PY_VERSION_HEX >> 16) & 0xff)

#if PY_VERSION_HEX >= 0x030b0000
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_interpframe.h>
#include <internal/pycore_interpframe_structs.h>
#include <internal/pycore_tstate.h>
#endif
#pragma GCC diagnostic pop
#endif

/* --- frames --- */
#if PY_VERSION_HEX >= 0x030b0000
typedef struct _PyInterpreterFrame py_frame;
#define PY_FRAME_HEAD offsetof(struct _PyInterpreterFrame, localsplus)
#define PY_FRAME_LOCALS offsetof(struct _PyInterpreterFrame, localsplus)
#define PY_FRAME_PREVIOUS(f) ((uint64_t) (uintptr_t) (f)->previous)
#else
typedef PyFrameObject py_frame;
#define PY_FRAME_HEAD offsetof(PyFrameObject, f_localsplus)
#define PY_FRAME_LOCALS offsetof(PyFrameObject, f_localsplus)
#define PY_FRAME_PREVIOUS(f) ((uint64_t) (uintptr_t) (f)->f_back)
#endif

#if PY_VERSION_HEX >= 0x030e0000
#define PY_FRAME_CODE(f) ((uint64_t) (f)->f_executable.bits & ~(uint64_t) 7)
#define PY_FRAME_IS_SHIM(f) ((f)->owner >= 3)
#define PY_FRAME_INSTR(f) ((uint64_t) (uintptr_t) (f)->instr_ptr)
#elif PY_VERSION_HEX >= 0x030d0000
#define PY_FRAME_CODE(f) ((uint64_t) (uintptr_t) (f)->f_executable)
#define PY_FRAME_IS_SHIM(f) ((f)->owner == FRAME_OWNED_BY_CSTACK)
#define PY_FRAME_INSTR(f) ((uint64_t) (uintptr_t) (f)->instr_ptr)
#elif PY_VERSION_HEX >= 0x030c0000
#define PY_FRAME_CODE(f) ((uint64_t) (uintptr_t) (f)->f_code)
#define PY_FRAME_IS_SHIM(f) ((f)->owner == FRAME_OWNED_BY_CSTACK)
#define PY_FRAME_INSTR(f) ((uint64_t) (uintptr_t) (f)->prev_instr)
#elif PY_VERSION_HEX >= 0x030b0000
#define PY_FRAME_CODE(f) ((uint64_t) (uintptr_t) (f)->f_code)
#define PY_FRAME_IS_SHIM(f) 0
#define PY_FRAME_INSTR(f) ((uint64_t) (uintptr_t) (f)->prev_instr)
#else
#define PY_FRAME_CODE(f) ((uint64_t) (uintptr_t) (f)->f_code)
#define PY_FRAME_IS_SHIM(f) 0
#endif

/* The last frame of its call of the evaluation loop. */
#if PY_VERSION_HEX >= 0x030c0000
#define PY_FRAME_IS_ENTRY(f) PY_FRAME_IS_SHIM(f)
#elif PY_VERSION_HEX >= 0x030b0000
#define PY_FRAME_IS_ENTRY(f) \
    (*(const unsigned char *) &(f)->is_entry != 0) /* a copy of memory that may change: any byte */
#else
#define PY_FRAME_IS_ENTRY(f) 1
#endif

/* --- code --- */
#if PY_VERSION_HEX >= 0x030b0000
#define PY_CODE_NAME co_qualname
#define PY_CODE_LINES co_linetable
#define PY_CODE_HEAD offsetof(PyCodeObject, co_code_adaptive)
#elif PY_VERSION_HEX >= 0x030a0000
#define PY_CODE_NAME co_name
#define PY_CODE_LINES co_linetable
#define PY_CODE_HEAD sizeof(PyCodeObject)
#else
#define PY_CODE_NAME co_name
#define PY_CODE_LINES co_lnotab
#define PY_CODE_HEAD sizeof(PyCodeObject)
#endif

/* --- dictionaries: the head of a keys object, which no installed header of 3.9 and 3.10 has --- */
struct py_dict_keys {
    Py_ssize_t refcnt;
#if PY_VERSION_HEX >= 0x030b0000
    uint8_t log2_size, log2_index_bytes, kind;
    uint32_t version;
#else
    Py_ssize_t size;
    void *lookup;
#endif
    Py_ssize_t usable, nentries;
};

/* Offset of the values in a PyDictValues. */
#if PY_VERSION_HEX >= 0x030d0000
#define PY_VALUES_OFFSET 8
#else
#define PY_VALUES_OFFSET 0
#endif

/* --- contexts; the same in all versions --- */
struct py_context {
    PyObject_HEAD PyObject *prev;
    PyObject *vars;
};

struct py_hamt {
    PyObject_HEAD PyObject *root;
};

struct py_hamt_bitmap {
    PyObject_VAR_HEAD uint32_t bitmap;
    PyObject *array[1]; /* pairs: key and value; a key that is NULL means that the value is a node */
};

struct py_hamt_array {
    PyObject_HEAD PyObject *array[32];
};

struct py_hamt_collision {
    PyObject_VAR_HEAD int32_t hash;
    PyObject *array[1];
};

#endif
