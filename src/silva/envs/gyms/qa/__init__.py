"""Red-teaming in dialogue: `environment` is the episode, `goals`, `strategies` and `verdicts` its parts, `judging` the
labelled replies a judge is measured by."""
