"""What the stages do that are the flywheel's own; the others are those of every line."""
