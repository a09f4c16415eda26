/* SPDX-License-Identifier: Apache-2.0 */
/* Parses, resolves and formats addresses, and opens listening and connecting sockets. See address.h. */
#include "net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "net/holder.h"

int address_split(const char *text, const char *default_port, struct address_parts *ret, struct err *e)
{
    struct str s = str_from(text), host, port = {0};
    ptrdiff_t colon = -1;
    uint64_t number;

    *ret = (struct address_parts){0};
    if (str_starts(s, STR("unix:"))) {
        host = str_slice(s, 5, s.n);
        if (str_starts(host, STR("//")))
            host = str_slice(host, 2, host.n);
        if (!host.n || host.n >= sizeof((struct sockaddr_un *) 0)->sun_path)
            return err_set(e, -EINVAL, "'%s': the path of a unix socket must have 1 to 107 bytes", text);
        ret->is_unix = true;
        memcpy(ret->host, host.p, host.n);
        return 0;
    }
    for (size_t i = s.n; i-- > 0 && s.p[i] != ']';)
        if (s.p[i] == ':') {
            colon = (ptrdiff_t) i;
            break;
        }
    host = colon < 0 ? s : str_slice(s, 0, (size_t) colon);
    if (colon >= 0)
        port = str_slice(s, (size_t) colon + 1, s.n);
    if (host.n > 1 && host.p[0] == '[' && host.p[host.n - 1] == ']')
        host = str_slice(host, 1, host.n - 1);
    else if (str_find_char(host, ':') >= 0) /* a bare IPv6 address */
        host = s, port = (struct str){0};
    if (colon < 0 && host.n && str_to_u64(host, 10, &number) == 0)
        port = host, host = (struct str){0};
    if (!port.n && default_port)
        port = str_from(default_port);
    if (str_to_u64(port, 10, &number) < 0 || number > 65535)
        return err_set(e, -EINVAL, "'%s' is not an address; expected HOST:PORT with a port between 0 and 65535", text);
    if (host.n >= sizeof ret->host)
        return err_set(e, -EINVAL, "'%s': the host name is too long", text);
    memcpy(ret->host, host.p ? host.p : "", host.n);
    snprintf(ret->port, sizeof ret->port, "%u", (unsigned) number);
    return 0;
}

static void fill_unix(const struct address_parts *p, struct address *ret)
{
    struct sockaddr_un *un = (struct sockaddr_un *) &ret->sa;

    un->sun_family = AF_UNIX;
    snprintf(un->sun_path, sizeof un->sun_path, "%.107s", p->host);
    ret->len = sizeof *un;
}

static int lookup(const struct address_parts *p, int flags, struct address *ret, size_t n, int *ret_gai)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV | AI_PASSIVE}, *list;
    int count = 0;

    *ret_gai = getaddrinfo(p->host[0] ? p->host : NULL, p->port, &hints, &list);
    if (*ret_gai)
        return -ENOENT;
    for (struct addrinfo *a = list; a && count < (int) n; a = a->ai_next) {
        if (a->ai_addrlen > sizeof ret->sa)
            continue;
        memset(&ret[count], 0, sizeof ret[count]);
        memcpy(&ret[count].sa, a->ai_addr, a->ai_addrlen);
        ret[count++].len = a->ai_addrlen;
    }
    freeaddrinfo(list);
    return count ? count : -ENOENT;
}

int address_numeric(const struct address_parts *p, struct address *ret)
{
    struct address both[4] = {0};
    int gai, n;

    *ret = (struct address){0};
    if (p->is_unix) {
        fill_unix(p, ret);
        return 0;
    }
    n = lookup(p, AI_NUMERICHOST, both, ARRAY_SIZE(both), &gai);
    if (n < 0)
        return n;
    *ret = both[0];
    for (int i = 0; i < n && !p->host[0]; i++) /* every address: one IPv6 socket accepts both families */
        if (both[i].sa.ss_family == AF_INET6)
            *ret = both[i];
    return 0;
}

int address_resolve(const struct address_parts *p, struct address *ret, size_t n, struct err *e)
{
    int gai, r;

    if (address_numeric(p, ret) == 0)
        return 1;
    r = lookup(p, AI_ADDRCONFIG, ret, n, &gai);
    if (r < 0 && gai)
        r = lookup(p, 0, ret, n, &gai);
    if (r < 0 &&
        strcmp(p->host, "localhost") == 0) { /* also where nothing says so, as in a bare container (RFC 6761) */
        struct address_parts loopback = *p;

        memcpy(loopback.host, "127.0.0.1", sizeof "127.0.0.1");
        r = address_numeric(&loopback, ret) == 0 ? 1 : r;
    }
    if (r < 0) /* not -ENOENT, which a client takes for "the peer does not have it" */
        return err_set(e, -EHOSTUNREACH, "cannot resolve '%s': %s", p->host, gai_strerror(gai));
    return r;
}

void address_format(const struct address *a, char *out, size_t n)
{
    char host[INET6_ADDRSTRLEN] = "?";
    const struct sockaddr_in *v4 = (const struct sockaddr_in *) &a->sa;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) &a->sa;
    const struct sockaddr_un *un = (const struct sockaddr_un *) &a->sa;

    switch (a->sa.ss_family) {
    case AF_INET:
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        snprintf(out, n, "%s:%u", host, ntohs(v4->sin_port));
        return;
    case AF_INET6:
        if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
            inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], host, sizeof host);
            snprintf(out, n, "%s:%u", host, ntohs(v6->sin6_port));
            return;
        }
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        snprintf(out, n, "[%s]:%u", host, ntohs(v6->sin6_port));
        return;
    case AF_UNIX:
        if (a->len > offsetof(struct sockaddr_un, sun_path) && un->sun_path[0])
            snprintf(out, n, "unix:%.107s", un->sun_path);
        else
            snprintf(out, n, "unix:");
        return;
    default:
        snprintf(out, n, "?");
    }
}

