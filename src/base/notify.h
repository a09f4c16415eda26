/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the service manager about this process, by the protocol of sd_notify(3): datagrams to the socket that NOTIFY_SOCKET names.
 * Without one, all of this does nothing. One per process; called by the main thread.
 */
#ifndef BASE_NOTIFY_H
#define BASE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/* Takes the variables NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment: programs that this one starts do not
 * speak for it. Before other threads start, and before rights are dropped. */
void notify_open(void);
void notify_ready(const char *status); /* also after a reload; status: a line for `systemctl status` */
void notify_reloading(void);
void notify_stopping(void);

/* How often notify_alive() is to be called, in ns: four times in the time that the service manager waits; 0: it does not wait. */
int64_t notify_interval(void);
void notify_alive(void);

#endif
