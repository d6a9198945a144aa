"""`python -m simbav2` is the command `simbav2`."""

import sys

from simbav2.cli import main

sys.exit(main())
