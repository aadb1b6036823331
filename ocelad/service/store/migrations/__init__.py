"""Schema migrations; each file is an alembic revision and is never edited after its release."""
