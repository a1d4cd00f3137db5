"""On which device a model computes."""

import torch


def choose_device(name: str | torch.device | None = None) -> torch.device:
    """The device of that name, if this machine has it; without a name, a GPU if there is one.

    Example:

    ```python
    >>> from elmo_hf.device import choose_device
    >>> choose_device("cpu")
    device(type='cpu')

    ```
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).tolist()  # whether it is there shows when something is put on it
    except (RuntimeError, AssertionError):
        raise ValueError(
            f"There is no device {str(name)!r} for torch {torch.__version__} on this machine; accepted {_accepted()}."
        ) from None
    return device


def _accepted() -> str:
    found = ["cpu"]
    if torch.cuda.is_available():
        found += ["cuda", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        found.append("mps")
    return f"is {found[0]}" if len(found) == 1 else f"are {', '.join(found)}"


__all__ = ["choose_device"]
