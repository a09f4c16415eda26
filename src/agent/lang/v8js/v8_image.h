/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a binary with V8 says how its objects look: variables v8dbg_*, which V8 has for debuggers (postmortem metadata), and where
 * its interpreter is. They are found by the process that reads binaries; the values are read from the memory of the process.
 */
#ifndef AGENT_LANG_V8_IMAGE_H
#define AGENT_LANG_V8_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

struct elf_file;

enum { V8_REQUIRED = INT32_MIN };

/* Name in enum; name of the variable without v8dbg_; the value where V8 does not have the variable. A name that ends in '_' is
 * followed by the field's C++ type, which versions of V8 write differently. */
#define V8_VALUES(X)                                                                  \
    X(FP_FUNCTION, "off_fp_function", V8_REQUIRED)                                    \
    X(FP_CONTEXT, "off_fp_context_or_frame_type", V8_REQUIRED)                        \
    X(FP_BYTECODE, "off_fp_bytecode_array", -32)                                      \
    X(FP_OFFSET, "off_fp_bytecode_offset", -40)                                       \
    X(FUNCTION_SHARED, "class_JSFunction__shared__", V8_REQUIRED)                     \
    X(SHARED_NAME, "class_SharedFunctionInfo__name_or_scope_info__", V8_REQUIRED)     \
    X(SHARED_SCRIPT, "class_SharedFunctionInfo__script_", V8_REQUIRED)                \
    X(SHARED_FLAGS, "class_SharedFunctionInfo__flags__", V8_REQUIRED)                 \
    X(SHARED_DATA, "class_SharedFunctionInfo__function_data__", 8)                    \
    X(SCRIPT_NAME, "class_Script__name__", V8_REQUIRED)                               \
    X(SCRIPT_SOURCE, "class_Script__source__", 8)                                     \
    X(SCRIPT_LINE_ENDS, "class_Script__line_ends__", 56)                              \
    X(HEAP_MAP, "class_HeapObject__map__", V8_REQUIRED)                               \
    X(MAP_TYPE, "class_Map__instance_type__", V8_REQUIRED)                            \
    X(STRING_LENGTH, "class_String__length__", V8_REQUIRED)                           \
    X(ONE_BYTE_CHARS, "class_SeqOneByteString__chars__", V8_REQUIRED)                 \
    X(CONS_FIRST, "class_ConsString__first__", V8_REQUIRED)                           \
    X(CONS_SECOND, "class_ConsString__second__", V8_REQUIRED)                         \
    X(THIN_ACTUAL, "class_ThinString__actual__", V8_REQUIRED)                         \
    X(EXTERNAL_RESOURCE, "class_ExternalString__resource__", 16)                      \
    X(FIRST_NON_STRING, "FirstNonstringType", V8_REQUIRED)                            \
    X(REPRESENTATION_MASK, "StringRepresentationMask", V8_REQUIRED)                   \
    X(ENCODING_MASK, "StringEncodingMask", V8_REQUIRED)                               \
    X(ONE_BYTE_TAG, "OneByteStringTag", V8_REQUIRED)                                  \
    X(SEQUENTIAL_TAG, "SeqStringTag", V8_REQUIRED)                                    \
    X(CONS_TAG, "ConsStringTag", V8_REQUIRED)                                         \
    X(THIN_TAG, "ThinStringTag", V8_REQUIRED)                                         \
    X(EXTERNAL_TAG, "ExternalStringTag", 2)                                           \
    X(TYPE_SHARED, "type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE", V8_REQUIRED) \
    X(TYPE_SCOPE, "type_ScopeInfo__SCOPE_INFO_TYPE", V8_REQUIRED)                     \
    X(TYPE_SCRIPT, "type_Script__SCRIPT_TYPE", V8_REQUIRED)                           \
    X(TYPE_BYTECODE, "type_BytecodeArray__BYTECODE_ARRAY_TYPE", -1)                   \
    X(TYPE_CODE, "type_Code__CODE_TYPE", -1)                                          \
    X(TYPE_STREAM, "type_InstructionStream__INSTRUCTION_STREAM_TYPE", -1)             \
    X(SCOPE_FIRST, "scopeinfo_idx_first_vars", V8_REQUIRED)                           \
    X(SCOPE_LOCALS, "scopeinfo_idx_ncontextlocals", V8_REQUIRED)                      \
    X(BYTECODE_DATA, "class_BytecodeArray__data__", -1)                               \
    X(CODE_START, "class_Code__instruction_start__", 40)                              \
    X(CODE_SIZE, "class_Code__instruction_size__", 56)                                \
    X(CODE_WRAPPER, "class_Code__wrapper__", -1)                                      \
    X(DEOPT_LITERALS, "DeoptimizationDataLiteralArrayIndex", 2)                       \
    X(DEOPT_SHARED, "DeoptimizationDataSharedFunctionInfoIndex", -1)                  \
    X(DEOPT_WRAPPED, "DeoptimizationDataWrappedSharedFunctionInfoIndex", -1)          \
    X(DEOPT_INLINING, "DeoptimizationDataInliningPositionsIndex", 7)                  \
    X(FRAME_WASM, "frametype_WasmFrame", -1)                                          \
    X(FRAME_REGEXP, "frametype_IrregexpFrame", -1)                                    \
    X(MAJOR, "(v8::internal::Version::major_)", -1)

enum v8_value {
#define X(name, text, otherwise) V8_##name,
    V8_VALUES(X)
#undef X
        V8_VALUES_N,
};

struct v8_range {
    uint64_t lo, hi;
};

/* ELF addresses. */
struct v8_image {
    uint64_t at[V8_VALUES_N];        /* of 32-bit numbers; 0: the binary does not have it */
    struct v8_range entry, handlers; /* code that runs in frames of the interpreter: its entry, and of each bytecode */
};

/* False when the binary lacks one that is required. */
bool v8_image_find(const struct elf_file *f, struct v8_image *ret);

#endif
