"""Run the command line: `python -m staticgroup`."""

import sys

from .cli.command_line import main

sys.exit(main())
