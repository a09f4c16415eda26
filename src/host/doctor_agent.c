/* SPDX-License-Identifier: Apache-2.0 */
/* The check of `wick doctor` that runs the agent for a moment: a child gives up what `wick agent` gives up, loads the same
 * programs, and samples a little work of its own. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/agent_caps.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "host/agent_rights.h"
#include "host/doctor.h"

enum { RATE = 97, SHORT_MS = 20 };
static const int64_t TRY_NS = 300 * NS_PER_MS, MOST_NS = 10 * NS_PER_S;

/* What the child found. */
struct trial {
    int error; /* a negative errno, with the message; 0: the agent ran */
    char message[ERR_MESSAGE_MAX], via[16], why[200], lacks[sizeof((struct doctor_result){0}.state)];
    uint64_t samples;
};

static void work(void)
{
    int64_t until = clock_mono() + SHORT_MS * NS_PER_MS;

    while (clock_mono() < until)
        ;
}

/* On a busy machine it may take longer until a tick finds the child at work. */
static int sample(struct agent *a, struct err *e)
{
    int64_t begin = clock_mono();
    struct agent_counts n = {0};
    int r = 0;

    while (r == 0 && clock_mono() < begin + MOST_NS && (!n.samples || clock_mono() < begin + TRY_NS)) {
        work();
        r = agent_poll(a, 0, e);
        agent_counts(a, &n);
    }
    return r;
}

static void try_agent(struct trial *t)
{
    struct agent_options o = {.rate_hz = RATE, .off_cpu = true, .off_cpu_threshold_ns = NS_PER_S, .no_names = true};
    struct agent_counts n;
    struct agent *a = NULL;
    struct err e = {0};
    int r;

    log_setup(LOG_ERROR, LOG_LOGFMT);
    r = agent_rights_drop(false, &e);
    if (r == 0)
        r = agent_new(&o, &a, &e);
    if (r == 0)
        r = sample(a, &e);
    t->error = r;
    snprintf(t->message, sizeof t->message, "%s", r < 0 ? err_message(&e, r) : "");
    if (r == 0) {
        agent_counts(a, &n);
        snprintf(t->via, sizeof t->via, "%s", n.via);
        snprintf(t->why, sizeof t->why, "%s", n.why);
        snprintf(t->lacks, sizeof t->lacks, "%s", n.lacks);
        t->samples = n.samples;
    }
    agent_free(a);
}

/* The rights are gone for good: hence another process. */
static int in_child(struct trial *ret)
{
    int fds[2], status = 0;
    size_t n = 0;
    ssize_t got;
    pid_t pid;

    if (pipe(fds) < 0)
        return -errno;
    pid = fork();
    if (pid == 0) {
        static struct trial t;

        fd_close(fds[0]);
        try_agent(&t);
        fd_write_all(fds[1], &t, sizeof t);
        _exit(0);
    }
    fd_close(fds[1]);
    while (pid > 0 && n < sizeof *ret && (got = read(fds[0], (char *) ret + n, sizeof *ret - n)) > 0)
        n += (size_t) got;
    fd_close(fds[0]);
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return -errno;
    return n == sizeof *ret ? 0 : -ECHILD;
}

static bool may_load(void)
{
    for (const struct agent_cap *c = agent_caps; c->name; c++)
        if (c->required && !agent_cap_has(c->number))
            return false;
    return true;
}

static void check_agent(struct doctor_result *r)
{
    static const char others[] = "'wick run' and the SDK need nothing of the kernel";
    struct trial t = {0};
    int e = in_child(&t);

    if (e < 0)
        doctor_say(r, DOCTOR_BAD, others, "it ended while it was tried: %s", strerror(-e));
    else if (t.error && !may_load())
        doctor_say(r, DOCTOR_NOTE, "run it as root or with its systemd unit", "%s", t.message);
    else if (t.error)
        doctor_say(r, DOCTOR_BAD, others, "%s", t.message);
    else if (!t.samples)
        doctor_say(r, DOCTOR_BAD, others, "no sample of this program arrived (%s)", t.via);
    else if (t.lacks[0] || t.why[0])
        doctor_say(r, DOCTOR_NOTE, "", "samples via %s%s%s%s%s", t.via, t.why[0] ? ": " : "", t.why, t.lacks[0] ? "; " : "",
                   t.lacks);
    else
        doctor_say(r, DOCTOR_OK, "", "samples via %s", t.via);
}

const struct doctor_check doctor_agent[] = {{"host agent", "system", check_agent}, {0}};
