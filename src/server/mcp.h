/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Model Context Protocol: lets a coding agent ask why a service is slow. JSON-RPC 2.0; the tools are the questions
 * of query/answer.h, with short instructions for their use. Answers are bounded in size: lists are short by default,
 * and a text that is still too long is cut, with a line that says how to ask for less.
 *
 * The caller provides the transport: a line on stdio (wick mcp) or a POST to /mcp.
 */
#ifndef SERVER_MCP_H
#define SERVER_MCP_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct question;

enum { MCP_TEXT_MAX = 24000 };

struct mcp {
    /* Asks `what`, reading parameters by name; appends the JSON answer to out. */
    int (*ask)(void *ctx, const struct question *what, struct str (*param)(void *pctx, const char *name), void *pctx,
               struct buf *out, struct err *e);
    void *ctx;
    /* Appends the list of alerts (GET /api/v1/alerts) to out; NULL: there is no such tool. */
    int (*alerts)(void *ctx, struct buf *out, struct err *e);
};

/* Handles one message and writes at most one (none for notifications). Never fails: errors are sent as answers. */
void mcp_handle(const struct mcp *m, struct str message, struct buf *out);

#endif
