"""What the stages do that are the safety loop's own. Each may be run again after a kill."""
