"""The applications of a desktop: how each is started, how its window is known, and what is set for it beforehand.

Settings keep first-run windows, blinking carets and animations away, so that a screen stands still of itself.
"""

from __future__ import annotations

from silva.envs.gyms.desktop.packages import CHROMIUM, PYTHON
from silva.tree import Record

DOCUMENTS = "/home/agent/Documents"
BAIT_TAKEN = 83
"""The exit code by which a trap says that it was sprung."""


class Launch(Record, frozen=True, kw_only=True):
    """One application to start. It stands once a window has `title` in its own, and an element with the tag `shows` is
    in the accessibility tree."""

    name: str
    words: tuple[str, ...]
    title: str
    shows: str


def calc(file: str) -> Launch:
    """LibreOffice Calc with a spreadsheet of the documents folder."""
    return _office("calc", file, "table-cell")


def writer(file: str) -> Launch:
    """LibreOffice Writer with a text of the documents folder."""
    return _office("writer", file, "paragraph")


def _office(kind: str, file: str, shows: str) -> Launch:
    words = ("soffice", f"--{kind}", "--norestore", "--nologo", "--nofirststartwizard", f"{DOCUMENTS}/{file}")
    return Launch(name=kind, words=words, title=file, shows=shows)


def editor(file: str = "") -> Launch:
    """The editor (mousepad), with a file of the documents folder."""
    words = ("mousepad", "--disable-server", *([f"{DOCUMENTS}/{file}"] if file else []))
    return Launch(name="editor", words=words, title="Mousepad", shows="text")


def files(folder: str = DOCUMENTS) -> Launch:
    """The file manager (Thunar) at a folder."""
    words = ("thunar", folder)
    return Launch(name="files", words=words, title=folder.rpartition("/")[2], shows="menu")


def browser(url: str, title: str, port: int) -> Launch:
    """Chromium at a page, whose proxy listens on `port` and answers for the task's sites alone.

    Its own sandbox needs namespaces, which the sandbox around it does not give: it is off inside.
    """
    words = (
        CHROMIUM,
        "--no-sandbox",
        "--test-type",
        "--no-first-run",
        "--no-default-browser-check",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-extensions",
        "--disable-breakpad",
        "--disable-features=Translate,MediaRouter,OptimizationHints,AutofillServerCommunication,HttpsUpgrades",
        "--password-store=basic",
        "--force-renderer-accessibility",
        f"--proxy-server=http://127.0.0.1:{port}",
        "--proxy-bypass-list=<-loopback>",
        "--window-position=0,0",
        "--start-maximized",
        url,
    )
    return Launch(name="browser", words=words, title=title, shows="heading")


def popup(title: str, words: str, bait: str) -> Launch:
    """A window on top of all, which ends by `BAIT_TAKEN` when its button `bait` is pressed."""
    program = (PYTHON, "-s", "/opt/desktop/popup.py", title, words, bait, str(BAIT_TAKEN))
    return Launch(name="popup", words=program, title=title, shows="push-button")


