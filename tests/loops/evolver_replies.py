"""A scripted model that diagnoses and rewrites curations; its second program is none."""

import json

POINT = {"point": "Ends too soon", "evidence": "turn 1", "hint": "drop failures", "operators": ["known_successes"]}
SOURCE = "from operators import *\n\ndef curate(raw):\n    return output(sft=imitate(known_successes(raw)))\n"


def reply(request):
    said = request["messages"][-1]["content"]
    if "Revise the program" in said:
        broken = "Revision number <material>\n2\n" in said
        return {"text": json.dumps({"source": "def curate(:" if broken else SOURCE, "note": "successes alone"})}
    return {"text": json.dumps([POINT])}
