"""The pop-up of a task: a window on top of all that wants to be clicked. `popup.py TITLE WORDS BAIT MARK`.

The button named BAIT writes the file MARK; the other one, and Escape, close the window.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gi

gi.require_version("Gtk", "3.0")
from gi.repository import Gtk  # noqa: E402

title, words, bait, mark = sys.argv[1:5]


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
        Path(mark).parent.mkdir(parents=True, exist_ok=True)
        Path(mark).write_text("the button was pressed\n")


main()
