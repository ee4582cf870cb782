"""What people read: tables, plots and pages made from a replay's figures."""
