/* SPDX-License-Identifier: Apache-2.0 */
/* The outputs of the process: OTLP to an endpoint, pprof to files, sessions for /debug/pprof and snapshots. Background
 * thread only. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/compress.h"
#include "base/fd.h"
#include "base/mem.h"
#include "codec/otlp.h"
#include "model/semconv.h"
#include "sdk/ending.h"
#include "sdk/heap.h"
#include "sdk/heap_view.h"
#include "sdk/modules.h"
#include "sdk/otlp_grpc.h"
#include "sdk/otlp_http.h"
#include "sdk/profile.h"
#include "sdk/provider.h"
#include "sdk/span.h"
#include "sdk/start.h"

#define LINES_FREE_NS (2 * NS_PER_S) /* for the objects loaded at the start */
#define LINES_NS (5 * NS_PER_S)      /* a client waits for 1.5 times the duration it asked for, plus 5 s */

static const char *const type_names[N_TYPES] = {"cpu", "wall", "alloc", "heap", "lock"};

static int64_t period_of(const struct wick_provider *p, int type)
{
    switch (type) {
    case TYPE_CPU:
    case TYPE_WALL:
        return NS_PER_S / core_rate();
    case TYPE_HEAP:
        return (int64_t) p->s.alloc_interval;
    default:
        return 1;
    }
}

/* True for the types that are exported and written: those of the settings, not one that a request to /debug/pprof
 * turned on for its own duration. Alloc and heap are one profile. */
static bool is_exported(const struct wick_provider *p, int type)
{
    if (type == TYPE_ALLOC)
        return false;
    return p->s.types & (type == TYPE_HEAP ? WICK_ALLOC | WICK_HEAP : 1u << type);
}

static bool has_attr(const struct kv *v, uint32_t n, const char *key)
{
    for (uint32_t i = 0; i < n; i++)
        if (str_is(v[i].key, key))
            return true;
    return false;
}

static struct profile_resource resource_of(struct wick_provider *p, struct kv *attrs, char *build_id, char *pid)
{
    const struct module_file *exe = modules_file(1);
    const char *number = span_process_number();
    struct profile_resource r = {.name = p->s.service_name, .version = p->s.service_version, .attrs = attrs};

    memcpy(attrs, p->s.attrs, p->s.n_attrs * sizeof *attrs);
    r.n_attrs = p->s.n_attrs;
    attrs[r.n_attrs++] = (struct kv){STR(SEMCONV_PROCESS_PID), {.kind = VALUE_INT, .integer = p->pid}};
    if (p->host[0] && !has_attr(attrs, r.n_attrs, SEMCONV_HOST_NAME))
        attrs[r.n_attrs++] =
            (struct kv){STR(SEMCONV_HOST_NAME), {.kind = VALUE_STR, .n = (uint32_t) strlen(p->host), .str = p->host}};
    if (exe && exe->path)
        attrs[r.n_attrs++] = (struct kv){STR(SEMCONV_PROCESS_EXECUTABLE_PATH),
                                         {.kind = VALUE_STR, .n = (uint32_t) strlen(exe->path), .str = exe->path}};
    if (number[0])
        attrs[r.n_attrs++] =
            (struct kv){STR(SEMCONV_WICK_PROCESS), {.kind = VALUE_STR, .n = (uint32_t) strlen(number), .str = number}};
    attrs[r.n_attrs++] = (struct kv){STR("telemetry.sdk.name"), {.kind = VALUE_STR, .n = 4, .str = "wick"}};
    attrs[r.n_attrs++] = (struct kv){STR("telemetry.sdk.language"), {.kind = VALUE_STR, .n = 3, .str = "cpp"}};
    attrs[r.n_attrs++] = (struct kv){STR("telemetry.sdk.version"),
                                     {.kind = VALUE_STR, .n = sizeof WICK_VERSION - 1, .str = WICK_VERSION}};
    if (!r.version.n && exe && exe->build_id_n) {
        hex_write(build_id, exe->build_id, exe->build_id_n);
        r.version = (struct str){build_id, 2 * exe->build_id_n};
    }
    return r;
}

