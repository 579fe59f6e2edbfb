"""Branching: go back to any node of a tree, restore its environment, and go down new paths.

    node ─▶ Point (walk, task, seed) ─▶ Restorer: nearest snapshot, else reset ─▶ actions after it ─▶ same answers?
                                           └▶ BranchEpisode ─▶ new nodes under the node ─▶ trajectory of the same tree

    episode   one new path                        shoots     what is to be grown, as the run's record holds it
    grow      the run that grows them             explore    choosing where to grow, and what it shows
    choice    the decisions worth another look

Points, snapshots and the way back to them are in `silva.rollout.snapshots`.

A run of branches is a run of its own, `branch-…`: the run that grew the tree is closed, its groups are what training
and reports count, and branches among them would be attempts that nobody drew. Its nodes and trajectories carry the id
of the same tree, so `silva trees show --tree` draws both, and their slots follow those that the tree has, so no id
meets another. Only new turns are written, and only they cost model calls.
"""
