"""Configuration: every yaml composes, ``build`` says what Hydra says, and keys change exactly when numbers may."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from hydra.errors import HydraException
from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fgl_repro import config as configs
from fgl_repro.cli.explain import explain
from fgl_repro.cli.request import command_of
from fgl_repro.config import as_plain, build, cell_of, conf_dir, key_of, options, override, science, typed
from fgl_repro.config.compose import ENVIRONMENT
from fgl_repro.core import registry
from fgl_repro.core.errors import UserError
from fgl_repro.methods.fedavg import FedAvg
from support.helpers import composed
from support.runs import GRAPHS, about_graphs, methods_of

OPTIONS = [(group, option) for group in configs.GROUPS for option in options(group)]
REFUSED = (UserError, HydraException, OmegaConfBaseException)


def leaves(value: Any, prefix: str = "") -> list[tuple[str, bool]]:
    """Dotted names of all fields, and whether they are science."""
    found = []
    for f in fields(value):
        item, name = getattr(value, f.name), f"{prefix}{f.name}"
        if is_dataclass(item):
            found += leaves(item, f"{name}.")
        else:
            science = f.metadata.get("science", True) and name.split(".")[0] not in ("runtime", "logger", "paths")
            found.append((name, science))
    return found


def another(name: str, value: Any) -> Any:
    """A value that is allowed and differs."""
    special = {
        "protocol.split": [0.5, 0.3, 0.2],
        "protocol.tuning": {"seed": 0, "candidates": {}},
        "protocol.seeds": [7],
        "protocol.fitted": {"fedavg": ["cora"]},
        "runtime.curves": "all",
        "runtime.device": "cuda:1",
        "logger.mode": "disabled",
        "logger.entity": "somebody",
        "method.hops": 1 if value != 1 else 2,
        "protocol.judged": "server",
        "protocol.optimiser": "sgd",
        "protocol.moments": "each_round",
        "protocol.selection": "last",
        "protocol.selected_by": "test",
        "dataset.features": "raw",
        "dataset.component": "whole",
    }
    if name in special:
        return special[name]
    if isinstance(value, bool):
        return not value
    return value + "x" if isinstance(value, str) else value + 1 if isinstance(value, int) else value / 2 + 0.125


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_option_composes_the_same_both_ways(group: str, option: str) -> None:
    chosen = {group: option}
    if option.startswith("sage_halves"):  # draws neighbours for mini-batches, which the default protocol has not
        chosen["protocol"] = "fedsage"
    if option in ("fleet", "overlap"):  # neither is for a new client, whom the default setting has
        chosen |= {"method": "local", "setting": "plain"}
    chosen = {**(GRAPHS if about_graphs(group, option) else {}), **chosen}
    by_hydra = composed(*(f"{name}={word}" for name, word in chosen.items()))
    assert as_plain(build(**chosen)) == as_plain(by_hydra)
    assert re.fullmatch("[0-9a-f]{64}", key_of(by_hydra))
    assert "???" not in str(as_plain(by_hydra))
    assert MISSING not in str(science(by_hydra))


def test_folders_of_conf_are_known() -> None:
    folders = {p.name for p in conf_dir().iterdir() if p.is_dir()}
    assert folders - {"local"} == {*configs.GROUPS, "experiment", "debug", "table"}
    assert all(options(group) for group in configs.GROUPS)
    named = {n for p in conf_dir().rglob("*.yaml") for n in re.findall(r"oc\.env:(\w+)", p.read_text())}
    assert named <= set(ENVIRONMENT), "build() must know what the yaml files read"


@pytest.mark.parametrize("option", options("experiment"))
def test_experiments_compose(option: str) -> None:
    assert composed(f"experiment={option}", "method=fedpub").method.name == "fedpub"


@pytest.mark.parametrize("option", options("debug"))
def test_debug_options_compose_and_get_another_key(option: str) -> None:
    assert key_of(composed(f"debug={option}")) != key_of(composed())


@pytest.mark.parametrize(
    "words",
    [
        "method=fedpub dataset=citeseer partitioner.clients=10 seed=2",
        "method=local dataset=pubmed protocol=fedlog_matched setting=open_set",
        "method=fedavg dataset=photo protocol=fedlog_matched setting=new_client partitioner=metis",
        "method=feded dataset=cora protocol=fedlog_tuned method.variant=fedvls protocol.lr=1",
        "method=fedntd partitioner=random partitioner.clients=7 model.dropout=0 runtime=deterministic",
        "dataset=actor setting=plain protocol.split=[0.6,0.2,0.2] logger=disabled",
    ],
)
def test_build_is_what_hydra_composes(words: str) -> None:
    said = dict(word.split("=") for word in words.split())
    groups = {name: value for name, value in said.items() if "." not in name and name != "seed"}
    dotted: dict[str, Any] = {name: value for name, value in said.items() if "." in name}
    if "protocol.split" in dotted:
        dotted["protocol.split"] = [0.6, 0.2, 0.2]
    built = build(dotted, **groups, seed=int(said.get("seed", 0)))
    assert as_plain(built) == as_plain(composed(*words.split()))
    assert key_of(built) == key_of(composed(*words.split()))


def test_built_configs_are_independent() -> None:
    first = build(dataset="cora", method="fedpub", protocol="fedlog_tuned")
    key = key_of(first)
    first.protocol.split[0] = 0.9
    first.protocol.tuning["candidates"].clear()
    first.method.tau = 99.0
    again = build(dataset="cora", method="fedpub", protocol="fedlog_tuned")
    assert key_of(again) == key
    assert again.protocol.tuning["candidates"]


def test_built_configs_follow_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("one", "two"):
        monkeypatch.setenv("FGL_RECORDS", folder)
        assert build(dataset="cora").paths.records == folder


@pytest.mark.parametrize("method", methods_of("node"))
def test_the_key_changes_exactly_with_science(method: str) -> None:
    run = build(method=method)
    named = leaves(run)
    assert {"seed", "protocol.lr", "method.variant", "setting.hops"} <= {name for name, counts in named if counts}
    hidden = {"protocol.name", "protocol.tuning", "protocol.seeds", "protocol.selection"}
    hidden |= {"setting.focus", "paths.records"}
    assert hidden <= {name for name, counts in named if not counts}
    for name, counts in named:
        if name in ("protocol.batch", "model.fanout") and not run.method.batched:
            continue
        if name == "method.secure" and not run.method.can_hide_uploads():
            continue
        if name == "method.starts" and type(run.method).start is not FedAvg.start:
            continue
        if name == "protocol.participation" and not run.method.can_sit_out():
            continue
        if name == "protocol.selected_by" and run.method.validates:
            continue
        value: Any = run
        for part in name.split("."):
            value = getattr(value, part)
        if name in ("protocol.features", "protocol.component"):  # the data set has taken them over by now
            with pytest.raises(UserError, match="give dataset"):
                override(run, {name: value})
            continue
        words = {"method.variant": run.method.variants, "setting.focus": run.setting.probes}
        words |= {"protocol.average": ("pooled", "clients", "nodes"), "protocol.ddof": (0, 1)}
        words |= {"protocol.split_source": ("stream", "fedpub", "opfgl", "openfgl")}
        words |= {f"method.{field}": known for field, known in run.method.choices.items()}
        if (known := words.get(name)) is not None:
            others = [other for other in known if other != value]
            assert all((key_of(override(run, {name: other})) != key_of(run)) == counts for other in others)
        else:
            needs = {"model.fanout": {"protocol.batch": 8}, "protocol.momentum": {"protocol.optimiser": "sgd"}}
            base = override(run, needs.get(name, {}))
            assert (key_of(override(base, {name: another(name, value)})) != key_of(base)) == counts, name


def test_science_is_what_it_was() -> None:
    """Written out, so that a new field or a changed default is seen: it makes every old record another run's."""
    assert science(build(dataset="cora", method="fedpub", clients=5, seed=1)) == {
        "dataset": {"name": "cora", "features": "row", "revision": 1},
        "partitioner": {"name": "published", "clients": 5, "revision": 1},
        "setting": {"world": "closed_set", "hops": 2, "crop": 0.0, "revision": 1},
        "protocol": {
            **{"split": [0.4, 0.3, 0.3], "split_seed": 0, "rounds": 100, "local_epochs": 1},
            **{"lr": 0.01, "weight_decay": 1e-6, "revision": 1},
        },
        "model": {"name": "gcn", "hidden": 128, "dropout": 0.5},
        "method": {"name": "fedpub", "variant": "release", "revision": 1, "tau": 3.0, "l1": 1e-3, "l2": 1e-3},
        "seed": 1,
    }


