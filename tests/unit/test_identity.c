/* SPDX-License-Identifier: Apache-2.0 */
/* Who a process is: names of control groups, files of container runtimes, OTEL_CTX, the environment; JIT's and kernel's
 * names. Trees of files stand in for /proc and /. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/bpf/agent_abi.h"
#include "agent/cgroup.h"
#include "agent/container_files.h"
#include "agent/foreign.h"
#include "agent/identity_read.h"
#include "agent/own_profiles.h"
#include "agent/process_context.h"
#include "agent/program_version.h"
#include "agent/service_name.h"
#include "base/clock.h"
#include "base/fd.h"
#include "elf/go_build.h"
#include "proc/jit_names.h"
#include "proc/kallsyms.h"
#include "tap.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UID "0af3e2a1-1111-2222-3333-444455556666"

static void test_cgroup(void)
{
    static const struct {
        const char *text, *container, *pod, *unit, *runtime;
    } cases[] = {
        {"0::/\n", "", "", "", ""},
        {"0::/system.slice/nginx.service\n", "", "", "nginx", ""},
        {"0::/system.slice/system-getty.slice/getty@tty1.service", "", "", "getty@tty1", ""},
        {"0::/user.slice/user-1000.slice/user@1000.service/app.slice/web.service\n", "", "", "web", ""},
        {"0::/user.slice/user-1000.slice/user@1000.service/init.scope\n", "", "", "", ""},
        {"0::/user.slice/user-0.slice/session-3.scope\n", "", "", "", ""},
        {"0::/system.slice/docker-" ID ".scope\n", ID, "", "", "docker"},
        {"12:cpu,cpuacct:/docker/" ID "\n1:name=systemd:/docker/" ID "\n", ID, "", "", "docker"},
        {"0::/machine.slice/libpod-" ID ".scope/container\n", ID, "", "", "podman"},
        {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0af3e2a1_1111_2222_3333_444455556666.slice/"
         "cri-containerd-" ID ".scope\n",
         ID, UID, "", "containerd"},
        {"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod0af3e2a1_1111_2222_3333_444455556666."
         "slice/crio-" ID ".scope",
         ID, UID, "", "cri-o"},
        {"9:memory:/kubepods/burstable/pod" UID "/" ID "\n", ID, UID, "", ""},
        {"0::/system.slice/containerd.service/kubepods-pod0af3e2a1_1111_2222_3333_444455556666.slice:cri-containerd:" ID
         "\n",
         ID, UID, "", "containerd"},
        {"0::/ecs/task/0123456789abcdef0123456789abcdef-1234567890\n", "0123456789abcdef0123456789abcdef-1234567890",
         "", "", ""},
        {"1:name=systemd:/system.slice/cron.service\n5:cpu:/other.service\n", "", "", "cron", ""},
        {"0::/system.slice/docker-0123.scope\n", "", "", "", ""},
        {"garbage", "", "", "", ""},
        {"0::/podman/poduser\n", "", "", "", ""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct cgroup_names c;

        cgroup_parse(str_from(cases[i].text), &c);
        eq_str(str_from(c.container), str_from(cases[i].container));
        eq_str(str_from(c.pod), str_from(cases[i].pod));
        eq_str(str_from(c.unit), str_from(cases[i].unit));
        eq_str(str_from(c.runtime), str_from(cases[i].runtime));
    }
}

static void test_container_files(void)
{
    struct container_names n = {0};

    container_names_parse(
        STR("{\"State\":{\"Pid\":1},\"Name\":\"/web\",\"Config\":{\"Image\":\"reg:5000/t/app:1.4@sha256:aa\","
            "\"Labels\":{\"io.kubernetes.pod.name\":\"app-1\"}}}"),
        &n);
    eq_str(str_from(n.name), STR("web"));
    eq_str(str_from(n.image), STR("reg:5000/t/app"));
    eq_str(str_from(n.tag), STR("1.4"));
    eq_str(str_from(n.pod), STR("app-1"));
    n = (struct container_names){0};
    container_names_parse(
        STR("{\"annotations\":{\"io.kubernetes.cri.container-name\":\"api\",\"io.kubernetes.cri.image-"
            "name\":\"docker.io/library/nginx\",\"io.kubernetes.cri.sandbox-namespace\":\"prod\"}}"),
        &n);
    eq_str(str_from(n.k8s_container), STR("api"));
    eq_str(str_from(n.image), STR("docker.io/library/nginx"));
    eq_str(str_from(n.tag), STR(""));
    eq_str(str_from(n.namespace), STR("prod"));
    container_names_parse(STR("{\"annotations\":[1,{\"Name\":"), &n); /* must not hang or crash */
}

