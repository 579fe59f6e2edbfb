"""Registers AgentDojo."""

from __future__ import annotations

from silva.envs.protocol import EnvironmentEntry

# The package imports every provider's client at once, so that all of them have to be there.
_REQUIREMENTS = """
agentdojo==0.1.35 annotated-types==0.8.0 anthropic==2.12.0 anyio==4.16.0 cachebox==5.2.3 certifi==2026.10.18
cffi==2.1.1 charset-normalizer==3.5.2 click==8.5.1 cohere==7.3.1 cryptography==50.0.2 deepdiff==9.1.0 distro==1.9.0
dnspython==2.9.2 docstring_parser==0.18.0 email-validator==2.4.0 fastavro==1.13.1 filelock==4.2.11 fsspec==2026.9.0
google-auth==2.62.2 google-genai==3.4.0 h11==0.16.0 hf-xet==1.8.0 httpcore==1.0.9 httpcore2==2.16.2 httpx==0.28.1
httpx2==2.16.2 huggingface_hub==2.4.0 idna==3.20 jiter==0.19.0 jsonpatch==1.47 jsonpointer==3.12 langchain==1.4.7
langchain-core==1.7.2 langchain-protocol==0.0.20 langgraph==1.2.22 langgraph-checkpoint==4.3.2
langgraph-prebuilt==1.1.2 langgraph-sdk==0.4.14 langsmith==0.15.0 markdown-it-py==4.3.0 mdurl==0.1.2 openai==3.54.0
opentelemetry-api==1.45.2 orderly-set==5.5.0 orjson==3.13.0 ormsgpack==1.13.1 packaging==26.3 pyasn1==0.6.5
pyasn1_modules==0.4.2 pycparser==3.12 pydantic==2.14.3 pydantic_core==2.50.4 Pygments==2.21.0 python-dotenv==1.2.4
PyYAML==6.0.3 requests==2.34.2 requests-toolbelt==1.0.0 rich==15.0.0 sniffio==1.3.1 tenacity==9.1.4
tokenizers==0.23.3 tqdm==4.70.1 truststore==0.10.5 types-requests==2.33.0.20261030 typing-inspection==0.4.5
typing_extensions==4.16.0 urllib3==2.8.0 uuid_utils==0.19.0 websockets==17.4 xxhash==4.1.0 zstandard==0.25.0
"""

ATTACKS = (
    "direct",
    "ignore_previous",
    "system_message",
    "injecagent",
    "important_instructions",
    "important_instructions_no_user_name",
    "important_instructions_no_model_name",
    "important_instructions_no_names",
    "important_instructions_wrong_model_name",
    "important_instructions_wrong_user_name",
    "tool_knowledge",
    "dos",
    "swearwords_dos",
    "captcha_dos",
    "offensive_email_dos",
    "felony_dos",
)
"""The published attacks that need nobody at the keyboard: each is a split of its pairs of tasks."""

SUITES = ("workspace", "slack", "travel", "banking")

ENTRIES: tuple[EnvironmentEntry, ...] = (
    EnvironmentEntry(
        name="agentdojo",
        target="silva.envs.gyms.agentdojo:AgentDojo",
        summary="AgentDojo v1.2.2: 97 tasks of an assistant at work, in a chat, on a trip, at a bank; and its attacks",
        requirements=tuple(_REQUIREMENTS.split()),
        licence="MIT",
        source="https://github.com/ethz-spylab/agentdojo",
        splits=("test", *SUITES, *ATTACKS),
        null=5 / 97,  # five banking tasks hold in the state the bank begins with
        sample=97,
    ),
)
