"""The PostgreSQL store: completed and current jobs, predictions, positions in accounting logs, malformed lines."""
