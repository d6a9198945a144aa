"""From run folders to tables, curves and a page. NumPy and matplotlib only, never JAX."""
