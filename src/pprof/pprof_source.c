/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the profile of `wick pprof` (pprof_source.h): reads or fetches all sources, merges them, and saves a copy. */
#include "pprof/pprof_source.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compress.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/url.h"
#include "codec/pprof.h"
#include "local/local_input.h"
#include "model/convert.h"
#include "pprof/pprof_fetch.h"
#include "pprof/pprof_remote.h"
#include "pprof/pprof_symbolize.h"
#include "report/gopath.h"
#include "report/prof_filter.h"

/* Files that a user names may be as large as memory allows; only 32-bit lengths limit them. */
#define SOURCE_MAX ((size_t) 4 << 30)
enum { RELEASE_MIN = 1 << 20 };

void pprof_say(void *unused, const char *text)
{
    size_t n = strlen(text);

    fputs(text, stderr);
    if (!n || text[n - 1] != '\n')
        fputc('\n', stderr);
}

/* A pprof file's strings are its last large part; the bytes before them have been decoded and are never used again.
 * Releasing those pages halves the memory that a large profile needs for its file. */
static void release_input(const struct batch *b)
{
    const char *first = b->input + b->input_size, *end;
    uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE), from, to;

    if (!b->input || b->input_size < RELEASE_MIN)
        return;
    end = first;
    for (size_t i = 0; i < b->dict.n_strings; i++) {
        const char *at = b->dict.strings[i].p;

        if (at >= b->input && at < end && at < first)
            first = at;
    }
    from = ALIGN_UP((uintptr_t) b->input, page);
    to = (uintptr_t) first & ~(page - 1);
    if (to > from)
        madvise((void *) from, to - from, MADV_DONTNEED);
}

/* Error messages are those of pprof where it reads the same formats; OTLP and the others have their own. */
static int decode(struct buf *in, const char *path, struct batch **ret, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    enum input_format format;
    int r;

    if (!in->n)
        return err_set(e, -ENODATA, "parsing profile: empty input file");
    r = local_input_decode(in, path, INPUT_AUTO, &b, &format, e);
    if (r < 0)
        return err_prefix(e, r, "parsing profile: ");
    if (format == INPUT_PPROF)
        release_input(b);
    if (format == INPUT_PPROF || format == INPUT_LEGACY) {
        *ret = TAKE(b);
        return 0;
    }
    return convert_to_single(b, ret, e);
}

struct source {
    const struct pprof_args *a;
    const char *name;
    struct buf bytes, url; /* url: where they were fetched from, or empty */
    struct prof *prof;
    pthread_t thread;
    struct err e;
    int result;
    bool quiet, in_thread;
};

static bool is_file(const char *name)
{
    struct stat st;

    return stat(name, &st) == 0;
}

static void *fetch_thread(void *arg)
{
    struct source *s = arg;

    s->result = pprof_fetch(s->a, s->name, s->quiet, &s->bytes, &s->url, &s->e);
    return NULL;
}

/* All URLs are fetched at once, because a CPU profile takes its whole duration. */
static void start_fetches(struct source *s, size_t n)
{
    size_t urls = 0;

    for (size_t i = 0; i < n; i++)
        urls += !is_file(s[i].name);
    for (size_t i = 0; i < n; i++) {
        s[i].quiet = urls > 1;
        if (urls > 1 && !is_file(s[i].name))
            s[i].in_thread = pthread_create(&s[i].thread, NULL, fetch_thread, &s[i]) == 0;
    }
}

static int get_bytes(struct source *s)
{
    if (s->in_thread)
        pthread_join(s->thread, NULL);
    else if (is_file(s->name))
        s->result = fd_read_file(s->name, SOURCE_MAX - 1, &s->bytes, &s->e);
    else
        fetch_thread(s);
    return s->result;
}

