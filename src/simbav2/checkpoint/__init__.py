"""A run's files: what is saved, in which order, and how it is read back."""
