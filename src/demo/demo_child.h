/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of the demo: none of them outlives it. */
#ifndef DEMO_DEMO_CHILD_H
#define DEMO_DEMO_CHILD_H

#include <sys/types.h>

/* Starts a child that is stopped when its parent ends for any reason; file "/proc/self/exe" is this program. out becomes its standard
 * output and is closed here; negative: the parent's. */
pid_t demo_child_start(const char *file, const char *const *argv, int out);
/* SIGTERM, and SIGKILL after two seconds, to it and what it started. *pid is then 0; not positive: there is none. */
void demo_child_stop(pid_t *pid);

#endif
