"""Compiled loops of the scores.

Arrays come whole with an index, because views cost atomic reference counts, and are filled by loops, because NumPy's
ways to fill them take long to compile.
"""
