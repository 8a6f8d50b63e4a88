"""run.json: the origin of a run."""

import json
import os
import subprocess
from dataclasses import asdict

import pytest

import zishu
from zishu.train.config import config_from_dict
from zishu.train.provenance import commit_of, record_run


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Make a repository with a package in it, and a package that only lies below it."""
    # If a git hook runs the tests, its variables bind git to the hook's repository.
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for package in ("package", "installed"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for arguments in (("init", "-q"), ("add", "package"), (*identity, "commit", "-qm", "first")):
        subprocess.run(["git", "-C", tmp_path, *arguments], check=True)
    return tmp_path


def test_the_settings_the_program_and_the_machine_are_recorded(tmp_path):
    config = config_from_dict(
        {
            "name": "tiny",
            "seed": 3,
            "data": {"train": "a", "dev": "b"},
            "encoder": {"kind": "bilstm"},
            "optimiser": {"epochs": 7},
        }
    )
    record_run(config, tmp_path, device="cpu", processes=2)
    found = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    assert found["config"] == json.loads(json.dumps(asdict(config)))
    assert found["zishu"] == zishu.__version__
    assert found["machine"]["processes"] == 2
    assert found["machine"]["cores"] == os.cpu_count()
    assert found["machine"]["processor"]
    assert str(tmp_path) not in json.dumps(found)


def test_a_checkout_has_a_commit_and_shows_changes(checkout):
    package = checkout / "package"
    commit = commit_of(package)
    assert len(commit) == 40
    (package / "more.py").touch()
    assert commit_of(package) == commit + "+"


def test_an_installed_package_has_no_commit(checkout):
    assert commit_of(checkout / "installed") == ""


def test_no_git_is_no_commit(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert commit_of(checkout / "package") == ""
