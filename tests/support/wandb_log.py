"""Reader of W&B's offline run file, for tests: what was really written, not what we meant to write.

A ``.wandb`` file is a LevelDB log: a 7-byte header, then blocks of 32 KiB holding chunks of ``crc32, length, type``
(little endian, 7 bytes) and data. A record is one full chunk (type 1) or first, middle and last chunks (2, 3, 4).
"""

from __future__ import annotations

import json
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BLOCK, HEADER = 32768, 7


def records(path: Path) -> list[Any]:
    """Every protobuf ``Record`` of an offline run file, in order."""
    from wandb.proto import wandb_internal_pb2

    messages: Any = wandb_internal_pb2  # generated code that type checkers cannot see into
    data = path.read_bytes()
    assert data[:4] == b":W&B"
    out, parts, at = [], b"", HEADER
    while at + HEADER <= len(data):
        if BLOCK - at % BLOCK < HEADER:  # too little room for a chunk's head: the writer padded to the next block
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        if at + HEADER + length > len(data):  # still being written
            break
        parts += data[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if kind in (1, 4):
            record = messages.Record()
            record.ParseFromString(parts)
            out.append(record)
            parts = b""
    return out


@dataclass
class OfflineRun:
    """What a dashboard would show."""

    run: Any = None
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    artifacts: list[Any] = field(default_factory=list)
    exit_code: int | None = None


def read(folder: Path, timeout: float = 20.0) -> OfflineRun:
    """Read the finished offline run in ``folder``, W&B's own bookkeeping keys left out.

    ``finish()`` returns a few milliseconds before W&B's service has written the last bytes, hence the waiting.
    """
    (path,) = folder.glob("*.wandb")
    end = time.monotonic() + timeout
    while (out := _parse(path)).exit_code is None and time.monotonic() < end:
        time.sleep(0.01)
    return out


def _parse(path: Path) -> OfflineRun:
    out = OfflineRun()
    for record in records(path):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            out.run = record.run
            out.config |= _items(record.run.config.update)
        elif kind == "config":
            out.config |= _items(record.config.update)
        elif kind == "history":
            out.history.append(_items(record.history.item))
        elif kind == "summary":
            out.summary |= _items(record.summary.update)
        elif kind == "metric":
            out.metrics[record.metric.name or record.metric.glob_name] = record.metric
        elif kind == "artifact":
            out.artifacts.append(record.artifact)
        elif kind == "request" and record.request.WhichOneof("request_type") == "log_artifact":
            out.artifacts.append(record.request.log_artifact.artifact)
        elif kind == "exit":
            out.exit_code = record.exit.exit_code
    return out


def _items(items: Any) -> dict[str, Any]:
    named = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}
    return {name: value for name, value in named.items() if not name.startswith("_")}
