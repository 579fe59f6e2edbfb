"""Labelled corpora inside packages, one file each; what is registered with `@corpus` needs to be named nowhere else."""
