"""Answers bytes that are no HTTP request as a problem, like every other error. Knows no route."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.errors import refusal
from service.http.problems import problem_response
from service.http.request_id import new_request_id


class ProblemProtocol(HttpToolsProtocol):
    """The server's HTTP parser, with a problem in place of its plain-text 400."""

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the log has the parser's words
        """Answer a request that cannot be parsed and close the connection."""
        response = problem_response(refusal("bad-request"), new_request_id())
        headers = b"".join(name + b": " + value + b"\r\n" for name, value in response.raw_headers)
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n" + headers + b"connection: close\r\n\r\n" + response.body)
        self.transport.close()
