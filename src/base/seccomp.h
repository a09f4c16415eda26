/* SPDX-License-Identifier: Apache-2.0 */
/* Seccomp filters of the calling thread. */
#ifndef BASE_SECCOMP_H
#define BASE_SECCOMP_H

/* The number of filters, from /proc (Linux 5.9 and later). -1 if it cannot be read. */
int seccomp_filters(void);

#endif
