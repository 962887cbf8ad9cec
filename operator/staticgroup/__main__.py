"""Run the command line: `python -m staticgroup`."""

import sys

from .cli import main

sys.exit(main())
