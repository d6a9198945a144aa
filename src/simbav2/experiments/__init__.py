"""Many runs and what they show: sweeps, reports, benchmarks. Built on the library, which never imports it."""
