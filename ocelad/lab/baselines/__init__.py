"""What the paper compares with and is compared with: one file per method, with its formula and its source."""