def test_an_integer_for_a_float_is_the_same_key() -> None:
    keys = {key_of(build({"method.tau": tau}, method="fedpub")) for tau in (2, 2.0, "2", "2.0")}
    keys |= {key_of(composed("method=fedpub", f"method.tau={tau}")) for tau in ("2", "2.0", "2e0")}
    assert len(keys) == 1
    assert len({key_of(build({"protocol.split": split})) for split in ([0.5, 0.5, 0], [0.5, 0.5, 0.0])}) == 1


def test_a_cell_is_a_run_without_its_seed() -> None:
    runs = [build(seed=seed) for seed in range(3)]
    assert len({cell_of(run) for run in runs}) == 1
    assert len({key_of(run) for run in runs}) == 3
    assert cell_of(build(clients=5)) != cell_of(runs[0])


def test_probes_of_one_world_share_the_run() -> None:
    closed = ("seen_graph", "unseen_node", "missing_class", "new_client", "closed_set")
    assert len({key_of(build(setting=setting)) for setting in closed}) == 1
    assert [build(setting=setting).setting.focus for setting in closed[:4]] == list(closed[:4])
    assert key_of(build(setting="open_set")) != key_of(build(setting="closed_set"))


def test_values_by_dataset() -> None:
    assert [build(dataset=d).protocol.lr for d in ("cora", "citeseer", "photo")] == [0.01, 0.001, 0.001]
    assert [build(dataset=d).setting.hops for d in ("cora", "citeseer", "photo")] == [2, 3, 1]


