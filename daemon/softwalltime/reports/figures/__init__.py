"""The report's figures: each a function from what the analysis found to a picture with its caption."""
