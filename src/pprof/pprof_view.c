/* SPDX-License-Identifier: Apache-2.0 */
/* Runs graphviz, viewers and browsers (pprof_view.h). */
#include "pprof/pprof_view.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "pprof/pprof_source.h"
#include "pprof/pprof_svg.h"

extern char **environ;

enum { VIEWER_WORDS = 16, VIEWED_MAX = 64, DOT_OUTPUT_MAX = 1 << 30 };

/* Files that were opened in viewers, to be deleted at the end. */
static char *viewed[VIEWED_MAX];
static size_t n_viewed;

/* Writes b to the child and reads its output at the same time, because either side may block on the other. */
static int exchange(int to, int from, const struct buf *b, struct buf *out)
{
    size_t sent = 0;
    int r = 0;

    for (;;) {
        struct pollfd p[2] = {{.fd = from, .events = POLLIN}, {.fd = sent < b->n ? to : -1, .events = POLLOUT}};

        if (poll(p, 2, -1) < 0) {
            if (errno == EINTR)
                continue;
            r = -errno;
            break;
        }
        if (p[1].revents) {
            ssize_t n = write(to, b->p + sent, MIN(b->n - sent, 65536));

            if (n < 0 && errno != EAGAIN && errno != EINTR)
                n = (ssize_t) (b->n - sent); /* the child does not read any more */
            sent += n > 0 ? (size_t) n : 0;
            if (sent >= b->n) {
                fd_close(to);
                to = -1;
            }
        }
        if (p[0].revents) {
            char *room = buf_reserve(out, 65536);
            ssize_t n = room ? fd_read(from, room, 65536) : -ENOMEM;

            if (n <= 0) {
                r = (int) n;
                break;
            }
            out->n += (size_t) n;
        }
    }
    fd_close(to);
    return r;
}

static int start(char *const *argv, int in, int out, pid_t *ret)
{
    posix_spawn_file_actions_t actions;
    int r;

    posix_spawn_file_actions_init(&actions);
    if (in >= 0)
        posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    if (out >= 0)
        posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    r = posix_spawnp(ret, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return -r;
}

static int run_filter(char *const *argv, const struct buf *in, struct buf *out, int *ret_status)
{
    int to[2] = {-1, -1}, from[2] = {-1, -1}, r;
    pid_t pid;

    if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0) {
        r = -errno;
        fd_close(to[0]);
        fd_close(to[1]);
        return r;
    }
    r = start(argv, to[0], from[1], &pid);
    fd_close(to[0]);
    fd_close(from[1]);
    if (r < 0) {
        fd_close(to[1]);
    } else {
        r = exchange(to[1], from[0], in, out);
        waitpid(pid, ret_status, 0);
    }
    fd_close(from[0]);
    return r;
}

int pprof_run_dot(const char *format, bool with_script, struct buf *b, struct err *e)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    char name[] = "dot", option[16];
    char *argv[] = {name, option, NULL};
    void (*old)(int) = signal(SIGPIPE, SIG_IGN);
    int status = 0, r;

    buf_init(&out, DOT_OUTPUT_MAX);
    snprintf(option, sizeof(option), "-T%s", format);
    r = run_filter(argv, b, &out, &status);
    signal(SIGPIPE, old);
    if (r == -ENOENT)
        return err_set(e, r,
                       "failed to execute dot. Is Graphviz installed? Error: exec: \"dot\": executable file not "
                       "found in $PATH");
    if (r < 0)
        return err_set(e, r, "failed to execute dot. Is Graphviz installed? Error: %m");
    if (status)
        return err_set(e, -EIO, "failed to execute dot. Is Graphviz installed? Error: exit status %d",
                       WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    buf_reset(b);
    if (with_script)
        pprof_svg_script(buf_str(&out), b);
    else
        buf_put(b, out.p, out.n);
    return buf_error(b);
}

/* Splits the arguments of a command in place at blanks. */
static size_t split(char *command, char **argv)
{
    size_t n = 0;
    char *save = NULL;

    for (char *w = strtok_r(command, " ", &save); w && n < VIEWER_WORDS; w = strtok_r(NULL, " ", &save))
        argv[n++] = w;
    return n;
}

static int try_viewer(const char *command, const char *file, pid_t *ret)
{
    char *words[VIEWER_WORDS + 2], *copy = mem_strdup(command), *path = mem_strdup(file);
    int r = -ENOENT;

    if (copy && path) {
        size_t n = split(copy, words);

        words[n] = path;
        words[n + 1] = NULL;
        if (n)
            r = start(words, -1, -1, ret);
    }
    mem_free(copy);
    mem_free(path);
    return r;
}

static int try_browsers(const char *file, pid_t *ret)
{
    static const char *const browsers[] = {"chrome", "google-chrome", "chromium", "firefox", "sensible-browser"};
    const char *own = getenv("BROWSER");
    int r = -ENOENT;

    if (own && *own)
        r = try_viewer(own, file, ret);
    for (size_t i = 0; r < 0 && i < ARRAY_SIZE(browsers); i++)
        r = try_viewer(browsers[i], file, ret);
    if (r < 0 && getenv("DISPLAY"))
        r = try_viewer("xdg-open", file, ret);
    return r;
}

static int try_viewers(const struct pprof_command *c, const char *file, pid_t *ret)
{
    return c->show == SHOW_VIEWER ? try_viewer(c->viewer, file, ret) : try_browsers(file, ret);
}

int pprof_open_browser(const char *url)
{
    pid_t pid;

    return try_browsers(url, &pid);
}

int pprof_view(const struct pprof_command *c, const struct buf *b, bool background, struct err *e)
{
    _cleanup_(buf_done) struct buf path = BUF_INIT, suffix = BUF_INIT;
    const char *tmp = getenv("TMPDIR");
    const struct timespec second = {.tv_sec = 1};
    int fd, r, status = 0;
    pid_t pid;

    buf_printf(&suffix, ".%s", c->suffix);
    fd = pprof_temp_file(tmp && *tmp ? tmp : "/tmp", STR("pprof"), buf_cstr(&suffix), &path, e);
    if (fd < 0)
        return fd;
    if (n_viewed < VIEWED_MAX)
        viewed[n_viewed++] = mem_strdup(path.p);
    r = fd_write_all(fd, b->p, b->n);
    fd_close(fd);
    if (r >= 0)
        r = try_viewers(c, path.p, &pid);
    if (r < 0)
        return err_set(e, r, "exec: \"%s\": executable file not found in $PATH",
                       c->show == SHOW_VIEWER ? c->viewer : "sensible-browser");
    nanosleep(&second, NULL); /* time to open the file, even for a wrapper that returns at once */
    if (!background)
        waitpid(pid, &status, 0);
    return status ? err_set(e, -EIO, "exit status %d", WIFEXITED(status) ? WEXITSTATUS(status) : 1) : 0;
}

void pprof_view_done(void)
{
    for (size_t i = 0; i < n_viewed; i++) {
        if (viewed[i])
            fd_unlink(AT_FDCWD, viewed[i]);
        mem_free(viewed[i]);
    }
    n_viewed = 0;
}
