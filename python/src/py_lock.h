/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time waited for Python's locks. The interpreter tries a lock first, and only then waits for a semaphore: its calls of
 * sem_trywait(), sem_wait() and sem_clockwait() are replaced by hooks that measure from where the lock was found taken, so a lock that
 * is free costs a jump more.
 * Waiting for a condition, an event, a queue or a thread is not contention, and is left out; it is recognised by the function
 * of the standard library that waits.
 */
#ifndef PYTHON_PY_LOCK_H
#define PYTHON_PY_LOCK_H

void py_lock_start(void);

#endif
