"""Compiled kernels of the engines."""
