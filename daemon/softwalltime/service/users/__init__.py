"""Own jobs: the server that shows each user his jobs, and its client."""
