"""A scripted policy for sums of a number and nought. Its server ends itself at its fifth request as long as the file
`deaths` beside it holds a number above 0, and one less thereafter."""

import os
import re
from pathlib import Path

seen = 0


def reply(request):
    global seen
    seen += 1
    file = Path(__file__).with_name("deaths")
    left = int(file.read_text())
    if seen == 5 and left:
        file.write_text(str(left - 1))
        os._exit(9)
    question = next(m["content"] for m in request["messages"] if m["role"] == "user")
    return re.findall(r"\d+", question)[0]
