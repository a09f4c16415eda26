/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks a running Java program for the names of its compiled code, as `jcmd PID Compiler.perfmap` does (JDK 17 and
 * later): HotSpot then writes /tmp/perf-PID.map. Nothing of the program is executed here; the request goes over the
 * virtual machine's own socket (its attach protocol):
 *
 *   /tmp/.java_pidN           the socket, N: the pid in the process's namespace. Created on demand: the file .attach_pidN
 *                             is made in its working directory, or in its /tmp, and SIGQUIT sent
 *   request                   "1" 0 "jcmd" 0 "Compiler.perfmap" 0 0 0
 *   answer                    "0\n" and text when it succeeded
 *
 * HotSpot answers only its own user and root: the caller should have the identity of the process's user.
 */
#ifndef PROC_JAVA_ATTACH_H
#define PROC_JAVA_ATTACH_H

#include "base/err.h"

/* Waits for the answer, some seconds at most. */
int java_attach_perfmap(int pid, struct err *e);

#endif
