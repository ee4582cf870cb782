"""An embedded PostgreSQL for evaluation, which runs while it is used."""
