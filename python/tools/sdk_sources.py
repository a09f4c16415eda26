# SPDX-License-Identifier: Apache-2.0
"""Prints the source files of libwick, one per line: the lists in src/sdk/meson.build, which thus stay in one place."""

import os
import re
import sys

path = sys.argv[1]
text = open(path).read()
for name in ("sdk_shared_sources", "sdk_sources", "sdk_linked_sources"):
    files = re.search(rf"^{name} = files\((.*?)\)", text, re.M | re.S).group(1)
    for f in re.findall(r"'([^']+)'", files):
        print(os.path.normpath(os.path.join(os.path.dirname(path), f)))
