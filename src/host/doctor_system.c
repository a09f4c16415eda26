/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of `wick doctor` (doctor.h) for the kernel and what it allows profilers to see. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "host/doctor.h"

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif
#ifndef CAP_BPF
#define CAP_BPF 39
#endif

void doctor_say(struct doctor_result *r, enum doctor_verdict v, const char *fix, const char *fmt, ...)
{
    va_list ap;

    r->verdict = v;
    snprintf(r->fix, sizeof r->fix, "%s", fix);
    va_start(ap, fmt);
    vsnprintf(r->state, sizeof r->state, fmt, ap);
    va_end(ap);
}

/* A number in a file of /proc/sys; -1 if the file does not exist. */
static long sysctl_number(const char *path)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    int64_t v;

    if (fd_read_file(path, 4096, &b, NULL) < 0 || str_to_i64(str_trim(buf_str(&b)), 10, &v) < 0)
        return -1;
    return (long) v;
}

static bool has_capability(int cap)
{
    struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct d[2];

    if (syscall(SYS_capget, &h, d) < 0)
        return false;
    return d[cap / 32].effective >> (cap % 32) & 1;
}

static void check_kernel(struct doctor_result *r)
{
    struct utsname u;
    unsigned major = 0, minor = 0;

    uname(&u);
    sscanf(u.release, "%u.%u", &major, &minor);
    if (major < 5 || (major == 5 && minor < 10))
        doctor_say(r, DOCTOR_BAD,
                   "the host agent requires Linux 5.10 or later; 'wick run' and the SDK work on any version",
                   "Linux %s", u.release);
    else if (major == 5 && minor < 17)
        doctor_say(r, DOCTOR_OK, "", "Linux %s (no bpf_loop: stacks are walked by a bounded loop)", u.release);
    else
        doctor_say(r, DOCTOR_OK, "", "Linux %s", u.release);
}

static void check_btf(struct doctor_result *r)
{
    if (access("/sys/kernel/btf/vmlinux", R_OK) == 0)
        doctor_say(r, DOCTOR_OK, "", "/sys/kernel/btf/vmlinux exists");
    else
        doctor_say(r, DOCTOR_BAD, "use a kernel with CONFIG_DEBUG_INFO_BTF=y; without it: wick record --via perf",
                   "the kernel provides no type information (BTF)");
}

static void check_capabilities(struct doctor_result *r)
{
    static const struct {
        int cap;
        const char *name, *loss;
    } wanted[] = {
        {CAP_BPF, "CAP_BPF", "no host agent with BPF"},
        {CAP_PERFMON, "CAP_PERFMON", "no sampling of other users' processes"},
        {CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "no access to other processes' memory: no interpreted frames"},
        {CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", "no access to other users' files: fewer function names"},
    };
    char missing[300] = "";
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
        if (!has_capability(wanted[i].cap))
            n += (size_t) snprintf(missing + n, sizeof missing - n, "%s%s (%s)", n ? "; " : "", wanted[i].name,
                                   wanted[i].loss);
    if (n)
        doctor_say(
            r, DOCTOR_NOTE,
            "run the agent as root or with its systemd unit; 'wick run' profiles your own processes without privileges",
            "missing: %s", missing);
    else
        doctor_say(r, DOCTOR_OK, "", "BPF, PERFMON, SYS_PTRACE and DAC_READ_SEARCH are available");
}

static void check_perf(struct doctor_result *r)
{
    long v = sysctl_number("/proc/sys/kernel/perf_event_paranoid");

    if (v < 0)
        doctor_say(r, DOCTOR_NOTE, "", "the kernel does not support perf events");
    else if (v > 2 && !has_capability(CAP_PERFMON) && !has_capability(CAP_SYS_ADMIN))
        doctor_say(r, DOCTOR_NOTE, "sysctl kernel.perf_event_paranoid=2 (or lower), or CAP_PERFMON",
                   "kernel.perf_event_paranoid is %ld: users may not use perf events", v);
    else if (!has_capability(CAP_PERFMON) && !has_capability(CAP_SYS_ADMIN))
        doctor_say(r, DOCTOR_NOTE, "", "kernel.perf_event_paranoid is %ld: only processes of this user%s", v,
                   v > 1 ? ", without the kernel" : "");
    else
        doctor_say(r, DOCTOR_OK, "", "kernel.perf_event_paranoid is %ld", v);
}

/* Whether this user sees addresses in /proc/kallsyms: what else but kptr_restrict decides that differs between kernels. */
static bool sees_kernel_addresses(void)
{
    char text[4096];
    int fd = fd_open(AT_FDCWD, "/proc/kallsyms", O_RDONLY, 0);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text);
    bool line = true;

    fd_close(fd);
    for (ssize_t i = 0; i < n; i++) {
        if (line && text[i] == ' ') /* after the address */
            line = false;
        else if (line && text[i] != '0')
            return true;
        else if (text[i] == '\n')
            line = true;
    }
    return false;
}

