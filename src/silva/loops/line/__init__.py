"""What loops share that grow a line of policy versions, round by round: a base, held-out tasks, candidates, a head.

    base ─▶ survey (the expert plays every task) ─▶ split (by task; leak check) ─▶ measure (the base on `dev`)
    round:  rollout ─▶ … ─▶ train ─▶ register ─▶ measure (the candidate on `dev`) ─▶ judge ─┬▶ promoted: head
              ▲                                                                             └▶ rejected: none
              └───────────────────────── the head plays the next round ◀──────────────────────────┘
    prove (base and head on `test`, which no decision saw; a head that is worse is rolled back) ─▶ report

config      their part of the configuration; a kind's own adds to it
head        which version plays when, and where a loop's sets and versions are
play, lost, weights, selected    episodes, attempts that were lost, versions as folders, samples as they are told
stages/     the stages; a kind names those it takes, and adds its own
verdict     two versions compared task by task
report, charts, told             the page, and the words of the command line
"""
