/* SPDX-License-Identifier: Apache-2.0 */
/* The client of object stores: signatures (with the vectors of AWS's documentation), locations, credentials, XML, and requests
 * to a server that fails in many ways. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "fake_s3.h"
#include "objects/objects.h"
#include "objects/s3_place.h"
#include "objects/s3_xml.h"
#include "objects/sigv4.h"
#include "tap.h"

#define check(cond, ...)           \
    do {                           \
        if (!(cond))               \
            tap_fail(__VA_ARGS__); \
    } while (0)
#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* "Authenticating Requests: Using the Authorization Header (AWS Signature Version 4)", Amazon S3 API Reference */
static void test_signatures(void)
{
    static const struct sigv4_keys keys = {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
    static const struct http_header get[] = {{STR("host"), STR("examplebucket.s3.amazonaws.com")},
                                             {STR("range"), STR("bytes=0-9")},
                                             {STR("x-amz-content-sha256"), STR(EMPTY)},
                                             {STR("x-amz-date"), STR("20130524T000000Z")}};
    static const struct http_header put[] = {
        {STR("date"), STR("Fri, 24 May 2013 00:00:00 GMT")},
        {STR("host"), STR("examplebucket.s3.amazonaws.com")},
        {STR("x-amz-content-sha256"), STR("44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072")},
        {STR("x-amz-date"), STR("20130524T000000Z")},
        {STR("x-amz-storage-class"), STR("REDUCED_REDUNDANCY")}};
    static const struct http_header list[] = {{STR("host"), STR("examplebucket.s3.amazonaws.com")},
                                              {STR("x-amz-content-sha256"), STR(EMPTY)},
                                              {STR("x-amz-date"), STR("20130524T000000Z")}};
    static const struct {
        struct sigv4_request r;
        const char *signature;
    } v[] = {
        {{"GET", STR("/test.txt"), STR(""), get, 4, EMPTY, "us-east-1", "s3", "20130524T000000Z"},
         "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
        {{"PUT", STR("/test%24file.text"), STR(""), put, 5,
          "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072", "us-east-1", "s3", "20130524T000000Z"},
         "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
        {{"GET", STR("/"), STR("lifecycle="), list, 3, EMPTY, "us-east-1", "s3", "20130524T000000Z"},
         "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
        {{"GET", STR("/"), STR("max-keys=2&prefix=J"), list, 3, EMPTY, "us-east-1", "s3", "20130524T000000Z"},
         "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
    };
    char date[SIGV4_DATE_SIZE];

    for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
        _cleanup_(buf_done) struct buf b = BUF_INIT;

        sigv4_sign(&keys, &v[i].r, &b);
        check(buf_cstr(&b) && strstr(b.p, v[i].signature), "vector %zu: %s", i, b.p);
        check(strstr(b.p, "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders="),
              "scope");
    }
    sigv4_date(1369353600ll * 1000000000, date);
    check(strcmp(date, "20130524T000000Z") == 0, "date: %s", date);
}

/* RFC 4231: a key longer than a block */
static void test_hmac(void)
{
    char key[131], hex[65];
    uint8_t hash[SHA256_SIZE];

    memset(key, 0xaa, sizeof key);
    sigv4_hmac((struct str){key, sizeof key}, STR("Test Using Larger Than Block-Size Key - Hash Key First"), hash);
    sigv4_hex(hash, hex);
    check(strcmp(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54") == 0, "long key: %s", hex);
}

static void test_places(void)
{
    static const char *const good[] = {"s3://bucket", "s3://bucket/a/b-c_d.e/", "s3://b.c.d?region=eu-central-1",
                                       "s3://bucket/p?endpoint=http://127.0.0.1:9000/&insecure=true&timeout=5"};
    static const char *const bad[] = {"s3://",
                                      "s3://ab",
                                      "s3://key:secret@bucket/p",
                                      "s3://bucket/a b",
                                      "s3://bucket/../x",
                                      "s3://bucket//x",
                                      "s3://bucket?x=1",
                                      "s3://bucket?timeout=0",
                                      "s3://bucket?endpoint=http://h/path",
                                      "s3://bucket?endpoint=ftp://h",
                                      "/dir",
                                      "s3://bucket?insecure=maybe",
                                      "s3://bucket?region="};
    struct s3_place p;

    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        struct err e = {0};

        check(objects_check_place(good[i], &e) == 0, "%s: %s", good[i], e.message);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct err e = {0};

        check(objects_check_place(bad[i], &e) < 0 && e.message[0], "%s is refused: %s", bad[i], e.message);
        check(!strstr(e.message, "secret"), "the message has no secret");
    }
    check(s3_place_parse("s3://bucket/a/b/?region=x-1", &p, NULL) == 0 && strcmp(p.prefix, "a/b") == 0 &&
              strcmp(p.endpoint, "https://s3.x-1.amazonaws.com") == 0,
          "defaults");
    s3_place_done(&p);
}

static void test_credentials(void)
{
    struct s3_credentials c = {0};
    struct err e = {0};

    check(s3_credentials_parse(STR("# x\n[other]\naws_access_key_id = A\naws_secret_access_key=B\n[default]\n"
                                   "aws_access_key_id=C\naws_secret_access_key = D=E \naws_session_token=F\n[z]\n"
                                   "aws_access_key_id=G\n"),
                               &c, &e) == 0 &&
              strcmp(c.id, "C") == 0 && strcmp(c.secret, "D=E") == 0 && strcmp(c.token, "F") == 0,
          "the default section is used");
    s3_credentials_done(&c);
    c = (struct s3_credentials){0};
    check(s3_credentials_parse(STR("aws_access_key_id=C\n"), &c, &e) < 0, "incomplete: %s", e.message);
    s3_credentials_done(&c);
}

static void test_xml(void)
{
    struct str rest = STR("<a><Contents x='1'><Key>k&amp;&#x41;&#66;&lt;&bogus;</Key></Contents><Contents/><Contents>"
                          "<Key>2</Key></Contents><Contents><Key>open");
    struct arena a;
    struct str item;

    arena_init(&a, 0);
    check(s3_xml_next(&rest, "Contents", &item) && str_is(s3_xml_text(item, "Key", &a), "k&AB<&bogus;"), "entities");
    check(s3_xml_next(&rest, "Contents", &item) && !item.n, "an empty element");
    check(s3_xml_next(&rest, "Contents", &item) && str_is(s3_xml_text(item, "Key", &a), "2"), "the next one");
    check(!s3_xml_next(&rest, "Contents", &item), "an element without an end is none");
    check(!s3_xml_text(STR("<Keys>1</Keys>"), "Key", &a).n, "another name");
    arena_done(&a);
}

/* --- requests --- */

static struct fake_s3 fake;
static struct object_store *o;

static int make_file(size_t n)
{
    int fd = memfd_create("object", 0);

    for (size_t i = 0; fd >= 0 && i < n; i += 4096) {
        char block[4096];

        for (size_t k = 0; k < sizeof block; k++)
            block[k] = (char) ((i + k) * 2654435761u >> 13);
        if (fd_pwrite_all(fd, block, MIN(sizeof block, n - i), (off_t) i) < 0)
            return -1;
    }
    return fd;
}

static int count_object(void *ctx, const char *path, uint64_t size)
{
    uint64_t *sum = ctx;

    check(strncmp(path, "/bucket/some/prefix/o", 21) == 0, "listed: %s", path);
    *sum += size;
    return 0;
}

static void test_calls(void)
{
    _cleanup_(buf_done) struct buf path = BUF_INIT;
    _cleanup_(fd_closep) int fd = make_file(100000);
    char a[1000], b[5000], want[5000];
    struct object_part parts[] = {{0, sizeof a, a}, {99000, 1000, b}, {50000, 4000, b + 1000}};
    struct objects_stats before, after;
    struct err e = {0};
    uint64_t size = 0, sum = 0;

    objects_path(o, "o1", &path);
    check(strcmp(buf_cstr(&path), "/bucket/some/prefix/o1") == 0, "path");
    check(objects_size(o, path.p, &size, &e) == -ENOENT, "no object yet: %s", e.message);
    check(objects_write(o, path.p, fd, 100000, &e) == 0, "write: %s", e.message);
    check(objects_size(o, path.p, &size, &e) == 0 && size == 100000, "size: %s", e.message);
    objects_stats(o, &before);
    check(objects_read(o, path.p, parts, 3, &e) == 0, "read: %s", e.message);
    objects_stats(o, &after);
    check(after.rounds - before.rounds == 1 && after.requests - before.requests == 3, "three ranges in one round");
    check(fd_pread_all(fd, want, 1000, 0) == 0 && memcmp(a, want, 1000) == 0, "first range");
    check(fd_pread_all(fd, want, 1000, 99000) == 0 && memcmp(b, want, 1000) == 0, "last range");
    check(fd_pread_all(fd, want, 4000, 50000) == 0 && memcmp(b + 1000, want, 4000) == 0, "middle range");
    check(objects_read(o, path.p, &(struct object_part){99500, 1000, a}, 1, &e) == -EBADMSG, "past the end: %s",
          e.message);
    check(objects_read(o, path.p, &(struct object_part){200000, 1000, a}, 1, &e) == -EBADMSG, "after the end: %s",
          e.message);
    for (int i = 2; i < 7; i++) {
        char name[10];

        snprintf(name, sizeof name, "o%d", i);
        buf_reset(&path);
        objects_path(o, name, &path);
        check(objects_write(o, buf_cstr(&path), fd, (uint64_t) i, &e) == 0, "write %d: %s", i, e.message);
    }
    buf_reset(&path);
    objects_path(o, "", &path);
    check(objects_list(o, buf_cstr(&path), count_object, &sum, &e) == 0 && sum == 100020, "list in pages: %llu",
          (unsigned long long) sum);
    check(objects_remove(o, "/bucket/some/prefix/o1", &e) == 0 && objects_remove(o, "/bucket/some/prefix/o1", &e) == 0,
          "remove, twice");
    check(objects_read(o, "/bucket/some/prefix/o1", parts, 1, &e) == -ENOENT, "gone: %s", e.message);
}

static void test_parts(void)
{
    size_t n = (40 << 20) + 12345;
    _cleanup_(fd_closep) int fd = make_file(n);
    _cleanup_(mem_freep) char *want = mem_alloc(n);
    struct fake_object *x;
    struct err e = {0};

    check(objects_write(o, "/bucket/large", fd, n, &e) == 0, "write in parts: %s", e.message);
    x = fake_find(&fake, STR("/bucket/large"), false);
    check(x && x->data.n == n && fd_pread_all(fd, want, n, 0) == 0 && memcmp(want, x->data.p, n) == 0,
          "all of it arrived");
}

static void test_failures(void)
{
    _cleanup_(fd_closep) int fd = make_file(10000);
    struct object_part part = {0, 1000, (char[1000]){0}};
    struct err e = {0};

    atomic_store(&fake.fail_calls, 2);
    check(objects_write(o, "/bucket/f", fd, 10000, &e) == 0, "503 twice, then it works: %s", e.message);
    atomic_store(&fake.drop_calls, 1);
    check(objects_read(o, "/bucket/f", &part, 1, &e) == -EBADMSG, "half an answer is not taken: %s", e.message);
    atomic_store(&fake.fail_calls, 100);
    check(objects_read(o, "/bucket/f", &part, 1, &e) == -EREMOTEIO && strstr(e.message, "503: SlowDown"),
          "503 for ever: %s", e.message);
    atomic_store(&fake.fail_calls, 0);
    snprintf(fake.key_id, sizeof fake.key_id, "NEW");
    check(objects_read(o, "/bucket/f", &part, 1, &e) == -EACCES && strstr(e.message, "InvalidAccessKeyId"),
          "other credentials: %s", e.message);
    fake_keys("NEW");
    check(objects_read(o, "/bucket/f", &part, 1, &e) == 0, "they are read again: %s", e.message);
    http_server_stop_wait(fake.server, 0);
    check(objects_read(o, "/bucket/f", &part, 1, &e) < 0 &&
              strstr(e.message, "s3://bucket/some/prefix at http://127.0.0.1"),
          "the server is gone: %s", e.message);
    objects_cancel(o);
    check(objects_read(o, "/bucket/f", &part, 1, &e) == -ECANCELED, "cancelled: %s", e.message);
}

int main(void)
{
    struct err e = {0};

    tap_run(test_signatures);
    tap_run(test_hmac);
    tap_run(test_places);
    tap_run(test_credentials);
    tap_run(test_xml);
    if (fake_start(&fake) < 0 || objects_open(fake.place, &o, &e) < 0) {
        tap_fail("open: %s", e.message);
        tap_end("open");
        return tap_done();
    }
    tap_run(test_calls);
    tap_run(test_parts);
    tap_run(test_failures);
    objects_close(o);
    fake_stop(&fake);
    return tap_done();
}
