/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the seccomp filters of the calling thread (seccomp.h) by reading its status file in /proc. */
#include "base/seccomp.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"

int seccomp_filters(void)
{
    static const struct str key = STR("\nSeccomp_filters:");
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    ptrdiff_t at;
    struct str s;
    uint64_t n;

    if (fd_read_file("/proc/thread-self/status", 65536, &b, NULL) < 0)
        return -1;
    at = str_find(buf_str(&b), key);
    if (at < 0)
        return -1;
    s = str_slice(buf_str(&b), (size_t) at + key.n, b.n);
    return str_to_u64(str_trim(str_cut(&s, '\n')), 10, &n) < 0 ? -1 : (int) n;
}
