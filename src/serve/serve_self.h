/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /debug/pprof/ of the server itself, as Go's net/http/pprof has it: `go tool pprof http://HOST:4040/debug/pprof/profile`.
 * Sampled by libwick, which is loaded at the first request and runs only while a profile is taken; without the library
 * these paths say so. Threads must be able to get SIGPROF: thread_let_through().
 */
#ifndef SERVE_SERVE_SELF_H
#define SERVE_SERVE_SELF_H

struct front;

int serve_self_mount(struct front *f);

#endif
