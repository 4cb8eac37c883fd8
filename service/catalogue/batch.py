"""Errors about the values of a batch: capacities, rows, lengths and slots."""

from service.catalogue.entry import ErrorEntry, Example

BATCH_ERRORS: tuple[ErrorEntry, ...] = (
    ErrorEntry(
        code="verify-capacity-not-positive",
        title="verify_capacity is not positive",
        template="kv-canary: VerifyPlan verify_capacity must be positive, got {value}",
        meaning="A plan needs room for at least one verify entry.",
        trigger="verify_capacity is 0 or negative.",
        situations=("The capacity was computed from a batch with nothing cached.",),
        remedies=("Leave verify_capacity out to get exactly what the batch needs, or send at least 1.",),
        example=Example(before='{"verify_capacity": 0, ...}', after='{"verify_capacity": 1, ...}'),
        related=("write-req-capacity-not-positive", "verify-capacity-mismatch"),
    ),
    ErrorEntry(
        code="write-req-capacity-not-positive",
        title="write_req_capacity is not positive",
        template="kv-canary: WritePlan write_req_capacity must be positive, got {value}",
        meaning="A plan needs room for at least one write row, also when the batch is empty.",
        trigger="write_req_capacity is 0 or negative.",
        situations=("The capacity was set to the size of an empty batch.",),
        remedies=("Leave write_req_capacity out to get the size of the batch, or send at least 1.",),
        example=Example(before='{"write_req_capacity": 0, ...}', after='{"write_req_capacity": 1, ...}'),
        related=("verify-capacity-not-positive", "batch-exceeds-write-req-capacity"),
    ),
    ErrorEntry(
        code="verify-capacity-mismatch",
        title="verify_capacity is not the size of the buffers",
        template="kv-canary: {caller} verify_capacity={value} does not match "
        "verify_plan_out.verify_slot_indices.shape[0]={have}",
        meaning="The capacity bounds what the kernels write, so it must be the length of the buffers that were given.",
        trigger="The in-process API is called with a capacity that differs from the buffers' length.",
        situations=("Buffers were re-allocated and the old capacity was kept.",),
        remedies=("Pass verify_capacity=verify_plan_out.verify_slot_indices.shape[0].",),
        example=Example(
            before="verify_plan_out=VerifyPlan.allocate(verify_capacity=64, device=device), verify_capacity=128",
            after="verify_plan_out=VerifyPlan.allocate(verify_capacity=128, device=device), verify_capacity=128",
        ),
        related=("verify-capacity-not-positive",),
    ),
    ErrorEntry(
        code="batch-exceeds-write-req-capacity",
        title="The batch has more requests than write rows",
        template="kv-canary: bs={bs} exceeds write_req_capacity={capacity}",
        meaning="Every request has a write row, padding rows included.",
        trigger="req_pool_indices is longer than write_req_capacity.",
        situations=("Only active requests were counted for the capacity.",),
        remedies=("Send a write_req_capacity of at least the length of req_pool_indices, or leave it out.",),
        example=Example(
            before='{"req_pool_indices": [1, 0, 2], "write_req_capacity": 2, ...}',
            after='{"req_pool_indices": [1, 0, 2], "write_req_capacity": 3, ...}',
        ),
        related=("write-req-capacity-not-positive", "wrong-length"),
    ),
    ErrorEntry(
        code="row-outside-table",
        title="A request points outside the table",
        template="kv-canary: req_pool_indices[{index}]={value} is outside req_to_token rows [0, {rows})",
        meaning="An active request must own a row of req_to_token; the index is an address and is never wrapped or clamped.",
        trigger="The row of an active request is negative or not below the number of rows.",
        situations=(
            "Only part of the table was sent, with the indices of the whole one.",
            "A freed request left -1 behind.",
        ),
        remedies=("Send the rows that the batch refers to, or mark the request as padding with 0.",),
        example=Example(
            before='{"req_pool_indices": [1, 900], "req_to_token": [[0], [5], [6]], ...}',
            after='{"req_pool_indices": [1, 2], "req_to_token": [[0], [5], [6]], ...}',
        ),
        related=("row-outside-expected-tokens", "prefix-exceeds-columns"),
    ),
    ErrorEntry(
        code="row-outside-expected-tokens",
        title="A request points outside the token table",
        template="kv-canary: req_pool_indices[{index}]={value} is outside req_to_verify_expected_tokens rows [0, {rows})",
        meaning="A request whose tokens are looked up must own a row of the token table as well.",
        trigger="An active request looks up at least one token and its row is not below the token table's number of rows.",
        situations=("The token table was sent for fewer rows than the slot table.",),
        remedies=(
            "Send a token table with as many rows as req_to_token.",
            "Set the request's element of req_to_verify_expected_tokens_valid_lens to 0, so that nothing is looked up.",
        ),
        example=Example(
            before='{"req_pool_indices": [2], "req_to_verify_expected_tokens": [[0], [7]], ...}',
            after='{"req_pool_indices": [2], "req_to_verify_expected_tokens": [[0], [7], [8]], ...}',
        ),
        related=("row-outside-table", "valid-len-exceeds-columns"),
    ),
    ErrorEntry(
        code="prefix-exceeds-columns",
        title="A prefix is longer than the table's rows",
        template="kv-canary: prefix_lens[{index}]={value} exceeds req_to_token columns {columns}",
        meaning="A cached token must have a cell in the table, so a prefix cannot be longer than a row.",
        trigger="The prefix length of an active request exceeds the number of columns.",
        situations=(
            "The table was cut to the longest prefix of another batch.",
            "The length is garbage of a freed request.",
        ),
        remedies=("Send every column that the longest prefix needs, or mark the request as padding with row 0.",),
        example=Example(
            before='{"prefix_lens": [3], "req_to_token": [[0, 0], [5, 6]], ...}',
            after='{"prefix_lens": [3], "req_to_token": [[0, 0, 0], [5, 6, 7]], ...}',
        ),
        related=("row-outside-table", "valid-len-exceeds-columns"),
    ),
    ErrorEntry(
        code="valid-len-exceeds-columns",
        title="A valid length is longer than the token table's rows",
        template="kv-canary: req_to_verify_expected_tokens_valid_lens[{index}]={value} exceeds "
        "req_to_verify_expected_tokens columns {columns}",
        meaning="Tokens that do not exist cannot be trusted.",
        trigger="The valid length of an active request exceeds the token table's number of columns.",
        situations=("The lengths count tokens that are still to be written to the table.",),
        remedies=("Send the columns that the lengths refer to, or cut each length to the number of columns.",),
        example=Example(
            before='{"req_to_verify_expected_tokens": [[0, 0], [7, 8]], "req_to_verify_expected_tokens_valid_lens": [3], ...}',
            after='{"req_to_verify_expected_tokens": [[0, 0], [7, 8]], "req_to_verify_expected_tokens_valid_lens": [2], ...}',
        ),
        related=("expected-tokens-require-valid-lens", "row-outside-expected-tokens"),
    ),
    ErrorEntry(
        code="extend-sum-overflow",
        title="The new tokens do not add up within int64",
        template="kv-canary: extend_seq_lens sum exceeds int64",
        meaning="Write offsets are 64-bit sums; one that wrapped would point anywhere.",
        trigger="The lengths of the active requests add up to 2**63 or more.",
        situations=("A length is the garbage of a freed request that was not marked as padding.",),
        remedies=("Mark requests that are not part of the batch as padding with row 0.",),
        example=Example(
            before='{"req_pool_indices": [1, 2], "extend_seq_lens": [9223372036854775807, 1], ...}',
            after='{"req_pool_indices": [0, 2], "extend_seq_lens": [9223372036854775807, 1], ...}',
        ),
        related=("value-does-not-fit",),
    ),
    ErrorEntry(
        code="slot-outside-lut",
        title="A slot is outside the look-up table",
        template="kv-canary: SWA slot {slot} is outside full_to_swa_index_mapping length {length}",
        meaning="Every slot that the plan names must have an entry in the table. The index is never clamped: a plausible "
        "wrong slot is worse than an error.",
        trigger="A slot that the plan reads is not below the table's length. The first one in plan order is named: an "
        "entry's slot, then its predecessor, seeds after all entries. When the entries overflow only seeds are read.",
        situations=(
            "The table belongs to a smaller pool.",
            "The table of slots holds garbage beyond what is cached, and a length points into it.",
        ),
        remedies=("Send a table with one entry for every slot of the full pool.",),
        example=Example(
            before='{"req_to_token": [[0], [4]], "full_to_swa_index_mapping": [0, 1, 2, 3], ...}',
            after='{"req_to_token": [[0], [4]], "full_to_swa_index_mapping": [0, 1, 2, 3, 9], ...}',
        ),
        related=("window-requires-lut", "too-short"),
    ),
)
