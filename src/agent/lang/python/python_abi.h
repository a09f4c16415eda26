/* SPDX-License-Identifier: Apache-2.0 */
/* CPython: what its BPF and user sides share. */
#ifndef AGENT_LANG_PYTHON_ABI_H
#define AGENT_LANG_PYTHON_ABI_H

#include "agent/bpf/lang_abi.h"

enum {
    AGENT_PYTHON_NONE = 0xffff,
    AGENT_PYTHON_ENTRY = 1,    /* in the first word: the outermost frame of its native one (code objects are aligned) */
    AGENT_PYTHON_CONTENT = 96, /* bytes of a code object that are hashed, at most */
    AGENT_PYTHON_TEXT = 128,   /* of each text that is hashed: its last bytes */
    AGENT_PYTHON_THREAD = 4096 /* bytes of a C library's structure for a thread, at most */
};

/* Where things are in CPython: see python.h. AGENT_PYTHON_NONE: not there in this version. */
struct agent_python {
    __u64 interpreters; /* address of the pointer to the first one */
    __u16 minor;        /* 3.minor */
    __u16 interp_next, interp_threads, thread_next, thread_id, thread_frame, cframe_frame;
    __u16 frame_previous, frame_code, frame_instr, frame_owner, frame_entry;
    __u16 code_name, code_filename, code_linetable, code_start,
        code_bytes;                            /* code_name: the qualified one if there is one */
    __u16 content, content_bytes, has_version; /* what the content is made of */
    __u16 str_length, str_state, str_kind, str_ascii, str_compact, bytes_size, bytes_data;
};

/*
 * The content of a code object (agent_hash_step()) tells it from another one that is at the same address before or after it: a hash of
 * its fields from the first line to the pointer to the line table, none of which change while it exists. From 3.12 on, a
 * number is among them that no other code object has. Before, its name, its file and its line table are hashed as well,
 * the last bytes of each: objects that are made one after the other, as by exec() in a loop, may be the same but for these.
 */

/* Whether a thread's id (pthread_self()) is that of the thread with this thread pointer. On x86-64 they are one address. On
 * arm64 the C library's structure, whose address is the id, ends at the thread pointer; it is smaller than any stack. */
static inline __attribute__((always_inline)) int python_is_thread(__u64 id, __u64 thread_pointer)
{
#if defined(__aarch64__)
    return thread_pointer - id < AGENT_PYTHON_THREAD;
#else
    return id == thread_pointer;
#endif
}

#endif
