/* SPDX-License-Identifier: Apache-2.0 */
/* Anonymous memory that is not the hooked allocators' (heap_unseen.h). */
#include "sdk/heap_unseen.h"

#include <fcntl.h>
#include <string.h>

#include "base/macros.h"
#include "sdk/core.h"
#include "sdk/mem_sdk.h"
#include "sdk/sys.h"

enum {
    FEW = 16 << 20,           /* estimates of what was allocated have errors, and data segments are anonymous, too */
    OF_A_THREAD = 2560 << 10, /* its ring, and a stack with a huge page */
};

static int64_t before;
static _Atomic int64_t at_end;

/* What the kernel counts, and without what is ours. 0: not known. */
static int64_t anonymous(void)
{
    char text[4096];
    long fd = sys_call(SYS_openat, AT_FDCWD, (long) "/proc/self/status", O_RDONLY | O_CLOEXEC, 0), n;
    const char *at;
    uint64_t kib = 0;

    n = fd < 0 ? -1 : sys_call(SYS_read, fd, (long) text, sizeof text - 1, 0);
    if (fd >= 0)
        sys_call(SYS_close, fd, 0, 0, 0);
    if (n <= 0)
        return 0;
    text[n] = 0;
    at = strstr(text, "\nRssAnon:");
    for (at = at ? at + sizeof "\nRssAnon:" - 1 : ""; *at == ' ' || *at == '\t'; at++)
        ;
    for (; *at >= '0' && *at <= '9'; at++)
        kib = kib * 10 + (uint64_t) (*at - '0');
    return (int64_t) (kib << 10) - (int64_t) mem_sdk_held() - (int64_t) atomic_load(&core.n_thrs) * OF_A_THREAD;
}

void heap_unseen_begin(void)
{
    before = MAX(anonymous(), 0);
    atomic_store(&at_end, 0);
}

void heap_unseen_main_ended(void)
{
    if (core.types & WICK_HEAP)
        atomic_store(&at_end, anonymous());
}

int64_t heap_unseen(int64_t allocated)
{
    int64_t end = atomic_load(&at_end), unseen = (end ? end : anonymous()) - before - allocated;

    return core.types & WICK_HEAP && unseen > FEW ? unseen : 0;
}
