"""Device selection."""

import torch


def choose_device(device: str | torch.device | None = None) -> torch.device:
    """The device that a model runs on.

    Args:
        device: a device as torch names it. Default: the first GPU if there is one, else the CPU.

    Returns:
        The device.

    Raises:
        ValueError: if this machine does not have the device.

    Example:

    ```python
    >>> from elmo_hf.device import choose_device
    >>> choose_device("cpu")
    device(type='cpu')

    ```
    """
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.zeros(1, device=chosen).tolist()  # only an allocation tells whether the device exists
    except (RuntimeError, AssertionError):
        available = " or ".join(map(repr, _available_devices()))
        raise ValueError(
            f"Invalid `device`: {str(device)!r}. Expected {available} (torch {torch.__version__} on this machine)."
        ) from None
    return chosen


def _available_devices() -> list[str]:
    names = ["cpu"]
    if torch.cuda.is_available():
        names += ["cuda", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        names.append("mps")
    return names


__all__ = ["choose_device"]
