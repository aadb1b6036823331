"""How the tables came to be, step by step; each file is a revision of alembic's, and is never changed again."""
