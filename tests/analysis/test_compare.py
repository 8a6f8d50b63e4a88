"""Compare runs: run folders made by hand, with scores that can be computed in one's head."""

from __future__ import annotations

import gzip
import json
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import zishu
from run_records import GOLD, JOINED, PREDICTIONS, SIGNATURE, evaluation, write_run
from zishu.analysis.compare import Comparison, choose_metrics, compare
from zishu.analysis.compare_tables import as_dict, to_latex, to_markdown
from zishu.analysis.runs import read_runs
from zishu.errors import InputError
from zishu.metrics import bootstrap, evaluate, evaluation_file, save_evaluation

if TYPE_CHECKING:
    from pathlib import Path


class Warnings(list[str]):
    """Collect the messages that it is called with."""

    def __call__(self, message: str) -> None:
        self.append(message)


def table(*arguments: str | Path, part: str = "dev", given_words: bool = False, **options) -> Comparison:
    """Compare runs; any warning is an error."""
    warnings = Warnings()
    compared = compare([str(a) for a in arguments], part, given_words=given_words, warn=warnings, **options)
    assert warnings == []
    return compared


@pytest.fixture
def three_systems(tmp_path: Path) -> list[Path]:
    """Write runs whose differences are the same in all sentences, so that every sample equals the observed one."""
    write_run(tmp_path / "left" / "seed-0", "left_ward", 0, [1, 1])
    write_run(tmp_path / "left" / "seed-1", "left_ward", 1, [2, 2])
    write_run(tmp_path / "latent" / "seed-0", "latent", 0, [2, 2])
    write_run(tmp_path / "latent" / "seed-10", "latent", 10, [3, 3])
    write_run(tmp_path / "one", "100%", 0, [1, 1])
    return [tmp_path / "left", tmp_path / "latent", tmp_path / "one"]


# ---- numbers


def test_means_and_deviations_of_systems_in_the_order_given(three_systems: list[Path]) -> None:
    compared = table(*three_systems)
    assert [(system.name, len(system.runs)) for system in compared.systems] == [
        ("left_ward", 2),
        ("latent", 2),
        ("100%", 1),
    ]
    left, latent, one = (system.scores["uf"] for system in compared.systems)
    assert left.values == (pytest.approx(100 / 3), pytest.approx(200 / 3))
    assert (left.mean, latent.mean, one.mean) == pytest.approx((50.0, 250 / 3, 100 / 3))
    # Two values x and y have the sample deviation |x - y| / sqrt(2).
    assert left.sd == pytest.approx(100 / 3 / 2**0.5)
    assert one.sd is None
    assert compared.best("uf") == {"latent"}
    assert compared.best("seg") == {"left_ward", "latent", "100%"}  # all systems find all words
    assert (compared.sentences, compared.signature) == (2, SIGNATURE)
    assert table(*reversed(three_systems)).systems[0].name == "100%"


def test_differences_are_from_the_first_or_from_the_chosen_baseline(three_systems: list[Path]) -> None:
    compared = table(*three_systems, samples=99)
    assert compared.baseline == "left_ward"
    left, latent, one = (system.differences for system in compared.systems)
    assert left == {}
    assert latent["uf"].difference == pytest.approx(100 / 3)
    assert latent["uf"].p_value == pytest.approx(0.01)
    assert (latent["seg"].difference, latent["seg"].p_value) == (0.0, 1.0)  # identical in everything
    assert one["lf"].difference == pytest.approx(-50 / 3)

    compared = table(*three_systems, samples=99, baseline="latent")
    left, latent, _ = (system.differences for system in compared.systems)
    assert latent == {}
    assert left["uf"].difference == pytest.approx(-100 / 3)


