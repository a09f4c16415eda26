/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the running server that know people: the audit log, and logins with an OpenID provider. */
#ifndef SERVE_SERVE_PEOPLE_H
#define SERVE_SERVE_PEOPLE_H

#include "base/err.h"

struct serve;

/* After s->auth was opened: whether people are known decides where the server may listen. */
int serve_people_know(struct serve *s, struct err *e);
/* After the store was opened, whose directory has the audit log unless another place is configured; a default one that cannot be
 * opened is a warning. */
int serve_people_start(struct serve *s, struct err *e);
void serve_people_stop(struct serve *s);

#endif
