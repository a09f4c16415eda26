/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of a Java program, for `wick dump`, as the virtual machine itself prints them (proc/java_attach.h: jstack).
 * They become tasks of the dump: with the name, number and state that Java gives them, and Java frames.
 */
#ifndef AGENT_DUMP_JAVA_H
#define AGENT_DUMP_JAVA_H

#include "base/err.h"
#include "base/str.h"

struct dump;

/* Asks the program and adds its threads; the process must be running. -EPROTO and others with an error message. */
int dump_java_take(struct dump *s, struct err *e);
/* Adds the threads of a text in jstack's format, which is not trusted. text must live as long as the dump. */
int dump_java_parse(struct dump *s, struct str text);

#endif
