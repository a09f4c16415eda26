/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/v1/openapi.json: the API as an OpenAPI 3 document. The questions come from the table of query/answer.h, so that
 * a new one is described without a change here. The few other paths are written out.
 */
#include "server/api.h"
#include "base/json.h"
#include "query/answer.h"
#include "query/tree_form.h"
#include "server/front.h"

/* {"name":…,"in":…,"description":…,"schema":{"type":"string"}} */
static void put_param(struct buf *out, bool *first, const char *name, const char *in, const char *help)
{
    bool inner = true;

    json_sep(out, first);
    buf_putc(out, '{');
    json_put_key_text(out, &inner, "name", name);
    json_put_key_text(out, &inner, "in", in);
    json_put_key_text(out, &inner, "description", help);
    if (strcmp(in, "path") == 0)
        buf_puts(out, ",\"required\":true");
    buf_puts(out, ",\"schema\":{\"type\":\"string\"}}");
}

static void put_params(struct buf *out, const struct question *q)
{
    static const char *const common[] = {"query", "from", "to"}, *const diff[] = {"base_query", "base_from", "base_to"};
    bool first = true;

    buf_puts(out, ",\"parameters\":[");
    for (size_t i = 0; q->common && i < ARRAY_SIZE(common); i++)
        put_param(out, &first, common[i], "query", answer_param_help(common[i]));
    for (size_t i = 0; q->diff && i < ARRAY_SIZE(diff); i++)
        put_param(out, &first, diff[i], "query", answer_param_help(diff[i]));
    for (const char *const *p = q->params; *p; p++)
        put_param(out, &first, *p, "query", answer_param_help(*p));
    if (q->tree)
        put_param(out, &first, "format", "query", "json or binary");
    buf_putc(out, ']');
}

static void put_content(struct buf *out, const char *type, const char *schema)
{
    buf_printf(out, "\"content\":{\"%s\":{\"schema\":%s}}", type, schema);
}

static void put_responses(struct buf *out, const char *type, const char *schema, bool tree)
{
    static const char *const errors[] = {"400", "401", "403", "404", "409", "413", "422", "429", "501", "503", "504"};

    buf_puts(out, ",\"responses\":{\"200\":{\"description\":\"the result\",");
    if (tree)
        buf_printf(out,
                   "\"content\":{\"application/json\":{\"schema\":%s},\"" TREE_MEDIA_TYPE
                   "\":{\"schema\":{\"type\":\"string\",\"format\":\"binary\"}}}",
                   schema);
    else
        put_content(out, type, schema);
    buf_putc(out, '}');
    for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
        buf_printf(out, ",\"%s\":{\"$ref\":\"#/components/responses/Error\"}", errors[i]);
    buf_putc(out, '}');
}

static void put_question(struct buf *out, bool *first, const struct question *q)
{
    bool list = strcmp(q->name, "services") == 0 || strcmp(q->name, "labels") == 0 || strcmp(q->name, "types") == 0;

    json_sep(out, first);
    buf_printf(out, "\"/api/v1/%s\":{\"get\":{\"operationId\":\"%s\",\"summary\":", q->name, q->name);
    json_put_str(out, str_from(q->summary));
    put_params(out, q);
    put_responses(out, "application/json", list ? "{\"type\":\"array\"}" : "{\"type\":\"object\"}", q->tree);
    buf_puts(out, "}}");
}

/* Paths that are not questions: method, path, description, parameters, type of the answer. */
static const struct {
    const char *method, *path, *id, *summary, *params[16], *type, *schema;
} others[] = {
    {"get",
     "/api/v1/labels/{label}/values",
     "labelValues",
     "values of a label",
     {"label", "query", "from", "to"},
     "application/json",
     "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}"},
    {"get",
     "/api/v1/profile",
     "profile",
     "the profiles of a selection as a file: pprof, otlp, otlp-json, folded, speedscope, html",
     {"query", "from", "to", "base_query", "base_from", "base_to", "trace_id", "span_id", "times", "profile", "focus",
      "ignore", "hide", "format", "link"},
     "application/octet-stream",
     "{\"type\":\"string\",\"format\":\"binary\"}"},
    {"get",
     "/pid/{pid}/debug/pprof/profile",
     "pidProfile",
     "a CPU profile of any process on the server's machine, at 99 Hz, as pprof; requires an admin token",
     {"pid", "seconds"},
     "application/octet-stream",
     "{\"type\":\"string\",\"format\":\"binary\"}"},
    {"get",
     "/api/v1/senders",
     "senders",
     "senders of profiles, with rates and losses",
     {NULL},
     "application/json",
     "{\"type\":\"object\"}"},
    {"get",
     "/api/v1/code",
     "code",
     "the instructions of the function at an address of a binary that was uploaded, or that this machine has",
     {"build_id", "address", "end", "file", "missing"},
     "application/json",
     "{\"type\":\"object\"}"},
    {"get",
     "/api/v1/source",
     "source",
     "the text of a source file from the configured directories",
     {"file"},
     "application/json",
     "{\"type\":\"object\"}"},
    {"get",
     "/api/v1/source/links",
     "sourceLinks",
     "links to a line of a file in a forge or an editor, from the configured templates",
     {"file", "line", "version"},
     "application/json",
     "{\"type\":\"object\"}"},
    {"get",
     "/api/v1/alerts",
     "alerts",
     "alert rules, and the alerts that are pending, firing or were resolved lately",
     {NULL},
     "application/json",
     "{\"type\":\"object\"}"},
    {"get",
     "/api/v1/alerts/rule",
     "alertRule",
     "an alert rule for a selection or a function, as YAML to be pasted into wick.yaml",
     {"query", "function", "type"},
     "application/json",
     "{\"type\":\"object\"}"},
    {"post",
     "/api/v1/alerts/test",
     "alertTest",
     "evaluates rules now, without changing a state; requires an admin token",
     {"rule", "send"},
     "application/json",
     "{\"type\":\"object\"}"},
    {"get",
     "/api/v1/binaries",
     "binaries",
     "uploaded symbol files, and the state of each build id that was looked up",
     {NULL},
     "application/json",
     "{\"type\":\"object\"}"},
    {"get",
     "/api/v1/symbols/{build_id}",
     "symbolsState",
     "whether a symbol file is complete, for clients that would upload it; requires the scope write",
     {"build_id"},
     "application/json",
     "{\"type\":\"object\"}"},
    {"put",
     "/api/v1/symbols/{build_id}",
     "symbolsUpload",
     "uploads a binary or debug file, whole or in pieces; 409 reports the offset to continue at",
     {"build_id", "offset", "size"},
     "application/json",
     "{\"type\":\"object\"}"},
    {"get",
     "/api/v1/session",
     "session",
     "whether a token is required, and the scope of the client",
     {NULL},
     "application/json",
     "{\"type\":\"object\"}"},
    {"get",
     "/api/v1/status",
     "status",
     "version, permissions, and contents of the store",
     {NULL},
     "application/json",
     "{\"type\":\"object\"}"},
    {"post",
     "/api/v1/upload",
     "upload",
     "stores a profile in any format that `wick convert` reads, under the name of the file; requires the scope write",
     {"name"},
     "application/json",
     "{\"type\":\"object\"}"},
    {"post",
     "/api/v1/delete",
     "delete",
     "deletes what a selector matches in a time range: profiles of its type; without a type profiles of every type and spans; the type spans: spans alone; requires an admin token",
     {"query", "from", "to"},
     "application/json",
     "{\"type\":\"object\"}"},
    {"post",
     "/api/v1/store/confirm",
     "confirm",
     "accepts the system clock after a jump, or acknowledges damage; requires an admin token",
     {"what"},
     "application/json",
     "{\"type\":\"object\"}"},
    {"get", "/healthz", "healthz", "alive", {NULL}, "text/plain", "{\"type\":\"string\"}"},
    {"get", "/readyz", "readyz", "alive and able to store", {NULL}, "text/plain", "{\"type\":\"string\"}"},
};

