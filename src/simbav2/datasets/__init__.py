"""Recorded experience: the data sets, and how their files are read, written, checked and fetched."""
