/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the threads of a process keep their span, if they publish it (OTEP 4947): the thread-local variable
 * otel_thread_ctx_v1 of its executable or of one of its libraries. Sets p->span for the BPF side.
 */
#ifndef AGENT_SPAN_FIND_H
#define AGENT_SPAN_FIND_H

#include <stdbool.h>

struct process;

/* Searches the mapped files, each once. True when there is such a variable but the loader has not placed it yet: then
 * call again later. */
bool span_find(struct process *p);

#endif