static int load_source(struct prof_pool *pool, struct source *s, const char *binary, struct pprof_origins *origins)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    int r = get_bytes(s);

    if (r >= 0)
        r = decode(&s->bytes, is_file(s->name) ? s->name : NULL, &b, &s->e);
    buf_done(&s->bytes);
    if (r >= 0)
        r = prof_from_batch(pool, b, &b->profiles[0], &s->prof, &s->e);
    if (r >= 0)
        r = prof_check(s->prof, &s->e);
    if (r >= 0)
        r = pprof_locate_binaries(s->prof, str_from(binary), s->a->build_id, &s->e);
    if (r >= 0 && s->url.n)
        r = pprof_origins_add(origins, s->prof, buf_str(&s->url));
    buf_done(&s->url);
    return r;
}

/* Loads all sources of one kind into one profile; those that fail are reported and left out. */
/* Sources of one kind: "source" or "base". */
struct source_list {
    const char *kind, *binary; /* binary: NULL if none is given */
    const char *const *names;
    size_t n;
};

static int load_all(const struct pprof_args *a, struct prof_pool *pool, const struct source_list *l,
                    struct pprof_origins *origins, struct prof **ret, struct err *e)
{
    size_t n = l->n;
    _cleanup_(mem_freep) struct prof **profs = mem_zalloc_array(n, sizeof(*profs));
    _cleanup_(mem_freep) struct source *sources = mem_zalloc_array(n, sizeof(*sources));
    size_t got = 0;
    int r = 0;

    if (!profs || !sources)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        sources[i] = (struct source){.a = a, .name = l->names[i]};
    pprof_fetch_catch(true);
    start_fetches(sources, n);
    for (size_t i = 0; i < n; i++) {
        struct source *s = &sources[i];
        char shown[URL_SHOWN];

        r = load_source(pool, s, l->binary, origins);
        if (r < 0) {
            fprintf(stderr, "%s: %s\n", url_redact(l->names[i], shown, sizeof shown), err_message(&s->e, r));
            prof_free(s->prof);
            continue;
        }
        profs[got++] = s->prof;
    }
    pprof_fetch_catch(false);
    if (!got)
        return err_set(e, -ENOENT, "failed to fetch any %s profiles", l->kind);
    r = prof_combine(profs, got, ret, e);
    for (size_t i = 0; i < got; i++)
        prof_free(profs[i]);
    if (r < 0)
        return err_prefix(e, r, "problem fetching %s profiles: ", l->kind);
    if (got != n)
        fprintf(stderr, "Fetched %zu %s profiles out of %zu\n", got, l->kind, n);
    return 0;
}

static int subtract_base(const struct pprof_args *a, struct prof **p, struct prof **base, struct err *e)
{
    struct prof *both[2];
    int r = a->diff_base ? prof_set_label(*base, STR("pprof::base"), STR("true")) : 0;

    if (r >= 0 && a->config.normalize)
        r = prof_normalize(*p, *base, e);
    if (r < 0)
        return r;
    prof_scale(*base, -1);
    both[0] = TAKE(*p);
    both[1] = TAKE(*base);
    r = prof_combine(both, 2, p, e);
    prof_free(both[0]);
    prof_free(both[1]);
    return r;
}

int pprof_write(const struct prof *p, struct buf *out, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    _cleanup_(buf_done) struct buf plain = BUF_INIT;
    int r = prof_to_batch(p, &b, e);

    if (r >= 0)
        r = pprof_encode(b, &b->profiles[0], &plain, e);
    return r < 0 ? r : compress_deflate(COMPRESS_GZIP, 0, plain.p, plain.n, out, e);
}

int pprof_temp_file(const char *dir, struct str prefix, const char *suffix, struct buf *path, struct err *e)
{
    for (int i = 1; i < 10000; i++) {
        int fd;

        buf_reset(path);
        if (*dir)
            buf_printf(path, "%s/", dir);
        buf_printf(path, "%.*s%03d%s", STR_FMT(prefix), i, suffix);
        if (!buf_cstr(path))
            return -ENOMEM;
        fd = fd_open(AT_FDCWD, path->p, O_RDWR | O_CREAT | O_EXCL, 0666);
        if (fd >= 0)
            return fd;
        if (fd != -EEXIST)
            return err_set(e, fd, "open %s: %m", path->p);
    }
    return err_set(e, -EEXIST, "could not create file of the form %.*s001%s", STR_FMT(prefix), suffix);
}

