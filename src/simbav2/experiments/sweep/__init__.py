"""Many runs from one plan: planned in a TOML file, run in parallel on one machine or a cluster, resumable."""
