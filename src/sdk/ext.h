/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface for samples whose frames are not native, such as those of an interpreter or a GPU. It is meant for
 * extensions in the same source tree (the Python package, GPU profiling); it is not installed, and may change.
 *
 * Frames are interned once, by wick_ext_frame(), which may allocate. Its result is used like an address: an array of
 * frames may mix such numbers with native return addresses, leaf first. Samples are then taken without locks and
 * without allocation, so wick_ext_sample() and a walker may run in a signal handler.
 *
 *     uint64_t f[2] = {wick_ext_frame(&(struct wick_ext_frame){.function = "price", .file = "shop.py", .line = 7}), ...};
 *     struct wick_ext_sample s = WICK_EXT_SAMPLE_INIT;
 *     s.type = WICK_WALL; s.value = 10000000; s.count = 1; s.frames = f; s.n_frames = 2;
 *     wick_ext_sample(&s);
 *
 * Functions return WICK_OK or a WICK_E... code; only those that must not be called from signal handlers set
 * wick_last_error().
 */
#ifndef SDK_EXT_H
#define SDK_EXT_H

#include <stddef.h>
#include <stdint.h>

#include "wick.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct wick_ext_frame {
    const char *function; /* required */
    const char *file;     /* NULL if it has none */
    const char *kind;     /* profile.frame.type of OTLP: "cpython", ...; NULL: "native" */
    int line, start_line; /* 0 if not known */
};

/* The number of a frame, the same for the same content; 0 if there is no memory, or if no provider was ever created.
 * Strings are copied and kept until the process ends: intern only strings that repeat. Any thread, but not in a signal
 * handler. */
uint64_t wick_ext_frame(const struct wick_ext_frame *f);

struct wick_ext_sample {
    size_t size;            /* WICK_EXT_SAMPLE_INIT sets it */
    unsigned type;          /* WICK_CPU, WICK_WALL or WICK_LOCK; allocations have functions of their own */
    int64_t value;          /* nanoseconds */
    int64_t count;          /* number of events that the sample stands for */
    const uint64_t *frames; /* leaf first */
    uint32_t n_frames;
    const char *thread;      /* name of the thread that ran, for the label thread.name; NULL: none */
    const uint8_t *trace_id; /* 16 bytes, with span_id; NULL: the span and labels of the calling thread */
    const uint8_t *span_id;  /* 8 bytes */
};

#define WICK_EXT_SAMPLE_INIT                                   \
    {                                                          \
        sizeof(struct wick_ext_sample), 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/* Adds one sample, of the calling thread or of another one that it observed. WICK_ESTATE if the type is off or sampling
 * is paused; WICK_ENOMEM if there was no room for it (it is counted as lost). Async-signal-safe on a thread that was
 * sampled before or called wick_ext_thread(). */
int wick_ext_sample(const struct wick_ext_sample *s);
/* Registers the calling thread; not in a signal handler. */
int wick_ext_thread(void);

/*
 * For the samples of CPU time and allocations that wick takes itself: called on the sampled thread, including in the
 * signal handler, with the n native frames that were found, leaf first. It may replace, insert and remove frames, up to
 * max, and returns the new number. It must be async-signal-safe. NULL removes the walker, which may still run for a
 * moment on other threads.
 */
typedef uint32_t wick_ext_walker(uint64_t *frames, uint32_t n, uint32_t max);
void wick_ext_set_walker(wick_ext_walker *walker);

/* For an allocator that wick cannot hook. wick_ext_alloc() decides itself whether this block is sampled; every block
 * that was passed to it must be passed to wick_ext_free() before it is freed. Not in a signal handler. */
void wick_ext_alloc(void *p, size_t size);
void wick_ext_free(void *p);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
