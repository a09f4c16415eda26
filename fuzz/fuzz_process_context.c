/* SPDX-License-Identifier: Apache-2.0 */
/* What a watched process and its container's runtime say of it: OTEL_CTX, control groups, config.json, environment. The
 * first byte chooses. */
#include "agent/cgroup.h"
#include "agent/container_files.h"
#include "agent/identity_read.h"
#include "agent/process_context.h"
#include "elf/go_build.h"
#include "proc/jit_names.h"
#include "proc/kallsyms.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int take_pair(void *data, struct str key, struct str value)
{
    return key.n > 100 || value.n > 1000;
}

static void context(struct str s)
{
    struct process_context c;
    struct arena a;

    arena_init(&a, 1 << 20);
    process_context_decode(s, &a, &c);
    identity_each_pair(s, &a, take_pair, NULL);
    arena_done(&a);
}

static void names(struct str s, bool kernel)
{
    struct addr_names t = ADDR_NAMES_INIT;
    uint64_t start;
    struct str name;
    size_t used;

    if (kernel) {
        kallsyms_parse(s, &t);
    } else {
        jit_names_parse(s, &used, &t);
        addr_names_sort(&t);
    }
    for (size_t i = 0; i < t.n; i++)
        addr_names_find(&t, t.v[i].start + t.v[i].size, &name, &start);
    addr_names_done(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str s = {(const char *) data + 1, size ? (uint32_t) size - 1 : 0};
    struct container_names files = {0};
    struct cgroup_names groups;
    struct go_build build = {0};

    if (!size)
        return 0;
    switch (data[0] % 6) {
    case 0:
        context(s);
        break;
    case 1:
        cgroup_parse(s, &groups);
        break;
    case 2:
        container_names_parse(s, &files);
        break;
    case 3:
        names(s, false);
        break;
    case 4:
        names(s, true);
        break;
    default:
        go_build_parse(s, &build);
    }
    return 0;
}
