"""The gateway: one door between every agent and every model, and every turn that passes through is kept.

    client (any SDK) ─▶ app: token, run, rollout ─▶ dialect.decode ─▶ Asked
         Session.match: how much of this conversation is on the tree already ─▶ Continuation (exact ids so far)
         router.lease: a backend, in fair turn ─▶ Model.complete / stream ─▶ Completion (ids, logprobs, version)
         Session.record: new nodes ─▶ journal (durable) ─▶ dialect.encode ─▶ client

A *run* has a token, a budget and a share. A *rollout* is one agent at work in it, with a base URL of its own; its calls
become nodes of one tree by matching prefixes: what a request repeats is not stored again, what it rewrites branches.
A reply is sent (its end, when streamed) only once its turn is on disk.
"""
