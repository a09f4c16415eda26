/* SPDX-License-Identifier: Apache-2.0 */
/* Collects and merges the profiles of all processes of a `wick run -o` (run_parts.h). */
#include "record/run_parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/compress.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/thread.h"
#include "codec/pprof.h"
#include "model/builder.h"
#include "model/convert.h"
#include "pprof/pprof_symbolize.h"
#include "report/prof.h"

enum { HEAD_MAX = 128, PART_MAX = 256 << 20, PARTS_MAX = 65536, SILENCE_S = 5 };

const char *const run_parts_types[RUN_PARTS_TYPES] = {"cpu", "wall", "alloc", "heap", "lock"};

/* --- the socket --- */
static int type_of(struct str name)
{
    for (int i = 0; i < RUN_PARTS_TYPES; i++)
        if (str_is(name, run_parts_types[i]))
            return i;
    return -1;
}

/* Reads the header byte by byte: it is short, and the data that follow are read in one piece. */
static int read_head(int fd, char *head)
{
    for (size_t n = 0; n < HEAD_MAX; n++) {
        if (recv(fd, head + n, 1, 0) != 1)
            return -EBADMSG;
        if (head[n] == '\n') {
            head[n] = 0;
            return 0;
        }
    }
    return -EBADMSG;
}

static int read_part(int fd, size_t n, struct buf *out)
{
    while (out->n < n) {
        size_t want = MIN(n - out->n, (size_t) 65536);
        char *room = buf_reserve(out, want);
        ssize_t got = room ? recv(fd, room, want, 0) : -1;

        if (got <= 0)
            return -EBADMSG;
        out->n += (size_t) got;
    }
    return 0;
}

static void take_part(struct run_parts *p, int fd)
{
    _cleanup_(buf_done) struct buf part = BUF_INIT;
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    char head[HEAD_MAX], path[4600];
    struct str rest;
    uint64_t n;
    int type;

    if (read_head(fd, head) < 0)
        return;
    rest = str_from(head);
    if (!str_is(str_cut(&rest, ' '), "wick-part") || !str_is(str_cut(&rest, ' '), p->token))
        return;
    type = type_of(str_cut(&rest, ' '));
    if (type < 0 || str_to_u64(rest, 10, &n) < 0 || n > PART_MAX || p->n_received >= PARTS_MAX ||
        read_part(fd, n, &part) < 0)
        return;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    snprintf(path, sizeof path, "%s/s.%d-%u.%s.pb.gz", p->dir, (int) peer.pid, p->n_received++, run_parts_types[type]);
    if (fd_write_file(path, part.p, part.n, NULL) == 0)
        send(fd, "k", 1, MSG_NOSIGNAL);
}

static void *receive_main(void *arg)
{
    struct timeval silence = {.tv_sec = SILENCE_S};
    struct run_parts *p = arg;

    for (;;) {
        int fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0 && errno != EINTR && errno != ECONNABORTED)
            return NULL; /* shut down */
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence);
        take_part(p, fd);
        close(fd);
    }
}

static void make_token(char *out)
{
    uint8_t random[16];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        memset(random, 0, sizeof random);
    *hex_write(out, random, sizeof random) = 0;
}

/* Listens on an address that the kernel chooses. */
static void listen_for_parts(struct run_parts *p)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    socklen_t n = sizeof a.sun_family;
    char value[256];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && (bind(fd, (struct sockaddr *) &a, n) < 0 || listen(fd, 64) < 0)) {
        close(fd);
        fd = -1;
    }
    p->listener = fd;
    n = sizeof a;
    if (fd < 0 || getsockname(fd, (struct sockaddr *) &a, &n) < 0)
        return;
    make_token(p->token);
    snprintf(value, sizeof value, "%.*s:%s", (int) (n - offsetof(struct sockaddr_un, sun_path) - 1), a.sun_path + 1,
             p->token);
    setenv("WICK_PARTS", value, 1);
}

int run_parts_open(const char *output, struct run_parts *ret, struct err *e)
{
    char dir[4200], file[4300];

    *ret = (struct run_parts){.listener = -1};
    snprintf(dir, sizeof dir, "%s.parts.%d", output, (int) getpid());
    if (fd_mkdir(AT_FDCWD, dir, 0700) < 0 || !realpath(dir, ret->dir))
        return err_set(e, -errno, "cannot write next to '%s': %m", output);
    snprintf(file, sizeof file, "%s/p.pb.gz", ret->dir);
    setenv("WICK_FILE", file, 1);
    listen_for_parts(ret);
    return 0;
}

void run_parts_receive(struct run_parts *p)
{
    p->receiving = p->listener >= 0 && thread_start(&p->thread, "parts", receive_main, p, NULL) == 0;
}

static void stop_receiving(struct run_parts *p)
{
    struct pollfd waiting = {.fd = p->listener, .events = POLLIN};

    while (p->receiving && poll(&waiting, 1, 0) > 0) /* connections that were already made are still served */
        usleep(1000);
    if (p->listener >= 0)
        shutdown(p->listener, SHUT_RDWR);
    if (p->receiving)
        pthread_join(p->thread, NULL);
    p->receiving = false;
    if (p->listener >= 0)
        close(p->listener);
    p->listener = -1;
}

