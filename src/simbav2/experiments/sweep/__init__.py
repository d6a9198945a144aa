"""Many runs: planned in a file, made side by side on one machine or on many, gone on with after any stop."""
