/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profile types that are not in the settings, switched on for requests to /debug/pprof and off again when the last request
 * has ended, also by a client that went away. Background only.
 */
#ifndef SDK_TYPE_LOAN_H
#define SDK_TYPE_LOAN_H

#include "base/err.h"
#include "sdk/provider.h"

struct type_loan {
    bool on;       /* switched on here */
    int users;     /* requests that collect it */
    int64_t until; /* it stays on until then, CLOCK_MONOTONIC */
};

/* Switches the type on if it is off. 0, or a negative errno with nothing changed. */
int type_loan_take(struct wick_provider *p, struct type_loan loans[N_TYPES], int type, struct err *e);
/* A request has ended; the type is on until the given time at least. */
void type_loan_return(struct type_loan *l, int64_t until);
/* Switches off what nobody uses. */
void type_loan_expire(struct wick_provider *p, struct type_loan loans[N_TYPES], int64_t now);

#endif
