/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of uploaded and fetched binaries: its index, files being received piece by piece, and quotas. See
 * binary_store.h. */
#include "server/binary_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/aside.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sha256.h"

enum { PARTS_MAX = 64, TENANT_PARTS_MAX = 16, INDEX_MAX = 64 << 20, PART_NAME_SIZE = BINARY_NAME_SIZE + 24 };
#define PART_LIFE (10 * 60 * NS_PER_S)

struct part {
    char name[PART_NAME_SIZE]; /* with a number appended once it is complete */
    char tenant[AUTH_TENANT_SIZE];
    uint64_t have, size;
    int64_t touched; /* monotonic */
};

struct binary_store {
    pthread_mutex_t lock; /* protects everything below except dir_fd */
    char *dir;
    int dir_fd;
    uint64_t quota, max_file;
    struct quota share;
    struct binary_info *files _guarded_by_(lock);
    size_t n _guarded_by_(lock), cap _guarded_by_(lock);
    struct part parts[PARTS_MAX] _guarded_by_(lock);
    unsigned n_parts _guarded_by_(lock);
    uint64_t n_whole _guarded_by_(lock); /* number of parts completed, used in their names */
};

bool binary_id_ok(struct str id)
{
    for (uint32_t i = 0; i < id.n; i++) {
        char c = id.p[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || strchr("-_/+=", c)))
            return false;
    }
    return id.n >= 4 && id.n < BINARY_ID_SIZE;
}

static void name_of(const char *tenant, struct str build_id, char ret[BINARY_NAME_SIZE])
{
    uint8_t hash[SHA256_SIZE];
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, tenant, strlen(tenant) + 1);
    sha256_add(&h, build_id.p, build_id.n);
    sha256_final(&h, hash);
    *hex_write(ret, hash, (BINARY_NAME_SIZE - 1) / 2) = 0;
}

/* --- the index --- */

static int parse_line(struct str line, struct binary_info *ret)
{
    struct str name = str_cut(&line, ' '), bytes = str_cut(&line, ' '), time = str_cut(&line, ' ');
    struct str quality = str_cut(&line, ' '), origin = str_cut(&line, ' '), tenant = str_cut(&line, ' ');
    uint64_t q, o;

    *ret = (struct binary_info){0};
    if (name.n != BINARY_NAME_SIZE - 1 || str_to_u64(bytes, 10, &ret->bytes) < 0 ||
        str_to_i64(time, 10, &ret->time_ns) < 0 || str_to_u64(quality, 10, &q) < 0 || q > SYMBOLS_LINES ||
        str_to_u64(origin, 10, &o) < 0 || o > BINARY_FETCHED || !tenant.n || tenant.n >= sizeof ret->tenant ||
        !binary_id_ok(line))
        return -EINVAL;
    memcpy(ret->name, name.p, name.n);
    if (!str_is(tenant, "-"))
        memcpy(ret->tenant, tenant.p, tenant.n);
    memcpy(ret->build_id, line.p, line.n);
    ret->quality = (enum symbol_quality) q;
    ret->origin = (enum binary_origin) o;
    return 0;
}

static int save_index(struct binary_store *s, struct err *e) _locked_(s->lock)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    static const struct fd_owner owner = {0600, (uid_t) -1, (gid_t) -1};

    for (size_t i = 0; i < s->n; i++) {
        const struct binary_info *f = &s->files[i];

        buf_printf(&text, "%s %llu %lld %d %d %s %s\n", f->name, (unsigned long long) f->bytes, (long long) f->time_ns,
                   (int) f->quality, (int) f->origin, f->tenant[0] ? f->tenant : "-", f->build_id);
    }
    return buf_error(&text) ? buf_error(&text) : fd_replace(s->dir_fd, "index", &owner, text.p, text.n, e);
}

