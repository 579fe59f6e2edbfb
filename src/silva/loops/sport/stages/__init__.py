"""What the stages do that are SPORT's own; the others are those of every line. Each may be run again after a kill."""
