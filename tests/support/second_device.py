"""A device without hardware: its tensors lie on the CPU, compute there, and refuse to meet the CPU's own.

Torch lets a process register one backend written in Python (PrivateUse1). Its tensors here are wrappers, each around a
CPU tensor, and every operation on them runs on what they wrap, so that results are the CPU's to the bit. What a GPU
would refuse is refused: an operation on tensors of both devices, a stream of random numbers of the other device. What
would make the host wait for a GPU is counted.

The backend stays registered for the life of the process, and must be there before the first backward pass: tests use it
in a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

if TYPE_CHECKING:
    from fgl_repro.config import Config
    from fgl_repro.federation.world import World

NAME = "second"
SETUP = "_setup_privateuseone_for_python_backend"
"""Torch's helper, private and young: found in 2.11 and later."""

COMPOSITE = "CompositeImplicitAutograd"

aten = torch.ops.aten
WAITING = {
    aten._local_scalar_dense.default: "item",
    aten.equal.default: "equal",
    aten.is_nonzero.default: "bool",
    aten.nonzero.default: "nonzero",
    aten.masked_select.default: "masked_select",
    aten.bincount.default: "bincount",
    aten._unique2.default: "unique",
    aten.unique_dim.default: "unique",
    aten.unique_consecutive.default: "unique",
}
"""Operations whose result, or its size, the host must wait for."""
INDEXING = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default)
FREE = ("detach", "alias", "lift_fresh", "empty", "empty_like", "empty_strided", "new_empty", "_reshape_alias")
"""Operations that start nothing on a device, beside views."""


class DeviceMixError(RuntimeError):
    """Tensors, or random numbers, of two devices in one operation."""


class OnSecond(Tensor):
    """A tensor of the second device, around the CPU tensor ``inner``."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> OnSecond:
        strided = inner.layout == torch.strided
        out: OnSecond = Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride() if strided else None,
            storage_offset=inner.storage_offset() if strided else None,
            dtype=inner.dtype,
            device=torch.device(NAME, 0),
            dispatch_layout=not strided,  # torch makes no wrapper of a sparse layout, but asks one for its layout
        )
        out.inner = inner
        return out

    def __repr__(self) -> str:
        return f"OnSecond({self.inner!r})"

    def tolist(self) -> Any:  # torch's own refuses subclasses
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise DeviceMixError(f"{func} on the second device, outside its mode")


class SecondGenerator(torch.Generator):
    """Random numbers of a device by name; those of the second device are the CPU's."""

    of_second: dict[int, SecondGenerator] = {}  # noqa: RUF012  (kept alive: an address must not be taken again)

    def __new__(cls, device: Any = "cpu") -> SecondGenerator:
        second = torch.device(device).type == NAME
        out: SecondGenerator = super().__new__(cls, device="cpu" if second else device)
        if second:
            cls.of_second[out._cdata] = out
        return out

    @property
    def device(self) -> torch.device:
        return torch.device(NAME, 0) if self._cdata in self.of_second else super().device


@dataclass
class Counts:
    """What happened on the device so far: operations started, and waits of the host by their reason."""

    kernels: int
    waits: dict[str, int]

    def __sub__(self, before: Counts) -> Counts:
        waits = {name: number - before.waits.get(name, 0) for name, number in self.waits.items()}
        return Counts(self.kernels - before.kernels, waits)

    @property
    def total(self) -> int:
        return sum(self.waits.values())


class SecondDevice(TorchDispatchMode):
    """Runs every operation on tensors of the second device, and makes them from names of devices."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counts(0, {})

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.prim.layout.default:
            return args[0].inner.layout
        flat = tree_leaves((args, kwargs))
        ours = [value for value in flat if isinstance(value, OnSecond)]
        named = kwargs.get("device")
        target = torch.device(named).type if named is not None else (NAME if ours else "cpu")
        if not ours and target != NAME:
            self._check_generator(func, kwargs, "cpu")
            return func(*args, **kwargs)
        self._check(func, args, flat)
        self._check_generator(func, kwargs, target)
        self._count(func, args, kwargs, ours, target)
        plain_args, plain = tree_map(_inner, args), tree_map(_inner, kwargs)
        if named is not None:
            plain["device"] = torch.device("cpu")
        out = func(*plain_args, **plain)
        if target != NAME or (func is aten.copy_.default and not isinstance(args[0], OnSecond)):
            return args[0] if func is aten.copy_.default else _apart(out, ours)
        known = {id(value.inner): value for value in ours}
        return tree_map(lambda value: known[id(value)] if id(value) in known else _wrapped(value), out)

    @staticmethod
    def _check(func: Any, args: Any, flat: list[Any]) -> None:
        if func in (aten.copy_.default, aten._to_copy.default):
            return
        if func in INDEXING:  # a GPU takes positions from the CPU, too
            flat = [args[0], *args[2:]]
        strangers = [v for v in flat if isinstance(v, Tensor) and not isinstance(v, OnSecond)]
        if any(v.dim() for v in strangers):  # a number on the CPU may meet any device, as torch has it
            raise DeviceMixError(f"{func} on tensors of the second device and of the CPU")

    @staticmethod
    def _check_generator(func: Any, kwargs: Any, device: str) -> None:
        generator = kwargs.get("generator")
        if generator is not None and (generator._cdata in SecondGenerator.of_second) != (device == NAME):
            raise DeviceMixError(f"{func} on device {device} with random numbers of the other device")

    def _count(self, func: Any, args: Any, kwargs: Any, ours: list[OnSecond], target: str) -> None:
        if not func.is_view and func.overloadpacket.__name__ not in FREE:
            self.counts.kernels += 1
        reason = WAITING.get(func)
        if func is aten._to_copy.default and ours and target == "cpu":
            reason = "to the host"
        if func is aten.copy_.default and ours and not isinstance(args[0], OnSecond):
            reason = "to the host"
        if func is aten.repeat_interleave.Tensor and kwargs.get("output_size") is None:
            reason = "repeat_interleave"
        if func in INDEXING:
            masks = [i for i in args[1] if i is not None and i.dtype in (torch.bool, torch.uint8)]
            if masks and not (len(args) > 2 and args[2].numel() == 1):
                reason = "index by a mask"
        if reason:
            self.counts.waits[reason] = self.counts.waits.get(reason, 0) + 1


def _inner(value: Any) -> Any:
    return value.inner if isinstance(value, OnSecond) else value


def _wrapped(value: Any) -> Any:
    return OnSecond(value) if isinstance(value, Tensor) else value


def _apart(out: Any, ours: list[OnSecond]) -> Any:
    """A result on the host shares no memory with the device."""
    inner = {id(value.inner) for value in ours}
    return tree_map(lambda v: v.clone() if isinstance(v, Tensor) and id(v) in inner else v, out)


def _never(*args: Any, **kwargs: Any) -> Any:
    raise DeviceMixError("an operation on the second device, outside its mode")


class _Module:
    """What torch asks of a device's module."""

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def get_amp_supported_dtype() -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        return None


