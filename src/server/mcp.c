/* SPDX-License-Identifier: Apache-2.0 */
/* The Model Context Protocol: parses JSON-RPC requests, lists the tools, and runs the questions that they stand for.
 * See mcp.h. */
#include "server/mcp.h"

#include <errno.h>

#include "base/json.h"
#include "query/answer.h"

static const char instructions[] =
    "wick keeps continuous profiles (CPU, wall, off-CPU, allocations, heap, locks) of services. To find why a service is "
    "slow: call `services` to list services, `top` for the hottest functions, `callers` for the callers of one, `lines` for "
    "the hot source lines, `spans` for the slowest spans (then `top` with trace_id and span_id), and `top` with base_from/base_to (or base_query) and sort=share to see what changed between two "
    "times or versions. Selectors look like cpu{service.name=\"checkout\"}; times like now-15m. Values are nanoseconds, bytes "
    "or counts, as `unit` says; shares are of `total`.";

enum { PROTOCOL_ERROR = -32700, INVALID_REQUEST = -32600, NO_METHOD = -32601, INVALID_PARAMS = -32602 };

/* True for tools that a model should see; flame graphs and raw profiles are too large to be useful to it. */
static bool is_tool(const struct question *q)
{
    return strcmp(q->name, "flame") != 0;
}

/* --- requests --- */

struct mcp_request {
    struct str id;             /* raw JSON; p == NULL for a notification */
    struct str method, params; /* params is raw JSON */
};

struct arguments {
    struct str name[32], value[32];
    size_t n;
};

static int parse_request(struct json *j, struct mcp_request *ret)
{
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "id"))
            ret->id = json_raw(j);
        else if (str_is(key, "method"))
            ret->method = json_str(j);
        else if (str_is(key, "params"))
            ret->params = json_raw(j);
        else
            json_skip(j);
    }
    return json_end(j);
}

/* Reads arguments of any scalar type as text. */
static void parse_arguments(struct json *j, struct arguments *a)
{
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        struct str v = json_peek(j) == JSON_STRING ? json_str(j) : json_raw(j);

        if (a->n < ARRAY_SIZE(a->name)) {
            a->name[a->n] = key;
            a->value[a->n++] = v;
        }
    }
}

static void parse_call(struct json *j, struct str *ret_name, struct arguments *a)
{
    struct str key;

    json_begin_object(j);
    while (json_next_key(j, &key)) {
        if (str_is(key, "name"))
            *ret_name = json_str(j);
        else if (str_is(key, "arguments") && json_peek(j) == JSON_OBJECT)
            parse_arguments(j, a);
        else
            json_skip(j);
    }
}

static struct str argument(void *ctx, const char *name)
{
    const struct arguments *a = ctx;

    for (size_t i = 0; i < a->n; i++)
        if (str_is(a->name[i], name))
            return a->value[i];
    if (strcmp(name, "limit") == 0)
        return STR("30");
    if (strcmp(name, "max_nodes") == 0)
        return STR("60");
    return (struct str){"", 0};
}

/* --- answers --- */

