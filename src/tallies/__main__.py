"""`python -m tallies` is the command `tallies`."""

from tallies.cli import main

main()
