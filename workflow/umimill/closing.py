"""What is closed where its with block ends, whether or not that is by an error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Stands for itself in a with block, and is closed at its end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Give back what is held; of a writer that has not finished, no file stays."""
