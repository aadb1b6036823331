"""Exit codes beside 0 (done), 1 (failed) and 2 (wrong usage)."""

from __future__ import annotations

from typing import Final

#: Done, but bad rows of a file were skipped, or figures whose data are missing were left out.
ROWS_SKIPPED: Final = 3
#: Interrupted; finished work is saved.
INTERRUPTED: Final = 130
