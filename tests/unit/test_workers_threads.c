/* SPDX-License-Identifier: Apache-2.0 */
/* The shares of flows at a pool of workers: turns, the part of a full queue, and the threads that one flow may occupy. */
#include "tap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "server/workers.h"

enum { JOBS_MAX = 64 };

struct job {
    struct worker_job job;
    char name;
};

static struct job jobs[JOBS_MAX];
static char order[JOBS_MAX + 1];
static atomic_uint n_run, n_running, may_run;

static void run(struct worker_job *j)
{
    n_running++;
    while (!may_run)
        usleep(1000);
    n_running--;
    order[n_run++] = container_of(j, struct job, job)->name;
}

static struct worker_job *job(unsigned i, char name)
{
    jobs[i] = (struct job){.job.run = run, .name = name};
    return &jobs[i].job;
}

static void wait_running(unsigned n)
{
    for (int i = 0; i < 5000 && n_running != n; i++)
        usleep(1000);
    eq_int(n_running, n);
}

static struct workers *start(unsigned threads, size_t waiting, unsigned flow_running)
{
    struct workers_options o = {threads, waiting, flow_running};
    struct workers *w = NULL;
    struct err e = {0};

    n_run = may_run = 0;
    memset(order, 0, sizeof order);
    eq_int(workers_new(&o, &w, &e), 0);
    return w;
}

/* Six jobs of a, then two of b and one of c: they take turns. */
static void test_turns(void)
{
    struct workers *w = start(1, 100, 0);
    struct workers_flow a = {0}, b = {0}, c = {0};
    unsigned n = 0;

    eq_int(workers_submit(w, &a, job(n++, 'a')), 0);
    wait_running(1);
    for (int i = 0; i < 5; i++)
        eq_int(workers_submit(w, &a, job(n++, 'a')), 0);
    eq_int(workers_submit(w, &b, job(n++, 'b')), 0);
    eq_int(workers_submit(w, &b, job(n++, 'b')), 0);
    eq_int(workers_submit(w, &c, job(n++, 'c')), 0);
    eq_int(workers_waiting(w), 8);
    may_run = 1;
    workers_free(w);
    eq_str(str_from(order), STR("aabcabaaa"));
}

/* A queue of eight: one flow gets all of it, and another still gets its half, but no more. */
static void test_full(void)
{
    struct workers *w = start(1, 8, 0);
    struct workers_flow a = {0}, b = {0};
    unsigned n = 0;

    eq_int(workers_submit(w, NULL, job(n++, '-')), 0);
    wait_running(1);
    for (int i = 0; i < 8; i++)
        eq_int(workers_submit(w, &a, job(n++, 'a')), 0);
    eq_int(workers_submit(w, &a, job(n, 'a')), -EAGAIN);
    for (int i = 0; i < 4; i++)
        eq_int(workers_submit(w, &b, job(n++, 'b')), 0);
    eq_int(workers_submit(w, &b, job(n, 'b')), -EAGAIN);
    eq_int(workers_submit(w, &a, job(n, 'a')), -EAGAIN);
    may_run = 1;
    workers_free(w);
    eq_str(str_from(order), STR("-abababab" "aaaa"));
}

/* Of three threads a flow gets two; when one of its jobs ends, its next one runs. While another flow has jobs, too, it gets one,
 * even in the moments in which none of the other's waits. */
static void test_threads(void)
{
    struct workers *w = start(3, 100, 2);
    struct workers_flow a = {0}, b = {0};
    unsigned n = 0;

    for (int i = 0; i < 5; i++)
        eq_int(workers_submit(w, &a, job(n++, 'a')), 0);
    wait_running(2);
    usleep(20000);
    eq_int(n_running, 2);
    eq_int(workers_submit(w, &b, job(n++, 'b')), 0);
    wait_running(3);
    may_run = 1;
    for (int i = 0; i < 5000 && n_run < 6; i++)
        usleep(1000);
    eq_int(n_run, 6);
    may_run = 0;
    eq_int(workers_submit(w, &b, job(n++, 'b')), 0);
    for (int i = 0; i < 5; i++)
        eq_int(workers_submit(w, &a, job(n++, 'a')), 0);
    wait_running(2);
    usleep(20000);
    eq_int(n_running, 2);
    may_run = 1;
    for (int i = 0; i < 5000 && n_run < 12; i++)
        usleep(1000);
    eq_int(n_run, 12);
    workers_free(w);
}

int main(void)
{
    tap_run(test_turns);
    tap_run(test_full);
    tap_run(test_threads);
    return tap_done();
}
