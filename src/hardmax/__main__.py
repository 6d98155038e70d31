"""``python -m hardmax`` is the command ``hardmax``."""

from hardmax.cli import main

if __name__ == "__main__":
    main(prog_name="hardmax")
