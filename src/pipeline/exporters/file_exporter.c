/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `file`: appends requests to a file from a thread of its own, like the Collector's file exporter: JSON lines, or
 * protobuf with a length before each message (codec/otlp_file.h), optionally each compressed with zstd. A request is
 * acknowledged when it is written. Rotates by size, and by age if configured; the names of old files contain a time.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/compress.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/otlp.h"
#include "model/batch.h"
#include "pipeline/delivery/worker.h"
#include "pipeline/graph/component.h"
#include "pipeline/graph/host.h"

enum { WAITING_MAX = 64 << 20, BACKUPS_MAX = 100000 };

struct rotation_config {
    int64_t max_megabytes, max_days, max_backups;
    bool localtime;
};

struct file_config {
    char first; /* keeps offset 0 free, which means "no presence flag" */
    bool append, create_directory, has_rotation;
    const char *path;
    int format, compression;
    struct rotation_config rotation;
};

struct file_exporter {
    struct instance instance;
    const struct file_config *config;
    struct worker worker;
    struct sink sink;
    struct metric *sent, *failed;
    int fd;
    uint64_t size;
    int64_t opened, rotated; /* wall clock; rotated: the time in the name of the last rotated file */
};

static const char *const formats[] = {"json", "proto", NULL}, *const compressions[] = {"", "none", "zstd", NULL};

static const struct option rotation_options[] = {
    {"max_megabytes", OPT_INT, offsetof(struct rotation_config, max_megabytes), "100", "start a new file at this size"},
    {"max_days", OPT_INT, offsetof(struct rotation_config, max_days), "0",
     "start a new file after this time; 0: never"},
    {"max_backups", OPT_INT, offsetof(struct rotation_config, max_backups), "100",
     "number of finished files to keep; 0: all"},
    {"localtime", OPT_BOOL, offsetof(struct rotation_config, localtime), "false",
     "use local time instead of UTC in file names"},
    {0},
};

static const struct option options[] = {
    {"path", OPT_STRING, offsetof(struct file_config, path), NULL, "output file", .required = true},
    {"format", OPT_ENUM, offsetof(struct file_config, format), "json",
     "json: one request per line; proto: length-prefixed requests", .words = formats},
    {"compression", OPT_ENUM, offsetof(struct file_config, compression), "''",
     "compression of each request; requests are then length-prefixed", .words = compressions},
    {"append", OPT_BOOL, offsetof(struct file_config, append), "false", "append to an existing file"},
    {"create_directory", OPT_BOOL, offsetof(struct file_config, create_directory), "false",
     "create the parent directory"},
    {"rotation", OPT_TABLE, offsetof(struct file_config, rotation), NULL, "file rotation", .table = rotation_options,
     .present = offsetof(struct file_config, has_rotation)},
    {"flush_interval", OPT_IGNORED, 0, NULL, "every request is written immediately"},
    {"directory_permissions", OPT_IGNORED, 0, NULL, "0755"},
    {"group_by", OPT_IGNORED, 0, NULL, "all data goes to one file"},
    {"encoding", OPT_IGNORED, 0, NULL, "see format"},
    {0},
};

