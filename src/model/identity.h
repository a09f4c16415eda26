/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identities that are the same on every machine and at any time: a 128-bit hash of content, never of names that may
 * arrive later.
 *
 *   native frame       (build id, ELF address). The build id is the mapping's GNU id, else Go's, else htlhash; without
 *                      any of them, the mapping's file name is used.
 *   interpreted frame  (kind, function, file, line) of each of its lines: a location with address 0.
 *   native without a mapping and address, but with lines (a folded stack): as interpreted.
 *   stack              its locations' identities, leaf first.
 *
 * ELF address: OTel senders give file-relative ELF virtual addresses already. pprof gives run-time addresses and
 * mappings with start and offset; identity_elf_address() converts them and leaves OTel's (mapping start 0, or address
 * below start) unchanged. A mapping below IDENTITY_FIXED_MAX belongs to a program that is linked to a fixed address, as
 * Go's are: its run-time addresses are its ELF addresses, and its file offsets are not. Nothing that can be loaded
 * anywhere is loaded there.
 */
#ifndef MODEL_IDENTITY_H
#define MODEL_IDENTITY_H

#include "base/hash.h"
#include "model/batch.h"

#define IDENTITY_FIXED_MAX (1ull << 32)

/* The hex build ID of a mapping: GNU, Go or htlhash; empty when it has none. */
struct str identity_build_id(const struct batch *b, uint32_t mapping);
/* The attribute for a build ID that has no kind, as in pprof: Go's when it looks like one ("a/b/c/d"), else GNU's. */
struct str identity_build_id_key(struct str id);
uint64_t identity_elf_address(const struct mapping *m, uint64_t address);
struct id128 identity_location(const struct batch *b, uint32_t location);
/* A hash of a resource's attributes in any order: identifies the sender (deduplication). */
struct id128 identity_resource(const struct resource *r);
/* A hash of a profile's content with its times, type and attributes: the profile_id that wick fills in when it is
 * empty. */
struct id128 identity_profile(const struct batch *b, const struct resource *r, const struct profile *p);
/* The same for a profile of a request whose bytes are identical when it is sent again: request is hash128_long() of
 * those bytes, i the index of the profile in it. Far cheaper, since the content is not examined. */
struct id128 identity_profile_sent(struct id128 request, uint32_t i);
/* The identities of all stacks, in the arena; NULL when memory runs out. */
struct id128 *identity_stacks(const struct batch *b, struct arena *a);
/* A cache for callers that need only some of the batch's stacks: each is hashed on demand, once. */
struct identity_memo {
    struct id128 *locations, *stacks; /* zero = not computed yet */
};
int identity_memo_init(struct identity_memo *m, const struct batch *b, struct arena *a);
/* memo may be NULL. */
struct id128 identity_stack_of(const struct batch *b, uint32_t stack, const struct identity_memo *memo);

#endif
