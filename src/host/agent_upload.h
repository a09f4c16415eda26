/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wick agent --upload-symbols: sends files with symbols of sampled code to a server, with `wick symbols upload
 * --if-missing`, one at a time: each file once, at one MiB/s on average and within a thousandth of the machine's CPU. A
 * failed upload is retried after increasing delays.
 */
#ifndef HOST_AGENT_UPLOAD_H
#define HOST_AGENT_UPLOAD_H

#include "base/err.h"

struct agent;
struct agent_upload;

/* server: of the API; NULL: $WICK_SERVER, else port 4040 of the host that is exported to. token: NULL: $WICK_TOKEN. */
int agent_upload_new(const char *server, const char *export, const char *token, struct agent_upload **ret,
                     struct err *e);
void agent_upload_free(struct agent_upload *u);
/* Handles a child that ended, and starts the next one when it is due. */
void agent_upload_step(struct agent_upload *u, struct agent *a);

#endif
