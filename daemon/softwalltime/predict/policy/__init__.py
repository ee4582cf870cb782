"""Decide the soft walltime from the site's terms and a prediction: :mod:`.site`, :mod:`.decide`, :mod:`.clamp`."""
