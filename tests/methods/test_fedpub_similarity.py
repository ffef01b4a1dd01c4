"""How alike clients are to FED-PUB's server."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fgl_repro.fl.metrics import jensen_shannon
from fgl_repro.methods.fedpub.similarity import label_correlation, softmax_of_cosine


def test_what_a_client_receives_is_weighed_by_a_softmax_of_cosines() -> None:
    embedding = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    similarity = F.cosine_similarity(embedding[:, None], embedding[None], dim=-1)
    torch.testing.assert_close(softmax_of_cosine(embedding, 3.0), torch.softmax(3 * similarity, 1))


def test_likeness_and_labels_correlate_in_one_way_or_the_other() -> None:
    counts = np.array([[2, 0], [0, 5], [1, 1]])
    divergence = jensen_shannon(counts)
    assert label_correlation(1 - divergence, counts) == pytest.approx(1)
    assert label_correlation(divergence, counts) == pytest.approx(-1)
    assert label_correlation(np.ones((3, 3)), counts) is None
