"""Emulated ``pbs`` module, and replay of recorded jobs through the real hook and daemon."""
