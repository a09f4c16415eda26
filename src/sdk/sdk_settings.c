/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the settings of a provider (sdk_settings.h) from struct wick_options and from the OTEL_ environment
 * variables. */
#include "sdk/sdk_settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/url.h"
#include "model/semconv.h"
#include "proc/proc_path.h"

static bool is_set(const char *s)
{
    return s && *s;
}

/* OTEL_EXPORTER_OTLP_PROFILES_x, else OTEL_EXPORTER_OTLP_x; *ret_specific says which. */
static const char *otlp_env(struct settings *s, const char *name, bool *ret_specific)
{
    const char *special = arena_printf(&s->arena, "OTEL_EXPORTER_OTLP_PROFILES_%s", name);
    const char *general = arena_printf(&s->arena, "OTEL_EXPORTER_OTLP_%s", name), *v;

    v = special ? secure_getenv(special) : NULL;
    if (ret_specific)
        *ret_specific = is_set(v);
    if (is_set(v))
        return v;
    v = general ? secure_getenv(general) : NULL;
    return is_set(v) ? v : NULL;
}

static struct str percent_decode(struct settings *s, struct str v)
{
    struct str out = arena_str(&s->arena, v);
    char *p = (char *) out.p;
    uint32_t n = 0;

    for (uint32_t i = 0; i < out.n; i++) {
        uint64_t c;
        char hex[2];

        if (out.p[i] == '%' && out.n - i > 2) {
            hex[0] = out.p[i + 1];
            hex[1] = out.p[i + 2];
            if (str_to_u64((struct str){hex, 2}, 16, &c) == 0) {
                p[n++] = (char) c;
                i += 2;
                continue;
            }
        }
        p[n++] = out.p[i];
    }
    out.n = n;
    return out;
}

/* Parses "k=v,k=v" into attributes; service.name and service.version are stored separately. */
static int read_attributes(struct settings *s, const char *text, const char *what, struct err *e)
{
    struct str rest = str_from(text);

    while (rest.n) {
        struct str item = str_trim(str_cut(&rest, ',')), key = str_trim(str_cut(&item, '='));
        struct str value = percent_decode(s, str_trim(item));

        if (!key.n)
            continue;
        if (!item.p)
            return err_set(e, -EINVAL, "%s: '%.*s' is not key=value", what, STR_FMT(key));
        if (str_is(key, SEMCONV_SERVICE_NAME)) {
            if (!s->service_name.n)
                s->service_name = value;
        } else if (str_is(key, SEMCONV_SERVICE_VERSION)) {
            if (!s->service_version.n)
                s->service_version = value;
        } else if (s->n_attrs < SETTINGS_ATTRS_MAX) {
            s->attrs[s->n_attrs++] =
                (struct kv){arena_str(&s->arena, key), {.kind = VALUE_STR, .n = value.n, .str = value.p}};
        }
    }
    return 0;
}

static int read_headers(struct settings *s, const char *text, struct err *e)
{
    struct str rest = str_from(text);

    while (rest.n && s->n_headers < SETTINGS_HEADERS_MAX) {
        struct str item = str_trim(str_cut(&rest, ',')), key = str_trim(str_cut(&item, '='));
        char *lower;

        if (!key.n)
            continue;
        if (!item.p)
            return err_set(e, -EINVAL, "headers: '%.*s' is not key=value", STR_FMT(key));
        lower = arena_cstr(&s->arena, key);
        if (!lower)
            return -ENOMEM;
        for (char *c = lower; *c; c++)
            if (*c >= 'A' && *c <= 'Z')
                *c += 'a' - 'A';
        s->headers[s->n_headers++] = (struct settings_header){str_from(lower), percent_decode(s, str_trim(item))};
    }
    return 0;
}

/* ask: the endpoint is an http(s) URL, so that a peer at a port of its own may take either protocol. */
static int read_protocol(struct settings *s, int option, bool ask, struct err *e)
{
    bool port_given = s->port != 0;
    const char *env = otlp_env(s, "PROTOCOL", NULL);

    if (option < 0 || option > WICK_PROTOCOL_HTTP)
        return err_set(e, -EINVAL, "protocol %d is not one of enum wick_protocol", option);
    s->protocol = option;
    if (!option && env) {
        if (strcmp(env, "grpc") == 0)
            s->protocol = WICK_PROTOCOL_GRPC;
        else if (strcmp(env, "http/protobuf") == 0)
            s->protocol = WICK_PROTOCOL_HTTP;
        else
            return err_set(e, -EINVAL, "OTEL_EXPORTER_OTLP_PROTOCOL=%s: supported: grpc, http/protobuf", env);
    }
    if (!s->protocol && (s->port == 4318 || s->path.n > 1))
        s->protocol = WICK_PROTOCOL_HTTP;
    else if (!s->protocol && (!ask || !port_given || s->port == 4317))
        s->protocol = WICK_PROTOCOL_GRPC;
    if (!port_given)
        s->port = s->protocol == WICK_PROTOCOL_HTTP ? 4318 : 4317;
    return 0;
}

