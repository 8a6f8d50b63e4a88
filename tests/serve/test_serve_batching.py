"""The batcher without HTTP: order, turns, places, errors, closing."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("httptools", reason="the extra `serve` is not installed")

import zishu
from serving import PATIENCE, HeldModel, held_parser
from zishu.serve import Limits
from zishu.serve.batching import Answer, Batcher
from zishu.serve.jobs import Job
from zishu.serve.metrics import Metrics
from zishu.serve.problems import Problem
from zishu.serve.schema import read_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Make = Callable[..., tuple[Batcher, HeldModel]]


@pytest.fixture(scope="module")
def parser() -> zishu.Parser:
    return zishu.load()


@pytest.fixture
def make(parser: zishu.Parser) -> Iterator[Make]:
    made: list[tuple[Batcher, HeldModel]] = []

    def make(threads: int = 1, **limits: Any) -> tuple[Batcher, HeldModel]:
        held, model = held_parser(parser, poison="坏")
        made.append((Batcher(held, Limits(**limits), Metrics(), threads=threads), model))
        return made[-1]

    yield make
    for batcher, model in made:
        model.release()
        batcher.close(PATIENCE)


def job(**request: Any) -> Job:
    return Job(read_request(json.dumps(request).encode(), Limits()), model="{}")


def texts(answer: Answer) -> list[str]:
    found = json.loads(answer.result(PATIENCE))["documents"]
    return [sentence["text"] for document in found for sentence in document["sentences"]]


def block(batcher: Batcher, model: HeldModel) -> Answer:
    """Occupy the thread, so that the next submissions collect in the queue."""
    answer = batcher.submit(job(text="零。"))
    assert model.entered.acquire(timeout=PATIENCE)
    return answer


def test_a_long_text_lets_short_ones_go_first(make: Make) -> None:
    batcher, model = make(batch_chars=8, share=4)
    first = block(batcher, model)
    order: list[str] = []
    long_text = "一二三。" * 10
    for name, text in (("long", long_text), ("short", "四。"), ("other", "五。")):
        answer = batcher.submit(job(text=text))
        answer.add_done_callback(lambda _, name=name: order.append(name))  # type: ignore[misc]
        if name == "long":
            whole = answer
    model.release()
    assert texts(first) == ["零。"]
    assert texts(whole) == ["一二三。"] * 10
    assert order == ["short", "other", "long"]
    assert max(model.calls) <= 3


def test_an_answer_that_cannot_be_written_fails_alone(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    batcher, model = make()
    block(batcher, model)
    bad, good = job(text="一。"), job(text="二。")
    finish = Job.finish
    monkeypatch.setattr(Job, "finish", lambda job: 1 / 0 if job is bad else finish(job))
    answers = [batcher.submit(bad), batcher.submit(good)]
    model.release()
    assert texts(answers[1]) == ["二。"]
    with pytest.raises(ZeroDivisionError):
        answers[0].result(PATIENCE)
    assert texts(batcher.submit(job(text="三。"))) == ["三。"]


def test_a_batch_waits_while_requests_keep_arriving(make: Make) -> None:
    """Each of them waits for the next one, but the first does not wait for all."""
    batcher, model = make(wait=PATIENCE, gather=0.2)
    model.release()
    answers = []
    began = time.monotonic()
    while time.monotonic() < began + 0.4:
        answers.append(batcher.submit(job(text="一。")))
        time.sleep(0.01)
    assert all(texts(answer) == ["一。"] for answer in answers)
    assert time.monotonic() < began + PATIENCE
    assert 2 <= len(model.calls) <= 4
    assert sum(model.calls) == len(answers)


def test_only_sentences_of_one_mode_are_parsed_together(make: Make) -> None:
    batcher, model = make()
    block(batcher, model)
    answers = [
        batcher.submit(job(text="一。", confidence=confidence))
        for confidence in (True, False, True, False, True)
    ]
    answers.append(batcher.submit(job(words=[["一", "。"]])))
    answers.append(batcher.submit(job(text="一。", k_best=2)))
    model.release()
    assert [texts(answer) for answer in answers] == [["一。"]] * 7
    assert model.calls == [
        1,
        4,
        2,
    ]  # given words join the batch of the others; several analyses need a batch of their own


def test_a_job_that_is_given_up_is_not_parsed(make: Make) -> None:
    batcher, model = make(queue=3)
    block(batcher, model)
    given_up = batcher.submit(job(text="一。二。"))
    kept = batcher.submit(job(text="三。"))
    with pytest.raises(Problem, match="try again"):
        batcher.submit(job(text="四。"))
    assert given_up.cancel()
    late = batcher.submit(job(text="四。"))
    model.release()
    assert (texts(kept), texts(late)) == (["三。"], ["四。"])
    assert model.calls == [1, 2]
    with pytest.raises(CancelledError):
        given_up.result()


def test_a_job_that_is_given_up_while_it_is_parsed_harms_nobody(make: Make) -> None:
    batcher, model = make()
    assert block(batcher, model).cancel()
    other = batcher.submit(job(text="一。"))
    model.release()
    assert texts(other) == ["一。"]


def test_a_long_job_that_is_given_up_is_dropped_between_two_slices(make: Make) -> None:
    batcher, model = make(batch_chars=8, share=4)
    answer = batcher.submit(job(text="一二三。" * 500))
    assert model.entered.acquire(timeout=PATIENCE)
    assert answer.cancel()
    model.release()
    assert texts(batcher.submit(job(text="四。"))) == ["四。"]
    batcher.close(PATIENCE)
    assert len(model.calls) <= 3


def test_a_small_job_goes_before_many_larger_ones(make: Make) -> None:
    batcher, model = make(batch_chars=100)
    block(batcher, model)
    order: list[str] = []
    for name, text in [*(("large", "一二三。" * 20) for _ in range(10)), ("small", "四。")]:
        answer = batcher.submit(job(text=text))
        answer.add_done_callback(lambda _, name=name: order.append(name))  # type: ignore[misc]
    model.release()
    batcher.close(PATIENCE)
    assert len(order) == 11
    assert order.index("small") <= 4


def test_the_queue_is_bounded_in_characters_but_takes_one_job_of_any_size(make: Make) -> None:
    batcher, model = make(queue_chars=10)
    first = batcher.submit(job(text="一二三四五六七八九十一二三。"))
    with pytest.raises(Problem) as refused:
        batcher.submit(job(text="一"))
    assert refused.value.code == "busy"
    assert batcher.full
    model.release()
    assert first.result(PATIENCE)
    assert texts(batcher.submit(job(text="一"))) == ["一"]


def test_an_error_stays_with_its_job(make: Make) -> None:
    batcher, model = make()
    block(batcher, model)
    good, bad, wrong, fine = (
        batcher.submit(job(text="一。")),
        batcher.submit(job(text="坏。")),
        batcher.submit(job(text="二。", pins=[[1, 7]])),
        batcher.submit(job(text="三。")),
    )
    model.release()
    assert (texts(good), texts(fine)) == (["一。"], ["三。"])
    assert isinstance(bad.exception(PATIENCE), RuntimeError)
    assert isinstance(wrong.exception(PATIENCE), zishu.InputError)
    assert not batcher.full


def test_threads_share_the_sentences_of_a_batch(make: Make) -> None:
    batcher, model = make(threads=2)
    block(batcher, model)
    given = ["一。" * length for length in (2, 150, 3, 150, 4, 150, 150, 1)]
    answers = [batcher.submit(job(text=text)) for text in given]
    bad = batcher.submit(job(text="坏。"))
    model.release()
    assert ["".join(texts(answer)) for answer in answers] == given
    assert isinstance(bad.exception(PATIENCE), RuntimeError)
    assert sum(model.calls[1:3]) == sum(len(text) // 2 for text in given) + 1
    assert min(model.calls[1:3]) > 200


def test_closing_answers_what_was_accepted(make: Make) -> None:
    batcher, model = make(batch_chars=4, share=2)
    answers = [block(batcher, model), *(batcher.submit(job(text="一。二。三。")) for _ in range(5))]
    closing = threading.Thread(target=batcher.close, args=(PATIENCE,))
    closing.start()
    while not batcher.full:
        pass
    with pytest.raises(Problem) as refused:
        batcher.submit(job(text="四。"))
    assert refused.value.code == "stopping"
    model.release()
    closing.join(PATIENCE)
    assert not closing.is_alive()
    assert all(answer.done() for answer in answers)
    assert [texts(answer) for answer in answers[1:]] == [["一。", "二。", "三。"]] * 5


def test_closing_an_idle_batcher_ends_at_once(make: Make) -> None:
    batcher, _ = make()
    batcher.close(PATIENCE)
    batcher.close(PATIENCE)
    assert batcher.full
