/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks up the uid of a connection's peer, see peer_uid.h. The peer's socket is the one whose local address is our
 * peer's and whose remote address is ours. An entry of the socket table counts if both addresses and ports are equal,
 * its state is that of an open connection, and it has an inode. A socket whose process has closed it (TIME_WAIT, an
 * orphan in FIN_WAIT) has no inode and is listed with uid 0; one in SYN_SENT with the same addresses is another
 * process's attempt to reuse the port and not our peer.
 */
#include "net/peer_uid.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/macros.h"
#include "net/address.h"

enum { TABLE_MAX = 64 << 20 };

struct end {
    uint32_t address[4]; /* network byte order; IPv4 uses the first one only */
    uint16_t port;       /* network byte order */
};

struct ends {
    int family;
    struct end peer, own;
};

static bool put_end(const struct address *a, struct end *ret)
{
    *ret = (struct end){0};
    if (a->sa.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *) &a->sa;

        ret->address[0] = v4->sin_addr.s_addr;
        ret->port = v4->sin_port;
        return true;
    }
    if (a->sa.ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) &a->sa;

        ret->port = v6->sin6_port;
        if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) /* on a socket for both families: listed in the table as IPv4 */
            memcpy(ret->address, &v6->sin6_addr.s6_addr[12], sizeof ret->address[0]);
        else
            memcpy(ret->address, &v6->sin6_addr, sizeof ret->address);
        return true;
    }
    return false;
}

static bool is_open(unsigned state, uint32_t inode)
{
    return inode && (state == TCP_ESTABLISHED || state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2);
}

/* --- sock_diag --- */

struct diag_question {
    struct nlmsghdr head;
    struct inet_diag_req_v2 body;
};

static int ask(int fd, const struct ends *q)
{
    struct diag_question m = {
        .head = {.nlmsg_len = sizeof m, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
        .body = {.sdiag_family = (uint8_t) q->family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u},
    };
    struct inet_diag_sockid *id = &m.body.id;
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

    memcpy(id->idiag_src, q->peer.address, sizeof id->idiag_src);
    memcpy(id->idiag_dst, q->own.address, sizeof id->idiag_dst);
    id->idiag_sport = q->peer.port;
    id->idiag_dport = q->own.port;
    id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    return sendto(fd, &m, sizeof m, MSG_DONTWAIT, (struct sockaddr *) &kernel, sizeof kernel) < 0 ? -errno : 0;
}

static int take_answer(const void *p, size_t n, const struct ends *q, uid_t *ret)
{
    const struct nlmsghdr *h = p;
    const struct inet_diag_msg *m = NLMSG_DATA(h);

    if (n < sizeof *h || h->nlmsg_len < sizeof *h || h->nlmsg_len > n)
        return -EBADMSG;
    if (h->nlmsg_type == NLMSG_ERROR) {
        const struct nlmsgerr *error = NLMSG_DATA(h);

        return h->nlmsg_len >= NLMSG_LENGTH(sizeof *error) && error->error < 0 ? error->error : -EBADMSG;
    }
    if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY || h->nlmsg_len < NLMSG_LENGTH(sizeof *m))
        return -EBADMSG;
    if (m->id.idiag_sport != q->peer.port || m->id.idiag_dport != q->own.port ||
        !is_open(m->idiag_state, m->idiag_inode))
        return -ENOENT;
    *ret = m->idiag_uid;
    return 0;
}

static int by_diag(const struct ends *q, uid_t *ret)
{
    _cleanup_(fd_closep) int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    _Alignas(struct nlmsghdr) char answer[4096];
    ssize_t n;
    int r = fd < 0 ? -errno : ask(fd, q);

    if (r < 0)
        return r;
    n = recv(fd, answer, sizeof answer, MSG_DONTWAIT); /* the kernel answers before sendto() returns */
    return n < 0 ? -errno : take_answer(answer, (size_t) n, q, ret);
}

/* --- /proc/net/tcp, tcp6: for kernels and sandboxes without sock_diag --- */

static void print_end(const struct end *e, int family, char *out, size_t size)
{
    if (family == AF_INET)
        snprintf(out, size, "%08X:%04X", e->address[0], ntohs(e->port));
    else
        snprintf(out, size, "%08X%08X%08X%08X:%04X", e->address[0], e->address[1], e->address[2], e->address[3],
                 ntohs(e->port));
}

static int by_table(const struct ends *q, uid_t *ret)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    char peer[48], own[48];
    int r = fd_read_file(q->family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6", TABLE_MAX, &text, NULL);

    if (r < 0)
        return r;
    print_end(&q->peer, q->family, peer, sizeof peer);
    print_end(&q->own, q->family, own, sizeof own);
    for (struct str rest = buf_str(&text); rest.n;) {
        struct str line = str_cut(&rest, '\n');
        char copy[512], local[48], remote[48];
        unsigned state, uid, inode;

        snprintf(copy, sizeof copy, "%.*s", STR_FMT(line));
        if (sscanf(copy, " %*u: %47s %47s %x %*s %*s %*s %u %*u %u", local, remote, &state, &uid, &inode) == 5 &&
            strcmp(local, peer) == 0 && strcmp(remote, own) == 0 && is_open(state, inode)) {
            *ret = uid;
            return 0;
        }
    }
    return -ENOENT;
}

int peer_uid(int fd, uid_t *ret)
{
    struct address peer = {.len = sizeof peer.sa}, own = {.len = sizeof own.sa};
    struct ends q;
    int r;

    if (getpeername(fd, (struct sockaddr *) &peer.sa, &peer.len) < 0 ||
        getsockname(fd, (struct sockaddr *) &own.sa, &own.len) < 0)
        return -errno;
    if (peer.sa.ss_family == AF_UNIX) {
        struct ucred who;
        socklen_t n = sizeof who;

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) < 0)
            return -errno;
        *ret = who.uid;
        return 0;
    }
    q.family =
        peer.sa.ss_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&((const struct sockaddr_in6 *) &peer.sa)->sin6_addr)
            ? AF_INET6
            : AF_INET;
    if (!put_end(&peer, &q.peer) || !put_end(&own, &q.own) || !address_is_loopback(&peer))
        return -EADDRNOTAVAIL;
    r = by_diag(&q, ret);
    return r == 0 || r == -ENOENT ? r : by_table(&q, ret);
}
