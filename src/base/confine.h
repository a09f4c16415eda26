/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives up privileges for good: another user, fewer capabilities, fewer system calls. Every function fails closed: a
 * negative errno means that the process may still have more privileges than it asked to keep, and must not continue.
 *
 * All of them act on the calling thread and on threads and programs that it starts later: call them before other
 * threads exist.
 */
#ifndef BASE_CONFINE_H
#define BASE_CONFINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CONFINE_CAP(number) (UINT64_C(1) << (number))

/* Drops every capability except those in the mask: permitted, effective, inheritable, ambient and, where that is
 * allowed, the bounding set. Capabilities in the mask that the process did not have are not added. Sets
 * no_new_privs. */
int confine_caps(uint64_t keep);
/* The effective capabilities of the calling thread. */
int confine_caps_get(uint64_t *ret);
/* Becomes another user without supplementary groups. Capabilities in the mask are kept if the process had them. */
int confine_become(uid_t uid, gid_t gid, uint64_t keep);

/* One system call that stays allowed. A call that no rule allows fails with EPERM. */
struct confine_rule {
    int call;
    enum confine_when { CONFINE_ALWAYS, CONFINE_WITHOUT_BITS, CONFINE_ONE_OF, CONFINE_ENOSYS } when;
    unsigned arg;       /* for CONFINE_WITHOUT_BITS and CONFINE_ONE_OF: the low 32 bits of this argument are tested */
    uint32_t values[6]; /* the bits, in values[0]; or the values, terminated by 0 unless it is the first */
};

enum { CONFINE_RULES_MAX = 512 };

/* Installs the rules of both lists (NULL: none) as a seccomp filter, with no_new_privs. In a build with a sanitizer,
 * whose run-time library needs other calls, it only sets no_new_privs. -ENOSYS on an unsupported architecture. */
int confine_calls(const struct confine_rule *rules, size_t n, const struct confine_rule *more, size_t n_more);

/* The calls that every daemon of wick uses: memory, threads, clocks, files, sockets, children. No mounts, namespaces,
 * modules, keys, ptrace or changes of owner. The number of rules is confine_daemon_n. */
extern const struct confine_rule confine_daemon[];
extern const size_t confine_daemon_n;

#endif