/* --- trees --- */
static char tree[64];

static void put_file(const char *path, const char *text, size_t n)
{
    char full[512];

    snprintf(full, sizeof full, "%s/%s", tree, path);
    for (char *c = full + strlen(tree) + 1; *c; c++)
        if (*c == '/') {
            *c = 0;
            fd_mkdir(-100, full, 0755);
            *c = '/';
        }
    ok(fd_write_file(full, text, n, NULL) == 0);
}

#define FILE_TEXT(path, text) put_file(path, text, sizeof(text) - 1)

static void make_tree(void)
{
    char link[512];

    snprintf(tree, sizeof tree, "/tmp/wick-identity-XXXXXX");
    ok(mkdtemp(tree) != NULL);
    FILE_TEXT("proc/7/status", "Name:\tworker\nPPid:\t3\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t7\t1\n");
    FILE_TEXT("proc/7/stat", "7 (wor) ker) S 3 7 7 0 -1 0 0 0 0 0 5 5 0 0 20 0 1 0 4200 1 1");
    FILE_TEXT("proc/7/cmdline", "/app/worker\0--password\0secret\0");
    FILE_TEXT("proc/7/cgroup", "0::/system.slice/jobs.service\n");
    FILE_TEXT("proc/7/environ", "PATH=/bin\0");
    FILE_TEXT("proc/7/maps", "");
    FILE_TEXT("proc/stat", "cpu 1 2\nbtime 1700000000\n");
    FILE_TEXT("proc/sys/kernel/hostname", "box7\n");
    FILE_TEXT("root/etc/passwd", "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\n");
    FILE_TEXT("root/etc/machine-id", "abcdef\n");
    FILE_TEXT("root/etc/os-release", "NAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian 12\"\n");
    snprintf(link, sizeof link, "%s/proc/7/exe", tree);
    ok(symlink("/app/worker (deleted)", link) == 0);
}

static void remove_tree(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", tree);
    ok(system(command) == 0);
}

static struct str get(const struct identity_attrs *a, const char *key)
{
    return identity_attrs_get(a, str_from(key));
}

static int read_tree(struct identity_attrs *ret, const struct proc_memory *m, const struct identity_rules *rules)
{
    static char proc[128], root[128];
    struct identity_source s = {.proc = proc, .root = root, .pid = 7, .memory = m, .rules = rules};

    snprintf(proc, sizeof proc, "%s/proc", tree);
    snprintf(root, sizeof root, "%s/root", tree);
    return identity_read(&s, ret);
}

