/* SPDX-License-Identifier: Apache-2.0 */
/* own_memory MB: holds so much from mmap(), as a collector or an allocator of its own does, and 8 MB from malloc(). */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
    size_t n = strtoul(argv[1], NULL, 10) * 1000000;
    char *own = mmap(NULL, n ? n : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
         *kept = malloc(8000000);

    memset(own, 1, n);
    memset(kept, 1, 8000000);
    for (int i = 0; i < 200; i++) { /* what malloc() has given back does not count as of its own */
        void *volatile passing = malloc(1000000);

        free(memset(passing, 1, 1000000));
    }
    return own[n / 2] + kept[n % 8000000] == 3;
}
