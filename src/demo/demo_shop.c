/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The services of `wick demo` (demo_shop.h). The work is real (JSON, SQL, compression, sorting, hashing) and takes at
 * most a few milliseconds per request: the three together use about half a core. The gateway has a leak: it remembers each
 * session and forgets none. The inventory has a lock that its deliveries hold while orders wait. Functions are kept out of line
 * so that they appear in a flame graph.
 */
#include "demo/demo_shop.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compress.h"
#include "base/hash.h"
#include "base/macros.h"
#include "base/mem.h"
#include "demo/demo_trace.h"

#ifdef __clang__ /* which makes no clones */
#define STEP __attribute__((noinline))
#else
#define STEP __attribute__((noinline, noclone))
#endif

enum { ITEMS = 24, RULES = 200, SHELVES = 3000, ORDER_EVERY_MS = 10, GIFT_CARDS_ONE_IN = 20, BANK_MS = 25 };
enum { DELIVERY_MS = 3, DELIVERY_EVERY_MS = 25, SESSION_BYTES = 2048, SESSIONS_MAX = 50000 };

struct shop_order {
    uint8_t trace[16], parent[8];
    uint32_t item[ITEMS];
    uint64_t cents;
};

/* libwick is preloaded by `wick run`; this program is not linked with it. */
static void (*span_enter)(const uint8_t trace[16], const uint8_t span[8]);
static void (*span_leave)(void);

static void find_spans(void)
{
    span_enter = (void (*)(const uint8_t *, const uint8_t *))(uintptr_t) dlsym(RTLD_DEFAULT, "wick_span_enter");
    span_leave = (void (*)(void))(uintptr_t) dlsym(RTLD_DEFAULT, "wick_span_leave");
}

/* The new span is the parent of what the order causes from now on. */
static struct demo_span begin(struct shop_order *o, const char *name)
{
    struct demo_span s = {.name = name, .start = clock_wall()};

    memcpy(s.trace, o->trace, sizeof s.trace);
    memcpy(s.parent, o->parent, sizeof s.parent);
    if (getrandom(s.id, sizeof s.id, 0) != sizeof s.id)
        memset(s.id, 1, sizeof s.id);
    if (span_enter)
        span_enter(s.trace, s.id);
    memcpy(o->parent, s.id, sizeof s.id);
    return s;
}

static void end(struct demo_span *s)
{
    if (span_leave)
        span_leave();
    s->end = clock_wall();
    demo_trace_add(s);
}

/* --- inventory --- */
struct shelf {
    uint64_t key;
    char label[40];
};

static int by_key(const void *a, const void *b)
{
    uint64_t x = ((const struct shelf *) a)->key, y = ((const struct shelf *) b)->key;

    return (x > y) - (x < y);
}

STEP static void shelves_load(struct shelf *s, uint64_t seed)
{
    for (int i = 0; i < SHELVES; i++) {
        s[i].key = hash64(&(uint64_t){seed + (uint64_t) i}, 8);
        snprintf(s[i].label, sizeof s[i].label, "shelf %d of %llu", i, (unsigned long long) seed % 97);
    }
}

STEP static void shelves_sort(struct shelf *s)
{
    qsort(s, SHELVES, sizeof *s, by_key);
}

STEP static uint64_t stock_count(const struct shop_order *o, const struct shelf *s)
{
    uint64_t n = 0;

    for (int i = 0; i < ITEMS; i++)
        n += s[o->item[i] % SHELVES].key % 9;
    return n;
}

/* The prices are in a table of SQL. */
static sqlite3 *prices_open(void)
{
    sqlite3 *db = NULL;

    if (sqlite3_open(":memory:", &db) != SQLITE_OK ||
        sqlite3_exec(db,
                     "CREATE TABLE price(item INTEGER PRIMARY KEY, cents INT, vendor TEXT);"
                     "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1999)"
                     "INSERT INTO price SELECT i, i * 7919 % 500, 'vendor ' || i % 37 FROM n",
                     NULL, NULL, NULL) != SQLITE_OK)
        return NULL;
    return db;
}

