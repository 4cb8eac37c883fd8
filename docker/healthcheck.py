"""Exits 0 when the service in this container is ready for plans, else 1 with the reason. Knows nothing but /readyz.

Only the standard library, so that a probe costs milliseconds: importing the service would import torch.
"""

import http.client
import os
import sys

TIMEOUT_SECONDS = 4.0


def main() -> int:
    """The exit code; a reason goes to standard error, where the engine's health log picks it up."""
    settings = {name.upper(): value for name, value in os.environ.items()}  # the service ignores their case as well
    host = settings.get("KV_PLAN_HOST", "127.0.0.1")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - listening everywhere includes here
    try:
        port = int(settings.get("KV_PLAN_PORT", "8000"))
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        reason = f"/readyz answered {answer.status}: {answer.read(2000).decode(errors='replace')}"
    except (OSError, ValueError, http.client.HTTPException) as error:
        sys.stderr.write(f"/readyz did not answer: {error}\n")
        return 1
    if answer.status == http.HTTPStatus.OK:
        return 0
    sys.stderr.write(reason + "\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
