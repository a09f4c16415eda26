/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a segment store: epochs of symbols that are replaced, detail that is dropped while sums stay, a disk that
 * fills up, a restart between two cumulative profiles, profiles that are exported as they were sent, names that arrive
 * later; and stores that earlier versions wrote (tests/data/store-vN; WICK_MAKE_STORE=DIR writes one of this version).
 */
#include "model/symbolizer.h"
#include "store_dir.h"

/* --- symbols --- */

static void test_epochs(void)
{
    struct suite s = {.config = {.keep = DAYS(4), .keep_detail = -1}};

    begin(&s);
    APPEND(&s, {.value = 1, .stack = "main old", .time = GEN_T0});
    flush(&s);
    ok(there("1/sym/000001.sym"));
    suite_clock += DAYS(3) + 3600 * NS_PER_S; /* the epoch is older than half of what is kept */
    APPEND(&s, {.value = 2, .stack = "main old", .time = suite_clock});
    flush(&s);
    APPEND(&s, {.value = 4, .stack = "main young", .time = suite_clock + 1});
    flush(&s);
    ok(there("1/sym/000002.sym"));
    eq_int(total(&s, "cpu", ALL), 7);
    reopen(&s);
    eq_int(total(&s, "cpu", ALL), 7);
    suite_clock = GEN_T0 + DAYS(5); /* the first profile is too old, but its epoch has another */
    retain(&s);
    eq_int(total(&s, "cpu", ALL), 6);
    ok(there("1/sym/000001.sym"));
    suite_clock = GEN_T0 + DAYS(7) + 2 * 3600 * NS_PER_S;
    APPEND(&s, {.value = 8, .stack = "main young", .time = suite_clock});
    flush(&s);
    retain(&s);
    ok(!there("1/sym/000001.sym")); /* nothing uses it any more */
    eq_int(total(&s, "cpu", ALL), 8);
    reopen(&s);
    eq_int(total(&s, "cpu", ALL), 8);
    end(&s);
}

/* --- detail --- */

static int64_t total_of_trace(struct suite *s, uint8_t trace)
{
    struct asked k;
    int64_t v;

    ask(&k, "cpu", ALL);
    k.q.has_trace = true;
    k.q.trace_id[0] = trace;
    v = total_of(s, &k.q);
    ask_done(&k);
    return v;
}

static void test_detail_goes(void)
{
    struct suite s = {.config = {.keep = DAYS(30)}};
    _cleanup_(tree_freep) struct tree *t = NULL;
    struct store_notes notes = {0};
    struct store_stats st;
    struct asked k;
    struct err e = {0};

    begin(&s);
    APPEND(&s, {.value = 1, .stack = "main a", .trace = 7, .span = 1, .time = EARLY},
           {.value = 2, .stack = "main b", .thread = "worker", .time = EARLY + NS_PER_S},
           {.value = 4, .stack = "main a", .time = GEN_T0});
    flush(&s);
    ok(total_of_trace(&s, 7) == 1 && total_of_trace(&s, 6) == 0);
    eq_int(profiles(&s), 3);
    suite_clock += DAYS(6);
    retain(&s);
    eq_int(total_of_trace(&s, 7), 1); /* compacted, and complete */
    suite_clock += DAYS(2);
    retain(&s);
    s.store->ops->stats(s.store, &st);
    eq_int(total(&s, "cpu", ALL), 7); /* sums stay */
    eq_int(total(&s, "cpu", GEN_T0 - 1800 * NS_PER_S, INT64_MAX / 2), 4);
    eq_int(total_of_trace(&s, 7), 0);
    eq_int(profiles(&s), 0);
    ask(&k, "cpu", EARLY - 10 * NS_PER_S, EARLY + NS_PER_S / 2); /* cuts through five minutes: the answer reports it */
    k.q.notes = &notes;
    ok(s.store->ops->select(s.store, &k.q, &t, &e) == 0 && notes.coarse);
    ask_done(&k);
    reopen(&s);
    eq_int(total(&s, "cpu", ALL), 7);
    suite_clock += DAYS(25);
    retain(&s);
    eq_int(total(&s, "cpu", ALL), 0);
    end(&s);
}

