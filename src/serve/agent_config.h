/* SPDX-License-Identifier: Apache-2.0 */
/* The `agent` section of wick.yaml: for `wick agent --config`, and for the agent that `wick serve` starts. */
#ifndef SERVE_AGENT_CONFIG_H
#define SERVE_AGENT_CONFIG_H

#include "base/arena.h"
#include "base/err.h"
#include "conf/args.h"

struct serve_agent;

enum { AGENT_CONFIG_ARGS_MAX = 1024 };

/* Returns the section as options of `wick agent`, NULL-terminated, in the arena; options about the destination only
 * with exports. Rules are checked here: -EINVAL with an error message. */
int agent_config_args(const struct serve_agent *c, bool exports, struct arena *a, char ***ret, struct err *e);
/* The same, reading the section from the files of `wick agent --config`. */
int agent_config_load(const struct arg_list *files, struct arena *a, char ***ret, struct err *e);

#endif
