"""Online learners of one metric: COMID, its losses, mirror maps and proximal steps."""
