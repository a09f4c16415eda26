/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the interpreter of a process and its version: see python.h. */
#include <errno.h>

#include "agent/lang/python/python.h"
#include "elf/elf_symbols.h"

/* 11 of "/usr/lib/libpython3.11.so.1.0", "python3.11", "/opt/python3.11d/…"; 0 when the name has no version. */
static unsigned minor_of_path(struct str path)
{
    unsigned v = 0;
    ptrdiff_t at;
    uint32_t base = path.n;

    while (base && path.p[base - 1] != '/')
        base--;
    path = str_slice(path, base, path.n);
    at = str_find(path, STR("python3."));
    if (at < 0)
        return 0;
    for (size_t i = (size_t) at + 8; i < path.n && path.p[i] >= '0' && path.p[i] <= '9' && v < 100; i++)
        v = v * 10 + (unsigned) (path.p[i] - '0');
    return v;
}

bool python_probe(const struct elf_file *f, struct str path, struct python_image *ret)
{
    const struct elf_section *section = elf_find_section(f, ".PyRuntime");
    struct elf_symbols s = {0};

    *ret = (struct python_image){.runtime = section ? section->address : 0, .minor = minor_of_path(path)};
    if (elf_symbols_load(f, false, &s) < 0)
        return false;
    for (uint32_t i = 0; i < s.n; i++) {
        const struct elf_symbol *y = &s.v[i];

        if (y->name.n < 10 || (y->name.p[0] != '_' && y->name.p[0] != 'P'))
            continue;
        if (str_is(y->name, "_PyRuntime") && y->type == STT_OBJECT) {
            ret->runtime = y->address;
        } else if (str_is(y->name, "_PyEval_EvalFrameDefault") && y->size) {
            python_loops_add(&ret->loops, y->address, y->address + y->size);
        } else if (str_is(y->name, "Py_Version")) {
            ret->version = y->address;
        } else if (str_is(y->name, "PyCode_Type")) {
            ret->types.code = y->address;
        } else if (str_is(y->name, "PyUnicode_Type")) {
            ret->types.str = y->address;
        } else if (str_is(y->name, "PyBytes_Type")) {
            ret->types.bytes = y->address;
        }
    }
    elf_symbols_done(&s);
    return ret->runtime != 0;
}

static uint64_t moved(uint64_t address, uint64_t bias)
{
    return address ? address + bias : 0;
}

int python_attach(const struct proc_memory *m, const struct python_image *image, uint64_t bias, struct python *ret,
                  struct err *e)
{
    uint8_t head[PYTHON_DEBUG_OFFSETS];
    uint64_t version = 0;
    uint32_t hex = 0;
    unsigned minor = image->minor;
    int r;

    *ret = (struct python){
        .runtime = image->runtime + bias,
        .bias = bias,
        .types = {moved(image->types.code, bias), moved(image->types.str, bias), moved(image->types.bytes, bias)}};
    python_loops_set(ret, &image->loops);
    r = proc_memory_read(m, ret->runtime, head, 640); /* smaller than _PyRuntime of any version */
    if (r < 0)
        return err_set(e, r == -EFAULT ? -ENOENT : r, "cannot read the Python interpreter: %m");
    if (memcmp(head, "xdebugpy", 8) == 0)
        r = proc_memory_read(m, ret->runtime, head, sizeof head);
    r = r < 0 ? r : python_offsets_parse(head, sizeof head, &ret->at, &hex);
    if (r == 0) {
        ret->version = hex;
        return 0;
    }
    if (r == -ENODATA) {
        if (image->version && proc_memory_u64(m, image->version + bias, &version) && version >> 24 == 3) {
            minor = version >> 16 & 0xff;
            hex = (uint32_t) version;
        }
        if (python_offsets_of(minor, &ret->at)) {
            ret->version = hex ? hex : 0x03000000 | minor << 16;
            return 0;
        }
    } else if (hex >> 24 == 3) {
        minor = hex >> 16 & 0xff;
    }
    return err_set(e, -ENOTSUP, "CPython 3.%u is not supported; supported: 3.%d to 3.%d", minor, PYTHON_MINOR_MIN,
                   PYTHON_MINOR_MAX);
}
