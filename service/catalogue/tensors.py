"""Errors about the form of a plan's tensors: presence, memory layout, dtype, shape, device."""

from service.catalogue.entry import ErrorEntry, Example

TENSOR_ERRORS: tuple[ErrorEntry, ...] = (
    ErrorEntry(
        code="window-requires-lut",
        title="A sliding window needs its look-up table",
        template="kv-canary: {caller} requires full_to_swa_index_mapping when swa_window_size > 0",
        meaning="A sliding-window group has slots of its own. Without the table from full slots to window slots the "
        "plan would name slots of the wrong pool.",
        trigger="swa_window_size is above 0 and full_to_swa_index_mapping is absent or null, even for an empty batch.",
        situations=(
            "The batch of a full-attention group was sent with the window of its sibling group.",
            "The table was left out because the batch is empty.",
        ),
        remedies=("Send full_to_swa_index_mapping, or set swa_window_size to 0 for a full-attention group.",),
        example=Example(
            before='{"swa_window_size": 4, ...}',
            after='{"swa_window_size": 4, "full_to_swa_index_mapping": [0, 1, 2, 3], ...}',
        ),
        related=("slot-outside-lut", "too-short"),
    ),
    ErrorEntry(
        code="expected-tokens-require-valid-lens",
        title="A token table needs its valid lengths",
        template="kv-canary: {caller} requires req_to_verify_expected_tokens_valid_lens "
        "when req_to_verify_expected_tokens is set",
        meaning="Rows of the token table are recycled: what lies beyond a request's own tokens belongs to an earlier "
        "owner. The lengths say how far each row can be trusted.",
        trigger="req_to_verify_expected_tokens is given and req_to_verify_expected_tokens_valid_lens is not.",
        situations=("Only the table was copied from the engine's state, not the lengths beside it.",),
        remedies=("Send one length per request, or leave both out to skip the token check.",),
        example=Example(
            before='{"req_to_verify_expected_tokens": [[0, 0], [7, 8]], ...}',
            after='{"req_to_verify_expected_tokens": [[0, 0], [7, 8]], '
            '"req_to_verify_expected_tokens_valid_lens": [2], ...}',
        ),
        related=("valid-len-exceeds-columns", "wrong-length"),
    ),
    ErrorEntry(
        code="not-a-tensor",
        title="An argument is not a tensor",
        template="kv-canary: {name} must be a tensor, got {have}",
        meaning="The in-process API reads tensors where they lie; making one would be a hidden copy.",
        trigger="A required tensor is None, or a list, a number or an array of another library was passed.",
        situations=("A field of the batch was never set.", "A list of Python integers was passed."),
        remedies=("Pass torch.tensor(values, dtype=..., device=...).",),
        example=Example(before="prefix_lens=[3, 2]", after="prefix_lens=torch.tensor([3, 2])"),
        related=("wrong-dtype", "wrong-rank"),
    ),
    ErrorEntry(
        code="unsupported-device",
        title="There is no backend for the device",
        template="kv-canary: tensors must be on a CPU or a CUDA device, got {have}",
        meaning="Plans are computed on CUDA devices by Triton kernels and on the CPU by the host backend.",
        trigger="All tensors of an in-process call are on a device of another kind.",
        situations=("Tensors of the meta device were passed while tracing a model.",),
        remedies=("Move the tensors to the CPU or to a CUDA device.",),
        example=Example(before='device="meta"', after='device="cuda:0"'),
        related=("device-mismatch",),
    ),
    ErrorEntry(
        code="not-contiguous",
        title="A tensor is not contiguous",
        template="kv-canary: {name} must be contiguous",
        meaning="The kernels address tensors as plain rows of memory, so a transposed or strided view would be misread.",
        trigger="A tensor handed to the in-process API has gaps or swapped axes. A JSON body cannot cause it.",
        situations=(
            "A column of a larger tensor was passed.",
            "A table was transposed to bring requests to the front.",
        ),
        remedies=("Call .contiguous() on the tensor before the call.",),
        example=Example(before="prefix_lens=state[:, 1]", after="prefix_lens=state[:, 1].contiguous()"),
        related=("wrong-dtype", "wrong-rank"),
    ),
    ErrorEntry(
        code="wrong-dtype",
        title="A tensor has the wrong dtype",
        template="kv-canary: {name} must have dtype {want}, got {have}",
        meaning="Each tensor has one dtype, listed with its field. Nothing is cast silently, since a cast can wrap.",
        trigger="A tensor of the in-process API or of a binary body has another dtype. JSON numbers have none.",
        situations=(
            "Lengths were kept as int32 by the scheduler.",
            "The table was widened to int64 by an index operation.",
        ),
        remedies=("Cast it yourself where the values are known to fit: tensor.to(torch.int64).",),
        example=Example(before="prefix_lens=lens_int32", after="prefix_lens=lens_int32.to(torch.int64)"),
        related=("value-does-not-fit", "not-an-integer"),
    ),
    ErrorEntry(
        code="wrong-rank",
        title="A tensor has the wrong number of axes",
        template="kv-canary: {name} must be {rank}-D, got shape {shape}",
        meaning="Per-request values are vectors, tables have rows and columns. An array is never flattened or squeezed.",
        trigger="A JSON array or a tensor is nested deeper or shallower than its field allows; a bare number has shape ().",
        situations=("A vector was wrapped in one more pair of brackets.", "A table of one row was sent as that row."),
        remedies=("Give vectors as [1, 2] and tables as [[1, 2], [3, 4]].",),
        example=Example(before='{"prefix_lens": [[1], [2]], ...}', after='{"prefix_lens": [1, 2], ...}'),
        related=("wrong-length", "ragged-rows", "not-an-array"),
    ),
    ErrorEntry(
        code="wrong-length",
        title="A vector has the wrong length",
        template="kv-canary: {name} length must be {want}, got {have}",
        meaning="Every per-request vector has one element per request; req_pool_indices sets how many there are.",
        trigger="A per-request vector is shorter or longer than req_pool_indices.",
        situations=("Padding rows were added to some vectors and not to the others.",),
        remedies=("Send the same number of elements in every per-request vector, padding rows included.",),
        example=Example(
            before='{"req_pool_indices": [1, 2], "prefix_lens": [3], ...}',
            after='{"req_pool_indices": [1, 2], "prefix_lens": [3, 5], ...}',
        ),
        related=("wrong-rank", "batch-exceeds-write-req-capacity"),
    ),
    ErrorEntry(
        code="too-short",
        title="A vector is too short",
        template="kv-canary: {name} length must be >= {minimum}, got {have}",
        meaning="A look-up table that is given must have at least one element.",
        trigger="full_to_swa_index_mapping is an empty array.",
        situations=("An unset table was serialised as [] instead of null.",),
        remedies=("Leave the field out or send null when there is no table.",),
        example=Example(
            before='{"full_to_swa_index_mapping": [], ...}', after='{"full_to_swa_index_mapping": null, ...}'
        ),
        related=("window-requires-lut", "slot-outside-lut"),
    ),
    ErrorEntry(
        code="device-mismatch",
        title="Tensors of one call are on different devices",
        template="kv-canary: {name} must be on {reference_name}'s device {want}, got {have}",
        meaning="A kernel runs on one device and reads every operand from that device's memory. A tensor elsewhere "
        "cannot be read by it: at best the launch fails, at worst an address of another device is read as if it were "
        "this one's. So all tensors of one call must be co-located, and nothing is copied silently, because a hidden "
        "copy would synchronise the stream and break CUDA-graph capture.",
        trigger="A tensor of an in-process call is on another device than the reference tensor. The first such tensor in "
        "input order is named. Over HTTP this cannot happen: the service creates every tensor of a request on the one "
        "device that KV_PLAN_DEVICE configures.",
        situations=(
            "The scheduler builds per-request lengths on the CPU while the table lives on the GPU.",
            "The process drives several GPUs and a tensor was made on the current device instead of the table's.",
            "A look-up table was loaded from a checkpoint and never moved.",
            "Plan buffers were allocated before the worker chose its device.",
        ),
        remedies=(
            "Move the named tensor once, outside the step: tensor = tensor.to(req_pool_indices.device).",
            "Allocate with device=req_pool_indices.device instead of a default device.",
            "With several GPUs, run each worker under torch.cuda.device(n) and keep its tensors there.",
        ),
        example=Example(
            before="launch_canary_plan_kernels(req_pool_indices=rows_cuda, prefix_lens=lens_cpu, ...)",
            after="launch_canary_plan_kernels(req_pool_indices=rows_cuda, prefix_lens=lens_cpu.to(rows_cuda.device), ...)",
        ),
        related=("wrong-dtype", "not-contiguous"),
    ),
)
