"""States that were kept, and the way back to a place in a tree.

    environment ─▶ store (bytes, sealed) ─▶ Snapshot on a node     place ─▶ Point ─▶ restore: snapshot, else replay

    snapshot  the record on a node              store, seal  keeping state, and finding it again
    point     a place in a tree                 restore      an environment brought there

When an episode keeps its state is a stage of its turn (`silva.rollout.stages.snapshots`).
"""