/* --- copying --- */

/* Windows that lie entirely in one segment are copied into the hour and the day, changing only the numbers of headers,
 * attributes and traces; a window that two segments share is rewritten. */
static void test_copies(void)
{
    struct suite s = {.config = {.keep = DAYS(30)}};
    struct gen g = {.state = 4242, .services = 3, .instances = 3, .stacks = 40, .depth = 10};
    _cleanup_(buf_done) struct buf before = BUF_INIT, hours = BUF_INIT, days = BUF_INIT;
    struct err e = {0};

    begin(&s);
    for (int i = 0; i < 60; i++) {
        int64_t start = GEN_T0 + (i / 5 * 300 + i % 5 * 50 - (i == 40 ? 600 : 0)) * NS_PER_S;
        _cleanup_(batch_unrefp) struct batch *b = gen_batch(&g, start);
        struct ack_result r;

        suite_clock = start + 60 * NS_PER_S;
        store_append_wait(s.store, b, &(struct sink_context){.tenant = "", .received_ns = suite_clock}, &r);
        eq_int(r.status, SINK_OK);
        APPEND(&s,
               {.value = 1, .stack = "main a", .trace = (uint8_t) (201 + i % 7), .span = (uint8_t) i, .time = start});
        if (i % 10 == 9)
            flush(&s);
    }
    dump_answers(&before, s.store, GEN_T0 - 3600 * NS_PER_S, GEN_T0 + 7200 * NS_PER_S);
    suite_clock += 7200 * NS_PER_S;
    ok(s.store->ops->retain(s.store, false, &e) == 0);
    dump_answers(&hours, s.store, GEN_T0 - 3600 * NS_PER_S, GEN_T0 + 7200 * NS_PER_S);
    ok(before.n > 1000 && before.n == hours.n && memcmp(before.p, hours.p, hours.n) == 0);
    for (int t = 0; t < 7; t++)
        eq_int(total_of_trace(&s, (uint8_t) (201 + t)), t < 60 % 7 ? 9 : 8);
    suite_clock += DAYS(2);
    retain(&s);
    reopen(&s);
    dump_answers(&days, s.store, GEN_T0 - 3600 * NS_PER_S, GEN_T0 + 7200 * NS_PER_S);
    ok(before.n == days.n && memcmp(before.p, days.p, days.n) == 0);
    for (int t = 0; t < 7; t++)
        eq_int(total_of_trace(&s, (uint8_t) (201 + t)), t < 60 % 7 ? 9 : 8);
    end(&s);
}

/* --- no memory --- */

/* A request that runs out of memory half-way is refused as a whole: it is not a duplicate when sent again. */
static void test_no_memory(void)
{
    struct suite s = {.config = {.keep = DAYS(30)}};
    struct gen g = {.state = 99, .services = 3, .instances = 3, .stacks = 40, .depth = 10};
    int refused = 0;

    begin(&s);
    for (unsigned long n = 1; n <= 120; n++) {
        _cleanup_(batch_unrefp) struct batch *b = gen_batch(&g, GEN_T0 + (int64_t) n * NS_PER_S);
        struct sink_context ctx = {.tenant = "", .received_ns = GEN_T0};
        struct store_stats before, after;
        struct ack_result r;

        s.store->ops->stats(s.store, &before);
        mem_fail_at(1 + n % 15, false);
        store_append_wait(s.store, b, &ctx, &r);
        mem_fail_at(0, false);
        if (r.status != SINK_OK) {
            refused++;
            store_append_wait(s.store, b, &ctx, &r);
        }
        eq_int(r.status, SINK_OK);
        s.store->ops->stats(s.store, &after);
        eq_int(after.profiles - before.profiles, b->n_profiles);
        eq_int(after.duplicates - before.duplicates, 0);
    }
    ok(refused > 20 && refused < 120);
    end(&s);
}

/* --- a full disk --- */

static struct fd_ops disk;
static uint64_t disk_free = 100;

static int disk_space(int fd, uint64_t *ret_free, uint64_t *ret_total)
{
    (void) fd;
    *ret_free = disk_free << 30;
    *ret_total = 100ull << 30;
    return 0;
}

