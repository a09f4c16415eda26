/* SPDX-License-Identifier: Apache-2.0 */
/* Every report over whatever decodes as a profile: numbers of any size, any shape of stacks, tables and labels. */
#include "codec/pprof.h"
#include "report/report_driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(const struct prof *p, const char *name, enum report_format format, const struct pprof_config *c)
{
    _cleanup_(prof_freep) struct prof *copy = NULL;
    _cleanup_(prof_freep) struct prof *made = NULL;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct report_command cmd = {name, format, {0}};
    struct report_run r;

    if (prof_copy(p, &copy) < 0)
        return;
    if (report_run_prepare(&r, copy, &cmd, c, NULL, NULL) >= 0) {
        if (format == REPORT_TOPPROTO)
            report_proto(&r.report, &made, NULL);
        else
            report_print(&r.report, &out, NULL);
    }
    report_run_done(&r);
}

static void run_all(const struct prof *p)
{
    struct pprof_config c;

    config_defaults(&c);
    run(p, "raw", REPORT_RAW, &c);
    run(p, "traces", REPORT_TRACES, &c);
    run(p, "tags", REPORT_TAGS, &c);
    run(p, "callgrind", REPORT_CALLGRIND, &c);
    run(p, "topproto", REPORT_TOPPROTO, &c);
    run(p, "dot", REPORT_DOT, &c);
    c.mean = true;
    c.granularity = STR("lines");
    c.tagroot = STR("bytes");
    run(p, "tree", REPORT_TREE, &c);
    c.call_tree = true;
    c.nodecount = 3;
    c.hide = STR("a");
    c.tagfocus = STR("1:");
    run(p, "dot", REPORT_DOT, &c);
    run(p, "top", REPORT_TEXT, &c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(batch_unrefp) struct batch *b = NULL;
    _cleanup_(buf_done) struct buf in = BUF_INIT;
    struct pprof_limits limits = {.inflated = 1 << 18};
    struct prof *p[2] = {NULL, NULL}, *sum = NULL;
    struct prof_pool pool;

    buf_put(&in, data, size);
    if (pprof_decode(&in, &limits, &b, NULL) < 0 || prof_pool_init(&pool) < 0)
        return 0;
    if (prof_from_batch(&pool, b, b->profiles, &p[0], NULL) == 0 && prof_check(p[0], NULL) == 0) {
        run_all(p[0]);
        if (prof_copy(p[0], &p[1]) == 0) { /* minus half of itself */
            prof_scale(p[1], -0.5);
            if (prof_combine(p, 2, &sum, NULL) == 0)
                run_all(sum);
        }
    }
    prof_free(p[0]);
    prof_free(p[1]);
    prof_free(sum);
    prof_pool_done(&pool);
    return 0;
}
