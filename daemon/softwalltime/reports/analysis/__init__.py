"""Compute the figures of the report from columns, without drawing or writing."""
