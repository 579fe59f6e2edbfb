"""Tokens in, tokens out: models that are sent the ids they saw and sampled, never words tokenised anew.

    open_renderer: a model's folder ─▶ Renderer ─┐
    open_backend: vllm, sglang, silva ───────────┴─▶ ExactModel: Request ─▶ Completion with prompt and sampled ids

    turn n:    prompt ids ─▶ backend ─▶ sampled ids          kept on the node
    turn n+1:  those ids + extend(new messages) ─▶ backend   or Restart(reason), where the template rewrites the past

Concatenated along a walk, what the nodes hold is what the model saw. What a turn costs is tokenising what is new.
"""

from silva.models.exact.backend import Draw, Image, NativeBackend, Piece, Sampled
from silva.models.exact.continuation import Continuation, Prompt, prompt_for
from silva.models.exact.model import RESTART_REASON, ExactModel
from silva.models.exact.open import open_backend, open_exact
from silva.models.exact.renderer import (
    CONVERSATION_CHANGED,
    HISTORY_REWRITTEN,
    THINKING_DROPPED,
    TOOLS_CHANGED,
    Extension,
    Renderer,
    Restart,
)
from silva.models.exact.reply import Parsed, ReplyReader
from silva.models.exact.source import open_renderer
from silva.models.exact.template import RenderError

__all__ = [
    "CONVERSATION_CHANGED",
    "HISTORY_REWRITTEN",
    "RESTART_REASON",
    "THINKING_DROPPED",
    "TOOLS_CHANGED",
    "Continuation",
    "Draw",
    "ExactModel",
    "Extension",
    "Image",
    "NativeBackend",
    "Parsed",
    "Piece",
    "Prompt",
    "RenderError",
    "Renderer",
    "ReplyReader",
    "Restart",
    "Sampled",
    "open_backend",
    "open_exact",
    "open_renderer",
    "prompt_for",
]
