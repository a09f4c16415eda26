/* SPDX-License-Identifier: Apache-2.0 */
/* What can be learned about a store from its directory, without opening it: for commands and for the server, which must not know the
 * files of an engine. */
#ifndef STORE_STORE_PLACE_H
#define STORE_STORE_PLACE_H

#include <stdbool.h>

#include "base/err.h"

/* The file that every store in a directory has. */
#define STORE_PLACE_MARK "FORMAT"
/* The folder for copies that a running server makes (POST /api/v1/snapshot). It does not count for retention.size. */
#define STORE_PLACE_SNAPSHOTS "snapshots"

/* Whether there is a store at a location: a directory with one, or a location of an engine that needs no directory. */
bool store_place_exists(const char *place);
/* Moves aside what the engine can derive again from the rest, before it is opened. The store must not be in use. */
int store_place_rebuild(const char *dir, struct err *e);

#endif