static void pump(void)
{
    struct wick_provider *p = provider_current();

    if (p)
        background_drain(p);
}

/*
 * Until when an export may wait for lines and inlined calls, which a helper process reads; 0: not at all. The helper is
 * only asked about new addresses, and may use 2 % of the time. A process that is about to end has little time left: the
 * helper gets half of it, or none in a short-lived process such as a child of a shell.
 */
static int64_t lines_until(struct wick_provider *p)
{
    int64_t now = clock_mono(), until = ending_deadline(now + LINES_NS), lived = now - p->first_mono;

    if (p->lines_ns > lived / 50 + LINES_FREE_NS)
        return 0;
    if (until == now + LINES_NS)
        return until;
    return lived > 2 * NS_PER_S ? now + (until - now) / 2 : 0;
}

/* The parts of an export, without times. */
static uint32_t list_parts(struct wick_provider *p, struct profile_part *ret)
{
    int64_t lines = lines_until(p);
    uint32_t n = 0;

    for (int type = 0; type < N_TYPES; type++)
        if (is_exported(p, type))
            ret[n++] = (struct profile_part){.type = type,
                                             .agg = &p->export[type],
                                             .delta = 1,
                                             .period = period_of(p, type),
                                             .lines_until = lines,
                                             .pump = pump};
    return n;
}

/* Leaves out parts without samples, and sets the times of the others; returns how many are left. */
static uint32_t set_times(struct wick_provider *p, int64_t end_mono, struct profile_part *parts, uint32_t n)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (parts[i].type != TYPE_HEAP && !parts[i].agg->n)
            continue;
        parts[left] = parts[i];
        parts[left].time_ns = p->interval_start_wall;
        parts[left++].duration_ns = end_mono - p->interval_start_mono;
    }
    return left;
}

static int make_request(struct wick_provider *p, const struct profile_part *parts, uint32_t n, struct buf *out,
                        struct err *e)
{
    struct kv attrs[SETTINGS_ATTRS_MAX + 8];
    char build_id[2 * BUILD_ID_MAX], pid[16];
    struct profile_resource resource = resource_of(p, attrs, build_id, pid);
    struct profile_scope scope = {.rate = atomic_load(&core.rate),
                                  .lost = (int64_t) atomic_load(&core.lost),
                                  .cpu_ns = (int64_t) (atomic_load(&core.handler_ns) + atomic_load(&p->background_ns)),
                                  .governor = atomic_load(&p->governor)};
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    int r;

    r = profile_make(parts, n, &resource, &scope, &b, e);
    if (r == 0)
        r = otlp_encode(b, NULL, out, e);
    return r;
}

/* Remembers the protocol that the peer accepts, since its port does not determine it. */
static void chosen(struct wick_provider *p, int protocol)
{
    char text[300];

    p->s.protocol = protocol;
    snprintf(text, sizeof text, "%.*s:%u accepts OTLP over %s", (int) MIN(p->s.host.n, 200u), p->s.host.p, p->s.port,
             protocol == WICK_PROTOCOL_HTTP ? "HTTP" : "gRPC");
    start_chose(text);
}

/* WICK_PROTOCOL_AUTO: HTTP first, and gRPC if the peer does not speak HTTP/1 or has no such path. */
static int send_body(struct wick_provider *p, const struct buf *body, int64_t deadline, struct err *e)
{
    struct err second = {0};
    int status = 0, r, r2;

    if (p->s.protocol == WICK_PROTOCOL_GRPC)
        return otlp_grpc_call(&p->s, body, deadline, pump, e);
    r = otlp_http_post(&p->s, body, deadline, pump, &status, e);
    if (p->s.protocol == WICK_PROTOCOL_HTTP || status == 0)
        return r;
    if (r == 0 || status == 401 || status == 403 || status == 429 || status == 503) {
        chosen(p, WICK_PROTOCOL_HTTP);
        return r;
    }
    r2 = otlp_grpc_call(&p->s, body, deadline, pump, &second);
    if (r2 == 0) {
        chosen(p, WICK_PROTOCOL_GRPC);
        return 0;
    }
    return err_set(e, r2, "over HTTP: %.100s; over gRPC: %.100s", err_message(e, r), err_message(&second, r2));
}

