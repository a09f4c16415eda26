/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/v1/openapi.json: the API as an OpenAPI 3.1 document. It has every route that is mounted and is not a folder of files:
 * its method, path, parameters of the path, scope, and the schemas of its records are those of the route. What questions take
 * comes from the table of query/answer.h, so that a new one is described without a change here; other routes are described
 * by the table below.
 */
#include <ctype.h>
#include <stdio.h>

#include "base/json.h"
#include "base/record.h"
#include "query/answer_fields.h"
#include "query/tree_form.h"
#include "server/api.h"
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

/* Routes that are not questions. Without a type they answer with JSON, without a schema with an object. */
static const struct described {
    const char *method, *path, *id, *summary, *params[16], *type, *schema;
} described[] = {
    {"GET", "/api/v1/labels/{name}/values", "labelValues",
     "values of a label",
     {"query", "from", "to"},
     "application/json",
     "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}"},
    {"GET", "/api/v1/profile", "profile",
     "the profiles of a selection as a file: pprof, otlp, otlp-json, folded, speedscope, html",
     {"query", "from", "to", "base_query", "base_from", "base_to", "trace_id", "span_id", "times", "profile", "focus",
      "ignore", "hide", "format", "link", "name"},
     "application/octet-stream",
     "{\"type\":\"string\",\"format\":\"binary\"}"},
    {"GET", "/pid/{pid}/debug/pprof/profile", "pidProfile",
     "a CPU profile of any process on the server's machine, at 99 Hz, as pprof",
     {"seconds"},
     "application/octet-stream",
     "{\"type\":\"string\",\"format\":\"binary\"}"},
    {"GET", "/api/v1/senders", "senders",
     "senders of profiles, with rates and losses"},
    {"GET", "/api/v1/code", "code",
     "the instructions of the function at an address of a binary that was uploaded, or that this machine has",
     {"build_id", "address", "end", "file", "missing"}},
    {"GET", "/api/v1/source", "source",
     "the text of a source file from the configured directories",
     {"file"}},
    {"GET", "/api/v1/source/links", "sourceLinks",
     "links to a line of a file in a forge or an editor, from the configured templates",
     {"file", "line", "version"}},
    {"GET", "/api/v1/alerts", "alerts",
     "alert rules, and the alerts that are pending, firing or were resolved lately"},
    {"GET", "/api/v1/alerts/rule", "alertRule",
     "an alert rule for a selection or a function, as YAML to be pasted into wick.yaml",
     {"query", "function", "type"}},
    {"POST", "/api/v1/alerts/test", "alertTest",
     "evaluates rules now, without changing a state",
     {"rule", "send"}},
    {"GET", "/api/v1/alerts/rules", "alertRules",
     "the alert rules that were added on the server, as they were written"},
    {"POST", "/api/v1/alerts/rules", "alertRulesAdd",
     "adds an alert rule"},
    {"PUT", "/api/v1/alerts/rules/{id}", "alertRulesChange",
     "replaces an alert rule that was added on the server"},
    {"DELETE", "/api/v1/alerts/rules/{id}", "alertRulesDelete",
     "deletes an alert rule that was added on the server"},
    {"POST", "/api/v1/alerts/try", "alertTry",
     "evaluates a rule that is not kept, without changing anything"},
    {"POST", "/api/v1/snapshot", "snapshot",
     "makes a copy of the store, itself a store, in the folder snapshots of its directory",
     {"store"}},
    {"GET", "/api/v1/binaries", "binaries",
     "uploaded symbol files, and the state of each build id that was looked up"},
    {"GET", "/api/v1/symbols/{build_id}", "symbolsState",
     "whether a symbol file is complete, for clients that would upload it"},
    {"PUT", "/api/v1/symbols/{build_id}", "symbolsUpload",
     "uploads a binary or debug file, whole or in pieces; 409 reports the offset to continue at",
     {"offset", "size"}},
    {"GET", "/api/v1/session", "session",
     "whether a token is required, and the scope of the client"},
    {"GET", "/api/v1/status", "status",
     "version, permissions, and contents of the store"},
    {"POST", "/api/v1/upload", "upload",
     "stores a profile in any format that `wick convert` reads, under the name of the file",
     {"name"}},
    {"POST", "/api/v1/delete", "delete",
     "deletes what a selector matches in a time range: profiles of its type; without a type profiles of every type and spans; the type spans: spans alone",
     {"query", "from", "to"}},
    {"POST", "/api/v1/store/confirm", "confirm",
     "accepts the system clock after a jump, or acknowledges damage",
     {"what"}},
    {"GET", "/healthz", "healthz", "alive", {NULL}, "text/plain", "{\"type\":\"string\"}"},
    {"GET", "/readyz", "readyz", "alive and able to store", {NULL}, "text/plain", "{\"type\":\"string\"}"},
    {"DELETE", "/api/v1/symbols/{build_id}", "symbolsDelete",
     "deletes a symbol file"},
    {"GET", "/api/v1/notes", "notes",
     "what people wrote on charts"},
    {"POST", "/api/v1/notes", "notesAdd",
     "writes a note on charts"},
    {"DELETE", "/api/v1/notes/{id}", "notesDelete",
     "deletes a note"},
    {"GET", "/api/v1/views", "views",
     "views of the web UI that people saved"},
    {"POST", "/api/v1/views", "viewsAdd",
     "saves a view of the web UI"},
    {"DELETE", "/api/v1/views/{id}", "viewsDelete",
     "deletes a view"},
    {"POST", "/api/v1/login", "login",
     "begins a session: the body is a token, the answer sets a cookie"},
    {"POST", "/api/v1/logout", "logout",
     "ends the session of the cookie"},
    {"POST", "/api/v1/scrape", "scrapeAdd",
     "scrapes a URL from now on",
     {"url"}},
    {"POST", "/api/v1/scrape/find", "scrapeFind",
     "what a URL would give if it were scraped",
     {"url"}},
    {"GET", "/api/v1/symbolz", "symbolz",
     "names of addresses, as pprof asks for them: none, since profiles of this server have names",
     {NULL},
     "text/plain",
     "{\"type\":\"string\"}"},
    {"POST", "/api/v1/symbolz", "symbolzPost", "the same", {NULL}, "text/plain", "{\"type\":\"string\"}"},
    {"GET", "/api/v1/openapi.json", "openapi", "this description"},
    {"GET", "/metrics", "metrics",
     "metrics of the server, for Prometheus",
     {NULL},
     "text/plain",
     "{\"type\":\"string\"}"},
};

