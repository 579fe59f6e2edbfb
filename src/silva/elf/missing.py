"""Capabilities that people ask for and no tool has: refused by name, with what to do instead.

A planner that finds one of these in an intent refuses the whole of it; half an answer would look like the whole.
"""

from __future__ import annotations

from silva.tree import Record


class Missing(Record, frozen=True, kw_only=True):
    """`asks` as those of a tool; `instead` says what to do."""

    name: str
    asks: tuple[str, ...]
    instead: str


MISSING = (
    Missing(
        name="training a model",
        asks=(
            "train model",
            "fine-tune",
            "finetune",
            "finetuning",
            "train policy",
            "train lora",
            "train qwen",
        ),
        instead="silva train run CONFIG",
    ),
    Missing(
        name="running agents",
        asks=("play", "roll out", "run agent", "grow", "rollout agent", "launch agent", "start run"),
        instead="silva rollout --env ENV",
    ),
    Missing(
        name="attacking agents",
        asks=("launch attack", "run attack", "start attack", "attack agent"),
        instead="silva redteam run PLAN",
    ),
    Missing(
        name="translation", asks=("translate", "translation"), instead="add a tool of your own (silva.elf entry points)"
    ),
    Missing(
        name="deleting from a lake",
        asks=("remove run", "remove lake", "wipe", "erase", "remove trajectory lake", "destroy"),
        instead="a lake forgets nothing; a data set without them is a filter away",
    ),
    Missing(
        name="sending messages",
        asks=("email", "e-mail", "mail", "slack", "notify", "tweet"),
        instead="send the report yourself",
    ),
    Missing(
        name="uploading",
        asks=("upload", "push hub", "publish hub", "upload s3", "publish"),
        instead="release-rows writes a folder you can upload",
    ),
    Missing(
        name="drawing charts",
        asks=("plot", "chart", "graph", "draw", "visualise", "visualize", "heatmap"),
        instead="silva report --run RUN -o page.html",
    ),
    Missing(
        name="fetching from the web",
        asks=("crawl", "scrape", "download", "fetch url", "website"),
        instead="download the file, then name it",
    ),
    Missing(
        name="speech and images",
        asks=("transcribe", "ocr", "image caption", "audio", "video"),
        instead="add a tool of your own (silva.elf entry points)",
    ),
    Missing(
        name="serving a model",
        asks=("deploy", "serve model", "host model"),
        instead="silva gateway, silva models serve",
    ),
    Missing(name="sealed data", asks=("seal", "encrypt", "decrypt", "sealed"), instead="silva lake seal"),
    Missing(
        name="paraphrasing",
        asks=(
            "paraphrase",
            "rewrite",
            "rephrase",
            "augment",
            "synthesise",
            "synthesize",
            "generate row",
            "generate text",
            "generate question",
            "generate sample",
        ),
        instead="silva pilot with a model may derive such a tool",
    ),
    Missing(name="promoting a policy", asks=("promote policy", "roll back policy"), instead="silva policy promote"),
    Missing(name="answering by hand", asks=("label by hand", "annotate", "annotation"), instead="silva console"),
    Missing(
        name="forecasting",
        asks=("forecast", "predict", "prophesy"),
        instead="add a tool of your own (silva.elf entry points)",
    ),
)
