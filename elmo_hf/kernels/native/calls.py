"""The arguments of functions of the library that run side by side: each structure is that of the same name in C."""

import ctypes
from typing import ClassVar

NUMBER, REAL, POINTER = ctypes.c_int, ctypes.c_float, ctypes.c_void_p


class LayerCall(ctypes.Structure):
    """One direction of an LSTM layer; see elmo_lstm.c."""

    function: ClassVar[str] = "elmo_layer"
    _fields_ = [
        *((name, NUMBER) for name in ("kind", "projection", "cell", "steps", "block", "hash_count", "is_done")),
        *((name, REAL) for name in ("cell_clip", "projection_clip")),
        *((name, POINTER) for name in ("of_input", "bias", "of_state", "of_cell", "scales", "offsets", "sizes")),
        *((name, POINTER) for name in ("x", "h", "c", "y", "gates", "m", "room", "stretches", "hashes")),
    ]


class FeaturesCall(ctypes.Structure):
    """A range of the character filters; see features.c."""

    function: ClassVar[str] = "elmo_features"
    _fields_ = [
        *((name, NUMBER) for name in ("words", "length", "size", "width", "filters", "first", "after")),
        *((name, POINTER) for name in ("counts", "depths", "panels", "bias", "characters", "y")),
    ]


class FloatLinearCall(ctypes.Structure):
    """A range of the outputs of a product of few rows in float32 or bfloat16; see float_linear.c."""

    function: ClassVar[str] = "elmo_float_linear"
    _fields_ = [
        *((name, NUMBER) for name in ("kind", "rows", "columns", "outputs", "first", "after")),
        *((name, POINTER) for name in ("weight", "bias", "x", "y")),
    ]


class Int8LinearCall(ctypes.Structure):
    """A range of the outputs of a product in int8; see int8_linear.c."""

    function: ClassVar[str] = "elmo_int8_linear"
    _fields_ = [
        *((name, NUMBER) for name in ("rows", "columns", "outputs", "first", "after")),
        *((name, POINTER) for name in ("panels", "bias", "scales", "offsets", "words", "y")),
    ]


class HighwayCall(ctypes.Structure):
    """A range of the rows of a highway's gate; see highway.c."""

    function: ClassVar[str] = "elmo_highway"
    _fields_ = [
        *((name, NUMBER) for name in ("size", "first", "after")),
        *((name, POINTER) for name in ("x", "transformed", "carried", "y")),
    ]


CALLS = (LayerCall, FeaturesCall, FloatLinearCall, Int8LinearCall, HighwayCall)
Call = LayerCall | FeaturesCall | FloatLinearCall | Int8LinearCall | HighwayCall
