"""XLA's settings: ours are added, a user's own stay."""

import os
import subprocess
import sys

from simbav2.runtime import ONE_THREAD, merge_xla_flags


def test_a_users_flags_stay_and_win():
    assert merge_xla_flags("", (ONE_THREAD,)) == ONE_THREAD
    assert merge_xla_flags("--xla_foo=1", (ONE_THREAD,)) == f"--xla_foo=1 {ONE_THREAD}"
    assert (
        merge_xla_flags("--xla_cpu_multi_thread_eigen=true", (ONE_THREAD,)) == "--xla_cpu_multi_thread_eigen=true"
    )


def settings(**environment: str) -> list[str]:
    program = (
        "import os, simbav2.backend, jax, jax.numpy as jnp; jnp.ones(2).sum();"
        "print(os.environ['XLA_FLAGS']); print(jax.config.jax_compilation_cache_dir)"
    )
    kept = {
        name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "JAX_COMPILATION_CACHE_DIR")
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env=kept | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_xla_accepts_the_flags_and_programs_are_kept(tmp_path):
    flags, cache = settings(XDG_CACHE_HOME=str(tmp_path))
    assert "xla_cpu_use_multi_output_fusion=true" in flags
    assert cache == str(tmp_path / "simbav2" / "compiled")
    flags, cache = settings(
        XLA_FLAGS="--xla_backend_extra_options=xla_cpu_small_call=1",
        JAX_COMPILATION_CACHE_DIR=str(tmp_path / "mine"),
    )
    assert flags == "--xla_backend_extra_options=xla_cpu_small_call=1"
    assert cache == str(tmp_path / "mine")
