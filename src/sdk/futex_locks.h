/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits for the locks of Rust's standard library (std::sync::Mutex and RwLock), which call the kernel themselves: a wait of
 * syscall(SYS_futex, ...) counts when it is called by the functions in which these wait for a lock that is taken. They are found
 * by the program's symbols.
 */
#ifndef SDK_FUTEX_LOCKS_H
#define SDK_FUTEX_LOCKS_H

/* Nothing for a program without such functions. Repeated after objects were loaded. */
void futex_locks_install(void);

#endif
