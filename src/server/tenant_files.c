/* SPDX-License-Identifier: Apache-2.0 */
/* Small files of tenants, in a directory or in memory, see tenant_files.h. One lock covers everything: the files are few,
 * small and rarely written. */
#include "server/tenant_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/aside.h"
#include "base/bytes.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/sha256.h"

enum { FOLDER_SIZE = 33, FILE_MAX = 64 << 20 };

struct kept_file { /* in memory */
    struct kept_file *next;
    char folder[FOLDER_SIZE];
    char name[TENANT_FILE_NAME_MAX + 1];
    struct buf content;
};

struct tenant_files {
    pthread_mutex_t lock;
    int dir; /* -1: in memory */
    uint64_t quota;
    struct quota share;
    struct kept_file *kept _guarded_by_(lock);
};

bool tenant_file_name_ok(struct str name)
{
    for (uint32_t i = 0; i < name.n; i++) {
        char c = name.p[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' ||
              c == '-'))
            return false;
    }
    return name.n >= 1 && name.n <= TENANT_FILE_NAME_MAX && name.p[0] != '.';
}

static void folder_of(const char *tenant, char ret[FOLDER_SIZE])
{
    uint8_t hash[SHA256_SIZE];
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, tenant, strlen(tenant));
    sha256_final(&h, hash);
    *hex_write(ret, hash, (FOLDER_SIZE - 1) / 2) = 0;
}

