/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue's log with the input as its only segment: it is opened, read to its end, written to, and opened again. Bits of
 * the first byte: 1, the header and the checksums of the records are corrected, so that the code after these checks is
 * reached; 2, there is a cursor, with the next byte as its position.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/qlog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEADER = 16, RECORD = 24 };
static char dir[64], segment[128], cursor[128];

static void remove_files(const char *path)
{
    DIR *d = opendir(path);

    for (struct dirent *f; d && (f = readdir(d));)
        unlinkat(dirfd(d), f->d_name, 0);
    if (d)
        closedir(d);
    rmdir(path);
}

static void remove_dir(void)
{
    char lost[128];

    snprintf(lost, sizeof lost, "%s/lost", dir);
    remove_files(lost);
    remove_files(dir);
}

static void write_file(const char *path, const void *p, size_t n)
{
    int fd = fd_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || fd_write_all(fd, p, n) < 0)
        abort();
    fd_close(fd);
}

static void mend(uint8_t *p, size_t n)
{
    static const uint8_t head[HEADER] = {'W', 'I', 'C', 'K', 'Q', 'L', 'G', '1', 1};

    if (n >= HEADER)
        memcpy(p, head, HEADER);
    for (size_t at = HEADER; at + RECORD <= n;) {
        uint32_t length, crc;

        memcpy(&length, p + at + 4, 4);
        if (length > n - at - RECORD)
            break;
        memcpy(p + at, "WQR1", 4);
        crc = crc32c(0, p + at + 4, 16);
        crc = crc32c(crc, p + at + RECORD, length);
        memcpy(p + at + 20, &crc, 4);
        at += RECORD + length;
    }
}

static void read_all(struct qlog *q)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct qlog_entry x = {0};
    struct err e;

    for (int i = 0; i < 10000 && qlog_read(q, &x, &b, &e) > 0; i++)
        if (b.n > QLOG_RECORD_MAX)
            abort();
    qlog_release(q, x.seq);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct qlog_options o = {.segment_bytes = 4096, .max_bytes = 1 << 20};
    static uint8_t bytes[1 << 16];
    size_t n = size > 2 ? MIN(size - 2, sizeof bytes) : 0;

    if (!*dir) {
        snprintf(dir, sizeof dir, "/tmp/wick-fuzz-qlog-XXXXXX");
        if (!mkdtemp(dir))
            abort();
        atexit(remove_dir);
        snprintf(segment, sizeof segment, "%s/%016x.log", dir, 1);
        snprintf(cursor, sizeof cursor, "%s/cursor", dir);
    }
    if (size < 2)
        return 0;
    remove_dir();
    if (fd_mkdir_all(dir, 0700) < 0)
        abort();
    memcpy(bytes, data + 2, n);
    if (data[0] & 1)
        mend(bytes, n);
    write_file(segment, bytes, n);
    if (data[0] & 2) {
        uint8_t c[12] = {data[1]};
        uint32_t crc = crc32c(0, c, 8);

        memcpy(c + 8, &crc, 4);
        write_file(cursor, c, sizeof c);
    }
    for (int i = 0; i < 2; i++) {
        struct qlog *q = NULL;
        struct err e;

        if (qlog_open(dir, &o, &q, &e) < 0)
            break;
        read_all(q);
        if (qlog_put(q, false, 1, "after", 5) == 0)
            qlog_commit(q, &e);
        read_all(q);
        qlog_close(q);
    }
    return 0;
}
