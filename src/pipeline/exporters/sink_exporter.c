/* SPDX-License-Identifier: Apache-2.0 */
/* `sink`: passes profiles and traces to the sinks that the program provides (host.sink, host.traces), such as a store and
 * a span index. */
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
    struct sink *sink = args->signal == SIGNAL_TRACES ? args->host->traces : args->host->sink;
    struct instance *i;

    if (!sink && args->host->sink)
        return err_set(e, -EOPNOTSUPP, "traces are not kept here: traces.enabled is false");
    if (!sink)
        return err_set(e, -EOPNOTSUPP, "this program has no store; use the exporter sink with `wick serve`");
    i = mem_zalloc(sizeof *i);
    if (!i)
        return -ENOMEM;
    i->sink = sink;
    i->free = free_instance;
    *ret = i;
    return 0;
}

const struct component component_sink_exporter = {
    .kind = COMPONENT_EXPORTER,
    .name = "sink",
    .help = "passes profiles and traces to the store of wick serve",
    .signals = 1u << SIGNAL_PROFILES | 1u << SIGNAL_TRACES,
    .options = options,
    .create = create,
};
