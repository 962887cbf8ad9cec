"""Write or check the journal's schemas: `python -m journal --write DIR`, `--check DIR`."""

import sys

from .records.schemas import main

if __name__ == "__main__":
    sys.exit(main())
