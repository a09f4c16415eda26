/* SPDX-License-Identifier: Apache-2.0 */
/* wick store check|stats|delete|export|import|copy|migrate: works on a store, without a server; store_copies.c has the others. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/dir_tree.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/record.h"
#include "cli/command.h"
#include "cli/store_verbs.h"
#include "client/ask.h"
#include "conf/args.h"
#include "conf/paths.h"
#include "local/local_input.h"
#include "model/batch.h"
#include "net/http.h"
#include "query/query_delete.h"
#include "serve/store_backup.h"
#include "span/span_index.h"
#include "store/store.h"
#include "store/store_copy.h"
#include "store/store_export.h"
#include "store/store_place.h"

static const struct arg store_args[] = {
    {0, "store", ARG_STRING, offsetof(struct store_options, store), "DIR",
     "the store's directory (default: store in the data directory), or clickhouse://USER@HOST:PORT/DATABASE"},
    {0, "tenant", ARG_STRING, offsetof(struct store_options, tenant), "NAME", "tenant (default: the default tenant)"},
    {0, "from", ARG_TIME, offsetof(struct store_options, from), "TIME",
     "delete, export, copy: start of the time range"},
    {0, "to", ARG_TIME, offsetof(struct store_options, to), "TIME",
     "delete, export, copy: end of the time range (default: now)"},
    {'o', "output", ARG_STRING, offsetof(struct store_options, output), "FILE",
     "export: output file (default: standard output)"},
    {0, "format", ARG_STRING, offsetof(struct store_options, format), "otlp|json|pprof",
     "export: format; otlp (default): length-prefixed requests"},
    {0, "rebuild", ARG_FLAG, offsetof(struct store_options, rebuild), NULL,
     "check: rebuild the catalogue from the segments"},
    {0, "state", ARG_STRING, offsetof(struct store_options, state), "FILE",
     "copy: records how far it is, to continue after an interruption (default: copy.state in the data directory)"},
    {0, "keep", ARG_INT, offsetof(struct store_options, keep), "N",
     "backup: keep the newest N backups, remove the others"},
    {0, "at", ARG_TIME, offsetof(struct store_options, at), "TIME",
     "restore: the newest backup of that time or before (default: the newest)"},
    {0, "server", ARG_STRING, offsetof(struct store_options, server), "URL",
     "snapshot, backup: the server that has the store open (default: $WICK_SERVER, then http://localhost:4040); its admin token "
     "is in $WICK_TOKEN"},
    {0, "dry-run", ARG_FLAG, offsetof(struct store_options, dry_run), NULL, "migrate: only print the statements"},
    {0, "json", ARG_FLAG, offsetof(struct store_options, json), NULL, "stats, backups: print JSON"},
    {'h', "help", ARG_FLAG, offsetof(struct store_options, help), NULL, "show this help"},
    {0},
};

static void store_help(void)
{
    args_text(
        "usage: wick store check [DIR] [--rebuild] read everything, verify every checksum\n"
        "       wick store stats [DIR] [--json]    print contents and size\n"
        "       wick store snapshot DIR            make a consistent copy, itself a store, with spans and\n"
        "                                          symbol files, also while a server runs\n"
        "       wick store backup PLACE [--keep N] add a backup to a directory or to s3://BUCKET/PREFIX; only what\n"
        "                                          is not there yet is written; also while a server runs\n"
        "       wick store backups PLACE [--json]  list backups\n"
        "       wick store restore PLACE DIR [--at TIME]\n"
        "                                          make a store of a backup, and verify every file\n"
        "       wick store delete SELECTOR --from TIME [--to TIME]\n"
        "       wick store confirm clock           accept the system clock after a jump, so that retention uses it\n"
        "       wick store confirm damage          acknowledge recorded damage and clear it\n"
        "       wick store export [SELECTOR] [--from TIME] [--to TIME] [-o FILE]\n"
        "                         [--format otlp|json|pprof]\n"
        "       wick store import FILE...          import profiles in any format, of any age\n"
        "       wick store copy FROM TO            copy a tenant's profiles (not its spans) to another store, hour by hour\n"
        "       wick store migrate [--dry-run]     create or update the tables of a store in ClickHouse\n\n"
        "Only one process can open a store: stop the server first, or query it (wick query, API). A snapshot or backup needs no "
        "stop: the server makes it.\n\n",
        stdout);
    args_help(store_args, stdout);
}

static int parse_range(const struct store_options *o, int64_t *from, int64_t *to, struct err *e)
{
    int64_t now = clock_wall();
    int r = 0;

    *from = 0;
    *to = INT64_MAX;
    if (o->from)
        r = clock_parse(str_from(o->from), now, from, e);
    if (r == 0 && o->to)
        r = clock_parse(str_from(o->to), now, to, e);
    if (r == 0 && *from >= *to)
        r = err_set(e, -EINVAL, "--from must be before --to");
    return r;
}

/* --- check --- */

