"""The gateway uses its routing: who is asked, who waits, and what is told where nobody can be asked."""

from __future__ import annotations

from typing import Any

import pytest
from dialect_errors import ASKED, ROUTES, each_dialect, message_of, path_to

NO_MODEL = {"kind": "status", "status": 404, "message": "The model `scripted` does not exist."}
NO_QUOTA = {"kind": "status", "status": 429, "message": "You exceeded your current quota, check your billing"}
OWN_TROUBLE = pytest.mark.parametrize("fault", [NO_MODEL, NO_QUOTA, {**NO_MODEL, "status": 402}])


@OWN_TROUBLE
def test_a_backend_without_the_model_or_out_of_quota_fails_nobody(scripted: Any, serve: Any, fault: Any) -> None:
    broken = scripted(faults=[fault])
    health = {"breaker": 3, "open_seconds": 600}
    gateway = serve(broken, scripted(), route={"health": health, "retry_ratio": 1.0})
    token = gateway.open_run()
    answers = [gateway.chat(token, ASKED, rollout=f"r{number}") for number in range(20)]
    assert [answer.status_code for answer in answers] == [200] * 20
    assert broken.requests == 3, "its breaker opened"


@OWN_TROUBLE
@each_dialect
def test_where_all_are_so_it_is_no_fault_of_the_client(scripted: Any, serve: Any, route: str, fault: Any) -> None:
    models = [scripted(faults=[fault]), scripted(faults=[fault])]
    gateway = serve(*models)
    answer = gateway.post(path_to(route), gateway.open_run(), ROUTES[route])
    assert answer.status_code == 502
    assert fault["message"] in message_of(answer, route)
    assert [model.requests for model in models] == [1, 1]
