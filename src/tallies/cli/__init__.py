"""The command line: parsing, configs and RUN folders. Knows no family."""
