"""A scripted model that roles ask: in JSON where it is asked once more, and as an explorer that does not know the
actions."""

import json


def reply(request):
    said = [each["content"] for each in request["messages"]]
    if request.get("tools"):
        made = sum(each["role"] == "assistant" for each in request["messages"])
        action = "fly" if made % 2 else "right"
        return {"tool_calls": [{"name": "act", "arguments": {"action": action}, "id": f"c{made}"}]}
    asked = said[1]
    if "hopeless" in asked:
        return {"text": '{"wrong": 1}'}
    if "its actions brought about" in asked:
        return {"text": 'Gladly. [{"goal": 0, "actions": [99]}, {"goal": 77}, {"goal": 1, "actions": [0, 0, 0, 0]}]'}
    if "Choose 3 of the numbered" in asked:
        return {"text": json.dumps([{"goal": number, "why": "practice"} for number in (1, 1, 0, 400)])}
    return {"text": 'Here: {"words": "a"} or so' if "cannot be used" in said[-1] else "I would rather talk."}
