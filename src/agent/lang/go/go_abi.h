/* SPDX-License-Identifier: Apache-2.0 */
/* Go: what its BPF and user sides share. */
#ifndef AGENT_LANG_GO_ABI_H
#define AGENT_LANG_GO_ABI_H

#include <linux/types.h>

enum { AGENT_GO_M = 48 }; /* offset of m in g */

/* Where Go keeps labels: see go_runtime.h. */
struct agent_go {
    __s64 g;            /* from the thread pointer; x86-64 */
    __u32 curg, labels; /* in m, in g */
};

#endif
