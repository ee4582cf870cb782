"""What the report says, worked out with numpy from columns: nothing here draws or writes."""
