/* SPDX-License-Identifier: Apache-2.0 */
/* The lines that `wick serve` prints after its address (serve_summary.h). */
#include "serve/serve_summary.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "host/agent_feed.h"
#include "serve/serve_run.h"
#include "serve/serve_state.h"
#include "store/store.h"

static bool is_starting(const struct serve *s)
{
    const char *reason, *fix;

    return s->agent && strcmp(agent_feed_state(s->agent, &reason, &fix), "starting") == 0;
}

static bool is_signalled(const sigset_t *set)
{
    static const int ends[] = {SIGTERM, SIGINT, SIGHUP};
    sigset_t pending;

    if (sigpending(&pending) < 0)
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
        if (sigismember(set, ends[i]) && sigismember(&pending, ends[i]))
            return true;
    return false;
}

void serve_summary_wait(const struct serve *s, const sigset_t *set)
{
    const struct timespec step = {.tv_nsec = 20 * NS_PER_MS};
    int64_t end = clock_mono() + 5 * NS_PER_S;

    while (is_starting(s) && clock_mono() < end && !is_signalled(set))
        nanosleep(&step, NULL);
}

static void put_received(const struct serve *s, struct buf *out)
{
    bool grpc = s->otlp_grpc[0], http = s->otlp_http[0];

    buf_puts(out, "  receives  ");
    if (grpc || http)
        buf_printf(out, "OTLP at %s%s%s%s%s; ", grpc ? s->otlp_grpc : "", grpc ? " (gRPC)" : "",
                   grpc && http ? " and " : "", http ? s->otlp_http : "", http ? " (HTTP)" : "");
    buf_puts(out, "Pyroscope's clients at the address above\n");
}

static void put_sampled(const struct serve *s, struct buf *out)
{
    const char *reason = NULL, *fix = NULL;
    const char *state = s->agent ? agent_feed_state(s->agent, &reason, &fix) : "off";

    if (strcmp(state, "running") == 0)
        buf_puts(out, "  samples   the processes of this host\n");
    else if (strcmp(state, "starting") == 0)
        buf_puts(out, "  samples   the processes of this host, as soon as its agent has started\n");
    else
        buf_puts(out, "  samples   nothing of this host\n");
}

static void put_kept(const struct serve *s, struct buf *out)
{
    const struct serve_retention *k = &s->config.retention;
    long long days = (long long) (k->keep / (86400 * NS_PER_S));

    if (s->config.store.place && strstr(s->config.store.place, "://"))
        buf_printf(out, "  keeps     profiles in %s, %lld days\n", s->config.store.place, days);
    else if (!serve_store_in_dir(&s->config))
        buf_puts(out, "  keeps     profiles in memory, until it stops\n");
    else
        buf_printf(out, "  keeps     profiles in %s, %lld days, at most %.4g GiB\n", s->store_dir, days,
                   (double) k->size / (double) (1ULL << 30));
}

/* One thing: what most limits what a person can see. */
static void put_lacked(const struct serve *s, struct buf *out)
{
    const char *reason = NULL, *fix = NULL;

    if (s->otlp_note[0]) {
        buf_printf(out, "  lacks     %s\n", s->otlp_note);
    } else if (!s->agent && s->config.role == ROLE_ALL) {
        buf_puts(
            out,
            "  lacks     the profiles of this host: start it without --no-agent, or beside it: sudo wick agent --export ");
        buf_printf(out, "http://%s\n", s->otlp_grpc[0] ? s->otlp_grpc : s->otlp_http);
    } else if (s->agent && agent_feed_state(s->agent, &reason, &fix) && reason) {
        buf_printf(out, "  lacks     %s: %s\n", reason, fix ? fix : "wick doctor");
    } else {
        buf_puts(out, "  lacks     nothing; wick doctor checks more\n");
    }
}

void serve_summary(const struct serve *s, struct buf *out)
{
    put_received(s, out);
    put_sampled(s, out);
    put_kept(s, out);
    put_lacked(s, out);
}
