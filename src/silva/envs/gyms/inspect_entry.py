"""Registers the Inspect AI bridge: `inspect` proves it, `inspect/<file.py@task or registered task>` is any task."""

from __future__ import annotations

import msgspec

from silva.envs.gyms.bridge_name import file_of, parse
from silva.envs.protocol import EnvironmentEntry

PREFIX = "inspect/"

_REQUIREMENTS = """
agent-client-protocol==0.12.1 aiobotocore==3.10.0 aiohappyeyeballs==2.7.1 aiohttp==3.14.5 aioitertools==0.13.0
aiosignal==1.4.0 annotated-doc==0.0.7 annotated-types==0.8.0 anyio==4.16.0 attrs==26.1.0 beautifulsoup4==4.15.0
boto3==1.43.117 botocore==1.43.117 certifi==2026.10.18 charset-normalizer==3.5.2 click==8.5.1 debugpy==1.8.22
docstring_parser==0.18.0 fastapi==0.165.0 frozenlist==1.8.0 fsspec==2026.6.0 h11==0.16.0 httpcore==1.0.9
httpcore2==2.16.2 httpx==0.28.1 httpx2==2.16.2 idna==3.20 ijson==3.6.0 jiter==0.19.0
jmespath==1.1.0 jsonlines==4.0.0 jsonpatch==1.47 jsonpath-ng==1.16.0 jsonpointer==3.12 jsonref==1.1.0
jsonschema==4.26.0 jsonschema-specifications==2025.9.1 linkify-it-py==2.2.0 markdown-it-py==4.3.0
mdit-py-plugins==0.7.0 mdurl==0.1.2 mmh3==5.3.1 multidict==7.2.1 nest-asyncio2==1.7.4 numpy==2.4.6
opentelemetry-api==1.45.2 pathlib_abc==0.5.2 platformdirs==4.14.7 propcache==0.5.4 psutil==7.2.2 pydantic==2.14.3
pydantic_core==2.50.4 Pygments==2.21.0 python-dateutil==2.9.0.post0 python-dotenv==1.2.4 PyYAML==6.0.3
referencing==0.37.0 regex==2026.11.15 requests==2.34.2 rich==15.0.0 rpds-py==2026.9.1 s3fs==2026.6.0
s3transfer==0.19.3 semver==3.1.1 shortuuid==1.0.13 six==1.17.0 sniffio==1.3.1 soupsieve==4.1.2 starlette==1.10.0
tenacity==9.2.1 textual==8.2.8 tiktoken==0.14.0 truststore==0.10.5 typing-inspection==0.4.5
typing_extensions==4.16.0 universal_pathlib==0.3.10 urllib3==2.8.0 uvicorn==0.54.0 wrapt==2.5.2 yarl==1.25.1
zipfile-zstd==0.0.4 zipp==4.1.2 zstandard==0.25.0
"""

_EVALS = "inspect-evals==0.26.0"


def resolve(name: str) -> EnvironmentEntry | None:
    """The entry for `inspect/<place>`; None for any other name. Tasks of inspect-evals get that package besides.

    Raises:
        UsageError: it names a file that is not there.
    """
    if not name.startswith(PREFIX) or name == PREFIX:
        return None
    named = parse(name.removeprefix(PREFIX))
    file_of(named.place, PREFIX)
    more = (_EVALS,) if named.place.startswith("inspect_evals/") else ()
    return _entry(name, named.text, f"Inspect AI's task {named.place}", more)


def _entry(name: str, attribute: str, summary: str, more: tuple[str, ...] = ()) -> EnvironmentEntry:
    return EnvironmentEntry(
        name=name,
        target=f"silva.envs.gyms.inspect_bridge:{attribute}",
        summary=summary,
        requirements=("inspect_ai==0.3.285", *_REQUIREMENTS.split(), *more),
        licence="MIT",
        source="https://github.com/UKGovernmentBEIS/inspect_ai",
        expert=None,
        null=None,
    )


ENTRY = msgspec.structs.replace(
    _entry("inspect", "InspectProof", "the Inspect AI bridge, proven on sums; any task is inspect/FILE.py@TASK"),
    expert=1.0,
    null=0.0,
    sample=12,
)
