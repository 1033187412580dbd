"""`python -m anytimebp` is the command line."""

import sys

from anytimebp.cli.main import main

sys.exit(main())
