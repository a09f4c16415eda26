/* SPDX-License-Identifier: Apache-2.0 */
/* The front door over real sockets: routes, rights, hosts, errors, limits. */
#include "tap.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "model/builder.h"
#include "net/fetch.h"
#include "server/api.h"
#include "server/front.h"
#include "store/store.h"

struct world {
    struct store *store;
    struct auth *auth;
    struct workers *workers;
    struct front *front;
    struct loop_group *loops;
    struct http_server *http;
    char dir[32], tokens[64], base[64];
};

static void fill_store(struct store *s)
{
    _cleanup_(builder_freep) struct builder *b = NULL;
    _cleanup_(batch_unrefp) struct batch *batch = NULL;
    struct ack_result result = {0};
    struct value_type t;
    struct function f;
    struct profile *p;
    struct line l;
    uint32_t location;
    int64_t v = 42;

    builder_new(NULL, &b);
    builder_resource(b);
    builder_resource_attr_str(b, STR("service.name"), STR("shop"));
    t = (struct value_type){builder_string(b, STR("cpu")), builder_string(b, STR("nanoseconds"))};
    p = builder_profile(b, &t, 1);
    p->time_ns = clock_wall() - NS_PER_S;
    f = (struct function){.name = builder_string(b, STR("main"))};
    l = (struct line){.function = builder_function(b, &f)};
    location = builder_location(b, &(struct builder_location){.lines = &l, .n_lines = 1});
    builder_sample(b, &(struct builder_sample){.stack = builder_stack(b, &location, 1), .values = &v, .n_values = 1});
    eq_int(builder_finish(b, &batch, NULL), 0);
    eq_int(store_append_wait(s, batch, &(struct sink_context){.tenant = "", .received_ns = clock_wall()}, &result), 0);
}

static int run_slow(struct call *c, struct err *e)
{
    while (!atomic_load(&c->cancel))
        usleep(1000);
    return err_set(e, -ECANCELED, "stopped");
}

static const struct route slow[] = {
    {"GET", "/slow", AUTH_NONE, false, run_slow},
    {"GET", "/apart", AUTH_NONE, .run = run_slow, .own_thread = true},
};

static void world_init(struct world *w, int64_t limit)
{
    struct err e = {0};
    struct loop *loops[2];
    struct http_server_options o = {.loops = loops, .n_loops = 2, .handle = front_handle, .identify_peers = true};
    int port = 0;

    *w = (struct world){.dir = "/tmp/wick-front-XXXXXX"};
    ok(mkdtemp(w->dir) != NULL);
    snprintf(w->tokens, sizeof w->tokens, "%s/tokens", w->dir);
    eq_int(store_open(&store_memory, &(struct store_config){0}, &w->store, &e), 0);
    fill_store(w->store);
    eq_int(auth_open(w->tokens, &w->auth, &e), 0);
    auth_trust(w->auth, getuid());
    eq_int(workers_new(&(struct workers_options){.n = 2, .waiting = 16}, &w->workers, &e), 0);
    eq_int(
        front_new(
            &(struct front_options){
                .store = w->store, .auth = w->auth, .workers = w->workers, .call_limit_ns = limit, .version = "test"},
            &w->front, &e),
        0);
    api_mount_query(w->front);
    api_mount_status(w->front);
    front_mount(w->front, slow, ARRAY_SIZE(slow));
    eq_int(loop_group_new(2, "test", &w->loops, &e), 0);
    loops[0] = loop_group_at(w->loops, 0);
    loops[1] = loop_group_at(w->loops, 1);
    o.arg = w->front;
    eq_int(http_server_new(&o, &w->http, &e), 0);
    eq_int(http_server_listen(w->http, "127.0.0.1:0", &port, &e), 0);
    snprintf(w->base, sizeof w->base, "http://127.0.0.1:%d", port);
}

static void world_done(struct world *w)
{
    http_server_stop_wait(w->http, NS_PER_S);
    http_server_free(w->http);
    front_stop(w->front);
    workers_free(w->workers);
    loop_group_free(w->loops);
    front_free(w->front);
    auth_free(w->auth);
    store_close(w->store);
    unlink(w->tokens);
    rmdir(w->dir);
}