static int open_file(struct file_exporter *f, bool append, struct err *e)
{
    int flags = O_WRONLY | O_CREAT | O_APPEND | (append ? 0 : O_TRUNC), fd;
    struct stat st;

    fd = fd_open(AT_FDCWD, f->config->path, flags, 0644);
    if (fd < 0)
        return err_set(e, fd, "cannot open '%s': %m", f->config->path);
    f->size = fstat(fd, &st) == 0 ? (uint64_t) st.st_size : 0;
    f->fd = fd;
    f->opened = clock_wall();
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

/* True for the name of a rotated file: STEM-2006-01-02T15-04-05.000SUFFIX. */
static bool is_backup(const char *name, struct str stem, const char *suffix)
{
    static const char form[] = "-dddd-dd-ddTdd-dd-dd.ddd";
    size_t n = strlen(name);

    if (n != stem.n + sizeof form - 1 + strlen(suffix) || memcmp(name, stem.p, stem.n) != 0 ||
        strcmp(name + stem.n + sizeof form - 1, suffix) != 0)
        return false;
    for (size_t i = 0; i < sizeof form - 1; i++)
        if (form[i] == 'd' ? !isdigit((unsigned char) name[stem.n + i]) : name[stem.n + i] != form[i])
            return false;
    return true;
}

/* Removes the oldest rotated files over max_backups. stem: the path without its suffix. */
static void remove_old(struct file_exporter *f, struct str stem, const char *suffix)
{
    ptrdiff_t slash = -1;
    char dir[4096] = ".", **names = NULL;
    size_t n = 0, cap = 0;
    struct dirent *entry;
    DIR *d;

    for (uint32_t i = 0; i < stem.n; i++)
        slash = stem.p[i] == '/' ? (ptrdiff_t) i : slash;
    if (slash >= 0)
        snprintf(dir, sizeof dir, "%.*s", (int) MAX(slash, 1), stem.p);
    stem = str_slice(stem, (size_t) (slash + 1), stem.n);
    d = opendir(dir);
    while (d && (entry = readdir(d))) {
        if (!is_backup(entry->d_name, stem, suffix) || array_reserve(names, cap, n + 1, BACKUPS_MAX) < 0)
            continue;
        names[n] = mem_strdup(entry->d_name);
        n += names[n] != NULL;
    }
    if (n)
        qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i + (size_t) f->config->rotation.max_backups < n; i++)
        fd_unlink(dirfd(d), names[i]);
    for (size_t i = 0; i < n; i++)
        mem_free(names[i]);
    mem_free(names);
    if (d)
        closedir(d);
}

/* Renames the full file to a name with a time, and starts a new one. */
static int rotate(struct file_exporter *f, struct err *e)
{
    const struct file_config *c = f->config;
    int64_t wall = clock_wall(), now = MAX(f->rotated + NS_PER_MS, wall); /* no two files may have the same name */
    time_t t = (time_t) (now / NS_PER_S);
    char stamp[40], name[4200];
    const char *dot = strrchr(c->path, '.'), *slash = strrchr(c->path, '/');
    struct tm tm;
    int stem, r;

    if (!dot || (slash && dot < slash))
        dot = c->path + strlen(c->path);
    stem = (int) (dot - c->path);
    if (c->rotation.localtime)
        localtime_r(&t, &tm);
    else
        gmtime_r(&t, &tm);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H-%M-%S", &tm);
    snprintf(name, sizeof name, "%.*s-%s.%03d%s", stem, c->path, stamp, (int) (now % NS_PER_S / NS_PER_MS), dot);
    fd_close(f->fd);
    f->fd = -1;
    f->rotated = now;
    r = fd_rename(AT_FDCWD, c->path, AT_FDCWD, name);
    if (r < 0)
        log_warn("%s: cannot rename '%s': %s", f->instance.id, c->path, strerror(-r));
    else if (c->rotation.max_backups > 0)
        remove_old(f, (struct str){c->path, (uint32_t) stem}, dot);
    return open_file(f, r < 0, e);
}

static bool must_rotate(const struct file_exporter *f, size_t more)
{
    const struct rotation_config *c = &f->config->rotation;

    if (!f->config->has_rotation || !f->size)
        return false;
    return f->size + more > (uint64_t) c->max_megabytes << 20 ||
           (c->max_days && clock_wall() - f->opened > c->max_days * 86400 * NS_PER_S);
}

/* Encodes one request in the file's format. */
static int encode(const struct file_config *c, const struct work *w, struct buf *out, struct err *e)
{
    _cleanup_(buf_done) struct buf plain = BUF_INIT, packed = BUF_INIT;
    bool zstd = c->compression == 2, framed = c->format == 1 || zstd;
    struct buf *body = zstd ? &packed : &plain;
    unsigned char head[4];
    int r = 0;

    if (w->batch)
        r = c->format ? otlp_encode(w->batch, NULL, &plain, e) : otlp_json_encode(w->batch, &plain, e);
    else if (w->blob->json == !c->format)
        buf_put(&plain, w->blob->p, w->blob->n);
    else
        return err_set(e, -EOPNOTSUPP, "%s were received as %s and are written unchanged; set format: %s",
                       signal_names[w->blob->signal], w->blob->json ? "JSON" : "protobuf",
                       w->blob->json ? "json" : "proto");
    if (r == 0 && zstd)
        r = compress_deflate(COMPRESS_ZSTD, 0, plain.p, plain.n, &packed, e);
    if (r < 0)
        return r;
    if (framed) {
        for (int i = 0; i < 4; i++)
            head[i] = (unsigned char) (body->n >> (24 - 8 * i));
        buf_put(out, head, 4);
    }
    buf_put_str(out, buf_str(body));
    if (!framed)
        buf_putc(out, '\n');
    return buf_error(out);
}

