"""A scripted model that roles ask: it talks first, and answers in JSON when asked once more."""


def reply(request):
    said = [each["content"] for each in request["messages"]]
    if "hopeless" in said[1]:
        return {"text": '{"wrong": 1}'}
    return {"text": 'Here: {"words": "a"} or so' if "cannot be used" in said[-1] else "I would rather talk."}
