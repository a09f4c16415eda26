/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that reads binaries for the agent (file_work.h): `wick symbolize --tables`, at the other end of a socket
 * pair. It gets files by descriptor, has no capabilities, can open nothing and is limited in memory. If it crashes or
 * takes too long, only the file that it was reading is affected: it is started again, but at most once a second after
 * the first few times, and a file that ended it twice is not read again.
 *
 * One thread uses a reader; a request waits for its answer. A NULL reader does the work in the calling process, for
 * tests.
 */
#ifndef AGENT_READER_FILE_READER_H
#define AGENT_READER_FILE_READER_H

#include "agent/reader/file_work.h"
#include "base/err.h"

struct file_reader;

/* Starts the process. argv is NULL-terminated and copied; argv[0] contains a '/'. Fails if the process does not answer:
 * where it cannot be confined, it refuses to run. */
int file_reader_new(const char *const *argv, struct file_reader **ret, struct err *e);
void file_reader_free(struct file_reader *r);
DEFINE_CLEANUP(struct file_reader *, file_reader_free)
/* Asks about the file in fds[0] (file_work()). Returns the answer's code, and a memory file in *ret_fd, the caller's, or
 * -1 (ret_fd may be NULL for requests without one). -EBUSY: the process ended too often lately; to be tried again later.
 * -EIO: it ended at this file. */
int file_reader_ask(struct file_reader *r, const struct file_request *q, const int fds[2], struct file_answer *ret,
                    int *ret_fd);
/* The memory file of an answer is malformed: ends the process, which cannot be trusted any more. */
void file_reader_distrust(struct file_reader *r);
/* CPU time that the process has used. */
int64_t file_reader_cpu_ns(const struct file_reader *r);
/* How often it crashed, or was stopped because it took too long or gave an invalid answer. */
uint64_t file_reader_deaths(const struct file_reader *r);

/* The process's side: answers requests from fd until the end of the stream. Returns 0 or a negative errno. */
int file_reader_serve(int fd);

#endif
