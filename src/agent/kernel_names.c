/* SPDX-License-Identifier: Apache-2.0 */
/* Names kernel addresses. proc/kallsyms.c reads the list; this file keeps it, reads it again when modules were loaded,
 * and reads the kernel's build id. */
#include "agent/kernel_names.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "elf/elf_id.h"
#include "proc/kallsyms.h"

#define AGAIN_NS (60 * NS_PER_S)

/* The directory with the list. The systemd unit copies kallsyms before it gives up the right to read addresses. */
static const char *folder(void)
{
    const char *given = getenv("WICK_KALLSYMS_DIR");

    return given && given[0] == '/' ? given : "/proc";
}

bool kernel_names_given(void)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/kallsyms", folder());
    return getenv("WICK_KALLSYMS_DIR") && access(path, R_OK) == 0;
}

struct kernel_names {
    struct addr_names names;
    int64_t read_ns;
};

int kernel_names_new(struct kernel_names **ret, struct err *e)
{
    struct kernel_names *k = mem_zalloc(sizeof *k);
    int r;

    if (!k)
        return -ENOMEM;
    k->names = ADDR_NAMES_INIT;
    r = kallsyms_read(folder(), &k->names, e);
    if (r < 0) {
        kernel_names_free(k);
        return r;
    }
    k->read_ns = clock_mono();
    *ret = k;
    return 0;
}

void kernel_names_free(struct kernel_names *k)
{
    if (!k)
        return;
    addr_names_done(&k->names);
    mem_free(k);
}

static bool read_again(struct kernel_names *k)
{
    struct addr_names more = ADDR_NAMES_INIT;
    int64_t now = clock_mono();

    if (now - k->read_ns < AGAIN_NS)
        return false;
    k->read_ns = now;
    if (kallsyms_read(folder(), &more, NULL) < 0) {
        addr_names_done(&more);
        return false;
    }
    addr_names_done(&k->names);
    k->names = more;
    return true;
}

bool kernel_names_find(struct kernel_names *k, uint64_t address, struct kernel_name *ret)
{
    struct str name;
    ptrdiff_t at;

    if (!addr_names_find(&k->names, address, &name, &ret->start) &&
        (!read_again(k) || !addr_names_find(&k->names, address, &name, &ret->start)))
        return false;
    at = str_find(name, STR(" ["));
    ret->name = at < 0 ? name : str_slice(name, 0, (size_t) at);
    ret->module = at < 0 ? (struct str){0} : str_slice(name, (size_t) at + 2, name.n - 1u);
    return true;
}

/* /sys/kernel/notes: u32 name size, u32 desc size, u32 type, name, desc, each padded to 4. */
const char *kernel_build_id(void)
{
    static char id[ELF_ID_MAX];
    static bool tried;
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    if (tried)
        return id;
    tried = true;
    if (fd_read_file("/sys/kernel/notes", 1 << 20, &b, NULL) < 0)
        return id;
    for (size_t at = 0; at + 12 <= b.n;) {
        uint32_t v[3];
        size_t desc;

        memcpy(v, b.p + at, sizeof v);
        if (v[0] > b.n || v[1] > b.n)
            break;
        desc = at + 12 + ALIGN_UP((size_t) v[0], 4);
        if (desc + v[1] > b.n)
            break;
        if (v[2] == 3 && v[0] == 4 && memcmp(b.p + at + 12, "GNU", 4) == 0 && v[1] <= 64) {
            *hex_write(id, b.p + desc, v[1]) = 0;
            break;
        }
        at = desc + ALIGN_UP((size_t) v[1], 4);
    }
    return id;
}
