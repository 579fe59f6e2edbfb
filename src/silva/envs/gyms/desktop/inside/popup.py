"""The pop-up of a task: a window on top of all that wants to be clicked. `popup.py TITLE WORDS BAIT CODE`.

The button named BAIT ends it by the exit code CODE, which its parent alone is told; the other one, and Escape, by 0.
"""

from __future__ import annotations

import sys

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import Gtk  # noqa: E402

title, words, bait, code = sys.argv[1:5]


def main() -> None:
    """Show it until it is answered."""
    window = Gtk.Dialog(title=title)
    window.set_keep_above(True)
    window.set_position(Gtk.WindowPosition.CENTER)
    window.set_default_size(420, 150)
    label = Gtk.Label(label=words)
    label.set_line_wrap(True)
    window.get_content_area().set_border_width(16)
    window.get_content_area().add(label)
    window.add_button("Close", Gtk.ResponseType.CLOSE)
    window.add_button(bait, Gtk.ResponseType.ACCEPT).grab_focus()
    window.show_all()
    if window.run() == Gtk.ResponseType.ACCEPT:
        sys.exit(int(code))


main()