/* Status of a request; what came back is in *body (buf_done by the caller) when given. */
static int get(struct world *w, const char *method, const char *path, const struct http_header *h, size_t n,
               struct str send, struct buf *body)
{
    struct fetch_result r = {0};
    struct err e = {0};
    char url[256];
    int status;

    snprintf(url, sizeof url, "%s%s", w->base, path);
    if (fetch_url(
            &(struct fetch_options){
                .url = url, .method = method, .headers = h, .n_headers = n, .body = send, .timeout_ns = 20 * NS_PER_S},
            &r, &e) < 0)
        tap_fail("%s: %s", path, e.message);
    status = r.status;
    if (body)
        buf_put(body, r.body.p, r.body.n);
    fetch_result_done(&r);
    return status;
}

static void test_questions(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    struct world w;

    world_init(&w, 0);
    eq_int(get(&w, NULL, "/api/v1/top?query=cpu", NULL, 0, (struct str){0}, &b), 200);
    ok(str_find(buf_str(&b), STR("\"name\":\"main\"")) > 0);
    buf_reset(&b);
    eq_int(get(&w, NULL, "/api/v1/labels/service_name/values", NULL, 0, (struct str){0}, &b), 200);
    eq_str(buf_str(&b), STR("[\"shop\"]"));
    buf_reset(&b);
    eq_int(get(&w, NULL, "/api/v1/flame?format=binary", NULL, 0, (struct str){0}, &b), 200);
    eq_str(str_slice(buf_str(&b), 0, 4), STR("WTR2"));
    buf_reset(&b);
    eq_int(get(&w, NULL, "/api/v1/top?by=colour", NULL, 0, (struct str){0}, &b), 400);
    ok(str_find(buf_str(&b), STR("by: 'colour'")) > 0);
    eq_int(get(&w, NULL, "/api/v1/nothing", NULL, 0, (struct str){0}, NULL), 404);
    eq_int(get(&w, "POST", "/api/v1/top", NULL, 0, (struct str){0}, NULL), 405);
    eq_int(get(&w, NULL, "/metrics", NULL, 0, (struct str){0}, NULL), 200);
    eq_int(get(&w, NULL, "/healthz", NULL, 0, (struct str){0}, NULL), 200);
    eq_int(get(&w, NULL, "/readyz", NULL, 0, (struct str){0}, NULL), 200);
    world_done(&w);
}

static void test_rights(void)
{
    char read[AUTH_TEXT_SIZE], admin[AUTH_TEXT_SIZE], bearer[128];
    struct auth_token t;
    struct http_header h[2] = {{STR("authorization"), STR("Bearer wick_wrong")}};
    const char *delete = "/api/v1/delete?query=cpu&from=now-1h&to=now";
    struct err e = {0};
    struct world w;

    world_init(&w, 0);
    eq_int(auth_create(w.auth, &(struct auth_request){.scope = AUTH_READ}, read, &t, &e), 0);
    eq_int(auth_create(w.auth, &(struct auth_request){.scope = AUTH_ADMIN}, admin, &t, &e), 0);
    eq_int(get(&w, NULL, "/api/v1/top", NULL, 0, (struct str){0}, NULL), 401);
    eq_int(get(&w, NULL, "/healthz", NULL, 0, (struct str){0}, NULL), 200);
    eq_int(get(&w, NULL, "/api/v1/top", h, 1, (struct str){0}, NULL), 401);
    snprintf(bearer, sizeof bearer, "Bearer %s", read);
    h[0].value = str_from(bearer);
    eq_int(get(&w, NULL, "/api/v1/top", h, 1, (struct str){0}, NULL), 200);
    eq_int(get(&w, "POST", delete, h, 1, (struct str){0}, NULL), 403);
    snprintf(bearer, sizeof bearer, "Bearer %s", admin);
    h[0].value = str_from(bearer);
    h[1] = (struct http_header){STR("origin"), STR("http://evil.example")};
    eq_int(get(&w, "POST", delete, h, 2, (struct str){0}, NULL), 403);
    eq_int(get(&w, "POST", delete, h, 1, (struct str){0}, NULL), 200);
    world_done(&w);
}

