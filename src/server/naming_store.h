/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store in front of another: trees and profiles that come out with native frames without names are given names, as far
 * as the name source knows some, which are kept in the store behind (store_ops.name_later) so that they are asked for once.
 * Everything else is handed through. Closing it closes nothing behind it.
 */
#ifndef SERVER_NAMING_STORE_H
#define SERVER_NAMING_STORE_H

#include "store/store.h"

struct name_source;

int naming_store_new(struct store *behind, struct name_source *names, struct store **ret);

#endif