def test_p_values_are_corrected_for_all_tests_of_the_table(three_systems: list[Path]) -> None:
    _, latent, one = table(*three_systems, samples=99).systems
    # Six tests: uf and lf of both systems have p = 0.01, seg has p = 1.
    corrected = [latent.differences[metric].p_corrected for metric in ("seg", "uf", "lf")]
    assert corrected == pytest.approx([1.0, 0.06, 0.06])
    assert one.differences["uf"].p_corrected == pytest.approx(0.06)
    _, latent, _ = table(*three_systems, samples=99, metrics=["uf"]).systems
    assert latent.differences["uf"].p_corrected == pytest.approx(0.02)
    _, latent = table(*three_systems[:2], samples=99, metrics=["uf"]).systems
    assert latent.differences["uf"].p_corrected == pytest.approx(0.01)  # one test needs no correction


def test_tests_are_the_bootstrap_over_all_seeds(tmp_path: Path) -> None:
    ours = {
        "a": [[3, 1, 2, JOINED, 3], [2, 2, 2, 0, 3], [3, 3, 1, 1, 1]],
        "b": [[3, 3, 2, 2, 3], [3, 1, 3, 0, 2]],
    }
    for name, seeds in ours.items():
        for seed, right in enumerate(seeds):
            write_run(tmp_path / name / f"seed-{seed}", name, seed, right)
    compared = table(tmp_path / "a", tmp_path / "b", samples=500)
    evaluations = {name: [evaluation(right) for right in seeds] for name, seeds in ours.items()}
    for metric in ("seg", "uf", "lf"):
        expected = bootstrap(evaluations["a"], evaluations["b"], metric, samples=500)
        found = compared.systems[1].differences[metric]
        assert replace(found, p_corrected=found.p_value) == expected
        assert 0.0 < expected.p_value < 1.0
        means = [system.scores[metric].mean for system in compared.systems]
        assert means == pytest.approx([expected.a, expected.b])


def test_scores_are_those_of_the_evaluation_not_the_rounded_ones(tmp_path: Path) -> None:
    compared = table(write_run(tmp_path / "run", "x", 0, [1, 1]))
    assert compared.systems[0].scores["uf"].mean == pytest.approx(100 / 3, abs=1e-12)
    assert compared.baseline is None  # one system: nothing to test
    assert compared.best("uf") == set()


def test_given_words_are_another_table(tmp_path: Path) -> None:
    both = write_run(tmp_path / "latent", "latent", 0, [JOINED, 1])
    write_run(both, "latent", 0, [2, 2], given_words=True)
    # A parser of given words has scores on given words only, stored where others have those from raw text.
    words = tmp_path / "treecrf"
    words.mkdir()
    result = {"name": "treecrf", "seed": 0, "dev": {"uf": 100.0, "lf": 100.0}}
    (words / "result.json").write_text(json.dumps(result), encoding="utf-8")
    save_evaluation(evaluation([3, 3]), words / evaluation_file("dev", given_words=True))

    compared = table(words, both, given_words=True)
    assert compared.titles == {"uf": "UAS", "lf": "LAS"}
    assert [system.scores["uf"].mean for system in compared.systems] == pytest.approx([100.0, 200 / 3])
    warnings = Warnings()
    runs = read_runs([str(both), str(words)], "dev", warn=warnings)
    assert [run.system for run in runs] == ["latent"]
    assert warnings == [f"{words}: no scores of the dev set from raw text: skipped"]


def test_a_metric_that_a_system_lacks_is_left_open(tmp_path: Path) -> None:
    parser = write_run(tmp_path / "latent", "latent", 0, [2, 2])
    segmenter = write_run(tmp_path / "seg", "segmenter", 0, [2, JOINED])
    result = json.loads((segmenter / "result.json").read_text(encoding="utf-8"))
    result["dev"] = {"seg": result["dev"]["seg"]}  # its tree is meaningless
    (segmenter / "result.json").write_text(json.dumps(result), encoding="utf-8")
    compared = table(parser, segmenter)
    # Words: 3 + 1 right, of 6 gold and 5 predicted.
    assert compared.systems[1].scores["seg"].mean == pytest.approx(800 / 11)
    assert set(compared.systems[1].scores) == set(compared.systems[1].differences) == {"seg"}
    assert "| segmenter | 1 | 72.73 | - | - |" in to_markdown(compared)
    assert r"segmenter & 1 & 72.73 & -- & -- \\" in to_latex(compared)


