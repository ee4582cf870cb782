"""Install the hook in PBS, and run the checks of ``doctor``."""
