/* SPDX-License-Identifier: Apache-2.0 */
/* What the libraries that are linked statically into a bundled wick expect of their libc, and an older one does not have. The
 * program is linked against glibc 2.31 (packaging/release), and libgcc and libstdc++ come from a system with a newer one. */
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Since 2.32: true while the process has one thread. False is always right, and costs an atomic instruction. */
char __libc_single_threaded;

/* Since 2.34. */
int close_range(unsigned first, unsigned last, int flags)
{
    return (int) syscall(SYS_close_range, first, last, flags);
}

/* Since 2.33. The libc that is there at run time may have it; what an older one tells wraps at 4 GiB. */
struct mallinfo2 mallinfo2(void)
{
    union {
        void *symbol;
        struct mallinfo2 (*call)(void);
    } newer = {dlsym(RTLD_NEXT, "mallinfo2")};

    if (newer.symbol)
        return newer.call();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct mallinfo m = mallinfo();
#pragma GCC diagnostic pop
    return (struct mallinfo2){(unsigned) m.arena,    (unsigned) m.ordblks, (unsigned) m.smblks,  (unsigned) m.hblks,
                              (unsigned) m.hblkhd,   (unsigned) m.usmblks, (unsigned) m.fsmblks, (unsigned) m.uordblks,
                              (unsigned) m.fordblks, (unsigned) m.keepcost};
}

#ifdef DLFO_EH_SEGMENT_TYPE
/* The segments of an object, as far as dl_iterate_phdr() tells them: those that are loaded, and the one asked for. */
struct found_object {
    uintptr_t address;
    struct dl_find_object *ret;
};

static int look_into(struct dl_phdr_info *info, size_t size, void *data)
{
    struct found_object *f = data;
    uintptr_t start = UINTPTR_MAX, end = 0, frames = 0;
    bool inside = false;

    (void) size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + p->p_vaddr;

        if (p->p_type == DLFO_EH_SEGMENT_TYPE)
            frames = at;
        if (p->p_type != PT_LOAD)
            continue;
        start = at < start ? at : start;
        end = at + p->p_memsz > end ? at + p->p_memsz : end;
        inside |= f->address >= at && f->address < at + p->p_memsz;
    }
    if (!inside || !frames)
        return 0;
    *f->ret = (struct dl_find_object){
        .dlfo_map_start = (void *) start, .dlfo_map_end = (void *) end, .dlfo_eh_frame = (void *) frames};
    return 1;
}

/* Since 2.35: libgcc finds the unwind table of an address by it, for C++ exceptions. Called by libgcc alone. */
int _dl_find_object(void *address, struct dl_find_object *ret)
{
    struct found_object f = {.address = (uintptr_t) address, .ret = ret};

    return dl_iterate_phdr(look_into, &f) == 1 ? 0 : -1;
}
#endif
