/* SPDX-License-Identifier: Apache-2.0 */
/* Other programs: finds them on the PATH, runs them to their end and reads their output, or talks to them over a socket. */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct child_limits {
    size_t output; /* bytes */
    int64_t ns;    /* 0: none */
};

/* Finds the program in one of the folders (separated by ':'), or on the PATH if folders is empty. A name with a '/' is
 * used as it is. */
bool child_find(struct str folders, const char *name, struct buf *ret_path);
/* Runs argv[0] and appends its standard output to out, at most limit bytes; its standard input and standard error are
 * /dev/null. -EIO with an error message if it fails. */
int child_output(const char *const *argv, size_t limit, struct buf *out, struct err *e);
/* The same with the descriptor `in` as its standard input, and with a limit on its time: then it is killed (-ETIMEDOUT). */
int child_filter(const char *const *argv, int in, const struct child_limits *limits, struct buf *out, struct err *e);

/* Starts argv[0] with one end of a socket pair of this type (SOCK_STREAM, SOCK_SEQPACKET) as its standard input and
 * output; *ret_fd is the other end. */
int child_on_socket(char *const *argv, int type, pid_t *ret_pid, int *ret_fd, struct err *e);
/* Kills a child, waits for its end and closes fd. Returns its wait status; its CPU time is added to *cpu_ns. */
int child_end(pid_t pid, int fd, int64_t *cpu_ns);
/* CPU time that a running child has used; 0 when there is none (pid 0). */
int64_t child_cpu_ns(pid_t pid);

#endif
