/* SPDX-License-Identifier: Apache-2.0 */
/* Adds backups, lists and removes them; see backups.h. */
#include "serve/backups.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/sealed.h"
#include "serve/backups_hash.h"
#include "serve/backups_place.h"

enum { FORMAT = 1, DEPTH_MAX = 16, PATH_MAX_ = 512, FILES_MAX = 1 << 20, TEXT_MAX = 1 << 28, BACKUPS_MAX = 10000 };
#define SUFFIX ".json"

/* --- the description of a backup --- */

static const struct record_field file_fields[] = {
    {"path", RECORD_STR, offsetof(struct backups_file, path), PATH_MAX_, .flags = RECORD_REQUIRED},
    {"size", RECORD_COUNT, offsetof(struct backups_file, size), 1ull << 50},
    {"sha256", RECORD_STR, offsetof(struct backups_file, sha256), BACKUPS_HEX},
    {0},
};

const struct record_field backups_fields[] = {
    {"format", RECORD_COUNT, offsetof(struct backups_one, format), 1u << 30},
    {"name", RECORD_STR, offsetof(struct backups_one, name), BACKUPS_NAME_SIZE, "of the backup", .column = 1},
    {"time", RECORD_TIME, offsetof(struct backups_one, time_ns), 0, "all that was acknowledged before is in it",
     .column = 2},
    {"newest", RECORD_TIME, offsetof(struct backups_one, newest_ns), 0, "of the profiles", .column = 3},
    {"profiles", RECORD_COUNT, offsetof(struct backups_one, profiles), .column = 4},
    {"samples", RECORD_COUNT, offsetof(struct backups_one, samples), .column = 5},
    {"bytes", RECORD_COUNT, offsetof(struct backups_one, bytes), 0, "of the files", .column = 6},
    {"wick", RECORD_STR, offsetof(struct backups_one, wick), 64, "the version that made it", .column = 7},
    {"host", RECORD_STR, offsetof(struct backups_one, host), 256, .column = 8},
    {"store", RECORD_STR, offsetof(struct backups_one, store), 4096, "its directory"},
    {"files", RECORD_LIST, offsetof(struct backups_one, files), FILES_MAX, .fields = file_fields,
     .size = sizeof(struct backups_file), .flags = RECORD_SPARSE},
    {0},
};

/* "a/b/c" or "a/b/", with nothing in it that is not a plain name. */
static bool is_safe(struct str path)
{
    struct str rest = path;

    if (path.n == 0 || path.p[0] == '/' || path.n > PATH_MAX_)
        return false;
    for (uint32_t i = 0; i < path.n; i++)
        if ((unsigned char) path.p[i] < ' ' || path.p[i] == '\\')
            return false;
    for (unsigned depth = 0; rest.n; depth++) {
        struct str name = str_cut(&rest, '/');

        if (name.n == 0 || name.n > 255 || str_is(name, ".") || str_is(name, "..") || depth >= DEPTH_MAX)
            return false;
    }
    return true;
}

static bool is_file_valid(const struct backups_file *f)
{
    uint8_t hash[BACKUPS_HASH];
    bool dir = str_ends(f->path, STR("/"));

    if (!is_safe(f->path))
        return false;
    return dir ? f->sha256.n == 0 && f->size == 0 : backups_hash_parse(f->sha256, hash) == 0;
}

int backups_parse(struct str text, struct arena *a, struct backups_one *ret, struct err *e)
{
    int r = record_read(text, backups_fields, RECORD_FILE, a, ret, e);

    if (r < 0)
        return r;
    if (ret->format != FORMAT)
        return err_set(e, -EPROTONOSUPPORT,
                       "it has format %llu and was made by wick %.*s; this is wick " WICK_VERSION
                       ", which reads format %d",
                       (unsigned long long) ret->format, STR_FMT(ret->wick), FORMAT);
    for (uint32_t i = 0; i < ret->n_files; i++)
        if (!is_file_valid(&ret->files[i]))
            return err_set(e, -EBADMSG, "files[%u]: invalid path or checksum", i);
    return 0;
}

