"""Define the limits of the service: the size of one request, the queue, and the time.

They are one frozen value that is passed in, so a test can make them tiny. The defaults suit a machine with a few cores.
At 2,000 characters per second, the longest request finishes in time if it is alone. A full queue needs 17,000
characters per second; on a slower machine, what is not done in time is given up.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Hold the limits of the service."""

    # One request, or one line of a stream:
    body: int = 4_000_000  # bytes
    convert_body: int = 1_000_000  # bytes of a request to change the format of sentences
    chars: int = 100_000  # code points of all its texts or words and its lexicon together
    texts: int = 1_000  # texts, or sentences of given words
    lexicon: int = 10_000  # words
    lexicon_word: int = 32  # code points of one word: the search may look this far from every character
    constraints: int = 10_000  # number of pins, breaks, and arcs, each
    k_best: int = 10
    # From its first byte to its answer; for a line of a stream, from its place in the queue.
    seconds: float = 60.0

    # One connection:
    head_seconds: float = 10.0  # for the head of a request, from the connection or from its first byte
    body_seconds: float = 20.0  # for the body, from its head; a stream may be silent for `seconds`
    # For an answer that is not read, plus one second for every `write_speed` bytes.
    write_seconds: float = 30.0
    write_speed: int = 20_000  # bytes per second
    idle_seconds: int = 30  # between two requests
    stream_seconds: float = 3_600.0  # for a stream from beginning to end

    # All requests together:
    queue: int = 256  # requests that were accepted but not answered yet
    queue_chars: int = 1_000_000  # their code points
    connections: int = 512  # fewer if the system allows fewer open files
    # Bytes of bodies that are not read to their end, besides the first 64 kB of each.
    bodies: int = 64_000_000
    streams: int = 64
    stream_lines: int = 32  # of one stream, in progress at once; fewer beyond `batch_chars`

    # Batches:
    wait: float = 0.002  # a batch begins when no request has arrived for this many seconds
    gather: float = 0.05  # or when it has waited for others for this many seconds
    # A batch ends here; a long text goes through several, so that others get their turn.
    batch_chars: int = 8_000
    batch_seconds: float = 0.5  # or after this time, estimated from the speed of earlier batches
    share: int = 500  # minimum share of a request in a batch
    quick: int = 500  # requests that cost at most this many characters have their own thread
    stalled: float = 10.0  # seconds in one batch of quick requests after which the service is not ready
