/* SPDX-License-Identifier: Apache-2.0 */
/* Runs what reads a mapped file that somebody else may cut short: SIGBUS becomes -EIO. */
#ifndef AGENT_OBJECT_GUARD_H
#define AGENT_OBJECT_GUARD_H

/* f(arg), or -EIO when it touched a part of a file that is not there any more; what it held is then lost. Not to be
 * nested. The handler is set at the first use; SIGBUS of other causes ends the process as ever. */
int object_guard(int (*f)(void *arg), void *arg);

#endif
