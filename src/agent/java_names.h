/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `--jcmd`: asks Java programs that are sampled to write a perf map (proc/java_attach.h). The requests are made by a
 * process that is started before the agent gives up its rights; it becomes the Java program's user for each request.
 * There is one for the whole program.
 */
#ifndef AGENT_JAVA_NAMES_H
#define AGENT_JAVA_NAMES_H

#include <stdbool.h>

#include "base/err.h"

struct process;

/* Starts it; it ends with the calling process. To be called while there is one thread. */
int java_names_start(struct err *e);
/* Whether it has a Java virtual machine mapped. */
bool java_names_is_java(const struct process *p);
/* Has the process write its perf map again, if it is a Java program and was not asked just before. Returns at
 * once: the map is there some time later. */
void java_names_ask(struct process *p);

#endif
