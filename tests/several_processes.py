"""The command line with the model of `tiny_service`, also in the processes that `serve --workers` starts."""

import sys

from tiny_service import FIND, MODEL
from verisphere.cli import serving
from verisphere.cli.start import main

if __name__ in ("__main__", "__mp_main__"):  # tests import this module for its path alone
    serving.model_and_faces = lambda *_, **__: (MODEL, FIND)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