static enum sink_status try_append(struct suite *s, int64_t value, struct ack_result *ret)
{
    _cleanup_(batch_unrefp) struct batch *b =
        simple_batch((struct simple[]){{.value = value, .time = suite_clock + value}}, 1);

    store_append_wait(s->store, b, &(struct sink_context){.tenant = "", .received_ns = suite_clock}, ret);
    return ret->status;
}

static void test_full_disk(void)
{
    struct suite s = {.config = {.min_free = 0.05, .keep = DAYS(30), .keep_detail = -1}};
    struct ack_result r = {0};

    disk = *fd_ops;
    disk.space = disk_space;
    fd_ops = &disk;
    disk_free = 50;
    begin(&s);
    eq_int(try_append(&s, 1, &r), SINK_OK);
    flush(&s);
    disk_free = 4;
    ok(try_append(&s, 2, &r) == SINK_UNAVAILABLE && r.retry_ns > 0);
    ok(strstr(r.message, "full") != NULL);
    eq_int(total(&s, "cpu", ALL), 1); /* queries still work */
    suite_clock += DAYS(31);
    retain(&s); /* and so does retention */
    eq_int(total(&s, "cpu", ALL), 0);
    disk_free = 6;
    eq_int(try_append(&s, 4, &r), SINK_OK);
    eq_int(total(&s, "cpu", ALL), 4);
    fd_ops = &fd_ops_system;
    end(&s);
}

/* The disk is full until the reserve is released. */
static bool is_full;

static ssize_t full_pwrite(int fd, const void *p, size_t n, off_t off)
{
    char path[160];
    struct stat st;

    snprintf(path, sizeof path, "%s/RESERVE", dir);
    if (is_full && stat(path, &st) == 0 && st.st_size > 0) {
        errno = ENOSPC;
        return -1;
    }
    return fd_ops_system.pwrite(fd, p, n, off);
}

static void test_reserve(void)
{
    struct suite s = {.config = {.reserve = 1 << 20, .keep = DAYS(30), .keep_detail = -1}};
    struct ack_result r = {0};
    char path[160];
    int fd;

    begin(&s);
    eq_int(try_append(&s, 1, &r), SINK_OK);
    flush(&s);
    snprintf(path, sizeof path, "%s/RESERVE", dir); /* created only in the background */
    fd = open(path, O_RDWR | O_CREAT, 0600);
    ok(fd >= 0 && ftruncate(fd, 1 << 20) == 0);
    close(fd);
    disk = *fd_ops;
    disk.pwrite = full_pwrite;
    fd_ops = &disk;
    is_full = true;
    suite_clock += DAYS(31);
    retain(&s);
    eq_int(total(&s, "cpu", ALL), 0);
    is_full = false;
    fd_ops = &fd_ops_system;
    end(&s);
}

/* --- a restart between cumulative profiles --- */

/* A user's quota is exhausted: it is handled like a full disk, and the message names it. */
static ssize_t quota_pwrite(int fd, const void *p, size_t n, off_t off)
{
    if (is_full) {
        errno = EDQUOT;
        return -1;
    }
    return fd_ops_system.pwrite(fd, p, n, off);
}

static void test_quota(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}};
    struct ack_result r = {0};

    begin(&s);
    eq_int(try_append(&s, 1, &r), SINK_OK);
    disk = *fd_ops;
    disk.pwrite = quota_pwrite;
    fd_ops = &disk;
    is_full = true;
    ok(try_append(&s, 2, &r) == SINK_UNAVAILABLE && r.retry_ns > 0);
    ok(strstr(r.message, "quota") != NULL);
    ok(s.store->ops->flush(s.store, NULL) < 0);
    eq_int(total(&s, "cpu", ALL), 1);
    is_full = false;
    eq_int(try_append(&s, 4, &r), SINK_OK);
    flush(&s);
    reopen(&s);
    eq_int(total(&s, "cpu", ALL), 5);
    fd_ops = &fd_ops_system;
    end(&s);
}

