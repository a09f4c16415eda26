/* SPDX-License-Identifier: Apache-2.0 */
/* query_package() of query.h: the part of a function's name that its authors would call its package. */
#include "query/query.h"

/* The text in front of the first '(' or '<' that is not the start. */
static struct str without_parameters(struct str s)
{
    for (uint32_t i = 1; i < s.n; i++)
        if (s.p[i] == '(' || s.p[i] == '<' || s.p[i] == ' ')
            return str_slice(s, 0, i);
    return s;
}

/* net/http.(*conn).serve -> net/http: up to the first dot behind the last slash. */
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

/* com.shop.Cart.add -> com.shop: the lower-case words in front of the first that is not. */
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

/* The folder a file is in, its last two parts. */
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

struct str query_package(const struct frame *f)
{
    struct str name = f->function;
    ptrdiff_t colons = str_find(without_parameters(name), STR("::"));

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
        return folder(f->file);
    case FRAME_KERNEL:
        return STR("[kernel]");
    default:
        break;
    }
    if (colons > 0)
        return str_slice(name, 0, (size_t) colons);
    if (str_ends(f->file, STR(".go")) || str_find_char(without_parameters(name), '/') > 0)
        return go_package(name);
    if (str_ends(f->file, STR(".java")))
        return dotted_package(name);
    return f->file.n ? folder(f->file) : (struct str){0};
}
