"""What an administrator does once and looks after later: the hook into PBS and out again, and whether all is well."""