static void append_cumulative(struct suite *s, int64_t value, int second)
{
    struct sink_context ctx = {.tenant = "", .received_ns = suite_clock, .cumulative = true};
    _cleanup_(batch_unrefp) struct batch *b = simple_batch(
        (struct simple[]){{.type = "alloc_space", .unit = "bytes", .value = value, .time = GEN_T0 + second * NS_PER_S}},
        1);

    append_as(s, b, &ctx, NULL);
}

static void test_cumulative_restart(void)
{
    struct suite s = {0};

    begin(&s);
    append_cumulative(&s, 1000, 0);
    append_cumulative(&s, 1500, 1);
    reopen(&s); /* the last count is no longer known: the next profile is a base, and nothing is counted twice */
    append_cumulative(&s, 1700, 2);
    append_cumulative(&s, 1710, 3);
    append_cumulative(&s, 1710, 3); /* sent again */
    eq_int(total(&s, "alloc", ALL), 500 + 10);
    end(&s);
}

/* --- as it was sent --- */

static struct batch *sent_batch(void)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    struct batch *out = NULL;
    struct value_type t;
    struct profile *p;
    uint32_t attrs[2], loc_attr, loc[2], m;
    int64_t v = 3;

    if (builder_new(NULL, &b) < 0)
        return NULL;
    builder_resource(b);
    builder_resource_attr_str(b, STR("service.name"), STR("sent"));
    builder_scope(b, STR("s"), STR("2"));
    t = (struct value_type){builder_string(b, STR("cpu")), builder_string(b, STR("nanoseconds"))};
    p = builder_profile(b, &t, 1);
    if (!p)
        return NULL;
    p->time_ns = GEN_T0;
    p->duration_ns = 1000;
    p->payload_format = STR("pprof");
    p->payload = STR("\x1f\x8b bytes");
    attrs[0] = builder_attr_str(b, STR("process.executable.build_id.gnu"), STR("c0ffee"));
    attrs[1] = builder_attr_bool(b, STR("pprof.mapping.has_functions"), true);
    m = builder_mapping(b,
                        &(struct mapping){.filename = builder_string(b, STR("/bin/sent")),
                                          .start = 0x555500400000,
                                          .limit = 0x555500500000,
                                          .offset = 0x1000},
                        attrs, 2);
    loc_attr = builder_attr_bool(b, STR("pprof.location.is_folded"), true);
    loc[0] = builder_location(
        b, &(struct builder_location){.mapping = m, .address = 0x555500400123, .attrs = &loc_attr, .n_attrs = 1});
    loc[1] = builder_location(b, &(struct builder_location){.mapping = m, .address = 0x555500400456});
    builder_sample(b, &(struct builder_sample){.stack = builder_stack(b, loc, 2), .values = &v, .n_values = 1});
    return builder_finish(b, &out, NULL) < 0 ? NULL : out;
}

static int look_sent(void *ctx, struct batch *b)
{
    const struct profile *p = &b->profiles[0];
    struct run st = b->dict.stacks[b->samples[0].stack];
    const struct location *l0 = &b->dict.locations[b->dict.indices[st.off]],
                          *l1 = &b->dict.locations[b->dict.indices[st.off + 1]];
    const struct mapping *m = &b->dict.mappings[l0->mapping];
    const struct attr *a;

    ++*(int *) ctx;
    eq_int(b->n_profiles, 1);
    eq_str(p->payload_format, STR("pprof"));
    eq_str(p->payload, STR("\x1f\x8b bytes"));
    eq_int(st.n, 2);
    eq_int(l0->address, 0x555500400123);
    eq_int(l1->address, 0x555500400456);
    eq_int(m->start, 0x555500400000);
    eq_int(m->limit, 0x555500500000);
    eq_int(m->offset, 0x1000);
    eq_str(batch_string(b, m->filename), STR("/bin/sent"));
    a = batch_attr(b, m->attrs, STR("pprof.mapping.has_functions"));
    ok(a && a->value.kind == VALUE_BOOL && a->value.boolean);
    a = batch_attr(b, m->attrs, STR("process.executable.build_id.gnu"));
    ok(a && str_eq(value_str(&a->value), STR("c0ffee")));
    a = batch_attr(b, l0->attrs, STR("pprof.location.is_folded"));
    ok(a && a->value.boolean);
    ok(!l1->attrs.n);
    return 0;
}

