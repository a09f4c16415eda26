/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands `record`, `agent` and `top` share: options, starting a command, signals and status lines. */
#include "host/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/filter.h"
#include "agent/identity.h"
#include "agent/identity_read.h"
#include "agent/java_names.h"
#include "agent/reader/file_reader.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "symbol/symbol_process.h"

enum { LINES_TIMEOUT_MS = 20000, HURRY_NICE = -10 }; /* of one binary; priority while sampling */
static const int64_t SHARE_MIN_NS = 5 * NS_PER_S;

static int add_rules(struct filter *f, const struct arg_list *l, bool include, struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < l->n && r == 0; i++)
        r = filter_add(f, include, str_from(l->v[i]), e);
    return r;
}

static int parse_types(const char *text, struct agent_options *o, struct err *e)
{
    struct str rest = str_from(text ? text : o->events.n ? "" : "cpu");

    o->no_cpu = true;
    while (rest.n) {
        struct str one = str_trim(str_cut(&rest, ','));

        if (str_is(one, "offcpu") || str_is(one, "off-cpu"))
            o->off_cpu = true;
        else if (str_is(one, "cpu"))
            o->no_cpu = false;
        else
            return err_set(
                e, -EINVAL,
                "--type: '%.*s' cannot be sampled from outside; supported: cpu, offcpu ('wick run' supports more)",
                STR_FMT(one));
    }
    return 0;
}

static int parse_words(const struct watch_options *w, struct agent_options *o, struct err *e)
{
    if (w->rate < 1 || w->rate > WATCH_RATE_MAX)
        return err_set(e, -EINVAL, "--rate %lld is out of range: 1 to %d samples per second", (long long) w->rate,
                       WATCH_RATE_MAX);
    if (w->unwind && strcmp(w->unwind, "copy") == 0)
        o->copy_stacks = true;
    else if (w->unwind && strcmp(w->unwind, "rows") != 0)
        return err_set(e, -EINVAL, "--unwind: '%s' is not rows or copy", w->unwind);
    if (w->via && strcmp(w->via, "perf") == 0)
        o->via = AGENT_VIA_PERF;
    else if (w->via && strcmp(w->via, "bpf") == 0)
        o->via = AGENT_VIA_BPF;
    else if (w->via && strcmp(w->via, "old-bpf") == 0)
        o->via = AGENT_VIA_OLD_BPF;
    else if (w->via)
        return err_set(e, -EINVAL, "--via: '%s' is not bpf, old-bpf or perf", w->via);
    if (w->events && perf_events_parse(w->events, &o->events, e) < 0)
        return -EINVAL;
    return parse_types(w->types, o, e);
}

static int parse_pid(const char *text, pid_t *ret, struct err *e)
{
    uint64_t pid;

    if (str_to_u64(str_from(text), 10, &pid) < 0 || !pid || pid > INT32_MAX)
        return err_set(e, -EINVAL, "--pid: '%s' is not a process id", text);
    *ret = (pid_t) pid;
    return 0;
}

static int parse_pids(const struct watch_options *w, pid_t *pids, struct agent_options *o, struct err *e)
{
    for (size_t i = 0; i < w->pids.n; i++) {
        int r = parse_pid(w->pids.v[i], &pids[i], e);

        if (r < 0)
            return r;
        if (kill(pids[i], 0) < 0 && errno == ESRCH)
            return err_set(e, -ESRCH, "no such process: %s", w->pids.v[i]);
    }
    o->pids = pids;
    o->n_pids = w->pids.n;
    return 0;
}

static int make_filter(const struct watch_options *w, struct filter **ret, struct err *e)
{
    _cleanup_(filter_freep) struct filter *f = NULL;
    int r = w->include.n || w->exclude.n ? filter_new(&f) : 0;

    if (r == 0 && f)
        r = add_rules(f, &w->exclude, false, e);
    if (r == 0 && f)
        r = add_rules(f, &w->include, true, e);
    if (r == 0)
        *ret = TAKE(f);
    return r;
}

