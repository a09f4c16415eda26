/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the server that need no network: tokens, sessions, the forms of a tree. */
#include "tap.h"

#include <stdlib.h>
#include <unistd.h>

#include "query/flamebearer.h"
#include "query/tree_form.h"
#include "server/auth.h"

static void test_auth(void)
{
    char dir[] = "/tmp/wick-auth-XXXXXX", path[64], text[AUTH_TEXT_SIZE], session[AUTH_SESSION_SIZE];
    _cleanup_(auth_freep) struct auth *a = NULL, *again = NULL;
    struct auth_identity who;
    struct auth_token t;
    struct err e = {0};

    ok(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/tokens", dir);
    eq_int(auth_open(path, &a, &e), 0);
    ok(!auth_required(a));
    eq_int(auth_create(a, &(struct auth_request){.scope = AUTH_WRITE, .tenant = STR("acme"), .note = STR("the shop")},
                       text, &t, &e),
           0);
    ok(auth_required(a));
    eq_int(auth_check(a, str_from(text), &who), 0);
    eq_int(who.scope, AUTH_WRITE);
    eq_str(str_from(who.tenant), STR("acme"));
    eq_int(auth_check(a, STR("wick_nonsense"), &who), -EACCES);

    eq_int(auth_open(path, &again, &e), 0); /* as another process */
    eq_int(auth_check(again, str_from(text), &who), 0);
    eq_int(auth_login(again, str_from(text), session, &e), 0);
    eq_int(auth_session(again, str_from(session), &who), 0);
    eq_str(str_from(who.token_id), str_from(t.id));
    eq_int(auth_revoke(again, str_from(t.id), &e), 0);
    eq_int(auth_session(again, str_from(session), &who), -EACCES);
    eq_int(auth_revoke(again, str_from(t.id), &e), -ENOENT);
    eq_int(auth_create(a, &(struct auth_request){.scope = AUTH_READ, .tenant = STR("two words")}, text, &t, &e),
           -EINVAL);
    unlink(path);
    rmdir(dir);
}

/* Sessions of one token, and of all: the new one replaces the oldest of the token that has most. */
static void test_session_limits(void)
{
    enum { TOKENS = AUTH_SESSIONS_MAX / AUTH_TOKEN_SESSIONS_MAX };
    static char first[TOKENS][AUTH_SESSION_SIZE], session[AUTH_SESSION_SIZE], text[TOKENS + 2][AUTH_TEXT_SIZE];
    char dir[] = "/tmp/wick-auth-XXXXXX", path[64];
    _cleanup_(auth_freep) struct auth *a = NULL;
    struct auth_identity who;
    struct auth_token t;
    struct err e = {0};
    int lost = 0;

    ok(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/tokens", dir);
    eq_int(auth_open(path, &a, &e), 0);
    for (int i = 0; i < TOKENS + 2; i++)
        eq_int(auth_create(a, &(struct auth_request){.scope = AUTH_READ}, text[i], &t, &e), 0);
    for (int i = 0; i < TOKENS; i++) {
        eq_int(auth_login(a, str_from(text[i]), first[i], &e), 0);
        for (int k = 1; k < AUTH_TOKEN_SESSIONS_MAX - (i == 0); k++)
            eq_int(auth_login(a, str_from(text[i]), session, &e), 0);
    }
    eq_int(auth_login(a, str_from(text[TOKENS]), session, &e), 0); /* the last that replaces none */
    for (int i = 0; i < TOKENS; i++)
        eq_int(auth_session(a, str_from(first[i]), &who), 0);
    eq_int(auth_login(a, str_from(text[TOKENS + 1]), session, &e), 0);
    eq_int(auth_session(a, str_from(session), &who), 0);
    for (int i = 0; i < TOKENS; i++)
        lost += auth_session(a, str_from(first[i]), &who) < 0;
    eq_int(lost, 1);
    eq_int(auth_session(a, str_from(first[0]), &who), 0); /* this token had one less */
    unlink(path);
    rmdir(dir);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    ok(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* Whatever happens to the file, nobody gains a right by it. */
static void test_auth_file_damage(void)
{
    static const char *const damage[] = {"", "# no tokens\n", "garbage\n", "00000000 zz read - x\n"};
    char dir[] = "/tmp/wick-auth-XXXXXX", path[64], text[AUTH_TEXT_SIZE];
    struct auth_token t;
    struct auth_identity who;
    struct err e = {0};

    ok(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/tokens", dir);
    for (size_t i = 0; i <= ARRAY_SIZE(damage); i++) {
        _cleanup_(auth_freep) struct auth *a = NULL, *writer = NULL;

        unlink(path);
        eq_int(auth_open(path, &writer, &e), 0);
        eq_int(auth_create(writer, &(struct auth_request){.scope = AUTH_READ}, text, &t, &e), 0);
        eq_int(auth_open(path, &a, &e), 0);
        ok(auth_required(a));
        usleep(1100000); /* the file is looked at once a second */
        if (i < ARRAY_SIZE(damage))
            write_text(path, damage[i]);
        else
            unlink(path);
        ok(auth_required(a));
        eq_int(auth_check(a, str_from(text), &who), i < 2 || i == ARRAY_SIZE(damage) ? -EACCES : 0);
    }
    write_text(path, ""); /* at a start */
    {
        _cleanup_(auth_freep) struct auth *a = NULL;

        eq_int(auth_open(path, &a, &e), 0);
        ok(auth_required(a));
    }
    write_text(path, "garbage\n");
    {
        _cleanup_(auth_freep) struct auth *a = NULL;

        eq_int(auth_open(path, &a, &e), -EINVAL);
    }
    unlink(path);
    rmdir(dir);
}

static void test_auth_last_token(void)
{
    char dir[] = "/tmp/wick-auth-XXXXXX", path[64], text[AUTH_TEXT_SIZE];
    _cleanup_(auth_freep) struct auth *a = NULL, *later = NULL, *fixed = NULL;
    struct auth_identity who;
    struct auth_token t;
    struct err e = {0};

    ok(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/tokens", dir);
    eq_int(auth_open(path, &a, &e), 0);
    eq_int(auth_create(a, &(struct auth_request){.scope = AUTH_READ}, text, &t, &e), 0);
    eq_int(auth_revoke(a, str_from(t.id), &e), 0);
    ok(auth_required(a));
    eq_int(auth_open(path, &later, &e), 0); /* after a restart */
    ok(auth_required(later));
    eq_int(auth_open_fixed(AUTH_READ, text, &fixed, &e), 0);
    ok(auth_required(fixed));
    eq_int(auth_check(fixed, str_from(text), &who), 0);
    eq_int(who.scope, AUTH_READ);
    eq_int(auth_check(fixed, STR("wick_x"), &who), -EACCES);
    ok(strcmp(auth_cookie(fixed), auth_cookie(a)) != 0);
    unlink(path);
    rmdir(dir);
}

/* main -> {a(3) -> b(2), c(5)}, plus a second column when asked. */
static struct tree *make_tree(uint32_t columns)
{
    struct tree *t = NULL;
    uint32_t f[4], n[4];
    static const char *const names[] = {"main", "a", "b", "c<d>"};

    eq_int(tree_new(columns, 0, &t), 0);
    for (int i = 0; i < 4; i++)
        f[i] = tree_frame(t, &(struct frame){.function = str_from(names[i]), .file = STR("x.c"), .line = i});
    n[0] = tree_child(t, 0, f[0]);
    n[1] = tree_child(t, n[0], f[1]);
    n[2] = tree_child(t, n[1], f[2]);
    n[3] = tree_child(t, n[0], f[3]);
    tree_add(t, n[1], 0, 1);
    tree_add(t, n[2], 0, 2);
    tree_add(t, n[3], 0, 5);
    if (columns > 1)
        tree_add(t, n[3], 1, 4);
    tree_sum_up(t);
    return t;
}

static void test_flamebearer(void)
{
    _cleanup_(tree_freep) struct tree *one = make_tree(1), *two = make_tree(2);
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    eq_int(flamebearer_json(&b, one), 0);
    eq_str(buf_str(&b),
           STR("{\"names\":[\"total\",\"main\",\"a\",\"c\\u003cd>\",\"b\"],\"levels\":[[0,8,0,0],[0,8,0,1],"
               "[0,3,1,2,0,5,5,3],[0,2,2,4]],\"numTicks\":8,\"maxSelf\":5}"));
    buf_reset(&b);
    eq_int(flamebearer_json(&b, two), 0);
    eq_str(buf_str(&b),
           STR("{\"names\":[\"total\",\"main\",\"a\",\"c\\u003cd>\",\"b\"],\"levels\":[[0,8,0,0,4,0,0],[0,8,0,0,4,0,1],"
               "[0,3,1,0,0,0,2,0,5,5,0,4,4,3],[0,2,2,0,0,0,4]],\"numTicks\":12,\"maxSelf\":5}"));
}

static void test_tree_binary(void)
{
    _cleanup_(tree_freep) struct tree *t = make_tree(1);
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    uint32_t head[8], off[5];
    double total;
    size_t at = 32;
    const char *text;

    eq_int(tree_to_binary(&b, t, NULL), 0);
    memcpy(head, b.p, sizeof head);
    eq_str(((struct str){b.p, 4}), STR("WTR2"));
    eq_int(head[1], 5);
    eq_int(head[2], 5);
    at += 24 + 24 + 5 * 8; /* parents and frames padded to 8, self */
    memcpy(&total, b.p + at, sizeof total);
    ok(total == 8);
    at += 5 * 8;
    memcpy(off, b.p + at, sizeof off);
    text = b.p + b.n - head[4];
    eq_str(str_from(text + off[4]), STR("c<d>"));
}

static void test_tree_json(void)
{
    _cleanup_(tree_freep) struct tree *t = make_tree(1);
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    bool first = true;

    tree_put_fields(&b, &first, t);
    ok(str_find(buf_str(&b), STR("\"nodes\":[[-1,-1,0,8],[0,1,0,8],[1,2,1,3],[2,3,2,2],[1,4,5,5]]")) > 0);
}

int main(void)
{
    tap_run(test_auth);
    tap_run(test_session_limits);
    tap_run(test_auth_file_damage);
    tap_run(test_auth_last_token);
    tap_run(test_flamebearer);
    tap_run(test_tree_binary);
    tap_run(test_tree_json);
    return tap_done();
}
