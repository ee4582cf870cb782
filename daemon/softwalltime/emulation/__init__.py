"""The emulated `pbs` module, and replay of recorded jobs through the real hook and the real daemon."""
