"""Stands in for a coding agent: it forgets the test, unless a review has asked for one."""

import json
import os
import re
import sys
from pathlib import Path

prompt = sys.stdin.read()
title = re.search(r"^## Work Item: (.*)$", prompt, re.MULTILINE)[1]
name = re.sub(r"\W+", "-", title.rpartition(": ")[2].lower()).strip("-")

file = Path("out") / f"{name}.txt"
file.parent.mkdir(exist_ok=True)
asked = "there is no test" in prompt
file.write_text(f"{title}\n" + ("and a test for it\n" if asked else ""))

result = {"outcome": "success", "summary": f"built {file}"}
Path(os.environ["ROTA_RESULT_FILE"]).write_text(json.dumps(result))
