/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines and inlined calls from a helper (line_query.h): it runs `wick symbolize --tsv FILE ADDRESS...`, which prints
 * one or more lines for each address:
 *   0xADDRESS \t function \t system name \t file \t line \t first line of the function
 */
#include "sdk/line_query.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "sdk/spawn.h"

enum { ADDRESSES_MAX = 2000, ADDRESS_TEXT = 20, ANSWER_MAX = 64 << 20, LINES_MAX = 64 };

static char program[4096]; /* "" = not looked up yet, "-" = not found */

static bool try_program(const char *dir, uint32_t dir_n, const char *rest)
{
    return snprintf(program, sizeof program, "%.*s%s", (int) dir_n, dir, rest) < (int) sizeof program &&
           access(program, X_OK) == 0;
}

/* Derives the path from where this library is installed or was built: PREFIX/lib[/MACHINE][/wick]/ and PREFIX/bin/wick,
 * or src/sdk and src/cli/wick. */
static bool beside_us(void)
{
    static const char *const places[] = {"/../cli/wick", "/../bin/wick", "/../../bin/wick", "/../../../bin/wick"};
    Dl_info info;
    const char *slash;

    if (!dladdr((void *) (uintptr_t) line_query, &info) || !info.dli_fname || !(slash = strrchr(info.dli_fname, '/')))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(places); i++)
        if (try_program(info.dli_fname, (uint32_t) (slash - info.dli_fname), places[i]))
            return true;
    return false;
}

static const char *find_program(void)
{
    const char *given = secure_getenv("WICK_SYMBOLIZE");
    struct str path = str_from(secure_getenv("PATH") ? secure_getenv("PATH") : "/usr/local/bin:/usr/bin");
    bool found = false;

    if (!program[0]) {
        if (given && *given) {
            found = strcmp(given, "off") != 0 && try_program(given, (uint32_t) strlen(given), "");
        } else {
            found = beside_us();
            while (!found && path.n) {
                struct str dir = str_cut(&path, ':');

                found = dir.n && dir.p[0] == '/' && try_program(dir.p, dir.n, "/wick");
            }
        }
        if (!found)
            memcpy(program, "-", 2);
    }
    return strcmp(program, "-") ? program : NULL;
}

/* --- the answer --- */
static struct frame_line parse_line(struct str rest, struct arena *arena)
{
    struct frame_line l = {.function = arena_str(arena, str_cut(&rest, '\t'))};
    uint64_t n;

    l.system_name = arena_str(arena, str_cut(&rest, '\t'));
    l.file = arena_str(arena, str_cut(&rest, '\t'));
    if (str_to_u64(str_cut(&rest, '\t'), 10, &n) == 0)
        l.line = (int64_t) n;
    if (str_to_u64(str_cut(&rest, '\t'), 10, &n) == 0)
        l.start_line = (int64_t) n;
    return l;
}

static void keep(struct arena *arena, const struct frame_line *lines, uint32_t n, struct line_answer *ret)
{
    struct frame_line *copy = arena_alloc(arena, n * sizeof *copy);

    if (!copy)
        return;
    memcpy(copy, lines, n * sizeof *copy);
    *ret = (struct line_answer){n, copy};
}

/* Addresses are answered in the order of the arguments. */
static int parse_answer(struct str text, const uint64_t *addresses, uint32_t n, struct arena *arena,
                        struct line_answer *ret)
{
    struct frame_line lines[LINES_MAX];
    uint32_t n_lines = 0, i = 0;
    int answered = 0;

    while (text.n && i < n) {
        struct str line = str_cut(&text, '\n'), first = str_cut(&line, '\t');
        uint64_t address;

        if (!str_starts(first, STR("0x")) || str_to_u64(str_slice(first, 2, first.n), 16, &address) < 0)
            continue;
        if (address != addresses[i]) {
            if (n_lines)
                keep(arena, lines, n_lines, &ret[i]);
            n_lines = 0;
            while (i < n && addresses[i] != address)
                i++;
            if (i == n)
                break;
        }
        if (line.n && n_lines < LINES_MAX)
            lines[n_lines++] = parse_line(line, arena);
    }
    if (n_lines && i < n)
        keep(arena, lines, n_lines, &ret[i]);
    for (i = 0; i < n; i++)
        answered += ret[i].n > 0;
    return answered;
}

static int ask(const struct line_request *q, struct arena *arena, struct line_answer *ret)
{
    uint32_t n = q->n, k = 0;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    _cleanup_(mem_freep) const char **argv = mem_zalloc_array(n + 5ul, sizeof *argv);
    _cleanup_(mem_freep) char *text = mem_zalloc((size_t) n * ADDRESS_TEXT);
    int r;

    if (!argv || !text)
        return -ENOMEM;
    argv[k++] = find_program();
    argv[k++] = "symbolize";
    argv[k++] = "--tsv";
    argv[k++] = q->path;
    for (uint32_t i = 0; i < n; i++) {
        char *to = text + (size_t) i * ADDRESS_TEXT;

        snprintf(to, ADDRESS_TEXT, "0x%llx", (unsigned long long) q->addresses[i]);
        argv[k++] = to;
    }
    r = spawn_read(argv, ANSWER_MAX, q->deadline, q->pump, &out, NULL);
    return r < 0 ? r : parse_answer(buf_str(&out), q->addresses, n, arena, ret);
}

int line_query(const struct line_request *q, struct arena *arena, struct line_answer *ret)
{
    int answered = 0;

    if (!find_program())
        return -ENOENT;
    for (uint32_t i = 0; i < q->n; i += ADDRESSES_MAX) {
        struct line_request some = *q;
        int r;

        some.addresses += i;
        some.n = MIN(q->n - i, (uint32_t) ADDRESSES_MAX);
        r = ask(&some, arena, ret + i);
        if (r < 0)
            return r;
        answered += r;
    }
    return answered;
}
