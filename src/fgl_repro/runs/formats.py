"""Formats of records: how those that older versions wrote are brought up to date when they are read.

Format 1 is format 2 without a checksum. Formats 1 and 2 lack one download of each client where the server's model is
judged: what the server made of the last round's uploads came down to be judged, and was not counted. From format 3 on
it is. Records are read as if they had been written so, and are of format 3 from then on.
"""

from __future__ import annotations

from typing import Any

FORMAT = 3
"""The format that is written; all before it are read, too."""

READ = (1, 2, FORMAT)


def brought_up(record: dict[str, Any]) -> dict[str, Any]:
    """Complete a record, of which nothing is validated yet, with the download that its format left out.

    Its size is that of one round's upload if the run's downloads are as large as its uploads, field by field: all
    messages of a run are alike then, the server's first one among them. Where they are not, nothing tells the size, and
    the record stays what it is, as do those that lack nothing: clients that are fine-tuned had it counted.
    """
    try:
        protocol, sent = record["config"]["protocol"], record["bytes"]["rounds"]
        rounds = record["selection"]["last_round"] + 1
        down, up = sent["down"], sent["up"]
        lacking = protocol["judged"] == "server" and not protocol.get("fine_tuning")
        if record["format"] == FORMAT or not lacking or any(size != up[name] for name, size in down.items()):
            return record
        counted = {name: size + size // rounds for name, size in down.items()}
    except (KeyError, TypeError, AttributeError, ZeroDivisionError):  # of one that sends nothing, or is damaged
        return record
    return record | {"format": FORMAT, "bytes": record["bytes"] | {"rounds": sent | {"down": counted}}}


def with_present_names(record: dict[str, Any]) -> dict[str, Any]:
    """Name what a record holds as a run of today does, to compare the two; what is stored stays as it is.

    FedSage+'s first phase, ``generator``, is ``setup`` in older records.
    """
    sent = record["bytes"]
    if record["config"]["method"]["name"] != "fedsageplus" or "setup" not in sent:
        return record
    return record | {"bytes": {"generator" if phase == "setup" else phase: own for phase, own in sent.items()}}
