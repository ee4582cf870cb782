"""An embedded PostgreSQL for evaluation, which runs while a process uses it."""
