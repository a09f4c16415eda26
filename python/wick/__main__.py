# SPDX-License-Identifier: Apache-2.0
"""python -m wick"""

import sys

from .run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
