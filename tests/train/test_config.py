"""Configurations: every file of `configs/`, and every way to get one wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, asdict, replace
from pathlib import Path

import pytest

from zishu.errors import ConfigError
from zishu.forest import POLICIES
from zishu.tags import COLUMNS
from zishu.train.config import (
    Config,
    DataConfig,
    EncoderConfig,
    RunConfig,
    by_style,
    config_from_dict,
    load_config,
)

CONFIGS = Path(__file__).parents[2] / "configs"
SMALL = """
name = "small"
[data]
train = "train.conllu"
dev = "dev.conllu"
[encoder]
kind = "bilstm"
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path


def test_reads_a_file_and_fills_in_the_papers_defaults(small: Path) -> None:
    config = load_config(small)
    assert config == Config(
        name="small",
        data=DataConfig(train="train.conllu", dev="dev.conllu"),
        encoder=EncoderConfig(kind="bilstm"),
    )
    assert (config.task, config.structure.policy, config.structure.roles) == ("parse", "latent", 2)
    # Appendix A.4.
    optimiser = config.optimiser
    assert (optimiser.beta1, optimiser.beta2, optimiser.eps, optimiser.weight_decay) == (0.9, 0.9, 1e-12, 0)
    assert (optimiser.encoder_learning_rate, optimiser.learning_rate) == (5e-5, 1e-3)
    assert (optimiser.epochs, optimiser.batch_chars, config.scorer.dropout) == (10, 1000, 0.33)


def test_overrides_are_toml_values_or_plain_strings(small: Path) -> None:
    overrides = [
        "seed=7",
        "name=2024",  # a string without quotation marks, because the key takes a string
        "data.test = data/a b=c.conllu",
        'data.structures="w.conll"',
        "structure.single_root=false",
        "structure.policy=leftward",
        "optimiser.learning_rate=1",  # a whole number is a number
        "optimiser.eps=1e-8",
        "encoder.layers=3",
        "encoder.layers=4",  # the last one wins
        "encoder.pretrained=",
    ]
    config = load_config(small, overrides)
    assert (config.seed, config.name, config.encoder.layers) == (7, "2024", 4)
    assert (config.data.test, config.data.structures) == ("data/a b=c.conllu", "w.conll")
    assert config.structure.single_root is False
    assert config.structure.policy == "leftward"
    assert (config.optimiser.learning_rate, config.optimiser.eps) == (1.0, 1e-8)
    assert isinstance(config.optimiser.learning_rate, float)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("encoder.layer", "encoder.layers"),
        ("encoder.Hidden", "encoder.hidden"),
        ("optimizer.epochs", "optimiser.epochs"),  # the American section
        ("epochs", "optimiser.epochs"),  # no section
        ("score.dropout", "scorer.dropout"),  # the name exists twice
        ("sede", "seed"),
        ("lerning_rate", "optimiser.learning_rate"),
        ("data.trains.path", "data.train"),
    ],
)
def test_an_unknown_key_names_the_nearest_right_one(small: Path, wrong: str, right: str) -> None:
    with pytest.raises(ConfigError, match=rf"--set {wrong}=1: unknown key {wrong}; did you mean {right}\?"):
        load_config(small, [f"{wrong}=1"])


