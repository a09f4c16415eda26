/* SPDX-License-Identifier: Apache-2.0 */
/* Gives up root and all capabilities that the agent does not need, and installs the filter of system calls. */
#include "host/agent_rights.h"

#include <errno.h>
#include <linux/capability.h>
#include <pwd.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent_caps.h"
#include "agent/perf_opener.h"
#include "base/confine.h"
#include "base/log.h"
#include "base/macros.h"

/* The last uid of the range that server/service_user.h describes: never that of the server, which takes the first free
 * one. */
enum { AGENT_UID = 61099 };

/* clang-format off */
static const struct confine_rule more[] = {
    {.call = __NR_bpf}, {.call = __NR_perf_event_open}, {.call = __NR_process_vm_readv}, {.call = __NR_name_to_handle_at},
    {.call = __NR_kcmp},
};
/* clang-format on */

static uint64_t wanted(void)
{
    uint64_t keep = 0;

    for (const struct agent_cap *c = agent_caps; c->name; c++)
        keep |= CONFINE_CAP(c->number);
    return keep;
}

/* Kernels before 5.11 count BPF maps against this limit, and raising it needs a capability that is dropped. */
static void raise_memlock(void)
{
    const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};

    setrlimit(RLIMIT_MEMLOCK, &all);
}

static int become(uint64_t keep, struct err *e)
{
    const struct passwd *pw = getpwnam("wick-agent");
    uint64_t have = 0;
    int r = confine_caps_get(&have);

    if (r < 0)
        return err_set(e, r, "cannot read capabilities: %s", strerror(-r));
    if (!(have & CONFINE_CAP(CAP_SETUID)) || !(have & CONFINE_CAP(CAP_SETGID)))
        return 0; /* root of a container, or systemd has removed them: the rest is dropped below */
    r = confine_become(pw ? pw->pw_uid : AGENT_UID, pw ? pw->pw_gid : AGENT_UID, keep);
    if (r == -EINVAL) /* a user namespace that has no such uid */
        return 0;
    return r < 0 ? err_set(e, r, "cannot become an unprivileged user: %s", strerror(-r)) : 0;
}

uid_t agent_rights_uid(void)
{
    const struct passwd *pw = getpwnam("wick-agent");

    return pw ? pw->pw_uid : AGENT_UID;
}

/* clang-format off */
static const struct confine_rule opener_calls[] = {
    {.call = __NR_perf_event_open}, {.call = __NR_recvmsg}, {.call = __NR_sendmsg}, {.call = __NR_close},
    {.call = __NR_exit_group}, {.call = __NR_rt_sigreturn},
};
/* clang-format on */

/* Of the process that opens perf events (agent/perf_opener.h). */
static int restrict_opener(void)
{
    const uint64_t keep = CONFINE_CAP(CAP_SYS_ADMIN);
    int r = geteuid() == 0 ? become(keep, NULL) : 0;

    if (r == 0)
        r = confine_caps(keep);
    return r < 0 ? r : confine_calls(opener_calls, ARRAY_SIZE(opener_calls), NULL, 0);
}

int agent_rights_drop(bool keep_caps, struct err *e)
{
    uint64_t keep = wanted(), have = 0;
    int r = confine_caps_get(&have);

    if (r == 0 && !keep_caps && have & CONFINE_CAP(CAP_SYS_ADMIN))
        r = perf_opener_start(restrict_opener);
    if (r == 0 && !(have & CONFINE_CAP(CAP_BPF)) && have & CONFINE_CAP(CAP_SYS_ADMIN))
        keep |= CONFINE_CAP(CAP_SYS_ADMIN); /* before Linux 5.8 it includes the newer ones */
    raise_memlock();
    if (r == 0 && geteuid() == 0 && !keep_caps)
        r = become(keep, e);
    if (r < 0)
        return r;
    if (!keep_caps)
        r = confine_caps(keep);
    if (r < 0)
        return err_set(e, r, "cannot drop capabilities: %s", strerror(-r));
    r = confine_calls(confine_daemon, confine_daemon_n, more, ARRAY_SIZE(more));
    if (r < 0)
        return err_set(e, r, "cannot install the system call filter: %s", strerror(-r));
    perf_opener_settle();
    return 0;
}

/* Beyond the rights of the agent itself: to become its user, to give up rights, to open perf events for it, to raise its
 * limits, and to end it when it hangs. */
int agent_rights_starter(void)
{
    static const int more_caps[] = {CAP_SETUID, CAP_SETGID, CAP_SETPCAP, CAP_SYS_ADMIN, CAP_SYS_RESOURCE, CAP_KILL};
    uint64_t keep = wanted();

    for (size_t i = 0; i < ARRAY_SIZE(more_caps); i++)
        keep |= CONFINE_CAP(more_caps[i]);
    return geteuid() == 0 ? confine_caps(keep) : 0;
}
