/* SPDX-License-Identifier: Apache-2.0 */
/* What every decoder and builder promises, for unit tests and fuzzers. */
#ifndef TESTS_BATCH_VALIDATE_H
#define TESTS_BATCH_VALIDATE_H

#include "base/err.h"

struct batch;

/* Checks every guarantee that the head of model/batch.h gives: indices are inside their tables, runs inside their pools,
 * entries 0 exist. -EINVAL with an error message. */
int batch_validate(const struct batch *b, struct err *e);

#endif
