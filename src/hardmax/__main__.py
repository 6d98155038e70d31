"""The command ``hardmax``, also as ``python -m hardmax``.

Importing takes a moment, and an interrupt may come in it: it ends like any later one.
"""

import os
import sys
from contextlib import suppress


def run() -> None:
    """Import the commands and leave with the exit code of the one that is asked for."""
    try:
        from hardmax.cli import main

        main(prog_name="hardmax")
    except KeyboardInterrupt:
        with suppress(OSError):
            os.write(2, b"hardmax: interrupted.\n")
        sys.exit(130)  # as in hardmax.cli


if __name__ == "__main__":
    run()
