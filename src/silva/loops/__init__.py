"""The closed loops: each runs rollouts, reads the trees, trains, proves and promotes, and goes on at any stage.

kernel      what every loop is: configuration, plan of stages, ledger, workers, and the table of kinds
line        what loops share that grow a line of policy versions, round by round
flywheel    run, select, train, prove, promote
apollo      the same, with people who speak to the agents and masks on what is not worth learning
"""