/* --- merging --- */
/* p.PID.TYPE.pb.gz; libwick's first type has no TYPE. -1 for other names. */
static int part_type(struct str name, int first)
{
    if (!str_ends(name, STR(".pb.gz")))
        return -1;
    for (int i = 0; i < RUN_PARTS_TYPES; i++) {
        char end[32];

        snprintf(end, sizeof end, ".%s.pb.gz", run_parts_types[i]);
        if (str_ends(name, str_from(end)))
            return i;
    }
    return first;
}

static int append_part(struct builder *b, const char *path, struct err *e)
{
    _cleanup_(buf_done) struct buf in = BUF_INIT;
    _cleanup_(batch_unrefp) struct batch *part = NULL;
    int r = fd_read_file(path, 1ul << 30, &in, e);

    if (r == 0)
        r = pprof_decode(&in, NULL, &part, e);
    return r < 0 ? r : builder_append(b, part);
}

/* Encodes b with lines and inlined calls from the binaries, which the processes had no time to read. */
static int encode_with_lines(struct batch *b, struct buf *out)
{
    struct pprof_args how = {.symbolize = STR("local:force")};
    _cleanup_(batch_unrefp) struct batch *better = NULL;
    struct prof_pool pool; /* owns the strings of better */
    struct prof *p = NULL;
    int r = prof_pool_init(&pool);

    if (r < 0)
        return r;
    r = prof_from_batch(&pool, b, &b->profiles[0], &p, NULL);
    if (r == 0)
        r = pprof_symbolize(p, &how, NULL, NULL);
    if (r == 0)
        r = prof_to_batch(p, &better, NULL);
    if (r == 0)
        r = pprof_encode(better, &better->profiles[0], out, NULL);
    prof_free(p);
    batch_unref(TAKE(better));
    prof_pool_done(&pool);
    return r;
}

static int write_merged(struct builder *b, const char *path, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *all = NULL, *one = NULL;
    _cleanup_(buf_done) struct buf plain = BUF_INIT, lines = BUF_INIT, packed = BUF_INIT;
    const struct buf *out = &plain;
    int r = builder_finish(b, &all, e);

    if (r == 0)
        r = convert_to_single(all, &one, e);
    if (r == 0)
        r = pprof_encode(one, &one->profiles[0], &plain, e);
    if (r == 0 && encode_with_lines(one, &lines) == 0)
        out = &lines; /* otherwise the function names are kept */
    if (r == 0)
        r = compress_deflate(COMPRESS_GZIP, 0, out->p, out->n, &packed, e);
    return r < 0 ? r : fd_write_file(path, packed.p, packed.n, e);
}

/* Merges all parts of one type into one file; returns the number of processes that wrote one, 0 if there is none. */
static int merge_type(const char *dir, int type, int first, const char *output, struct err *e)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    DIR *d = opendir(dir);
    int n = 0, r = builder_new(NULL, &b);

    for (struct dirent *f; r == 0 && d && (f = readdir(d));) {
        char path[4600];

        if (part_type(str_from(f->d_name), first) != type)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
        r = append_part(b, path, e);
        n++;
    }
    if (d)
        closedir(d);
    if (r == 0 && n)
        r = write_merged(b, output, e);
    return r < 0 ? r : n;
}

static void output_name(const char *output, int type, bool is_first, char *ret, size_t size)
{
    struct str name = str_from(output), ext = STR("");

    if (str_ends(name, STR(".pb.gz")))
        ext = STR(".pb.gz");
    if (is_first)
        snprintf(ret, size, "%s", output);
    else
        snprintf(ret, size, "%.*s.%s%.*s", (int) (name.n - ext.n), name.p, run_parts_types[type], STR_FMT(ext));
}

/* alloc and heap are one profile, which is called heap. */
static int profile_of(int type)
{
    return type == 2 ? 3 : type;
}

int run_parts_merge(struct run_parts *p, const char *types, const char *output, struct err *e)
{
    struct str rest = str_from(types ? types : "cpu");
    int first_asked = -1, first_written = RUN_PARTS_TYPES, wrote = 0;

    stop_receiving(p);
    while (rest.n) {
        int type = profile_of(type_of(str_trim(str_cut(&rest, ','))));

        first_asked = first_asked < 0 ? type : first_asked;
        first_written = MIN(first_written, type); /* libwick uses its own order */
    }
    for (int type = 0; type < RUN_PARTS_TYPES; type++) {
        char path[4200];
        int n;

        output_name(output, type, type == first_asked, path, sizeof path);
        n = merge_type(p->dir, type, first_written, path, e);
        if (n < 0)
            return n;
        if (n) {
            fprintf(stderr, "wick: wrote %s%s; open it with: wick pprof %s%s\n", path, n > 1 ? " (all processes)" : "",
                    path, type == 3 ? " (what was in use at the peak: -sample_index=peak_space)" : "");
            wrote++;
        }
    }
    return wrote ? 0 : err_set(e, -ENODATA, "the program wrote no profile: it exited immediately or was killed");
}

void run_parts_done(struct run_parts *p)
{
    DIR *d;

    stop_receiving(p);
    d = opendir(p->dir);
    for (struct dirent *f; d && (f = readdir(d));) {
        char path[4600];

        snprintf(path, sizeof path, "%s/%s", p->dir, f->d_name);
        if (f->d_name[0] != '.')
            fd_unlink(AT_FDCWD, path);
    }
    if (d)
        closedir(d);
    fd_rmdir(AT_FDCWD, p->dir);
}
