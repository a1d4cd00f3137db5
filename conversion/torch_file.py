"""Files of `torch.save`, read without unpickling: nothing in them is run, and tensors are read one at a time.

A file is a zip with a pickle and a member for each storage, or, before PyTorch 1.6, a sequence of five pickles with
the storages behind them. The pickles are parsed into plain data; see `parse_pickle`.
"""

import pickletools
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .downloads import SourceError

MAX_PICKLE_SIZE, MAX_OPCODES = 16 << 20, 1_000_000
MAX_INTEGER = 1 << 48
# Tensors may share a storage, e.g., an embedding and a softmax, but not so that a small file becomes a large model.
MAX_EXPANSION = 4
LEGACY_MAGIC, LEGACY_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
DTYPES = {
    "Float": "<f4",
    "Double": "<f8",
    "Half": "<f2",
    "BFloat16": "<u2",
    "Long": "<i8",
    "Int": "<i4",
    "Short": "<i2",
    "Char": "i1",
    "Byte": "u1",
    "Bool": "?",
}
TRUSTED_MODULES = ("torch", "collections")
PARSING_ERRORS = (
    IndexError,
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    OSError,
    EOFError,
    MemoryError,
    NotImplementedError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)


# -- pickles


class UnsafePickleError(ValueError):
    """A pickle that asks for more than weights."""


@dataclass(frozen=True, eq=False)
class Name:
    """A class or function that a pickle names."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True, eq=False)
class Call:
    """A call that a pickle asks for. It is never executed."""

    function: Name
    arguments: tuple


@dataclass(frozen=True, eq=False)
class PersistentId:
    """A reference to a storage."""

    fields: tuple


LITERALS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
CONTAINERS = {"EMPTY_LIST": list, "EMPTY_DICT": dict}
VALUES = {"BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "BINFLOAT", "FLOAT"}
VALUES |= {"BINUNICODE", "SHORT_BINUNICODE", "UNICODE", "BINSTRING", "SHORT_BINSTRING", "STRING"}
PUTS, GETS = {"BINPUT", "LONG_BINPUT", "PUT"}, {"BINGET", "LONG_BINGET", "GET"}
TUPLE_SIZES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _PickleParser:
    """The stack machine of a pickle, restricted to the opcodes of plain data."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def execute(self, opcode: str, argument: Any):
        """Executes an opcode with its argument."""
        if opcode in VALUES:
            self.stack.append(argument)
        elif opcode in LITERALS:
            self.stack.append(LITERALS[opcode])
        elif opcode in CONTAINERS:
            self.stack.append(CONTAINERS[opcode]())
        elif opcode in PUTS:
            self.memo[argument] = self.stack[-1]
        elif opcode == "MEMOIZE":
            self.memo[len(self.memo)] = self.stack[-1]
        elif opcode in GETS:
            self.stack.append(self.memo[argument])
        elif opcode == "MARK":
            self.marks.append(len(self.stack))
        elif opcode == "GLOBAL":
            self._push_name(*argument.split(" ", 1))
        elif opcode == "STACK_GLOBAL":
            name, module = self.stack.pop(), self.stack.pop()
            self._push_name(_require(module, str), _require(name, str))
        elif opcode not in ("PROTO", "FRAME", "STOP"):
            self._build(opcode)

    def _build(self, opcode: str):
        """Opcodes that take values from the stack."""
        if opcode in TUPLE_SIZES:
            items = [self.stack.pop() for _ in range(TUPLE_SIZES[opcode])]
            self.stack.append(tuple(reversed(items)))
        elif opcode in ("TUPLE", "LIST"):
            items = self._pop_mark()
            self.stack.append(tuple(items) if opcode == "TUPLE" else items)
        elif opcode in ("APPEND", "APPENDS"):
            items = self._pop_mark() if opcode == "APPENDS" else [self.stack.pop()]
            _require(self.stack[-1], list).extend(items)
        elif opcode in ("SETITEM", "SETITEMS"):
            items = self._pop_mark() if opcode == "SETITEMS" else [self.stack.pop() for _ in range(2)][::-1]
            target = _require(self.stack[-1], dict)
            for key, value in zip(items[::2], items[1::2], strict=True):
                target[_require(key, (str, int))] = value
        elif opcode == "BINPERSID":
            self.stack.append(PersistentId(_require(self.stack.pop(), tuple)))
        elif opcode == "REDUCE":
            arguments, function = _require(self.stack.pop(), tuple), _require(self.stack.pop(), Name)
            is_empty_dict = str(function) == "collections.OrderedDict" and not arguments
            self.stack.append({} if is_empty_dict else Call(function, arguments))
        elif opcode == "BUILD":
            self.stack.pop()  # attributes of an object, e.g., the versions of modules in a state dictionary
        else:
            raise UnsafePickleError(f"the opcode {opcode}")

    def _push_name(self, module: str, name: str):
        if module.split(".")[0] not in TRUSTED_MODULES:
            raise UnsafePickleError(f"{module}.{name}"[:80])
        self.stack.append(Name(module, name))

    def _pop_mark(self) -> list:
        start = self.marks.pop()
        items, self.stack[start:] = self.stack[start:], []
        return items


