"""What the columns of published CSVs mean: a page beside them, on which a test finds every one."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path

from fgl_repro.tables.printing import grid_text

MEANINGS = {
    # where a number stands
    "paper": "the paper, as its folder is called",
    "table": "number of the table in the paper",
    "figure": "number of the figure in the paper",
    "panel": "part of the table, or data set group of a wide one",
    "protocol": "protocol of the runs (`conf/protocol`); a packed run may serve others, too",
    "dataset": "data set (`conf/dataset`)",
    "clients": "number of clients; blank: the whole graph",
    "partitioner": "what divided the graph (`conf/partitioner`)",
    "scenario": "overlapping or disjoint parts",
    "world": "setting of the run (`conf/setting`), without its focus",
    "method": "method (`conf/method`)",
    "name": "row of the table, as the paper calls it",
    "variant": "version of the method; the card at the head of its file says what it changes",
    "label": "method as figures call it",
    "probe": "which nodes or graphs were tested",
    "selection": "`best`: the round that validation (or, as the protocol asks, test rows) chose; `last`: the last",
    "chosen_on": "the rows by which `best` was chosen: `validation`, or `test`, where tables have a †",
    "rebuild": "1 where the data set is not the published one but made again, otherwise",
    "round": "round, from 1 in tables and from 0 in curves",
    "metric": "what the numbers are: accuracy, f1, mae, ...",
    "quantity": "what the numbers of the line are",
    "class": "class, from 0 (from 1 where the paper counts so)",
    "client": "client, from 0, as the paper names it where it prints names",
    "other": "the other client of a pair",
    "split": "train, valid, test, or the probe",
    "of": "of which nodes the shares of classes are",
    "target": "accuracy that was to be reached, a fraction",
    "column": "column of the printed table",
    # numbers
    "mean": "mean over seeds; shares as fractions, errors in their unit",
    "std": "its standard deviation over seeds, with the `ddof` of the protocol",
    "ddof": "0: divided by n, 1: by n - 1",
    "n_seeds": "seeds that have run",
    "wanted": "seeds that the table asks for",
    "status": "`complete`; `partial`: seeds are missing; `not run`; `untuned`: candidates are missing; of runs that "
    "ended without a result `oom` (out of memory), `diverged` (a loss that is no number) or `failed`; `empty`: no "
    "rows to test; `no data`: no raw files",
    "chosen": "hyper-parameters that validation has chosen, where the protocol tunes",
    "runs": "first digits of the keys of the runs behind the number",
    "printed": "the printed number; with `selection` instead: 1 at the round that the protocol prints",
    "printed_std": "its printed std",
    "value": "our number, in the printed unit",
    "equal": "1 where ours is the printed one, or which of ours is",
    "whole_graph": "number of the graph as its files hold it",
    "largest_component": "number of the largest connected component",
    "count": "nodes",
    "paper_count": "printed nodes",
    "share": "share of a class, a fraction",
    "accuracy": "accuracy, a fraction",
    "nodes": "training nodes of the class",
    "paper_nodes": "printed training nodes",
    "gamma": "FedLoG: scaling factor of the class; in curves its mean",
    "paper_gamma": "printed scaling factor",
    "points": "difference in points",
    "gap": "ours minus the printed number: points, hundredths of what has one as its whole, percent of printed rounds",
    "half": "half the width of the 95% prediction interval, in the unit of `gap`",
    "p": "p-value of the gap",
    "verdict": "`reproduced`, `within the spread`, `differs` or `no evidence`",
    "silent": "why there is no evidence",
    "lowest": "lowest value over splits",
    "highest": "highest value over splits",
    "splits": "splits that were drawn",
    "agrees": "whether the printed number is within two points or two std of their mean",
    "up_mb": "megabytes sent by all clients",
    "down_mb": "megabytes sent to all clients",
    "both_mb": "both",
    "both_std": "its std over seeds",
    "setup_mb": "megabytes before the rounds",
    "mb": "megabytes until the target was reached",
    "mb_std": "its std over seeds",
    "paper_mb": "printed megabytes",
    "rounds": "rounds until the target was reached",
    "rounds_std": "its std over seeds",
    "paper_rounds": "printed rounds",
    "n_reached": "seeds that reached the target",
    "without_curves": "runs recorded without the curves that this is read from",
    "ratio": "ours divided by the printed number, or `mended` by `original`",
    "paper_ratio": "the printed ratio",
    "mended": "distance of neighbourhoods to the global graph's after mending",
    "mended_std": "its std over nodes",
    "paper_mended": "printed distance after mending",
    "original": "the distance before",
    "original_std": "its std over nodes",
    "paper_original": "printed distance before",
    "virtual_node": "virtual node, from 0; its number means nothing in another run",
    "other_virtual_node": "the other virtual node of a pair",
    "cosine": "cosine of the two after the last round, mean over clients",
    "claim": "growth that the paper claims",
    "rank": "mean rank over columns, 1 the best",
    "paper_rank": "the same of the printed numbers",
    "columns": "columns (data set and client count) behind a rank",
    "p_as_proposed": "p-value of ranking like the paper's own method (Nemenyi)",
    # comparisons
    "paper_mean": "the printed mean; shares as fractions",
    "paper_std": "its printed std",
    "suspect": "1 where it is taken for a misprint",
    "note": "why, and what else is to be known of it",
    "counted": "1 in the one line in which a printed number counts",
    "fitted": "1 where settings were chosen by looking at printed numbers",
    "n": "nodes of the graph",
    "K": "clients",
    "d": "features of a node",
    **{f"exponent_{letter}": f"power of {letter} with which it grows" for letter in "nKd"},
    **{f"exponent_{letter}_error": "standard error of that" for letter in "nKd"},
    "draws": "what runs draw anew: `seeds`, or `splits and seeds`",
    "printed_selection": "the round that the protocol prints",
    # packed runs
    "key": "SHA-256 of all that can change a number of the run",
    "seed": "seed of the run",
    "lr": "learning rate",
    "weight_decay": "weight decay",
    "best_round": "round that was chosen, from 0",
    "record": "the whole record as JSON",
    # curves
    "loss": "training loss, mean over clients",
    "validation": "what selects the round: all clients on validation rows, or on test rows where tables have a †",
    "contrast": "FedVN: L_E",
    "scores": "FedVN: mean weight of a link to a virtual node",
    "decoupling": "FedVN: L_V",
    "virtual": "FedVN: length of the virtual nodes",
    "mixing": "FedALA: mean weight of the global model in a client's start, 1 where it is taken whole",
    "synthetic_above": "FedLoG: share of classes recognised at the last step",
    "synthetic_norm": "FedLoG: Frobenius norm of the shared synthetic features",
}
"""By name. A column that does not mean the same in every file says what it means where."""

PROBES = r"(?:seen|global)_graph|(?:unseen_node|missing_class)(?:_reached)?|new_client|validation|links|\w+_degree"
FAMILIES = (
    (r"(best|last)_mean", "our mean at the chosen (`best`) or `last` round; shares as fractions"),
    (r"(best|last)_std", "its std over seeds"),
    (r"(best|last)_points", "our mean minus the printed one, in points; of errors, percent of the printed one"),
    (r"(best|last)_stds", "the same in pooled stds"),
    (r"(best|last)_old_rule", "by the old rule: `agrees`, `differs`, or why neither"),
    (r"(best|last)_half", "half the width of the 95% prediction interval, in points"),
    (r"(best|last)_p", "p-value of the gap"),
    (r"(best|last)_verdict", "`reproduced`, `within the spread`, `differs` or `no evidence`"),
    (r"(best|last)_silent", "why there is no evidence"),
    (
        r"validation_(best|last)",
        "accuracy (or error) of what selects the round: validation rows, or test rows (†)",
    ),
    (rf"({PROBES})_(best|last)", "accuracy (or error, or area under the ROC curve) of the probe at that round"),
    (r"validation/\d+", "validation accuracy of one client"),
    (r"loss/\w+", "mean test loss of the probe's graphs"),
    (rf"({PROBES})", "accuracy (or error) of the probe after each round"),
    (r"(method|setting|protocol|partitioner|model)\.\w+", "value of that setting"),
    (r".+ \d+", "data set and number of clients: mean ± std in percent"),
    (r"[A-Z][a-z]+ [a-z]+", "panel: mean ± std in percent"),
)
"""Further columns by pattern."""

FILES = (
    ("Packed runs", "*/runs.csv"),
    ("Curves of packed runs", "*/curves.csv"),
    ("Runs that diverged", "*/diverged.csv"),
    ("Tables", "*/*/table_*.csv"),
    ("Figures", "*/*/figure_*.csv"),
    ("Comparisons with print", "*/*/compare_*.csv"),
    ("Tables as printed", "*/*/table_*_wide.csv"),
    ("Draws of splits", "*/*/splits.csv"),
)


def meaning(column: str) -> str:
    """Say what a column means; empty where nobody has said it."""
    if column in MEANINGS:
        return MEANINGS[column]
    return next((words for pattern, words in FAMILIES if re.fullmatch(pattern, column)), "")


def of_kind(results: Path, pattern: str) -> list[Path]:
    """Find the files that one of :data:`FILES` means; a table as printed is none of the others."""
    wide = "_wide.csv"
    return [path for path in sorted(results.glob(pattern)) if path.name.endswith(wide) == pattern.endswith(wide)]


def heads(files: Iterable[Path]) -> list[str]:
    """List the columns of some CSVs, each once, in the order in which they come."""
    found: dict[str, None] = {}
    for path in files:
        with open(path, encoding="utf-8", newline="") as text:
            found |= dict.fromkeys(next(csv.reader(text), []))
    return list(found)


def page(results: Path) -> str:
    """Write a grid for each kind of file."""
    blocks = ["# Columns of the CSV files", "Blank: nothing ran, or nothing is printed."]
    for title, pattern in FILES:
        if names := heads(of_kind(results, pattern)):
            blocks += [f"## {title}", f"`{pattern}`", grid_text(["column", "meaning"], _lines(names), numbers_from=2)]
    return "\n\n".join(blocks) + "\n"


def _lines(names: list[str]) -> list[list[object]]:
    """Write a line a column, those of a family together under the first of them."""
    by_meaning: dict[str, list[str]] = {}
    for name in names:
        by_meaning.setdefault(meaning(name) if name not in MEANINGS else f"{name}\0", []).append(name)
    lines: list[list[object]] = []
    for words, own in by_meaning.items():
        shown = own if len(own) < 4 else [own[0], own[1], "...", own[-1]]
        lines.append([", ".join(f"`{name}`" if name != "..." else name for name in shown), meaning(own[0]) or words])
    return lines
