"""Where the browser is: the system's, since Playwright's own would be a download of its own.

Apart from `rota.testing.browser`, because every test run asks, and Playwright takes long to import.
"""

import os
import shutil

VARIABLE = "ROTA_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    if named := os.environ.get(VARIABLE):
        return shutil.which(named)
    return next((found for name in NAMES if (found := shutil.which(name))), None)
