"""Steps of ``benchmarks/on_gpu.sh``, one module each; ``report`` collects their results in one table."""
