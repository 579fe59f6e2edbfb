"""A scripted model that writes tasks on files: questions, then what stands in the files of each."""

import json

QUERIES = [
    {"words": "How many pieces in a.csv?", "needs": [{"path": "a.csv", "kind": "csv", "holds": "items and pieces"}]},
    {"words": "How many in b.csv?", "needs": [{"path": "b.csv", "kind": "csv"}]},
]
WRITTEN = {
    "files": {"a.csv": {"kind": "csv", "rows": [["item", "pieces"], ["rope", 3], ["salt", 4]]}},
    "answer": "7",
    "wrong": ["8"],
    "steps": [
        {"tool": "query_table", "arguments": {"path": "a.csv", "sql": "select sum(pieces) from t"}},
        {"tool": "answer", "arguments": {"text": "$r1[0][0]"}},
    ],
}


def reply(request):
    said = request["messages"][1]["content"]
    if "a dairy" in said:
        return {"text": "I would rather talk."}
    return {"text": json.dumps(QUERIES if "Think of questions" in said else WRITTEN)}
