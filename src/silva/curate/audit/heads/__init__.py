"""Heads: small linear models on features of a text, or of two, that say how much it looks like a risk.

    text ─┬▶ embedding (silva.models.embedding, minilm) ─┐
          └▶ hashed n-grams of words and letters ────────┼▶ Head: one weight each ─▶ score in [0, 1]
    two texts ─▶ embeddings, their difference, what words differ ─┘

`silva curate heads` makes them from the training half of the corpora. The weights are of the packages' licences (MIT,
Apache-2.0) and lie in `weights/`; no word of a corpus is in them, for words are hashed.
"""
