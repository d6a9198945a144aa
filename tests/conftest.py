"""Set before JAX is imported: one thread a test process, since `make test` runs two of them."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
