/* SPDX-License-Identifier: Apache-2.0 */
/* wick store snapshot|backup|backups|restore: copies of a whole store, also of one that a server has open. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/dir_tree.h"
#include "base/fd.h"
#include "cli/command.h"
#include "cli/store_verbs.h"
#include "client/ask.h"
#include "client/record_text.h"
#include "net/http.h"
#include "serve/backups.h"
#include "serve/backups_place.h"
#include "serve/store_backup.h"
#include "span/span_index.h"
#include "store/store.h"
#include "store/store_place.h"

/* --- snapshots --- */

/* What the server has made, {"dir":…}. */
static int made_at(struct str answer, char ret[PATH_SIZE], struct err *e)
{
    static const struct record_field fields[] = {{"dir", RECORD_STR, 0}, {0}};
    struct str dir = {0};
    struct arena arena;

    arena_init(&arena, 0);
    (void) record_read(answer, fields, RECORD_ANSWER, &arena, &dir, NULL);
    snprintf(ret, PATH_SIZE, "%.*s", STR_FMT(dir));
    arena_done(&arena);
    return dir.n && dir.n < PATH_SIZE ? 0 : err_set(e, -EPROTO, "the server does not say where the snapshot is");
}

/* The server that has the store open makes the copy, below the store. */
static int ask_snapshot(const struct store_options *o, char ret[PATH_SIZE], struct err *e)
{
    _cleanup_(buf_done) struct buf path = BUF_INIT, answer = BUF_INIT;
    struct ask_request q = {.method = "POST", .timeout_ns = 24 * 3600 * NS_PER_S};
    char dir[PATH_SIZE], real[PATH_MAX];
    int r = store_verb_dir(o, dir, e);

    if (r < 0)
        return r;
    buf_puts(&path, "/api/v1/snapshot?store=");
    http_percent_encode(&path, str_from(realpath(dir, real) ? real : dir));
    q.path = buf_cstr(&path);
    if (!q.path)
        return -ENOMEM;
    r = ask_send(&(struct ask_target){.server = o->server}, &q, &answer, NULL, e);
    if (r < 0)
        return err_prefix(e, r, "the store in '%s' is in use, and its server makes no snapshot: ", dir);
    return made_at(buf_str(&answer), ret, e);
}

static int make_snapshot(const struct store_options *o, struct store *s, const char *to, struct err *e)
{
    _cleanup_(span_index_closep) struct span_index *spans = NULL;
    char dir[PATH_SIZE];
    int r = store_verb_spans(o, true, &spans, e);

    if (r == 0)
        r = store_verb_dir(o, dir, e);
    return r < 0 ? r : store_backup_make(&(struct store_backup){s, spans, dir, to}, e);
}

int store_run_snapshot(const void *options, int argc, char **argv, struct err *e)
{
    const struct store_options *o = options;
    _cleanup_(store_closep) struct store *s = NULL;
    char made[PATH_SIZE];
    int r = o->server ? -EBUSY : store_verb_open(o, STORE_WRITE, &s, e);

    if (r != -EBUSY)
        return r < 0 ? r : make_snapshot(o, s, argv[0], e);
    r = fd_mkdir_all(argv[0], 0700); /* before the work is done; an empty directory can be replaced */
    if (r < 0)
        return err_set(e, r, "cannot create '%s': %m", argv[0]);
    r = ask_snapshot(o, made, e);
    return r < 0 ? r : dir_move((struct dir_place){AT_FDCWD, made}, (struct dir_place){AT_FDCWD, argv[0]}, e);
}

/* --- backups --- */

/* A snapshot that only lives until it is in the backup: ret is to be removed. Without a server it is unfinished to the next start. */
static int snapshot_below(const struct store_options *o, const char *name, char ret[PATH_SIZE], struct err *e)
{
    _cleanup_(store_closep) struct store *s = NULL;
    char dir[PATH_SIZE], folder[PATH_SIZE + 16];
    int r = o->server ? -EBUSY : store_verb_open(o, STORE_WRITE, &s, e);

    if (r == -EBUSY)
        return ask_snapshot(o, ret, e);
    if (r == 0)
        r = store_verb_dir(o, dir, e);
    if (r == 0 && !s->ops->in_dir)
        r = err_set(e, -ENOTSUP, "'%s' is not in a directory: use the database's own backups", dir);
    if (r < 0)
        return r;
    snprintf(folder, sizeof folder, "%s/" STORE_PLACE_SNAPSHOTS, dir);
    if (snprintf(ret, PATH_SIZE, "%s/%s.part", folder, name) >= PATH_SIZE)
        return err_set(e, -ENAMETOOLONG, "'%s' is too long", dir);
    r = fd_mkdir_all(folder, 0700);
    if (r < 0)
        return err_set(e, r, "cannot create '%s': %m", folder);
    r = make_snapshot(o, s, ret, e);
    if (r < 0)
        dir_remove((struct dir_place){AT_FDCWD, ret});
    return r;
}