/* Kept as long as the program runs, as identities refer to the rules. */
static int set_names(const struct arg_list *l, struct err *e)
{
    static struct identity_rules *rules;
    int r = rules || !l->n ? 0 : identity_rules_new(&rules);

    for (size_t i = 0; i < l->n && r == 0; i++)
        r = identity_rules_add(rules, str_from(l->v[i]), e);
    identity_set_rules(rules);
    return r < 0 ? err_prefix(e, r, "--rename: ") : 0;
}

int watch_agent_options(const struct watch_options *w, pid_t *pids, struct agent_options *ret,
                        struct filter **ret_filter, struct err *e)
{
    int r;

    *ret = (struct agent_options){.rate_hz = (unsigned) w->rate,
                                  .no_kernel = w->no_kernel,
                                  .no_names = w->no_names,
                                  .off_cpu_threshold_ns = w->threshold ? w->threshold : NS_PER_MS};
    r = parse_words(w, ret, e);
    if (r == 0 && w->jcmd)
        r = java_names_start(e);
    if (r == 0)
        r = set_names(&w->rename, e);
    if (r == 0)
        r = parse_pids(w, pids, ret, e);
    if (r == 0)
        r = make_filter(w, ret_filter, e);
    if (r == 0)
        ret->filter = *ret_filter;
    return r;
}

int watch_check(const struct watch_options *w, struct err *e)
{
    _cleanup_(filter_freep) struct filter *filter = NULL;
    struct agent_options o = {0};
    pid_t pid;
    int r = parse_words(w, &o, e);

    for (size_t i = 0; i < w->pids.n && r == 0; i++)
        r = parse_pid(w->pids.v[i], &pid, e);
    return r < 0 ? r : make_filter(w, &filter, e);
}

struct symbolizer *watch_symbolizer(const struct watch_options *w)
{
    static const char *const child[] = {"/proc/self/exe", "symbolize",      "--memory", "1GiB",
                                        "--only",         "/usr/lib/debug", NULL};

    return w->no_lines || w->no_names ? NULL : symbol_process_new(child, LINES_TIMEOUT_MS);
}

int watch_reader(struct file_reader **ret, struct err *e)
{
    static const char *const child[] = {"/proc/self/exe", "symbolize", "--tables", "--memory", "8GiB", NULL};

    return file_reader_new(child, ret, e);
}

/* --- a command --- */
static void (*pipe_before)(int) = SIG_DFL; /* what SIGPIPE did before watch_signals(): the command does the same */

int watch_command_start(char **argv, struct watch_command *ret, struct err *e)
{
    int gate[2], failed[2];
    char byte;

    if (pipe2(gate, O_CLOEXEC) < 0)
        return err_set(e, -errno, "cannot create a pipe: %m");
    if (pipe2(failed, O_CLOEXEC) < 0) {
        close(gate[0]);
        close(gate[1]);
        return err_set(e, -errno, "cannot create a pipe: %m");
    }
    ret->pid = fork();
    if (ret->pid < 0)
        return err_set(e, -errno, "cannot start a process: %m");
    if (ret->pid == 0) {
        sigset_t none;

        close(gate[1]);
        if (read(gate[0], &byte, 1) < 0) /* ends when the other side is closed */
            _exit(127);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        signal(SIGPIPE, pipe_before);
        execvp(argv[0], argv);
        if (write(failed[1], &errno, sizeof errno) < 0)
            _exit(126);
        _exit(127);
    }
    close(gate[0]);
    close(failed[1]);
    ret->gate = gate[1];
    ret->failed = failed[0];
    ret->name = argv[0];
    return 0;
}

int watch_command_go(struct watch_command *c, struct err *e)
{
    int error = 0;
    bool failed;

    if (c->pid <= 0)
        return 0;
    fd_close(c->gate);
    failed = read(c->failed, &error, sizeof error) == sizeof error; /* nothing, when exec closes the pipe */
    fd_close(c->failed);
    c->gate = c->failed = -1;
    errno = error;
    return failed ? err_set(e, -error, "cannot run '%s': %m", c->name) : 0;
}

/* --- priority --- */
bool watch_hurry(void)
{
    errno = 0;
    return getpriority(PRIO_PROCESS, 0) == 0 && errno == 0 && setpriority(PRIO_PROCESS, 0, HURRY_NICE) == 0;
}

