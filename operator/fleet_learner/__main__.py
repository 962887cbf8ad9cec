"""`python -m fleet_learner`: the same as `fleet-learner`."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main())
