"""Runs inside LiteLLM's proxy: keeps every successful call as one JSON line, request and reply, in the file it is told."""

import os

import orjson
from litellm.integrations.custom_logger import CustomLogger


class Keeper(CustomLogger):
    """Appends one line a call; nothing is buffered, nothing is synced."""

    def __init__(self) -> None:
        super().__init__()
        self._file = os.open(os.environ["KEEP_TURNS_IN"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        """One successful call; for a stream, `response_obj` is the reply put together."""
        turn = {
            "messages": kwargs["messages"],
            "reply": response_obj.model_dump(),
            "began": start_time,
            "ended": end_time,
        }
        os.write(self._file, orjson.dumps(turn, default=str) + b"\n")


keeper = Keeper()
