/* SPDX-License-Identifier: Apache-2.0 */
/* Compression lives in base, where the network can use it too; decoders include it under this name. */
#ifndef CODEC_COMPRESS_H
#define CODEC_COMPRESS_H

#include "base/compress.h"

#endif
