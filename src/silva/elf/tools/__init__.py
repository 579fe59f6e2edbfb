"""Silva's own tools, by what they are about. Each is thin: what it does stands in the room that it calls."""
