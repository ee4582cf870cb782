"""Read and write recorded jobs: PBS accounting logs and Standard Workload Format traces."""