def test_names_metrics_and_sets(tmp_path: Path) -> None:
    assert list(choose_metrics(None, given_words=False)) == ["seg", "uf", "lf"]
    assert list(choose_metrics(["LAS", "uf", "las"], given_words=True)) == ["lf", "uf"]
    for names, given_words in ((["uas"], False), (["seg"], True), ([""], False)):
        with pytest.raises(InputError, match="unknown metric"):
            choose_metrics(names, given_words=given_words)

    run = write_run(tmp_path / "run", "x", 0, [0, 3])
    write_run(run, "x", 0, [3, 3, 3], part="test")
    compared = table(f"Ours={run}", part="test", metrics=["lcm"])
    assert (compared.systems[0].name, compared.sentences) == ("Ours", 3)
    assert compared.titles == {"lcm": "LCM"}
    assert table(run, metrics=["lcm"]).systems[0].scores["lcm"].mean == 50.0


def test_an_evaluation_file_is_a_run(tmp_path: Path) -> None:
    save_evaluation(evaluation([1, JOINED]), tmp_path / "other.json")
    run = write_run(tmp_path / "a=b", "x", 0, [1, 1])  # a path is a path, whatever is in it
    compared = table(run, tmp_path / "other.json", f"again={tmp_path / 'other.json'}")
    assert [system.name for system in compared.systems] == ["x", "other", "again"]
    assert [run.seed for system in compared.systems for run in system.runs] == [0, None, None]
    assert compared.systems[1].scores["uf"].mean == pytest.approx(200 * 1 / (6 + 5))
    with pytest.raises(InputError, match="some sentences do not have the gold words"):
        table(tmp_path / "other.json", given_words=True)


def test_evaluation_files_in_folders_of_seeds_are_seeds(tmp_path: Path) -> None:
    files = [tmp_path / f"seed-{seed}" / "decoding" / "mbr.json" for seed in (0, 7)]
    for file, right in zip(files, ([1, 1], [3, 3]), strict=True):
        file.parent.mkdir(parents=True)
        save_evaluation(evaluation(right), file)
    [system] = table(*files).systems
    assert [run.seed for run in system.runs] == [0, 7]
    assert system.scores["uf"].mean == pytest.approx((200 / 6 + 100) / 2)
    with pytest.raises(InputError, match="two runs of x with seed 0"):
        table(f"x={files[0]}", f"x={files[1]}", f"x={write_run(tmp_path / 'run', 'x', 0, [1, 1])}")


def test_a_run_given_twice_counts_once(three_systems: list[Path]) -> None:
    left = three_systems[0]
    assert len(table(left / "seed-0", left, left / "seed-1").systems[0].runs) == 2


# ---- skipped and rejected runs


