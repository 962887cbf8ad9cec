"""Random histories executed on the model and on a real broker at once, compared after every step."""
