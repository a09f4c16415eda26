/* SPDX-License-Identifier: Apache-2.0 */
/* The Model Context Protocol: parses JSON-RPC requests, lists the tools, and runs the questions that they stand for.
 * See mcp.h. */
#include "server/mcp.h"

#include <errno.h>

#include "alert/alert_json.h"
#include "base/json.h"
#include "base/record.h"
#include "query/answer.h"

static const char instructions[] =
    "wick keeps continuous profiles (CPU, wall, off-CPU, allocations, heap, locks) of services. To find why a service is "
    "slow: call `services` to list services, `top` for the hottest functions, `callers` for the callers of one, `lines` for "
    "the hot source lines, `span_names` for the latency of operations (then `span` with slowest=5 for what the slow ones did differently), and `top` with base_from/base_to (or base_query) and sort=share to see what changed between two "
    "times or versions. Selectors look like cpu{service.name=\"checkout\"}; times like now-15m. Values are nanoseconds, bytes "
    "or counts, as `unit` says; shares are of `total`.";

enum { PROTOCOL_ERROR = -32700, INVALID_REQUEST = -32600, NO_METHOD = -32601, INVALID_PARAMS = -32602 };

/* When and how a tool is used, for the agent that chooses one, and the argument that it cannot do without. */
static const struct tool {
    const char *name, *use, *required;
} tools[] = {
    {"flame",
     "The call tree as indented text with shares. Use it to see the structure of a program's time or memory; for the hottest "
     "functions alone use top. Narrow it with focus, zoom and max_nodes.",
     NULL},
    {"top",
     "The functions (or files, lines, binaries, packages: by) with the most self or total value. The first tool for 'why is this "
     "slow': ask with query cpu{service.name=\"X\"}. With base_from/base_to or base_query and sort=share it shows what changed "
     "between two times or versions.",
     NULL},
    {"callers",
     "Who calls a function and what it calls, as indented text with shares. Use it after top, with the exact name of a row.",
     "function"},
    {"lines", "Values per source line. Use it after top, with the exact name of a function (function) or file (file).",
     NULL},
    {"symbols", "Which binaries lack symbols and how to add them. Use it when names look like binary+0x123.", NULL},
    {"series",
     "Values over time, grouped by labels. Use it to find when something began; labels lists what can be grouped by.",
     NULL},
    {"coverage", "For how much time there are profiles. Use it when a total seems too small.", NULL},
    {"deploys",
     "Which versions of services ran since when. Use it for 'what was deployed', and to find versions to compare.",
     NULL},
    {"leaks",
     "Stacks whose memory in use grows, as text: growth, fit and the stack. Use it for 'memory is growing', with query heap{service.name=\"X\"}.",
     NULL},
    {"drift",
     "Which functions take more or less than in a baseline, with a test over windows and instances: only rows with "
     "significant true are more than noise. Use it for 'did something change since', with baseline_from and baseline_to.",
     NULL},
    {"verdict",
     "Whether the last deploy of a service made it worse or better, and which functions changed. Use it for 'is the new "
     "version slower', with service.",
     "service"},
    {"verdicts",
     "What the latest deploys of all services made worse or better, the most expensive first. Use it for 'what got slower', "
     "without a service.",
     NULL},
    {"explain",
     "What stands out in a selection, in sentences: what dominates it, what changed since when (deploys, steps, growth, spikes). The "
     "first call for 'what is going on with service X', with query cpu{service.name=\"X\"}.",
     NULL},
    {"findings",
     "Known patterns of waste (garbage collection, regular expressions compiled while running, locks, allocation, page faults, "
     "serialisation), with the functions to look at. A quick first look at a service.",
     NULL},
    {"trends",
     "How the cost of services develops: rates over time by labels (group_by), change per hour, spikes. Use it for 'since when "
     "does it grow'.",
     NULL},
    {"profiles",
     "Single profiles, by time or value. Use it to find the one with a spike; its handle is the argument profile.",
     NULL},
    {"spans",
     "The spans of traces with the most value, or with sort=duration the longest. Use it for 'which request is slow', then span "
     "with trace_id and span_id.",
     NULL},
    {"span",
     "What spans did: the functions of one span (trace_id, span_id; children=true adds its descendants), of a trace, or of all "
     "spans of a name (service, span_name). With slowest=5 it compares the slowest 5 % with the rest: the first tool for 'why are "
     "some requests slow'. The type is wall or off-CPU time where the samples have it, else CPU.",
     NULL},
    {"trace", "The spans of a trace in the order of its tree, with durations and the value of their samples.",
     "trace_id"},
    {"span_names",
     "Names of spans with their number, errors and latency (p50, p95, p99, in ns). Use it to find which operation of a service is "
     "slow; then span with service, span_name and slowest=5.",
     NULL},
    {"span_heatmap", "How many spans of a name started when and took how long. Use it to see when latency changed.",
     NULL},
    {"heatmap",
     "When samples were taken: columns of time, each divided into rows (a part of a second for short ranges). Use it to find "
     "spikes and pauses; then top with from and to in nanoseconds and times=sample.",
     NULL},
    {"chart",
     "What each thread did when, from the times of its samples: cells are column, number of columns, node, and 1 for waiting. "
     "Choose a short range and few columns.",
     NULL},
    {"services",
     "The services that send profiles, with their types and versions. The first call when no name is known.", NULL},
    {"labels",
     "What can be filtered and grouped by: names of labels and attributes (slow: read from detail), or with label the values of "
     "one.",
     NULL},
    {"types", "The types of profiles and their units.", NULL},
    {"alerts",
     "Alert rules and the alerts that are pending or firing, each with a sentence, a value and a link to the comparison. Use it "
     "first for 'what is wrong now', then top or callers with the service and function of an alert.",
     NULL},
};

