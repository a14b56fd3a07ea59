"""`python -m tallies` is the command `tallies`."""

from tallies.cli.main import main

main()
