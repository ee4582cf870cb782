"""From the site's terms and a prediction to what PBS is told: :mod:`.site`, :mod:`.decide`, :mod:`.clamp`."""
