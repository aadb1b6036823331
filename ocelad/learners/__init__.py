"""Online learners of one metric, and the parts that they are made of."""
