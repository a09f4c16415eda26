/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libbpf reported while programs were loaded: which one the kernel refused, and why. libbpf's callback has no argument:
 * one load at a time collects.
 */
#ifndef AGENT_BPF_REFUSED_H
#define AGENT_BPF_REFUSED_H

struct bpf_refused {
    char first[256];  /* libbpf's first warning */
    char program[64]; /* that could not be loaded; "": none */
    char reason[256]; /* the verifier's last line about it */
};

/* Messages go to *to, which is cleared, until this is called again; NULL: nowhere. */
void bpf_refused_collect(struct bpf_refused *to);

#endif
