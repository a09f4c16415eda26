/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `file`: reads profiles of any format that wick supports (codec/input.h) from files, each once, and again when it
 * changes. It keeps looking for new files. Files that the pipeline refuses with a retryable error are tried again;
 * files that cannot be read are reported and skipped.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/thread.h"
#include "codec/input.h"
#include "model/batch.h"
#include "model/sink.h"
#include "pipeline/delivery/worker.h"
#include "pipeline/graph/component.h"
#include "pipeline/graph/host.h"
#include "pipeline/receivers/received.h"

enum { SEEN_MAX = 1 << 20 };

struct file_receiver_config {
    struct option_strings include;
    int64_t poll_interval;
    bool delete_after_read;
};

struct file_seen {
    uint64_t path, version; /* hashes: of the name; of size, time and inode */
};

struct file_receiver {
    struct instance instance;
    const struct file_receiver_config *config;
    struct sink *next;
    pthread_t thread;
    bool running;
    int stop_fd;
    struct map map;
    struct file_seen *seen;
    size_t n, cap;
    struct metric *accepted;
};

static const struct option options[] = {
    {"include", OPT_STRINGS, offsetof(struct file_receiver_config, include), NULL,
     "paths of files; may contain wildcards", .required = true},
    {"poll_interval", OPT_DURATION, offsetof(struct file_receiver_config, poll_interval), "1s",
     "interval for checking"},
    {"delete_after_read", OPT_BOOL, offsetof(struct file_receiver_config, delete_after_read), "false",
     "delete files once they have been passed on"},
    {"start_at", OPT_IGNORED, 0, NULL, "files are read completely"},
    {0},
};

/* The entry of this path, created if it is new; NULL without memory. */
static struct file_seen *find(struct file_receiver *f, uint64_t path)
{
    for (struct map_pos pos = map_find(&f->map, path); pos.index != MAP_NONE; pos = map_next(&f->map, pos))
        if (f->seen[pos.index].path == path)
            return &f->seen[pos.index];
    if (array_reserve(f->seen, f->cap, f->n + 1, SEEN_MAX) < 0 || map_insert(&f->map, path, (uint32_t) f->n) < 0)
        return NULL;
    f->seen[f->n] = (struct file_seen){.path = path};
    return &f->seen[f->n++];
}

/* True if the file is done, false if it should be tried again. */
static bool read_one(struct file_receiver *f, const char *path, const struct stat *st)
{
    struct received meta = {.time_ns = (int64_t) st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec};
    struct sink_context ctx = {.tenant = "", .peer = path, .received_ns = clock_wall()};
    _cleanup_(batch_unrefp) struct batch *x = NULL;
    struct batch *b = NULL;
    struct ack_result res;
    struct err e = {0};
    int r = input_open(path, INPUT_AUTO, NULL, &b, NULL, &e);

    if (r == 0)
        r = received_finish(b, &meta, &x, &e);
    if (r < 0) {
        log_warn("%s: %s", f->instance.id, err_message(&e, r));
        return true;
    }
    sink_consume_wait(f->next, x, &ctx, &res);
    if (res.status != SINK_OK)
        log_warn("%s: cannot read '%s': %s", f->instance.id, path, res.message);
    else
        metric_add(f->accepted, x->n_samples);
    if (res.status == SINK_OK && f->config->delete_after_read)
        fd_unlink(AT_FDCWD, path);
    return !sink_status_retryable(&res);
}

static void look(struct file_receiver *f, const char *path)
{
    struct stat st;
    struct file_seen *s;
    uint64_t key[4], version;

    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    key[0] = (uint64_t) st.st_size;
    key[1] = (uint64_t) st.st_mtim.tv_sec;
    key[2] = (uint64_t) st.st_mtim.tv_nsec;
    key[3] = st.st_ino;
    version = hash64(key, sizeof key) | 1;
    s = find(f, hash64_str(str_from(path)));
    if (s && s->version != version && read_one(f, path, &st))
        s->version = version;
}

static void *run(void *arg)
{
    struct file_receiver *f = arg;
    struct pollfd pfd = {.fd = f->stop_fd, .events = POLLIN};

    do {
        for (uint32_t i = 0; i < f->config->include.n; i++) {
            glob_t g = {0};

            if (glob(f->config->include.v[i], 0, NULL, &g) == 0)
                for (size_t k = 0; k < g.gl_pathc && poll(&pfd, 1, 0) <= 0; k++)
                    look(f, g.gl_pathv[k]);
            globfree(&g);
        }
    } while (poll(&pfd, 1, (int) (f->config->poll_interval / NS_PER_MS)) <= 0);
    return NULL;
}

static int start(struct instance *i, struct err *e)
{
    struct file_receiver *f = container_of(i, struct file_receiver, instance);
    int r;

    f->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (f->stop_fd < 0)
        return err_set(e, -errno, "cannot create an eventfd: %m");
    r = thread_start(&f->thread, "file-receiver", run, f, e);
    f->running = r == 0;
    return r;
}

static void stop(struct instance *i)
{
    struct file_receiver *f = container_of(i, struct file_receiver, instance);
    uint64_t one = 1;

    if (!f->running)
        return;
    if (write(f->stop_fd, &one, sizeof one) < 0)
        log_warn("%s: cannot stop the thread", i->id);
    pthread_join(f->thread, NULL);
    f->running = false;
}

static void free_instance(struct instance *i)
{
    struct file_receiver *f = container_of(i, struct file_receiver, instance);

    stop(i);
    fd_close(f->stop_fd);
    map_done(&f->map);
    mem_free(f->seen);
    mem_free(f);
}

static int create(const struct component_args *args, struct instance **ret, struct err *e)
{
    struct file_receiver *f = mem_zalloc(sizeof *f);

    (void) e;
    if (!f)
        return -ENOMEM;
    f->config = args->config;
    f->next = args->next[SIGNAL_PROFILES];
    f->stop_fd = -1;
    f->accepted = metrics_add(args->host->metrics, METRIC_COUNTER, "otelcol_receiver_accepted_profile_samples",
                              "Items received", "receiver=\"%s\",transport=\"file\"", args->id);
    f->instance = (struct instance){.id = args->id, .start = start, .stop = stop, .free = free_instance};
    *ret = &f->instance;
    return 0;
}

static int check(const void *config, const struct conf_node *node, struct err *e)
{
    const struct file_receiver_config *c = config;

    if (c->poll_interval < NS_PER_MS)
        return conf_error(node, -EINVAL, e, "'poll_interval' must be at least 1ms");
    return 0;
}

static const char *const aliases[] = {"otlp_json_file", "otlpjsonfile", NULL};

const struct component component_file_receiver = {
    .kind = COMPONENT_RECEIVER,
    .name = "file",
    .aliases = aliases,
    .help = "reads profiles from files: OTLP, pprof, folded, perf script",
    .signals = ONLY_PROFILES,
    .options = options,
    .config_size = sizeof(struct file_receiver_config),
    .check = check,
    .create = create,
};
