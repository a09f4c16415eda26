/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses /proc/kallsyms. The file is ordered by module, not by address: all symbols are read and sorted; symbols that
 * are not code are used as the end of the code before them, and then removed.
 */
#include "proc/kallsyms.h"

#include <errno.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/fd.h"

static bool take_address(struct str *line, uint64_t *ret)
{
    return hex_number(str_cut(line, ' '), ret) && line->n > 2 && line->p[1] == ' ';
}

static int add_line(struct str line, struct addr_names *t)
{
    char text[512], type;
    struct str name, module;
    uint64_t address;
    int n;

    if (!take_address(&line, &address) || !address)
        return 0;
    type = line.p[0];
    line = str_slice(line, 2, line.n);
    if (type != 't' && type != 'T' && type != 'w' && type != 'W') /* marks an end; has no name */
        return addr_names_add(t, address, 0, (struct str){0});
    name = str_cut(&line, '\t');
    module = str_trim(line);
    if (!module.n)
        return addr_names_add(t, address, 0, name);
    n = snprintf(text, sizeof text, "%.*s %.*s", STR_FMT(name), STR_FMT(module));
    return addr_names_add(t, address, 0, (struct str){text, (uint32_t) MIN(n, (int) sizeof text - 1)});
}

static bool has_name(const struct addr_names *t, const struct addr_name *e)
{
    uint16_t n;

    memcpy(&n, t->pool.p + e->name, sizeof n);
    return n > 0;
}

/* Of several symbols at one address, the first one that is code is kept. */
static void set_sizes(struct addr_names *t)
{
    uint64_t end, last = 0;
    size_t kept = 0;

    for (size_t i = 0, next = 0; i < t->n; i++) {
        for (next = MAX(next, i); next < t->n && t->v[next].start == t->v[i].start; next++)
            ;
        end = next < t->n ? t->v[next].start : UINT64_MAX;
        if (t->v[i].start == last || !has_name(t, &t->v[i]))
            continue;
        last = t->v[i].start;
        t->v[kept] = t->v[i];
        t->v[kept++].size = (uint32_t) MIN(end - t->v[i].start, (uint64_t) KALLSYMS_SIZE_MAX);
    }
    t->n = kept;
}

int kallsyms_parse(struct str text, struct addr_names *t)
{
    int r = 0;

    while (text.n && r == 0)
        r = add_line(str_cut(&text, '\n'), t);
    if (r < 0)
        return r;
    addr_names_order(t);
    set_sizes(t);
    return 0;
}

int kallsyms_read(const char *proc, struct addr_names *t, struct err *e)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    char path[4096];
    int r;

    snprintf(path, sizeof path, "%s/kallsyms", proc);
    r = fd_read_file(path, KALLSYMS_FILE_MAX, &b, e);
    if (r < 0)
        return r;
    r = kallsyms_parse(buf_str(&b), t);
    if (r == 0 && t->n == 0)
        return err_set(e, -EPERM, "the kernel hides its addresses (CAP_SYSLOG is required to read '%s')", path);
    return r;
}