static void test_login(void)
{
    char read[AUTH_TEXT_SIZE], url[128], cookie[128];
    struct fetch_result r = {0};
    struct http_header h[1] = {{STR("cookie"), STR("")}};
    struct auth_token t;
    struct err e = {0};
    struct world w;
    struct str set;

    world_init(&w, 0);
    eq_int(auth_create(w.auth, &(struct auth_request){.scope = AUTH_READ}, read, &t, &e), 0);
    snprintf(url, sizeof url, "%s/api/v1/login", w.base);
    eq_int(fetch_url(&(struct fetch_options){.url = url, .body = str_from(read), .timeout_ns = 20 * NS_PER_S}, &r, &e),
           0);
    eq_int(r.status, 200);
    set = http_headers_get(&r.headers, "set-cookie");
    ok(str_find(set, STR("HttpOnly; SameSite=Strict")) > 0);
    set = str_cut(&set, ';');
    snprintf(cookie, sizeof cookie, "%.*s", STR_FMT(set));
    h[0].value = str_from(cookie);
    eq_int(get(&w, NULL, "/api/v1/top", h, 1, (struct str){0}, NULL), 200);
    fetch_result_done(&r);
    world_done(&w);
}

/* By hand: the client would not lie about the host it talks to. */
static void test_host(void)
{
    static const char ask[] = "GET /api/v1/top HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    char answer[512] = "";
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct world w;

    world_init(&w, 0);
    a.sin_port = htons((uint16_t) strtol(strrchr(w.base, ':') + 1, NULL, 10));
    eq_int(connect(fd, (struct sockaddr *) &a, sizeof a), 0);
    eq_int(write(fd, ask, sizeof ask - 1), sizeof ask - 1);
    ok(read(fd, answer, sizeof answer - 1) > 0);
    ok(strncmp(answer, "HTTP/1.1 421", 12) == 0);
    close(fd);
    world_done(&w);
}

static void test_limit(void)
{
    struct world w;
    struct front_stats stats;

    world_init(&w, 50 * NS_PER_MS);
    eq_int(get(&w, NULL, "/slow", NULL, 0, (struct str){0}, NULL), 504);
    front_stats(w.front, &stats);
    eq_int(stats.late, 1);
    world_done(&w);
}

/* A connection that has asked and waits. */
static int ask_by_hand(struct world *w, const char *path)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char ask[128];

    snprintf(ask, sizeof ask, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    a.sin_port = htons((uint16_t) strtol(strrchr(w->base, ':') + 1, NULL, 10));
    eq_int(connect(fd, (struct sockaddr *) &a, sizeof a), 0);
    eq_int(write(fd, ask, strlen(ask)), (int) strlen(ask));
    return fd;
}

static void wait_running(struct world *w, uint64_t n)
{
    struct front_stats stats = {.running = n + 1};

    for (int i = 0; i < 20000 && stats.running != n; i++) {
        usleep(1000);
        front_stats(w->front, &stats);
    }
    eq_int((int) stats.running, (int) n);
}

/* Calls that take long: few, no worker's, no limit on time, ended by their peer or by the end. */
static void test_apart(void)
{
    struct world w;
    int fd[4];

    world_init(&w, 50 * NS_PER_MS);
    for (int i = 0; i < 4; i++)
        fd[i] = ask_by_hand(&w, "/apart");
    wait_running(&w, 4);
    eq_int(get(&w, NULL, "/apart", NULL, 0, (struct str){0}, NULL), 429);
    eq_int(get(&w, NULL, "/slow", NULL, 0, (struct str){0}, NULL), 504); /* the limit is over, and they still run */
    eq_int(get(&w, NULL, "/api/v1/types", NULL, 0, (struct str){0}, NULL), 200);
    wait_running(&w, 4);
    close(fd[0]);
    wait_running(&w, 3);
    fd[0] = ask_by_hand(&w, "/apart");
    wait_running(&w, 4);
    front_stop(w.front);
    wait_running(&w, 0);
    for (int i = 0; i < 4; i++)
        close(fd[i]);
    world_done(&w);
}

int main(void)
{
    tap_run(test_questions);
    tap_run(test_rights);
    tap_run(test_login);
    tap_run(test_host);
    tap_run(test_limit);
    tap_run(test_apart);
    return tap_done();
}