static void report_line(void *ctx, bool problem, const char *line)
{
    int *problems = ctx;

    *problems += problem;
    printf("%s%s\n", problem ? "DAMAGED " : "", line);
}

static int rebuild(const struct store_options *o, struct err *e)
{
    char dir[PATH_SIZE];
    int r = store_verb_dir(o, dir, e);

    if (r == 0)
        r = store_verb_check(dir, e);
    return r < 0 ? r : store_place_rebuild(dir, e);
}

static int run_check(const void *options, int argc, char **argv, struct err *e)
{
    const struct store_options *o = options;
    _cleanup_(store_closep) struct store *s = NULL;
    _cleanup_(span_index_closep) struct span_index *spans = NULL;
    struct store_stats st;
    int problems = 0, r = 0;

    if (o->rebuild) {
        r = store_verb_open(o, STORE_READ, &s, NULL); /* no other process uses it: we hold the lock */
        store_close(s);
        s = NULL;
        if (r == -EBUSY)
            return err_set(e, r, "the store is in use by another process");
        r = rebuild(o, e);
    }
    if (r == 0)
        r = store_verb_open(o, o->rebuild ? STORE_WRITE : STORE_READ, &s, e);
    if (r < 0)
        return r;
    s->ops->stats(s, &st);
    if (st.newer)
        printf("%llu segments were written by a later version of wick and were not read\n",
               (unsigned long long) st.newer);
    if (st.torn)
        report_line(&problems, false,
                    "the end of a log is incomplete and was ignored: it was never acknowledged, or is damaged");
    r = store_check(s, report_line, &problems, e);
    if (r == 0)
        r = store_verb_spans(o, true, &spans, e);
    if (r == 0 && spans)
        r = span_index_check(spans, report_line, &problems, e);
    if (r < 0)
        return r;
    printf("%d problem%s found\n", problems, problems == 1 ? "" : "s");
    if (st.damaged)
        printf("recorded damage is shown until 'wick store confirm damage' acknowledges it\n");
    return problems ? 1 : 0;
}

/* --- stats --- */

struct stats_out {
    struct buf *out;
    bool json, first;
};

static void put_number(struct stats_out *x, const char *name, uint64_t v)
{
    if (!x->json) {
        buf_printf(x->out, "%-14s %llu\n", name, (unsigned long long) v);
        return;
    }
    json_put_key_u64(x->out, &x->first, name, v);
}

static void put_time(struct stats_out *x, const char *name, int64_t ns)
{
    _cleanup_(buf_done) struct buf when = BUF_INIT;

    clock_format(&when, ns);
    if (!x->json) {
        buf_printf(x->out, "%-14s %.*s\n", name, STR_FMT(buf_str(&when)));
        return;
    }
    json_put_key_str(x->out, &x->first, name, buf_str(&when));
}

static void put_stats(struct stats_out *x, const struct store_stats *st)
{
    put_number(x, "segments", st->segments);
    put_number(x, "profiles", st->stored_profiles);
    put_number(x, "samples", st->stored_samples);
    put_number(x, "series", st->series);
    put_number(x, "services", st->services);
    put_number(x, "stack_nodes", st->stacks);
    put_number(x, "locations", st->locations);
    put_number(x, "segment_bytes", st->segment_bytes);
    if (st->cold_segments) {
        put_number(x, "cold_segments", st->cold_segments);
        put_number(x, "cold_bytes", st->cold_bytes);
    }
    put_number(x, "symbol_bytes", st->symbol_bytes);
    put_number(x, "log_bytes", st->log_bytes);
    put_number(x, "catalog_bytes", st->catalog_bytes);
    put_number(x, "disk_bytes", st->disk_bytes);
    put_number(x, "deletions", st->deletions);
    put_number(x, "torn_logs", st->torn);
    put_number(x, "damaged", st->damaged);
    for (size_t i = 0; i < ARRAY_SIZE(st->parts) && st->parts[i].name; i++) {
        char name[40];

        snprintf(name, sizeof name, "%s%s_bytes", x->json ? "" : "  ", st->parts[i].name);
        put_number(x, name, st->parts[i].bytes);
    }
    if (st->newest_ns) {
        put_time(x, "oldest", st->oldest_ns);
        put_time(x, "newest", st->newest_ns);
    }
}

