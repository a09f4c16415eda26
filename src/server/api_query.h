/* SPDX-License-Identifier: Apache-2.0 */
/* A call of the API as a question (query/answer.h): what the routes of /api/v1 and the tools of MCP have in common. */
#ifndef SERVER_API_QUERY_H
#define SERVER_API_QUERY_H

#include "query/answer.h"

struct call;

/* The store, the tenant and the limits of the call; parameters are those of its URL. */
struct answer_request call_request(struct call *c);

#endif
