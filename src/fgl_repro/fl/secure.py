"""Secure aggregation: the server learns the sum of the clients' vectors and nothing of any one of them.

After Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning" (CCS 2017), with one mask
a pair of clients:

    once         every client has two X25519 keys. What two clients agree on by their first ones is the seed of their
                 mask; what they agree on by the second ones locks what they send each other through the server. The
                 first private key is cut into shares, one for each client, of which a majority puts it together.
    each vector  y_k = x_k + sum_(j > k) m_kj - sum_(j < k) m_kj  mod 2^64: x_k in fixed point, m_kj the stream
                 (SHAKE-256) of the pair's seed and of the vector's number. In the sum of all clients masks cancel.
    dropouts     if some send no vector, a majority of the others hands over its shares of their keys, and the server
                 takes away the masks that found no partner. A client whose key was put together is out for good: the
                 others mask their next vectors without it, and what it may still send is not asked for. Its key would
                 open its earlier vectors, too: only the first vector may lose clients.

Sums are exact in fixed point, so that they do not depend on the keys, which come from the operating system.
Parties keep to the protocol but may be curious. A server that lies about who dropped out learns that client's vector;
the second mask of Bonawitz et al., which is against that, is left out.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fgl_repro.core.errors import DivergenceError, UserError
from fgl_repro.core.extras import missing
from fgl_repro.fl.messages import Message
from fgl_repro.fl.phase import Phase, Turn

FRACTION = 32
"""Binary digits after the point."""
PRIME = 2**521 - 1
"""Shares are numbers below it."""
KEY, SHARE, TAG = 32, 66, 16
"""Bytes of a key, of a share, and by how many a locked message is longer."""
FEWEST_CLIENTS = 3
"""Clients below which the sum tells one what another sent."""


@dataclass
class Exchange(Message):
    """What goes through the server before any vector: bytes of each client, int64 ``[K]``.

    Attributes:
        keys: Public keys.
        shares: Locked shares of private keys.
    """

    keys: np.ndarray
    shares: np.ndarray


@dataclass
class MaskedVectors(Message):
    """Masked vectors.

    Attributes:
        masked: The vectors, int64 ``[K, L]``; zeros of a client that has sent none.
        here: Clients that have sent theirs, bool ``[K]``.
        shares: Bytes that each of the others then hands over for those that dropped out with this vector; None if
            nobody did.
    """

    masked: Tensor
    here: np.ndarray
    shares: np.ndarray | None = None

    def bytes_by_field(self) -> dict[str, np.ndarray]:
        out = {"masked": self.here * (self.masked.shape[1] * self.masked.element_size())}
        return out if self.shares is None else out | {"shares": self.shares}


class Party:
    """One of K clients: its keys, and what it makes of the messages of others.

    Attributes:
        number: k, from 0.
        public: Its two public keys, in a row.
    """

    def __init__(self, number: int, clients: int) -> None:
        self.number, self.clients = number, clients
        self._secret = secrets.token_bytes(KEY)
        self._masks, self._locks = private(self._secret), private(secrets.token_bytes(KEY))
        self.public = public(self._masks) + public(self._locks)
        self._seeds: dict[int, bytes] = {}
        self._doors: dict[int, bytes] = {}
        self._held: dict[int, int] = {}

    def meet(self, publics: Mapping[int, bytes]) -> None:
        """Agree with every other client on two secrets, from their public keys."""
        for other, keys in publics.items():
            self._seeds[other] = agreed(self._masks, keys[:KEY], b"mask")
            self._doors[other] = agreed(self._locks, keys[KEY:], b"lock")

    def shares(self) -> dict[int, bytes]:
        """Lock a share of the key behind its masks for every other client; its own stays here."""
        own = split(int.from_bytes(self._secret, "big"), self.clients)
        self._held[self.number] = own[self.number]
        return {
            other: self._lock(self.number, other).encrypt(bytes(12), own[other].to_bytes(SHARE, "big"), None)
            for other in self._doors
        }

    def keep(self, locked: Mapping[int, bytes]) -> None:
        """Unlock the shares that the others have sent."""
        for other, message in locked.items():
            opened = self._lock(other, other).decrypt(bytes(12), message, None)
            self._held[other] = int.from_bytes(opened, "big")

    def _lock(self, sender: int, other: int) -> Any:
        """Return what locks the one message from ``sender`` to its partner; each direction has a key of its own."""
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        return ChaCha20Poly1305(derived(self._doors[other], b"from %d" % sender))

    def masked(self, values: np.ndarray, number: int, out: frozenset[int] = frozenset()) -> np.ndarray:
        """Mask vector ``number`` as it is sent, uint64 ``[L]``, without the masks of clients that are ``out``."""
        seeds = {other: seed for other, seed in self._seeds.items() if other not in out}
        return added(fixed(values, self.clients), self.number, seeds, number)

    def share_of(self, other: int) -> tuple[int, int]:
        """Tell where a share of a dropped client's key lies, and the share."""
        return self.number + 1, self._held[other]


