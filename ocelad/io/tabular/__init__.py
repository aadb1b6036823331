"""Tables in files: CSV, TSV, JSON lines, Parquet and Arrow, read in chunks."""
