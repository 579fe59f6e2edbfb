"""A policy made from nothing: a llama of one to three million parameters with a tokenizer of its own.

    conversations (of one environment) ─▶ words ─▶ byte-level BPE ─▶ tokenizer.json, chat_template.jinja
    Shape, seed ─▶ normal(0, 0.02) ─▶ model.safetensors, config.json              one folder in Hugging Face form

It knows nothing: what it is for is to be trained in minutes on a CPU, from experts first. Its template leaves out
system messages: rules that never change teach a network of this size nothing, and every id it must not read is time.
Any text can be written with its tokenizer, the environment's in few ids. The same conversations, shape and seed give
the same bytes. `silva models serve --weights FOLDER` and the spec `local:FOLDER` serve it as any llama.
"""

from silva.models.tiny.folder import Made, demand_free, write_tiny
from silva.models.tiny.shape import Shape

__all__ = ["Made", "Shape", "demand_free", "write_tiny"]
