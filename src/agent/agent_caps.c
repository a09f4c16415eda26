/* SPDX-License-Identifier: Apache-2.0 */
/* The table of capabilities that the agent keeps, and whether this process has one of them. */
#include "agent/agent_caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

const struct agent_cap agent_caps[] = {
    {CAP_BPF, "CAP_BPF", "BPF programs cannot be loaded", true},
    {CAP_PERFMON, "CAP_PERFMON", "other users' processes and the kernel cannot be sampled", true},
    {CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "other users' processes cannot be read: their stacks have no names", false},
    {CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", "binaries that are not world-readable have no unwind tables and names",
     false},
    {CAP_SYSLOG, "CAP_SYSLOG", "kernel functions have no names", false},
    {CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", "deleted and replaced binaries cannot be read", false},
    {0},
};

static int get(struct __user_cap_data_struct data[2])
{
    struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};

    return syscall(SYS_capget, &h, data) < 0 ? -errno : 0;
}

static bool is_in(const struct __user_cap_data_struct *data, int number)
{
    return data[number / 32].effective >> (number % 32) & 1;
}

bool agent_cap_has(int number)
{
    struct __user_cap_data_struct data[2] = {0};

    if (get(data) < 0)
        return false;
    /* CAP_SYS_ADMIN includes the three newer ones, which were split from it in Linux 5.8 and 5.9 */
    return is_in(data, number) || ((number == CAP_BPF || number == CAP_PERFMON || number == CAP_CHECKPOINT_RESTORE) &&
                                   is_in(data, CAP_SYS_ADMIN));
}
