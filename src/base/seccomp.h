/* SPDX-License-Identifier: Apache-2.0 */
/* Seccomp filters of the calling thread. */
#ifndef BASE_SECCOMP_H
#define BASE_SECCOMP_H

/* How many there are, as /proc shows it (Linux 5.9 and later). -1 if that cannot be read. */
int seccomp_filters(void);

#endif
