"""`python -m rota.cli`, for where the entry point is not on the path."""

import sys

from rota.cli import main

sys.exit(main())