_unshared_ static int load_index(struct binary_store *s, struct err *e)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    char path[BINARY_PATH_SIZE];
    struct err why = {0};
    unsigned line = 1;
    struct str rest;
    int r;

    snprintf(path, sizeof path, "%s/index", s->dir);
    r = fd_read_file(path, INDEX_MAX, &text, &why);
    if (r == -ENOENT || r == -ENOMEM)
        return r == -ENOMEM ? r : 0;
    for (rest = buf_str(&text); r == 0 && rest.n; line++) {
        struct binary_info i;
        struct stat st;

        if (parse_line(str_cut(&rest, '\n'), &i) < 0)
            err_set(&why, -EINVAL, "line %u is not one of an index", line);
        else if (fstatat(s->dir_fd, i.name, &st, 0) == 0) /* a file that no longer exists is not listed */
            r = array_push(s->files, s->n, s->cap, BINARY_FILES_MAX, i);
    }
    if (r == -ENOMEM)
        return r;
    if (r < 0 && !why.code)
        err_set(&why, r, "it has more than %d files", BINARY_FILES_MAX);
    if (!why.code)
        return 0;
    r = aside_put(s->dir_fd, "index", NULL, why.message); /* what could be read stays in use */
    return r < 0 ? 0 : save_index(s, e);
}

static ssize_t find(const struct binary_store *s, const char *name) _locked_(s->lock)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->files[i].name, name) == 0)
            return (ssize_t) i;
    return -1;
}

static void forget(struct binary_store *s, size_t i) _locked_(s->lock)
{
    fd_unlink(s->dir_fd, s->files[i].name);
    s->files[i] = s->files[--s->n];
}

/* --- parts --- */

static struct part *part_of(struct binary_store *s, const char *name) _locked_(s->lock)
{
    for (unsigned i = 0; i < s->n_parts; i++)
        if (strcmp(s->parts[i].name, name) == 0)
            return &s->parts[i];
    return NULL;
}

static void drop_part(struct binary_store *s, struct part *p) _locked_(s->lock)
{
    char file[PART_NAME_SIZE + 8];

    snprintf(file, sizeof file, "%s.part", p->name);
    fd_unlink(s->dir_fd, file);
    *p = s->parts[--s->n_parts];
}

/* Renames a complete part, so that later writes for the same build id do not touch it. */
static int set_aside(struct binary_store *s, struct part *p, struct err *e) _locked_(s->lock)
{
    char from[PART_NAME_SIZE + 8], to[PART_NAME_SIZE + 8];
    int r;

    snprintf(from, sizeof from, "%s.part", p->name);
    snprintf(to, sizeof to, "%.*s-%llu.part", BINARY_NAME_SIZE, p->name, (unsigned long long) ++s->n_whole);
    r = fd_rename(s->dir_fd, from, s->dir_fd, to);
    if (r < 0)
        return err_set(e, r, "cannot rename a file in '%s': %s", s->dir, strerror(-r));
    snprintf(p->name, sizeof p->name, "%.*s", (int) (strlen(to) - strlen(".part")), to);
    return 0;
}

/* The part at a path that binary_store_write() returned. */
static struct part *part_at(struct binary_store *s, const char *path) _locked_(s->lock)
{
    const char *slash = strrchr(path, '/');
    char name[PART_NAME_SIZE];

    snprintf(name, sizeof name, "%.*s", (int) strcspn(slash ? slash + 1 : "", "."), slash ? slash + 1 : "");
    return part_of(s, name);
}

static struct part *new_part(struct binary_store *s, const char *name, const char *tenant, uint64_t size)
    _locked_(s->lock)
{
    int64_t now = clock_mono();
    unsigned own = 0; /* this tenant's parts: one tenant must not keep the others from uploading */
    struct part *p;

    for (unsigned i = 0; i < s->n_parts;)
        if (now - s->parts[i].touched > PART_LIFE)
            drop_part(s, &s->parts[i]);
        else
            own += strcmp(s->parts[i++].tenant, tenant) == 0;
    if (s->n_parts == PARTS_MAX || own >= TENANT_PARTS_MAX)
        return NULL;
    p = &s->parts[s->n_parts++];
    *p = (struct part){.size = size};
    snprintf(p->name, sizeof p->name, "%s", name);
    snprintf(p->tenant, sizeof p->tenant, "%s", tenant);
    return p;
}

static uint64_t bytes_of(const struct binary_store *s, const char *tenant) _locked_(s->lock)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->files[i].tenant, tenant) == 0)
            sum += s->files[i].bytes;
    for (unsigned i = 0; i < s->n_parts; i++)
        if (strcmp(s->parts[i].tenant, tenant) == 0)
            sum += s->parts[i].size;
    return sum;
}

