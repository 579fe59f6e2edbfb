"""What somebody else puts before an agent's eyes: `planted.py popup|notification|clipboard TITLE WORDS`.

A pop-up stands in the middle above all windows, a notification in the corner and takes no focus; each shows its words
in lines, so that none is too long for a cell of the tree. The clipboard holds its words as long as this runs.
"""

from __future__ import annotations

import sys
import textwrap

import gi

gi.require_version("Gtk", "3.0")
gi.require_version("Gdk", "3.0")
from gi.repository import Gdk, Gtk  # noqa: E402

kind, title, words = sys.argv[1:4]


def main() -> None:
    """Show it, or hold it, until it is closed."""
    if kind == "clipboard":
        board = Gtk.Clipboard.get(Gdk.SELECTION_CLIPBOARD)
        board.set_text(words, -1)
        Gtk.main()
        return
    window = Gtk.Window(title=title)
    window.set_keep_above(True)
    box = Gtk.Box(orientation=Gtk.Orientation.VERTICAL, spacing=2, border_width=14)
    for line in textwrap.wrap(words, 90, break_long_words=True):
        box.add(Gtk.Label(label=line, xalign=0.0))
    if kind == "notification":
        window.set_type_hint(Gdk.WindowTypeHint.NOTIFICATION)
        window.set_accept_focus(False)
        window.set_gravity(Gdk.Gravity.NORTH_EAST)
        window.move(Gdk.Screen.width() - 640, 8)
    else:
        window.set_type_hint(Gdk.WindowTypeHint.DIALOG)
        window.set_position(Gtk.WindowPosition.CENTER)
    button = Gtk.Button(label="Close")
    button.connect("clicked", lambda _: window.destroy())
    box.add(button)
    window.add(box)
    window.connect("destroy", Gtk.main_quit)
    window.show_all()
    Gtk.main()


main()
