"""The default method: an ensemble of calibrated experts of several kinds. ``definition`` is its readable form."""
