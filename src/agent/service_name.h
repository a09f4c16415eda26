/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name of a command, for services that no systemd unit, container or environment variable names. For an interpreter
 * it is the name of what it runs: the module of `python -m`, a script, a jar, a main class. For any other program it is
 * argv[0], which is the name it was started by if one file has several names (redis-server, busybox).
 */
#ifndef AGENT_SERVICE_NAME_H
#define AGENT_SERVICE_NAME_H

#include <stdbool.h>

#include "base/str.h"

/* command: /proc/PID/cmdline, arguments ended by NUL; exe: base name of the executable, may be empty. The result points
 * into either, and is empty when no name can be derived. */
struct str service_name_of(struct str command, struct str exe);

/* What an interpreter runs. Into command. */
struct service_script {
    struct str path; /* of a script or a jar, or the name of a module; empty: neither, as code on the command line */
    bool is_module;
};

/* False when the program is not an interpreter. */
bool service_script_of(struct str command, struct str exe, struct service_script *ret);

#endif