def parse_pickle(file: BinaryIO) -> Any:
    """Parses a pickle into lists, dictionaries, strings and numbers; everything else becomes `Name`, `Call` or
    `PersistentId`.

    Example:

    ```python
    >>> import io, pickle
    >>> from elmo_hf.conversion.torch_file import parse_pickle
    >>> parse_pickle(io.BytesIO(pickle.dumps({"sizes": [2, 3]}, protocol=2)))
    {'sizes': [2, 3]}

    ```
    """
    parser = _PickleParser()
    for number, (opcode, argument, _) in enumerate(pickletools.genops(file)):
        if number > MAX_OPCODES:
            raise UnsafePickleError(f"more than {MAX_OPCODES:,} opcodes")
        parser.execute(opcode.name, argument)
    (result,) = parser.stack
    return result


def _require(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"a {type(value).__name__} in a place where it cannot be")
    return value


# -- storages


@dataclass(frozen=True)
class StoredTensor:
    """Where the values of a tensor are: a view of a storage."""

    dtype: str
    storage: str
    num_stored: int  # elements of the storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return np.dtype(DTYPES[self.dtype]).itemsize

    @property
    def num_elements(self) -> int:
        """The product of the sizes."""
        product = 1
        for size in self.shape:
            product *= size
        return product

    def view(self, values: np.ndarray) -> np.ndarray:
        """A copy of the tensor's part of the values of its storage."""
        strides = [step * self.itemsize for step in self.stride]
        view = np.lib.stride_tricks.as_strided(values[self.offset :], self.shape, strides, writeable=False)
        array = np.array(view, order="C")
        return (array.astype("<u4") << 16).view("<f4") if self.dtype == "BFloat16" else array


class TorchFile:
    """The tensors of a state dictionary by name.

    Args:
        path: the file.
        where: its name in messages; default: its path.
    """

    def __init__(self, path: Path, where: str | None = None):
        self.path, self.where = path, where or str(path)
        self.size = path.stat().st_size
        self._legacy_offsets: dict[str, int] | None = None  # of the storages; None for a zip
        try:
            state = self._parse_file()
        except UnsafePickleError as error:
            raise SourceError(
                f"{self.where} is refused: it holds more than weights, and nothing of it was run. Found {error}; "
                "expected tensors only."
            ) from None
        except PARSING_ERRORS as error:
            raise SourceError(f"{self.where} is not a file of torch.save, or is damaged ({_reason(error)}).") from None
        if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
            raise SourceError(f"{self.where} is {_kind(state)}; expected a dictionary of weights by name.")
        self.tensors = {name: self._tensor(name, value) for name, value in state.items()}
        self._check_size()

    def read(self, name: str) -> np.ndarray:
        """A copy of the values of a tensor; bfloat16 as float32."""
        tensor = self.tensors[name]
        try:
            content = self._read_storage(tensor)
            if len(content) != tensor.num_stored * tensor.itemsize:
                raise EOFError(f"{len(content):,} bytes")
            return tensor.view(np.frombuffer(content, DTYPES[tensor.dtype]))
        except PARSING_ERRORS as error:
            raise SourceError(f"{self.where} is damaged: {name} cannot be read ({_reason(error)}).") from None

    def _parse_file(self) -> Any:
        with self.path.open("rb") as file:
            if file.read(4) == b"PK\x03\x04":
                return self._parse_zip()
            file.seek(0)
            return self._parse_legacy(file)

    def _parse_zip(self) -> Any:
        with zipfile.ZipFile(self.path) as archive:
            pickles = [name for name in archive.namelist() if name.endswith("/data.pkl") and name.count("/") == 1]
            if len(pickles) != 1:
                raise ValueError(f"{len(pickles)} members data.pkl")
            self._folder = pickles[0].removesuffix("data.pkl")
            if f"{self._folder}byteorder" in archive.namelist():
                order = self._read_member(archive, "byteorder")
                if order != b"little":
                    raise ValueError(f"byte order {order[:20]!r}")
            return parse_pickle(BytesIO(self._read_member(archive, "data.pkl", MAX_PICKLE_SIZE)))

    def _parse_legacy(self, file: BinaryIO) -> Any:
        head = BytesIO(file.read(MAX_PICKLE_SIZE))
        magic, version, system = (parse_pickle(head) for _ in range(3))
        if (magic, version) != (LEGACY_MAGIC, LEGACY_PROTOCOL) or system.get("little_endian") is not True:
            raise ValueError("the magic number is missing")
        state, keys = (parse_pickle(head) for _ in range(2))
        storages = dict(_storages(state))
        self._legacy_offsets, position = {}, head.tell()
        for key in keys:
            num_stored, dtype = storages[key]
            file.seek(position)
            if struct.unpack("<q", file.read(8))[0] != num_stored:
                raise ValueError("a storage of another size")
            self._legacy_offsets[key] = position + 8
            position += 8 + num_stored * np.dtype(DTYPES[dtype]).itemsize
        return state

    def _read_storage(self, tensor: StoredTensor) -> bytes:
        if self._legacy_offsets is None:
            with zipfile.ZipFile(self.path) as archive:
                return self._read_member(archive, f"data/{tensor.storage}")
        with self.path.open("rb") as file:
            file.seek(self._legacy_offsets[tensor.storage])
            return file.read(tensor.num_stored * tensor.itemsize)

    def _read_member(self, archive: zipfile.ZipFile, name: str, max_size: int | None = None) -> bytes:
        """A member, which torch.save never compresses."""
        info = archive.getinfo(self._folder + name)
        if info.compress_type != zipfile.ZIP_STORED or max(info.file_size, info.compress_size) > (
            max_size or self.size
        ):
            raise ValueError(f"the member {name} of {info.file_size:,} bytes")
        return archive.read(info)

    def _tensor(self, name: str, value: Any) -> StoredTensor:
        try:
            tensor = _parse_tensor(value)
        except PARSING_ERRORS as error:
            raise SourceError(f"{self.where}: {name[:200]} is {_kind(value)}; expected a dense tensor.") from error
        limit = tensor.num_stored
        last = tensor.offset + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride, strict=True))
        if tensor.num_elements and last >= limit or limit * tensor.itemsize > self.size:
            raise SourceError(
                f"{self.where} is damaged: {name[:200]} has the shape {tensor.shape}, which is outside of its storage."
            )
        return tensor

    def _check_size(self):
        size = sum(tensor.num_elements * tensor.itemsize for tensor in self.tensors.values())
        if size > MAX_EXPANSION * self.size:
            raise SourceError(
                f"{self.where} is refused: its tensors have {size:,} bytes, but the file has {self.size:,}. They "
                "share storages or repeat their values; save copies of them (`tensor.clone()`)."
            )


