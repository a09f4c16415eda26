/* SPDX-License-Identifier: Apache-2.0 */
/* Walks native stacks of a process for dump.c, and names their frames. */
#ifndef AGENT_DUMP_WALK_H
#define AGENT_DUMP_WALK_H

#include "agent/dump/dump.h"
#include "unwind/remote.h"

/* Opens the files that the process has mapped and makes their unwind tables, so that a walk does not have to. */
void dump_walk_prepare(struct dump *s);
/* The frames from `from` on as words (AGENT_WORD_NATIVE, AGENT_WORD_EXACT), DUMP_FRAMES_MAX at most; returns their
 * number. *ret_whole: the stack was walked to its root. */
uint32_t dump_walk(struct dump *s, const struct remote_regs *from, const struct proc_memory *m, uint64_t *words,
                   bool *ret_whole);
/* Makes the frames of words, native ones and the language's, in the arena. Native frames have no names yet. */
int dump_frames(struct dump *s, const uint64_t *words, uint32_t n, struct dump_stack *ret);
/* Names the native frames of all threads and tasks. */
void dump_names(struct dump *s);

#endif
