/* SPDX-License-Identifier: Apache-2.0 */
/* Wall-clock time by the API alone: a thread sleeps in napper() for two seconds. Writes wall.pb.gz; prints its EINTRs. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include <poll.h>
#include <wick.h>

static int interrupted;

__attribute__((noinline)) void *napper(void *arg)
{
    if (poll(NULL, 0, 2000) < 0 && errno == EINTR)
        interrupted++;
    interrupted += 0;
    return arg;
}

int main(void)
{
    struct wick_options o = WICK_OPTIONS_INIT;
    struct wick_provider *p;
    pthread_t t;
    void *snapshot;
    size_t n;
    FILE *f = fopen("wall.pb.gz", "w");

    o.endpoint = "none";
    o.types = WICK_WALL;
    p = wick_provider_new(&o);
    if (!p)
        return printf("%s\n", wick_last_error()), 1;
    pthread_create(&t, NULL, napper, NULL);
    pthread_join(t, NULL);
    if (wick_snapshot(p, WICK_WALL, &snapshot, &n) < 0)
        return printf("%s\n", wick_last_error()), 1;
    fwrite(snapshot, 1, n, f);
    fclose(f);
    wick_provider_free(p);
    printf("%d\n", interrupted);
    return 0;
}
