/* SPDX-License-Identifier: Apache-2.0 */
/* libwick.so's side of start.h: nothing happens but by its API. */
#include "sdk/start.h"

#include "sdk/provider.h"

void start_child_file(struct wick_provider *p)
{
    p->s.file = NULL; /* the parent's */
}

void start_check_ending(void)
{
}
