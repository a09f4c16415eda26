/* SPDX-License-Identifier: Apache-2.0 */
/* The calculator of `wick doctor --plan` (doctor_plan.h). */
#include "host/doctor_plan.h"

#include <errno.h>
#include <math.h>

#include "base/clock.h"

/* Measured, per sample; bench/RESULTS.md says how, and a test compares. The store's figures are those of an agent's profiles, which are
 * the dearest: many processes with few samples each. */
static const double detail_bytes = 6.75, total_bytes = 1.67, wire_bytes = 45.7;
static const double receive_cpu = 0.6e-6, store_cpu = 1.36e-6; /* seconds */
static const double peak_rss = 135e6, gib = 1 << 30;
static const double share_of_core =
    0.5; /* a server should be busy for so much of its CPUs: compaction and queries come in bursts */

struct plan_input {
    double hosts, cores, busy, rate;
    int64_t keep, detail;
};

struct plan_output {
    double samples, wire, cpu, cpus, memory, disk;
};

static int parse_one(struct plan_input *in, struct str key, struct str value, struct err *e)
{
    const struct {
        const char *name;
        double *number, least, most;
        int64_t *time;
    } keys[] = {{"hosts", &in->hosts, 1, 1e6, NULL}, {"cores", &in->cores, 1, 4096, NULL},
                {"busy", &in->busy, 0.1, 100, NULL}, {"rate", &in->rate, 1, 1000, NULL},
                {"keep", NULL, 0, 0, &in->keep},     {"detail", NULL, 0, 0, &in->detail}};

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        if (!str_is(key, keys[i].name))
            continue;
        if (keys[i].time)
            return clock_parse_duration(value, keys[i].time, e);
        if (str_to_double(value, keys[i].number) < 0 || !(*keys[i].number >= keys[i].least) ||
            !(*keys[i].number <= keys[i].most))
            return err_set(e, -EINVAL, "--plan: %s must be a number from %g to %g", keys[i].name, keys[i].least,
                           keys[i].most);
        return 0;
    }
    return err_set(e, -EINVAL, "--plan: unknown key '%.*s'; known: hosts, cores, busy, rate, keep, detail",
                   STR_FMT(key));
}

static int parse(struct str text, struct plan_input *in, struct err *e)
{
    int r = 0;

    while (r == 0 && text.n) {
        struct str value = str_cut(&text, ','), key = str_cut(&value, '=');

        r = parse_one(in, str_trim(key), str_trim(value), e);
    }
    if (r == 0 && !in->hosts)
        r = err_set(e, -EINVAL, "--plan: hosts=N is required");
    if (r == 0 && (in->keep <= 0 || in->detail < 0))
        r = err_set(e, -EINVAL, "--plan: keep must be greater than zero");
    return r;
}

static struct plan_output calculate(const struct plan_input *in)
{
    struct plan_output o = {.samples = in->hosts * in->cores * in->busy / 100 * in->rate};
    double detail = (double) MIN(in->detail, in->keep) / (double) NS_PER_S,
           totals = (double) (in->keep - MIN(in->detail, in->keep)) / (double) NS_PER_S;

    o.wire = o.samples * wire_bytes;
    o.cpu = o.samples * (receive_cpu + store_cpu);
    o.cpus = fmax(1, ceil(o.cpu / share_of_core));
    o.memory = 4 * peak_rss; /* caches, queries, and rows of more tenants */
    o.disk =
        o.samples * (detail * detail_bytes + totals * total_bytes) * 1.25 + gib; /* a quarter while data is rewritten */
    return o;
}

static void put_text(const struct plan_input *in, const struct plan_output *o, struct buf *out)
{
    buf_printf(
        out,
        "%g hosts of %g cores, %g %% busy, sampled %g times a second: %.0f samples per second, %.0f million a day\n",
        in->hosts, in->cores, in->busy, in->rate, o->samples, o->samples * 86400 / 1e6);
    buf_puts(out, "each host   at most 1 % of its CPU (agent.budget) and 64 MiB (agent.memory)\n");
    buf_printf(out, "network     up to %.3g MB/s into the server, compressed\n", o->wire / 1e6);
    buf_printf(out, "server      %.2g cores busy: give it %.0f, and %.2g GiB of memory\n", o->cpu, o->cpus,
               o->memory / gib);
    buf_printf(out,
               "disk        %.3g GiB: %lld days with detail, then totals up to %lld days; retention.size: %.0fGiB\n",
               o->disk / gib, (long long) (MIN(in->detail, in->keep) / (86400 * NS_PER_S)),
               (long long) (in->keep / (86400 * NS_PER_S)), ceil(o->disk / 1.25 / gib));
    if (o->cpus > 8)
        buf_puts(out, "            more than one machine: share a ClickHouse (docs/scale.md)\n");
}

int doctor_plan(struct str text, bool json, struct buf *out, struct err *e)
{
    struct plan_input in = {
        .cores = 8, .busy = 30, .rate = 19, .keep = 30 * 86400 * NS_PER_S, .detail = 7 * 86400 * NS_PER_S};
    struct plan_output o;
    int r = parse(text, &in, e);

    if (r < 0)
        return r;
    o = calculate(&in);
    if (json)
        buf_printf(out,
                   "{\"samplesPerSecond\":%.0f,\"networkBytesPerSecond\":%.0f,\"busyCores\":%.3f,\"cores\":%.0f,"
                   "\"memoryBytes\":%.0f,\"diskBytes\":%.0f}\n",
                   o.samples, o.wire, o.cpu, o.cpus, o.memory, o.disk);
    else
        put_text(&in, &o, out);
    return buf_error(out);
}
