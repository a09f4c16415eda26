/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Model Context Protocol: lets a coding agent ask why a service is slow. JSON-RPC 2.0; tools are the questions of
 * query/answer.h plus a few words on how to use them. Answers are bounded in size: lists are short by default and a text
 * that is still too long is cut with a line that says how to ask for less.
 *
 * The transport is the caller's: a line on stdio (wick mcp) or a POST to /mcp.
 */
#ifndef SERVER_MCP_H
#define SERVER_MCP_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct question;

enum { MCP_TEXT_MAX = 24000 };

struct mcp {
    /* Asks `what` with params by name; the answer's JSON goes to out. */
    int (*ask)(void *ctx, const struct question *what, struct str (*param)(void *pctx, const char *name), void *pctx,
               struct buf *out, struct err *e);
    void *ctx;
};

/* One message in, at most one out (nothing for notifications). Never fails: errors are answers. */
void mcp_handle(const struct mcp *m, struct str message, struct buf *out);

#endif