static void test_sources(void)
{
    struct identity_attrs a;

    ok(read_tree(&a, NULL, NULL) == 0);
    eq_str(get(&a, "service.name"), STR("jobs"));
    eq_str(get(&a, "process.executable.name"), STR("worker"));
    eq_str(get(&a, "process.executable.path"), STR("/app/worker"));
    eq_str(get(&a, "process.command"), STR("/app/worker"));
    eq_str(get(&a, "process.owner"), STR("ann"));
    eq_str(get(&a, "host.name"), STR("box7"));
    eq_str(get(&a, "host.id"), STR("abcdef"));
    eq_str(get(&a, "os.name"), STR("Debian GNU/Linux"));
    eq_str(get(&a, "process.creation.time"), STR("2023-11-14T22:14:02Z"));
    eq_str(get(&a, "service.version"), STR(""));
    identity_attrs_done(&a);

    FILE_TEXT("proc/7/environ", "OTEL_RESOURCE_ATTRIBUTES=service.name=b%20c, service.version=3,x=%zz,bad\0A=1\0");
    ok(read_tree(&a, NULL, NULL) == 0);
    eq_str(get(&a, "service.name"), STR("b c"));
    eq_str(get(&a, "service.version"), STR("3"));
    eq_str(get(&a, "x"), STR("%zz"));
    identity_attrs_done(&a);

    FILE_TEXT("proc/7/environ", "OTEL_RESOURCE_ATTRIBUTES=service.name=b\0OTEL_SERVICE_NAME=front\0");
    ok(read_tree(&a, NULL, NULL) == 0);
    eq_str(get(&a, "service.name"), STR("front"));
    ok(!a.partial);
    identity_attrs_done(&a);
}

/* What is remembered for all processes of the host is not what the first of them says of itself. */
static void test_host_is_remembered(void)
{
    static struct identity_cache cache;
    char proc[128], root[128];
    struct identity_source s = {.proc = proc, .root = root, .pid = 7, .cache = &cache};
    struct identity_attrs a;

    snprintf(proc, sizeof proc, "%s/proc", tree);
    snprintf(root, sizeof root, "%s/root", tree);
    FILE_TEXT("proc/7/environ", "OTEL_RESOURCE_ATTRIBUTES=host.name=elsewhere,os.name=x\0");
    ok(identity_read(&s, &a) == 0);
    eq_str(get(&a, "host.name"), STR("elsewhere"));
    eq_str(get(&a, "host.id"), STR("abcdef"));
    identity_attrs_done(&a);
    FILE_TEXT("proc/7/environ", "A=1\0");
    for (int i = 0; i < 2; i++) {
        ok(identity_read(&s, &a) == 0);
        eq_str(get(&a, "host.name"), STR("box7"));
        eq_str(get(&a, "os.name"), STR("Debian GNU/Linux"));
        identity_attrs_done(&a);
    }
    arena_done(&cache.arena);
    buf_done(&cache.text);
}

/* In the middle of exec the kernel shows no command line and no environment; a moment later only the latter is missing. */
static void test_in_exec(void)
{
    static const char environment[] = "OTEL_SERVICE_NAME=front", command[] = "/app/worker\0-v";
    struct identity_attrs a;

    FILE_TEXT("proc/7/environ", "");
    FILE_TEXT("proc/7/cmdline", "");
    ok(read_tree(&a, NULL, NULL) == 0);
    ok(a.partial);
    eq_str(get(&a, "service.name"), STR("jobs"));
    identity_attrs_done(&a);
    FILE_TEXT("proc/7/cmdline", command);
    ok(read_tree(&a, NULL, NULL) == 0);
    ok(a.partial);
    identity_attrs_done(&a);
    FILE_TEXT("proc/7/environ", environment);
    ok(read_tree(&a, NULL, NULL) == 0);
    ok(!a.partial);
    eq_str(get(&a, "service.name"), STR("front"));
    identity_attrs_done(&a);
}

static void test_container(void)
{
    struct identity_attrs a;

    FILE_TEXT("proc/7/environ", "");
    FILE_TEXT("proc/7/cgroup", "0::/kubepods/burstable/pod" UID "/" ID "\n");
    ok(read_tree(&a, NULL, NULL) == 0);
    eq_str(get(&a, "service.name"), STR("worker"));
    eq_str(get(&a, "container.id"), STR(ID));
    eq_str(get(&a, "k8s.pod.uid"), STR(UID));
    identity_attrs_done(&a);
    FILE_TEXT("root/var/lib/docker/containers/" ID "/config.v2.json",
              "{\"Name\":\"/shop\",\"Config\":{\"Image\":\"shop:2.1\"}}");
    ok(read_tree(&a, NULL, NULL) == 0);
    eq_str(get(&a, "service.name"), STR("shop"));
    eq_str(get(&a, "service.version"), STR("2.1"));
    eq_str(get(&a, "container.image.name"), STR("shop"));
    identity_attrs_done(&a);
}

