"""The checkers, one file each. A module here that registers a class with `@checker` needs to be named nowhere else."""
