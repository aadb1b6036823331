"""The experiments of the figures: trials, which can run anywhere and in any order, and the tables made from them."""