def _parse_tensor(value: Any) -> StoredTensor:
    """The tensor that a pickle describes; one of PARSING_ERRORS if it is not a dense one."""
    value = _require(value, Call)
    while str(value.function) in ("torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state"):
        value = _require(value.arguments[0], Call)
    function, arguments = str(value.function), value.arguments
    if function not in ("torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2"):
        raise TypeError(function)
    storage, offset, shape, stride = arguments[:4]
    if len(arguments) > 6 and arguments[6]:
        raise TypeError("a conjugated or negated view")
    key, (num_stored, dtype) = _parse_storage(storage)
    numbers = [offset, *_require(shape, tuple), *_require(stride, tuple)]
    if not all(type(number) is int and 0 <= number < MAX_INTEGER for number in numbers) or len(shape) != len(stride):
        raise ValueError("sizes that no tensor has")
    return StoredTensor(dtype, key, num_stored, offset, shape, stride)


def _parse_storage(reference: Any) -> tuple[str, tuple[int, str]]:
    """The key of a storage, its number of elements and its type."""
    kind, storage_type, key, _, num_stored, *_ = _require(reference, PersistentId).fields
    dtype = _require(storage_type, Name).name.removesuffix("Storage")
    if kind != "storage" or dtype not in DTYPES or type(num_stored) is not int or not 0 <= num_stored < MAX_INTEGER:
        raise ValueError("a storage that cannot be")
    return _require(key, str), (num_stored, dtype)


def _storages(state: Any) -> Iterator[tuple[str, tuple[int, str]]]:
    """All storages that parsed data refer to."""
    pending, visited = [state], set()
    while pending:
        value = pending.pop()
        if id(value) in visited:
            continue
        if isinstance(value, PersistentId):
            yield _parse_storage(value)
        elif isinstance(value, (dict, list, tuple, Call)):
            visited.add(id(value))
            if isinstance(value, Call):
                value = value.arguments
            pending += value.values() if isinstance(value, dict) else value


def _kind(value: Any) -> str:
    """What a value is, for messages."""
    if isinstance(value, Call) and str(value.function) == "torch._utils._rebuild_tensor_v2":
        return "a tensor with a lazy negation, a complex type or a damaged description"
    if isinstance(value, Call):
        return f"made by {str(value.function)[:80]}"
    return f"a {type(value).__name__}"


def _reason(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__
