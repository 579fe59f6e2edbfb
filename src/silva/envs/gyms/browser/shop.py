"""A shop: shelves, a search, a basket, a checkout, orders and refunds. All of its state is here, for one episode.

/ ─▶ /search?q= ─▶ /product/N ─▶ add ─▶ /basket ─▶ /checkout ─▶ place ─▶ /order/N ─▶ refund
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

from silva.envs.gyms.browser.website import Request, Response, page, redirect

HOST = "shop.test"
REASONS = ("arrived damaged", "not as described", "no longer wanted")
_LINKS = '<p><a href="/">Shop</a> <a href="/basket">Basket</a> <a href="/orders">Orders</a></p>'


@dataclass(frozen=True)
class Product:
    """What is sold. `price` in pence."""

    number: int
    name: str
    kind: str
    price: int
    stock: int
    about: str = ""


@dataclass
class Order:
    """What was bought: pieces by product number, where it goes, when; `refunds` are reasons by product number."""

    number: int
    pieces: dict[int, int]
    address: str
    month: str
    refunds: dict[int, list[str]] = field(default_factory=dict)


class Shop:
    """The site. `orders` holds past orders and those that are placed; `addresses` are lines by their name."""

    def __init__(self, products: list[Product], orders: list[Order], addresses: Mapping[str, str]) -> None:
        self.products = {product.number: product for product in products}
        self.orders = {order.number: order for order in orders}
        self.addresses = addresses
        self.basket: dict[int, int] = {}
        self.placed: list[Order] = []

    def respond(self, request: Request) -> Response:
        """Answer one request."""
        first, _, rest = request.path.strip("/").partition("/")
        answer = getattr(self, f"_{request.method.lower()}_{first or 'front'}", None)
        made = answer(request, int(rest) if rest.isdigit() else 0) if answer is not None else None
        return made or page("Not found", f"{_LINKS}<p>There is no such page.</p>", status=404)

    def total(self, order: Order) -> int:
        """What an order costs, in pence."""
        return sum(self.products[number].price * count for number, count in order.pieces.items())

    def _get_front(self, request: Request, number: int) -> Response:
        kinds = sorted({product.kind for product in self.products.values()})
        shelves = "".join(f'<li><a href="/search?q={escape(kind)}">{escape(kind)}</a></li>' for kind in kinds)
        search = '<form action="/search"><label>Search <input name="q"></label> <button>Search</button></form>'
        return page("Hearth and Home", f"{_LINKS}{search}<h2>Shelves</h2><ul>{shelves}</ul>")

    def _get_search(self, request: Request, number: int) -> Response:
        wanted = request.query.get("q", "").lower().split()
        found = [p for p in self.products.values() if all(word in f"{p.name} {p.kind}".lower() for word in wanted)]
        rows = "".join(f'<li><a href="/product/{p.number}">{escape(p.name)}</a> {pounds(p.price)}</li>' for p in found)
        return page(f"{len(found)} results for {request.query.get('q', '')}", f"{_LINKS}<ul>{rows}</ul>")

    def _get_product(self, request: Request, number: int) -> Response | None:
        found = self.products.get(number)
        if found is None:
            return None
        stock = f"{found.stock} in stock" if found.stock else "Sold out"
        add = (
            f'<form method="post" action="/add/{number}"><label>Pieces '
            '<input type="number" name="count" value="1" min="1"></label> <button>Add to basket</button></form>'
        )
        body = (
            f"<p>{escape(found.about)}</p><p>Price: {pounds(found.price)}</p><p>{stock}</p>{add if found.stock else ''}"
        )
        return page(found.name, _LINKS + body)

    def _post_add(self, request: Request, number: int) -> Response | None:
        found, count = self.products.get(number), request.form.get("count", "1")
        if found is None or not found.stock:
            return None
        if not count.isdigit() or not 0 < int(count) <= found.stock - self.basket.get(number, 0):
            return page("Not that many", f"{_LINKS}<p>There are {found.stock} pieces in stock.</p>", status=400)
        self.basket[number] = self.basket.get(number, 0) + int(count)
        return redirect("/basket")

    def _get_basket(self, request: Request, number: int) -> Response:
        rows = "".join(
            f"<li>{count} x {escape(self.products[which].name)} {pounds(self.products[which].price * count)}"
            f'<form method="post" action="/remove/{which}"><button>Remove {escape(self.products[which].name)}</button>'
            "</form></li>"
            for which, count in self.basket.items()
        )
        total = sum(self.products[which].price * count for which, count in self.basket.items())
        out = f'<p>Total: {pounds(total)}</p><p><a href="/checkout">Check out</a></p>'
        return page("Basket", f"{_LINKS}<ul>{rows}</ul>{out}" if rows else f"{_LINKS}<p>The basket is empty.</p>")

    def _post_remove(self, request: Request, number: int) -> Response:
        self.basket.pop(number, None)
        return redirect("/basket")

    def _get_checkout(self, request: Request, number: int) -> Response:
        if not self.basket:
            return redirect("/basket")
        choices = "".join(
            f"<option value='{escape(name)}'>{escape(name)}: {escape(line)}</option>"
            for name, line in self.addresses.items()
        )
        form = (
            f'<form method="post" action="/place"><label>Send to <select name="address">{choices}</select></label> '
            "<button>Place order</button></form>"
        )
        return page("Check out", _LINKS + form)

    def _post_place(self, request: Request, number: int) -> Response | None:
        address = request.form.get("address", "")
        if not self.basket or address not in self.addresses:
            return None
        made = Order(max(self.orders, default=1000) + 1, dict(self.basket), address, "March")
        self.orders[made.number] = made
        self.placed.append(made)
        self.basket.clear()
        return redirect(f"/order/{made.number}")

    def _get_orders(self, request: Request, number: int) -> Response:
        rows = "".join(
            f'<li><a href="/order/{one.number}">Order {one.number}</a> {one.month}, {pounds(self.total(one))}</li>'
            for one in self.orders.values()
        )
        return page("Orders", f"{_LINKS}<ul>{rows}</ul>")

    def _get_order(self, request: Request, number: int) -> Response | None:
        order = self.orders.get(number)
        if order is None:
            return None
        rows = "".join(
            f"<li>{count} x {escape(self.products[which].name)}</li>" for which, count in order.pieces.items()
        )
        refunds = "".join(
            f"<p>Refund asked for {escape(self.products[which].name)}: {escape(reason)}</p>"
            for which, reasons in order.refunds.items()
            for reason in reasons
        )
        items = "".join(
            f"<option value='{which}'>{escape(self.products[which].name)}</option>" for which in order.pieces
        )
        reasons = "".join(f"<option>{escape(reason)}</option>" for reason in REASONS)
        form = (
            f'<h2>Ask for a refund</h2><form method="post" action="/refund/{number}">'
            f'<label>Item <select name="item">{items}</select></label>'
            f'<label>Reason <select name="reason">{reasons}</select></label> <button>Ask for refund</button></form>'
        )
        about = f"<p>Placed in {order.month}, sent to {escape(order.address)}. Total {pounds(self.total(order))}</p>"
        return page(f"Order {number}", f"{_LINKS}{about}<ul>{rows}</ul>{refunds}{form}")

    def _post_refund(self, request: Request, number: int) -> Response | None:
        order, item, reason = self.orders.get(number), request.form.get("item", ""), request.form.get("reason", "")
        if order is None or not item.isdigit() or int(item) not in order.pieces or reason not in REASONS:
            return None
        order.refunds.setdefault(int(item), []).append(reason)
        return redirect(f"/order/{number}")


def pounds(pence: int) -> str:
    """An amount, as prices are written."""
    return f"£{pence // 100}.{pence % 100:02}"
