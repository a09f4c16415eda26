/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and stops processes (demo_child.h). */
#include "demo/demo_child.h"

#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t demo_child_start(const char *file, const char *const *argv, int out)
{
    pid_t parent = getpid(), pid = fork();

    if (pid != 0) {
        if (out >= 0)
            close(out);
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(1);
    setpgid(0, 0); /* Ctrl-C is for the parent, which stops its children in order */
    if (out >= 0)
        dup2(out, STDOUT_FILENO);
    execv(file, (char **) (uintptr_t) argv);
    _exit(127);
}

void demo_child_stop(pid_t *pid)
{
    if (*pid <= 0)
        return;
    kill(-*pid, SIGTERM); /* its group */
    kill(*pid, SIGTERM);  /* which it may not have made yet */
    for (int i = 0; i < 200 && waitpid(*pid, NULL, WNOHANG) == 0; i++)
        usleep(10000);
    kill(-*pid, SIGKILL);
    kill(*pid, SIGKILL);
    waitpid(*pid, NULL, 0);
    *pid = 0;
}
