/* SPDX-License-Identifier: Apache-2.0 */
/* sd_notify(3), see notify.h. A message that cannot be sent is lost: the service manager has its own deadlines. */
#include "base/notify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

static struct {
    int fd; /* 0: none */
    int64_t interval;
} manager;

static int open_socket(const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(name);
    int fd;

    if ((name[0] != '/' && name[0] != '@') || n >= sizeof a.sun_path)
        return 0;
    memcpy(a.sun_path, name, n);
    if (name[0] == '@') /* an abstract name */
        a.sun_path[0] = 0;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *) &a, (socklen_t) (offsetof(struct sockaddr_un, sun_path) + n)) == 0)
        return fd;
    fd_close(fd);
    return 0;
}

void notify_open(void)
{
    const char *name = getenv("NOTIFY_SOCKET"), *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    int64_t us, who;

    if (name)
        manager.fd = open_socket(name);
    if (usec && str_to_i64(str_from(usec), 10, &us) >= 0 && us > 0 && us < INT64_MAX / 1000 &&
        (!pid || (str_to_i64(str_from(pid), 10, &who) >= 0 && who == getpid())))
        manager.interval = us * 1000 / 4;
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

static void tell(const char *text)
{
    if (manager.fd > 0)
        (void) !send(manager.fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void notify_ready(const char *status)
{
    char text[512];

    snprintf(text, sizeof text, "READY=1\nSTATUS=%s", status);
    tell(text);
}

/* The time is what newer service managers know the reload by. */
void notify_reloading(void)
{
    char text[64];

    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%lld", (long long) (clock_mono() / 1000));
    tell(text);
}

void notify_stopping(void)
{
    tell("STOPPING=1");
}

int64_t notify_interval(void)
{
    return manager.fd > 0 ? manager.interval : 0;
}

void notify_alive(void)
{
    tell("WATCHDOG=1");
}
