"""The laboratory: baselines, comparisons, and the figures of the paper."""
