/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and maps sealed memory files (sealed.h) with memfd_create() and the seals of fcntl(). */
#include "base/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "base/fd.h"

enum { SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

int sealed_new(const char *name, const struct str *parts, size_t n, int *ret)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r = fd < 0 ? -errno : 0;

    for (size_t i = 0; i < n && r == 0; i++)
        r = fd_write_all(fd, parts[i].p, parts[i].n);
    if (r == 0 && fcntl(fd, F_ADD_SEALS, SEALS) < 0)
        r = -errno;
    if (r < 0) {
        fd_close(fd);
        return r;
    }
    *ret = fd;
    return 0;
}

int sealed_map(int fd, size_t max, void **ret, size_t *ret_n)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;
    void *p;

    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0 || (uint64_t) st.st_size > max)
        return -EBADMSG;
    *ret = NULL;
    *ret_n = (size_t) st.st_size;
    if (!st.st_size)
        return 0;
    p = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return -errno;
    *ret = p;
    return 0;
}
