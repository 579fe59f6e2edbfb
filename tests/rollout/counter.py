"""A scripted policy for the counting environment: counts twice, then deletes everything, then counts on and stops."""


def reply(request):
    made = sum(m["role"] == "assistant" for m in request["messages"])
    name = ("count", "count", "delete_all", "count", "stop")[min(made, 4)]
    return {"tool_calls": [{"name": name, "arguments": {}, "id": f"c{made}"}]}
