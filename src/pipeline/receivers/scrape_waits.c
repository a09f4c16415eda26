/* SPDX-License-Identifier: Apache-2.0 */
/* Whose waits are in a mutex or block profile of Go: see scrape_waits.h. */
#include "pipeline/receivers/scrape_waits.h"

#include "model/batch.h"

/* Beginnings of the names of functions that belong to a profiler and never call code of the program. */
static const char *const profilers[] = {
    "wick.dev/go/profiling.(*",
    "wick.dev/go/profiling.serve",
    "wick.dev/go/internal/",
    "wick.dev/go/otlpprofile",
    "net/http/pprof.",
    "runtime/pprof.StartCPUProfile",
    "runtime/pprof.StopCPUProfile",
    "runtime/pprof.profileWriter",
    "runtime/pprof.(*Profile)",
};

/* Goroutines that wait until there is work, by the function that they began with. */
static const char *const idle_roots[] = {
    "net/http.(*persistConn).writeLoop", /* a connection without a request */
    "database/sql.(*DB).connectionOpener",
    "os/signal.loop",
};

static bool is_of_waits(const struct batch *b)
{
    for (uint32_t t = 0; b->n_profiles && t < b->profiles[0].n_types; t++)
        if (str_is(batch_string(b, b->profiles[0].types[t].type), "delay"))
            return true;
    return false;
}

static bool is_of_profiler(struct str f)
{
    for (size_t i = 0; i < ARRAY_SIZE(profilers); i++)
        if (str_starts(f, str_from(profilers[i])))
            return true;
    return false;
}

/* Contention of the runtime's own locks is not an idle goroutine's. */
static bool is_idle(struct str leaf, struct str root, bool in_runtime)
{
    for (size_t i = 0; i < ARRAY_SIZE(idle_roots); i++)
        if (str_is(root, idle_roots[i]))
            return true;
    return in_runtime && root.n && !str_starts(root, STR("runtime._Lost")) && !str_starts(leaf, STR("runtime.unlock"));
}

static bool is_of_program(const struct batch *b, const struct sample *s)
{
    struct run stack = b->dict.stacks[s->stack];
    struct str leaf = {0}, root = {0};
    bool in_runtime = true;

    for (uint32_t i = 0; i < stack.n; i++) {
        struct run lines = b->dict.locations[b->dict.indices[stack.off + i]].lines;

        for (uint32_t k = 0; k < lines.n; k++) {
            root = batch_string(b, b->dict.functions[b->dict.lines[lines.off + k].function].name);
            leaf = leaf.n ? leaf : root;
            in_runtime &= str_starts(root, STR("runtime."));
            if (is_of_profiler(root))
                return false;
        }
    }
    return !is_idle(leaf, root, in_runtime);
}

void scrape_waits_drop(struct batch *b)
{
    struct profile *p = b->profiles;
    uint32_t kept = 0;

    if (!is_of_waits(b))
        return;
    for (uint32_t i = 0; i < p->samples.n; i++)
        if (is_of_program(b, &b->samples[p->samples.off + i]))
            b->samples[p->samples.off + kept++] = b->samples[p->samples.off + i];
    p->samples.n = kept;
}
