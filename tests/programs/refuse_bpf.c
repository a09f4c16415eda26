/* SPDX-License-Identifier: Apache-2.0 */
/* LD_PRELOAD: the kernel's verifier refuses the BPF programs that REFUSE names ("on_switch,on_tick_python"), and says why. Maps that it
 * names cannot be made ("wick_rows"); each attempt is a line on stderr. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

static bool is_named(const char *program)
{
    const char *names = getenv("REFUSE"), *at = names;
    size_t n = strlen(program);

    while (at && *at) {
        size_t k = strcspn(at, ",");

        /* the kernel keeps 15 characters */
        if (strncmp(at, program, n) == 0 && (k == n || (n == BPF_OBJ_NAME_LEN - 1 && k > n)))
            return true;
        at += k + (at[k] == ',');
    }
    return false;
}

static bool refuse(union bpf_attr *a)
{
    if (!is_named(a->prog_name))
        return false;
    if (a->log_level && a->log_buf)
        snprintf((char *) (unsigned long) a->log_buf, a->log_size,
                 "0: R1=ctx()\n12: (85) call bpf_probe_read_user#112\nR2 min value is negative, either use unsigned or 'var &= const'\n"
                 "processed 12 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0\n");
    errno = EACCES;
    return true;
}

static bool refuse_map(const union bpf_attr *a)
{
    if (!is_named(a->map_name))
        return false;
    fprintf(stderr, "refused the map %s\n", a->map_name);
    errno = EINVAL;
    return true;
}

long syscall(long number, ...)
{
    static long (*real)(long, ...);
    long a[6];
    va_list ap;

    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    if (number == SYS_bpf && a[0] == BPF_PROG_LOAD && refuse((union bpf_attr *) a[1]))
        return -1;
    if (number == SYS_bpf && a[0] == BPF_MAP_CREATE && refuse_map((union bpf_attr *) a[1]))
        return -1;
    if (!real)
        real = (long (*)(long, ...)) dlsym(RTLD_NEXT, "syscall");
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
