/* SPDX-License-Identifier: Apache-2.0 */
/* The last step of a verdict (verdict.h): what was compared is decided and described. */
#ifndef QUERY_VERDICT_JUDGE_H
#define QUERY_VERDICT_JUDGE_H

#include "query/verdict.h"

/* Sets verdict, cause, sentence, headline, interval and cores_change from the rest. min_points: 0 = DRIFT_MIN_POINTS. */
void verdict_judge(struct verdict_answer *v, double min_points);
/* The function to name for a rise (sign 1) or a fall (-1) of shares; NULL: no change is significant. */
const struct drift_row *verdict_cause(const struct drift_answer *d, double sign);

#endif
