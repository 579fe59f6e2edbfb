"""Registers the verifiers bridge: `verifiers` proves it, `verifiers/<module or file.py>` is any taskset."""

from __future__ import annotations

import msgspec

from silva.envs.gyms.bridge_name import file_of, parse
from silva.envs.protocol import EnvironmentEntry

PREFIX = "verifiers/"

_REQUIREMENTS = """
aiofiles==25.1.0 aiohappyeyeballs==2.7.1 aiohttp==3.14.5 aiosignal==1.4.0 annotated-doc==0.0.7 annotated-types==0.8.0
anthropic==2.12.0 antlr4-python3-runtime==4.13.2 anyio==4.16.0 attrs==26.1.0 certifi==2026.10.18 cffi==2.1.1
charset-normalizer==3.5.2 click==8.5.1 connectrpc==0.11.1 cryptography==50.0.2 distro==1.9.0 docstring_parser==0.18.0
filelock==4.2.11 frozenlist==1.8.0 fsspec==2026.9.0 gepa==0.1.4 h11==0.16.0 hf-xet==1.8.0 httpcore==1.0.9
httpcore2==2.16.2 httpx==0.28.1 httpx2==2.16.2 huggingface_hub==2.4.0 idna==3.20 Jinja2==3.1.6 jiter==0.19.0
jsonschema==4.26.0 jsonschema-specifications==2025.9.1 latex2sympy2_extended==1.11.0 loguru==0.7.3
markdown-it-py==4.3.0 MarkupSafe==3.0.4 math-verify==0.9.0 mcp==2.0.0 mcp-types==2.0.0 mdurl==0.1.2 mpmath==1.3.0
msgpack==1.2.4 multidict==7.2.1 numpy==2.4.6 openai==2.54.0 openai-harmony==0.0.8 opentelemetry-api==1.45.2
packaging==26.3 pillow==13.0.0 prime-pydantic-config==0.4.3 prime-runs==0.1.4 prime-sandboxes==0.5.1
prime-traces==0.0.10 prime-tunnel==0.1.15 propcache==0.5.4 protobuf==7.36.2 protobuf-py==0.1.1 protobuf-py-ext==0.1.1
pycparser==3.12 pydantic==2.14.3 pydantic_core==2.50.4 Pygments==2.21.0 PyJWT==2.15.1 pyqwest==0.12.0
python-multipart==0.0.34 PyYAML==6.0.3 pyzmq==27.3.0 referencing==0.37.0 regex==2026.11.15 renderers==0.1.12
requests==2.34.2 rich==15.0.0 rpds-py==2026.9.1 safetensors==0.8.0 shellingham==1.5.4 sniffio==1.3.1
sse-starlette==3.7.0 starlette==1.10.0 sympy==1.14.0 tenacity==9.2.1 tiktoken==0.14.0 tokenizers==0.23.3 tomli==2.5.0
tomli_w==1.2.0 tqdm==4.70.1 transformers==5.23.0 truststore==0.10.5 typer==0.29.2 typing-inspection==0.4.5
typing_extensions==4.16.0 urllib3==2.8.0 uvicorn==0.54.0 yarl==1.25.1
"""

_GAMES = ("textarena==0.7.4", "nltk==3.10.4")
"""What verifiers' own taskset `textarena` asks for besides."""


def resolve(name: str) -> EnvironmentEntry | None:
    """The entry for `verifiers/<place>`; None for any other name. TextArena's games get their package besides.

    Raises:
        UsageError: it names a file that is not there.
    """
    if not name.startswith(PREFIX) or name == PREFIX:
        return None
    named = parse(name.removeprefix(PREFIX))
    file_of(named.place, PREFIX)
    more = _GAMES if named.place == "textarena" else ()
    return _entry(name, named.text, f"verifiers' taskset {named.place}", more)


def _entry(name: str, attribute: str, summary: str, more: tuple[str, ...] = ()) -> EnvironmentEntry:
    return EnvironmentEntry(
        name=name,
        target=f"silva.envs.gyms.verifiers_bridge:{attribute}",
        summary=summary,
        requirements=("verifiers==0.4.0", *_REQUIREMENTS.split(), *more),
        licence="MIT",
        source="https://github.com/PrimeIntellect-ai/verifiers",
        expert=None,
        null=None,
    )


ENTRY = msgspec.structs.replace(
    _entry("verifiers", "VerifiersProof", "the verifiers bridge, proven on sums; any taskset is verifiers/MODULE"),
    expert=1.0,
    null=0.0,
    sample=6,
)
