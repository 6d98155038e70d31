"""The command ``hardmax``, also as ``python -m hardmax``.

Importing takes a moment, and an interrupt may come in it: it ends like any later one.
"""

import os
import sys

# Nothing else is imported before an interrupt can be answered.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from sys import UnraisableHookArgs


def run() -> None:
    """Import the commands and leave with the exit code of the one that is asked for."""
    sys.unraisablehook = _interrupt_again
    try:
        from hardmax.cli import main

        main(prog_name="hardmax")
    except KeyboardInterrupt:
        from contextlib import suppress

        with suppress(OSError):
            os.write(2, b"hardmax: interrupted.\n")
        sys.exit(130)  # as in hardmax.cli


def _interrupt_again(lost: "UnraisableHookArgs") -> None:
    """Send an interrupt again that Python dropped, because it came inside a destructor or a callback."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    import _thread
    import threading
    from contextlib import suppress

    later = threading.Timer(0.01, _thread.interrupt_main)
    later.daemon = True
    with suppress(RuntimeError):  # the process is ending anyway
        later.start()


if __name__ == "__main__":
    run()