static int run_stats(const void *options, int argc, char **argv, struct err *e)
{
    const struct store_options *o = options;
    _cleanup_(store_closep) struct store *s = NULL;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct stats_out x = {&out, o->json, true};
    struct store_stats st;
    int r = store_verb_open(o, STORE_READ, &s, e);

    if (r < 0)
        return r;
    s->ops->stats(s, &st);
    if (o->json)
        buf_putc(&out, '{');
    put_stats(&x, &st);
    if (o->json)
        buf_puts(&out, "}\n");
    else if (st.stored_samples)
        buf_printf(&out, "%-14s %.2f\n", "bytes/sample", (double) st.disk_bytes / (double) st.stored_samples);
    return fd_write_file("-", out.p, out.n, e);
}

/* --- delete --- */

static int run_delete(const void *options, int argc, char **argv, struct err *e)
{
    const struct store_options *o = options;
    _cleanup_(store_closep) struct store *s = NULL;
    _cleanup_(span_index_closep) struct span_index *spans = NULL;
    struct selector sel = {0};
    struct store_column c = {.selector = &sel};
    struct arena a;
    int r;

    arena_init(&a, 0);
    r = selector_parse(str_from(argv[0]), &a, &sel, e);
    if (r == 0)
        r = parse_range(o, &c.from, &c.to, e);
    if (r == 0)
        r = store_verb_open(o, STORE_WRITE, &s, e);
    if (r == 0)
        r = store_verb_spans(o, false, &spans, e);
    if (r == 0)
        r = query_delete(s, spans, o->tenant ? o->tenant : "", &c, e);
    if (r == 0) /* otherwise it would not be compacted until a server opens it again */
        r = s->ops->retain(s, false, e);
    selector_done(&sel);
    arena_done(&a);
    return r;
}

static int run_confirm(const void *options, int argc, char **argv, struct err *e)
{
    _cleanup_(store_closep) struct store *s = NULL;
    enum store_confirm what;
    int r = store_confirm_parse(str_from(argv[0]), &what, e);

    if (r == 0)
        r = store_verb_open(options, STORE_WRITE, &s, e);
    return r < 0 ? r : s->ops->confirm(s, what, e);
}

/* --- export --- */

static int run_export(const void *options, int argc, char **argv, struct err *e)
{
    const struct store_options *o = options;
    _cleanup_(store_closep) struct store *s = NULL;
    struct selector sel = {0};
    struct store_query q = {.tenant = o->tenant ? o->tenant : "", .n_columns = 1};
    struct store_export how = {.output = o->output, .form = OTLP_FILE_FRAMED};
    uint64_t profiles = 0;
    struct arena a;
    int r;

    if (o->format)
        store_export_parse(o->format, &how.form);
    arena_init(&a, 0);
    q.columns[0].selector = &sel;
    r = selector_parse(argc ? str_from(argv[0]) : STR(""), &a, &sel, e);
    if (r == 0)
        r = parse_range(o, &q.columns[0].from, &q.columns[0].to, e);
    if (r == 0)
        r = store_verb_open(o, STORE_READ, &s, e);
    if (r == 0)
        r = store_export_run(s, &q, &how, &profiles, e);
    if (r == 0)
        fprintf(stderr, "wick: exported %llu profiles\n", (unsigned long long) profiles);
    selector_done(&sel);
    arena_done(&a);
    return r;
}

static int run_import(const void *options, int argc, char **argv, struct err *e)
{
    const struct store_options *o = options;
    _cleanup_(store_closep) struct store *s = NULL;
    struct sink_context ctx = {.tenant = o->tenant ? o->tenant : "", .received_ns = clock_wall()};
    uint64_t profiles = 0;
    int r = store_verb_open(o, STORE_MAKE, &s, e);

    for (int i = 0; r == 0 && i < argc; i++) {
        _cleanup_(batch_unrefp) struct batch *b = NULL;
        struct ack_result result = {0};

        r = local_input_open(argv[i], INPUT_AUTO, &b, e);
        if (r < 0)
            break;
        r = store_append_wait(s, b, &ctx, &result);
        if (r < 0)
            err_set(e, r, "%s: %s", argv[i], result.message);
        profiles += b->n_profiles - MIN(result.rejected, b->n_profiles);
    }
    if (r == 0)
        fprintf(stderr, "wick: imported %llu profiles from %d file%s\n", (unsigned long long) profiles, argc,
                argc == 1 ? "" : "s");
    return r;
}

/* --- copy, migrate --- */