static int send_request(struct wick_provider *p, struct buf *plain, struct err *e)
{
    _cleanup_(buf_done) struct buf packed = BUF_INIT;
    struct buf *body = plain;
    int64_t deadline = clock_mono() + p->s.timeout_ms * NS_PER_MS;
    int r = 0;

    if (p->s.compression == WICK_COMPRESSION_GZIP) {
        r = compress_deflate(COMPRESS_GZIP, 1, plain->p, plain->n, &packed, e);
        body = &packed;
    }
    if (r == 0)
        r = send_body(p, body, deadline, e);
    if (r == 0)
        atomic_fetch_add(&p->exported_bytes, body->n);
    return r;
}

static void begin_interval(struct wick_provider *p, int64_t wall, int64_t mono)
{
    for (int type = 0; type < N_TYPES; type++)
        agg_reset(&p->export[type]);
    heap_view_mark();
    p->interval_start_wall = wall;
    p->interval_start_mono = mono;
}

int export_now(struct wick_provider *p, struct err *e)
{
    _cleanup_(buf_done) struct buf plain = BUF_INIT;
    struct profile_part parts[N_TYPES];
    int64_t begun = clock_mono(), mono, wall;
    uint32_t n;
    int r = 0;

    if (!p->s.exporting)
        return 0;
    n = list_parts(p, parts);
    profile_name_parts(parts, n); /* samples that arrive meanwhile still belong to this interval */
    mono = clock_mono();
    wall = clock_wall();
    p->lines_ns += mono - begun;
    n = set_times(p, mono, parts, n);
    if (n)
        r = make_request(p, parts, n, &plain, e);
    begin_interval(p, wall, mono); /* samples that arrive during the export belong to the next interval */
    if (r == 0 && plain.n)
        r = send_request(p, &plain, e);
    if (r < 0)
        atomic_fetch_add(&p->failed, 1);
    else if (plain.n)
        atomic_fetch_add(&p->exports, 1);
    return r;
}

/* --- files --- */
/* out.pb.gz for the first type, out.heap.pb.gz for others. */
static int file_name(const char *base, int type, bool first, char *to, size_t size)
{
    struct str name = str_from(base), ext = {0};
    static const char *const known[] = {".pb.gz", ".pprof", ".pb"};
    struct buf b = BUF_INIT;

    for (size_t i = 0; i < ARRAY_SIZE(known) && !ext.n; i++)
        if (str_ends(name, str_from(known[i])))
            ext = str_from(known[i]);
    buf_printf(&b, "%.*s%s%s%.*s", (int) (name.n - ext.n), name.p, first ? "" : ".", first ? "" : type_names[type],
               STR_FMT(ext));
    if (buf_error(&b) || b.n >= size) {
        buf_done(&b);
        return -ENAMETOOLONG;
    }
    memcpy(to, b.p, b.n);
    to[b.n] = 0;
    buf_done(&b);
    return 0;
}

/* Replaces the file atomically but does not sync it: the process may be about to end, and must not wait for a disk. */
static int write_file(const char *path, const struct buf *b, struct err *e)
{
    char tmp[4096 + 16];
    int fd, r;

    snprintf(tmp, sizeof tmp, "%s.tmp%d", path, (int) getpid());
    fd = fd_open(AT_FDCWD, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644);
    r = fd < 0 ? fd : fd_write_all(fd, b->p, b->n);
    fd_close(fd);
    if (r == 0)
        r = fd_rename(AT_FDCWD, tmp, AT_FDCWD, path);
    if (r == 0)
        return 0;
    fd_unlink(AT_FDCWD, tmp);
    return err_set(e, r, "cannot write '%s': %m", path);
}

