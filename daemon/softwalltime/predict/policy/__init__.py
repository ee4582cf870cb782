"""Decide the soft walltime from the site's policy and a prediction: :mod:`.site`, :mod:`.decide`, :mod:`.clamp`."""
