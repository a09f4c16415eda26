/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a function that reads a mapped file, which another process may truncate at any time: SIGBUS becomes -EIO. */
#ifndef AGENT_OBJECT_GUARD_H
#define AGENT_OBJECT_GUARD_H

/* Returns f(arg), or -EIO when f touched a part of a file that no longer exists; the resources that f held are then
 * leaked. Calls must not be nested. The handler is installed at the first use; SIGBUS with another cause still ends the
 * process. */
int object_guard(int (*f)(void *arg), void *arg);

#endif
