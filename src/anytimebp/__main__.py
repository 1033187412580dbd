"""The command line: `python -m anytimebp`, and what the command `anytimebp` calls."""

import sys


def main() -> int:
    """Load the command line, which takes a moment in which Ctrl-C may come, and run it."""
    try:
        from anytimebp.cli.main import main as run  # noqa: PLC0415

        return run()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
