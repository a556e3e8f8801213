"""Stands in for a reviewer: what comes without a test is refused."""

import json
import os
import re
import sys
from pathlib import Path

file = Path(re.search(r"out/[\w-]+\.txt", sys.stdin.read())[0])
if "test" in file.read_text():
    result = {"outcome": "success", "summary": f"{file} is fine"}
else:
    result = {"outcome": "failure", "summary": f"there is no test in {file}"}
Path(os.environ["ROTA_RESULT_FILE"]).write_text(json.dumps(result))
