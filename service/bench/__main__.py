"""``python -m service.bench``: the benchmark where the service's other packages are not installed."""

import sys

from service.bench.command import run_bench

if __name__ == "__main__":
    sys.exit(run_bench(sys.argv[1:], "python -m service.bench"))
