"""Any methods on any stream under one protocol."""