def test_without_evaluations_there_are_scores_but_no_tests(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", "a", 0, [1, 1], keep=False)
    b = write_run(tmp_path / "b", "b", 0, [1, 2])
    c = write_run(tmp_path / "c", "c", 0, [3, 2])

    def compared(*folders: Path) -> tuple[Comparison, list[str]]:
        warnings = Warnings()
        return compare([str(folder) for folder in folders], "dev", samples=9, warn=warnings), warnings

    alone, warnings = compared(a)
    assert warnings == [f"no evaluation file, so no test of significance: {a}"]
    assert (alone.sentences, alone.signature) == (None, None)
    assert "unknown: no evaluation files." in to_markdown(alone)
    first, _ = compared(a, b)
    assert first.baseline is None
    assert [system.differences for system in first.systems] == [{}, {}]
    last, warnings = compared(b, c, a)
    assert len(warnings) == 1
    assert [set(system.differences) for system in last.systems] == [set(), {"seg", "uf", "lf"}, set()]
    assert last.unchecked == ("a",)
    assert "not tested: a." in to_markdown(last)


def test_a_seed_that_is_not_finished_is_left_out(three_systems: list[Path]) -> None:
    (three_systems[0] / "seed-2").mkdir()
    warnings = Warnings()
    assert len(read_runs([str(three_systems[0])], "dev", warn=warnings)) == 2
    assert warnings == [f"{three_systems[0] / 'seed-2'}: this run is not finished (no result.json): skipped"]


def test_what_is_no_finished_run(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "metrics.jsonl").touch()
    (tmp_path / "seeds" / "seed-0").mkdir(parents=True)
    for name, message in {
        "nowhere": "no such run",
        "empty": "not a run's folder",
        "begun": "not finished",
        "seeds": "not finished",
    }.items():
        with pytest.raises(InputError, match=f"{name}: .*{message}"):
            read_runs([str(tmp_path / name)], "dev", warn=Warnings())
    run = write_run(tmp_path / "run", "x", 0, [1])
    with pytest.raises(InputError, match="no run has scores of the test set"):
        read_runs([str(run)], "test", warn=Warnings())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[]", "no name or no seed"),
        ('{"name": "x", "seed": true}', "no name or no seed"),
        ('{"name": "x", "seed": 1, "dev": {"seg": "good"}}', "dev is not a table of scores"),
        ('{"name": "x", "seed": 1, "test": 3}', "test is not a table of scores"),
    ],
)
def test_results_that_are_none(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "result.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=rf"result\.json: .*{message}"):
        read_runs([str(tmp_path)], "dev", warn=Warnings())


def test_runs_that_cannot_be_compared(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", "a", 0, [1, 1])
    b = write_run(tmp_path / "b", "b", 0, [1, 1, 1])
    with pytest.raises(InputError, match=r"a and .*b cannot be compared: .*different gold"):
        table(a, b)
    c = write_run(tmp_path / "c", "c", 0, [1, 1])
    save_evaluation(
        evaluate([(GOLD, PREDICTIONS[1])] * 2, punct=True), c / evaluation_file("dev")
    )  # there is no punctuation, so the scores are the same
    with pytest.raises(InputError, match=r"differ in their options: punct:no.* and punct:yes"):
        table(a, c)
    with pytest.raises(InputError, match="--baseline d: no such system: choose from a"):
        table(a, baseline="d")
    with pytest.raises(InputError, match=r"two runs of a with seed 0: .*NAME=RUN"):
        table(a, write_run(tmp_path / "again", "a", 0, [1, 1]))
    save_evaluation(evaluation([1, 2]), a / evaluation_file("dev"))
    with pytest.raises(InputError, match=r"uf is 50\.000, but result\.json says 33\.333"):
        table(a)


def test_another_version_of_zishu_is_told(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", "a", 0, [1, 1])
    b = write_run(tmp_path / "b", "b", 0, [1, 1])
    path = b / evaluation_file("dev")
    now = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(now.replace(f"zishu-{zishu.__version__}".encode(), b"zishu-0.0.1")))
    warnings = Warnings()
    compared = compare([str(a), str(b)], "dev", samples=9, warn=warnings)
    assert compared.signature == f"punct:no|labels:full|version:zishu-0.0.1+{zishu.__version__}"
    assert warnings == [f"the runs were scored by different versions of Zishu: 0.0.1, {zishu.__version__}"]


# ---- output


def test_markdown(three_systems: list[Path]) -> None:
    assert to_markdown(table(*three_systems)) == (
        "| system | seeds | F1seg | UF | LF |\n"
        "| :--- | ---: | ---: | ---: | ---: |\n"
        "| left\\_ward | 2 | **100.00** ± 0.00 | 50.00 ± 23.57 | 50.00 ± 23.57 |\n"
        "| latent | 2 | **100.00** ± 0.00 | **83.33** ± 23.57 | **83.33** ± 23.57 |\n"
        "| 100% | 1 | **100.00** | 33.33 | 33.33 |\n"
        "\n"
        "| difference from left\\_ward | F1seg | UF | LF |\n"
        "| :--- | ---: | ---: | ---: |\n"
        "| latent | +0.00 [+0.00, +0.00] p=1.000 | +33.33 [+33.33, +33.33] p<0.001 | "
        "+33.33 [+33.33, +33.33] p<0.001 |\n"
        "| 100% | +0.00 [+0.00, +0.00] p=1.000 | -16.67 [-16.67, -16.67] p<0.001 | "
        "-16.67 [-16.67, -16.67] p<0.001 |\n"
        "\n"
        "Dev set from raw text, 2 sentences. Mean ± standard deviation over seeds. Best mean: bold. "
        "Differences: 95% interval in brackets; two-sided p by paired bootstrap over sentences, 10,000 samples, "
        f"corrected for 6 tests (Holm). `{SIGNATURE}`"
    )


def test_latex(three_systems: list[Path]) -> None:
    assert to_latex(table(*three_systems, metrics=["seg", "uf"])).splitlines() == [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}[tb]",
        r"  \centering",
        r"  \begin{tabular}{lrrr}",
        r"  \toprule",
        r"  System & Seeds & F1$_{seg}$ & UF$_{dep}$ \\",
        r"  \midrule",
        r"  left\_ward & 2 & \textbf{100.00} $\pm$ 0.00 & 50.00 $\pm$ 23.57 \\",
        r"  latent & 2 & \textbf{100.00} $\pm$ 0.00 & \textbf{83.33} $\pm$ 23.57 \\",
        r"  100\% & 1 & \textbf{100.00} & 33.33 \\",
        r"  \bottomrule",
        r"  \end{tabular}",
        "",
        r"  \medskip",
        r"  \begin{tabular}{lrr}",
        r"  \toprule",
        r"  Difference from left\_ward & F1$_{seg}$ & UF$_{dep}$ \\",
        r"  \midrule",
        r"  latent & $+0.00$ [$+0.00$, $+0.00$] $p=1.000$ & $+33.33$ [$+33.33$, $+33.33$] $p<0.001$ \\",
        r"  100\% & $+0.00$ [$+0.00$, $+0.00$] $p=1.000$ & $-16.67$ [$-16.67$, $-16.67$] $p<0.001$ \\",
        r"  \bottomrule",
        r"  \end{tabular}",
        (
            r"  \caption{Dev set from raw text, 2 sentences. Mean $\pm$ standard deviation over seeds. "
            r"Best mean: bold. Differences: 95\% interval in brackets; two-sided p by paired bootstrap over sentences, "
            rf"10,000 samples, corrected for 4 tests (Holm). \texttt{{{SIGNATURE}}}}}"
        ),
        r"\end{table}",
    ]


def test_plain_values(three_systems: list[Path]) -> None:
    data = json.loads(json.dumps(as_dict(table(*three_systems, samples=99))))
    assert {key: value for key, value in data.items() if key != "systems"} == {
        "set": "dev",
        "given_words": False,
        "sentences": 2,
        "signature": SIGNATURE,
        "metrics": {"seg": "F1seg", "uf": "UF", "lf": "LF"},
        "baseline": "left_ward",
        "samples": 99,
        "draw_seeds": False,
        "unchecked": [],
    }
    _, latent, one = data["systems"]
    assert (latent["name"], latent["seeds"]) == ("latent", [0, 10])
    assert latent["runs"] == [(three_systems[1] / name).as_posix() for name in ("seed-0", "seed-10")]
    uf = latent["scores"]["uf"]
    assert (uf["mean"], uf["sd"]) == pytest.approx(
        (statistics.fmean(uf["values"]), statistics.stdev(uf["values"]))
    )
    assert latent["differences"]["uf"] == pytest.approx(
        {"difference": 100 / 3, "low": 100 / 3, "high": 100 / 3, "p_value": 0.01, "p_corrected": 0.06}
    )
    assert one["scores"]["uf"]["sd"] is None
