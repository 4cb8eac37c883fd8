"""Errors found while a body is decoded: what JSON cannot say, or says that no field can hold."""

from service.catalogue.entry import ErrorEntry, Example

DOCUMENT_ERRORS: tuple[ErrorEntry, ...] = (
    ErrorEntry(
        code="value-does-not-fit",
        title="An integer is outside its field's range",
        template="kv-canary: {place} value {value} does not fit torch.{dtype}",
        meaning="Each field has a dtype, listed with it: int32 for req_to_token, the token table and the token offset, "
        "int64 for the rest. A value outside would wrap when cast, so it is refused before any cast. Numbers of more than "
        "1024 digits are shown shortened.",
        trigger="An integer is below or above what the dtype of its field holds.",
        situations=("An unsigned -1 (18446744073709551615 or 4294967295) was printed as it is.",),
        remedies=("Send the signed value, within the range of the field's dtype.",),
        example=Example(
            before='{"req_to_token": [[0], [4294967295]], ...}', after='{"req_to_token": [[0], [-1]], ...}'
        ),
        related=("not-an-integer", "wrong-dtype"),
    ),
    ErrorEntry(
        code="not-an-integer",
        title="A value is not an integer",
        template="kv-canary: {place} must be an integer, got {kind}",
        meaning="Slots, lengths and positions are integers. A number with a fraction or an exponent is a float in JSON, "
        "even when it is whole; true, null and strings are not numbers.",
        trigger="A value is written as 1.0, 1e3, true, null, a string, an object, or an array where a number belongs.",
        situations=(
            "A numeric library serialised float arrays.",
            "Large integers were quoted to survive a JavaScript client.",
            "A missing value became null inside an array.",
        ),
        remedies=(
            "Write plain integers: 7, -1. To leave an optional field out, omit it or send null for the whole field.",
        ),
        example=Example(before='{"prefix_lens": [1.0, "2"], ...}', after='{"prefix_lens": [1, 2], ...}'),
        related=("value-does-not-fit", "not-an-array", "wrong-rank"),
    ),
    ErrorEntry(
        code="not-an-array",
        title="A row is not an array",
        template="kv-canary: {place} must be an array, got integer",
        meaning="All elements at one level of a nested array must be arrays, or all must be integers.",
        trigger="An integer stands where the elements before it are arrays.",
        situations=("One row of a table lost its brackets.",),
        remedies=("Wrap the value in brackets, as its neighbours are.",),
        example=Example(before='{"req_to_token": [[0], 5], ...}', after='{"req_to_token": [[0], [5]], ...}'),
        related=("ragged-rows", "wrong-rank"),
    ),
    ErrorEntry(
        code="ragged-rows",
        title="Rows of a table differ in length",
        template="kv-canary: {name} rows differ in length: row {row} has {have}, row 0 has {want}",
        meaning="A table is a rectangle: a cell's address is its row times the row length plus its column.",
        trigger="A row of a nested array is shorter or longer than the first one.",
        situations=("Only the used part of each row was sent.", "Two rows were cut at the wrong place."),
        remedies=("Pad the rows to one length. Cells beyond a request's prefix are never read, so any value will do.",),
        example=Example(before='{"req_to_token": [[0, 0], [5]], ...}', after='{"req_to_token": [[0, 0], [5, 0]], ...}'),
        related=("not-an-array", "wrong-rank"),
    ),
    ErrorEntry(
        code="missing-field",
        title="A required field is missing",
        template="kv-canary: {name} is required",
        meaning="A plan cannot be computed without the batch and the table.",
        trigger="The body lacks req_pool_indices, prefix_lens, extend_seq_lens or req_to_token.",
        situations=("A field was misspelt.", "An empty batch was sent without its empty arrays."),
        remedies=("Send the field; for an empty batch send [].",),
        example=Example(
            before='{"req_pool_indices": [1], "prefix_lens": [1], "extend_seq_lens": [1]}',
            after='{"req_pool_indices": [1], "prefix_lens": [1], "extend_seq_lens": [1], "req_to_token": [[0], [5]]}',
        ),
        related=("unknown-field",),
    ),
    ErrorEntry(
        code="unknown-field",
        title="The body has an unknown field",
        template="unknown field {name}{hint}",
        meaning="A field that nobody reads is usually a misspelt one, and ignoring it would compute another plan "
        "than the one that was meant.",
        trigger="The body has a field that the operation does not have. Names are case-sensitive.",
        situations=("A name was abbreviated or written in another case.", "A field of a newer version was sent."),
        remedies=("Correct the name, or remove the field.",),
        example=Example(before='{"window": 4, ...}', after='{"swa_window_size": 4, ...}'),
        related=("missing-field", "duplicate-field"),
        kind="serving",
    ),
    ErrorEntry(
        code="duplicate-field",
        title="The body has a field twice",
        template="field {name} appears more than once",
        meaning="Parsers disagree on which of two equal names counts, so neither does.",
        trigger="The body holds the same name more than once.",
        situations=("Two parts of a batch were joined as text.",),
        remedies=("Send each field once.",),
        example=Example(
            before='{"verify_capacity": 4, "verify_capacity": 8, ...}', after='{"verify_capacity": 8, ...}'
        ),
        related=("unknown-field", "malformed-json"),
        kind="serving",
    ),
    ErrorEntry(
        code="body-not-object",
        title="The body is not a JSON object",
        template="the body must be a JSON object, got {kind}",
        meaning="A batch is an object with one member per field.",
        trigger="The body is an array, a number, a string, true, false or null.",
        situations=("Several batches were sent as an array.",),
        remedies=("Send one object per request.",),
        example=Example(before='[{"req_pool_indices": [1], ...}]', after='{"req_pool_indices": [1], ...}'),
        related=("malformed-json",),
        kind="serving",
    ),
    ErrorEntry(
        code="malformed-json",
        title="The body is not valid JSON",
        template="the body is not valid JSON: {reason} at byte {position}",
        meaning="The body must be one JSON text as RFC 8259 defines it, in UTF-8 without a byte order mark.",
        trigger="A syntax error, NaN or Infinity, a leading zero, a trailing comma, text after the object, a byte order "
        "mark, invalid UTF-8, or an empty body.",
        situations=(
            "The body was cut in transit.",
            "A serialiser wrote NaN, which JSON does not have.",
            "Two bodies were written to one request.",
        ),
        remedies=("Look at the byte that the message names. Bytes count from 0.",),
        example=Example(before='{"prefix_lens": [1, NaN], ...}', after='{"prefix_lens": [1, 2], ...}'),
        related=("nesting-too-deep", "unsupported-media-type"),
        kind="serving",
    ),
    ErrorEntry(
        code="nesting-too-deep",
        title="Arrays are nested too deeply",
        template="{name} is nested deeper than {limit} levels",
        meaning="No field has more than two axes; deep nesting only serves to exhaust a parser.",
        trigger="An array holds arrays to more than the stated number of levels.",
        situations=("A value was wrapped once more at every hop of a pipeline.",),
        remedies=("Give vectors as [1, 2] and tables as [[1, 2], [3, 4]].",),
        example=Example(before='{"prefix_lens": [[[[[[[[[1]]]]]]]]], ...}', after='{"prefix_lens": [1], ...}'),
        related=("wrong-rank", "malformed-json"),
        kind="serving",
    ),
)
