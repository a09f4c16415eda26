/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded by forks.c while it runs. */
#include <stdint.h>

volatile uint64_t plugin_sink;

__attribute__((noinline)) void plugin_work(double seconds, double (*now)(void))
{
    double end = now() + seconds;

    while (now() < end)
        for (int i = 0; i < 100000; i++)
            plugin_sink += (uint64_t) i * 3;
}
