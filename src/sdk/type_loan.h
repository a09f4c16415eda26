/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profile types that are not in the settings, turned on for requests to /debug/pprof and off again when the last
 * request has ended, including by a client that disconnected. Background thread only.
 */
#ifndef SDK_TYPE_LOAN_H
#define SDK_TYPE_LOAN_H

#include "base/err.h"
#include "sdk/provider.h"

struct type_loan {
    bool on;       /* was turned on here */
    int users;     /* number of requests that collect it */
    int64_t until; /* it stays on until then, CLOCK_MONOTONIC */
};

/* Turns the type on if it is off. Returns 0, or a negative errno with nothing changed. */
int type_loan_take(struct wick_provider *p, struct type_loan loans[N_TYPES], int type, struct err *e);
/* A request has ended; the type stays on until the given time at least. */
void type_loan_return(struct type_loan *l, int64_t until);
/* Turns off types that are no longer used. */
void type_loan_expire(struct wick_provider *p, struct type_loan loans[N_TYPES], int64_t now);

#endif
