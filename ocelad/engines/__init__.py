"""The learners of all scales, computed fast: one bank per way to hold a metric."""