static int read_endpoint(struct settings *s, const struct wick_options *o, struct err *e)
{
    bool specific = false;
    char shown[URL_SHOWN];
    const char *text = is_set(o->endpoint) ? o->endpoint : otlp_env(s, "ENDPOINT", &specific);
    const char *env_insecure = otlp_env(s, "INSECURE", NULL);
    struct url_endpoint u;
    int r;

    if (!text || strcmp(text, "none") == 0)
        return 0;
    r = url_endpoint(text, &u, e);
    if (r < 0)
        return r;
    if (o->insecure && u.tls)
        return err_set(e, -EINVAL, "endpoint '%s' uses https, but insecure is set",
                       url_redact(text, shown, sizeof shown));
    s->tls = u.scheme ? u.tls : !o->insecure && !(env_insecure && strcmp(env_insecure, "true") == 0);
    s->host = arena_str(&s->arena, u.host);
    s->port = u.port;
    s->path = u.path.p ? arena_str(&s->arena, u.path) : STR("/");
    r = read_protocol(s, o->protocol, u.scheme, e);
    if (r < 0)
        return r;
    while (s->path.n && s->path.p[s->path.n - 1] == '/')
        s->path.n--;
    if (s->protocol != WICK_PROTOCOL_GRPC && !specific && !str_ends(s->path, STR("/v1development/profiles")))
        s->path = str_from(arena_printf(&s->arena, "%.*s/v1development/profiles", STR_FMT(s->path)));
    s->exporting = true;
    return 0;
}

/* $WICK_TOKEN, as for every command of wick, unless the headers have an authorization of their own. */
static int add_token(struct settings *s)
{
    const char *token = secure_getenv("WICK_TOKEN");
    char *bearer;

    for (uint32_t i = 0; i < s->n_headers; i++)
        if (str_is(s->headers[i].name, "authorization"))
            return 0;
    if (!token || !*token || s->n_headers == SETTINGS_HEADERS_MAX)
        return 0;
    bearer = arena_printf(&s->arena, "Bearer %s", token);
    if (!bearer)
        return -ENOMEM;
    s->headers[s->n_headers++] = (struct settings_header){STR("authorization"), str_from(bearer)};
    return 0;
}

static int read_export(struct settings *s, const struct wick_options *o, struct err *e)
{
    const char *compression = otlp_env(s, "COMPRESSION", NULL), *timeout = otlp_env(s, "TIMEOUT", NULL);
    const char *headers = is_set(o->headers) ? o->headers : otlp_env(s, "HEADERS", NULL);
    const char *ca = is_set(o->ca_file) ? o->ca_file : otlp_env(s, "CERTIFICATE", NULL);
    uint64_t ms = 0;
    int r = read_endpoint(s, o, e);

    if (r == 0 && headers)
        r = read_headers(s, headers, e);
    if (r == 0)
        r = add_token(s);
    if (r < 0)
        return r;
    if (o->compression < 0 || o->compression > WICK_COMPRESSION_GZIP)
        return err_set(e, -EINVAL, "compression %d is not one of enum wick_compression", o->compression);
    s->compression = o->compression;
    if (!s->compression)
        s->compression =
            compression && strcmp(compression, "none") == 0 ? WICK_COMPRESSION_NONE : WICK_COMPRESSION_GZIP;
    if (timeout && str_to_u64(str_from(timeout), 10, &ms) < 0)
        return err_set(e, -EINVAL, "OTEL_EXPORTER_OTLP_TIMEOUT=%s is not a number of milliseconds", timeout);
    s->timeout_ms = o->timeout_ms ? o->timeout_ms : ms ? (int64_t) ms : 10000;
    s->stop_ms = o->timeout_ms || ms ? s->timeout_ms : 2000; /* stopping delays the end of the program, so the
                                                                default is shorter */
    s->ca_file = ca ? arena_cstr(&s->arena, str_from(ca)) : NULL;
    s->file = is_set(o->file) ? arena_cstr(&s->arena, str_from(o->file)) : NULL;
    return 0;
}

