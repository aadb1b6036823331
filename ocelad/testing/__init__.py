"""Checks and Hypothesis strategies for tests of learners, banks and experts, including your own.

The strategies need Hypothesis: ``pip install 'ocelad[testing]'``.
"""

from ocelad.testing.contracts import check_bank, check_expert, check_learner

__all__ = ["check_bank", "check_expert", "check_learner"]
