/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer whose port does not determine the protocol (wick agent --export http://HOST:4040): it is asked before the first
 * request whether it takes OTLP/HTTP, and gets gRPC otherwise. What was chosen is logged once and kept. While nothing
 * responds, nothing is chosen, and requests fail so that the sender repeats them.
 */
#ifndef PIPELINE_OTLP_CHOICE_H
#define PIPELINE_OTLP_CHOICE_H

#include "pipeline/exporters/otlp_client.h"

struct otlp_choice;

/* Both clients are the caller's and must outlive the choice. id: of the exporter, for messages. */
int otlp_choice_new(struct otlp_client *http, struct otlp_client *grpc, const char *id, struct otlp_choice **ret);
void otlp_choice_free(struct otlp_choice *x);
/* For struct sender; arg is the struct otlp_choice. */
extern const struct sender_ops otlp_choice_ops;

#endif