STEP static uint64_t prices_query(sqlite3 *db, const struct shop_order *o)
{
    sqlite3_stmt *q = NULL;
    uint64_t cents = 0;

    if (!db || sqlite3_prepare_v2(db,
                                  "SELECT vendor, sum(cents) FROM price WHERE item BETWEEN ?1 AND ?1 + 400"
                                  " GROUP BY vendor ORDER BY 2 DESC LIMIT 3",
                                  -1, &q, NULL) != SQLITE_OK)
        return 0;
    sqlite3_bind_int(q, 1, (int) (o->item[0] % 1600));
    while (sqlite3_step(q) == SQLITE_ROW)
        cents += (uint64_t) sqlite3_column_int64(q, 1);
    sqlite3_finalize(q);
    return cents;
}

/* Deliveries change the stock while orders read it. They hold the lock for longer than they need. */
static pthread_mutex_t stock_lock = PTHREAD_MUTEX_INITIALIZER;

STEP static void delivery_book(void)
{
    struct timespec scan = {.tv_nsec = DELIVERY_MS * 1000000};

    pthread_mutex_lock(&stock_lock);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &scan, NULL); /* somebody scans the parcel */
    pthread_mutex_unlock(&stock_lock);
}

static void *deliveries_run(void *arg)
{
    struct timespec pause = {.tv_nsec = DELIVERY_EVERY_MS * 1000000};

    for (;;) {
        delivery_book();
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    }
    return arg;
}

STEP static void stock_take(struct shop_order *o, const struct shelf *s)
{
    pthread_mutex_lock(&stock_lock);
    o->cents += stock_count(o, s);
    pthread_mutex_unlock(&stock_lock);
}

STEP static void inventory_reserve(struct shop_order *o)
{
    static sqlite3 *db;
    struct shelf *s = mem_alloc(SHELVES * sizeof *s);

    if (!s)
        return;
    if (!db)
        db = prices_open();
    shelves_load(s, o->item[0]);
    shelves_sort(s);
    o->cents += prices_query(db, o);
    stock_take(o, s);
    mem_free(s);
}

/* --- checkout --- */
/* Does its own arithmetic, much of it, and calls nothing, so that the verdict names this function and not its caller. */
STEP static uint64_t discount_matches(uint32_t item, uint32_t rule)
{
    uint64_t x = (uint64_t) item << 32 | rule;

    for (int round = 0; round < 24; round++) {
        x ^= x >> 29;
        x *= 0x9e3779b97f4a7c15;
    }
    return x % 100;
}

/* The good version checks the rules of one customer; the bad one checks all rules for each pair of items. */
STEP static uint64_t price_discount(const struct shop_order *o, bool bad)
{
    uint64_t cents = 0;

    for (int i = 0; i < ITEMS; i++)
        for (int j = 0; j < (bad ? ITEMS : 1); j++)
            for (uint32_t rule = 0; rule < RULES; rule++)
                cents += discount_matches(o->item[i] ^ o->item[j], rule) == 0;
    return cents;
}

STEP static uint64_t price_tax(const struct shop_order *o)
{
    uint64_t sum = 0;

    for (int round = 0; round < 6000; round++)
        for (int i = 0; i < ITEMS; i++)
            sum += (uint64_t) o->item[i] * 19 / 100 + (uint64_t) round % 7;
    return sum % 100000;
}

/* Few orders are paid like this. They wait for the bank, which uses no CPU: the slowest 5 % in wall-clock time. */
STEP static uint64_t gift_card_verify(const struct shop_order *o)
{
    struct timespec answer = {.tv_nsec = BANK_MS * 1000000};

    clock_nanosleep(CLOCK_MONOTONIC, 0, &answer, NULL);
    return o->item[0] % 100;
}

STEP static void checkout_total(struct shop_order *o, bool bad)
{
    o->cents += price_tax(o) + price_discount(o, bad);
    if (o->item[1] % GIFT_CARDS_ONE_IN == 0)
        o->cents += gift_card_verify(o);
}

/* --- gateway --- */
STEP static void request_parse(struct shop_order *o)
{
    char text[ITEMS * 24];
    size_t n = 0;

    for (int round = 0; round < 40; round++) {
        n = 0;
        for (int i = 0; i < ITEMS; i++)
            n += (size_t) snprintf(text + n, sizeof text - n, "item=%u&", o->item[i]);
        for (char *p = text; (p = strstr(p, "item=")); p += 5)
            o->item[(size_t) (p - text) % ITEMS] ^= (uint32_t) strtoul(p + 5, NULL, 10) & 1;
    }
}

