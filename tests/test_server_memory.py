"""Memory of a server process: large bodies leave no more behind than half of another."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from service.wire.quick_array import COMPILED_FOR_BYTES
from tests.test_server import ServerProcess, serving

STATUS = Path("/proc/self/status")
BODIES = 10
MORE_THAN_A_BODY = 1.5


def body_of(rows: int, cols: int) -> bytes:
    """A batch of one request with a table of that size."""
    table = np.random.default_rng(3).permutation(rows * cols).reshape(rows, cols)
    batch = {"req_pool_indices": [1], "prefix_lens": [4], "extend_seq_lens": [1], "req_to_token": table.tolist()}
    return json.dumps(batch, separators=(",", ":")).encode()


def resident_bytes(server: ServerProcess) -> int:
    """What the process has in memory."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.skipif(not STATUS.exists(), reason="needs /proc; run it on Linux")
def test_ten_large_bodies_leave_less_than_one_and_a_half_behind() -> None:
    first = body_of(64, 1024)
    assert len(first) > COMPILED_FOR_BYTES
    with serving() as server, server.client() as client:
        assert client.post("/plan", content=first).status_code == 200
        server.wait_for("large arrays")  # compiled, or not to be
        baseline = resident_bytes(server)
        for rows in (288, 1900):
            body = body_of(rows, 4096)
            for _ in range(BODIES):
                assert client.post("/plan", content=body).status_code == 200
            assert resident_bytes(server) - baseline < MORE_THAN_A_BODY * len(body)