int tenant_files_open(const char *dir, uint64_t quota, struct tenant_files **ret, struct err *e)
{
    struct tenant_files *f = mem_zalloc(sizeof *f);
    int r = 0;

    if (!f)
        return -ENOMEM;
    *f = (struct tenant_files){.lock = PTHREAD_MUTEX_INITIALIZER, .dir = -1, .quota = quota};
    if (dir) {
        r = fd_mkdir_all(dir, 0700);
        f->dir = r < 0 ? r : fd_open(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
        r = MIN(f->dir, 0);
    }
    if (r < 0) {
        mem_free(f);
        return err_set(e, r, "cannot open directory '%s': %m", dir);
    }
    *ret = f;
    return 0;
}

void tenant_files_share(struct tenant_files *f, const struct quota *share)
{
    f->share = *share;
}

_unshared_ void tenant_files_free(struct tenant_files *f)
{
    if (!f)
        return;
    for (struct kept_file *k = f->kept, *next; k; k = next) {
        next = k->next;
        buf_done(&k->content);
        mem_free(k);
    }
    fd_close(f->dir);
    mem_free(f);
}

/* --- in memory --- */

static struct kept_file **find_kept(struct tenant_files *f, const char *folder, struct str name)
{
    struct kept_file **at = &f->kept;

    while (*at && !(strcmp((*at)->folder, folder) == 0 && str_is(name, (*at)->name)))
        at = &(*at)->next;
    return at;
}

static int keep(struct tenant_files *f, const char *folder, struct str name, struct str content)
{
    struct kept_file **at = find_kept(f, folder, name), *k = *at;
    struct buf copy = BUF_INIT;

    buf_put_str(&copy, content);
    if (buf_error(&copy))
        return buf_error(&copy);
    if (!k) {
        k = mem_zalloc(sizeof *k);
        if (!k) {
            buf_done(&copy);
            return -ENOMEM;
        }
        snprintf(k->folder, sizeof k->folder, "%s", folder);
        snprintf(k->name, sizeof k->name, "%.*s", STR_FMT(name));
        *at = k;
    }
    buf_done(&k->content);
    k->content = copy;
    return 0;
}

static int each_kept(const struct tenant_files *f, const char *folder,
                     int (*fn)(void *arg, struct str name, uint64_t bytes), void *arg) _locked_(f->lock)
{
    int r = 0;

    for (const struct kept_file *k = f->kept; r >= 0 && k; k = k->next)
        if (strcmp(k->folder, folder) == 0)
            r = fn(arg, str_from(k->name), k->content.n);
    return MIN(r, 0);
}

/* --- on disk --- */

/* The tenant's folder; -ENOENT if there is none and it is not to be created. */
static int open_folder(const struct tenant_files *f, const char *folder, bool create)
{
    int r = create ? fd_mkdir(f->dir, folder, 0700) : 0;

    return r < 0 ? r : fd_open(f->dir, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
}

static int each_on_disk(const struct tenant_files *f, const char *folder,
                        int (*fn)(void *arg, struct str name, uint64_t bytes), void *arg) _locked_(f->lock)
{
    int fd = open_folder(f, folder, false), r = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (!d) {
        if (fd < 0)
            return fd == -ENOENT ? 0 : fd;
        r = -errno;
        fd_close(fd);
        return r;
    }
    for (struct dirent *entry; r >= 0 && (entry = readdir(d));) {
        struct stat st;

        if (fd_is_left_over(entry->d_name)) /* all that write hold the lock */
            fd_unlink(dirfd(d), entry->d_name);
        else if (tenant_file_name_ok(str_from(entry->d_name)) &&
                 fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            r = fn(arg, str_from(entry->d_name), (uint64_t) st.st_size);
    }
    closedir(d);
    return MIN(r, 0);
}

static int read_from_disk(const struct tenant_files *f, const char *folder, const char *name, struct buf *ret)
{
    _cleanup_(fd_closep) int dir = open_folder(f, folder, false);
    _cleanup_(fd_closep) int fd = dir < 0 ? dir : fd_open(dir, name, O_RDONLY | O_NOFOLLOW, 0);

    return fd < 0 ? fd : fd_read_all(fd, FILE_MAX, ret);
}

static int write_to_disk(const struct tenant_files *f, const char *folder, const char *name, struct str content,
                         struct err *e)
{
    static const struct fd_owner owner = {0600, (uid_t) -1, (gid_t) -1};
    _cleanup_(fd_closep) int dir = open_folder(f, folder, true);

    return dir < 0 ? dir : fd_replace(dir, name, &owner, content.p, content.n, e);
}

/* --- both --- */

static int each(const struct tenant_files *f, const char *folder, int (*fn)(void *arg, struct str name, uint64_t bytes),
                void *arg) _locked_(f->lock)
{
    return f->dir < 0 ? each_kept(f, folder, fn, arg) : each_on_disk(f, folder, fn, arg);
}

struct file_sum {
    struct str except;
    uint64_t bytes, n;
};

static int add_up(void *arg, struct str name, uint64_t bytes)
{
    struct file_sum *s = arg;

    if (!str_eq(name, s->except) && str_find(name, STR(ASIDE_MARK)) < 0) {
        s->bytes += bytes;
        s->n++;
    }
    return 0;
}

static int put_locked(struct tenant_files *f, const char *folder, uint64_t quota, struct str name, struct str content,
                      struct err *e) _locked_(f->lock)
{
    struct file_sum sum = {.except = name};
    char text[TENANT_FILE_NAME_MAX + 1];
    int r = each(f, folder, add_up, &sum);

    if (r < 0)
        return r;
    if (sum.n >= TENANT_FILES_MAX || content.n > FILE_MAX || sum.bytes + content.n > quota)
        return err_set(e, -EDQUOT, "the limit of %d files and %llu MiB per tenant is reached", TENANT_FILES_MAX,
                       (unsigned long long) (quota >> 20));
    snprintf(text, sizeof text, "%.*s", STR_FMT(name));
    return f->dir < 0 ? keep(f, folder, name, content) : write_to_disk(f, folder, text, content, e);
}

uint64_t tenant_files_bytes(struct tenant_files *f, const char *tenant)
{
    struct file_sum sum = {0};
    char folder[FOLDER_SIZE];

    folder_of(tenant, folder);
    pthread_mutex_lock(&f->lock);
    if (f->dir >= 0)
        each_on_disk(f, folder, add_up, &sum);
    pthread_mutex_unlock(&f->lock);
    return sum.bytes;
}

int tenant_files_put(struct tenant_files *f, const char *tenant, struct str name, struct str content, struct err *e)
{
    uint64_t quota = quota_of(&f->share, tenant, f->quota);
    char folder[FOLDER_SIZE];
    int r;

    if (!tenant_file_name_ok(name))
        return err_set(e, -EINVAL, "'%.*s' is not a valid file name", (int) MIN(name.n, 80u), name.p);
    folder_of(tenant, folder);
    pthread_mutex_lock(&f->lock);
    r = put_locked(f, folder, quota, name, content, e);
    pthread_mutex_unlock(&f->lock);
    if (r < 0 && e && !e->message[0])
        err_set(e, r, "cannot write '%.*s': %m", STR_FMT(name));
    return r;
}

int tenant_files_get(struct tenant_files *f, const char *tenant, struct str name, struct buf *ret, struct err *e)
{
    char folder[FOLDER_SIZE], text[TENANT_FILE_NAME_MAX + 1];
    struct kept_file *k;
    int r = -ENOENT;

    if (!tenant_file_name_ok(name))
        return err_set(e, -ENOENT, "there is no such file");
    folder_of(tenant, folder);
    snprintf(text, sizeof text, "%.*s", STR_FMT(name));
    pthread_mutex_lock(&f->lock);
    if (f->dir >= 0) {
        r = read_from_disk(f, folder, text, ret);
    } else if ((k = *find_kept(f, folder, name))) {
        buf_put_str(ret, buf_str(&k->content));
        r = buf_error(ret);
    }
    pthread_mutex_unlock(&f->lock);
    return r < 0 ? err_set(e, r, "cannot read '%s': %m", text) : 0;
}

struct name_walk {
    int (*fn)(void *arg, struct str name);
    void *arg;
};

static int pass_name(void *arg, struct str name, uint64_t bytes)
{
    struct name_walk *w = arg;

    (void) bytes;
    return w->fn(w->arg, name);
}

int tenant_files_each(struct tenant_files *f, const char *tenant, int (*fn)(void *arg, struct str name), void *arg,
                      struct err *e)
{
    struct name_walk w = {fn, arg};
    char folder[FOLDER_SIZE];
    int r;

    folder_of(tenant, folder);
    pthread_mutex_lock(&f->lock);
    r = each(f, folder, pass_name, &w);
    pthread_mutex_unlock(&f->lock);
    return r < 0 ? err_set(e, r, "cannot list files: %m") : 0;
}

/* --- files that cannot be read --- */

int tenant_files_set_aside(struct tenant_files *f, const char *tenant, struct str name, const char *why)
{
    char folder[FOLDER_SIZE], text[TENANT_FILE_NAME_MAX + 1];
    int dir, r = -ENOENT;

    folder_of(tenant, folder);
    snprintf(text, sizeof text, "%.*s", STR_FMT(name));
    pthread_mutex_lock(&f->lock);
    dir = f->dir < 0 ? -ENOENT : open_folder(f, folder, false);
    if (dir >= 0)
        r = aside_put(dir, text, tenant, why);
    fd_close(dir);
    pthread_mutex_unlock(&f->lock);
    return r;
}

/* Whether trying again is of no use. */
static bool is_broken(int r)
{
    static const int codes[] = {EINVAL, EBADMSG, EFBIG, E2BIG, EISDIR, ELOOP, EACCES, EPERM, EIO};

    for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
        if (r == -codes[i])
            return true;
    return false;
}

int tenant_files_recover(struct tenant_files *f, const char *tenant, struct str name, int r, struct err *e)
{
    return is_broken(r) && tenant_files_set_aside(f, tenant, name, err_message(e, r)) == 0 ? 0 : r;
}

static int load_from(struct tenant_files *f, const char *folder, const char *name, tenant_file_fn fn, void *arg)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    _cleanup_(fd_closep) int dir = -1;
    char own[FOLDER_SIZE] = "";
    const char *tenant;
    struct err e = {0};
    int r = read_from_disk(f, folder, name, &text);

    if (r == -ENOENT || r == -ENOTDIR)
        return 0;
    if (r < 0 && !is_broken(r))
        return r;
    if (r < 0)
        err_set(&e, r, "%m");
    tenant = fn(arg, r, buf_str(&text), &e);
    if (tenant)
        folder_of(tenant, own);
    if (strcmp(own, folder) == 0)
        return 0;
    if (tenant)
        err_set(&e, -EINVAL, "it belongs to the folder of another tenant");
    dir = open_folder(f, folder, false);
    if (dir >= 0)
        aside_put(dir, name, NULL, err_message(&e, r));
    return 0;
}

int tenant_files_load(struct tenant_files *f, struct str name, tenant_file_fn fn, void *arg, struct err *e)
{
    char text[TENANT_FILE_NAME_MAX + 1];
    int fd, r = 0;
    DIR *d;

    if (f->dir < 0)
        return 0;
    snprintf(text, sizeof text, "%.*s", STR_FMT(name));
    fd = fd_open(f->dir, ".", O_RDONLY | O_DIRECTORY, 0);
    d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        r = fd < 0 ? fd : -errno;
        fd_close(fd);
        return err_set(e, r, "cannot list the files of tenants: %m");
    }
    for (struct dirent *entry; r == 0 && (entry = readdir(d));)
        if (strlen(entry->d_name) == FOLDER_SIZE - 1)
            r = load_from(f, entry->d_name, text, fn, arg);
    closedir(d);
    return r;
}
