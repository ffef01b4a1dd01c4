"""What is wrong with a yaml of one's own: one sentence, the same for ``fgl-train`` and for tables, with the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import MissingConfigException

from fgl_repro.cli.explain import explain
from fgl_repro.config import build, compose, conf_dir, options, override, register, search, typed, yaml_files, yamls
from fgl_repro.core.errors import UserError
from fgl_repro.core.files import cache_folder
from fgl_repro.runs.folders import default_records
from fgl_repro.tables.added import with_rows
from fgl_repro.tables.load import load


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder of one's own, which is forgotten after the test."""
    searched = list(yamls.searched)
    yield tmp_path
    yamls.searched[:] = searched
    compose.forget()


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / f"{name}.yaml"
    path.parent.mkdir()
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    search(folder)
    return path


def refused_by_build(name: str) -> str:
    """What tables and Python say."""
    group, _, option = name.partition("/")
    with pytest.raises(UserError) as caught:
        build(**{group: option})
    return str(caught.value)


def refused_on_the_command_line(folder: Path, name: str) -> str:
    register()
    GlobalHydra.instance().clear()
    group, _, option = name.partition("/")
    with pytest.raises(Exception) as caught, initialize_config_dir(str(conf_dir()), version_base="1.3"):  # noqa: PT011
        typed(hydra_compose("config", overrides=[f"hydra.searchpath=['file://{folder}']", f"{group}={option}"]))
    return explain(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("method/z", "defaults: [_fedavg, _self_]\nvariant: [a\nfoo: {\n", "cannot be read (while parsing a flow"),
        ("dataset/y", "defaults: [_cora, _self_\n\tx: 1\n", "cannot be read (while scanning for the next token"),
        ("protocol/k", "defaults: [_schema, _self_]\nrounds: 1\nrounds: 2\n", "found duplicate key rounds"),
        ("setting/q", 'defaults: [_plain, _self_]\nfocus: "\x01"\n', "cannot be read (unacceptable character"),
        ("method/d", b"defaults: [_fedavg, _self_]\nvariant: \xff\n", "cannot be read ('utf-8' codec can't decode"),
        ("method/m", "defaults: [_fedavg, _self_]\nvariant: ${oops\n", "cannot be read (no viable alternative at"),
        ("method/p", "note: &self [*self]\n", "cannot be read (an entry contains itself): mend the yaml."),
        ("method/foo", "defaults: [_nosuch, _self_]\n", "its defaults name _nosuch, which does not exist: choose from"),
        ("method/foo", "defaults: [_fedavgg, _self_]\n", "(did you mean _fedavg?): choose from _coboost, _dense,"),
        ("protocol/foo", "defaults: [schema, _self_]\n", "its defaults name schema, which does not exist: choose from"),
        ("protocol/foo", "defaults: [_fedlog, _self_]\n", "does not exist: choose from _schema."),
        ("method/fedmine", "defaults: [fedmine, _self_]\n", "its defaults name itself: begin them with _NAME."),
        ("protocol/mine", "defaults: [mine, _self_]\n", "its defaults name itself: begin them with _schema."),
        ("method/i", "defaults: [{_fedavg: x}, _self_]\n", "begin them with _NAME."),
        ("method/c", "defaults: 3\n", "its defaults must be a list (got int), as in [_NAME, _self_]."),
        (
            "protocol/mine",
            "defaults: [_schema, _self_]\nrouns: 3\n",
            "protocol.rouns does not exist (did you mean rou",
        ),
        ("method/l", "defaults: [_fedprox, _self_]\nmu: much\n", "cannot be used: method.mu=much: give a number."),
        ("protocol/mine", "defaults: [_schema, _self_]\nrounds: zwei\n", "protocol.rounds=zwei: give a whole number."),
        ("protocol/g", "defaults: [_schema, _self_]\nsplit: [a, b]\n", "protocol.split[0]=a: give a number."),
    ],
)
def test_a_mistake_in_a_yaml_is_one_sentence_with_the_file(
    folder: Path, name: str, text: str | bytes, said: str
) -> None:
    path = written(folder, name, text)
    told = refused_by_build(name)
    assert said in told
    assert told.startswith(f"the {path.parent.name} {path} cannot be ")
    assert "\n" not in told
    assert refused_on_the_command_line(folder, name) == told


@pytest.mark.parametrize(
    "text", [b"variant: \xff\n", b"variant: ${oops\n", b"note: &self [*self]\n", b"defaults: [mine]\n"]
)
def test_the_file_that_was_chosen_is_blamed_and_not_another_broken_one(folder: Path, text: bytes) -> None:
    path = written(folder, "method/mine", text)
    path.with_name("broken.yaml").write_text("variant: [a\n")
    assert refused_by_build("method/mine").startswith(f"the method {path} cannot be ")
    assert refused_on_the_command_line(folder, "method/mine").startswith(f"the method {path} cannot be ")