static void test_rules(void)
{
    _cleanup_(identity_rules_freep) struct identity_rules *r = NULL;
    struct identity_attrs a;
    struct err e = {0};

    ok(identity_rules_new(&r) == 0);
    ok(identity_rules_add(r, STR("nothing"), &e) == -EINVAL);
    ok(identity_rules_add(r, STR("(=x"), &e) < 0);
    ok(identity_rules_add(r, STR("other=x"), &e) == 0);
    ok(identity_rules_add(r, STR("(sh)(o)p=\\2-\\1-web"), &e) == 0);
    ok(read_tree(&a, NULL, r) == 0);
    eq_str(get(&a, "service.name"), STR("o-sh-web"));
    identity_attrs_done(&a);
}

/* --- OTEL_CTX --- */
static uint8_t context[256];
static unsigned reads_until_good;

static int read_context(const struct proc_memory *m, uint64_t address, void *p, size_t n)
{
    if (address < 0x1000 || address + n > 0x1000 + sizeof context)
        return -EFAULT;
    memcpy(p, context + (address - 0x1000), n);
    if (reads_until_good && n == 32 && --reads_until_good)
        memset((char *) p + 16, 0, 8); /* being changed */
    return 0;
}

static void test_context(void)
{
    /* resource { service.name = "ctx"; n = 5 } attributes { threadlocal.schema_version = "tls_v1" } */
    static const char payload[] = "\x0a\x22"
                                  "\x0a\x15\x0a\x0cservice.name\x12\x05\x0a\x03"
                                  "ctx"
                                  "\x0a\x09\x0a\x01n\x12\x04\x18\x85\x80\x00"
                                  "\x12\x26\x0a\x1athreadlocal.schema_version\x12\x08\x0a\x06tls_v1";
    struct proc_memory m = {.read = read_context};
    struct process_context c;
    struct identity_attrs a;
    struct arena arena;
    uint32_t size = sizeof payload - 1;

    memcpy(context, "OTEL_CTX\2\0\0\0", 12);
    memcpy(context + 12, &size, 4);
    context[16] = 9;
    context[25] = 0x10;
    context[24] = 32;
    memcpy(context + 32, payload, size);
    FILE_TEXT("proc/7/maps", "00001000-00002000 rw-p 00000000 00:01 9 /memfd:OTEL_CTX (deleted)\n");
    reads_until_good = 2;
    ok(read_tree(&a, &m, NULL) == 0);
    eq_str(get(&a, "service.name"), STR("ctx"));
    identity_attrs_done(&a);
    arena_init(&arena, 1 << 16);
    ok(process_context_decode((struct str){payload, size}, &arena, &c) == 0);
    eq_int(c.attributes.n, 1);
    eq_int(c.resource.n, 2);
    ok(process_context_decode((struct str){payload, size - 1}, &arena, &c) == -EBADMSG);
    arena_done(&arena);
    context[8] = 3; /* a version that is not known */
    ok(read_tree(&a, &m, NULL) == 0);
    eq_str(get(&a, "service.name"), STR("shop"));
    identity_attrs_done(&a);
}