class Session:
    """K clients that have exchanged keys, and the server, which has their public ones.

    Attributes:
        out: Clients whose key was put together, after they dropped out.

    Raises:
        UserError: The package ``cryptography`` is missing, or there are too few clients.
    """

    def __init__(self, clients: int) -> None:
        if find_spec("cryptography") is None:
            raise missing("cryptography", "secure", "method.secure=true")
        if clients < FEWEST_CLIENTS:
            raise UserError(
                f"method.secure=true needs {FEWEST_CLIENTS} clients, not {clients}: of two, each knows from the sum "
                "what the other has sent; raise partitioner.clients."
            )
        self.parties = [Party(k, clients) for k in range(clients)]
        self.publics = {party.number: party.public for party in self.parties}
        for party in self.parties:
            party.meet({k: keys for k, keys in self.publics.items() if k != party.number})
        sent = {party.number: party.shares() for party in self.parties}
        for party in self.parties:
            party.keep({k: locked[party.number] for k, locked in sent.items() if k != party.number})
        self.number, self.out = 0, frozenset[int]()

    def phase(self) -> Phase:
        """Return the exchange, for the ledger: up, everybody's keys and shares; down, those of all others."""
        count = len(self.parties)
        own, others = np.full(count, 2 * KEY), np.full(count, 2 * KEY * (count - 1))
        shares = np.full(count, (SHARE + TAG) * (count - 1))
        return Phase.once("key_exchange", Turn(up=Exchange(own, shares), down=Exchange(others, shares)))

    def upload(self, vectors: Tensor, dropped: frozenset[int] = frozenset()) -> MaskedVectors:
        """Send the next vectors ``[K, L]``, each masked by its client; the ``dropped`` and who is out send none.

        Raises:
            UserError: Fewer are left than it takes to put a key together, or than hide each other in a sum; or a client
                drops out that has sent a vector before.
            DivergenceError: A value is too large, or no finite number.
        """
        rows = vectors.detach().cpu().double().numpy()
        count, new = len(self.parties), dropped - self.out
        if new and self.number:
            raise UserError(
                f"client {min(new)} has sent a vector before, which the key that is put together when it drops out "
                "would open: begin another session with each vector that may lose clients."
            )
        here = np.isin(np.arange(count), list(self.out | new), invert=True)
        if new and here.sum() < majority(count):
            raise UserError(f"{count - here.sum()} of {count} clients dropped out: a majority must stay.")
        if here.sum() < FEWEST_CLIENTS:
            raise UserError(
                f"{count - here.sum()} of {count} clients dropped out: {FEWEST_CLIENTS} must stay, since of two each "
                "knows from the sum what the other has sent."
            )
        self.number += 1
        sent = np.zeros(rows.shape, dtype=np.uint64)
        for party in (self.parties[k] for k in here.nonzero()[0]):
            sent[party.number] = party.masked(rows[party.number], self.number, self.out)
        asked = np.isin(np.arange(count), here.nonzero()[0][: majority(count)])
        shares = asked * (SHARE * len(new)) if new else None
        return MaskedVectors(torch.from_numpy(sent.view(np.int64)), here, shares)

    def total(self, sent: MaskedVectors) -> np.ndarray:
        """Sum the last vectors of all clients that have sent one, float64 ``[L]``."""
        here = sent.here.nonzero()[0].tolist()
        rows = sent.masked.numpy().view(np.uint64)[here]
        sum_: np.ndarray = reduce(np.add, rows)
        dropped = frozenset(range(len(self.parties))) - self.out - frozenset(here)
        for gone in dropped:
            shares = dict(self.parties[k].share_of(gone) for k in here[: majority(len(self.parties))])
            key = private(joined(shares).to_bytes(KEY, "big"))
            seeds = {k: agreed(key, self.publics[k][:KEY], b"mask") for k in here}
            sum_ = added(sum_, gone, seeds, self.number)
        self.out |= dropped
        return sum_.view(np.int64) / 2.0**FRACTION