/* What the store in a directory has. It was opened for this: what cannot be opened is not a backup. */
static int count(const char *dir, struct backups_one *ret, struct err *e)
{
    _cleanup_(store_closep) struct store *s = NULL;
    struct store_stats st;
    int r = store_verb_open(&(struct store_options){.store = dir}, STORE_READ, &s, e);

    if (r == 0)
        r = s->ops->stats(s, &st);
    if (r < 0)
        return r;
    ret->profiles = st.stored_profiles;
    ret->samples = st.stored_samples;
    ret->newest_ns = st.newest_ns;
    return 0;
}

static int back_up(struct backups_place *p, const struct store_options *o, struct backups_one *one, struct err *e)
{
    char dir[PATH_SIZE], name[BACKUPS_NAME_SIZE], store[PATH_SIZE], real[PATH_MAX];
    struct backups_counts n = {0};
    int r = store_verb_dir(o, store, e);

    one->time_ns = clock_wall();
    if (r == 0)
        r = backups_make_name(one->time_ns, name);
    if (r == 0)
        r = snapshot_below(o, name, dir, e);
    if (r < 0)
        return r;
    one->name = str_from(name);
    one->store = str_from(realpath(store, real) ? real : store);
    r = count(dir, one, e);
    if (r == 0)
        r = backups_add(p, dir, one, &n, e);
    dir_remove((struct dir_place){AT_FDCWD, dir});
    if (r < 0)
        return r;
    fprintf(
        stderr,
        "wick: backup %s: %llu profiles, %llu files of %llu bytes, of which %llu of %llu bytes were not there yet\n",
        name, (unsigned long long) one->profiles, (unsigned long long) n.files, (unsigned long long) n.bytes,
        (unsigned long long) n.new_files, (unsigned long long) n.new_bytes);
    return 0;
}

int store_run_backup(const void *options, int argc, char **argv, struct err *e)
{
    const struct store_options *o = options;
    _cleanup_(backups_place_closep) struct backups_place *p = NULL;
    struct backups_one one = {0};
    uint32_t removed = 0;
    int r = backups_place_open(argv[0], true, &p, e);

    if (r == 0)
        r = back_up(p, o, &one, e);
    if (r == 0 && o->keep > 0)
        r = backups_keep(p, (uint32_t) o->keep, &removed, e);
    if (r == 0 && removed)
        fprintf(stderr, "wick: removed %u earlier backup%s\n", removed, removed == 1 ? "" : "s");
    return r;
}

int store_run_backups(const void *options, int argc, char **argv, struct err *e)
{
    const struct store_options *o = options;
    _cleanup_(backups_place_closep) struct backups_place *p = NULL;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct record_list all = {0};
    struct arena a;
    int r = backups_place_open(argv[0], false, &p, e);

    arena_init(&a, 0);
    if (r == 0)
        r = backups_list(p, &a, &all, e);
    for (uint32_t i = 0; i < all.n; i++)
        ((struct backups_one *) all.v)[i].n_files = 0;
    if (r == 0 && o->json) {
        record_put_list(&out, backups_fields, sizeof(struct backups_one), &all);
        buf_putc(&out, '\n');
    } else if (r == 0) {
        r = record_text(&out, 0, backups_fields, sizeof(struct backups_one), &all, NULL);
    }
    arena_done(&a);
    return r < 0 ? r : command_print(&out);
}

/* The restored store has what the backup says: it is opened, and counted. */
static int check_restored(const struct backups_one *one, const char *dir, struct err *e)
{
    struct backups_one now = {0};
    int r = count(dir, &now, e);

    if (r < 0)
        return err_prefix(e, r, "the restored store cannot be opened: ");
    if (now.profiles != one->profiles || now.samples != one->samples)
        return err_set(e, -EBADMSG, "'%s' has %llu profiles and %llu samples, the backup had %llu and %llu", dir,
                       (unsigned long long) now.profiles, (unsigned long long) now.samples,
                       (unsigned long long) one->profiles, (unsigned long long) one->samples);
    return 0;
}

int store_run_restore(const void *options, int argc, char **argv, struct err *e)
{
    const struct store_options *o = options;
    _cleanup_(backups_place_closep) struct backups_place *p = NULL;
    int64_t at = INT64_MAX;
    struct backups_one one = {0};
    char parent[PATH_SIZE + 8];
    struct arena a;
    int r = o->at ? clock_parse(str_from(o->at), clock_wall(), &at, e) : 0;

    arena_init(&a, 0);
    snprintf(parent, sizeof parent, "%s/..", argv[1]);
    if (r == 0)
        r = backups_place_open(argv[0], false, &p, e);
    if (r == 0)
        r = backups_find(p, at, &a, &one, e);
    if (r == 0)
        r = backups_restore(p, &one, argv[1], e);
    if (r == 0)
        r = check_restored(&one, argv[1], e);
    if (r == 0) /* the directory that it is in belongs to the server's user */
        r = store_verb_give(argv[1], parent, e);
    if (r == 0)
        fprintf(stderr, "wick: restored %.*s: %llu profiles, %u files and directories, all of them checked\n",
                STR_FMT(one.name), (unsigned long long) one.profiles, one.n_files);
    arena_done(&a);
    return r;
}
