"""What `spark-submit` runs: the command line `fleet-learner`. Spark takes a file and no module."""

from __future__ import annotations

import sys

from fleet_learner.cli import main

if __name__ == "__main__":
    sys.exit(main())
