"""`python -m rota`: the command, for an environment whose commands are not on the path."""

import sys

from rota.cli import main

sys.exit(main())
