/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The location of a ClickHouse store:
 *
 *     clickhouse://USER@HOST:PORT[,HOST:PORT...]/DATABASE[?OPTION=VALUE[&...]]
 *
 *   cluster=NAME        the tables are replicated and distributed over this cluster of the server's configuration
 *   quorum=N            replicas that must have a block before it is acknowledged (default with a cluster: 2)
 *   tls=true            HTTPS; also ca=FILE (trusted CAs) and insecure=true (the certificate is not verified)
 *   password_file=FILE  its first line is the password, and is read again when the server refuses it; otherwise the environment variable WICK_CLICKHOUSE_PASSWORD
 *   timeout=SECONDS     for one request (default 60)
 *
 * A password in the location itself is refused: locations appear in logs and process lists.
 */
#ifndef CLICKHOUSE_CLICK_URL_H
#define CLICKHOUSE_CLICK_URL_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

enum { CLICK_HOSTS_MAX = 64 };

struct click_url {
    const char *hosts[CLICK_HOSTS_MAX]; /* http://host:port */
    uint32_t n_hosts;
    const char *user, *database, *cluster; /* cluster: "" = none */
    const char *password, *password_file;  /* the file may be NULL */
    const char *ca;
    uint32_t quorum; /* 0 = not set */
    bool tls, insecure;
    int64_t timeout_ns;
    struct arena arena; /* all strings */
};

/* *ret must be freed in either case. */
int click_url_parse(const char *place, struct click_url *ret, struct err *e);
void click_url_done(struct click_url *u);
/* Appends the password that a file has. */
int click_password_read(const char *path, struct buf *ret, struct err *e);

#endif
