/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /debug/pprof/ of the server itself, like Go's net/http/pprof: `go tool pprof http://HOST:4040/debug/pprof/profile`.
 * libwick does the sampling; it is loaded at the first request and runs only while a profile is taken. Without the
 * library these paths answer with an error message. Threads must not block SIGPROF: thread_let_through().
 */
#ifndef SERVE_SERVE_SELF_H
#define SERVE_SERVE_SELF_H

struct front;

int serve_self_mount(struct front *f);

#endif
