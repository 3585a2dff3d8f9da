"""`python -m verisphere` is `verisphere`."""

import sys

from verisphere.cli import main

sys.exit(main())