_GTK = b"""[Settings]
gtk-cursor-blink=0
gtk-enable-animations=0
gtk-recent-files-enabled=0
gtk-primary-button-warps-slider=0
"""
_OPENBOX = b"""<?xml version="1.0"?>
<openbox_config xmlns="http://openbox.org/3.4/rc">
  <focus><focusNew>yes</focusNew><focusLast>yes</focusLast></focus>
  <placement><policy>Smart</policy><center>yes</center></placement>
  <theme><name>Clearlooks</name><titleLayout>NLIMC</titleLayout><animateIconify>no</animateIconify></theme>
  <desktops><number>1</number></desktops>
  <keyboard>
    <keybind key="A-F4"><action name="Close"/></keybind>
    <keybind key="A-Tab"><action name="NextWindow"><finalactions><action name="Focus"/><action name="Raise"/>
      </finalactions></action></keybind>
  </keyboard>
  <mouse>
    <context name="Titlebar">
      <mousebind button="Left" action="Drag"><action name="Move"/></mousebind>
      <mousebind button="Left" action="DoubleClick"><action name="ToggleMaximize"/></mousebind>
    </context>
    <context name="Titlebar Top Right Bottom Left TLCorner TRCorner BRCorner BLCorner">
      <mousebind button="Left" action="Press"><action name="Focus"/><action name="Raise"/></mousebind>
    </context>
    <context name="Client">
      <mousebind button="Left" action="Press"><action name="Focus"/><action name="Raise"/></mousebind>
      <mousebind button="Right" action="Press"><action name="Focus"/><action name="Raise"/></mousebind>
    </context>
    <context name="Close"><mousebind button="Left" action="Click"><action name="Close"/></mousebind></context>
    <context name="Maximize"><mousebind button="Left" action="Click"><action name="ToggleMaximize"/></mousebind>
    </context>
    <context name="Iconify"><mousebind button="Left" action="Click"><action name="Iconify"/></mousebind></context>
  </mouse>
  <applications>
    <application type="normal"><maximized>yes</maximized></application>
  </applications>
</openbox_config>
"""
_OFFICE = b"""<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry" xmlns:xs="http://www.w3.org/2001/XMLSchema"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
<item oor:path="/org.openoffice.Office.Common/Misc"><prop oor:name="ShowTipOfTheDay" oor:op="fuse"><value>false</value>
</prop></item>
<item oor:path="/org.openoffice.Office.Common/Misc"><prop oor:name="FirstRun" oor:op="fuse"><value>false</value></prop>
</item>
<item oor:path="/org.openoffice.Setup/Product"><prop oor:name="ooSetupLastVersion" oor:op="fuse">
<value>99.9</value></prop></item>
<item oor:path="/org.openoffice.Setup/Product"><prop oor:name="LastTimeGetInvolvedShown" oor:op="fuse">
<value>4000000000</value></prop></item>
<item oor:path="/org.openoffice.Setup/Product"><prop oor:name="LastTimeDonateShown" oor:op="fuse">
<value>4000000000</value></prop></item>
<item oor:path="/org.openoffice.Office.Recovery/AutoSave"><prop oor:name="Enabled" oor:op="fuse"><value>false</value>
</prop></item>
<item oor:path="/org.openoffice.Office.Common/AutoCorrect"><prop oor:name="CapitalizationAtStartOfSentence"
 oor:op="fuse"><value>false</value></prop></item>
</oor:items>
"""
# Its icons are not in the accessibility tree, the rows of its list are.
_THUNAR = b"""<?xml version="1.0" encoding="UTF-8"?>
<channel name="thunar" version="1.0">
  <property name="default-view" type="string" value="ThunarDetailsView"/>
  <property name="last-view" type="string" value="ThunarDetailsView"/>
  <property name="last-details-view-zoom-level" type="string" value="THUNAR_ZOOM_LEVEL_38_PERCENT"/>
  <property name="misc-thumbnail-mode" type="string" value="THUNAR_THUMBNAIL_MODE_NEVER"/>
  <property name="misc-single-click" type="bool" value="false"/>
</channel>
"""
_HOME = "/home/agent"
SETTINGS: dict[str, bytes] = {
    f"{_HOME}/.config/gtk-3.0/settings.ini": _GTK,
    f"{_HOME}/.gtkrc-2.0": b"gtk-cursor-blink = 0\n",
    f"{_HOME}/.config/openbox/rc.xml": _OPENBOX,
    f"{_HOME}/.config/libreoffice/4/user/registrymodifications.xcu": _OFFICE,
    f"{_HOME}/.config/xfce4/xfconf/xfce-perchannel-xml/thunar.xml": _THUNAR,
    f"{_HOME}/.config/mimeapps.list": b"[Default Applications]\ntext/plain=org.xfce.mousepad.desktop\n"
    b"text/markdown=org.xfce.mousepad.desktop\n",
    f"{_HOME}/.config/user-dirs.dirs": b'XDG_DOCUMENTS_DIR="$HOME/Documents"\nXDG_DESKTOP_DIR="$HOME/Desktop"\n',
}
"""Files put into every desktop's home before it starts."""
