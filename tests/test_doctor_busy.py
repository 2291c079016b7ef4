"""Doctor takes what others change while it looks for no fault."""

from __future__ import annotations

import threading
from pathlib import Path

from conftest import write
from memvault import Vault
from wrong_vaults import examined, told


def test_what_is_changed_meanwhile_is_no_fault_of_the_index(vault: Vault, folder: Path) -> None:
    """While files are saved again and again the index is not taken for wrong, and not made anew."""
    files = [write(folder, f"{number}.md", "0\n") for number in range(20)]
    over = threading.Event()

    def save() -> None:
        number = 0
        while not over.is_set():
            number += 1
            write(folder, ".saved", f"{number}\n").replace(files[number % len(files)])

    saving = threading.Thread(target=save)
    saving.start()
    try:
        for _ in range(8):
            assert told(examined(vault)) == set()
    finally:
        over.set()
        saving.join()