void watch_calm(bool hurried)
{
    if (hurried)
        setpriority(PRIO_PROCESS, 0, 0);
}

/* --- signals --- */
int watch_signals(sigset_t *ret_old)
{
    sigset_t set;
    int fd;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, ret_old);
    pipe_before = signal(SIGPIPE, SIG_IGN);
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

int watch_next_signal(int fd)
{
    struct signalfd_siginfo si;

    return read(fd, &si, sizeof si) == sizeof si ? (int) si.ssi_signo : 0;
}

/* --- status --- */
void watch_line(const struct agent_counts *c, int64_t elapsed_ns, char *ret, size_t size)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    double cost =
        elapsed_ns > 0 ? 100.0 * (double) (c->bpf_ns + c->own_cpu_ns) / (double) elapsed_ns / (double) cpus : 0;

    char share[64];

    if (elapsed_ns < SHARE_MIN_NS) /* a share of such a short time is meaningless: startup costs as much as sampling */
        snprintf(share, sizeof share, "%.3f CPU-s", (double) (c->bpf_ns + c->own_cpu_ns) / (double) NS_PER_S);
    else
        snprintf(share, sizeof share, "%.2f %% of the machine", cost);
    snprintf(ret, size, "%.1f s, %llu samples via %s%s, %llu lost, cost %s%s%s",
             (double) elapsed_ns / (double) NS_PER_S, (unsigned long long) c->samples, c->via,
             c->lacks[0] ? " (limited)" : "", (unsigned long long) c->lost, share,
             c->governor && c->governor[0] ? ", " : "", c->governor ? c->governor : "");
}

void watch_way(const struct agent_counts *c, const char *prefix, struct buf *out)
{
    if (c->why[0])
        buf_printf(out, "%ssampled via %s: %s\n", prefix, c->via, c->why);
    if (c->lacks[0])
        buf_printf(out, "%s%s\n", prefix, c->lacks);
}

void watch_foreign(const struct agent_counts *c, const char *prefix, struct buf *out)
{
    for (int f = FOREIGN_RUBY; f < FOREIGN_KINDS; f++)
        if (c->foreign_ns[f] && c->foreign_ns[f] * 100 >= c->cpu_ns)
            buf_printf(out, "%s%.0f %% of the CPU time is in %s, whose functions are not shown\n", prefix,
                       100.0 * (double) c->foreign_ns[f] / (double) c->cpu_ns, foreign_name((enum foreign) f));
}

void watch_json(const struct agent_counts *c, int64_t elapsed_ns, struct buf *out)
{
    const struct {
        const char *name;
        uint64_t v;
    } fields[] = {
        {"elapsed_ns", (uint64_t) elapsed_ns},
        {"samples", c->samples},
        {"lost", c->lost},
        {"also_sent", c->also_sent},
        {"bpf_runs", c->bpf_runs},
        {"bpf_ns", c->bpf_ns},
        {"bpf_frames", c->bpf_frames},
        {"stack_copies", c->stack_copies},
        {"switches", c->switches},
        {"switch_ns", c->switch_ns},
        {"switch_samples", c->switch_samples},
        {"own_cpu_ns", c->own_cpu_ns},
        {"frames", c->frames},
        {"frames_named", c->frames_named},
        {"stacks_whole", c->stacks_whole},
        {"stacks_cut", c->stacks_cut},
        {"stacks_uncopied", c->stacks_uncopied},
        {"processes", c->processes_sampled},
        {"objects", c->objects},
        {"reader_deaths", c->reader_deaths},
        {"hangs", c->hangs},
        {"maps_left_out", c->maps_left_out},
        {"map_bytes", c->map_bytes},
        {"rate", c->rate_hz},
    };

    for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
        buf_printf(out, "%s\"%s\": %llu", i ? ", " : "{", fields[i].name, (unsigned long long) fields[i].v);
    buf_puts(out, ", \"via\": ");
    json_put_str(out, str_from(c->via));
    buf_puts(out, ", \"via_reason\": ");
    json_put_str(out, str_from(c->why));
    buf_puts(out, ", \"lacks\": ");
    json_put_str(out, str_from(c->lacks));
    buf_puts(out, "}\n");
}