static void put_head(struct buf *out, struct str id)
{
    buf_puts(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    if (id.p)
        buf_put_str(out, id);
    else
        buf_puts(out, "null");
}

static void put_error(struct buf *out, struct str id, int code, const char *message)
{
    put_head(out, id);
    buf_printf(out, ",\"error\":{\"code\":%d,\"message\":", code);
    json_put_str(out, str_from(message));
    buf_puts(out, "}}");
}

static void put_initialize(struct buf *out, struct str id, struct str params)
{
    struct arena arena;
    struct json j;
    struct str key, version = STR("2025-03-26");

    arena_init(&arena, 1 << 20);
    json_init(&j, params, &arena);
    if (params.n && json_peek(&j) == JSON_OBJECT) {
        json_begin_object(&j);
        while (json_next_key(&j, &key)) {
            if (str_is(key, "protocolVersion"))
                version = json_str(&j);
            else
                json_skip(&j);
        }
    }
    put_head(out, id);
    buf_puts(out, ",\"result\":{\"protocolVersion\":");
    json_put_str(out, version);
    buf_puts(out, ",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"wick\",\"version\":\"" WICK_VERSION
                  "\"},\"instructions\":");
    json_put_str(out, str_from(instructions));
    buf_puts(out, "}}");
    arena_done(&arena);
}

static void put_property(struct buf *out, bool *first, const char *name)
{
    json_put_key(out, first, name);
    buf_puts(out, "{\"type\":\"string\",\"description\":");
    json_put_str(out, str_from(answer_param_help(name)));
    buf_putc(out, '}');
}

static void put_tool(struct buf *out, const struct question *q)
{
    static const char *const common[] = {"query", "from", "to"}, *const diff[] = {"base_query", "base_from", "base_to"};
    bool first = true;

    buf_printf(out, "{\"name\":\"%s\",\"description\":", q->name);
    json_put_str(out, str_from(q->summary));
    buf_puts(out, ",\"inputSchema\":{\"type\":\"object\",\"properties\":{");
    for (size_t i = 0; q->common && i < ARRAY_SIZE(common); i++)
        put_property(out, &first, common[i]);
    for (size_t i = 0; q->diff && i < ARRAY_SIZE(diff); i++)
        put_property(out, &first, diff[i]);
    for (const char *const *p = q->params; *p; p++)
        put_property(out, &first, *p);
    buf_puts(out, "}},\"annotations\":{\"readOnlyHint\":true}}");
}

static void put_tools(struct buf *out, struct str id)
{
    bool first = true;

    put_head(out, id);
    buf_puts(out, ",\"result\":{\"tools\":[");
    for (const struct question *q = questions; q->name; q++)
        if (is_tool(q)) {
            json_sep(out, &first);
            put_tool(out, q);
        }
    buf_puts(out, "]}}");
}

static void put_text(struct buf *out, struct str id, struct str text, bool failed)
{
    _cleanup_(buf_done) struct buf cut = BUF_INIT;

    if (text.n > MCP_TEXT_MAX) {
        buf_put(&cut, text.p, MCP_TEXT_MAX);
        buf_printf(
            &cut,
            "\n… truncated: %u bytes in total. Reduce the result with limit, max_nodes, focus or a narrower query.",
            text.n);
        text = buf_str(&cut);
    }
    put_head(out, id);
    buf_puts(out, ",\"result\":{\"content\":[{\"type\":\"text\",\"text\":");
    json_put_str(out, text);
    buf_printf(out, "}],\"isError\":%s}}", failed ? "true" : "false");
}

static void call_tool(const struct mcp *m, struct buf *out, struct str id, struct str params)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    const struct question *q;
    struct arguments a = {0};
    struct arena arena;
    struct err e = {0};
    struct json j;
    struct str name = {0};
    int r;

    arena_init(&arena, 16 << 20);
    json_init(&j, params.n ? params : STR("{}"), &arena);
    parse_call(&j, &name, &a);
    q = j.err ? NULL : question_find(name);
    if (!q || !is_tool(q)) {
        put_error(out, id, INVALID_PARAMS, j.err ? "invalid parameters" : "unknown tool");
    } else {
        r = m->ask(m->ctx, q, argument, &a, &text, &e);
        put_text(out, id, r < 0 ? str_from(err_message(&e, r)) : buf_str(&text), r < 0);
    }
    arena_done(&arena);
}

void mcp_handle(const struct mcp *m, struct str message, struct buf *out)
{
    struct mcp_request r = {0};
    struct arena arena;
    struct json j;

    arena_init(&arena, 16 << 20);
    json_init(&j, message, &arena);
    if (parse_request(&j, &r) < 0)
        put_error(out, (struct str){0}, PROTOCOL_ERROR, "not a JSON-RPC message");
    else if (!r.id.p)
        ; /* a notification: no answer */
    else if (str_is(r.method, "initialize"))
        put_initialize(out, r.id, r.params);
    else if (str_is(r.method, "tools/list"))
        put_tools(out, r.id);
    else if (str_is(r.method, "tools/call"))
        call_tool(m, out, r.id, r.params);
    else if (str_is(r.method, "ping")) {
        put_head(out, r.id);
        buf_puts(out, ",\"result\":{}}");
    } else
        put_error(out, r.id, NO_METHOD, "unknown method");
    arena_done(&arena);
}
