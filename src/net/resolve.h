/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves names to addresses without blocking a loop: libc's resolver runs on a few threads of the process, and the answer
 * is delivered as a call on the loop. A name is looked up once however many ask for it, and its answer is used for 10 s,
 * an error for 2 s. Numeric addresses and unix paths are answered at once.
 */
#ifndef NET_RESOLVE_H
#define NET_RESOLVE_H

#include "net/address.h"
#include "net/loop.h"

enum { RESOLVE_MAX = 8 };

struct resolve;

/* done runs on the loop's thread, from inside this call or later, exactly once unless cancelled: n addresses, or a
 * negative errno with an error message. *ret is NULL if it has run already. */
int resolve_start(struct loop *l, const struct address_parts *p,
                  void (*done)(void *arg, int n, const struct address *list, const struct err *e), void *arg,
                  struct resolve **ret);
void resolve_cancel(struct resolve *r); /* accepts NULL */

#endif
