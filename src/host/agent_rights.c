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

int agent_rights_drop(bool keep_caps, struct err *e)
{
    uint64_t keep = wanted(), have = 0;
    int r = confine_caps_get(&have);

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
    return r < 0 ? err_set(e, r, "cannot install the system call filter: %s", strerror(-r)) : 0;
}
