/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the server gives up before it listens: root, when it was started as root and has a user to be instead, and the right
 * to ever gain more (no_new_privs). Called before any thread runs.
 */
#ifndef SERVE_SERVE_RIGHTS_H
#define SERVE_SERVE_RIGHTS_H

#include <stdbool.h>

#include "base/err.h"

/* user: whom to be; NULL or "": stay. named: somebody wrote it down, so that it must exist. dirs: what that user must own,
 * NULL-terminated; new and empty ones are handed over. */
int serve_rights_drop(const char *user, bool named, const char *const *dirs, struct err *e);

#endif
