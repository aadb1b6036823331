"""Checks and Hypothesis strategies for tests of learners and banks, including your own.

The strategies need Hypothesis: ``pip install 'ocelad[testing]'``.
"""

from ocelad.testing.contracts import check_bank, check_learner

__all__ = ["check_bank", "check_learner"]