int backups_make_name(int64_t time_ns, char ret[BACKUPS_NAME_SIZE])
{
    time_t now = (time_t) (time_ns / NS_PER_S);
    uint16_t random;
    struct tm t;
    size_t n;

    if (getrandom(&random, sizeof random, 0) != (ssize_t) sizeof random)
        return -EIO;
    n = strftime(ret, BACKUPS_NAME_SIZE, "%Y%m%dT%H%M%S", gmtime_r(&now, &t));
    snprintf(ret + n, BACKUPS_NAME_SIZE - n, ".%06uZ-%04x", (unsigned) (time_ns % NS_PER_S / 1000), random);
    return 0;
}

/* --- what is in a directory --- */

struct backups_walk {
    struct arena *arena;
    struct backups_file *files;
    uint32_t n, cap;
    struct err *e;
};

static int walk_dir(struct backups_walk *w, int fd, const char *above, int depth);

static int walk_one(struct backups_walk *w, int at, const char *name, const char *path, int depth)
{
    _cleanup_(fd_closep) int fd = fd_open(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    char hex[BACKUPS_HEX + 1] = "";
    struct backups_file f = {0};
    struct stat st;
    int r = fd < 0 ? fd : fd_stat(fd, &st);

    if (r < 0)
        return err_set(w->e, r, "cannot open '%s': %m", path);
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return err_set(w->e, -EINVAL, "'%s' is neither a file nor a directory", path);
    f.path = str_from(arena_printf(w->arena, "%s%s", path, S_ISDIR(st.st_mode) ? "/" : ""));
    if (!is_safe(f.path) || !str_is_utf8(f.path))
        return err_set(w->e, -EINVAL, "the name of '%s' cannot be in a backup", path);
    if (S_ISREG(st.st_mode)) {
        r = backups_hash_file(fd, &f.size, hex);
        f.sha256 = str_from(arena_printf(w->arena, "%s", hex));
        if (r < 0)
            return err_set(w->e, r, "cannot read '%s': %m", path);
    }
    r = array_push(w->files, w->n, w->cap, FILES_MAX, f);
    if (r < 0)
        return err_set(w->e, r, "the store has too many files: %m");
    return S_ISDIR(st.st_mode) ? walk_dir(w, fd, path, depth + 1) : 0;
}

static int walk_dir(struct backups_walk *w, int fd, const char *above, int depth)
{
    int list = depth > DEPTH_MAX ? -ELOOP : fd_open(fd, ".", O_RDONLY | O_DIRECTORY, 0), r = 0;
    DIR *d = list < 0 ? NULL : fdopendir(list);

    if (!d) {
        fd_close(list);
        return err_set(w->e, list < 0 ? list : -ENOMEM, "cannot list '%s': %m", above);
    }
    for (struct dirent *x; r == 0 && (x = readdir(d));) {
        const char *path;

        if (strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0)
            continue;
        path = arena_printf(w->arena, "%s%s%s", above, above[0] ? "/" : "", x->d_name);
        r = path ? walk_one(w, fd, x->d_name, path, depth) : -ENOMEM;
    }
    closedir(d);
    return r;
}

static int file_cmp(const void *a, const void *b)
{
    return str_cmp(((const struct backups_file *) a)->path, ((const struct backups_file *) b)->path);
}

/* --- adding --- */

static int put_file(struct backups_place *p, int dir, const struct backups_file *f, struct err *e)
{
    char path[PATH_MAX_ + 1], name[BACKUPS_HEX + 16];
    _cleanup_(fd_closep) int fd = -1;

    snprintf(path, sizeof path, "%.*s", STR_FMT(f->path));
    snprintf(name, sizeof name, "files/%.*s", STR_FMT(f->sha256));
    fd = fd_open(dir, path, O_RDONLY | O_NOFOLLOW, 0);
    return fd < 0 ? err_set(e, fd, "cannot open '%s': %m", path) : backups_place_put(p, name, fd, f->size, e);
}

/* Writes what the place lacks. */
static int put_files(struct backups_place *p, int dir, const struct backups_one *one, struct backups_counts *n,
                     struct err *e)
{
    _cleanup_(backups_hashes_done) struct backups_hashes have = {0};
    int r = backups_hashes_list(p, &have, e);

    for (uint32_t i = 0; r == 0 && i < one->n_files; i++) {
        const struct backups_file *f = &one->files[i];

        if (f->sha256.n == 0)
            continue;
        n->files++;
        n->bytes += f->size;
        if (backups_hashes_have(&have, f->sha256, f->size))
            continue;
        r = put_file(p, dir, f, e);
        if (r == 0)
            r = backups_hashes_add(&have, f->sha256, f->size);
        n->new_files++;
        n->new_bytes += f->size;
    }
    return r;
}

static int put_description(struct backups_place *p, const struct backups_one *one, struct err *e)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    _cleanup_(fd_closep) int fd = -1;
    char name[BACKUPS_NAME_SIZE + 32];
    int r;

    record_put(&text, backups_fields, one);
    buf_putc(&text, '\n');
    r = buf_error(&text) ? -ENOMEM : sealed_new("backup", &(struct str){text.p, (uint32_t) text.n}, 1, &fd);
    if (r < 0)
        return err_set(e, r, "cannot make the description of the backup: %m");
    snprintf(name, sizeof name, "backups/%.*s" SUFFIX, STR_FMT(one->name));
    return backups_place_put(p, name, fd, text.n, e);
}