static uint64_t all_bytes(const struct binary_store *s) _locked_(s->lock)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < s->n; i++)
        sum += s->files[i].bytes;
    for (unsigned i = 0; i < s->n_parts; i++)
        sum += s->parts[i].size;
    return sum;
}

/* The tenant's oldest file, or -1. */
static ssize_t oldest_of(const struct binary_store *s, const char *tenant) _locked_(s->lock)
{
    ssize_t oldest = -1;

    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->files[i].tenant, tenant) == 0 && (oldest < 0 || s->files[i].time_ns < s->files[oldest].time_ns))
            oldest = (ssize_t) i;
    return oldest;
}

/* The tenant with the most bytes, where one is about to have more. */
static const char *largest(const struct binary_store *s, const char *tenant, uint64_t more) _locked_(s->lock)
{
    uint64_t most = bytes_of(s, tenant) + more;
    const char *ret = tenant;

    for (size_t i = 0; i < s->n; i++) {
        uint64_t bytes = strcmp(s->files[i].tenant, ret) == 0 ? 0 : bytes_of(s, s->files[i].tenant);

        if (bytes > most) {
            most = bytes;
            ret = s->files[i].tenant;
        }
    }
    return ret;
}

static int refuse(const struct binary_store *s, uint64_t limit, struct err *e)
{
    if (limit == s->quota)
        return err_set(e, -EDQUOT, "symbols.quota (%llu MiB) is exhausted: delete files that are no longer needed",
                       (unsigned long long) (s->quota >> 20));
    return err_set(
        e, -EDQUOT,
        "uploaded files may have %llu MiB, half of limits.tenant_size or retention.size: delete files that are no longer needed",
        (unsigned long long) (limit >> 20));
}

/* Makes room for size bytes: fetched files are evicted for new fetched files; uploaded files stay, unless their tenant has more
 * than another that uploads and all together have too much. */
static int make_room(struct binary_store *s, const char *tenant, uint64_t size, struct err *e) _locked_(s->lock)
{
    bool fetched = strcmp(tenant, BINARY_SHARED) == 0;
    uint64_t own = fetched ? s->quota : quota_of(&s->share, tenant, s->quota);
    uint64_t all = s->share.of ? s->share.of(s->share.ctx, NULL) : UINT64_MAX;

    if (size > s->max_file)
        return err_set(e, -EFBIG, "the file has %llu MiB; symbols.max_file allows %llu MiB",
                       (unsigned long long) (size >> 20), (unsigned long long) (s->max_file >> 20));
    while (bytes_of(s, tenant) + size > own) {
        ssize_t oldest = fetched ? oldest_of(s, tenant) : -1;

        if (oldest < 0)
            return refuse(s, own, e);
        forget(s, (size_t) oldest);
    }
    while (all_bytes(s) + size > all) {
        const char *victim = largest(s, tenant, size);
        ssize_t oldest = fetched || strcmp(victim, tenant) != 0 ? oldest_of(s, victim) : -1;

        if (oldest < 0)
            return refuse(s, all, e);
        log_warn(
            "symbols: the file of build id %s of tenant '%s' is deleted: all files together have more than half of retention.size",
            s->files[oldest].build_id, s->files[oldest].tenant);
        forget(s, (size_t) oldest);
    }
    return 0;
}

static int append(struct binary_store *s, struct part *p, struct str piece, struct err *e)
{
    char file[PART_NAME_SIZE + 8];
    int fd, r;

    snprintf(file, sizeof file, "%s.part", p->name);
    fd = fd_open(s->dir_fd, file, O_WRONLY | O_CREAT | (p->have ? 0 : O_TRUNC), 0600);
    if (fd < 0)
        return err_set(e, fd, "cannot write to '%s': %s", s->dir, strerror(-fd));
    r = fd_pwrite_all(fd, piece.p, piece.n, (off_t) p->have);
    if (r == 0 && p->have + piece.n == p->size)
        r = fd_sync(fd);
    fd_close(fd);
    if (r < 0)
        return err_set(e, r, "cannot write to '%s': %s", s->dir, strerror(-r));
    p->have += piece.n;
    p->touched = clock_mono();
    return 0;
}

