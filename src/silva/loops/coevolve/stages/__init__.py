"""What the stages do that are CoEvolve's own; the others are those of every line."""