int backups_add(struct backups_place *p, const char *dir, struct backups_one *one, struct backups_counts *ret,
                struct err *e)
{
    _cleanup_(fd_closep) int fd = fd_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0);
    char host[256] = "";
    struct backups_counts n = {0};
    struct arena a;
    struct backups_walk w = {.arena = &a, .e = e};
    int r = MIN(fd, 0);

    if (r < 0)
        return err_set(e, r, "cannot open '%s': %m", dir);
    gethostname(host, sizeof host - 1);
    arena_init(&a, 0);
    r = walk_dir(&w, fd, "", 0);
    if (r == 0 && a.failed)
        r = -ENOMEM;
    if (r == 0) {
        qsort(w.files, w.n, sizeof *w.files, file_cmp);
        one->format = FORMAT;
        one->wick = STR(WICK_VERSION);
        one->host = str_from(host);
        one->files = w.files;
        one->n_files = w.n;
        r = put_files(p, fd, one, &n, e);
    }
    one->bytes = n.bytes;
    if (r == 0)
        r = put_description(p, one, e);
    one->host = STR("");
    one->files = NULL;
    one->n_files = 0;
    mem_free(w.files);
    arena_done(&a);
    *ret = n;
    return r;
}

/* --- listing --- */

struct backups_listing {
    struct arena *arena;
    struct backups_found {
        struct str name; /* without SUFFIX */
        uint64_t size;
    } * v;
    uint32_t n, cap;
};

static int add_name(void *ctx, struct str name, uint64_t size)
{
    struct backups_listing *x = ctx;
    struct str stem = str_ends(name, STR(SUFFIX)) ? str_slice(name, 0, name.n - strlen(SUFFIX)) : STR("");

    if (stem.n == 0 || stem.n >= BACKUPS_NAME_SIZE || str_find_char(stem, '/') >= 0)
        return 0;
    stem = arena_str(x->arena, stem);
    return stem.p ? array_push(x->v, x->n, x->cap, BACKUPS_MAX, (struct backups_found){stem, size}) : -ENOMEM;
}

static int found_cmp(const void *a, const void *b)
{
    return str_cmp(((const struct backups_found *) a)->name, ((const struct backups_found *) b)->name);
}

static int read_one(struct backups_place *p, const struct backups_found *f, struct arena *a, struct backups_one *ret,
                    struct err *e)
{
    char name[BACKUPS_NAME_SIZE + 32];
    char *text = f->size > TEXT_MAX ? NULL : arena_alloc(a, (size_t) f->size + 1);
    int r;

    snprintf(name, sizeof name, "backups/%.*s" SUFFIX, STR_FMT(f->name));
    if (!text)
        return err_set(e, f->size > TEXT_MAX ? -EFBIG : -ENOMEM, "'%s' is too large", name);
    r = backups_place_read(p, &(struct backups_part){name, 0, (uint32_t) f->size}, text, e);
    if (r < 0)
        return r;
    *ret = (struct backups_one){0};
    r = backups_parse((struct str){text, (uint32_t) f->size}, a, ret, e);
    ret->name = f->name;
    return r < 0 ? err_prefix(e, r, "%s: ", name) : 0;
}