/* Without --from and --to: the times of the profiles that the store has. */
static int copy_range(const struct store_options *o, struct store *s, struct store_copy *c, struct err *e)
{
    struct store_stats st;
    int r = parse_range(o, &c->begin, &c->end, e);

    if (r < 0 || (o->from && o->to))
        return r;
    r = s->ops->stats(s, &st);
    if (r == 0 && !st.newest_ns)
        return err_set(e, -ENODATA, "the store has no profiles");
    if (r == 0 && !o->from)
        c->begin = st.oldest_ns;
    if (r == 0 && !o->to)
        c->end = st.newest_ns + 1;
    return r;
}

static void print_progress(const char *line)
{
    fprintf(stderr, "wick: %s\n", line);
}

static int run_copy(const void *options, int argc, char **argv, struct err *e)
{
    const struct store_options *o = options;
    struct store_options from = *o, to = *o;
    _cleanup_(store_closep) struct store *source = NULL, *target = NULL;
    struct store_copy c = {.tenant = o->tenant ? o->tenant : "", .state = o->state, .report = print_progress};
    char dir[PATH_SIZE], state[PATH_SIZE + 16];
    int r = 0;

    from.store = argv[0];
    to.store = argv[1];
    if (!o->state) {
        r = path_data_dir(dir, e);
        if (r == 0)
            r = fd_mkdir_all(dir, 0755);
        snprintf(state, sizeof state, "%s/copy.state", dir);
        c.state = state;
    }
    if (r == 0)
        r = store_verb_open(&from, STORE_READ, &source, e);
    if (r == 0)
        r = store_verb_open(&to, STORE_MAKE, &target, e);
    if (r == 0)
        r = copy_range(o, source, &c, e);
    c.from = source;
    c.to = target;
    return r < 0 ? r : store_copy_run(&c, e);
}

static void print_statement(void *ctx, const char *sql)
{
    (void) ctx;
    printf("%s;\n", sql);
}

static int run_migrate(const void *options, int argc, char **argv, struct err *e)
{
    const struct store_options *o = options;
    const struct store_ops *engine = o->store ? store_engine_of(str_from(o->store)) : NULL;
    struct store_config c = {.dir = o->store};

    if (!engine || !engine->migrate)
        return err_set(e, -ENOTSUP,
                       "migrate needs --store clickhouse://...; a store on disk is migrated when it is opened");
    return engine->migrate(&c, o->dry_run, print_statement, NULL, e);
}

static int store_run(int argc, char **argv)
{
    static const struct command_verb verbs[] = {
        {"check", "at most one directory", 0, 1, run_check},
        {"stats", "at most one directory", 0, 1, run_stats},
        {"snapshot", "one directory", 1, 1, store_run_snapshot},
        {"backup", "one directory or location", 1, 1, store_run_backup},
        {"backups", "one directory or location", 1, 1, store_run_backups},
        {"restore", "a directory or location with backups, and a directory", 2, 2, store_run_restore},
        {"delete", "one selector ('{}' for all)", 1, 1, run_delete},
        {"confirm", "'clock' or 'damage'", 1, 1, run_confirm},
        {"export", "at most one selector", 0, 1, run_export},
        {"import", "files", 1, INT_MAX, run_import},
        {"copy", "two stores", 2, 2, run_copy},
        {"migrate", "no arguments", 0, 0, run_migrate},
        {0},
    };
    struct store_options o = {.keep = INT64_MIN};
    struct err e = {0};
    char dir[PATH_SIZE];
    int status, n, r = args_parse(store_args, &o, argc - 1, argv + 1, &n, &e);

    if (r < 0)
        return command_misused("store", "%s", e.message);
    if (o.help) {
        store_help();
        return EXIT_DONE;
    }
    if (n > 0 && strcmp(argv[1], "delete") == 0 && !o.from)
        return command_misused("store", "delete requires a selector and --from (to delete everything: '{}' --from 0)");
    if (o.keep != INT64_MIN && (o.keep < 1 || o.keep > UINT32_MAX))
        return command_misused("store", "--keep: a number of backups, at least 1");
    if (n == 2 && (strcmp(argv[1], "check") == 0 || strcmp(argv[1], "stats") == 0)) {
        if (o.store)
            return command_misused("store", "%s: '%s' and --store exclude each other", argv[1], argv[2]);
        o.store = argv[2];
    }
    status = command_verb("store", verbs, &o, n, argv + 1);
    r = store_verb_dir(&o, dir, &e);
    if (r == 0 && (!store_engine_of(str_from(dir)) || !store_engine_of(str_from(dir))->in_dir))
        return status;
    if (r == 0)
        r = store_verb_give(dir, dir, &e);
    return r < 0 && status == EXIT_DONE ? command_end("store", r, &e) : status;
}

const struct command command_store = {"store", "check, copy, export, import and delete from a store", store_run};
