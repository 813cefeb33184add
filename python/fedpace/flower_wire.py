"""How a process of a Flower app talks to fedpace: frames on two pipes, and what a frame holds.

A frame is one line of JSON, followed by the bytes of its blobs, whose lengths stand in the
line under "blobs". Requests come on descriptor 3, replies go to descriptor 4, so that the
app's own output stays on the standard streams. Where the line has "shared", the blobs lie in the
memory of descriptor 5 instead, one behind the other; both sides use it by turns, and only fedpace
makes it larger. Where it has "placed", they lie in the arena, the memory of descriptor 6 that all
processes of the app share: in the room that the request has given, each at a multiple of ALIGNMENT.

The content of a Flower message travels as a text that describes its records, and the bytes of
its arrays as blobs of their own. The text is the same for equal contents: records and keys
keep their order, and Python writes a float so that it reads back to the same bits.

The module needs the standard library alone; flwr is imported where records are made.
"""

import base64
import hashlib
import itertools
import json
import mmap
import os

# PROTOCOL is the version of the frames. fedpace and a process refuse each other's other versions.
PROTOCOL = 3

# OVERHEAD is the number of bytes that a message takes beside its records, and ARRAY_OVERHEAD
# the number beside the data of an array: names, types and shapes.
OVERHEAD = 64
ARRAY_OVERHEAD = 48

# MIN_SHARED is the number of bytes of all blobs of a frame from which on they go through shared memory.
MIN_SHARED = 32 << 10

# ALIGNMENT is that of blobs in the arena, in bytes.
ALIGNMENT = 64


def aligned(size):
    """Rounds a number of bytes up to a multiple of ALIGNMENT."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class Pipe:
    """Both directions of the connection to fedpace."""

    def __init__(self, requests=3, replies=4, memory=5):
        """Opens the pipes of two descriptors, and shared memory, which this process gets from fedpace."""
        self._requests = os.fdopen(requests, "rb", buffering=1 << 16)
        self._replies = replies
        self._file = memory
        self._memory = b""  # mapped when there is something in it
        self._arena = b""

    def share(self, size, arena=6, access=mmap.ACCESS_WRITE):
        """Maps the arena, the memory of a descriptor that has so many bytes; 0: there is none."""
        if size > 0:
            self._arena = memoryview(mmap.mmap(arena, size, access=access))

    def placed(self, offset, sizes):
        """Returns views of the blobs that lie in the arena from an offset on."""
        views = []
        for size in sizes:
            views.append(self._arena[offset : offset + size])
            offset += aligned(size)
        return views

    def read(self):
        """Waits for the next frame. Returns its header and its blobs; the header is None at the end."""
        line = self._requests.readline()
        if not line.endswith(b"\n"):
            return None, []
        header = json.loads(line)
        sizes = header.get("blobs", ())
        if header.get("placed"):
            return header, []
        if not header.get("shared"):
            return header, [self._requests.read(size) for size in sizes]
        self._has_room(sum(sizes))
        ends = list(itertools.accumulate(sizes))
        return header, [self._memory[end - size : end] for size, end in zip(sizes, ends)]

    def write(self, header, blobs=(), room=None, free=True):
        """Sends a frame.

        Blobs are bytes or other buffers; room is the offset and the size of where in the arena they may lie. free says
        that fedpace has read what lay in the shared memory, so that they may lie there.
        """
        if blobs:
            sizes = header["blobs"] = [len(blob) for blob in blobs]
            if room is not None and sum(map(aligned, sizes)) <= room[1]:
                header["placed"] = True
                for view, blob in zip(self.placed(room[0], sizes), blobs):
                    view[:] = blob
                blobs = ()
            elif free and sum(sizes) >= MIN_SHARED and self._has_room(sum(sizes)):
                header["shared"] = True
                for size, end, blob in zip(sizes, itertools.accumulate(sizes), blobs):
                    self._memory[end - size : end] = blob
                blobs = ()
        line = json.dumps(header, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        for part in (line, *blobs):
            view = memoryview(part)
            while view:
                view = view[os.write(self._replies, view) :]

    def _has_room(self, size):
        """Says whether the shared memory has so many bytes, and maps all of it."""
        if size > len(self._memory):
            there = os.fstat(self._file).st_size
            if there > len(self._memory):
                self._memory = mmap.mmap(self._file, there)
        return size <= len(self._memory)


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


def decode(text, arrays, make=None):
    """Makes the RecordDict that a text and the data of its arrays describe: records of its own.

    make makes an array of its type, shape, kind and data, where these are not bytes.
    """
    from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

    content = RecordDict()
    for name, kind, entries in json.loads(text):
        if kind == "arrays":
            record = ArrayRecord()
            for key, dtype, shape, stype, place in entries:
                record[key] = (make or Array)(dtype, tuple(shape), stype, arrays[place])
            content[name] = record
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
