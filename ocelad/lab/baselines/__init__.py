"""The methods of the comparisons: one file per method, with its formula and its reference."""
