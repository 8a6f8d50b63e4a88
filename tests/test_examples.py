"""The programs in examples/ run, and print what they are about."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
# What each program must print, whatever the scores of the model: lines that any sensible parse leads to.
FINDINGS = {
    "chart.py": ["words given", "one of them"],
    "correct.py": ["Where the parser is least sure:", " 地质学家 ", "# text = "],
    "frame.py": ["sentences, ", "Most frequent nouns:", "发现"],
    "objects.py": ["【这个故事】", "\t故事"],
    "tour.py": ["style pud\t她 喜欢 图书馆 。", "pinned word\t她 喜欢 图书馆 。", "# text = 她喜欢北京。"],
}


def test_every_example_is_tested_and_listed() -> None:
    programs = {path.name for path in EXAMPLES.glob("*.py")}
    assert programs == set(FINDINGS)
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"[{name}]({name})" in listed for name in programs)


@pytest.mark.parametrize("name", sorted(FINDINGS))
def test_the_example_runs(name: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-X", "utf8", EXAMPLES / name], capture_output=True, encoding="utf-8", check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    for finding in FINDINGS[name]:
        assert finding in ran.stdout, finding