static void check_kernel_names(struct doctor_result *r)
{
    long v = sysctl_number("/proc/sys/kernel/kptr_restrict");

    if ((v == 1 && !has_capability(CAP_SYSLOG)) || v > 1)
        doctor_say(r, DOCTOR_NOTE,
                   v > 1 ? "sysctl kernel.kptr_restrict=1" : "CAP_SYSLOG, or sysctl kernel.kptr_restrict=0",
                   "kernel.kptr_restrict is %ld: kernel frames have no names", v);
    else if (!sees_kernel_addresses())
        doctor_say(r, DOCTOR_NOTE, "CAP_SYSLOG", "/proc/kallsyms has no addresses for this user: kernel frames have no names");
    else
        doctor_say(r, DOCTOR_OK, "", "kernel.kptr_restrict is %ld", v);
}

static void check_ptrace(struct doctor_result *r)
{
    long v = sysctl_number("/proc/sys/kernel/yama/ptrace_scope");

    if (v > 0 && !has_capability(CAP_SYS_PTRACE))
        doctor_say(r, DOCTOR_NOTE, "CAP_SYS_PTRACE, or sysctl kernel.yama.ptrace_scope=0",
                   "kernel.yama.ptrace_scope is %ld: 'wick dump PID' works for children only", v);
    else if (!has_capability(CAP_SYS_PTRACE))
        doctor_say(r, DOCTOR_NOTE, "CAP_SYS_PTRACE", "only processes of this user are readable");
    else
        doctor_say(r, DOCTOR_OK, "", "processes of all users are readable");
}

static void check_confinement(struct doctor_result *r)
{
    long landlock = syscall(444 /* landlock_create_ruleset */, NULL, 0, 1);

    if (access("/proc/sys/kernel/seccomp/actions_avail", F_OK) < 0)
        doctor_say(r, DOCTOR_BAD, "use a kernel with CONFIG_SECCOMP_FILTER=y",
                   "no seccomp: binaries are read only by confined processes, so there is no agent and no symbolizer");
    else if (landlock < 1)
        doctor_say(r, DOCTOR_NOTE, "use a kernel with CONFIG_SECURITY_LANDLOCK=y (5.13 and later)",
                   "seccomp, no Landlock: the symbolizer cannot open files, so debug files of dwz are not found");
    else
        doctor_say(r, DOCTOR_OK, "", "seccomp and Landlock");
}

const struct doctor_check doctor_system[] = {
    {"kernel", "system", check_kernel},
    {"kernel types (BTF)", "system", check_btf},
    {"capabilities", "system", check_capabilities},
    {"perf events", "system", check_perf},
    {"kernel symbols", "system", check_kernel_names},
    {"ptrace", "system", check_ptrace},
    {"confinement", "system", check_confinement},
    {0},
};
