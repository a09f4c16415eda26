/* SPDX-License-Identifier: Apache-2.0 */
/* CPython: what its BPF and user sides share. */
#ifndef AGENT_LANG_PYTHON_ABI_H
#define AGENT_LANG_PYTHON_ABI_H

#include <linux/types.h>

enum {
    AGENT_PYTHON_NONE = 0xffff,
    AGENT_PYTHON_ENTRY = 1, /* in the first word: the outermost frame of its native one (code objects are aligned) */
};

/* Where things are in CPython: see python.h. AGENT_PYTHON_NONE: not there in this version. */
struct agent_python {
    __u64 interpreters; /* address of the pointer to the first one */
    __u16 minor;        /* 3.minor */
    __u16 interp_next, interp_threads, thread_next, thread_id, thread_frame, cframe_frame;
    __u16 frame_previous, frame_code, frame_instr, frame_owner, frame_entry;
    __u16 code_filename, code_start;
};

#endif
