"""Policies that run without JAX."""
