/* SPDX-License-Identifier: Apache-2.0 */
/* ID tokens of an OpenID provider. */
#include "server/oidc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct people_oidc config = {
        .issuer = "https://idp", .client_id = "wick", .user_claim = "email", .groups_claim = "groups"};
    struct oidc_claims claims;
    struct err e = {0};
    struct arena a;

    arena_init(&a, 16 << 20);
    oidc_claims_read(&(struct oidc_expected){&config, "n", 1000}, (struct str){(const char *) data, (uint32_t) size},
                     &a, &claims, &e);
    arena_done(&a);
    return 0;
}
