/* SPDX-License-Identifier: Apache-2.0 */
/* Shows a recorded batch with pprof's reports or its shell (record_report.h). */
#include "record/record_report.h"

#include <errno.h>

#include "model/convert.h"
#include "pprof/pprof_commands.h"
#include "pprof/pprof_output.h"
#include "pprof/pprof_shell.h"
#include "report/prof.h"

enum { ROWS = 30 };

int record_report(struct batch *b, const char *command, struct err *e)
{
    _cleanup_(batch_unrefp) struct batch *single = NULL;
    struct pprof_config config;
    struct prof_pool pool;
    struct prof *p = NULL;
    int r = convert_to_single(b, &single, e);

    if (r == 0 && !single->n_profiles)
        r = err_set(e, -ENODATA, "the profile contains no samples");
    if (r < 0)
        return r;
    r = prof_pool_init(&pool);
    if (r < 0)
        return r;
    config_defaults(&config);
    if (command)
        config.nodecount = ROWS;
    r = prof_from_batch(&pool, single, &single->profiles[0], &p, e);
    if (r >= 0 && command)
        r = pprof_report(p, pprof_command_find(str_from(command)), (struct str){0}, &config, false, e);
    else if (r >= 0)
        r = pprof_shell(p, &config, e);
    prof_free(p);
    prof_pool_done(&pool);
    pprof_output_done();
    return r < 0 ? r : 0;
}
