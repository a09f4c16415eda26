/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and stops the services of examples/ (demo_examples.h). */
#include "demo/demo_examples.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/dir_tree.h"
#include "base/fd.h"
#include "base/str.h"
#include "demo/demo_child.h"

#define EVERY_SECONDS "5"

/* tools/embed makes these of examples/. */
extern const char example_go[], example_python[], example_node[], example_java[], example_ruby[], example_php[];
extern const size_t example_go_size, example_python_size, example_node_size, example_java_size, example_ruby_size,
    example_php_size;

static const struct example {
    const char *name, *runtime, *file, *text;
    const size_t *size;
    const char *test;    /* a shell command that fails where something is missing; NULL: none */
    const char *missing; /* what then is missing */
    const char *command; /* for the shell, which it replaces, so that the service is the child */
} examples[DEMO_EXAMPLES] = {
    {"go", "go", "checkout.go", example_go, &example_go_size, NULL, NULL,
     "go build -o checkout-go checkout.go && exec ./checkout-go"},
    {"python", "python3", "checkout.py", example_python, &example_python_size, NULL, NULL, "exec python3 checkout.py"},
    {"node", "node", "checkout.js", example_node, &example_node_size, NULL, NULL, "exec node checkout.js"},
    {"java", "java", "Checkout.java", example_java, &example_java_size, NULL, NULL, "exec java -Xmx128m Checkout.java"},
    {"ruby", "ruby", "checkout.rb", example_ruby, &example_ruby_size, "ruby -e 'require \"stackprof\"'",
     "the gem stackprof (Debian: ruby-stackprof)", "exec ruby checkout.rb"},
    {"php", "php", "checkout.php", example_php, &example_php_size,
     "php -r 'exit(class_exists(\"ExcimerProfiler\") ? 0 : 1);'", "the extension excimer (Debian: php-excimer)",
     "exec php checkout.php"},
};

static const struct example *find(struct str name)
{
    for (size_t i = 0; i < DEMO_EXAMPLES; i++)
        if (str_is(name, examples[i].name))
            return &examples[i];
    return NULL;
}

int demo_examples_check(const char *with, struct err *e)
{
    struct str rest = str_from(with);

    if (!rest.n)
        return err_set(e, -EINVAL, "--with: a list of go, python, node, java, ruby, php");
    while (rest.n) {
        struct str name = str_cut(&rest, ',');

        if (!find(name))
            return err_set(e, -EINVAL, "--with: '%.*s' is none of go, python, node, java, ruby, php", STR_FMT(name));
    }
    return 0;
}

static bool shell_succeeds(const char *command)
{
    const char *argv[] = {"sh", "-c", command, NULL};
    pid_t pid = demo_child_start("/bin/sh", argv, open("/dev/null", O_WRONLY | O_CLOEXEC));
    int status;

    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static int write_source(const struct demo_examples *x, const struct example *t, struct err *e)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", x->dir, t->file);
    return fd_write_file(path, t->text, *t->size, e);
}

static int start_one(struct demo_examples *x, const struct example *t, struct err *e)
{
    char command[256];
    const char *argv[] = {"sh", "-c", command, NULL};
    int r;

    snprintf(command, sizeof command, "command -v %s >/dev/null", t->runtime);
    if (!shell_succeeds(command)) {
        printf("%s is left out: %s is not installed\n", t->name, t->runtime);
        return 0;
    }
    if (t->test && !shell_succeeds(t->test)) {
        printf("%s is left out: %s is not installed\n", t->name, t->missing);
        return 0;
    }
    r = write_source(x, t, e);
    if (r < 0)
        return r;
    snprintf(command, sizeof command, "cd %s && %s", x->dir, t->command);
    x->pid[t - examples] = demo_child_start("/bin/sh", argv, -1);
    if (x->pid[t - examples] < 0)
        return err_set(e, -errno, "cannot start a process: %m");
    printf("checkout-%s is running, in %s: it sends a profile every " EVERY_SECONDS " seconds\n", t->name, t->name);
    return 0;
}

int demo_examples_start(struct demo_examples *x, const char *with, const char *url, struct err *e)
{
    const char *tmp = secure_getenv("TMPDIR");
    struct str rest = str_from(with);
    int r = 0;

    if (snprintf(x->dir, sizeof x->dir, "%s/wick-demo-XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp") < 0 ||
        !mkdtemp(x->dir)) {
        r = err_set(e, -errno, "cannot create '%s': %m", x->dir);
        x->dir[0] = 0;
        return r;
    }
    setenv("WICK_URL", url, 1);
    setenv("WICK_EVERY", EVERY_SECONDS, 1);
    while (r == 0 && rest.n) {
        const struct example *t = find(str_cut(&rest, ','));

        if (x->pid[t - examples] == 0) /* named twice */
            r = start_one(x, t, e);
    }
    fflush(stdout);
    return r;
}

void demo_examples_look(struct demo_examples *x)
{
    for (size_t i = 0; i < DEMO_EXAMPLES; i++)
        if (x->pid[i] > 0 && waitpid(x->pid[i], NULL, WNOHANG) == x->pid[i]) {
            x->pid[i] = -1;
            printf("checkout-%s has ended\n", examples[i].name);
            fflush(stdout);
        }
}

void demo_examples_stop(struct demo_examples *x)
{
    for (size_t i = 0; i < DEMO_EXAMPLES; i++)
        demo_child_stop(&x->pid[i]);
    if (x->dir[0])
        dir_remove((struct dir_place){AT_FDCWD, x->dir});
}