static int write_piece(struct binary_store *s, const struct binary_piece *piece, const char *name, uint64_t *ret_have,
                       char *ret_path, struct err *e) _locked_(s->lock)
{
    uint64_t offset = piece->offset, size = piece->size;
    struct part *p = part_of(s, name);
    int r;

    if (p && offset == 0)
        drop_part(s, p); /* the client starts over */
    if (offset == 0) {
        r = make_room(s, piece->tenant, size, e);
        if (r < 0)
            return r;
        p = new_part(s, name, piece->tenant, size);
        if (!p)
            return err_set(e, -EAGAIN, "%d uploads of this tenant are already in progress", TENANT_PARTS_MAX);
    }
    *ret_have = p ? p->have : 0;
    if (!p || offset != p->have || size != p->size || piece->bytes.n > size - offset)
        return err_set(e, -ESTALE, "wrong offset: continue at offset %llu", (unsigned long long) *ret_have);
    r = append(s, p, piece->bytes, e);
    if (r < 0)
        return r;
    *ret_have = p->have;
    if (p->have < p->size)
        return 0;
    r = set_aside(s, p, e);
    snprintf(ret_path, BINARY_PATH_SIZE, "%s/%s.part", s->dir, p->name);
    return r < 0 ? r : 1;
}

int binary_store_write(struct binary_store *s, const struct binary_piece *piece, uint64_t *ret_have,
                       char ret_path[BINARY_PATH_SIZE], struct err *e)
{
    char name[BINARY_NAME_SIZE];
    int r;

    name_of(piece->tenant, piece->build_id, name);
    pthread_mutex_lock(&s->lock);
    r = write_piece(s, piece, name, ret_have, ret_path, e);
    pthread_mutex_unlock(&s->lock);
    return r;
}

static int accept_part(struct binary_store *s, const struct part *p, const struct binary_info *info, struct err *e)
    _locked_(s->lock)
{
    char file[PART_NAME_SIZE + 8];
    ssize_t old = find(s, info->name);
    int r = array_reserve(s->files, s->cap, s->n + 1, BINARY_FILES_MAX);

    if (r < 0)
        return err_set(e, r, "more than %d files", BINARY_FILES_MAX);
    snprintf(file, sizeof file, "%s.part", p->name);
    r = fd_rename(s->dir_fd, file, s->dir_fd, info->name);
    if (r < 0)
        return err_set(e, r, "cannot store the file: %s", strerror(-r));
    if (old >= 0)
        s->files[old] = *info;
    else
        s->files[s->n++] = *info;
    return save_index(s, e);
}

int binary_store_accept(struct binary_store *s, const char *tenant, struct str build_id, const char *path,
                        enum symbol_quality quality, struct err *e)
{
    struct binary_info info = {.quality = quality,
                               .origin = strcmp(tenant, BINARY_SHARED) == 0 ? BINARY_FETCHED : BINARY_UPLOADED,
                               .time_ns = clock_wall()};
    struct part *p;
    int r = -ENOENT;

    name_of(tenant, build_id, info.name);
    snprintf(info.tenant, sizeof info.tenant, "%s", tenant);
    snprintf(info.build_id, sizeof info.build_id, "%.*s", STR_FMT(build_id));
    pthread_mutex_lock(&s->lock);
    p = part_at(s, path);
    if (p) {
        info.bytes = p->size;
        r = accept_part(s, p, &info, e);
        drop_part(s, p);
    }
    pthread_mutex_unlock(&s->lock);
    return r;
}

void binary_store_drop(struct binary_store *s, const char *path)
{
    struct part *p;

    pthread_mutex_lock(&s->lock);
    p = part_at(s, path);
    if (p)
        drop_part(s, p);
    pthread_mutex_unlock(&s->lock);
}

int binary_store_find(struct binary_store *s, const char *tenant, struct str build_id, char ret_path[BINARY_PATH_SIZE],
                      struct binary_info *ret_info)
{
    char name[BINARY_NAME_SIZE];
    ssize_t i;

    name_of(tenant, build_id, name);
    pthread_mutex_lock(&s->lock);
    i = find(s, name);
    if (i >= 0 && ret_info)
        *ret_info = s->files[i];
    pthread_mutex_unlock(&s->lock);
    snprintf(ret_path, BINARY_PATH_SIZE, "%s/%s", s->dir, name);
    return i >= 0 ? 0 : -ENOENT;
}

