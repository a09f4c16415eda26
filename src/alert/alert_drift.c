/* SPDX-License-Identifier: Apache-2.0 */
/* The checks that compare: drift of functions against a baseline, and the verdict on a new version. See alert_eval.h. */
#include <errno.h>

#include "alert/alert_eval.h"

int alert_look_drift(struct alert_look *l, struct err *e)
{
    (void) l;
    return err_set(e, -ENOTSUP, "rules of this type are not evaluated yet");
}

int alert_look_verdict(struct alert_look *l, struct err *e)
{
    (void) l;
    return err_set(e, -ENOTSUP, "rules of this type are not evaluated yet");
}
