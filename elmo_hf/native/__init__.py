"""The loop of one LSTM layer in C: its source, how it is built, and how it is loaded.

No torch, no Python API: one function that ctypes calls. A wheel brings the library built for six platforms; a
checkout builds it with the system's compiler. Where neither is possible the loop in Python does the same.
"""

from .loader import find

__all__ = ["find"]
