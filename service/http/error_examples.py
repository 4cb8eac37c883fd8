"""Owns which problems the schema shows for each status, and with which values. Data only."""

from collections.abc import Mapping

_NAME = "example"
_VERSION = 1764547200000000

ERROR_EXAMPLES: Mapping[int, tuple[str, Mapping[str, Mapping[str, object]]]] = {
    400: (
        "The body is not JSON that can be read in only one way.",
        {
            "malformed-json": {"reason": "a value is missing", "position": 44},
            "duplicate-field": {"name": "prefix_lens"},
        },
    ),
    404: ("There is no such pool.", {"pool-not-found": {"name": _NAME}}),
    408: ("The body did not arrive in time.", {"body-timeout": {"limit": 20.0}}),
    409: (
        "The pool is not at the version that the body names.",
        {"pool-version-conflict": {"name": _NAME, "have": _VERSION + 1, "want": _VERSION}},
    ),
    412: (
        "The pool is not what If-Match or If-None-Match requires.",
        {"pool-precondition-failed": {"name": _NAME, "have": f"at version {_VERSION}", "header": "If-Match"}},
    ),
    413: ("The body exceeds the size limit.", {"body-too-large": {"limit": 67108864}}),
    415: (
        "The body is said to be something other than plain JSON.",
        {"unsupported-media-type": {"have": "application/octet-stream"}},
    ),
    422: (
        "The body breaks a rule of the plan or of pools, or exceeds a limit of the service.",
        {
            "window-requires-lut": {"caller": "launch_canary_plan_kernels"},
            "row-outside-table": {"index": 1, "value": 900, "rows": 4},
            "value-does-not-fit": {"place": "req_to_token[2][5]", "value": 2147483648, "dtype": "int32"},
            "unknown-field": {"name": '"prefix_len"', "hint": '; did you mean "prefix_lens"?'},
            "pool-with-inline-tables": {"name": "req_to_token"},
        },
    ),
    429: ("Too many requests are in progress; see Retry-After.", {"queue-full": {"limit": 64}}),
    431: ("The headers exceed the size limit.", {"headers-too-large": {"limit": 65536}}),
    500: ("A defect of the service.", {"internal-error": {}}),
    501: ("The service has several processes.", {"pools-need-one-worker": {"workers": 2}}),
    503: ("The device cannot take the request now; see Retry-After.", {"out-of-memory": {"device": "cuda:0"}}),
    504: ("The work was not done within the deadline.", {"deadline-exceeded": {"limit": 30.0}}),
    507: (
        "The tables alone exceed the budget of all pools.",
        {"resident-budget-exceeded": {"have": 2147483648, "limit": 1073741824}},
    ),
}
