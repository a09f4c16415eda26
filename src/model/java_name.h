/* SPDX-License-Identifier: Apache-2.0 */
/* Names of Java classes for people. */
#ifndef MODEL_JAVA_NAME_H
#define MODEL_JAVA_NAME_H

#include "base/arena.h"
#include "base/str.h"

/* The number of a class that the JVM generates differs from run to run. Returns the length of the name before it, 0 if it has none:
 * x$$Lambda$14.0x00007f, x$$Lambda.0x00007f, x$$Lambda/0x00007f and x$$Lambda+0x00007f have that of x$$Lambda;
 * GeneratedMethodAccessor31 that of GeneratedMethodAccessor; any x+0x00007f (a hidden class) that of x. */
uint32_t java_generated_prefix(struct str name);
/* java/util/HashMap as java.util.HashMap; a number that differs from run to run becomes '_'. In the arena; empty: no memory. */
struct str java_class_name(struct str internal, struct arena *a);

#endif