def test_an_unknown_key_names_its_file(small: Path) -> None:
    small.write_text(SMALL + "layer = 3\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(small)
    assert str(caught.value) == f"{small}: unknown key encoder.layer; did you mean encoder.layers?"


def test_a_key_like_no_other_lists_the_keys(small: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown key zzzz; the keys are name, task, .*run\.patience"):
        load_config(small, ["zzzz=1"])


def test_an_unknown_empty_section_is_an_unknown_key(small: Path) -> None:
    small.write_text(SMALL + "[runs]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="unknown key runs"):
        load_config(small)
    small.write_text(SMALL + "[run]\n", encoding="utf-8")
    assert load_config(small).run == RunConfig()


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("encoder.layers=0", "a whole number from 1"),
        ("encoder.layers=2.0", "a whole number from 1"),
        ("encoder.layers=true", "a whole number from 1"),
        ("encoder.layers=two", "a whole number from 1"),
        ("encoder.layers=1\nseed=2", "a whole number from 1"),
        ("encoder.kind=lstm", "one of 'bilstm', 'transformer', 'bert'"),
        ("structure.roles=3", "one of 1, 2"),
        ("structure.roles=true", "one of 1, 2"),
        ("structure.single_root=1", "true or false"),
        ("scorer.dropout=1", "a number from 0 up to, but not including, 1"),
        ("scorer.dropout=-0.1", "a number from 0 up to, but not including, 1"),
        ("optimiser.warmup=1.5", "a number from 0 to 1"),
        ("optimiser.learning_rate=0", "a number above 0"),
        ("optimiser.learning_rate=nan", "a number above 0"),
        ("optimiser.clip=inf", "a number from 0"),
        ("optimiser.clip=1" + "0" * 400, "a number from 0"),
        ("seed=-1", "a whole number from 0 to 4294967295"),
        ("seed=2024-01-01", "a whole number from 0 to 4294967295"),
    ],
)
def test_a_wrong_value_says_what_is_expected(small: Path, override: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(small, [override])
    assert str(caught.value) == f"--set {override}: expected {expected}"


def test_a_wrong_value_in_a_file_names_file_key_and_value(small: Path) -> None:
    for line, shown in (("train = 5", "data.train = 5"), ("train = true", "data.train = true")):
        small.write_text(SMALL.replace('train = "train.conllu"', line), encoding="utf-8")
        with pytest.raises(ConfigError) as caught:
            load_config(small)
        assert str(caught.value) == f"{small}: {shown}: expected a file, or a table of files by style"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["seed"], "--set seed: expected key=value"),
        (["=3"], "--set =3: expected key=value"),
        (["run=fast"], "--set run=fast: run is a section, its keys are run.directory, run.device"),
        (["name=a/b"], "name = 'a/b': expected letters"),
        (["name=.."], "name = '..': expected letters"),
        (["name="], "name = '': expected letters"),
        (["data.dev="], "data.dev is empty"),
        (["structure.policy=annotated"], "needs data.structures, a WIST-format file"),
        (["encoder.kind=bert"], "needs encoder.pretrained"),
        (["encoder.kind=transformer", "encoder.heads=7"], "hidden = 300: expected a multiple of the 7 heads"),
    ],
)
def test_wrong_overrides_and_combinations(small: Path, overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(small, overrides)
    assert message in str(caught.value)


@pytest.mark.parametrize("key", ["name", "data.train", "data.dev", "encoder.kind"])
def test_what_has_no_default_must_be_given(small: Path, key: str) -> None:
    name = key.rpartition(".")[2]
    kept = [line for line in SMALL.splitlines() if not line.startswith(f"{name} =")]
    small.write_text("\n".join(kept), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(small)
    assert str(caught.value) == f"{small}: {key} is missing"


def test_unreadable_files(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("name = \n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"bad\.toml: not a TOML file: .*line 1"):
        load_config(path)
    path.write_bytes(b"name = '\xff'\n")
    with pytest.raises(ConfigError, match=r"bad\.toml: not a TOML file: .*utf-8"):
        load_config(path)
    with pytest.raises(FileNotFoundError):
        load_config(tmp_path / "absent.toml")


def test_files_by_style(small: Path) -> None:
    config = load_config(
        small,
        [
            'data.train={gsd = "a.conllu", hk = ["b.conllu", "c.conllu"]}',
            "data.dev.gsd=d.conllu",
            "data.weights.hk=2",
        ],
    )
    assert config.data.train == {"gsd": ("a.conllu",), "hk": ("b.conllu", "c.conllu")}
    assert list(by_style(config.data.train)) == ["gsd", "hk"]  # the first one is the default
    assert by_style(config.data.dev) == {"gsd": ("d.conllu",)}
    assert config.data.weights == {"hk": 2.0}
    assert config_from_dict(json.loads(json.dumps(asdict(config)))) == config
    assert by_style("x.conllu") == {"": ("x.conllu",)}
    assert by_style("") == {}


@pytest.mark.parametrize(
    "overrides, message",
    [
        (["data.train={}"], "a file, or a table of files by style"),
        (["data.train={gsd = 3}"], "a file or a list of files"),
        (["data.train={gsd = []}"], "a file or a list of files"),
        (['data.train={"g sd" = "a"}'], "names of styles"),
        (['data.dev={hk = "a"}'], "data.dev: style 'hk' is not in data.train"),
        (["data.weights.gsd=1"], "data.weights: style 'gsd' is not in data.train"),
        (['data.train={gsd = "a"}', 'data.dev={gsd = "a"}', "data.weights.gsd=0"], "a number above 0"),
        (["data.weights=3"], "a table of numbers by style"),
    ],
)
def test_wrong_files_by_style(small: Path, overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(small, overrides)


def test_a_file_extends_another_one(small: Path, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    variant = tmp_path / "sub" / "variant.toml"
    variant.write_text(
        'extends = "../small.toml"\nname = "variant"\n[encoder]\nlayers = 5\nheads = 5\n', encoding="utf-8"
    )
    config = load_config(variant, ["encoder.heads=6"])
    assert (config.name, config.data.train) == ("variant", "train.conllu")
    assert (config.encoder.kind, config.encoder.layers, config.encoder.heads) == ("bilstm", 5, 6)


def test_a_mistake_in_an_extended_file_names_that_file(small: Path, tmp_path: Path) -> None:
    small.write_text(SMALL + "layer = 3\n", encoding="utf-8")
    variant = tmp_path / "variant.toml"
    variant.write_text('extends = "small.toml"\nname = "variant"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"small\.toml: unknown key encoder\.layer"):
        load_config(variant)


@pytest.mark.parametrize(
    ("extends", "message"),
    [("'x.toml'", "extends itself"), ("'absent.toml'", "no such file"), ("3", "expected the name of")],
)
def test_wrong_extensions(tmp_path: Path, extends: str, message: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f"extends = {extends}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_config(path)


def test_round_trip_through_json(small: Path) -> None:
    config = load_config(small, ["optimiser.eps=3e-13", "structure.policy=rightward", "scorer.upos=false"])
    assert config_from_dict(json.loads(json.dumps(asdict(config)))) == config


def test_a_dictionary_is_checked_like_a_file(small: Path) -> None:
    data = asdict(load_config(small))
    data["encoder"]["layer"] = 3
    with pytest.raises(ConfigError, match=r"x\.safetensors: unknown key encoder\.layer"):
        config_from_dict(data, source="x.safetensors")


def test_configurations_are_frozen(small: Path) -> None:
    with pytest.raises(FrozenInstanceError):
        load_config(small).seed = 3  # type: ignore[misc]


def test_every_run_has_a_folder(small: Path) -> None:
    config = load_config(small, ["seed=3"])
    assert config.folder == Path("runs/small/seed-3")
    assert replace(config, run=RunConfig(directory="here")).folder == Path("here")


def test_needs_no_torch() -> None:
    # This holds for the module itself: its package imports torch first, to report once if it is missing.
    code = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("config", sys.argv[1])
sys.modules["config"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code, str(sys.modules[Config.__module__].__file__)], check=True)


# Task, policy, roles, single root, root as head.
SYSTEMS = {
    "segmenter": ("segment", "latent", 2, True, True),
    "treecrf": ("parse-words", "latent", 2, True, True),
    "pipeline": ("pipeline", "latent", 2, True, True),
    "leftward": ("parse", "leftward", 1, True, True),
    "rightward": ("parse", "rightward", 1, True, True),
    "annotated": ("parse", "annotated", 1, True, True),
    "latent": ("parse", "latent", 1, True, True),
    "latent-c2f": ("parse", "latent", 2, True, True),
    "latent-c2f-no-single-root": ("parse", "latent", 2, False, True),
    "latent-c2f-no-root-as-head": ("parse", "latent", 2, True, False),
    "latent-c2f-no-constraints": ("parse", "latent", 2, False, False),
}
# Parsers before the paper (its Table 1), and what it leaves out; with a BERT only.
OTHERS = {
    "yan-2020": ("parse", "leftward", 1, True, True),
    "wu-2021": ("parse", "annotated", 1, True, True),
    "transition": ("parse", "leftward", 2, True, True),
    "latent-c2f-pseudo-projective": ("parse", "latent", 2, True, True),
}


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_configuration_loads(path: Path) -> None:
    bundled = dict.fromkeys(("default", "styles", "taught", "fast"), "latent-c2f-transformer")
    bundled["accurate"] = "latent-c2f"
    # Its encoder is the user's choice.
    config = load_config(
        path, ["encoder.pretrained=hub:bert-base-chinese"] if path.stem == "accurate" else []
    )
    stem = bundled.get(path.stem, path.stem)
    system = stem.removesuffix("-bilstm").removesuffix("-transformer").removesuffix("-small-bert")
    structure = config.structure
    assert config.name == path.stem
    assert (SYSTEMS | OTHERS)[system] == (
        config.task,
        structure.policy,
        structure.roles,
        structure.single_root,
        structure.root_as_head,
    )
    assert structure.policy in POLICIES
    encoder = stem[len(system) + 1 :] or "bert"
    assert config.encoder.kind == encoder.removeprefix("small-")
    if encoder == "bert":
        assert config.encoder.pretrained == "hub:bert-base-chinese"


@pytest.mark.parametrize("path", sorted((CONFIGS / "paper").glob("*.toml")), ids=lambda path: path.stem)
def test_the_papers_configurations_only_leave_out_parts_of_speech(path: Path) -> None:
    config, system = load_config(path), load_config(CONFIGS / path.name)
    assert config.name == f"paper-{path.stem}"
    assert replace(config, name=system.name, scorer=system.scorer) == system
    assert replace(system.scorer, upos=False, tag_weight=0.0) == config.scorer
    # A converted CTB has its parts of speech in XPOS.
    assert not any(map(config.scorer.weight, COLUMNS))
    assert (config.encoder.kind, config.optimiser.epochs) == ("bert", 10)


# What the paper's release does and the paper does not say (docs/ctb.md), and where it makes sense.
SWITCHES = {
    "latent-c2f": ("encoder.mixed_layers=4", "encoder.output_dropout=0.1", "encoder.separator=false"),
    "leftward": ("structure.chain=true",),
    "latent": ("structure.release_recovery=true",),
    "pipeline": ("optimiser.batch_by_words=true",),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_what_only_the_release_does_is_off_and_has_a_comment(name: str) -> None:
    text = (CONFIGS / f"{name}.toml").read_text(encoding="utf-8")
    docs = (CONFIGS.parent / "docs" / "ctb.md").read_text(encoding="utf-8")
    off, paper = load_config(CONFIGS / f"{name}.toml"), load_config(CONFIGS / "paper" / f"{name}.toml")
    for switch in SWITCHES[name]:
        section, key = switch.partition("=")[0].split(".")
        part = getattr(off, section)
        assert getattr(part, key) == getattr(type(part), key)  # its default
        assert part == getattr(paper, section)
        assert load_config(CONFIGS / "paper" / f"{name}.toml", [switch]) != paper
        assert re.search(rf"^{key} = .*#.*the paper's release", text, re.MULTILINE)
        assert f"--set {switch}" in docs


def test_every_system_of_the_paper_has_its_configuration() -> None:
    names = {path.stem for path in CONFIGS.glob("*.toml")}
    ablated = {name for name in SYSTEMS if "-no-" in name}
    assert set(SYSTEMS) <= names
    assert {f"{name}-bilstm" for name in SYSTEMS.keys() - ablated} <= names


def test_the_papers_settings_are_the_same_in_every_system() -> None:
    first, *others = [load_config(CONFIGS / f"{name}.toml") for name in SYSTEMS]
    for other in others:
        assert (first.encoder, first.optimiser, first.run) == (other.encoder, other.optimiser, other.run)


@pytest.mark.parametrize(
    ("file", "setting", "message"),
    [
        (
            "latent-c2f.toml",
            "encoder.dropout=0.2",
            "encoder.dropout has no effect: a BERT has its own dropout",
        ),
        ("latent-c2f.toml", "encoder.character_dropout=0.2", "encoder.character_dropout has no effect"),
        ("segmenter.toml", "scorer.dropout=0.2", "scorer.dropout has no effect: a segmenter has no MLPs"),
        ("transition.toml", "structure.roles=1", "structure.roles has no effect"),
        ("transition.toml", "scorer.arc=100", "scorer.arc has no effect"),
        ("latent-c2f.toml", "structure.beam=4", "structure.beam has no effect"),
        ("latent-c2f-bilstm.toml", "encoder.mixed_layers=4", "encoder.mixed_layers has no effect"),
        ("latent-c2f-bilstm.toml", "encoder.first_layers=2", "encoder.first_layers has no effect"),
        ("latent-c2f-bilstm.toml", "encoder.separator=false", "encoder.separator has no effect"),
        ("latent-c2f.toml", "structure.chain=true", "structure.chain has no effect"),
        ("transition.toml", "structure.chain=true", "structure.chain has no effect"),
        ("latent-c2f.toml", "structure.release_recovery=true", "structure.release_recovery has no effect"),
        ("latent-c2f.toml", "optimiser.batch_by_words=true", "optimiser.batch_by_words has no effect"),
    ],
)
def test_what_nothing_reads_is_refused(file, setting, message):
    load_config(CONFIGS / file)
    with pytest.raises(ConfigError, match=f"--set {re.escape(setting)}: {message}"):
        load_config(CONFIGS / file, [setting])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("task=parse-words", "is for the task 'parse'"),
        ("structure.policy=latent", "needs a structure.policy other than 'latent'"),
        ("structure.single_root=false", "needs structure.single_root and structure.root_as_head"),
        ("structure.root_as_head=false", "needs structure.single_root and structure.root_as_head"),
        ("structure.beam=5000", "structure.beam = 5000: at most 1024"),
    ],
)
def test_a_transition_parser_builds_one_legal_tree(setting, message):
    with pytest.raises(ConfigError, match=message):
        load_config(CONFIGS / "transition.toml", [setting])


def test_the_dropout_of_a_recurrent_layer_on_a_bert_is_read():
    config = load_config(CONFIGS / "latent-c2f.toml", ["encoder.top=10", "encoder.dropout=0.2"])
    assert config.encoder.dropout == 0.2
