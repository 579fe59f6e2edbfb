"""Registers the OpenEnv bridge: `openenv` proves it, `openenv/<URL, module@app or file.py@app>` is any server."""

from __future__ import annotations

import msgspec

from silva.envs.gyms.bridge_name import file_of, parse
from silva.envs.protocol import EnvironmentEntry

PREFIX = "openenv/"

# What a server of openenv.core needs. The package asks besides for gradio, model hubs and sandbox clients, which its
# web interface and deployment use.
_REQUIREMENTS = """
aiofile==3.12.3 annotated-doc==0.0.7 annotated-types==0.8.0 anyio==4.16.0 attrs==26.1.0 Authlib==1.9.9
backports.tarfile==1.2.0 beartype==0.23.1 cachetools==8.0.1 caio==0.12.10 certifi==2026.10.18 cffi==2.1.1
charset-normalizer==3.5.2 click==8.5.1 cryptography==50.0.2 cyclopts==5.4.0 dnspython==2.9.2 docstring_parser==0.18.0
email-validator==2.4.0 exceptiongroup==1.3.1 fastapi==0.165.0 fastmcp==3.4.10 fastmcp-slim==3.4.10 griffelib==2.4.1
h11==0.16.0 httpcore==1.0.9 httpcore2==2.16.2 httpx==0.28.1 httpx-sse==0.4.3 httpx2==2.16.2 idna==3.20
importlib_metadata==10.2.0 jaraco.classes==3.4.0 jaraco.context==6.1.2 jaraco.functools==4.6.0 jeepney==0.9.0
jiter==0.19.0 joserfc==1.8.0 jsonref==1.1.0 jsonschema==4.26.0 jsonschema-path==0.5.0
jsonschema-specifications==2025.9.1 keyring==25.7.0 lazy-importer==0.1.0 markdown-it-py==4.3.0 mcp==1.30.0
mdurl==0.1.2 more-itertools==11.2.1 openai==3.54.0 openapi-pydantic==0.6.0 opentelemetry-api==1.45.2 packaging==26.3
pathable==0.6.0 platformdirs==4.14.7 py-key-value-aio==0.4.6 pycparser==3.12 pydantic==2.14.3
pydantic-settings==2.16.3 pydantic_core==2.50.4 Pygments==2.21.0 PyJWT==2.15.1 pyperclip==1.11.0 python-dotenv==1.2.4
python-multipart==0.0.34 PyYAML==6.0.3 referencing==0.37.0 requests==2.34.2 rich==15.0.0 rich-rst==2.2.0
rpds-py==2026.9.1 SecretStorage==3.5.0 shellingham==1.5.4 sniffio==1.3.1 sse-starlette==3.7.0 starlette==1.10.0
truststore==0.10.5 typer==0.29.2 typing-inspection==0.4.5 typing_extensions==4.16.0 uncalled-for==0.6.1 urllib3==2.8.0
uvicorn==0.54.0 watchfiles==1.3.0 websockets==17.4 zipp==4.1.2
"""


def resolve(name: str) -> EnvironmentEntry | None:
    """The entry for `openenv/<place>`; None for any other name.

    Raises:
        UsageError: it names a file that is not there.
    """
    if not name.startswith(PREFIX) or name == PREFIX:
        return None
    named = parse(name.removeprefix(PREFIX))
    file_of(named.place, PREFIX)
    return _entry(name, named.text, f"OpenEnv's server {named.place}")


def _entry(name: str, attribute: str, summary: str) -> EnvironmentEntry:
    return EnvironmentEntry(
        name=name,
        target=f"silva.envs.gyms.openenv_bridge:{attribute}",
        summary=summary,
        requirements=tuple(_REQUIREMENTS.split()),
        no_deps=("openenv==0.10.0",),
        licence="BSD-3-Clause",
        source="https://github.com/huggingface/OpenEnv",
        splits=("test", "train"),
        expert=None,
        null=None,
    )


ENTRY = msgspec.structs.replace(
    _entry(
        "openenv",
        "OpenEnvProof",
        "the OpenEnv bridge, proven on sums; any server is openenv/URL or openenv/FILE.py@APP",
    ),
    expert=1.0,
    null=0.0,
    sample=6,
)
