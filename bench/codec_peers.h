/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON libraries that bench_codec compares with, apart from it because json-c's names are wick's too. */
#ifndef BENCH_CODEC_PEERS_H
#define BENCH_CODEC_PEERS_H

#include <stdbool.h>
#include <stddef.h>

bool peer_json_c(const char *p, size_t n); /* parses into a tree and frees it */
bool peer_yajl(const char *p, size_t n);   /* parses with callbacks that do nothing */

#endif
