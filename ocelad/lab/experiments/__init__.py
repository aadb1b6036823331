"""What is computed for the figures: trials that can run anywhere and in any order, and the tables that they come to."""
