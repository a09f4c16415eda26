/* SPDX-License-Identifier: Apache-2.0 */
/* A realloc() that fails leaves its block in use: 64 blocks of 1 MiB (each sampled), each refused once, all still there. */
#include <errno.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>

static void *kept[64];
static volatile size_t too_much = PTRDIFF_MAX - 4096;

__attribute__((noinline)) static void keep(void)
{
    for (int i = 0; i < 64; i++)
        kept[i] = malloc(1 << 20);
}

int main(void)
{
    keep();
    for (int i = 0; i < 64; i++)
        if (realloc(kept[i], too_much) || errno != ENOMEM)
            return 1;
    puts("refused");
    return 0;
}