def test_no_option_is_offered_where_a_schema_is_wanted(folder: Path) -> None:
    written(folder, "method/foo", "defaults: [_nosuch, _self_]\n")
    offered = refused_by_build("method/foo").partition("choose from ")[2].rstrip(".").split(", ")
    assert "_fedavg" in offered
    assert all(name.startswith("_") for name in offered)


@pytest.mark.parametrize("text", ["lr: 3\n", "- 1\n", "just words\n"])
def test_a_yaml_without_a_schema_is_one_sentence(folder: Path, text: str) -> None:
    written(folder, "protocol/mine", text)
    assert refused_by_build("protocol/mine").startswith("the yaml chosen for protocol has no schema: begin it with")


def test_a_yaml_that_names_what_no_run_has(folder: Path) -> None:
    written(folder, "method/l", "defaults: [_fedprox, _self_]\nmu: ${nowhere.x}\n")
    assert "a yaml says ${nowhere.x}, which is no key of a run" in refused_by_build("method/l")


def test_a_table_and_an_option_say_the_same_of_a_yaml_that_is_none(folder: Path) -> None:
    path = written(folder, "method/z", "a: [\n")
    with pytest.raises(UserError) as caught:
        yamls.read_yaml(path, "table")
    assert str(caught.value).replace("the table", "the method", 1) == refused_by_build("method/z")


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("partitioner.mixed", "abc", "give a number."),
        ("protocol.lr", [1], "give a number."),
        ("protocol.rounds", "zwei", "give a whole number."),
        ("seed", "x", "give a whole number."),
        ("protocol.split", ["a", 0.5, 0.5], "give a list of numbers."),
    ],
)
def test_a_value_that_is_no_number_is_told_by_its_key(key: str, value: object, wanted: str) -> None:
    config = build(dataset="motif_basis", partitioner="environment", setting="plain", protocol="fedvn", method="fedvn")
    with pytest.raises(UserError) as caught:
        override(config, {key: value})
    assert str(caught.value) == f"{key}={value}: {wanted}"


def test_a_class_without_a_yaml_is_told_which_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(group: str) -> dict[str, Path]:
        return {name: path for name, path in yaml_files(group).items() if (group, name) != ("method", "fedala")}

    monkeypatch.setattr(compose, "yaml_files", lacking)
    compose.forget()
    said = r"^method=fedala is a class without a yaml: write method/fedala.yaml in .*defaults: \[_fedala, _self_\]`\.$"
    try:
        with pytest.raises(UserError, match=said):
            build(method="fedala")
        with pytest.raises(UserError, match=said):
            with_rows(load("fedlog/1"), ["fedala"])
        missing = MissingConfigException("", "method/fedala", options("method"))
        assert re.match(said, explain(missing))
    finally:
        compose.forget()


@pytest.mark.parametrize("named", ["records/${oc.env:HOME}", "${nowhere}", "records/${", "???"])
@pytest.mark.parametrize("variable", ["FGL_RECORDS", "FGL_CACHE"])
def test_a_folder_is_never_read_as_something_else(variable: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, named)
    said = f"^{re.escape(f'{variable}={named}')} is no name that a configuration can hold: name a folder without"
    for read in (build, cache_folder if variable == "FGL_CACHE" else default_records):
        with pytest.raises(UserError, match=said):
            read()
    monkeypatch.setenv(variable, "a $1 {folder}")
    paths = build().paths
    assert "a $1 {folder}" in (paths.records, paths.cache)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("seed=null", "seed=null: it always has a value: give one, or leave the word out."),
        (
            "~protocol.rounds",
            "keys of a run cannot be removed: leave the word with ~ out, or give the key another value.",
        ),
        ("method=fedpub-paper", "method=fedpub-paper is no option: give method=fedpub method.variant=paper."),
        (
            "logger=wandb",
            "logger=wandb does not exist: choose from disabled, offline, online (online and offline log to Weights",
        ),
        (
            "method.variant=${foo.bar}",
            "a value refers to what is not there (Interpolation key 'foo.bar' not found): mend",
        ),
    ],
)
def test_a_word_that_cannot_be_is_one_sentence(word: str, told: str) -> None:
    register()
    GlobalHydra.instance().clear()
    with pytest.raises(Exception) as caught, initialize_config_dir(str(conf_dir()), version_base="1.3"):  # noqa: PT011
        typed(hydra_compose("config", overrides=[word]))
    assert explain(caught.value).startswith(told)