static void test_service_names(void)
{
    static const struct {
        struct str command;
        const char *exe, *name;
    } cases[] = {
        {STR("/usr/bin/redis-server\0/etc/redis.conf\0"), "redis-check-rdb", "redis-server"},
        {STR("redis-server *:6379\0"), "redis-check-rdb", "redis-server"},
        {STR("/proc/self/exe\0symbolize\0"), "wick", "wick"},
        {STR("nginx: master process /usr/sbin/nginx\0"), "nginx", "nginx"},
        {STR("postgres: checkpointer \0"), "postgres", "postgres"},
        {STR("-bash\0"), "bash", "bash"},
        {STR("python3\0-m\0http.server\0008000\0"), "python3.11", "http.server"},
        {STR("python3\0-W\0ignore\0-u\0/srv/shop/manage.py\0runserver\0"), "python3.11", "manage"},
        {STR("/usr/bin/python3\0/usr/bin/gunicorn\0shop.wsgi\0"), "python3.11", "gunicorn"},
        {STR("python3\0-c\0print(1)\0"), "python3.11", "python3"},
        {STR("python3\0-\0"), "python3.11", "python3"},
        {STR("node\0--max-old-space-size=100\0-r\0dd-trace\0/app/server.js\0"), "node", "server"},
        {STR("nodejs\0-e\0while(1);\0x.js\0"), "node", "nodejs"},
        {STR("java\0-Xmx1g\0-jar\0/opt/shop-1.2.jar\0--port=1\0"), "java", "shop-1.2"},
        {STR("java\0-cp\0a.jar:b.jar\0-Dx=y\0com.shop.Main\0"), "java", "com.shop.Main"},
        {STR("javac\0X.java\0"), "javac", "javac"},
        {STR("ruby\0-I\0lib\0bin/rails\0s\0"), "ruby3.1", "rails"},
        {STR("/bin/sh\0/etc/cron.daily/backup.sh\0"), "dash", "backup"},
        {STR("sh\0-c\0sleep 1\0"), "dash", "sh"},
        {STR("bash\0/dev/fd/63\0"), "bash", "bash"},
        {STR("python3\0/proc/self/fd/3\0"), "python3.11", "python3"},
        {STR("python3\0-m\0"), "python3.11", "python3"},
        {STR(""), "shop", "shop"},
        {STR("\0\0"), "shop", "shop"},
        {STR(""), "", ""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        eq_str(service_name_of(cases[i].command, str_from(cases[i].exe)), str_from(cases[i].name));
}

static void test_foreign(void)
{
    eq_int(foreign_of_file(STR("/usr/bin/ruby3.1")), FOREIGN_RUBY);
    eq_int(foreign_of_file(STR("/usr/sbin/php-fpm8.2")), FOREIGN_PHP);
    eq_int(foreign_of_file(STR("/usr/lib/apache2/modules/libphp8.2.so")), FOREIGN_PHP);
    eq_int(foreign_of_file(STR("/usr/bin/perl")), FOREIGN_PERL);
    eq_int(foreign_of_file(STR("/usr/bin/luajit")), FOREIGN_LUA);
    eq_int(foreign_of_file(STR("/usr/bin/perltidy")), FOREIGN_NONE);
    eq_int(foreign_of_file(STR("/usr/bin/bash")), FOREIGN_NONE);
}

static void test_own_profiles(void)
{
    struct value list[] = {
        {.kind = VALUE_STR, .n = 3, .str = "cpu"}, {.kind = VALUE_INT}, {.kind = VALUE_STR, .n = 4, .str = "heap"}};
    const struct {
        struct value v;
        unsigned types;
    } cases[] = {
        {{.kind = VALUE_STR, .n = 3, .str = "cpu"}, OWN_CPU},
        {{.kind = VALUE_STR, .n = 9, .str = "heap, cpu"}, OWN_CPU},
        {{.kind = VALUE_STR, .n = 10, .str = "offcpu,cpu"}, OWN_CPU},
        {{.kind = VALUE_STR, .n = 4, .str = "cpus"}, 0},
        {{.kind = VALUE_STR, .n = 0, .str = ""}, 0},
        {{.kind = VALUE_ARRAY, .n = 3, .array = list}, OWN_CPU},
        {{.kind = VALUE_INT, .integer = 1}, 0},
    };
    struct own_profiles o = {.types = OWN_CPU, .since_ns = 100};
    int64_t from = 50, to = 300;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct kv kv[] = {{STR("threadlocal.schema_version"), cases[0].v}, {STR("wick.profile.types"), cases[i].v}};
        struct process_context c = {.attributes = {kv, 2}}, without = {.attributes = {kv, 1}};

        eq_int(own_profiles_types(&c), cases[i].types);
        eq_int(own_profiles_types(&without), 0);
    }
    own_profiles_narrow(&o, &from, &to);
    ok(from == 100 && to == 300);
    ok(own_profiles_cover(&o, AGENT_EVENT_CPU, 100));
    ok(!own_profiles_cover(&o, AGENT_EVENT_CPU, 99));
    ok(!own_profiles_cover(&o, AGENT_EVENT_OFFCPU, 100));
    own_profiles_take(&o, 0, 200); /* it stopped: what was sampled before that is its own still */
    from = 50, to = 300;
    own_profiles_narrow(&o, &from, &to);
    ok(from == 100 && to == 200);
    from = 250, to = 300; /* an interval in which it sent nothing is not turned around */
    own_profiles_narrow(&o, &from, &to);
    ok(from == 250 && to == 250);
    ok(own_profiles_cover(&o, AGENT_EVENT_CPU, 199));
    ok(!own_profiles_cover(&o, AGENT_EVENT_CPU, 99));
    ok(!own_profiles_cover(&o, AGENT_EVENT_CPU, 200));
    for (int i = 0; i < 100; i++) { /* also on a machine that was never suspended, where the clocks are equal */
        uint64_t boot = (uint64_t) clock_boot(), before = (uint64_t) clock_mono();
        uint64_t mono = own_profiles_mono_of_boot(boot);

        ok(mono <= before && before - mono < 60ull * NS_PER_S);
    }
    own_profiles_take(&o, 0, 300); /* no change */
    ok(own_profiles_cover(&o, AGENT_EVENT_CPU, 150));
}

static int torture(void)
{
    struct identity_attrs a;
    int r = read_tree(&a, NULL, NULL);

    identity_attrs_done(&a);
    return r;
}

/* --- names --- */
static void test_jit_names(void)
{
    struct addr_names t = ADDR_NAMES_INIT;
    struct str name;
    size_t used;

    ok(jit_names_parse(
           STR("1000 20 LazyCompile:~f /a b.js:1\nbad line\n0x1020 10 g\n1000 8 h again\n2000 zz x\n3000 4 cut"), &used,
           &t) == 0);
    addr_names_sort(&t);
    eq_int(used, 79); /* whole lines */
    ok(addr_names_find(&t, 0x1007, &name, NULL));
    eq_str(name, STR("h again"));
    ok(!addr_names_find(&t, 0x1008, &name, NULL)); /* the new one is shorter */
    ok(addr_names_find(&t, 0x102f, &name, NULL));
    eq_str(name, STR("g"));
    ok(!addr_names_find(&t, 0x1030, &name, NULL));
    ok(!addr_names_find(&t, 0xfff, &name, NULL));
    addr_names_done(&t);
    eq_str(str_from(jit_names_hint(STR("node"), false)), STR("[node: run with --perf-basic-prof]"));
    ok(!jit_names_hint(STR("bash"), false));
    ok(!strstr(jit_names_hint(STR("node"), true), "run with"));
    ok(strstr(jit_names_hint(STR("java"), false), "-XX:+PreserveFramePointer") &&
       strstr(jit_names_hint(STR("java"), false), "jcmd PID Compiler.perfmap"));
    t = ADDR_NAMES_INIT; /* memory that is used again: nothing is left of what was there, wherever it began */
    ok(jit_names_parse(STR("1000 100 old\n1040 20 inside\n1080 100 later\n5000 10 kept\n4000 800 big\n4100 10 young\n"),
                       &used, &t) == 0);
    addr_names_sort(&t);
    ok(!addr_names_find(&t, 0x1010, &name, NULL));
    ok(addr_names_find(&t, 0x1045, &name, NULL) && str_is(name, "inside"));
    ok(addr_names_find(&t, 0x1090, &name, NULL) && str_is(name, "later"));
    ok(addr_names_find(&t, 0x4105, &name, NULL) && str_is(name, "young"));
    ok(!addr_names_find(&t, 0x4005, &name, NULL));
    ok(addr_names_find(&t, 0x5005, &name, NULL) && str_is(name, "kept"));
    addr_names_done(&t);
}

static void test_jit_file(void)
{
    char text[16] = "";
    char proc[128], command[512];
    struct err e;
    int fd;

    snprintf(proc, sizeof proc, "%s/proc", tree);
    ok(jit_names_open(proc, 7, &e) == -ENOENT);
    FILE_TEXT("proc/7/root/tmp/perf-1.map", "10 10 js\n"); /* its pid in its own namespace */
    snprintf(command, sizeof command,
             "printf 'Name:\\tworker\\nUid:\\t0\\t%u\\t0\\t0\\nNSpid:\\t7\\t1\\n' > '%s/proc/7/status'", geteuid() + 1,
             tree);
    ok(system(command) == 0);
    ok(jit_names_open(proc, 7, &e) == -EPERM); /* root's or anybody's file is not the process's own */
    snprintf(command, sizeof command,
             "printf 'Name:\\tworker\\nUid:\\t0\\t%u\\t0\\t0\\nNSpid:\\t7\\t1\\n' > '%s/proc/7/status'", geteuid(),
             tree);
    ok(system(command) == 0);
    fd = jit_names_open(proc, 7, &e);
    ok(fd >= 0 && read(fd, text, sizeof text - 1) == 9 && strcmp(text, "10 10 js\n") == 0);
    fd_close(fd);
    /* A link that leads out of the root stays inside; a directory is no file. */
    snprintf(command, sizeof command, "cd '%s/proc/7/root/tmp' && rm perf-1.map && ln -s /etc/passwd perf-1.map", tree);
    ok(system(command) == 0);
    ok(jit_names_open(proc, 7, &e) == -ENOENT);
    snprintf(command, sizeof command, "cd '%s/proc/7/root/tmp' && rm perf-1.map && mkdir perf-1.map", tree);
    ok(system(command) == 0);
    ok(jit_names_open(proc, 7, &e) == -EINVAL);
    if (geteuid() == 0) {
        snprintf(command, sizeof command,
                 "cd '%s/proc/7/root/tmp' && rmdir perf-1.map && echo '10 10 js' >perf-1.map && "
                 "chown 4242 perf-1.map",
                 tree);
        ok(system(command) == 0);
        ok(jit_names_open(proc, 7, &e) == -EPERM);
    }
}

static const char *version_of(const char *command, size_t n)
{
    static char version[80];
    struct service_script script;
    char dir[128];

    ok(service_script_of((struct str){command, (uint32_t) n}, (struct str){0}, &script));
    snprintf(dir, sizeof dir, "%s/proc/7", tree);
    program_version(dir, &script, version, sizeof version);
    return version;
}

#define VERSION_OF(command) version_of(command, sizeof(command) - 1)

static void test_program_version(void)
{
    struct service_script script;
    char first[80];

    ok(!service_script_of(STR("/usr/sbin/nginx\0-g\0x"), (struct str){0}, &script));
    FILE_TEXT("proc/7/root/srv/app/lib/main.py", "print(1)\n");
    snprintf(first, sizeof first, "%s", VERSION_OF("python3.11\0/srv/app/lib/main.py\0--x\0"));
    ok(strlen(first) == 16);
    FILE_TEXT("proc/7/cwd/main.py", "print(1)\n"); /* the same program in another place */
    eq_str(str_from(VERSION_OF("python3\0main.py\0")), str_from(first));
    FILE_TEXT("proc/7/root/srv/app/lib/main.py", "print(2)\n");
    ok(strcmp(VERSION_OF("python3\0/srv/app/lib/main.py\0"), first) != 0);
    FILE_TEXT("proc/7/root/srv/app/pyproject.toml",
              "[tool.x]\nversion = \"9\"\n[project]\nname='a'\nversion = '1.4.2'\n");
    eq_str(str_from(VERSION_OF("python3\0-W\0ignore\0/srv/app/lib/main.py\0")), STR("1.4.2"));
    FILE_TEXT("proc/7/root/srv/web/index.js", "1");
    FILE_TEXT("proc/7/root/srv/web/package.json",
              "{\"a\": {\"version\": \"0\"}, \"b\": \"version\",\n \"version\" : \"2.0.1-rc1\"}");
    eq_str(str_from(VERSION_OF("node\0--require\0x\0/srv/web/index.js\0")), STR("2.0.1-rc1"));
    FILE_TEXT("proc/7/root/srv/web/package.json", "{\"version\": \"a<b>\"}"); /* not a version */
    eq_int(strlen(VERSION_OF("node\0/srv/web/index.js\0")), 16);
    FILE_TEXT("proc/7/root/srv/a.jar", "PK");
    eq_int(strlen(VERSION_OF("java\0-Xmx1g\0-jar\0/srv/a.jar\0")), 16);
    eq_str(str_from(VERSION_OF("python3\0-c\0import x\0")), STR(""));
    eq_str(str_from(VERSION_OF("python3\0-m\0http.server\0")), STR(""));
    eq_str(str_from(VERSION_OF("java\0-cp\0/srv\0com.example.Main\0")), STR(""));
    eq_str(str_from(VERSION_OF("sh\0/srv/none\0")), STR(""));
}

static void test_kallsyms(void)
{
    struct addr_names t = ADDR_NAMES_INIT;
    struct str name;

    ok(kallsyms_parse(
           STR("ffffffff81000000 T _stext\nffffffff81000000 D data_of_it\nffffffff81000100 t f\n"
               "ffffffff81000180 d var\nffffffffa0000000 t init\t[ext4]\n0000000000000000 T hidden\nrubbish\n"),
           &t) == 0);
    ok(addr_names_find(&t, 0xffffffff810000ff, &name, NULL) && str_is(name, "_stext"));
    ok(addr_names_find(&t, 0xffffffff8100017f, &name, NULL) && str_is(name, "f"));
    ok(!addr_names_find(&t, 0xffffffff81000180, &name, NULL)); /* data */
    ok(addr_names_find(&t, 0xffffffffa0000010, &name, NULL) && str_is(name, "init [ext4]"));
    ok(!addr_names_find(&t, 0xffffffffa0100000, &name, NULL)); /* too far */
    addr_names_done(&t);
}

static void test_go_build(void)
{
    struct go_build g = {0};

    go_build_parse(
        STR("path\tcmd/x\nmod\tx.org/x\tv1.2.3\th1:abc\nbuild\tvcs.revision=4f2c91ab\nbuild\tvcs.modified=true\n"), &g);
    eq_str(g.path, STR("cmd/x"));
    eq_str(g.module_version, STR("v1.2.3"));
    eq_str(g.vcs_revision, STR("4f2c91ab"));
    ok(g.vcs_modified);
    eq_int(go_build_minor(STR("go1.26.1")), 26);
    eq_int(go_build_minor(STR("go1.9rc1")), 9);
    eq_int(go_build_minor(STR("devel")), 0);
}

int main(void)
{
    make_tree();
    tap_run(test_cgroup);
    tap_run(test_container_files);
    tap_run(test_sources);
    tap_torture_lax(torture, "an identity has what could be read");
    tap_run(test_host_is_remembered);
    tap_run(test_in_exec);
    tap_run(test_container);
    tap_run(test_rules);
    tap_run(test_context);
    tap_run(test_own_profiles);
    tap_run(test_foreign);
    tap_run(test_service_names);
    tap_run(test_jit_names);
    tap_run(test_jit_file);
    tap_run(test_program_version);
    tap_run(test_kallsyms);
    tap_run(test_go_build);
    remove_tree();
    return tap_done();
}
