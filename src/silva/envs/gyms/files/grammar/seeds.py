"""Seeds: small worlds that a question is set in. Those of the tests and those of training share no name.

A theme has places, goods, people and the corpus's entries on its places. `TEST` is what the gym's own tasks are made
of, `TRAIN` what a writer may use; `apart` says what two of them share, which must be nothing.
"""

from __future__ import annotations

from silva.tree import Record


class Theme(Record, frozen=True, kw_only=True):
    """One small world. `trade`: what is done there; `goods`: what its tables list; `unit`: of weight."""

    name: str
    trade: str
    goods: tuple[str, ...]
    places: tuple[str, ...]
    people: tuple[str, ...]
    unit: str = "kg"


def _theme(name: str, trade: str, goods: str, places: str, people: str, unit: str = "kg") -> Theme:
    parts = (tuple(each.strip() for each in text.split(",")) for text in (goods, places, people))
    return Theme(name=name, trade=trade, goods=(made := [*parts])[0], places=made[1], people=made[2], unit=unit)


TEST: tuple[Theme, ...] = (
    _theme(
        "bakery",
        "a bakery with several shops",
        "rye bread, seed rolls, plum cake, pretzels, oat biscuits, cheese straws",
        "Brask, Orlehaven, Tindle, Vasby, Quent",
        "Mira Talvo, Jonas Erdem, Petra Lindqvist, Samuel Okoye, Ines Calder",
    ),
    _theme(
        "harbour",
        "a harbour office",
        "rope, lamp oil, canvas, salt, tar, copper nails",
        "Skarne, Dolmouth, Pellworth, Isk, Varnhem",
        "Hanna Brevik, Tomas Aldous, Ruth Imanov, Peder Solheim, Clara Whitlock",
        "t",
    ),
    _theme(
        "museum",
        "a museum of technology",
        "posters, model trains, puzzles, field guides, mugs, postcards",
        "Lennick, Fahrdorf, Ustrin, Maribel, Corvane",
        "Adela Moran, Viktor Strand, Nuria Castell, Emil Hartog, Yasmin Rehn",
    ),
    _theme(
        "orchard",
        "a cooperative of orchards",
        "apples, quinces, damsons, pears, walnuts, cherries",
        "Ambry, Nortel, Haglund, Sorrel, Eskmere",
        "Oskar Lindgren, Beata Nowicka, Hugo Ferrand, Lidia Brand, Kofi Mensah",
    ),
)

TRAIN: tuple[Theme, ...] = (
    _theme(
        "library",
        "a county library",
        "novels, atlases, picture books, maps, magazines, audio books",
        "Grendon, Palisa, Utterby, Mosk, Zelwick",
        "Dora Feld, Anton Krall, Sofie Lund, Pavel Iker, Marta Oyelaran",
    ),
    _theme(
        "garden",
        "a nursery for plants",
        "tulip bulbs, lavender, ivy, compost, clay pots, seed trays",
        "Hollin, Tarsk, Bremble, Odderby, Finch Hill",
        "Greta Olsen, Marek Dusek, Leila Haddad, Ivar Moen, Rosa Pintor",
    ),
    _theme(
        "workshop",
        "a bicycle workshop",
        "saddles, chains, brake pads, bells, inner tubes, pedals",
        "Kessel, Yarrow, Dunlin, Praska, Westry",
        "Felix Auber, Nadia Koval, Bruno Salas, Tove Krogh, Simon Adeyemi",
    ),
    _theme(
        "dairy",
        "a dairy",
        "butter, curd, goat cheese, buttermilk, yoghurt, cream",
        "Almere Dyke, Rosk, Hatherton, Juvik, Corrie",
        "Elin Storm, Patrick Doyle, Amara Diallo, Georg Winkler, Livia Conti",
    ),
    _theme(
        "observatory",
        "an observatory open to visitors",
        "star charts, lenses, tripods, badges, calendars, red lamps",
        "Teverin, Umber Hill, Nokk, Salter, Ravensby",
        "Irina Volk, Daniel Osei, Klara Benes, Matti Laine, Joana Prado",
    ),
    _theme(
        "ferry",
        "a ferry line",
        "day tickets, bicycle tickets, coffee, sandwiches, deck chairs, umbrellas",
        "Grimsund, Laxey Point, Torvik, Ebbing, Carrow",
        "Nils Hagen, Oona Kelly, Ravi Menon, Stella Marsh, Bogdan Illic",
    ),
    _theme(
        "school",
        "a school of music",
        "strings, reeds, metronomes, stands, song books, drum sticks",
        "Altmoor, Fenwick, Drosta, Killane, Pemberley Cross",
        "Agnes Thorne, Luca Ferri, Zuzana Hrubá, Owen Price, Mina Sato",
    ),
    _theme(
        "forest",
        "a forestry office",
        "larch planks, fence posts, firewood, saplings, resin, bark mulch",
        "Ulvsund, Thornley, Krasna, Birkdale, Mellow Fen",
        "Signe Dahl, Rafael Ortiz, Helga Brandt, Tariq Aziz, Wanda Zielinska",
        "t",
    ),
)


def apart(one: tuple[Theme, ...], other: tuple[Theme, ...]) -> list[str]:
    """The names that stand in both: empty, or a question of one could be a question of the other."""
    return sorted(_names(one) & _names(other))


def _names(themes: tuple[Theme, ...]) -> set[str]:
    return {
        name.casefold()
        for theme in themes
        for name in (theme.name, theme.trade, *theme.goods, *theme.places, *theme.people)
    }
