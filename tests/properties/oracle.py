"""A plan from plain Python lists, written from the contract alone and apart from the reference."""

from typing import Any

Request = dict[str, Any]


def oracle(request: Request) -> Request:
    """The answer to a valid request, device and backend aside."""
    table, lut = request["req_to_token"], request.get("full_to_swa_index_mapping")
    tokens, lens = request.get("req_to_verify_expected_tokens"), request.get("req_to_verify_expected_tokens_valid_lens")
    window, shift = request.get("swa_window_size") or 0, request.get("kv_token_id_vs_position_offset") or 0

    def translate(slot: int) -> int:
        return slot if lut is None or slot < 0 else int(lut[slot])

    entries: list[tuple[int, int, int, int]] = []
    counts, writes, seeds = [], [], []
    columns = zip(request["req_pool_indices"], request["prefix_lens"], request["extend_seq_lens"], strict=True)
    for r, (row, prefix, extend) in enumerate(columns):
        n, e = (max(prefix, 0), max(extend, 0)) if row else (0, 0)
        slots = [translate(slot) for slot in table[row][:n]] if row else []
        verified = range(n)[-window:] if window > 0 else range(n)
        for q in verified:
            trusted = tokens is not None and lens is not None and 0 <= q + shift < lens[r]
            expected = tokens[row][q + shift] if tokens is not None and trusted else -1
            entries.append((slots[q], expected, q, slots[q - 1] if q else -1))
        counts.append(len(verified))
        writes.append(e)
        seeds.append(slots[-1] if slots and e else -1)

    capacity = request.get("verify_capacity") or max(len(entries), 1)
    fits = len(entries) <= capacity
    kept = list(zip(*entries, strict=True)) if fits and entries else [(), (), (), ()]
    room = request.get("write_req_capacity") or max(len(counts), 1)
    return {
        "verify_offsets": prefix_sums(counts),
        "verify_total": len(entries),
        "verify_num_valid": min(len(entries), capacity),
        "verify_enable": fits,
        "verify_slot_indices": list(kept[0]),
        "verify_expected_tokens": list(kept[1]),
        "verify_expected_positions": list(kept[2]),
        "verify_prev_slot_indices": list(kept[3]),
        "write_offsets": prefix_sums(writes) + [0] * (room - len(counts)),
        "write_seed_slot_indices": seeds,
        "write_num_valid_reqs": len(counts),
    }


def prefix_sums(lens: list[int]) -> list[int]:
    """Exclusive prefix sums, the total last."""
    return [sum(lens[:i]) for i in range(len(lens) + 1)]
