/* SPDX-License-Identifier: Apache-2.0 */
/* The `agent` section of wick.yaml: for `wick agent --config`, and for the agent that `wick serve` starts. */
#ifndef SERVE_AGENT_CONFIG_H
#define SERVE_AGENT_CONFIG_H

#include <stdbool.h>

#include "base/err.h"

struct agent_run_options;
struct arg_list;
struct conf;
struct serve_agent;

/* The section as options of the agent; the destination only with exports. Texts belong to the configuration. Rules are
 * checked here: -EINVAL with an error message. */
int agent_config_read(const struct serve_agent *c, bool exports, struct agent_run_options *ret, struct err *e);
/* The same, reading the section from the files of `wick agent --config`. conf: initialised by the caller; it owns the texts. */
int agent_config_load(const struct arg_list *files, struct conf *conf, struct agent_run_options *ret, struct err *e);

#endif
