/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command is called, for services that no unit, container or variable names. An interpreter is what it runs: the
 * module of `python -m`, a script, a jar, a main class. Any other program is its argv[0], which is what it was started as
 * where one file has many names (redis-server, busybox).
 */
#ifndef AGENT_SERVICE_NAME_H
#define AGENT_SERVICE_NAME_H

#include "base/str.h"

/* command: /proc/PID/cmdline, arguments ended by NUL; exe: base name of the executable, may be empty. The result points
 * into either, and is empty when there is nothing to go by. */
struct str service_name_of(struct str command, struct str exe);

#endif
