"""The meta-algorithm: which learners run when, and how they are weighted."""
