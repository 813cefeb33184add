"""How a process of a Flower app talks to fedpace: frames on two pipes, and what a frame holds.

A frame is one line of JSON, followed by the bytes of its blobs, whose lengths stand in the
line under "blobs". Requests come on descriptor 3, replies go to descriptor 4, so that the
app's own output stays on the standard streams.

The content of a Flower message travels as a text that describes its records, and the bytes of
its arrays as blobs of their own. The text is the same for equal contents: records and keys
keep their order, and Python writes a float so that it reads back to the same bits.

The module needs the standard library alone; flwr is imported where records are made.
"""

import base64
import hashlib
import json
import os

# PROTOCOL is the version of the frames. fedpace and a process refuse each other's other versions.
PROTOCOL = 1

# OVERHEAD is the number of bytes that a message takes beside its records, and ARRAY_OVERHEAD
# the number beside the data of an array: names, types and shapes.
OVERHEAD = 64
ARRAY_OVERHEAD = 48


class Pipe:
    """Both directions of the connection to fedpace."""

    def __init__(self, requests=3, replies=4):
        """Opens the pipes of two descriptors, which this process gets from fedpace."""
        self._requests = os.fdopen(requests, "rb", buffering=1 << 16)
        self._replies = replies

    def read(self):
        """Waits for the next frame. Returns its header and its blobs; the header is None at the end."""
        line = self._requests.readline()
        if not line.endswith(b"\n"):
            return None, []
        header = json.loads(line)
        return header, [self._requests.read(size) for size in header.get("blobs", ())]

    def write(self, header, blobs=()):
        """Sends a frame. Blobs are bytes or other buffers; they are not copied."""
        if blobs:
            header["blobs"] = [len(blob) for blob in blobs]
        line = json.dumps(header, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        for part in (line, *blobs):
            view = memoryview(part)
            while view:
                view = view[os.write(self._replies, view) :]


class Content:
    """The content of a message on its way: the text that describes it, and the data of its arrays."""

    def __init__(self, text, arrays, size):
        """Text is the description in bytes, arrays a list of bytes, size the bytes that it takes on a link."""
        self.text = text
        self.arrays = arrays
        self.size = size

    def blobs(self):
        """Returns the blobs of a frame that carries the whole content."""
        return [self.text, *self.arrays]


def encode(content):
    """Turns a RecordDict into a Content."""
    from flwr.app import ArrayRecord, MetricRecord

    arrays = []
    records = []
    size = OVERHEAD
    for name, record in content.items():
        if isinstance(record, ArrayRecord):
            entries = []
            for key, array in record.items():
                entries.append([key, array.dtype, list(array.shape), array.stype, len(arrays)])
                arrays.append(array.data)
                size += len(array.data) + ARRAY_OVERHEAD
            records.append([name, "arrays", entries])
            continue
        kind = "metrics" if isinstance(record, MetricRecord) else "config"
        records.append([name, kind, [[key, _to_json(value)] for key, value in record.items()]])
        size += sum(len(key) + _size(value) for key, value in record.items())
    text = json.dumps(records, separators=(",", ":")).encode()
    return Content(text, arrays, size)


def decode(text, arrays):
    """Makes the RecordDict that a text and the data of its arrays describe: records of its own."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

    content = RecordDict()
    for name, kind, entries in json.loads(text):
        if kind == "arrays":
            content[name] = ArrayRecord(
                {
                    key: Array(dtype=dtype, shape=tuple(shape), stype=stype, data=arrays[place])
                    for key, dtype, shape, stype, place in entries
                }
            )
            continue
        values = {key: _from_json(value) for key, value in entries}
        content[name] = MetricRecord(values) if kind == "metrics" else ConfigRecord(values)
    return content


def digest(data):
    """Returns the digest by which fedpace and the processes name the data of an array."""
    return hashlib.sha256(data).hexdigest()[:32]


def numbers(content, kinds=("metrics",)):
    """Returns the single numbers in a content's records of some kinds by their keys, the first of each key."""
    from flwr.app import ConfigRecord, MetricRecord

    found = {}
    for record in content.values():
        fits = isinstance(record, MetricRecord) and "metrics" in kinds
        fits = fits or isinstance(record, ConfigRecord) and "config" in kinds
        if not fits:
            continue
        for key, value in record.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                found.setdefault(key, value)
    return found


def finite(values):
    """Returns the numbers of a dictionary that JSON can hold: infinities and NaN are left out."""
    return {key: value for key, value in values.items() if abs(value) < float("inf")}


def _size(value):
    """Returns the bytes that a value of a record takes on a link: texts as they are, numbers eight each."""
    items = value if isinstance(value, list) else [value]
    return sum(len(item) if isinstance(item, (str, bytes)) else 8 for item in items)


def _to_json(value):
    """Returns a value of a record as JSON has it: bytes, which JSON lacks, become a map."""
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    return value


def _from_json(value):
    """Returns the value of a record that _to_json has turned into JSON."""
    if isinstance(value, dict):
        return base64.b64decode(value["bytes"])
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    return value
