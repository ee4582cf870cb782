"""What a user sees of his own jobs: the process that answers, and its client."""
