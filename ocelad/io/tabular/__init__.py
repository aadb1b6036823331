"""Readers for tables in files: CSV, TSV, JSON lines, Parquet and Arrow, in chunks of rows."""
