/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the event loops answer: a server with one that hangs is not alive, though its process is. */
#include <stdatomic.h>

#include "base/macros.h"
#include "net/loop.h"
#include "serve/serve_state.h"

static void answer(struct loop_call *c)
{
    struct pulse_beat *b = container_of(c, struct pulse_beat, call);

    atomic_store(&b->asked, false);
}

bool serve_pulse(struct serve *s)
{
    unsigned n = MIN(loop_group_size(s->loops), (unsigned) ARRAY_SIZE(s->beats));
    bool alive = true;

    for (unsigned i = 0; i < n; i++) {
        struct pulse_beat *b = &s->beats[i];

        if (atomic_load(&b->asked)) {
            alive = false;
            continue;
        }
        atomic_store(&b->asked, true);
        b->call = (struct loop_call){.run = answer};
        if (loop_post(loop_group_at(s->loops, i), &b->call) < 0)
            atomic_store(&b->asked, false);
    }
    return alive;
}
