/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes that profilers outside the process can attach to: a nop and a note (.note.stapsdt, as SystemTap defined it).
 *   otel_memory:alloc(pointer, size, weighted bytes)   otel_memory:free(pointer)      eBPF profiler's design 00003
 *   ddheap:alloc(pointer, size, weighted bytes)        ddheap:free(pointer)
 */
#ifndef SDK_USDT_H
#define SDK_USDT_H

#define USDT_NOTE(provider, name, args)                                       \
    "990:\tnop\n"                                                             \
    "\t.pushsection .note.stapsdt,\"?\",\"note\"\n"                           \
    "\t.balign 4\n"                                                           \
    "\t.4byte 992f-991f, 994f-993f, 3\n"                                      \
    "991:\t.asciz \"stapsdt\"\n"                                              \
    "992:\t.balign 4\n"                                                       \
    "993:\t.8byte 990b\n"                                                     \
    "\t.8byte _.stapsdt.base\n"                                               \
    "\t.8byte 0\n"                                                            \
    "\t.asciz \"" provider "\"\n"                                             \
    "\t.asciz \"" name "\"\n"                                                 \
    "\t.asciz \"" args "\"\n"                                                 \
    "994:\t.balign 4\n"                                                       \
    "\t.popsection\n"                                                         \
    ".ifndef _.stapsdt.base\n"                                                \
    "\t.pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
    "\t.weak _.stapsdt.base\n"                                                \
    "\t.hidden _.stapsdt.base\n"                                              \
    "_.stapsdt.base:\t.space 1\n"                                             \
    "\t.size _.stapsdt.base, 1\n"                                             \
    "\t.popsection\n"                                                         \
    ".endif\n"

#define USDT_ALLOC(p, size, weight)                                                   \
    do {                                                                              \
        unsigned long p_ = (unsigned long) (p), size_ = (size), weight_ = (weight);   \
        __asm__ volatile(USDT_NOTE("otel_memory", "alloc", "8@%0 8@%1 8@%2")          \
                             USDT_NOTE("ddheap", "alloc", "8@%0 8@%1 8@%2")::"r"(p_), \
                         "r"(size_), "r"(weight_));                                   \
    } while (0)
#define USDT_FREE(p)                                                                                             \
    do {                                                                                                         \
        unsigned long p_ = (unsigned long) (p);                                                                  \
        __asm__ volatile(USDT_NOTE("otel_memory", "free", "8@%0") USDT_NOTE("ddheap", "free", "8@%0")::"r"(p_)); \
    } while (0)

#endif
