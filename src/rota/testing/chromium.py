"""Finds the system's browser; Playwright's own would be another download.

Apart from `rota.testing.browser`, because every test run asks, and Playwright is slow to import.
"""

import os
import shutil

VARIABLE = "ROTA_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    if named := os.environ.get(VARIABLE):
        return shutil.which(named)
    return next((found for name in NAMES if (found := shutil.which(name))), None)
