# SPDX-License-Identifier: Apache-2.0
"""com.microsoft.MultiHeadAttention with padding masks of every form that it knows, against numpy."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

SEED = int(np.random.SeedSequence().entropy % 10**6)
RNG = np.random.default_rng(SEED)
HEADS, WIDTH = 2, 6


def attention(q, k, v, seen):
    """seen: bool [batch, queries, keys]."""
    b, n, _ = q.shape
    split = lambda x: x.reshape(b, -1, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3).astype(np.float64)
    scores = split(q) @ split(k).transpose(0, 1, 3, 2) / np.sqrt(WIDTH // HEADS)
    scores = np.where(seen[:, None], scores, -1e30)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return (weights @ split(v)).transpose(0, 2, 1, 3).reshape(b, n, WIDTH).astype(np.float32)


def test_masks_of_every_form(folder):
    for rank, form in ((1, "lengths"), (1, "lengths and offsets"), (2, "keys"), (3, "queries and keys")):
        model = h.model([h.node("MultiHeadAttention", "q k v - mask", "y", domain="com.microsoft", num_heads=HEADS)],
                        {"q": (h.FLOAT, ["b", "n", WIDTH]), "k": (h.FLOAT, ["b", "m", WIDTH]), "v": (h.FLOAT, ["b", "m", WIDTH]), "mask": (h.INT32, ["s", "t", "u"][:rank])},
                        ["y"], domains=["com.microsoft"])
        feeds, wants = [], []
        for b, n, m in ((2, 3, 5), (1, 1, 1), (3, 7, 4), (5, 2, 33)):
            q, k, v = h.normal(RNG, b, n, WIDTH), h.normal(RNG, b, m, WIDTH), h.normal(RNG, b, m, WIDTH)
            lengths = RNG.integers(1, m + 1, b).astype(np.int32)
            seen = np.broadcast_to(np.arange(m) < lengths[:, None, None], (b, n, m))
            if form == "lengths":
                mask = lengths
            elif form == "lengths and offsets":
                mask = np.concatenate([lengths, np.arange(b + 1) * n, np.arange(b + 1) * m]).astype(np.int32)
            else:
                shape = (b, m) if form == "keys" else (b, n, m)
                mask = RNG.integers(0, 2, shape).astype(np.int32)
                mask[..., 0] = 1
                seen = np.broadcast_to(mask[:, None] if form == "keys" else mask, (b, n, m)) != 0
            feeds.append({"q": q, "k": k, "v": v, "mask": mask})
            wants.append(attention(q, k, v, seen))
        for feed, want, got in zip(feeds, wants, h.run(folder, model, feeds).outputs):
            h.same(got["y"], want, f"{form}, seed {SEED}, {feed['q'].shape} by {feed['k'].shape}")


def test_a_mask_of_no_form(folder):
    model = h.model([h.node("MultiHeadAttention", "q k v - mask", "y", domain="com.microsoft", num_heads=HEADS)],
                    {"q": (h.FLOAT, ["b", "n", WIDTH]), "k": (h.FLOAT, ["b", "m", WIDTH]), "v": (h.FLOAT, ["b", "m", WIDTH]), "mask": (h.INT32, ["s"])},
                    ["y"], domains=["com.microsoft"])
    x = h.normal(RNG, 2, 3, WIDTH)
    h.run(folder, model, [{"q": x, "k": x, "v": x, "mask": np.ones(7, np.int32)}], status=1).done.expect(1, "mask", "7", "2")


if __name__ == "__main__":
    h.main()
