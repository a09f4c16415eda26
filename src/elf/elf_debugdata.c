/* SPDX-License-Identifier: Apache-2.0 */
/* Inflates the ELF file in .gnu_debugdata with liblzma, within limits. */
#include "elf/elf_debugdata.h"

#include <errno.h>
#include <lzma.h>

#include "base/mem.h"

static void *xz_alloc(void *unused, size_t n, size_t size)
{
    return size && n > SIZE_MAX / size ? NULL : mem_alloc(n * size);
}

static void xz_free(void *unused, void *p)
{
    mem_free(p);
}

static int xz_error(lzma_ret r, struct err *e)
{
    if (r == LZMA_MEM_ERROR)
        return -ENOMEM;
    if (r == LZMA_MEMLIMIT_ERROR)
        return err_set(e, -EFBIG, "the .gnu_debugdata section needs too much memory to decompress");
    return err_set(e, -EBADMSG, "the .gnu_debugdata section is corrupt or truncated");
}

/* Appends the inflated data of the stream. */
static int inflate(lzma_stream *z, struct buf *out, struct err *e)
{
    lzma_ret r = lzma_stream_decoder(z, ELF_DEBUGDATA_WORK_MAX, LZMA_CONCATENATED);

    while (r == LZMA_OK) {
        size_t room = MIN(MAX(out->n, (size_t) 64 << 10), (size_t) ELF_DEBUGDATA_MAX - out->n);
        char *at;

        if (room == 0)
            return err_set(e, -EFBIG, "the .gnu_debugdata section decompresses to more than %d bytes",
                           ELF_DEBUGDATA_MAX);
        at = buf_reserve(out, room);
        if (!at)
            return -ENOMEM;
        z->next_out = (uint8_t *) at;
        z->avail_out = room;
        r = lzma_code(z, LZMA_FINISH);
        out->n += room - z->avail_out;
    }
    return r == LZMA_STREAM_END ? 0 : xz_error(r, e);
}

int elf_debugdata_open(const struct elf_file *f, struct elf_file **ret, struct err *e)
{
    struct elf_bytes b = elf_section_bytes(f, ".gnu_debugdata");
    const lzma_allocator allocator = {xz_alloc, xz_free, NULL};
    lzma_stream z = LZMA_STREAM_INIT;
    _cleanup_(buf_done) struct buf out;
    int r;

    buf_init(&out, (size_t) ELF_DEBUGDATA_MAX + 1);
    if (!b.n)
        return err_set(e, -ENODATA, "no .gnu_debugdata");
    z.allocator = &allocator;
    z.next_in = b.p;
    z.avail_in = b.n;
    r = inflate(&z, &out, e);
    lzma_end(&z);
    if (r >= 0)
        r = elf_from_bytes(out.p, out.n, true, ret, e);
    if (r >= 0)
        out.p = NULL; /* owned by the file now */
    return r;
}