static bool in_path(const char *path, const char *param)
{
    const char *at = strchr(path, '{');

    return at && strncmp(at + 1, param, strlen(param)) == 0 && at[1 + strlen(param)] == '}';
}

/* Help texts of parameters that do not belong to a question. */
static const char *param_help(const char *name)
{
    static const struct {
        const char *name, *help;
    } own[] = {
        {"format", "pprof, otlp, otlp-json, folded, speedscope or html"},
        {"link", "html: where the page came from; it has a link to there"},
        {"what", "clock or damage"},
        {"rule", "name of an alert rule; default: all"},
        {"send", "true: also post a test message to each receiver"},
        {"type", "type of the rule: drift, verdict, threshold, spike or lost"},
        {"pid", "id of the process"},
        {"seconds", "duration in seconds, 1 to 300; default: 30"},
        {"build_id", "build id of the binary"},
        {"offset", "offset of this piece of the file"},
        {"size", "size of the whole file"},
        {"line", "line number"},
        {"version", "version of the service: a revision or tag"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(own); i++)
        if (strcmp(own[i].name, name) == 0)
            return own[i].help;
    return answer_param_help(name);
}

static void put_other(struct buf *out, bool *first, size_t i)
{
    bool inner = true;

    json_sep(out, first);
    buf_printf(out, "\"%s\":{\"%s\":{\"operationId\":\"%s\",\"summary\":", others[i].path, others[i].method,
               others[i].id);
    json_put_str(out, str_from(others[i].summary));
    buf_puts(out, ",\"parameters\":[");
    for (const char *const *p = others[i].params; *p; p++)
        put_param(out, &inner, *p, in_path(others[i].path, *p) ? "path" : "query", param_help(*p));
    buf_putc(out, ']');
    if (strcmp(others[i].method, "put") == 0)
        buf_puts(out, ",\"requestBody\":{\"content\":{\"application/octet-stream\":{\"schema\":{\"type\":\"string\","
                      "\"format\":\"binary\"}}}}");
    put_responses(out, others[i].type, others[i].schema, false);
    buf_puts(out, "}}");
}

static int run_openapi(struct call *c, struct err *e)
{
    struct buf *out = &c->out;
    bool first = true;

    (void) e;
    buf_puts(out, "{\"openapi\":\"3.0.3\",\"info\":{\"title\":\"wick\",\"version\":\"" WICK_VERSION
                  "\",\"description\":\"Continuous profiling: queries to the store.\"},\"paths\":{");
    for (const struct question *q = questions; q->name; q++)
        put_question(out, &first, q);
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        put_other(out, &first, i);
    buf_puts(
        out,
        "},\"components\":{\"responses\":{\"Error\":{\"description\":\"error message\",\"content\":{"
        "\"application/json\":{\"schema\":{\"type\":\"object\",\"required\":[\"error\"],\"properties\":{\"error\":{"
        "\"type\":\"object\",\"properties\":{\"status\":{\"type\":\"integer\"},\"message\":{\"type\":\"string\"}}}}}}}}},"
        "\"securitySchemes\":{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"}}},\"security\":[{},{\"token\":[]}]}\n");
    return 0;
}

static const struct route routes[] = {
    {"GET", "/api/v1/openapi.json", AUTH_NONE, true, run_openapi},
};

int api_mount_openapi(struct front *f)
{
    return front_mount(f, routes, ARRAY_SIZE(routes));
}
