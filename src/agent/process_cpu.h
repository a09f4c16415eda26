/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU time of a process as the kernel counts it, which its samples have to add up to.
 *
 * A tick of the sampling clock that falls into the kernel's switch from one thread to another, where interrupts are off,
 * happens after it, in the next thread. A program that sleeps and wakes thousands of times a second loses up to a third of
 * its samples that way; others lose some when the ring is full, or when the host of a virtual machine delays the clock. The
 * kernel's clock of the process is exact, so the samples of a process are weighed by it.
 *
 * The first sample of an image counts as it is, one period: it stands for what the process used before it. Then the clock is
 * read, and what it advances by is divided among the samples that follow, however rare they are: time between two samples
 * is not lost, and the estimate has no bias. If the process started while the agent ran, and used several periods before the
 * agent could look at its first sample, these are known, too. The clock is read at most four times a second, because the
 * last value is all that is known of a process that ends; its samples after that count as they are.
 *
 * One or two samples too few or too many are chance. What the clock says differs from the samples of nearly every process by
 * that much, and is carried on as its balance; only a larger difference changes the values of samples. Thus most samples are
 * worth exactly one period. The agent's thread only.
 */
#ifndef AGENT_PROCESS_CPU_H
#define AGENT_PROCESS_CPU_H

#include <stdbool.h>
#include <stdint.h>

struct process;

struct process_cpu {
    bool from_start;    /* the clock was 0 when this image started */
    bool is_whole;      /* samples before base_ns are accounted for */
    uint64_t base_ns;   /* monotonic: when the clock was first read; 0: it was not */
    uint64_t read_ns;   /* monotonic: when it was last read */
    int64_t clock_ns;   /* its value then */
    int64_t pending_ns; /* samples since then */
    int64_t balance_ns; /* used, but not in the value of any sample sent; negative: the values were too high */
};

/* Counts a sample with the value of ns. Returns the CPU time that is now known to be used: 0 while the sample is pending.
 * until_ns: no time after that counts; 0: all does. */
int64_t process_cpu_add(struct process *p, uint64_t time_ns, int64_t ns, uint64_t until_ns);
/* The CPU time of the samples that are pending. */
int64_t process_cpu_settle(struct process *p, uint64_t until_ns);
/* The same without reading the clock, of a process that is gone. */
int64_t process_cpu_stop(struct process *p);
/* A sample is not counted: what the process uses until the next one that is belongs to none. */
void process_cpu_skip(struct process *p);
/* What samples worth plain_ns, each period_ns or less, are to add up to if the process used used_ns meanwhile. Updates the balance. */
int64_t process_cpu_weigh(int64_t *balance_ns, int64_t plain_ns, int64_t period_ns, int64_t used_ns);

#endif
