"""The closed loops: each runs rollouts, reads the trees, trains, proves and promotes, and goes on at any stage."""
