"""Dataset experience: which data sets there are, how their files are read, written, checked and fetched."""
