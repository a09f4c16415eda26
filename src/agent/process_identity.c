/* SPDX-License-Identifier: Apache-2.0 */
/* See identity.h; identity_read.c does the reading. */
#include "agent/identity.h"

#include <errno.h>

#include "agent/identity_read.h"
#include "agent/process.h"
#include "base/mem.h"
#include "model/builder.h"

struct identity {
    struct identity_attrs attrs;
    char *service;
};

static const struct identity_rules *rules; /* set once, before the agent runs */

void identity_set_rules(const struct identity_rules *r)
{
    rules = r;
}

int identity_new(const struct process *p, struct identity **ret, struct err *e)
{
    _cleanup_(elf_freep) struct elf_file *exe = NULL;
    struct proc_memory memory = proc_memory_of((int) p->pid);
    struct identity_source s = {.proc = "/proc", .root = "/", .pid = (int) p->pid, .memory = &memory, .rules = rules};
    struct identity *i = mem_zalloc(sizeof *i);
    struct str name;
    int r;

    if (!i)
        return -ENOMEM;
    if (p->exe && object_open_elf(p->exe, &exe, NULL) >= 0)
        s.exe = exe;
    r = identity_read(&s, &i->attrs);
    name = identity_attrs_get(&i->attrs, STR("service.name"));
    if (r == 0 && !(i->service = mem_alloc(name.n + 1u)))
        r = -ENOMEM;
    if (r < 0) {
        identity_free(i);
        return err_set(e, r, "no memory for who process %u is", p->pid);
    }
    memcpy(i->service, name.p ? name.p : "", name.n);
    i->service[name.n] = 0;
    *ret = i;
    return 0;
}

void identity_free(struct identity *i)
{
    if (!i)
        return;
    identity_attrs_done(&i->attrs);
    mem_free(i->service);
    mem_free(i);
}

void identity_put(const struct identity *i, struct builder *b)
{
    for (uint32_t k = 0; k < i->attrs.n; k++)
        builder_resource_attr(b, i->attrs.v[k].key, &i->attrs.v[k].value);
}

const char *identity_service(const struct identity *i)
{
    return i->service;
}
