/* SPDX-License-Identifier: Apache-2.0 */
/* net/host_policy.h: which Host and Origin headers are answered. */
#include "net/host_policy.h"

#include "tap.h"

static void test_hosts(void)
{
    static const char *const names[] = {"profiles.example", NULL}, *const any[] = {"*", NULL};
    static const struct {
        const char *host;
        bool alone, listed, any;
    } table[] = {
        {"localhost", true, true, true},
        {"LocalHost:4040", true, true, true},
        {"127.0.0.1:4040", true, true, true},
        {"127.1.2.3", true, true, true},
        {"10.1.2.3:6060", true, true, true}, /* an address cannot be rebound */
        {"[::1]:4040", true, true, true},
        {"[0:0::1]", true, true, true},
        {"[fe80::1]:1", true, true, true},
        {"profiles.example", false, true, true},
        {"Profiles.Example:443", false, true, true},
        {"evil.example", false, false, true},
        {"1.evil.example", false, false, true},
        {"127.0.0.1.evil.example", false, false, true},
        {"127.0.0.1.evil.example:80", false, false, true},
        {"localhost.evil.example", false, false, true},
        {"1", false, false, true},
        {"127.1", false, false, true},
        {"0x7f000001", false, false, true},
        {"2130706433.example", false, false, true},
        {"127.0.0.01x", false, false, true},
        {"[evil.example]", false, false, true},
        {"[::1].evil.example", false, false, false},
        {"[::1", false, false, false},
        {"::1", false, false, false},
        {"localhost:80:evil.example", false, false, false},
        {"localhost:x", false, false, false},
        {"localhost:65536", false, false, false},
        {"localhost:80@evil.example", false, false, false},
        {"", false, false, false},
        {":80", false, false, false},
        {"[]", false, false, true},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct str host = str_from(table[i].host);

        eq_int(host_policy_allows(host, NULL), table[i].alone);
        eq_int(host_policy_allows(host, names), table[i].listed);
        eq_int(host_policy_allows(host, any), table[i].any);
    }
    ok(!host_policy_allows((struct str){0}, NULL));
    ok(!host_policy_allows(STR("127.0.0.1\0.evil.example"), NULL));
}

static void test_origins(void)
{
    ok(host_policy_same_origin(STR("http://localhost:4040"), STR("localhost:4040")));
    ok(host_policy_same_origin(STR("https://Wick.example"), STR("wick.example")));
    ok(!host_policy_same_origin(STR("http://localhost:4041"), STR("localhost:4040")));
    ok(!host_policy_same_origin(STR("http://evil.example"), STR("localhost:4040")));
    ok(!host_policy_same_origin(STR("null"), STR("null")));
    ok(!host_policy_same_origin(STR("http://"), STR("")));
    ok(!host_policy_same_origin((struct str){0}, (struct str){0}));
}

int main(void)
{
    tap_run(test_hosts);
    tap_run(test_origins);
    return tap_done();
}