/* The one tool that is not a question to the store. */
static const struct question alerts_tool = {
    .name = "alerts",
    .summary = "alert rules and alerts",
    .params = (const char *const[]){NULL},
    .answer = &(const struct record_field){.kind = RECORD_ONE, .fields = alerts_answer_fields}};

static const struct question *find_tool(const struct mcp *m, struct str name)
{
    if (m->alerts && str_is(name, alerts_tool.name))
        return &alerts_tool;
    return question_find(name);
}

static const char *unknown_tool(struct str name, struct err *e)
{
    struct str_guess guess = {name};

    for (size_t i = 0; i < ARRAY_SIZE(tools); i++)
        str_guess_offer(&guess, tools[i].name);
    return err_message(e, err_set(e, -EINVAL, "unknown tool '%.*s'%s%s%s", (int) MIN(name.n, 64u), name.p ? name.p : "",
                                  guess.best ? "; did you mean '" : "", guess.best ? guess.best : "",
                                  guess.best ? "'?" : ""));
}

static const struct tool *tool_of(const struct question *q)
{
    static const struct tool other;

    for (size_t i = 0; i < ARRAY_SIZE(tools); i++)
        if (strcmp(tools[i].name, q->name) == 0)
            return &tools[i];
    return &other;
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
    if (strcmp(name, "max_nodes") == 0 && !argument(ctx, "tokens").n) /* else the length decides */
        return STR("60");
    if (strcmp(name, "format") == 0)
        return STR("text");
    if (strcmp(name, "attributes") == 0)
        return STR("marked");
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

static const char *const common[] = {"query", "from", "to", NULL};
static const char *const diff[] = {"base_query", "base_from", "base_to", NULL};

/* The arguments of a tool: three lists. */
static void argument_lists(const struct question *q, const char *const *ret[3])
{
    static const char *const none[] = {NULL};

    ret[0] = q->common ? common : none;
    ret[1] = q->diff ? diff : none;
    ret[2] = q->params;
}

/* Refuses an argument that the tool does not have, naming the nearest one, and a call without a required one. */
static int check_arguments(const struct question *q, const struct arguments *a, struct err *e)
{
    const char *required = tool_of(q)->required, *const * lists[3];

    argument_lists(q, lists);
    for (size_t i = 0; i < a->n; i++) {
        struct str_guess guess = {a->name[i]};
        bool known = false;

        for (size_t l = 0; l < 3; l++)
            for (const char *const *p = lists[l]; *p; p++) {
                known |= str_is(a->name[i], *p);
                str_guess_offer(&guess, *p);
            }
        if (!known)
            return err_set(e, -EINVAL, "%s has no argument '%.*s'%s%s%s", q->name, (int) MIN(a->name[i].n, 64u),
                           a->name[i].p, guess.best ? "; did you mean '" : "", guess.best ? guess.best : "",
                           guess.best ? "'?" : "");
        if (required && str_is(a->name[i], required) && a->value[i].n)
            required = NULL;
    }
    return required ? err_set(e, -EINVAL, "%s needs the argument '%s'", q->name, required) : 0;
}

/* When it is used, and, unless it answers with text, the names in its answer. */
static void put_description(struct buf *out, const struct question *q)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    const struct tool *t = tool_of(q);
    bool is_text = false;

    buf_puts(&text, t->use ? t->use : q->summary);
    for (const char *const *p = q->params; *p; p++)
        is_text |= strcmp(*p, "format") == 0;
    if (q->answer && q->answer->fields && !is_text) {
        buf_puts(&text, " Answers with ");
        record_outline(&text, q->answer);
        buf_putc(&text, '.');
    }
    json_put_str(out, buf_str(&text));
}

static void put_tool(struct buf *out, const struct question *q)
{
    const struct tool *t = tool_of(q);
    const char *const *lists[3];
    bool first = true;

    argument_lists(q, lists);
    buf_printf(out, "{\"name\":\"%s\",\"description\":", q->name);
    put_description(out, q);
    buf_puts(out, ",\"inputSchema\":{\"type\":\"object\",\"properties\":{");
    for (size_t l = 0; l < 3; l++)
        for (const char *const *p = lists[l]; *p; p++)
            put_property(out, &first, *p);
    buf_putc(out, '}');
    if (t->required)
        buf_printf(out, ",\"required\":[\"%s\"]", t->required);
    buf_puts(out, ",\"additionalProperties\":false},\"annotations\":{\"readOnlyHint\":true}}");
}

static void put_tools(const struct mcp *m, struct buf *out, struct str id)
{
    bool first = true;

    put_head(out, id);
    buf_puts(out, ",\"result\":{\"tools\":[");
    for (const struct question *q = questions; q->name; q++) {
        json_sep(out, &first);
        put_tool(out, q);
    }
    if (m->alerts) {
        json_sep(out, &first);
        put_tool(out, &alerts_tool);
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
    q = j.err ? NULL : find_tool(m, name);
    if (!q) {
        put_error(out, id, INVALID_PARAMS, j.err ? "invalid parameters" : unknown_tool(name, &e));
    } else {
        r = check_arguments(q, &a, &e);
        if (r == 0)
            r = q == &alerts_tool ? m->alerts(m->ctx, &text, &e) : m->ask(m->ctx, q, argument, &a, &text, &e);
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
        put_tools(m, out, r.id);
    else if (str_is(r.method, "tools/call"))
        call_tool(m, out, r.id, r.params);
    else if (str_is(r.method, "ping")) {
        put_head(out, r.id);
        buf_puts(out, ",\"result\":{}}");
    } else
        put_error(out, r.id, NO_METHOD, "unknown method");
    arena_done(&arena);
}
