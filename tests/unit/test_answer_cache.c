/* SPDX-License-Identifier: Apache-2.0 */
/* answer_cache.h: who makes an answer, who is given it, who waits, and when it is made anew. */
#include "server/answer_cache.h"

#include "tap.h"

static struct answer_cache *cache;
static int resumed;

static void count_resume(struct answer_waiter *w)
{
    (void) w;
    resumed++;
}

static enum answer_found find(const char *key, int64_t oldest, int64_t now, struct kept_answer *ret)
{
    static struct answer_waiter waiters[16];
    static int n;
    struct answer_waiter *w = &waiters[n++ % 16];

    *w = (struct answer_waiter){.resume = count_resume};
    return answer_cache_find(cache, &(struct answer_question){str_from(key), oldest, now}, w, ret);
}

static void keep(const char *key, const char *text)
{
    struct kept_answer a = {.content_type = "text/plain", .coding = COMPRESS_GZIP};

    buf_puts(&a.body, text);
    answer_cache_keep(cache, str_from(key), &a);
    buf_done(&a.body);
}

static void is_shared(const char *key, int64_t oldest, int64_t now, const char *text)
{
    struct kept_answer a = {0};

    eq_int(find(key, oldest, now, &a), ANSWER_SHARED);
    ok(str_is(buf_str(&a.body), text));
    eq_int(a.coding, COMPRESS_GZIP);
    buf_done(&a.body);
}

static void test_shares(void)
{
    struct kept_answer a = {0};

    answer_cache_new(1000, &cache);
    eq_int(find("a top", 0, 100, &a), ANSWER_MAKE);
    eq_int(find("b top", 0, 100, &a), ANSWER_MAKE); /* another tenant */
    keep("a top", "of a");
    keep("b top", "of b");
    is_shared("a top", 0, 105, "of a");
    is_shared("b top", 90, 105, "of b");
    eq_int(find("a top", 0, 130, &a), ANSWER_SHARED);
    eq_int(a.age_ns, 30);
    buf_done(&a.body);
    eq_int(find("a top", 101, 200, &a), ANSWER_MAKE); /* it began too early */
    keep("a top", "newer");
    is_shared("a top", 101, 205, "newer");
    answer_cache_free(cache);
}

static void test_waits(void)
{
    struct kept_answer a = {0};

    answer_cache_new(1000, &cache);
    resumed = 0;
    eq_int(find("k", 0, 100, &a), ANSWER_MAKE);
    eq_int(find("k", 50, 110, &a), ANSWER_WAIT);
    eq_int(find("k", 60, 120, &a), ANSWER_WAIT);
    eq_int(find("k", 101, 120, &a), ANSWER_ALONE); /* what is being made is too old for it */
    keep("k", "text");
    eq_int(resumed, 2);
    is_shared("k", 60, 125, "text");
    eq_int(find("f", 0, 100, &a), ANSWER_MAKE);
    eq_int(find("f", 0, 110, &a), ANSWER_WAIT);
    answer_cache_fail(cache, STR("f"));
    eq_int(resumed, 3);
    eq_int(find("f", 0, 120, &a), ANSWER_MAKE); /* the one that waited makes it */
    answer_cache_fail(cache, STR("f"));
    answer_cache_free(cache);
}

static void test_deleted(void)
{
    struct kept_answer a = {0};

    answer_cache_new(1000, &cache);
    resumed = 0;
    eq_int(find("old", 0, 100, &a), ANSWER_MAKE);
    keep("old", "text");
    eq_int(find("now", 0, 100, &a), ANSWER_MAKE);
    eq_int(find("now", 0, 100, &a), ANSWER_WAIT);
    answer_cache_clear(cache);
    eq_int(find("old", 0, 110, &a), ANSWER_MAKE);
    answer_cache_fail(cache, STR("old"));
    eq_int(find("now", 0, 110, &a), ANSWER_ALONE); /* it began before the deletion */
    keep("now", "with what was deleted");
    eq_int(resumed, 1);
    eq_int(find("now", 0, 120, &a), ANSWER_MAKE);
    answer_cache_fail(cache, STR("now"));
    answer_cache_free(cache);
}

static void test_limits(void)
{
    struct answer_cache_stats s;
    struct kept_answer a = {0};
    char key[16], text[101];

    answer_cache_new(1000, &cache);
    memset(text, 'x', 100);
    text[100] = 0;
    for (int i = 0; i < 1000; i++) { /* more than there are slots */
        snprintf(key, sizeof key, "key %d", i);
        eq_int(find(key, 0, i, &a), ANSWER_MAKE);
        keep(key, text);
        answer_cache_stats(cache, &s);
        ok(s.bytes <= 1000);
    }
    is_shared("key 999", 0, 1000, text);
    eq_int(find("key 0", 0, 1000, &a), ANSWER_MAKE);
    answer_cache_fail(cache, STR("key 0"));
    eq_int(find("large", 0, 1000, &a), ANSWER_MAKE);
    {
        char large[400];

        memset(large, 'y', sizeof large - 1);
        large[sizeof large - 1] = 0;
        keep("large", large); /* over a fourth of the limit */
    }
    eq_int(find("large", 0, 1000, &a), ANSWER_MAKE);
    answer_cache_fail(cache, STR("large"));
    answer_cache_free(cache);
}

/* All slots are being made: the next one is made without the cache. */
static void test_full(void)
{
    struct kept_answer a = {0};
    char key[16];
    int made = 0;

    answer_cache_new(1000, &cache);
    for (int i = 0; i < 600; i++) {
        snprintf(key, sizeof key, "key %d", i);
        made += find(key, 0, 1, &a) == ANSWER_MAKE;
    }
    eq_int(made, 512);
    eq_int(find("one more", 0, 1, &a), ANSWER_ALONE);
    for (int i = 0; i < 600; i++) {
        snprintf(key, sizeof key, "key %d", i);
        answer_cache_fail(cache, str_from(key));
    }
    eq_int(find("one more", 0, 1, &a), ANSWER_MAKE);
    answer_cache_fail(cache, STR("one more"));
    answer_cache_free(cache);
}

int main(void)
{
    tap_run(test_shares);
    tap_run(test_waits);
    tap_run(test_deleted);
    tap_run(test_limits);
    tap_run(test_full);
    return tap_done();
}
