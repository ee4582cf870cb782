"""A PostgreSQL of one's own, which runs while it is used."""