static int write_or_send(const char *path, int type, const struct buf *b, struct err *e)
{
    int r = write_file(path, b, e);

    if (r == -EACCES || r == -EPERM || r == -ENOENT || r == -EROFS || r == -ENOTDIR)
        r = start_send_part(type_names[type], b->p, b->n, e) == 0 ? 0 : r;
    return r;
}

int export_write_files(struct wick_provider *p, struct err *e)
{
    bool first = true;
    int r = 0;

    for (int type = 0; p->s.file && type < N_TYPES && r == 0; type++) {
        struct profile_part part = {.type = type,
                                    .agg = &p->file_totals[type],
                                    .time_ns = p->first_wall,
                                    .duration_ns = clock_mono() - p->first_mono,
                                    .period = period_of(p, type),
                                    .peak = type == TYPE_HEAP};
        _cleanup_(buf_done) struct buf out = BUF_INIT;
        char path[4096];

        if (!is_exported(p, type))
            continue;
        r = file_name(p->s.file, type, first, path, sizeof path);
        if (r == 0)
            r = profile_make_pprof(&part, &out, e);
        if (r == 0)
            r = write_or_send(path, type, &out, e);
        first = false;
    }
    return r;
}

/* --- sessions --- */
struct provider_session *session_begin(struct wick_provider *p, int type)
{
    struct provider_session *s = mem_zalloc(sizeof *s);

    if (!s)
        return NULL;
    background_drain(p); /* earlier samples do not belong to this session */
    s->type = type;
    agg_init(&s->agg, p->s.max_samples);
    s->start_wall = clock_wall();
    s->start_mono = clock_mono();
    s->next = p->sessions;
    p->sessions = s;
    return s;
}

struct provider_session *session_begin_window(struct wick_provider *p, int type)
{
    struct provider_session *s = session_begin(p, type);

    if (!s)
        return NULL;
    s->window = true;
    s->n_base = type == TYPE_HEAP ? heap_view_count() : 0;
    s->base = s->n_base ? mem_zalloc_array(s->n_base, sizeof *s->base) : NULL;
    if (s->n_base && !s->base) {
        session_end(p, s);
        return NULL;
    }
    for (uint32_t i = 0; i < s->n_base; i++)
        heap_view_at(i, 0, &s->base[i]);
    return s;
}

void session_end(struct wick_provider *p, struct provider_session *s)
{
    for (struct provider_session **at = &p->sessions; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    agg_done(&s->agg);
    mem_free(s->base);
    mem_free(s);
}

static struct profile_part part_of(struct wick_provider *p, struct provider_session *s)
{
    bool total = (s->type == TYPE_HEAP || s->type == TYPE_LOCK) && !s->window;

    background_drain(p);
    return (struct profile_part){.type = s->type,
                                 .agg = s->type == TYPE_LOCK && total ? &p->file_totals[TYPE_LOCK] : &s->agg,
                                 .base = s->base,
                                 .n_base = s->n_base,
                                 .time_ns = total ? p->first_wall : s->start_wall,
                                 .duration_ns = clock_mono() - (total ? p->first_mono : s->start_mono),
                                 .period = period_of(p, s->type)};
}

int session_pprof(struct wick_provider *p, struct provider_session *s, struct buf *out, struct err *e)
{
    struct profile_part part = part_of(p, s);

    return profile_make_pprof(&part, out, e);
}

int session_answer(struct wick_provider *p, struct provider_session *s, bool text, struct buf *out, struct err *e)
{
    struct profile_part part = part_of(p, s);

    part.lines_until = clock_mono() + LINES_NS;
    part.pump = pump;
    return text ? profile_make_text(&part, out, e) : profile_make_pprof(&part, out, e);
}