int binary_store_delete(struct binary_store *s, const char *tenant, struct str build_id, struct err *e)
{
    char name[BINARY_NAME_SIZE];
    ssize_t i;
    int r = -ENOENT;

    name_of(tenant, build_id, name);
    pthread_mutex_lock(&s->lock);
    i = find(s, name);
    if (i >= 0) {
        forget(s, (size_t) i);
        r = save_index(s, e);
    } else {
        err_set(e, r, "no file with build id %.*s was uploaded", STR_FMT(build_id));
    }
    pthread_mutex_unlock(&s->lock);
    return r;
}

int binary_store_list(struct binary_store *s, const char *tenant, struct binary_info **ret, size_t *ret_n)
{
    struct binary_info *v;
    size_t n = 0;

    pthread_mutex_lock(&s->lock);
    v = mem_zalloc_array(s->n + 1, sizeof *v);
    for (size_t i = 0; v && i < s->n; i++)
        if (strcmp(s->files[i].tenant, tenant) == 0 || strcmp(s->files[i].tenant, BINARY_SHARED) == 0)
            v[n++] = s->files[i];
    pthread_mutex_unlock(&s->lock);
    *ret = v;
    *ret_n = n;
    return v ? 0 : -ENOMEM;
}

uint64_t binary_store_bytes(struct binary_store *s)
{
    uint64_t sum;

    pthread_mutex_lock(&s->lock);
    sum = all_bytes(s);
    pthread_mutex_unlock(&s->lock);
    return sum;
}

uint64_t binary_store_tenant_bytes(struct binary_store *s, const char *tenant)
{
    uint64_t sum;

    pthread_mutex_lock(&s->lock);
    sum = bytes_of(s, tenant);
    pthread_mutex_unlock(&s->lock);
    return sum;
}

void binary_store_share(struct binary_store *s, const struct quota *share)
{
    s->share = *share;
}

/* --- life --- */

static bool is_file_name(const char *name)
{
    return strlen(name) == BINARY_NAME_SIZE - 1 && strspn(name, "0123456789abcdef") == BINARY_NAME_SIZE - 1;
}

/* Whether the index lists all files. While there is one that was set aside, the operator may still put it back. */
static bool has_whole_index(DIR *d)
{
    bool whole = false;

    for (struct dirent *f; (f = readdir(d));) {
        if (str_find(str_from(f->d_name), STR(ASIDE_MARK)) >= 0)
            return false;
        whole |= strcmp(f->d_name, "index") == 0;
    }
    return whole;
}

/* Removes what an earlier run left when it was killed: parts, whose full sizes are no longer known, and files that were to be added
 * to the index. */
_unshared_ static void drop_leftovers(struct binary_store *s)
{
    DIR *d = opendir(s->dir);
    bool whole = d && has_whole_index(d);

    if (d)
        rewinddir(d);
    for (struct dirent *f; d && (f = readdir(d));)
        if (str_ends(str_from(f->d_name), STR(".part")) || fd_is_left_over(f->d_name) ||
            (whole && is_file_name(f->d_name) && find(s, f->d_name) < 0))
            fd_unlink(s->dir_fd, f->d_name);
    if (d)
        closedir(d);
}

int binary_store_open(const char *dir, uint64_t quota, uint64_t max_file, struct binary_store **ret, struct err *e)
{
    _cleanup_(binary_store_freep) struct binary_store *s = mem_zalloc(sizeof *s);
    int r;

    if (!s)
        return -ENOMEM;
    pthread_mutex_init(&s->lock, NULL);
    s->dir_fd = -1;
    s->quota = quota;
    s->max_file = max_file;
    s->dir = mem_strdup(dir);
    if (!s->dir)
        return -ENOMEM;
    r = fd_mkdir_all(dir, 0700);
    if (r == 0)
        r = s->dir_fd = fd_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0);
    if (r < 0)
        return err_set(e, r, "cannot use '%s' for symbols: %s", dir, strerror(-r));
    r = load_index(s, e);
    if (r < 0)
        return r;
    drop_leftovers(s);
    *ret = TAKE(s);
    return 0;
}

_unshared_ void binary_store_free(struct binary_store *s)
{
    if (!s)
        return;
    fd_close(s->dir_fd);
    pthread_mutex_destroy(&s->lock);
    mem_free(s->files);
    mem_free(s->dir);
    mem_free(s);
}
