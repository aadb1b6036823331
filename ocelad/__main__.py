"""``python -m ocelad`` is ``ocelad``."""

from ocelad.cli import main

main()
