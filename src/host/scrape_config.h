/* SPDX-License-Identifier: Apache-2.0 */
/* --scrape of `wick serve` and `wick agent`: a Collector configuration for the receiver pprof, from URLs. */
#ifndef HOST_SCRAPE_CONFIG_H
#define HOST_SCRAPE_CONFIG_H

#include "base/err.h"
#include "base/str.h"

struct arg_list;
struct conf;

/* Adds a pipeline `profiles/scrape` to c that scrapes the URLs and hands on to the exporter of that name; nothing if there are
 * none, or urls is NULL. The name of each service is that of the program. */
int scrape_config_add(struct conf *c, const struct arg_list *urls, const char *exporter, struct err *e);
/* The URL without /debug/pprof/ at its end, which people copy with it. */
struct str scrape_config_base(const char *url);

/* The program's name in a response to GET /debug/pprof/cmdline, of n bytes and a NUL; empty if it is not the command line of
 * a program. */
struct str scrape_config_program(const char *answer, size_t n);

#endif
