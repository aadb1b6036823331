"""Compiled kernels of the scores.

Functions take whole arrays and an index, because views cost atomic reference counts. Loops fill arrays, because the
functions of NumPy that do so take long to compile.
"""
