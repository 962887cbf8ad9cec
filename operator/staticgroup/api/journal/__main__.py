"""Write or check the journal's schemas: `python -m staticgroup.api.journal --write DIR`, `--check DIR`."""

import sys

from .schemas import main

if __name__ == "__main__":
    sys.exit(main())
