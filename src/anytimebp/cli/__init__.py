"""The command line: reads files, runs, shows, writes. The library does not know it."""