def test_values_by_method() -> None:
    rates = {m: build(dataset="photo", protocol="fedlog_matched", method=m).protocol.lr for m in methods_of("node")}
    assert {method for method, rate in rates.items() if rate == 0.001} == {"local", "fedlog", "fedsageplus"}
    assert set(rates.values()) == {0.001, 0.01}


def test_values_by_cell() -> None:
    """FedLoG's epochs by ``build`` and on the command line, which set the number of clients at other moments."""
    for (dataset, clients), epochs in {("cora", 3): 1, ("cora", 5): 3, ("citeseer", 10): 3, ("photo", 10): 1}.items():
        built = build(dataset=dataset, protocol="fedlog_matched", method="fedlog", clients=clients)
        given = (f"dataset={dataset}", "protocol=fedlog_matched", "method=fedlog", f"partitioner.clients={clients}")
        assert built.protocol.local_epochs == composed(*given).protocol.local_epochs == epochs
    assert build(dataset="cora", protocol="fedlog_matched", method="fedavg", clients=5).protocol.local_epochs == 1


@pytest.mark.parametrize("axis", ["dataset", "method"])
def test_a_table_without_the_entry_is_one_sentence(axis: str) -> None:
    configs.register()
    cfg = OmegaConf.structured(build(dataset="cora", method="fedavg"))
    loose = OmegaConf.create({name: cfg[name] for name in cfg if name != "protocol"})
    loose.protocol = {"lr": f"${{by_{axis}:{{nothing:1}}}}"}
    with pytest.raises(UserError, match=rf"^no value for {axis} (cora|fedavg) in .* add it, or a default"):
        typed(loose)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("method=fedpubb", "method=fedpubb does not exist (did you mean fedpub?): choose from coboost, dense,"),
        ("method.tauu=3", "method.tauu does not exist: the keys of method are variant, secure, starts."),
        ("nothing=3", "nothing does not exist: choose from dataset, partitioner,"),
        ("method.lr=3", "method.lr does not exist (did you mean protocol.lr?): the keys of method are"),
        ("+method.tauu=3", "method.tauu does not exist: the keys of method are variant"),
        ("+nothing=3", "nothing does not exist: choose from dataset"),
        ("seed=x", "seed=x: give a whole number."),
        ("partitioner.clients=2.5", "partitioner.clients=2.5: give a whole number."),
        ("protocol.lr=[", "the override 'protocol.lr=[' cannot be read: "),
        ("dataset", "the override 'dataset' cannot be read: "),
        ("paths.records=runs/ü(1)", "is read in quotes, as in 'paths.records=\"runs/ü(1)\"'."),
        ("protocol.seeds=[0,0]", "protocol.seeds=[0, 0] must be whole numbers from 0 on, each once."),
        ("protocol.seeds=[-1]", "protocol.seeds=[-1] must be whole numbers from 0 on"),
        ("protocol=fedpub protocol.split_seed=9223372036854775808", "must be below 2^63."),
        ("protocol.split=3", "protocol.split=3: Invalid value assigned"),
        ("protocol.split=[nan,0.5,0.5]", "must be three shares"),
        ("partitioner.clients=0", "partitioner.clients=0 is out of range: give at least 1"),
        ("protocol.rounds=0", "protocol.rounds=0 is out of range: give at least 1"),
        ("protocol.lr=nan", "protocol.lr=nan is out of range: give at least 0."),
        ("protocol.split=[1,0,0]", "with train and validation above 0"),
        ("protocol.split=[0.5,0,0.5]", "with train and validation above 0"),
        ("protocol.ddof=2", "protocol.ddof=2 is unknown: choose 0 or 1."),
        ("dataset.revision=2", "dataset.revision does not exist: the keys of dataset are features, component."),
        ("dataset.features=bag", "dataset.features=bag is unknown: choose row or raw."),
        ("setting=plain setting.crop=0.5", "setting.crop does not exist: the keys of setting are focus, by_class."),
        ("setting.target=1", "setting.target does not exist: the keys of setting are focus, hops."),
        ("setting.focus=nope", "setting.focus=nope is unknown: choose seen_graph, unseen_node"),
        ("partitioner.alpha=1", "partitioner.alpha does not exist: the keys of partitioner are clients."),
        ("partitioner=dirichlet partitioner.alpha=0", "partitioner.alpha=0.0 is out of range"),
        ("model=gcn model.fanout=5", "model.fanout does not exist: the keys of model are hidden, dropout."),
        ("method=fedavg model.fanout=5", "model.fanout does not exist: the keys of model are hidden, dropout."),
        ("method=fedgcn model=sage", "model=sage cannot carry method=fedgcn: choose model=gcn."),
        ("method=fedpub method.l1=nan", "method.l1=nan is out of range: give at least 0."),
        ("method=fedpub method.tau=-1", "method.tau=-1.0 is out of range"),
        ("method=fedntd method.tau=0", "method.tau=0.0 is out of range: give a number above 0."),
        ("method=fedntd method.beta=-1", "method.beta=-1.0 is out of range"),
        ("method=opfgl method.keep=1.5", "method.keep=1.5 is out of range: give at most 1."),
        ("method=opfgl method.floor=2", "method.floor=2.0 is above method.ceiling=0.15: lower it."),
        ("method=opfgl dataset=motif_basis protocol=fedvn", "dataset=motif_basis asks about graphs"),
        ("protocol.optimiser=lbfgs", "protocol.optimiser=lbfgs is unknown: choose adam or sgd."),
        ("protocol.moments=never", "choose kept, each_round or shared"),
        ("protocol.split_seed=-1", "protocol.split_seed=-1 is out of range"),
        ("protocol.momentum=0.9", "is for protocol.optimiser=sgd: set it to 0."),
        ("protocol.optimiser=sgd protocol.momentum=1", "must lie in [0, 1)"),
        ("protocol.selection=nope", "protocol.selection=nope is unknown: choose best_validation or last."),
        ("model.dropout=1", "must lie in [0, 1)"),
        ("model.hidden=0", "model.hidden=0"),
        ("model=sage_halves", "give protocol.batch a number of nodes, or set model.fanout=0."),
        ("model=sage model.fanout=2 method=fedgnn", "protocol.batch=0 has none: set model.fanout=0."),
        ("runtime.curves=some", "choose validation or all"),
        ("runtime.threads=0", "runtime.threads=0"),
        ("runtime.threads=1000000", "runtime.threads=1000000 would exhaust this machine: give at most"),
        ("logger.mode=sometimes", "choose offline, online or disabled"),
        ("method.variant=best", "method.variant=best is unknown: choose release or paper."),
        ("experiment=none", "experiment=none does not exist: choose from "),
        ("hydra/launcher=slurm", "pip install -c constraints.txt -e '.[launchers]'"),
        ("protocol.tuning={seed:0}", "protocol.tuning.seed is not there to be changed: write + before its name"),
        ("hydra.job.env_set.FOO=1", "is not there to be changed: write + before its name"),
        ("~seed", "seed belongs to every run and cannot be removed: leave ~seed out."),
        ("~method", "method is missing: give method=..., one of coboost"),
    ],
)
def test_refusals_are_one_sentence(words: str, said: str) -> None:
    with pytest.raises(REFUSED) as caught:
        composed(*words.split())
    sentence = explain(caught.value)
    assert said in sentence
    assert "\n" not in sentence
    assert not re.search("object_type|full_key|reference_type|https", sentence)


