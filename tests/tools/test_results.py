"""The tables of the docs equal the output of the commands in them, run on the records in docs/results."""

import json

import pytest

from project_tools import ROOT, load_tool


@pytest.fixture(scope="module")
def results():
    return load_tool("results")


def test_every_table_is_made_by_its_command(results, monkeypatch):
    monkeypatch.chdir(ROOT)
    pages = [page.read_text(encoding="utf-8") for page in results.PAGES]
    tables = [table for page in pages for table in results.TABLE.finditer(page)]
    assert len(tables) >= 6
    for table in tables:
        assert results.with_tables(table[0]) == table[0], table["command"]


def test_what_stands_between_the_comments_is_replaced(results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = "before\n<!-- table: runs empty -->\nold\n<!-- end -->\nafter\n"
    made = results.with_tables(page)
    assert "old" not in made
    assert made.startswith("before\n<!-- table: runs empty -->\n")
    assert made.endswith("<!-- end -->\nafter\n")
    assert results.with_tables(made) == made


def test_a_command_that_fails_is_told(results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="no such run"):
        results.with_tables("<!-- table: zishu compare nowhere -->\n<!-- end -->\n")


def test_records_of_finished_runs_are_kept_without_weights(results, tmp_path):
    done, begun = tmp_path / "runs/a/seed-0", tmp_path / "runs/b/seed-0"
    for folder in (done, begun):
        (folder / "evaluation").mkdir(parents=True)
        for name in ("run.json", "metrics.jsonl", "last.safetensors", "evaluation/dev.json.gz"):
            (folder / name).write_text("{}", encoding="utf-8")
    (done / "result.json").write_text('{"train": "/home/me/gsd/train.conllu"}', encoding="utf-8")
    results.collect(tmp_path / "runs", tmp_path / "kept")
    kept = sorted(
        path.relative_to(tmp_path / "kept").as_posix() for path in (tmp_path / "kept").rglob("*.json*")
    )
    assert kept == [
        f"a/seed-0/{n}" for n in ("evaluation/dev.json.gz", "metrics.jsonl", "result.json", "run.json")
    ]
    assert not list((tmp_path / "kept").rglob("*.safetensors"))
    kept_result = (tmp_path / "kept/a/seed-0/result.json").read_text(encoding="utf-8")
    assert kept_result == '{"train": "gsd/train.conllu"}'  # no paths of somebody's machine


def test_the_records_name_no_folders_of_a_machine(results):
    for path in (ROOT / "docs/results").rglob("*.json*"):
        if path.suffix != ".gz":
            assert not results.ABSOLUTE.search(path.read_text(encoding="utf-8")), path


def test_runs_are_listed_with_what_made_them(results, tmp_path):
    machine = {"processor": "a_chip", "cores": 2, "threads": 1}
    made = {"config": {"seed": 3, "optimiser": {"epochs": 4}}, "commit": "0123456789", "machine": machine}
    (tmp_path / "run.json").write_text(json.dumps(made), encoding="utf-8")
    lines = "".join(json.dumps({"seconds": 90}) + "\n" for _ in range(2))
    (tmp_path / "metrics.jsonl").write_text(lines, encoding="utf-8")
    row = results.list_runs([tmp_path]).splitlines()[-1]
    assert row.endswith(r"| 3 | 2 of 4 | - | 3 | `0123456` | a\_chip | 1 of 2 |")
