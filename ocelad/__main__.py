"""Run the command line: ``python -m ocelad``."""

from ocelad.cli import main

main()
