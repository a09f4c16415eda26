/* SPDX-License-Identifier: Apache-2.0 */
/* CPython 3.9 to 3.14: see lang.h. */
#ifndef AGENT_LANG_PYTHON_H
#define AGENT_LANG_PYTHON_H

#include "agent/lang/lang.h"

extern const struct lang lang_python;

#endif
