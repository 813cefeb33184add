"""A small GPT that predicts each next character; WIDTH and LAYERS say how large it is.

A sample is 80 characters and the one that follows. Its loss is the mean over all 80
places, and its weight the number of characters, so perplexity is exp(loss). BASE is the
folder of a run whose model stays as it is, beside adapters of RANK that learn.
"""
import os

import fedpace
import torch
from torch import nn
from torch.nn.functional import cross_entropy

LENGTH, VOCABULARY, HEADS = 80, 79, 4
WIDTH, LAYERS = int(os.environ.get("WIDTH", 128)), int(os.environ.get("LAYERS", 5))


class Block(nn.Module):
    """Attention to earlier characters, then a dense layer, each added to its input."""

    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query_key_value, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.dense = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, later):
        heads = self.query_key_value(self.before(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        weights = (query @ key.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5).masked_fill(later, -torch.inf).softmax(-1)
        x = x + self.out((weights @ value).transpose(1, 2).flatten(2))
        return x + self.dense(self.between(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.characters, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.end = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY))
        self.register_buffer("later", torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, x):
        x = self.characters(x) + self.places.weight
        for block in self.blocks:
            x = block(x, self.later)
        return self.end(x)


class Adapted(nn.Module):
    """A layer that stays as it is, and beside it two small ones that learn (LoRA, Hu et al. 2021)."""

    def __init__(self, layer, rank=int(os.environ.get("RANK", 2))):
        super().__init__()
        self.layer, self.down = layer, nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


def model():
    gpt = GPT()
    if base := os.environ.get("BASE"):
        gpt.load_state_dict({name: torch.tensor(x) for name, x in fedpace.Run(base).model().items()})
        gpt.requires_grad_(False)
        for block in gpt.blocks:
            block.query_key_value, block.out = Adapted(block.query_key_value), Adapted(block.out)
            block.dense[0], block.dense[2] = Adapted(block.dense[0]), Adapted(block.dense[2])
    return gpt


def characters(model, x, y, reduction):
    following = torch.cat([x[:, 1:], y[:, None]], 1)
    return cross_entropy(model(x).flatten(0, 1), following.flatten(), reduction=reduction)


def loss(model, x, y):
    return characters(model, x, y, "mean")


def metrics(model, x, y):
    return {"loss": (characters(model, x, y, "sum"), x.numel())}


fedpace.serve(model, loss, metrics)
