/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is needed of the XML that S3 answers with: the text of elements, found by their name. Attributes, comments and
 * namespaces are skipped, nesting is not checked, and only the five predefined entities and numeric ones are decoded.
 */
#ifndef OBJECTS_S3_XML_H
#define OBJECTS_S3_XML_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

/* Finds the next element <name>...</name> in *rest; returns its content as it is and moves *rest past it. */
bool s3_xml_next(struct str *rest, const char *name, struct str *ret);
/* The decoded text of the first element of that name in xml; empty when there is none or memory runs out. */
struct str s3_xml_text(struct str xml, const char *name, struct arena *a);

#endif