static void export_sent(struct suite *s)
{
    struct asked k;
    struct err e = {0};
    int n = 0;

    ask(&k, "cpu", ALL);
    ok(s->store->ops->export(s->store, &k.q, look_sent, &n, &e) >= 0);
    eq_int(n, 1);
    ask_done(&k);
}

static void test_as_sent(void)
{
    _cleanup_(batch_unrefp) struct batch *b = sent_batch();
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}};

    begin(&s);
    append(&s, b);
    export_sent(&s);
    reopen(&s); /* from the log */
    export_sent(&s);
    flush(&s);
    export_sent(&s);
    suite_clock += DAYS(2);
    retain(&s);
    reopen(&s);
    export_sent(&s);
    end(&s);
}

/* --- names that arrive later --- */

static void dump_functions(struct suite *s, struct buf *out)
{
    _cleanup_(tree_freep) struct tree *t = NULL;
    struct asked k;
    struct err e = {0};

    ask(&k, "cpu", ALL);
    if (s->store->ops->select(s->store, &k.q, &t, &e) < 0)
        tap_fail("select: %s", e.message);
    else
        dump_tree(out, t);
    buf_putc(out, 0);
    ask_done(&k);
}

/* Names that arrive in the middle of what one flush writes: neither those names nor those of later frames may
 * change. */
static void test_names_later(void)
{
    _cleanup_(batch_unrefp) struct batch *b = sent_batch();
    _cleanup_(buf_done) struct buf before = BUF_INIT, logged = BUF_INIT, flushed = BUF_INIT;
    struct symbol_frame frames[] = {{.function = STR("inner"), .line = 3},
                                    {.function = STR("outer"), .line = 9},
                                    {.function = STR("other"), .line = 20}};
    uint64_t addresses[] = {0x1123, 0x1456};
    uint32_t first[] = {0, 2, 3};
    struct symbol_answer names = {.frames = frames, .first = first, .n_addresses = 2};
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}};

    begin(&s);
    APPEND(&s, {.stack = "main one", .value = 1});
    append(&s, b);
    APPEND(&s, {.stack = "main two", .value = 2});
    ok(s.store->ops->name_later(s.store, "", STR("c0ffee"), addresses, &names, NULL) == 0);
    APPEND(&s, {.stack = "main three", .value = 4}, {.stack = "main three four", .value = 8});
    dump_functions(&s, &before);
    ok(strstr(before.p, "inner") && strstr(before.p, "other") && strstr(before.p, "four"));
    reopen(&s); /* from the log */
    dump_functions(&s, &logged);
    eq_str(str_from(logged.p), str_from(before.p));
    flush(&s);
    reopen(&s); /* from the symbol file */
    dump_functions(&s, &flushed);
    eq_str(str_from(flushed.p), str_from(before.p));
    end(&s);
}

enum { BARE, NAMED, LINED };

/* One sample of 1 ns at one address: without names, with a name, or with lines and an inlined call. */
static struct batch *native_batch(int what, int64_t time_ns)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    struct line lines[2] = {{0}};
    struct batch *out = NULL;
    struct value_type t;
    struct profile *p;
    uint32_t id, loc, file;
    int64_t v = 1;

    if (builder_new(NULL, &b) < 0)
        return NULL;
    builder_resource(b);
    builder_resource_attr_str(b, STR("service.name"), STR("native"));
    builder_scope(b, STR("s"), STR("2"));
    t = (struct value_type){builder_string(b, STR("cpu")), builder_string(b, STR("nanoseconds"))};
    p = builder_profile(b, &t, 1);
    if (!p)
        return NULL;
    p->time_ns = time_ns;
    id = builder_attr_str(b, STR("process.executable.build_id.gnu"), STR("c0ffee"));
    file = what == LINED ? builder_string(b, STR("shop.c")) : 0;
    lines[0] = (struct line){
        builder_function(b, &(struct function){.name = builder_string(b, STR("tax")), .filename = file}), 7, 0};
    lines[1] =
        (struct line){builder_function(b, &(struct function){.name = builder_string(b, STR("main")), .filename = file}),
                      what == LINED ? 12 : 0, 0};
    loc = builder_location(b, &(struct builder_location){
                                  .mapping = builder_mapping(
                                      b, &(struct mapping){.filename = builder_string(b, STR("/bin/shop"))}, &id, 1),
                                  .address = 0x1123,
                                  .lines = lines + (what == NAMED),
                                  .n_lines = what == BARE    ? 0
                                             : what == NAMED ? 1
                                                             : 2});
    builder_sample(b, &(struct builder_sample){.stack = builder_stack(b, &loc, 1), .values = &v, .n_values = 1});
    return builder_finish(b, &out, NULL) < 0 ? NULL : out;
}

