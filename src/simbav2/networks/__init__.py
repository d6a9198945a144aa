"""The only place that knows the neural library (Flax Linen)."""
