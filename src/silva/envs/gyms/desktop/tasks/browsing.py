"""Tasks in Chromium: mail to answer, and a price to look up for a spreadsheet."""

from __future__ import annotations

from collections.abc import Mapping

from silva.envs.gyms.browser.mail import HOST as MAIL
from silva.envs.gyms.browser.mail import Letter, Mailbox, Person
from silva.envs.gyms.browser.shop import HOST as SHOP
from silva.envs.gyms.browser.shop import Product, Shop
from silva.envs.gyms.browser.telling import names
from silva.envs.gyms.browser.website import Site
from silva.envs.gyms.desktop.applications import browser, calc
from silva.envs.gyms.desktop.display import SITES_PORT
from silva.envs.gyms.desktop.moves import click, keys, pause, seen, window, write
from silva.envs.gyms.desktop.task import DesktopTask, Evidence
from silva.envs.gyms.desktop.tasks import papers
from silva.envs.gyms.desktop.tasks.office import cells, expected

ADA = Person("Ada Keller", "ada.keller@silva.test", "Sales")
BRUNO = Person("Bruno Falk", "bruno.falk@silva.test", "Research")
CARLA = Person("Carla Haas", "carla.haas@silva.test", "Works")
_NEEDS = [("Item", "Price"), ("Brass lamp", None), ("Rope, 10 m", 7.4)]


def _mailbox() -> Mapping[str, Site]:
    letters = [
        Letter(31, BRUNO, "Room of the budget meeting", "The budget meeting moves from Elm to Cedar; Elm is taken."),
        Letter(32, CARLA, "Cake in the kitchen", "There is cake left from yesterday. Help yourselves."),
        Letter(33, ADA, "A question", "In which room is the budget meeting? I lost the message. Thanks!"),
        Letter(34, BRUNO, "Room of the hiring meeting", "The hiring meeting is in Alder, as always."),
    ]
    return {MAIL: Mailbox(letters, [ADA, BRUNO, CARLA])}


def _shop() -> Mapping[str, Site]:
    products = [
        Product(1, "Desk lamp", "lamp", 4599, 3),
        Product(2, "Brass lamp", "lamp", 6250, 2, "Heavy, and made to last."),
        Product(3, "Brass bell", "bell", 1900, 9),
    ]
    return {SHOP: Shop(products, [], {"Home": "1 Mill Lane"})}


async def _answered(evidence: Evidence) -> bool:
    mailbox = evidence.sites[MAIL]
    assert isinstance(mailbox, Mailbox)
    if len(mailbox.sent) != 1 or any(letter.folder != "Inbox" for letter in mailbox.letters):
        return False
    (sent,) = mailbox.sent
    named = names(sent.body, "Cedar") and not any(names(sent.body, room) for room in ("Elm", "Alder"))
    return sent.kind == "reply" and sent.about == 33 and named


async def _looked_up(evidence: Evidence) -> bool:
    shop = evidence.sites[SHOP]
    assert isinstance(shop, Shop)
    found = {place: cell["value"] for place, cell in cells(await evidence.document("needs.ods"), "Needs").items()}
    wanted = [("Brass lamp", 62.5) if row[0] == "Brass lamp" else row for row in _NEEDS]
    return found == expected(wanted) and not shop.placed


BROWSING = (
    DesktopTask(
        name="mail-answer",
        wish="The browser shows a mailbox. Ada Keller has asked a question there: reply with the name of the room, as "
        "the other mails tell it.",
        tags=("browser",),
        launches=(browser(f"http://{MAIL}/", "Inbox", SITES_PORT),),
        sites=_mailbox,
        moves=(
            click(seen("link", "A question")),
            click(seen("link", "Inbox"), when=seen("heading", "A question")),
            click(seen("link", "Room of the budget")),
            click(seen("link", "Inbox"), when=seen("heading", "Room of the budget")),
            click(seen("link", "A question")),
            click(seen("link", "Reply"), when=seen("heading", "A question")),
            click(seen("entry", "Text"), when=seen("heading", "Reply to")),
            write("It is in Cedar."),
            click(seen("push-button", "Send")),
            pause(0.5, when=seen("heading", "Sent")),
        ),
        done=_answered,
    ),
    DesktopTask(
        name="shop-price",
        wish="needs.ods is open in Calc, a shop in the browser. Find what the brass lamp costs in the shop, put the "
        "number into B2 of needs.ods, and save it. Order nothing.",
        tags=("browser", "calc"),
        files=lambda: {"needs.ods": papers.spreadsheet(_NEEDS, "Needs")},
        launches=(calc("needs.ods"), browser(f"http://{SHOP}/", "Hearth and Home", SITES_PORT)),
        sites=_shop,
        moves=(
            click(seen("entry", "Search", exactly=True), when=seen("heading", "Hearth and Home")),
            write("brass lamp\n"),
            click(seen("link", "Brass lamp")),
            keys("alt", "tab", when=seen("heading", "Brass lamp")),
            keys("ctrl", "home", when=window("needs.ods")),
            keys("down"),
            keys("right"),
            write("62.5\n"),
            keys("ctrl", "s", when=seen("table-cell", text="62.5")),
            pause(1.0, when=window("needs.ods")),
        ),
        done=_looked_up,
    ),
)
