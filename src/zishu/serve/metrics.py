"""Count what the service does, for Prometheus.

Every app has its own registry. Several worker processes share one port, so a scrape reaches any of them. They therefore
keep their figures in files of a common directory (`PROMETHEUS_MULTIPROC_DIR`, set by `zishu.serve.server`), and each
can return the sums.
"""

from __future__ import annotations

import os
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Hold the figures of one app."""

    def __init__(self) -> None:
        self._shared = DIRECTORY in os.environ
        self._registry = registry = CollectorRegistry()
        if not self._shared:
            ProcessCollector(registry=registry)
            PlatformCollector(registry=registry)
        self._requests = Counter(
            "zishu_requests", "Requests by address and status.", ("path", "status"), registry=registry
        )
        self._seconds = Histogram(
            "zishu_request_seconds", "From request to answer.", ("path",), registry=registry, buckets=_SECONDS
        )
        self._waiting = Gauge(
            "zishu_waiting_requests",
            "Accepted but not answered.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._waiting_chars = Gauge(
            "zishu_waiting_characters", "Their characters.", registry=registry, multiprocess_mode="livesum"
        )
        self._streams = Gauge(
            "zishu_streams", "Open streams.", registry=registry, multiprocess_mode="livesum"
        )
        self._of_requests = cache(self._find)  # faster than finding them again for every request
        self._sentences = Counter("zishu_sentences", "Sentences parsed.", registry=registry)
        self._chars = Counter("zishu_characters", "Characters parsed.", registry=registry)
        self._batches = Histogram(
            "zishu_batch_requests", "Requests parsed together.", registry=registry, buckets=_SIZES
        )
        self._batch_chars = Counter("zishu_batch_characters", "Characters of the batches.", registry=registry)
        self._batch_seconds = Counter("zishu_batch_seconds", "Time spent on batches.", registry=registry)

    def _find(self, path: str, status: int) -> tuple[Counter, Histogram]:
        return self._requests.labels(path, str(status)), self._seconds.labels(path)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request; `path` is that of the route, never what the client wrote."""
        count, histogram = self._of_requests(path, status)
        count.inc()
        histogram.observe(seconds)

    def waiting(self, jobs: int, chars: int) -> None:
        """Record the size of the queue."""
        self._waiting.set(jobs)
        self._waiting_chars.set(chars)

    def streams(self, count: int) -> None:
        """Record the number of open streams."""
        self._streams.set(count)

    def parsed(self, sentences: int, chars: int) -> None:
        """Count the content of an answered request."""
        self._sentences.inc(sentences)
        self._chars.inc(chars)

    def batch(self, jobs: int, chars: int, seconds: float) -> None:
        """Count a batch."""
        self._batches.observe(jobs)
        self._batch_chars.inc(chars)
        self._batch_seconds.inc(seconds)

    def text(self) -> bytes:
        """Return all figures in Prometheus' text format."""
        if not self._shared:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)