static int read_identity(struct settings *s, const struct wick_options *o, struct err *e)
{
    const char *env_name = secure_getenv("OTEL_SERVICE_NAME"), *env_attrs = secure_getenv("OTEL_RESOURCE_ATTRIBUTES");
    char exe[4096];
    struct str path = proc_path_of_exe("/proc/thread-self/exe", exe, sizeof exe);
    int r = 0;

    s->service_name = arena_str(&s->arena, str_from(is_set(o->service_name) ? o->service_name : env_name));
    s->service_version = arena_str(&s->arena, str_from(o->service_version));
    if (is_set(o->resource_attributes))
        r = read_attributes(s, o->resource_attributes, "resource_attributes", e);
    if (r == 0 && is_set(env_attrs))
        r = read_attributes(s, env_attrs, "OTEL_RESOURCE_ATTRIBUTES", e);
    if (r == 0 && !s->service_name.n && path.n) {
        for (ptrdiff_t at; (at = str_find_char(path, '/')) >= 0;)
            path = str_slice(path, (size_t) at + 1, path.n);
        s->service_name = arena_str(&s->arena, path);
    }
    if (!s->service_name.n)
        s->service_name = STR("unknown_service");
    return r;
}

static int read_sampling(struct settings *s, const struct wick_options *o, struct err *e)
{
    s->types = o->types ? o->types : WICK_CPU;
    if (s->types & ~(unsigned) (WICK_CPU | WICK_WALL | WICK_ALLOC | WICK_HEAP | WICK_LOCK))
        return err_set(e, -EINVAL, "types 0x%x has bits that are not in enum wick_type", s->types);
    if (s->types & WICK_HEAP)
        s->types |= WICK_ALLOC;
    s->rate = o->rate ? o->rate : 100;
    if (s->rate > 10000)
        return err_set(e, -EINVAL, "rate %u: must be 1 to 10000 samples per second", s->rate);
    s->max_depth = o->max_depth ? o->max_depth : 128;
    if (s->max_depth > 1024)
        return err_set(e, -EINVAL, "max_depth %u: must be 1 to 1024 frames", s->max_depth);
    s->max_samples = o->max_samples ? o->max_samples : 10000;
    if (s->max_samples > 1000000)
        return err_set(e, -EINVAL, "max_samples %u: must be at most 1000000", s->max_samples);
    s->export_interval_ms = o->export_interval_ms ? o->export_interval_ms : 10000;
    s->alloc_interval = o->alloc_interval ? o->alloc_interval : 512 << 10;
    s->lock_interval_ns = o->lock_interval_ns ? o->lock_interval_ns : 100000;
    s->signal = o->signal;
    if (s->signal < 0 || s->signal > 64 || s->signal == 9 || s->signal == 19)
        return err_set(e, -EINVAL, "signal %d cannot be used", s->signal);
    s->cpu_budget = o->cpu_budget > 0 ? o->cpu_budget : 0.01;
    if (!(s->cpu_budget >= 0.001 && s->cpu_budget <= 1))
        return err_set(e, -EINVAL, "cpu_budget: must be 0.001 to 1");
    s->memory_budget = o->memory_budget ? o->memory_budget : 64 << 20;
    if (s->memory_budget < 4 << 20)
        return err_set(e, -EINVAL, "memory_budget: must be at least 4 MiB");
    s->paused = o->paused;
    return 0;
}

int settings_read(struct settings *s, const struct wick_options *given, struct err *e)
{
    struct wick_options o = WICK_OPTIONS_INIT;
    const char *disabled = secure_getenv("OTEL_SDK_DISABLED");
    int r;

    if (given && (given->size < sizeof given->size || given->size > 65536))
        return err_set(e, -EINVAL, "options.size is not set: use WICK_OPTIONS_INIT");
    if (given)
        memcpy(&o, given, MIN(given->size, sizeof o));
    *s = (struct settings){0};
    arena_init(&s->arena, 1 << 20);
    r = read_identity(s, &o, e);
    if (r == 0)
        r = read_export(s, &o, e);
    if (r == 0)
        r = read_sampling(s, &o, e);
    if (r == 0 && disabled && strcmp(disabled, "true") == 0)
        r = err_set(e, -ENOTSUP, "profiling is off: OTEL_SDK_DISABLED=true");
    if (r < 0)
        settings_done(s);
    return r;
}

void settings_done(struct settings *s)
{
    arena_done(&s->arena);
    *s = (struct settings){0};
}

int settings_parse_types(struct str text, unsigned *ret, struct err *e)
{
    static const char *const names[] = {"cpu", "wall", "alloc", "heap", "lock"};
    unsigned types = 0;

    while (text.n) {
        struct str one = str_trim(str_cut(&text, ','));
        size_t i;

        for (i = 0; i < ARRAY_SIZE(names) && !str_is(one, names[i]); i++)
            ;
        if (i == ARRAY_SIZE(names))
            return err_set(e, -EINVAL, "type '%.*s' is not one of cpu, wall, alloc, heap, lock", STR_FMT(one));
        types |= 1u << i;
    }
    *ret = types;
    return types ? 0 : err_set(e, -EINVAL, "no type given");
}
