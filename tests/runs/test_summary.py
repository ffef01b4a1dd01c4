"""What a finished run prints."""

from __future__ import annotations

from fgl_repro.runs.summary import NONE_STORED, summary
from support import helpers


def test_columns_stay_together_whatever_the_probes_are_called() -> None:
    long = helpers.record(helpers.config(setting="imbalance"), probes={"target_head_degree": 0.5})
    lines = summary(long, "target_head_degree").splitlines()
    assert lines[1].split() == ["target_head_degree", "50.00", "70.00"]
    assert len({len(line) for line in lines}) == 1


def test_of_clients_that_were_fine_tuned_no_round_is_told() -> None:
    """Best and last are one model then, and the selected round was of another."""
    lines = summary(helpers.record(helpers.config(protocol="opfgl", setting="plain")), "seen_graph").splitlines()
    assert lines[0].split("  ", 1)[0] == "probe (accuracy, %)"
    assert lines[0].endswith(" fine-tuned, each client's best check")
    assert lines[1].split() == ["seen_graph", "80.00"]
    assert len({len(line) for line in lines}) == 1
    plain = {"protocol.fine_tuning": 0}
    lines = summary(helpers.record(helpers.config(protocol="opfgl", setting="plain", overrides=plain)), "").splitlines()
    assert lines[0].split()[3:] == ["best", "validation", "(round", "57)", "last", "round"]


def test_the_round_that_the_protocol_prints_is_told_where_there_are_two() -> None:
    told = "\nprotocol fedlog prints the last round"
    config = helpers.config(overrides={"protocol.selection": "last"})
    record = helpers.record(config)
    assert summary(record, "seen_graph", config.protocol).endswith(told)
    config.protocol.name = "mine"  # of equal science, so that the record is found
    assert summary(record, "seen_graph", config.protocol).endswith("\nprotocol mine prints the last round")
    tuned = helpers.config(protocol="opfgl", setting="plain")
    assert "prints" not in summary(helpers.record(tuned), "", tuned.protocol)


def test_secure_aggregation_is_said() -> None:
    word = "secure aggregation"
    assert word not in summary(helpers.record(helpers.config()), "seen_graph")
    assert word in summary(helpers.record(helpers.config(overrides={"method.secure": True})), "seen_graph")


def test_parts_that_are_not_the_published_ones_are_said() -> None:
    made = helpers.record(helpers.config())
    assert "parts:" not in summary(made, "seen_graph")
    source = f"pymetis 2025.2.2 ({NONE_STORED})"
    assert summary(made.changed(partition=made.partition | {"source": source}), "").endswith(f"\nparts: {source}")