static void append_native(struct suite *s, int what, int64_t time_ns)
{
    _cleanup_(batch_unrefp) struct batch *b = native_batch(what, time_ns);

    append(s, b);
}

/* First a name, then lines and an inlined call in a later batch, then a name alone: the lines apply to all three, also
 * after each restart. */
static void test_lines_later(void)
{
    _cleanup_(buf_done) struct buf named = BUF_INIT, lined = BUF_INIT, logged = BUF_INIT, flushed = BUF_INIT;
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}};

    begin(&s);
    append_native(&s, BARE, GEN_T0);
    append_native(&s, NAMED, GEN_T0 + 1);
    dump_functions(&s, &named);
    ok(strstr(named.p, "/main|:0||+0|0 2(2)") && !strstr(named.p, "tax"));
    append_native(&s, LINED, GEN_T0 + 2);
    append_native(&s, NAMED, GEN_T0 + 3);
    dump_functions(&s, &lined);
    ok(strstr(lined.p, "/main|:0||+0|0 0(4)") && strstr(lined.p, "/tax|:0||+0|0 4(4)"));
    reopen(&s);
    dump_functions(&s, &logged);
    eq_str(str_from(logged.p), str_from(lined.p));
    flush(&s);
    reopen(&s);
    append_native(&s, NAMED, GEN_T0 + 4);
    append_native(&s, BARE, GEN_T0 + 5);
    dump_functions(&s, &flushed);
    ok(strstr(flushed.p, "/main|:0||+0|0 0(6)") && strstr(flushed.p, "/tax|:0||+0|0 6(6)"));
    end(&s);
}

/* A name from the sender; lines from a file that is uploaded later. */
static void test_uploaded_lines(void)
{
    _cleanup_(buf_done) struct buf lined = BUF_INIT, logged = BUF_INIT;
    struct symbol_frame frames[] = {{.function = STR("tax"), .file = STR("shop.c"), .line = 7},
                                    {.function = STR("main"), .file = STR("shop.c"), .line = 12}};
    uint64_t address = 0x1123;
    uint32_t first[] = {0, 2};
    struct symbol_answer names = {.frames = frames, .first = first, .n_addresses = 1};
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}};

    begin(&s);
    append_native(&s, NAMED, GEN_T0);
    ok(s.store->ops->name_later(s.store, "", STR("c0ffee"), &address, &names, NULL) == 0);
    dump_functions(&s, &lined);
    ok(strstr(lined.p, "/main|:0||+0|0 0(1)") && strstr(lined.p, "/tax|:0||+0|0 1(1)"));
    reopen(&s);
    dump_functions(&s, &logged);
    eq_str(str_from(logged.p), str_from(lined.p));
    end(&s);
}

/* --- stores of earlier versions --- */

/* Their contents: every kind of row, in a day's segment, a fresh segment and a log. */
static void fill_fixture(struct suite *s)
{
    static const char *const hosts[] = {"h1", "h2", "h3", "h4", "h5"};
    _cleanup_(batch_unrefp) struct batch *b = sent_batch();

    append(s, b);
    for (int i = 0; i < 5; i++)
        APPEND(s, {.value = 10, .stack = "main work", .host = hosts[i], .time = GEN_T0 + i * NS_PER_S},
               {.value = 5, .stack = "main wait", .host = hosts[i], .time = GEN_T0 + i * NS_PER_S, .thread = "w"},
               {.value = 1,
                .stack = "main work",
                .host = hosts[i],
                .time = GEN_T0 + i * NS_PER_S,
                .trace = (uint8_t) (1 + i),
                .span = 9});
    APPEND(s, {.type = "inuse_space", .unit = "bytes", .value = 100, .time = GEN_T0},
           {.type = "inuse_space", .unit = "bytes", .value = 300, .time = GEN_T0 + 10 * NS_PER_S});
    flush(s);
    suite_clock += DAYS(2);
    retain(s);
    APPEND(s, {.value = 1000, .stack = "main late", .time = suite_clock});
    flush(s);
    APPEND(s, {.value = 2000, .stack = "main later", .time = suite_clock + 1});
}