def added(values: np.ndarray, client: int, seeds: Mapping[int, bytes], number: int) -> np.ndarray:
    """Add to ``values`` the masks that ``client`` has with the owners of the ``seeds``, uint64 ``[L]``."""
    out = values.copy()
    for other, seed in seeds.items():
        mask = stream(seed, number, len(values))
        out = out + mask if client < other else out - mask
    return out


def stream(seed: bytes, number: int, length: int) -> np.ndarray:
    """Derive mask ``number`` of a pair, uint64 ``[L]``."""
    drawn = hashlib.shake_256(seed + number.to_bytes(8, "big")).digest(8 * length)
    return np.frombuffer(drawn, dtype="<u8")


def fixed(values: np.ndarray, clients: int) -> np.ndarray:
    """Turn float64 ``values`` ``[L]`` into fixed point mod 2^64, uint64 ``[L]``.

    Raises:
        DivergenceError: The sum of so many clients could be too large, as of weights that diverge, or a value is no
            finite number.
    """
    most = 2.0 ** (63 - FRACTION) / clients
    if not (np.abs(values) < most).all():
        raise DivergenceError(
            f"method.secure=true sums values below {most:.3g}, and there is one that is larger or no number: lower "
            "protocol.lr, or scale the features."
        )
    return np.rint(values * 2.0**FRACTION).astype(np.int64).view(np.uint64)


def majority(clients: int) -> int:
    """Tell how many shares put a key together."""
    return clients // 2 + 1


def split(secret: int, clients: int) -> list[int]:
    """Split a secret into shares (Shamir, 1979).

    They are a random polynomial's values at 1 to K, whose value at 0 is the secret.
    """
    polynomial = [secret, *(secrets.randbelow(PRIME) for _ in range(majority(clients) - 1))]
    return [reduce(lambda value, a: (value * x + a) % PRIME, reversed(polynomial)) for x in range(1, clients + 1)]


def joined(shares: Mapping[int, int]) -> int:
    """Put the secret together from enough shares by their places (Lagrange's polynomial at 0)."""
    secret = 0
    for x, share in shares.items():
        over = under = 1
        for other in shares:
            if other != x:
                over, under = over * other % PRIME, under * (other - x) % PRIME
        secret += share * over * pow(under, -1, PRIME)
    return secret % PRIME


def private(secret: bytes) -> Any:
    """Return the X25519 key that these bytes are."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(secret)


def public(key: Any) -> bytes:
    """Return the public half of a private key."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    out: bytes = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return out


def agreed(key: Any, other: bytes, purpose: bytes) -> bytes:
    """Derive what a private key and the public one of another client have in common, for one purpose."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    return derived(key.exchange(X25519PublicKey.from_public_bytes(other)), purpose)


def derived(secret: bytes, purpose: bytes) -> bytes:
    """Derive a key from a secret."""
    return hashlib.shake_256(purpose + b"/" + secret).digest(KEY)
