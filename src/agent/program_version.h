/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The version of what an interpreter runs. It is never that of the interpreter: it is in the manifest of the program, which
 * is package.json or pyproject.toml beside the script or a few folders above it; else it is a hash of the script, or of the
 * directory of a jar, which has the checksums of all its files. A module of `python -m` has none.
 */
#ifndef AGENT_PROGRAM_VERSION_H
#define AGENT_PROGRAM_VERSION_H

#include <stddef.h>

#include "agent/service_name.h"

/* dir: /proc/PID. ret: "" when there is none. Reads at most a few files, and of each a megabyte. */
void program_version(const char *dir, const struct service_script *s, char *ret, size_t size);

#endif
