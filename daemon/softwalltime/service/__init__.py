"""What runs beside PBS: it joins accounting logs, store and predictors."""