int address_port(const struct address *a)
{
    if (a->sa.ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *) &a->sa)->sin_port);
    if (a->sa.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *) &a->sa)->sin6_port);
    return 0;
}

void address_set_port(struct address *a, int port)
{
    if (a->sa.ss_family == AF_INET)
        ((struct sockaddr_in *) &a->sa)->sin_port = htons((uint16_t) port);
    else if (a->sa.ss_family == AF_INET6)
        ((struct sockaddr_in6 *) &a->sa)->sin6_port = htons((uint16_t) port);
}

bool address_is_loopback(const struct address *a)
{
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *) &a->sa)->sin6_addr;

    if (a->sa.ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *) &a->sa)->sin_addr.s_addr) >> 24 == 127;
    if (a->sa.ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
    return a->sa.ss_family == AF_UNIX;
}

static int open_socket(const struct address *a)
{
    int fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    return fd < 0 ? -errno : fd;
}

/* Removes a socket file that no process listens on: it was left by a process that died. */
static void remove_stale_unix(const struct address *a)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *) &a->sa;
    _cleanup_(fd_closep) int fd = -1;
    struct stat st;

    if (lstat(un->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return;
    fd = open_socket(a);
    if (fd >= 0 && connect(fd, (const struct sockaddr *) &a->sa, a->len) < 0 && errno == ECONNREFUSED)
        fd_unlink(AT_FDCWD, un->sun_path);
}

static int listen_failed(const struct address *a, int code, struct err *e)
{
    char text[ADDRESS_TEXT_MAX], holder[128] = "";

    address_format(a, text, sizeof text);
    if (code == -EADDRINUSE && holder_of_port(address_port(a), holder, sizeof holder))
        return err_set(e, code, "cannot listen on %s: the port is in use by %s", text, holder);
    return err_set(e, code, "cannot listen on %s: %m", text);
}

/* "Every address" on a machine without IPv6. */
static bool any_v4(const struct address *a, struct address *ret)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) &a->sa;
    struct sockaddr_in *v4 = (struct sockaddr_in *) &ret->sa;

    if (a->sa.ss_family != AF_INET6 || !IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr))
        return false;
    *ret = (struct address){.len = sizeof *v4};
    v4->sin_family = AF_INET;
    v4->sin_port = v6->sin6_port;
    return true;
}

int address_listen(const struct address *a, int *ret_fd, struct address *ret_bound, struct err *e)
{
    _cleanup_(fd_closep) int fd = -1;
    struct address v4;
    int on = 1, off = 0;

    if (a->sa.ss_family == AF_UNIX)
        remove_stale_unix(a);
    fd = open_socket(a);
    if (fd == -EAFNOSUPPORT && any_v4(a, &v4))
        return address_listen(&v4, ret_fd, ret_bound, e);
    if (fd < 0)
        return listen_failed(a, fd, e);
    if (a->sa.ss_family != AF_UNIX)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->sa.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, (const struct sockaddr *) &a->sa, a->len) < 0 || listen(fd, 4096) < 0)
        return listen_failed(a, -errno, e);
    if (ret_bound) {
        *ret_bound = (struct address){.len = sizeof ret_bound->sa};
        getsockname(fd, (struct sockaddr *) &ret_bound->sa, &ret_bound->len);
    }
    *ret_fd = fd;
    fd = -1;
    return 0;
}

int address_connect(const struct address *a, int *ret_fd, struct err *e)
{
    int fd = open_socket(a), r = 0;
    char text[ADDRESS_TEXT_MAX];

    if (fd >= 0) {
        if (a->sa.ss_family != AF_UNIX)
            address_tune(fd);
        r = connect(fd, (const struct sockaddr *) &a->sa, a->len) < 0 ? -errno : 0;
    }
    if (fd < 0 || (r < 0 && r != -EINPROGRESS && r != -EAGAIN)) {
        address_format(a, text, sizeof text);
        fd_close(fd);
        return err_set(e, fd < 0 ? fd : r, "cannot connect to %s: %m", text);
    }
    if (r == -EAGAIN) { /* a unix socket with a full backlog: it cannot be waited for */
        address_format(a, text, sizeof text);
        fd_close(fd);
        return err_set(e, -EAGAIN, "cannot connect to %s: its backlog is full", text);
    }
    *ret_fd = fd;
    return r < 0;
}

int address_connect_result(int fd)
{
    int code = 0;
    socklen_t n = sizeof code;

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &n) < 0)
        return -errno;
    return -code;
}

void address_tune(int fd)
{
    int on = 1, idle = 60, interval = 15, count = 4, user_ms = 120000;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_ms, sizeof user_ms);
}

bool address_is_link_local(const char *address)
{
    struct in6_addr six;
    struct in_addr four;
    char host[128];
    size_t n;

    if (*address == '[')
        address++;
    n = strcspn(address, strchr(address, ']') ? "]%" : "%");
    if (strchr(address, ':') == strrchr(address, ':') && !strchr(address, ']')) /* not IPv6: what follows is a port */
        n = strcspn(address, ":");
    snprintf(host, sizeof host, "%.*s", (int) MIN(n, sizeof host - 1), address);
    if (inet_pton(AF_INET, host, &four) == 1)
        return (ntohl(four.s_addr) & 0xffff0000u) == 0xa9fe0000u;
    if (inet_pton(AF_INET6, host, &six) != 1)
        return false;
    if (IN6_IS_ADDR_V4MAPPED(&six))
        return six.s6_addr[12] == 169 && six.s6_addr[13] == 254;
    return IN6_IS_ADDR_LINKLOCAL(&six);
}