@pytest.mark.parametrize("words", ["protocol.batch=32", "model.fanout=0", "model.fanout=0 model.test_fanout=5"])
def test_options_that_cannot_run_together_are_mended_by_overrides(words: str) -> None:
    """``build`` puts overrides on top of options, which need not run without them; so does the command of a run."""
    run = composed("model=sage_halves", *words.split())
    built = build({n: int(v) for n, v in (word.split("=") for word in words.split())}, model="sage_halves")
    assert key_of(built) == key_of(run)
    assert key_of(composed(*command_of(run).split()[3:])) == key_of(run)


@pytest.mark.parametrize(
    ("overrides", "choices"),
    [
        ({}, {"method": "fedpubb"}),
        ({}, {"method": "_fedavg"}),
        ({}, {"datset": "cora"}),
        ({}, {"experiment": "fedlog_cora3"}),
        ({}, {"clients": "x"}),
        ({}, {"clients": 0}),
        ({}, {"seed": 1.5}),
        ({"protocol.lr": "fast"}, {}),
        ({"protocol.lr": None}, {}),
        ({"protocol.lr": [1]}, {}),
        ({"protocol.rounds": 2.5}, {}),
        ({"protocol.split": 0.4}, {}),
        ({"protocol.tuning": 3}, {}),
        ({"protocol.features": "raw"}, {}),
        ({"runtime.force": "perhaps"}, {}),
        ({"method.tau": 3}, {"method": "fedavg"}),
        ({"method.variant": "best"}, {"method": "fedpub"}),
        ({"method": "fedpub"}, {}),
        ({"seed.x": 1}, {}),
        ({"nowhere.x": 1}, {}),
    ],
)
def test_build_refuses_in_one_sentence(overrides: dict[str, Any], choices: dict[str, Any]) -> None:
    with pytest.raises(UserError) as caught:
        build(overrides, **choices)
    assert "\n" not in str(caught.value)
    assert "$VALUE" not in str(caught.value)


def test_every_method_has_its_class_and_its_yaml() -> None:
    classes = registry.options("method")
    assert sorted(classes) == options("method")
    for name, cls in classes.items():
        built = build(method=name, **(GRAPHS if cls.units == ("graph",) else {})).method
        assert type(built) is cls
        assert replace(built) == built
        assert built.variant in cls.variants
        assert cls.display


def test_private_names_are_not_options() -> None:
    assert not [option for _, option in OPTIONS if option.startswith("_")]
    assert options("no_such_group") == []


def test_private_files_are_hidden(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "method").mkdir()
    for name in ("_base", "mine"):
        (tmp_path / "method" / f"{name}.yaml").touch()
    monkeypatch.setattr("fgl_repro.config.yamls.conf_dir", lambda: tmp_path)
    assert options("method") == ["mine"]


def test_configuration_needs_nothing_heavy() -> None:
    code = (
        "import sys; from fgl_repro.config import build; build(method='fedpub');"
        "sys.exit(any(name in sys.modules for name in ('torch', 'scipy', 'pandas', 'networkx')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