def available() -> bool:
    """Whether this torch can register a backend written in Python."""
    return hasattr(backend_registration, SETUP)


_registered: list[torch.library.Library] = []


def register() -> None:
    """Make the device known to torch, before this process's first backward pass."""
    if not _registered:
        getattr(backend_registration, SETUP)(NAME, backend_module=_Module())
        library = torch.library.Library("aten", "IMPL")
        for name in torch._C._dispatch_get_all_op_names():
            keys = [torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in ("CPU", COMPOSITE)]
            if name.startswith("aten::") and all(keys):  # or torch would split it up, with another rounding
                library.impl(name.removeprefix("aten::"), _never, "PrivateUse1")
        _registered.append(library)


@contextmanager
def second_device() -> Iterator[Counts]:
    """The device ``second`` for as long as the context lasts; gives what is counted there."""
    register()
    plain = torch.Generator
    torch.Generator = SecondGenerator  # type: ignore[misc]
    torch._C._set_only_lift_cpu_tensors(True)  # or torch.tensor(..., device=...) would pass the mode by
    mode = SecondDevice()
    try:
        with mode:
            yield mode.counts
    finally:
        torch._C._set_only_lift_cpu_tensors(False)
        torch.Generator = plain  # type: ignore[misc]


def on_host(value: Any) -> Any:
    """The same with CPU tensors in place of those of the second device, outside its mode."""
    return tree_map(_inner, value)


@dataclass
class Comparison:
    """One run on the CPU and one on the second device.

    Attributes:
        differing: What is not equal bit for bit.
        setup: What happened before the rounds, the first of them included.
        rounds: What happened in each later round.
    """

    differing: list[str]
    setup: Counts
    rounds: list[Counts]


def compare(config: Config, world: World, sparse_below: float | None = None) -> Comparison:
    """Run ``config`` in ``world`` on both devices.

    Args:
        sparse_below: Density of features under which their products are sparse; None: the project's own bound.
    """
    from fgl_repro.nn import view
    from fgl_repro.runs.execute import federate

    register()
    if sparse_below is not None:
        view.SPARSE_BELOW = sparse_below
    cpu, metrics, _ = federate(config, world, torch.device("cpu"))
    marks = [Counts(0, {})]
    with second_device() as counts:

        def mark(phase: str, *_: Any) -> None:
            if phase == "rounds":
                marks.append(Counts(counts.kernels, dict(counts.waits)))

        other, other_metrics, _ = federate(config, world, torch.device(NAME, 0), mark)
    pairs = {
        "metrics": (metrics, other_metrics),
        "curves": (cpu.curves, other.curves),
        "facts": (cpu.facts, other.facts),
        "bytes": (cpu.ledger.as_dict(), other.ledger.as_dict()),
        "best round": (cpu.best_round, other.best_round),
        "best": (_bits(cpu.best), _bits(other.best)),
        "last": (_bits(cpu.last), _bits(other.last)),
    }
    differing = [name for name, (here, there) in pairs.items() if repr(here) != repr(there)]
    setup, *later = (after - before for before, after in pairwise(marks))
    return Comparison(differing, setup, later)


def refusals() -> dict[str, str]:
    """What the second device says to what a GPU would refuse: type of the error by the deed, empty if there is none."""
    register()
    found = {}
    with second_device():
        here, there = torch.ones(2), torch.ones(2, device=NAME)
        number, stream = torch.ones(()), torch.Generator()
        deeds: dict[str, Callable[[], Any]] = {
            "a sum of both": lambda: here + there,
            "a sum with a number": lambda: there + number,
            "a product into the other": lambda: torch.mul(here, here, out=there),
            "a stream of the other": lambda: torch.rand(2, device=NAME, generator=stream),
            "its numbers as an array": lambda: there.numpy(),
            "a copy on the host": lambda: there.cpu().numpy(),
        }
        for name, deed in deeds.items():
            try:
                deed()
                found[name] = ""
            except Exception as error:
                found[name] = type(error).__name__
    return found


def _bits(params: dict[str, Tensor]) -> dict[str, str]:
    return {name: sha256(on_host(t).detach().numpy().tobytes()).hexdigest() for name, t in params.items()}
