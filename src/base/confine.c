/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drops users, capabilities and system calls (confine.h). The seccomp filter is a list of comparisons with the number
 * of the call; the kernel caches for each number whether the filter allows it without looking at arguments, so that the
 * length of the list costs nothing for those.
 */
#include "base/confine.h"

#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* --- capabilities --- */

static int get(struct __user_cap_data_struct data[2])
{
    struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};

    return syscall(SYS_capget, &h, data) < 0 ? -errno : 0;
}

static int set(uint64_t keep, bool drop_inheritable)
{
    struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    bool changes = false;
    int r = get(data);

    if (r < 0)
        return r;
    for (int i = 0; i < 2; i++) {
        const struct __user_cap_data_struct had = data[i];

        data[i].permitted &= (uint32_t) (keep >> (32 * i));
        data[i].effective = data[i].permitted;
        if (drop_inheritable)
            data[i].inheritable = 0;
        changes |= had.permitted != data[i].permitted || had.effective != data[i].effective ||
                   had.inheritable != data[i].inheritable;
    }
    if (!changes) /* where systemd forbids the call there is usually nothing to drop */
        return 0;
    return syscall(SYS_capset, &h, data) < 0 ? -errno : 0;
}

int confine_caps_get(uint64_t *ret)
{
    struct __user_cap_data_struct data[2] = {0};
    int r = get(data);

    *ret = data[0].effective | (uint64_t) data[1].effective << 32;
    return r;
}

/* Needs CAP_SETPCAP. Without it the set remains, but no_new_privs makes it ineffective. */
static void drop_bounding(uint64_t keep)
{
    for (int i = 0; i <= 63; i++)
        if (!(keep & CONFINE_CAP(i)))
            prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
}

int confine_caps(uint64_t keep)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    drop_bounding(keep);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); /* kernels before 4.3 have no ambient set */
    return set(keep, true);
}

int confine_become(uid_t uid, gid_t gid, uint64_t keep)
{
    int r;

    drop_bounding(keep);
    if (keep && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
        return -errno;
    if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return -errno;
    if (!keep)
        return 0;
    r = set(keep, false);
    prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
    return r;
}

/* --- system calls --- */

#ifdef THIS_ARCH
enum { CODE_MAX = 4096 };

static void put(struct sock_filter *code, unsigned short *n, struct sock_filter one)
{
    if (*n < CODE_MAX)
        code[*n] = one;
    ++*n;
}

#define PUT(...) put(code, n, (struct sock_filter) __VA_ARGS__)

/* The accumulator holds the number of the call before and after. */
static void put_rule(struct sock_filter *code, unsigned short *n, const struct confine_rule *r)
{
    const struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    uint8_t body = 1;

    if (r->when == CONFINE_ALWAYS || r->when == CONFINE_ENOSYS) {
        PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) r->call, 0, 1));
        if (r->when == CONFINE_ALWAYS)
            put(code, n, allow);
        else
            PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS));
        return;
    }
    if (r->when == CONFINE_WITHOUT_BITS)
        body = 4;
    else
        for (unsigned i = 0; i < 6 && (!i || r->values[i]); i++)
            body = (uint8_t) (2 * (i + 1) + 2);
    PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) r->call, 0, body));
    PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t) (offsetof(struct seccomp_data, args) + 8 * r->arg)));
    if (r->when == CONFINE_WITHOUT_BITS) {
        PUT(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, r->values[0], 1, 0));
        put(code, n, allow);
    } else {
        for (unsigned i = 0; i < 6 && (!i || r->values[i]); i++) {
            PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r->values[i], 0, 1));
            put(code, n, allow);
        }
    }
    PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
}

static int install(const struct confine_rule *rules, size_t n_rules, const struct confine_rule *more, size_t n_more)
{
    static struct sock_filter code[CODE_MAX];
    struct sock_fprog program = {0, code};
    unsigned short *n = &program.len;

    PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
    PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0));
    PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    for (size_t i = 0; i < n_rules; i++)
        put_rule(code, n, &rules[i]);
    for (size_t i = 0; i < n_more; i++)
        put_rule(code, n, &more[i]);
    PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
    if (*n > CODE_MAX)
        return -E2BIG;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -errno : 0;
}
#endif

int confine_calls(const struct confine_rule *rules, size_t n, const struct confine_rule *more, size_t n_more)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    if (SANITIZED)
        return 0;
    if (n + n_more > CONFINE_RULES_MAX)
        return -E2BIG;
#ifdef THIS_ARCH
    return install(rules, n, more, n_more);
#else
    return -ENOSYS;
#endif
}