static void handle(struct worker *wk, struct work *w, bool more)
{
    struct file_exporter *f = container_of(wk, struct file_exporter, worker);
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    uint32_t items = w->batch ? w->batch->n_samples : w->blob->items;
    struct err e = {0};
    int r = encode(f->config, w, &out, &e);

    (void) more;
    if (r == 0 && (f->fd < 0 || must_rotate(f, out.n)))
        r = f->fd < 0 ? open_file(f, true, &e) : rotate(f, &e);
    if (r == 0)
        r = fd_write_all(f->fd, out.p, out.n);
    if (r == 0) {
        f->size += out.n;
        metric_add(f->sent, items);
        ack_ok(w->ack);
    } else {
        metric_add(f->failed, items);
        ack_fail(w->ack, r == -EOPNOTSUPP ? SINK_INVALID : SINK_UNAVAILABLE, 0, "cannot write '%s': %.150s",
                 f->config->path, err_message(&e, r));
    }
    work_free(w);
}

static void consume(struct sink *s, struct payload data, const struct sink_context *ctx, struct ack *ack)
{
    worker_submit(&container_of(s, struct file_exporter, sink)->worker, data, ctx, ack);
}

static int start(struct instance *i, struct err *e)
{
    struct file_exporter *f = container_of(i, struct file_exporter, instance);
    const char *slash = strrchr(f->config->path, '/');
    char dir[4096];
    int r = 0;

    if (f->config->create_directory && slash && slash > f->config->path) {
        snprintf(dir, sizeof dir, "%.*s", (int) (slash - f->config->path), f->config->path);
        r = fd_mkdir_all(dir, 0755);
        if (r < 0)
            return err_set(e, r, "cannot create '%s': %m", dir);
    }
    r = open_file(f, f->config->append, e);
    return r < 0 ? r : worker_start(&f->worker, e);
}

static void stop(struct instance *i)
{
    worker_stop(&container_of(i, struct file_exporter, instance)->worker);
}

static void free_instance(struct instance *i)
{
    struct file_exporter *f = container_of(i, struct file_exporter, instance);

    worker_done(&f->worker);
    fd_close(f->fd);
    mem_free(f);
}

static int create(const struct component_args *args, struct instance **ret, struct err *e)
{
    static const char *const names[SIGNALS] = {"otelcol_exporter_sent_profile_samples", "otelcol_exporter_sent_spans",
                                               "otelcol_exporter_sent_metric_points",
                                               "otelcol_exporter_sent_log_records"};
    struct file_exporter *f = mem_zalloc(sizeof *f);
    int r;

    if (!f)
        return -ENOMEM;
    r = worker_init(&f->worker, "file", WAITING_MAX);
    if (r < 0) {
        mem_free(f);
        return err_set(e, r, "cannot create a queue: %m");
    }
    f->fd = -1;
    f->config = args->config;
    f->worker.handle = handle;
    f->sink.consume = consume;
    f->sent = metrics_add(args->host->metrics, METRIC_COUNTER, names[args->signal], "Items sent", "exporter=\"%s\"",
                          args->id);
    f->failed = metrics_add(args->host->metrics, METRIC_COUNTER, "otelcol_exporter_write_failed", "Items not written",
                            "exporter=\"%s\"", args->id);
    f->instance =
        (struct instance){.id = args->id, .sink = &f->sink, .start = start, .stop = stop, .free = free_instance};
    *ret = &f->instance;
    return 0;
}

/* is_persistent is not set: it would leave out a `batch` before this exporter, which does no batching of its own. */
const struct component component_file_exporter = {
    .kind = COMPONENT_EXPORTER,
    .name = "file",
    .help = "OTLP requests in a file",
    .signals = ALL_SIGNALS,
    .options = options,
    .config_size = sizeof(struct file_config),
    .create = create,
};
