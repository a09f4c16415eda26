/* SPDX-License-Identifier: Apache-2.0 */
/* Damage to a store is reported in the answer to every query that reads profiles, for the affected tenant. */
#include "query/answer.h"
#include "store_dir.h"

static const char *asked; /* the name of the question */

static struct str param_of(void *ctx, const char *name)
{
    if (strcmp(name, "query") == 0)
        return strcmp(asked, "leaks") == 0 ? STR("heap") : STR("cpu");
    if (strcmp(name, "from") == 0)
        return STR("1699000000");
    if (strcmp(name, "to") == 0)
        return STR("1701000000");
    if (strcmp(name, "baseline_from") == 0 && strcmp(asked, "drift") == 0)
        return STR("1699000000");
    if (strcmp(name, "function") == 0)
        return STR("work");
    (void) ctx;
    return (struct str){0};
}

static int ask_all(struct suite *s, const char *tenant, const struct question *what, bool binary, struct buf *out)
{
    struct err e = {0};
    struct arena a;
    struct answer_request q = {
        .store = s->store, .tenant = tenant, .now = suite_clock, .binary = binary, .arena = &a, .param = param_of};
    int r;

    asked = what->name;
    arena_init(&a, 0);
    r = answer(what, &q, out, &e);
    if (r < 0)
        tap_fail("%s: %s", what->name, e.message);
    arena_done(&a);
    return (int) q.notes.damaged;
}

/* Queries that only list series do not, nor do those about spans, of which there are none; a verdict reads none without two
 * versions. */
static bool reads_profiles(const struct question *q)
{
    static const char *const lists[] = {"services", "labels", "types",      "coverage",    "verdict",
                                        "span",     "trace",  "span_names", "span_heatmap"};

    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        if (strcmp(q->name, lists[i]) == 0)
            return false;
    return true;
}

static void flip(const char *name, off_t at)
{
    char path[256], c = 0;
    int fd;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    fd = open(path, O_RDWR);
    ok(fd >= 0 && pread(fd, &c, 1, at) == 1);
    c = (char) (c ^ 0x10);
    ok(pwrite(fd, &c, 1, at) == 1);
    close(fd);
}

static void append_to(struct suite *s, const char *tenant)
{
    const struct simple rows[] = {{.value = 5, .trace = 1, .span = 2},
                                  {.type = "inuse_space", .unit = "bytes", .value = 7}};
    _cleanup_(batch_unrefp) struct batch *b = simple_batch(rows, ARRAY_SIZE(rows));

    append_as(s, b, &(struct sink_context){.tenant = tenant, .received_ns = suite_clock}, NULL);
}

static void test_every_question(void)
{
    struct suite s = {.config = {.keep = -1, .keep_detail = -1}};

    begin(&s);
    append_to(&s, "");
    append_to(&s, "other");
    flush(&s);
    for (off_t at = 8; at < 220; at += 4) /* its two chunks: headers and sections */
        flip("1/seg/000000000002.seg", at);
    for (const struct question *q = questions; q->name; q++) {
        _cleanup_(buf_done) struct buf hurt = BUF_INIT, whole = BUF_INIT, tree = BUF_INIT;

        if (!reads_profiles(q))
            continue;
        if (!ask_all(&s, "", q, false, &hurt) || !strstr(buf_cstr(&hurt), "\"notes\":{") ||
            !strstr(buf_cstr(&hurt), "segment 2"))
            tap_fail("%s does not name the damage: %s", q->name, buf_cstr(&hurt));
        if (ask_all(&s, "other", q, false, &whole) || strstr(buf_cstr(&whole), "damage"))
            tap_fail("%s names damage of another tenant: %s", q->name, buf_cstr(&whole));
        if (!q->tree)
            continue;
        ok(ask_all(&s, "", q, true, &tree) > 0);
        ok(tree.n > 32 && ((const uint32_t *) tree.p)[6] > 0 && ((const uint32_t *) tree.p)[7] > 0);
    }
    end(&s);
}

int main(void)
{
    snprintf(dir, sizeof dir, "%s/wick-notes-%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", getpid());
    tap_run(test_every_question);
    return tap_done();
}
