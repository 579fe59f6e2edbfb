"""The readers of signals; each module registers one."""
