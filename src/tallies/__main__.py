"""`python -m tallies` is the command `tallies`, which says that it is starting before anything heavy is loaded."""

from __future__ import annotations

import sys
import time

from tallies import phases


def main() -> None:
    """Entry point."""
    phases.DISPLAY.hushed = not {"-q", "--quiet", "-h", "--help", "--version"}.isdisjoint(sys.argv)
    phases.DISPLAY.silent_for = time.process_time()  # Python itself has been starting for so long
    try:
        with phases.phase("starting"):
            from tallies.cli.main import main as command

            command()
    except KeyboardInterrupt:  # while it was loaded; from then on the command answers
        print("\nStopped.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
