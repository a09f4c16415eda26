/* SPDX-License-Identifier: Apache-2.0 */
/*
 * objects_appear: libwick sees many more objects when it reads them than when it counted them, as if other threads had
 * loaded them meanwhile. Prints how many it took, or dies.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "wick.h"

enum { MORE = 300 };

static int calls;

typedef int callback(struct dl_phdr_info *, size_t, void *);

/* The first call asks for the counters, the second counts, the third reads. */
int dl_iterate_phdr(callback *f, void *arg)
{
    static int (*real)(callback *, void *);
    static ElfW(Phdr) text = {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = 0, .p_memsz = 4096};
    int r;

    if (!real)
        real = (int (*)(callback *, void *)) dlsym(RTLD_NEXT, "dl_iterate_phdr");
    r = real(f, arg);
    for (int i = 0; ++calls >= 3 && i < MORE && r == 0; i++) {
        struct dl_phdr_info info = {
            .dlpi_addr = 0x10000000000 + i * 65536ul, .dlpi_name = "/none", .dlpi_phdr = &text, .dlpi_phnum = 1};

        r = f(&info, sizeof info, arg);
    }
    return r;
}

int main(void)
{
    struct wick_options o = WICK_OPTIONS_INIT;
    struct wick_stats s = WICK_STATS_INIT;
    struct wick_provider *p;

    o.endpoint = "none";
    p = wick_provider_new(&o);
    if (!p || wick_get_stats(p, &s) < 0)
        return 1;
    printf("%s\n", s.modules >= MORE ? "all" : "some");
    wick_provider_free(p);
    return 0;
}
