"""All the quantities (numbers) and facts (texts) of the grammar, by their patterns."""

from __future__ import annotations

from silva.envs.gyms.files.grammar import ledgers, sights
from silva.envs.gyms.files.grammar.quantity import Make

NUMBERS: dict[str, Make] = {
    each.__name__: each
    for each in (
        ledgers.total,
        ledgers.cell,
        ledgers.joined,
        ledgers.paragraph,
        ledgers.invoice,
        ledgers.slides,
        ledgers.minutes,
        sights.counted,
        sights.price,
        sights.almanac,
        sights.logged,
    )
}
TEXTS: dict[str, Make] = {each.__name__: each for each in (ledgers.largest, ledgers.keeper, sights.outermost)}
