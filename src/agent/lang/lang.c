/* SPDX-License-Identifier: Apache-2.0 */
/* The list of languages: see lang.h. */
#include "agent/lang/lang.h"

#include "agent/lang/go/lang_go.h"
#include "agent/lang/python/lang_python.h"

const struct lang *const langs[] = {&lang_python, &lang_go, NULL};
