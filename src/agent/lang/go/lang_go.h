/* SPDX-License-Identifier: Apache-2.0 */
/* Go: pprof labels of samples. Its frames are native ones, named by pclntab. See lang.h. */
#ifndef AGENT_LANG_GO_H
#define AGENT_LANG_GO_H

#include "agent/lang/lang.h"

extern const struct lang lang_go;

#endif
