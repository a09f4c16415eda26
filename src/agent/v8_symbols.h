/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a binary with V8 says how its objects look: variables v8dbg_*, which V8 has for debuggers (postmortem metadata). They
 * are found by the process that reads binaries; their values are read from the memory of the process (dump/dump_v8.h).
 */
#ifndef AGENT_V8_SYMBOLS_H
#define AGENT_V8_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

struct elf_file;

/* Name in enum, name of the variable without v8dbg_. */
#define V8_VALUES(X)                                                               \
    X(FP_FUNCTION, "off_fp_function")                                              \
    X(FP_CONTEXT, "off_fp_context_or_frame_type")                                  \
    X(FUNCTION_SHARED, "class_JSFunction__shared__SharedFunctionInfo")             \
    X(SHARED_NAME, "class_SharedFunctionInfo__name_or_scope_info__Object")         \
    X(SHARED_SCRIPT, "class_SharedFunctionInfo__script_or_debug_info__HeapObject") \
    X(SCRIPT_NAME, "class_Script__name__Object")                                   \
    X(HEAP_MAP, "class_HeapObject__map__Map")                                      \
    X(MAP_TYPE, "class_Map__instance_type__uint16_t")                              \
    X(STRING_LENGTH, "class_String__length__int32_t")                              \
    X(ONE_BYTE_CHARS, "class_SeqOneByteString__chars__char")                       \
    X(CONS_FIRST, "class_ConsString__first__String")                               \
    X(CONS_SECOND, "class_ConsString__second__String")                             \
    X(THIN_ACTUAL, "class_ThinString__actual__String")                             \
    X(FIRST_NON_STRING, "FirstNonstringType")                                      \
    X(REPRESENTATION_MASK, "StringRepresentationMask")                             \
    X(ENCODING_MASK, "StringEncodingMask")                                         \
    X(ONE_BYTE_TAG, "OneByteStringTag")                                            \
    X(SEQUENTIAL_TAG, "SeqStringTag")                                              \
    X(CONS_TAG, "ConsStringTag")                                                   \
    X(THIN_TAG, "ThinStringTag")                                                   \
    X(TYPE_SHARED, "type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE")           \
    X(TYPE_SCOPE, "type_ScopeInfo__SCOPE_INFO_TYPE")                               \
    X(TYPE_SCRIPT, "type_Script__SCRIPT_TYPE")                                     \
    X(SCOPE_FIRST, "scopeinfo_idx_first_vars")                                     \
    X(SCOPE_LOCALS, "scopeinfo_idx_ncontextlocals")

enum v8_value {
#define X(name, text) V8_##name,
    V8_VALUES(X)
#undef X
        V8_VALUES_N,
};

struct v8_symbols {
    uint64_t at[V8_VALUES_N]; /* ELF addresses of 32-bit numbers; 0: the binary does not have it */
};

/* False when the binary lacks one of them. */
bool v8_symbols_find(const struct elf_file *f, struct v8_symbols *ret);

#endif
