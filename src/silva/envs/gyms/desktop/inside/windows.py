"""The windows that the window manager knows, by their titles."""

from __future__ import annotations

from Xlib import X, Xatom, error
from Xlib.display import Display


class Windows:
    """The windows of this process's DISPLAY."""

    def __init__(self) -> None:
        self._display = Display()
        self._root = self._display.screen().root
        names = ("_NET_SUPPORTING_WM_CHECK", "_NET_CLIENT_LIST_STACKING", "_NET_ACTIVE_WINDOW", "_NET_WM_NAME")
        self._check, self._list, self._active, self._name = map(self._display.intern_atom, names)
        self._looked = self._display.intern_atom("_SILVA_LOOKED")

    def managed(self) -> bool:
        """Whether a window manager is there."""
        return self._root.get_full_property(self._check, X.AnyPropertyType) is not None

    def wake(self) -> None:
        """Have the window manager do what it has been asked to: openbox may have read that a window is to be shown, and
        sleep on it until its next event. A change on the root window is one."""
        self._root.change_property(self._looked, Xatom.CARDINAL, 32, [1])
        self._display.flush()

    def titles(self) -> list[dict[str, object]]:
        """Every window's title, the lowest first, and whether it is the active one."""
        listed = self._root.get_full_property(self._list, X.AnyPropertyType)
        active = self._root.get_full_property(self._active, X.AnyPropertyType)
        front = active.value[0] if active is not None and len(active.value) else 0
        found: list[dict[str, object]] = []
        for number in listed.value if listed is not None else ():
            try:
                window = self._display.create_resource_object("window", int(number))
                title = window.get_full_property(self._name, X.AnyPropertyType)
                text = title.value if title is not None else window.get_wm_name() or ""
            except (error.BadWindow, error.BadDrawable):
                continue  # closed meanwhile
            shown = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
            found.append({"title": shown, "active": int(number) == front})
        return found