static void check_fixture(struct suite *s, const char *what)
{
    int before = tap_bad;
    struct store_stats st;

    eq_int(total(s, "cpu", ALL), 3 + 5 * 16 + 3000);
    eq_int(total(s, "cpu{host.name=\"h2\"}", ALL), 16);
    eq_int(total(s, "cpu{thread.name=\"w\"}", ALL), 25);
    eq_int(total(s, "cpu", GEN_T0 + NS_PER_S, GEN_T0 + 3 * NS_PER_S), 32);
    eq_int(total_of_trace(s, 3), 1);
    eq_int(total(s, "heap", ALL), 200);
    eq_int(profiles(s), 1 + 15 + 2);
    s->store->ops->stats(s->store, &st);
    eq_int(st.damaged, 0);
    if (tap_bad > before)
        printf("# of %s\n", what);
}

static const char *copy_from, *copy_to;

static int copy_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    char to[512];
    int fd;

    (void) st;
    (void) ftw;
    snprintf(to, sizeof to, "%s%s", copy_to, path + strlen(copy_from));
    if (type == FTW_D)
        return mkdir(to, 0755) < 0 && errno != EEXIST;
    if (fd_read_file(path, 1 << 24, &b, NULL) < 0)
        return 1;
    fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0)
        return 1;
    if (b.n && write(fd, b.p, b.n) != (ssize_t) b.n)
        tap_fail("cannot copy %s", path);
    close(fd);
    return 0;
}

static void test_earlier_versions(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}};
    int seen = 0;

    for (int v = 1; v < 100; v++) {
        char from[64];

        snprintf(from, sizeof from, "tests/data/store-v%d", v);
        if (access(from, F_OK) < 0)
            continue;
        seen++;
        nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        copy_from = from;
        copy_to = dir;
        eq_int(nftw(from, copy_one, 16, FTW_PHYS), 0);
        suite_clock = GEN_T0 + DAYS(2);
        s.config.dir = dir;
        s.config.manual = true;
        s.config.now = suite_now;
        s.config.min_free = -1;
        reopen(&s);
        check_fixture(&s, from);
        flush(&s); /* and it can be written to */
        retain(&s);
        check_fixture(&s, from);
        end(&s);
        s.store = NULL;
    }
    ok(seen || access("tests/data", F_OK) < 0); /* run from another directory: no fixtures */
}

static void test_this_version(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}};
    const char *make = getenv("WICK_MAKE_STORE");

    begin(&s);
    fill_fixture(&s);
    check_fixture(&s, "a fresh store");
    reopen(&s);
    check_fixture(&s, "a store opened again");
    store_close(s.store);
    if (make) {
        copy_from = dir;
        copy_to = make;
        eq_int(nftw(dir, copy_one, 16, FTW_PHYS), 0);
    }
    s.store = NULL;
    end(&s);
}

int main(void)
{
    snprintf(dir, sizeof dir, "/tmp/wick-life-%d", getpid());
    tap_run(test_epochs);
    tap_run(test_detail_goes);
    tap_run(test_copies);
    tap_run(test_no_memory);
    tap_run(test_full_disk);
    tap_run(test_reserve);
    tap_run(test_quota);
    tap_run(test_cumulative_restart);
    tap_run(test_as_sent);
    tap_run(test_names_later);
    tap_run(test_lines_later);
    tap_run(test_uploaded_lines);
    tap_run(test_this_version);
    tap_run(test_earlier_versions);
    return tap_done();
}
