/* SPDX-License-Identifier: Apache-2.0 */
/* `sink`: passes batches to the sink that the program provides (host.sink), such as a store. */
#include <errno.h>

#include "base/mem.h"
#include "model/sink.h"
#include "pipeline/graph/component.h"
#include "pipeline/graph/host.h"

static const struct option options[] = {{0}};

static void free_instance(struct instance *i)
{
    mem_free(i);
}

static int create(const struct component_args *args, struct instance **ret, struct err *e)
{
    struct instance *i;

    if (!args->host->sink)
        return err_set(e, -EOPNOTSUPP, "this program has no store; use the exporter sink with `wick serve`");
    i = mem_zalloc(sizeof *i);
    if (!i)
        return -ENOMEM;
    i->sink = args->host->sink;
    i->free = free_instance;
    *ret = i;
    return 0;
}

const struct component component_sink_exporter = {
    .kind = COMPONENT_EXPORTER,
    .name = "sink",
    .help = "passes profiles to the store of wick serve",
    .signals = ONLY_PROFILES,
    .options = options,
    .create = create,
};
