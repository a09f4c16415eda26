/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving up rights for good: another user, fewer capabilities, fewer system calls. Every function fails closed: a negative
 * errno means that the process may still have more than it asked to keep, and that it must not go on.
 *
 * All of them act on the calling thread and on threads and programs that it starts later: call them before there are others.
 */
#ifndef BASE_CONFINE_H
#define BASE_CONFINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CONFINE_CAP(number) (UINT64_C(1) << (number))

/* Drops every capability but those of the mask: permitted, effective, inheritable, ambient and, where that is allowed, the
 * bounding set. What is in the mask but was not there stays absent. Sets no_new_privs. */
int confine_caps(uint64_t keep);
/* The effective capabilities of the calling thread. */
int confine_caps_get(uint64_t *ret);
/* Becomes another user without supplementary groups. Capabilities in the mask survive, where they were there. */
int confine_become(uid_t uid, gid_t gid, uint64_t keep);

/* One system call that stays allowed. A call that no rule allows fails with EPERM. */
struct confine_rule {
    int call;
    enum confine_when { CONFINE_ALWAYS, CONFINE_WITHOUT_BITS, CONFINE_ONE_OF, CONFINE_ENOSYS } when;
    unsigned arg;       /* of CONFINE_WITHOUT_BITS and CONFINE_ONE_OF: its low 32 bits are looked at */
    uint32_t values[6]; /* the bits in values[0]; or the values, 0 ends them unless it is the first */
};

enum { CONFINE_RULES_MAX = 512 };

/* Installs the rules of both lists (NULL: none) as a seccomp filter, with no_new_privs. In a build with a sanitizer, whose
 * run-time library needs other calls, it only sets no_new_privs. -ENOSYS on an architecture that it does not know. */
int confine_calls(const struct confine_rule *rules, size_t n, const struct confine_rule *more, size_t n_more);

/* What every daemon of wick uses: memory, threads, clocks, files, sockets, children. No mounts, namespaces, modules, keys,
 * ptrace or changes of owner. Ended by n. */
extern const struct confine_rule confine_daemon[];
extern const size_t confine_daemon_n;

#endif
