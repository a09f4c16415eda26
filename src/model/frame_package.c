/* SPDX-License-Identifier: Apache-2.0 */
/* frame_package() of tree.h: the part of a function's name that its authors would call its package. The tables, the
 * colours of flame graphs and "only my code" all use it: the web UI gets it with each frame (query/tree_form.h). */
#include <string.h>

#include "model/tree.h"

/* The text before the first '(', '<' or ' ', or before a symbol's version, unless it is the start. */
static struct str without_parameters(struct str s)
{
    for (uint32_t i = 1; i < s.n; i++)
        if (s.p[i] == '(' || s.p[i] == '<' || s.p[i] == ' ' || s.p[i] == '@')
            return str_slice(s, 0, i);
    return s;
}

/* net/http.(*conn).serve -> net/http: up to the first dot after the last slash. */
static struct str go_package(struct str s)
{
    struct str head = without_parameters(s);
    uint32_t slash = 0;

    for (uint32_t i = 0; i < head.n; i++)
        if (head.p[i] == '/')
            slash = i;
    for (uint32_t i = slash; i < head.n; i++)
        if (head.p[i] == '.')
            return str_slice(s, 0, i);
    return (struct str){0};
}

/* com.shop.Cart.add -> com.shop: the lower-case components before the first that is not. */
static struct str dotted_package(struct str s)
{
    struct str head = without_parameters(s);
    uint32_t end = 0, start = 0;

    for (uint32_t i = 0; i < head.n; i++) {
        if (head.p[i] != '.')
            continue;
        if (head.p[start] < 'a' || head.p[start] > 'z')
            break;
        end = i;
        start = i + 1;
    }
    return str_slice(s, 0, end);
}

/* The last two components of the folder that contains the file. */
static struct str folder(struct str file)
{
    uint32_t slashes[2] = {0, 0}, end = 0;

    for (uint32_t i = 0; i < file.n; i++)
        if (file.p[i] == '/') {
            slashes[0] = slashes[1];
            slashes[1] = end;
            end = i;
        }
    return slashes[0] ? str_slice(file, slashes[0] + 1, end) : str_slice(file, 0, end);
}

static struct str base_name(struct str path)
{
    for (uint32_t i = path.n; i > 0; i--)
        if (path.p[i - 1] == '/')
            return str_slice(path, i, path.n);
    return path;
}

/* std::sort<int*> -> std; "void shop::cart::add(int)" -> shop: the first namespace, without a return type before it. */
static struct str first_namespace(struct str name, size_t colons)
{
    size_t start = colons;

    while (start > 0 && !memchr(" (*&", name.p[start - 1], 4))
        start--;
    return str_slice(name, start, colons);
}

/* The library or program of a native function without a namespace, path or file that says more. */
static struct str native_package(const struct frame *f)
{
    struct str binary = base_name(f->mapping.n ? f->mapping : f->home);

    return binary.n ? binary : frame_file(f).n ? folder(frame_file(f)) : (struct str){0};
}

struct str frame_package(const struct frame *f)
{
    struct str name = f->function;
    ptrdiff_t colons;

    if (!name.n && f->kind != FRAME_KERNEL)
        return native_package(f);
    colons = str_find(name, STR("::"));
    switch (f->kind) {
    case FRAME_GO:
        return go_package(name);
    case FRAME_JVM:
        return dotted_package(name);
    case FRAME_CPYTHON:
    case FRAME_V8JS:
    case FRAME_PHP:
    case FRAME_RUBY:
    case FRAME_PERL:
        return folder(frame_file(f));
    case FRAME_KERNEL:
        return STR("[kernel]");
    default:
        break;
    }
    if (colons > 0 && (str_find_char(name, '<') < 0 || colons < str_find_char(name, '<')))
        return first_namespace(name, (size_t) colons);
    if (str_ends(frame_file(f), STR(".go")) || str_find_char(without_parameters(name), '/') > 0)
        return go_package(name);
    if (str_ends(frame_file(f), STR(".java")))
        return dotted_package(name);
    if (str_find_char(without_parameters(name), '.') > 0 && !f->mapping.n && !frame_file(f).n)
        return go_package(name);
    return native_package(f);
}
