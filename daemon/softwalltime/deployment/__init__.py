"""Installation of the hook in PBS, and the checks of ``doctor``."""