/* The leak: what a session was about is kept, and no session ever ends. It stops before it harms the machine. */
STEP static void session_remember(const struct shop_order *o)
{
    struct session {
        struct session *next;
        struct shop_order order;
        char history[SESSION_BYTES];
    } * s;
    static struct session *all;
    static size_t n;

    /* Asked for here and not by mem_alloc(), so that profiles name this line. */
    if (n >= SESSIONS_MAX || !(s = aligned_alloc(16, (sizeof *s + 15) / 16 * 16)))
        return;
    memset(s->history, (int) o->item[0], sizeof s->history);
    s->order = *o;
    s->next = all;
    all = s;
    n++;
}

STEP static size_t response_compress(const char *text, size_t n)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;

    return compress_deflate(COMPRESS_GZIP, 6, text, n, &out, NULL) < 0 ? 0 : out.n;
}

STEP static size_t json_encode(const struct shop_order *o)
{
    char text[ITEMS * 64];
    size_t n = 0;

    for (int round = 0; round < 60; round++) {
        n = 0;
        for (int i = 0; i < ITEMS; i++)
            n += (size_t) snprintf(text + n, sizeof text - n, "{\"item\":%u,\"cents\":%llu},", o->item[i],
                                   (unsigned long long) o->cents);
    }
    return response_compress(text, n);
}

/* A peer that is being replaced answers late or never: outdated answers are skipped, and the socket has a timeout. */
static bool ask(int fd, struct shop_order *o)
{
    struct shop_order answer;

    if (send(fd, o, sizeof *o, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return false;
    while (recv(fd, &answer, sizeof answer, 0) == (ssize_t) sizeof answer)
        if (memcmp(answer.trace, o->trace, sizeof o->trace) == 0) {
            *o = answer;
            return true;
        }
    return false;
}

STEP static void gateway_handle(struct shop_order *o, int checkout)
{
    struct demo_span s = begin(o, "GET /checkout");

    request_parse(o);
    s.failed = !ask(checkout, o);
    if (!s.failed) {
        json_encode(o);
        session_remember(o);
    }
    end(&s);
}

/* Customers do not order less because the shop has become slow: the rate of orders stays, so that what did not change costs as
 * much as before. Up to a second of orders is caught up on. The times are random: at a fixed interval, requests would run in step
 * with the kernel's tick, at which timers of CPU clocks fire, and the first function of a request would be sampled always or never. */
static void wait_for_order(int64_t *next, uint32_t random)
{
    int64_t pause = (int64_t) (random % (2 * ORDER_EVERY_MS * (uint32_t) NS_PER_MS));

    *next = MAX(*next + pause, clock_mono() - NS_PER_S);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &(struct timespec){*next / NS_PER_S, *next % NS_PER_S}, NULL);
}

static void gateway_run(int checkout)
{
    int64_t next = clock_mono();
    uint32_t pause = 0;

    for (;;) {
        struct shop_order o = {0};

        if (getrandom(o.trace, sizeof o.trace, 0) < 0 || getrandom(o.item, sizeof o.item, 0) < 0 ||
            getrandom(&pause, sizeof pause, 0) < 0)
            return;
        gateway_handle(&o, checkout);
        wait_for_order(&next, pause);
    }
}

STEP static void checkout_handle(struct shop_order *o, int inventory, bool bad)
{
    struct demo_span s = begin(o, "POST /order");

    checkout_total(o, bad);
    s.failed = !ask(inventory, o);
    end(&s);
}

STEP static void inventory_handle(struct shop_order *o)
{
    struct demo_span s = begin(o, "POST /reserve");

    inventory_reserve(o);
    end(&s);
}

void demo_shop_run(enum demo_role role, const struct demo_links *links, bool bad_deploy)
{
    struct timeval patience = {.tv_usec = 500000};
    struct shop_order o;

    pthread_t deliveries;

    find_spans();
    if (role == DEMO_INVENTORY && pthread_create(&deliveries, NULL, deliveries_run, NULL) == 0)
        pthread_detach(deliveries);
    if (links->down >= 0)
        setsockopt(links->down, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (role == DEMO_GATEWAY)
        return gateway_run(links->down);
    while (recv(links->up, &o, sizeof o, 0) == (ssize_t) sizeof o) {
        if (role == DEMO_CHECKOUT)
            checkout_handle(&o, links->down, bad_deploy);
        else
            inventory_handle(&o);
        if (send(links->up, &o, sizeof o, MSG_NOSIGNAL) < 0)
            return;
    }
}
