/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands to a running Java program, as jcmd and jstack send them: the names of its compiled code (`jcmd PID
 * Compiler.perfmap`, JDK 17 and later; HotSpot then writes /tmp/perf-PID.map), and its threads. Nothing of the program is
 * executed here; the request goes over the virtual machine's own socket (its attach protocol):
 *
 *   /tmp/.java_pidN           the socket, N: the pid in the process's namespace. Created on demand: the file .attach_pidN
 *                             is made in its working directory, or in its /tmp, and SIGQUIT sent
 *   request                   "1" 0 command 0 three arguments, each with its 0: "jcmd" 0 "Compiler.perfmap" 0 0 0
 *   answer                    "0\n" and text when it succeeded
 *
 * HotSpot answers only its own user and root: the caller should have the identity of the process's user.
 */
#ifndef PROC_JAVA_ATTACH_H
#define PROC_JAVA_ATTACH_H

#include "base/buf.h"
#include "base/err.h"

/* Each waits for the answer, some seconds at most. */
int java_attach_perfmap(int pid, struct err *e);
/* Appends what jstack prints. Done in a process of its own that becomes the program's user, so that a Java program can make
 * root do nothing that its user cannot do. */
int java_attach_threads(int pid, struct buf *out, struct err *e);
/* Becomes the user of the process, for good. 0, or a negative errno. */
int java_attach_become_owner(int pid);

#endif
