"""Define the errors that a client can get: a status, a code for programs, a sentence for people.

Every error of the service has one format, `{"error": {"code": "too_long", "message": "..."}}`, whatever raised it.
"""

from __future__ import annotations

import json
import logging
import traceback
from typing import TYPE_CHECKING, Final

from zishu.serve.exchange import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

log: Final = logging.getLogger("zishu.serve")

# The status of every code, and its meaning; the documentation prints this table.
CODES: Final[dict[str, tuple[int, str]]] = {
    "invalid_http": (400, "The request is not HTTP, or its head is too long."),
    "invalid_json": (400, "The body, or a line of the stream, is not JSON."),
    "unauthorized": (401, "The service needs a token, and the request has none or a wrong one."),
    "not_found": (404, "There is nothing at this address."),
    "method_not_allowed": (405, "The address exists, but not for this method."),
    "head_timeout": (408, "The head of the request did not arrive in time."),
    "body_timeout": (408, "The body did not arrive in time."),
    "too_large": (413, "The body has too many bytes."),
    "unsupported_media_type": (415, "The Content-Type is neither application/json nor application/x-ndjson."),
    "unknown_host": (421, "The Host header is neither a loopback name nor one of --allowed-host."),
    "invalid_request": (422, "The JSON is not a request: a key is missing, unknown or of the wrong type."),
    "invalid_input": (422, "The request contradicts itself, for example by overlapping pins."),
    "too_long": (422, "The texts and the lexicon have too many characters, or a lexicon word is too long."),
    "too_many": (
        422,
        "There are too many texts, pins, breaks or lexicon words, or too many analyses were requested.",
    ),
    "internal": (500, "The service failed; see its log."),
    "busy": (503, "The queue is full; Retry-After says when to try again."),
    "stopping": (503, "The service is being stopped."),
    "timeout": (504, "The request took too long and was given up."),
}


class Problem(Exception):
    """Report an error to the client with one of the `CODES`."""

    def __init__(self, code: str, message: str = "", headers: Mapping[str, str] | None = None) -> None:
        self.code = code
        self.message = message or CODES[code][1]
        self.headers = headers or {}
        super().__init__(self.message)

    @property
    def body(self) -> bytes:
        """Return the JSON of the error."""
        return json.dumps({"error": {"code": self.code, "message": self.message}}).encode()

    def response(self) -> Response:
        """Return the response of a request that fails."""
        return Response(self.body, status=CODES[self.code][0], headers=self.headers)


def as_problem(error: Exception) -> Problem:
    """Return what to tell a client about any error; the log gets the location of an unexpected one, not its text."""
    if isinstance(error, Problem):
        return error
    log.error("%s\n%s", type(error).__qualname__, "".join(traceback.format_tb(error.__traceback__)))
    return Problem("internal")
