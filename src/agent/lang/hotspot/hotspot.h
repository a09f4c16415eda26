/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Java methods of a process with HotSpot (JDK 11 to 26), read from its memory: interpreted and compiled code alike.
 *
 *   method ─► ConstMethod ─┬► constant pool ─┬► class: name
 *                          │                 └► Symbols: the method's name, its file
 *                          └► bytecode, then its table of lines
 *   blob of compiled code ─► addresses with debug information ─► methods that were inlined there, and where they are in their bytecode
 *
 * HotSpot itself describes the layout: tables of fields (gHotSpotVMStructs) and of sizes (gHotSpotVMTypes). The memory may hold
 * anything: everything is checked before it is used, and has a limit. What is read later than a sample is checked against it by the
 * caller (lang_hotspot.c).
 */
#ifndef AGENT_LANG_HOTSPOT_H
#define AGENT_LANG_HOTSPOT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/lang/hotspot/hotspot_abi.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "proc/proc_memory.h"

struct elf_file;

/* Variables that say where the tables are, and how their entries look. */
#define HOTSPOT_SYMBOLS(X)                                  \
    X(STRUCTS, "gHotSpotVMStructs")                         \
    X(STRUCT_STRIDE, "gHotSpotVMStructEntryArrayStride")    \
    X(STRUCT_TYPE, "gHotSpotVMStructEntryTypeNameOffset")   \
    X(STRUCT_FIELD, "gHotSpotVMStructEntryFieldNameOffset") \
    X(STRUCT_STATIC, "gHotSpotVMStructEntryIsStaticOffset") \
    X(STRUCT_OFFSET, "gHotSpotVMStructEntryOffsetOffset")   \
    X(STRUCT_ADDRESS, "gHotSpotVMStructEntryAddressOffset") \
    X(TYPES, "gHotSpotVMTypes")                             \
    X(TYPE_STRIDE, "gHotSpotVMTypeEntryArrayStride")        \
    X(TYPE_NAME, "gHotSpotVMTypeEntryTypeNameOffset")       \
    X(TYPE_SIZE, "gHotSpotVMTypeEntrySizeOffset")

enum hotspot_symbol {
#define X(name, text) HOTSPOT_##name,
    HOTSPOT_SYMBOLS(X)
#undef X
        HOTSPOT_SYMBOLS_N,
};

/* ELF addresses. */
struct hotspot_image {
    uint64_t at[HOTSPOT_SYMBOLS_N];
};

enum {
    HOTSPOT_OLDEST = 11,
    HOTSPOT_NEWEST = 26,
    HOTSPOT_INLINED_MAX = 32,
    HOTSPOT_STUBS_MAX = 256,
    HOTSPOT_NAME_MAX = 2048, /* bytes of a name */
};

/* Where compiled code has its table of methods. */
enum hotspot_metadata { HOTSPOT_METADATA_UNKNOWN, HOTSPOT_METADATA_IN_BLOB, HOTSPOT_METADATA_MUTABLE };

struct hotspot {
    struct agent_hotspot at; /* what the programs in BPF know */
    uint32_t major;
    char release[48];
    uint16_t symbol_body;
    uint16_t pool_file,
        class_file;        /* the index of the file's name: of the pool, or, before JDK 15, of the class; 0: none */
    uint16_t method_lines; /* the flags of a ConstMethod; bit 0: there is a table of lines */
    uint16_t pc_bytes, pc_scope; /* of a PcDesc; its address is its first field */
    uint16_t scopes_pcs, pcs_end, scopes_data, immutable, metadata, relocation, mutable_data;
    enum hotspot_metadata metadata_kind;
    bool has_scopes;
    uint64_t call_stub; /* the address after its call */
    struct hotspot_stub_name {
        uint64_t address;
        char name[64];
    } stubs[HOTSPOT_STUBS_MAX]; /* by address */
    uint32_t n_stubs;
};

struct hotspot_reader {
    const struct hotspot *h;
    const struct proc_memory *m;
};

struct hotspot_method {
    struct str class, name, file; /* as HotSpot has them: java/util/HashMap; in the arena */
    int32_t line, start_line;     /* 0: not known */
};

/* A place in a method: of a frame, or of a call that was inlined into it. */
struct hotspot_scope {
    uint64_t method;
    int32_t bci; /* negative: not known */
};

/* False when the binary lacks a symbol. */
bool hotspot_image_find(const struct elf_file *f, struct hotspot_image *ret);
/* Reads the tables. -EAGAIN: the virtual machine is not ready yet; -ENOTSUP with an error message: an unknown version; or another
 * negative errno. */
int hotspot_read(const struct hotspot_image *image, uint64_t bias, const struct proc_memory *m, struct hotspot *ret,
                 struct err *e);

/* What tells the method from others at its address (hotspot_step.h); 0: it cannot be read. */
uint64_t hotspot_content(const struct hotspot_reader *r, uint64_t method);
/* Reads a method's names, and its line. -EBADMSG when there is none at this address. */
int hotspot_method_read(const struct hotspot_reader *r, uint64_t method, int32_t bci, struct arena *a,
                        struct hotspot_method *ret);
/* The content of compiled code, as a sample's third word; 0: there is none at this address. *ret_method: its method. */
uint64_t hotspot_code(const struct hotspot_reader *r, uint64_t blob, uint64_t *ret_method);
/* The scopes at an address in compiled code, innermost inlined call first, the method itself last; only the latter if nothing more is
 * known. leaf: the instruction was interrupted; else the address is after a call. Returns their number. */
uint32_t hotspot_scopes(const struct hotspot_reader *r, uint64_t blob, uint64_t pc, bool leaf,
                        struct hotspot_scope ret[HOTSPOT_INLINED_MAX]);
/* The name of a stub: of the routine at the address if it is known, else of its blob. 0; -EBADMSG when the blob has not this content. */
int hotspot_stub_read(const struct hotspot_reader *r, uint64_t blob, uint64_t pc, uint64_t content, struct arena *a,
                      struct str *ret);

/* --- parts --- */
/* Decodes a number of HotSpot's own compression, and advances *p up to end; false at the end. */
bool hotspot_number(const uint8_t **p, const uint8_t *end, bool no_zero, uint32_t *ret);

#endif
