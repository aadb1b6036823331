"""Checks and strategies for testing learners and banks: ours, and your own.

The strategies need hypothesis: ``pip install 'ocelad[testing]'``.
"""

from ocelad.testing.contracts import check_bank, check_learner

__all__ = ["check_bank", "check_learner"]
