/* SPDX-License-Identifier: Apache-2.0 */
/* What a server needs for a fleet, calculated from what was measured (bench/RESULTS.md). */
#ifndef HOST_DOCTOR_PLAN_H
#define HOST_DOCTOR_PLAN_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* Appends the plan for "hosts=500,cores=16,busy=30,rate=19,keep=30d,detail=7d", as text or JSON; hosts is required, the others are these
 * by default, but for cores=8. -EINVAL with what is wrong in the text. */
int doctor_plan(struct str text, bool json, struct buf *out, struct err *e);

#endif
