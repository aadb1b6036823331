"""Compiled kernels of the adaptive ensemble."""