static int list_names(struct backups_place *p, struct backups_listing *x, struct err *e)
{
    int r = backups_place_list(p, "backups", add_name, x, e);

    if (r == 0 && x->n)
        qsort(x->v, x->n, sizeof *x->v, found_cmp);
    return r;
}

int backups_list(struct backups_place *p, struct arena *a, struct record_list *ret, struct err *e)
{
    struct backups_listing x = {.arena = a};
    struct backups_one *v = NULL;
    int r = list_names(p, &x, e);

    if (r == 0)
        v = arena_zalloc_array(a, MAX(x.n, 1u), sizeof *v);
    if (r == 0 && !v)
        r = -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < x.n; i++)
        r = read_one(p, &x.v[i], a, &v[i], e);
    *ret = (struct record_list){v, x.n};
    mem_free(x.v);
    return r;
}

int backups_find(struct backups_place *p, int64_t at, struct arena *a, struct backups_one *ret, struct err *e)
{
    struct backups_listing x = {.arena = a};
    struct backups_one one, found = {0};
    int r = list_names(p, &x, e);

    for (uint32_t i = x.n; r == 0 && i-- > 0 && !found.name.n;) { /* newest first */
        r = read_one(p, &x.v[i], a, &one, e);
        if (r == 0 && one.time_ns <= at)
            found = one;
    }
    mem_free(x.v);
    if (r == 0 && !found.name.n)
        r = err_set(e, -ENOENT, x.n ? "there is no backup of that time or before" : "there are no backups");
    *ret = found;
    return r;
}

/* --- removing --- */

struct backups_cleaning {
    struct backups_place *place;
    const struct backups_hashes *needed;
    struct arena *arena;
    struct backups_listing unneeded;
};

static int add_unneeded(void *ctx, struct str name, uint64_t size)
{
    struct backups_cleaning *c = ctx;
    uint8_t hash[BACKUPS_HASH];

    if (backups_hash_parse(name, hash) < 0 || backups_hashes_have(c->needed, name, size))
        return 0;
    name = arena_str(c->arena, name);
    return name.p ? array_push(c->unneeded.v, c->unneeded.n, c->unneeded.cap, UINT32_MAX,
                               (struct backups_found){name, size})
                  : -ENOMEM;
}

static int remove_unneeded(struct backups_cleaning *c, struct err *e)
{
    int r = backups_place_list(c->place, "files", add_unneeded, c, e);

    for (uint32_t i = 0; r == 0 && i < c->unneeded.n; i++) {
        char name[BACKUPS_HEX + 16];

        snprintf(name, sizeof name, "files/%.*s", STR_FMT(c->unneeded.v[i].name));
        r = backups_place_remove(c->place, name, e);
    }
    mem_free(c->unneeded.v);
    return r;
}

int backups_keep(struct backups_place *p, uint32_t keep, uint32_t *ret_removed, struct err *e)
{
    _cleanup_(backups_hashes_done) struct backups_hashes needed = {0};
    struct record_list all = {0};
    struct arena a;
    uint32_t gone = 0;
    int r;

    arena_init(&a, 0);
    r = backups_list(p, &a, &all, e);
    for (uint32_t i = 0; r == 0 && i < all.n; i++) {
        const struct backups_one *one = &((const struct backups_one *) all.v)[i];
        char name[BACKUPS_NAME_SIZE + 32];

        snprintf(name, sizeof name, "backups/%.*s" SUFFIX, STR_FMT(one->name));
        if (i + keep < all.n) {
            r = backups_place_remove(p, name, e);
            gone += r == 0;
        }
        for (uint32_t k = 0; r == 0 && i + keep >= all.n && k < one->n_files; k++)
            if (one->files[k].sha256.n)
                r = backups_hashes_add(&needed, one->files[k].sha256, one->files[k].size);
    }
    if (r == 0)
        r = remove_unneeded(&(struct backups_cleaning){.place = p, .needed = &needed, .arena = &a}, e);
    arena_done(&a);
    *ret_removed = gone;
    return r;
}
