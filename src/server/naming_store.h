/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store that wraps another one: native frames without names in its trees and profiles are named as far as the name
 * source knows them. The names are saved in the wrapped store (store_ops.name_later), so that each is looked up once.
 * Everything else is passed through. Closing it does not close the wrapped store.
 */
#ifndef SERVER_NAMING_STORE_H
#define SERVER_NAMING_STORE_H

#include "store/store.h"

struct name_source;

int naming_store_new(struct store *behind, struct name_source *names, struct store **ret);

#endif
