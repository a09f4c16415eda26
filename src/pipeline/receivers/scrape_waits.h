/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits that say nothing about the program are left out of Go's mutex and block profiles: those of profilers, and those of
 * goroutines of the runtime and of the standard library that wait until there is work. One such goroutine waits a second
 * per second. The module go/ does the same (go/profiling/waits.go).
 */
#ifndef PIPELINE_SCRAPE_WAITS_H
#define PIPELINE_SCRAPE_WAITS_H

struct batch;

/* Removes such samples from b if it is a mutex or a block profile. b comes directly from its decoder. */
void scrape_waits_drop(struct batch *b);

#endif