/* Help texts of parameters that do not belong to a question. */
static const char *param_help(const char *name)
{
    static const struct {
        const char *name, *help;
    } own[] = {
        {"format", "pprof, otlp, otlp-json, folded, speedscope or html"},
        {"link", "html: where the page came from; it has a link to there"},
        {"name", "of the file, without its ending: letters, digits, '.', '_' and '-'"},
        {"what", "clock or damage"},
        {"rule", "name of an alert rule; default: all"},
        {"send", "true: also post a test message to each receiver"},
        {"type", "type of the rule: drift, verdict, threshold, spike or lost"},
        {"pid", "id of the process"},
        {"id", "as the list has it"},
        {"method", "name of the method"},
        {"url", "where the profiles are"},
        {"store", "name of the store, if there are several"},
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

static const struct question *question_of(const struct route *r)
{
    const struct question *q = questions;

    if (strncmp(r->path, "/api/v1/", 8) != 0)
        return NULL;
    while (q->name && strcmp(q->name, r->path + 8) != 0)
        q++;
    return q->name ? q : NULL;
}

static const struct described *description_of(const struct route *r)
{
    for (size_t i = 0; i < ARRAY_SIZE(described); i++)
        if (strcmp(described[i].path, r->path) == 0 && strcmp(described[i].method, r->method) == 0)
            return &described[i];
    return NULL;
}

/* The {name} of a path, of which there is at most one. */
static void put_path_param(struct buf *out, bool *first, const char *path)
{
    const char *at = strchr(path, '{');
    char name[40];

    if (!at)
        return;
    snprintf(name, sizeof name, "%.*s", (int) strcspn(at + 1, "}"), at + 1);
    put_param(out, first, name, "path", param_help(name));
}

static void put_params(struct buf *out, const struct route *r, const struct question *q, const struct described *d)
{
    static const char *const common[] = {"query", "from", "to"}, *const diff[] = {"base_query", "base_from", "base_to"};
    bool first = true;

    buf_puts(out, ",\"parameters\":[");
    put_path_param(out, &first, r->path);
    for (size_t i = 0; q && q->common && i < ARRAY_SIZE(common); i++)
        put_param(out, &first, common[i], "query", answer_param_help(common[i]));
    for (size_t i = 0; q && q->diff && i < ARRAY_SIZE(diff); i++)
        put_param(out, &first, diff[i], "query", answer_param_help(diff[i]));
    for (const char *const *p = q ? q->params : d ? d->params : NULL; p && *p; p++)
        if (!(q && q->tree && strcmp(*p, "format") == 0)) /* which has more forms, see below */
            put_param(out, &first, *p, "query", q ? answer_param_help(*p) : param_help(*p));
    if (q && q->tree)
        put_param(out, &first, "format", "query", "json, text (indented lines with shares) or binary");
    buf_putc(out, ']');
}

static void put_id(struct buf *out, const struct route *r)
{
    buf_puts(out, r->method);
    for (const char *p = r->path; *p; p++)
        buf_putc(out, isalnum((unsigned char) *p) ? *p : '_');
}

static void put_body(struct buf *out, const struct route *r)
{
    if (r->body) {
        buf_puts(out, ",\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{\"schema\":");
        record_schema(out, r->body);
        buf_puts(out, "}}}");
    } else if (strcmp(r->method, "PUT") == 0) {
        buf_puts(out, ",\"requestBody\":{\"content\":{\"application/octet-stream\":{}}}");
    }
}

/* An answer that is an object ends with the same members as all of them. */
static void put_answer(struct buf *out, const struct question *q)
{
    bool is_object = q->answer->kind == RECORD_ONE, is_labels = q->answer == &answer_of_labels;

    buf_puts(out, is_object ? "{\"allOf\":[" : is_labels ? "{\"anyOf\":[" : "");
    record_value_schema(out, q->answer);
    if (is_labels) {
        buf_putc(out, ',');
        record_value_schema(out, &answer_of_label_details);
    }
    if (is_object && answer_has_selected(q->answer))
        buf_puts(out, ",{\"$ref\":\"#/components/schemas/Selected\"}");
    buf_puts(out, is_object ? ",{\"$ref\":\"#/components/schemas/End\"}]}" : is_labels ? "]}" : "");
}

static void put_operation(struct buf *out, bool *first, const struct route *r)
{
    static const char *const scopes[] = {
        [AUTH_READ] = "read", [AUTH_SEND] = "send", [AUTH_WRITE] = "write", [AUTH_ADMIN] = "admin"};
    const struct question *q = strcmp(r->method, "GET") == 0 ? question_of(r) : NULL;
    const struct described *d = description_of(r);
    _cleanup_(buf_done) struct buf schema = BUF_INIT;

    json_sep(out, first);
    buf_putc(out, '"');
    for (const char *p = r->method; *p; p++)
        buf_putc(out, (char) tolower((unsigned char) *p));
    buf_puts(out, "\":{\"operationId\":\"");
    if (q || d)
        buf_puts(out, q ? q->name : d->id);
    else
        put_id(out, r);
    buf_puts(out, "\",\"summary\":");
    json_put_str(out, str_from(q ? q->summary : d ? d->summary : "of another product's protocol: see the documents"));
    if (r->scope)
        buf_printf(out, ",\"description\":\"Requires the scope %s.\"", scopes[r->scope]);
    else
        buf_puts(out, ",\"security\":[{}]");
    put_params(out, r, q, d);
    put_body(out, r);
    if (q)
        put_answer(&schema, q);
    else if (r->answer)
        record_schema(&schema, r->answer);
    else
        buf_puts(&schema, d && d->schema ? d->schema : d ? "{\"type\":\"object\"}" : "{}");
    put_responses(out, d && d->type ? d->type : "application/json", buf_cstr(&schema), q && q->tree);
    buf_putc(out, '}');
}

static const struct route *listed_route(const struct front *f, size_t i, bool *ret_listed)
{
    const struct route *r = front_route(f, i);

    *ret_listed = r && !strchr(r->path, '*');
    return r;
}

/* All methods of a path, unless an earlier route has it. */
static void put_path(struct buf *out, bool *first, const struct front *f, size_t at)
{
    const struct route *r, *own = front_route(f, at);
    bool listed, inner = true;

    for (size_t i = 0; i < at; i++)
        if (strcmp(front_route(f, i)->path, own->path) == 0)
            return;
    json_put_key(out, first, own->path);
    buf_putc(out, '{');
    for (size_t i = at; (r = listed_route(f, i, &listed)); i++)
        if (listed && strcmp(r->path, own->path) == 0)
            put_operation(out, &inner, r);
    buf_putc(out, '}');
}

static int run_openapi(struct call *c, struct err *e)
{
    struct buf *out = &c->out;
    bool listed, first = true;

    (void) e;
    buf_puts(out, "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"wick\",\"version\":\"" WICK_VERSION
                  "\",\"description\":\"Continuous profiling: queries to the store.\"},\"paths\":{");
    for (size_t i = 0; listed_route(c->front, i, &listed); i++)
        if (listed)
            put_path(out, &first, c->front, i);
    buf_puts(out, "},\"components\":{\"schemas\":{\"End\":");
    record_schema(out, answer_tail_fields);
    buf_puts(out, ",\"Selected\":");
    record_schema(out, answer_selected_fields);
    buf_puts(
        out,
        "},\"responses\":{\"Error\":{\"description\":\"error message\",\"content\":{"
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