/* $PPROF_TMPDIR, $HOME/pprof, or the system's directory for temporary files. */
static int save_directory(struct buf *out)
{
    const char *own = getenv("PPROF_TMPDIR"), *home = getenv("HOME"), *tmp = getenv("TMPDIR");

    for (int i = 0; i < 3; i++) {
        int r;

        buf_reset(out);
        if (i == 0 && own && *own)
            buf_puts(out, own);
        else if (i == 1 && home && *home)
            buf_printf(out, "%s/pprof", home);
        else if (i == 2)
            buf_puts(out, tmp && *tmp ? tmp : "/tmp");
        if (!out->n)
            continue;
        if (!buf_cstr(out))
            return -ENOMEM;
        r = fd_mkdir_all(out->p, 0755);
        if (r >= 0)
            return 0;
        fprintf(stderr, "Could not use temp dir %s: %s\n", out->p, strerror(-r));
    }
    return -ENOENT;
}

static int save_file(const struct prof *p, const char *dir, struct buf *path, struct err *e)
{
    _cleanup_(buf_done) struct buf prefix = BUF_INIT, bytes = BUF_INIT;
    int fd, r;

    buf_puts(&prefix, "pprof.");
    if (p->n_mappings > 1 && p->mappings[1].file)
        buf_printf(&prefix, "%.*s.", STR_FMT(gopath_base(prof_str(p, p->mappings[1].file))));
    for (uint32_t i = 0; i < p->n_types; i++)
        buf_printf(&prefix, "%.*s.", STR_FMT(prof_str(p, p->types[i].type)));
    r = pprof_write(p, &bytes, e);
    if (r < 0)
        return r;
    fd = pprof_temp_file(dir, buf_str(&prefix), ".pb.gz", path, e);
    if (fd < 0)
        return fd;
    r = fd_write_all(fd, bytes.p, bytes.n);
    fd_close(fd);
    return r < 0 ? err_set(e, r, "write %s: %m", path->p) : 0;
}

static int save(const struct prof *p, struct err *e)
{
    _cleanup_(buf_done) struct buf dir = BUF_INIT, path = BUF_INIT;
    struct err problem = {0};
    int r;

    if (save_directory(&dir) < 0)
        return err_set(e, -ENOENT, "failed to identify temp dir");
    r = save_file(p, dir.p, &path, &problem);
    if (r < 0)
        fprintf(stderr, "Could not save profile: %s\n", err_message(&problem, r));
    else
        fprintf(stderr, "Saved profile in %s\n", path.p);
    return 0;
}

int pprof_load(const struct pprof_args *a, struct prof_pool *pool, struct prof **ret, struct err *e)
{
    _cleanup_(prof_freep) struct prof *p = NULL;
    _cleanup_(prof_freep) struct prof *base = NULL;
    const char *binary = a->n_sources > 1 && pprof_is_binary(a->sources[0]) ? a->sources[0] : NULL;
    _cleanup_(pprof_origins_done) struct pprof_origins origins = {0};
    struct source_list sources = {"source", binary, (const char *const *) a->sources + !!binary,
                                  (size_t) a->n_sources - !!binary};
    struct source_list bases = {"base", binary, a->bases, a->n_bases};
    int r = load_all(a, pool, &sources, &origins, &p, e);

    if (r >= 0 && a->n_bases)
        r = load_all(a, pool, &bases, &origins, &base, e);
    if (r >= 0 && base)
        r = subtract_base(a, &p, &base, e);
    if (r >= 0)
        r = pprof_symbolize(p, a, &origins, e);
    if (r >= 0 && !a->all_frames)
        r = filter_uninteresting(p);
    if (r >= 0)
        pprof_origins_forget(p);
    if (r >= 0 && a->comment.n)
        r = prof_add_comment(p, strtab_copy(&pool->strings, a->comment));
    if (r >= 0 && origins.n)
        r = save(p, e);
    if (r < 0)
        return r;
    *ret = TAKE(p);
    return 0;
}
