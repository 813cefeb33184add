"""Reads a prepared file (data/federated/PREPARED.md): the samples that fedpace trains on, by client."""
import json

import numpy
import torch


class Set:
    def __init__(self, path):
        raw = numpy.memmap(path, dtype="uint8", mode="c")
        header = json.loads(bytes(raw[32 : 32 + int(raw[16:24].view("<u8")[0])]))
        sections = {s["Name"]: raw[s["Offset"] :][: s["Length"]] for s in header["Sections"]}
        self.rows, self.width = header["Rows"], header["Width"]
        self.start, self.train, self.labels = (sections[n].view("<i4") for n in ("start", "train", "labels"))
        self.text, self.row = sections.get("text"), sections.get("row")
        self.bytes = sections.get("bytes")
        self.values = sections.get("values")
        self.clients = len(self.start) - 1

    def samples(self, client):
        """Inputs and labels of a client's training samples, as tensors."""
        which = self.train[self.start[client] : self.start[client + 1]]
        return self.inputs(which), torch.from_numpy(self.labels[which].astype("int64"))

    def inputs(self, which):
        if self.rows == "text":  # windows of it
            at = self.row.view("<i4")[which][:, None] + numpy.arange(self.width)
            return torch.from_numpy(self.text[at].astype("int64"))
        if self.rows == "float":
            values = self.values.view("<f4").reshape(-1, self.width)
            if (numpy.diff(which) == 1).all():
                which = slice(which[0], which[-1] + 1)  # the mapped pages themselves, not a copy
            return torch.from_numpy(values[which])
        values = torch.from_numpy(self.bytes.reshape(-1, self.width)[which]).float() / 255
        if self.rows == "ink":
            return 1 - values
        assert self.rows == "cifar", self.rows
        mean, deviation = torch.tensor([0.4914, 0.4822, 0.4465]), torch.tensor([0.2023, 0.1994, 0.2010])
        images = values[:, 2:].reshape(-1, 3, 32, 32)  # two labels stand before them
        return (images - mean[:, None, None]) / deviation[:, None, None]
