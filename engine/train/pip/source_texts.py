"""Texts for the rewriting tasks, put together from sentence templates and the word banks.

Templates avoid "he" and "she", so that a renamed person needs no other change.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property

from . import words

NOTE = """
{A} left the {K} {spot} this morning.
Please tell {A} that the {K} is ready.
The {K} for {A} will arrive on {day}.
{B} called at {time} and asked about the {adj} {o}.
We still need {n} {os} and a {adj} {o} before {day}.
Do not forget to bring the {o} back to {P}.
The key to the {b} is {spot}.
{A} is in {P} until {day}.
I paid {eur} for the {K}, so please keep the receipt.
{B} wants to swap the {o} for two {os}.
The {o} {spot} belongs to {A}.
Can you {vb} the {o} before {time}?
{A} and {B} will {vb} the {os} on {day}.
There are {n} {os} {spot}, and one is broken.
If the {K} does not fit, send it back to {P}.
{B} {adv} {vp} the {o} and put it {spot}.
The bus to {P} leaves at {time}.
I put the {colour} {o} next to the {K}.
The {job} will come on {day} to look at the {K}.
Ask {A} for the code, it is {code}.
The shop in {P} closes at {time} on {day}.
{B} still owes {A} {eur} for the {o}.
Someone has taken the {adj} {o} from the {b}.
My number until {day} is {phone}.
Water the {plant} twice a week, {A} said.
{A} needs the {K} more than the {o}.
The {colour} box holds {n} {os}.
Remember: {A} does not like {food}.
{B} moved the meeting to {time}.
Put the {o} {spot} when you are done.
The new {K} costs {eur} in {P}.
The old {o} still works, but the {o} is broken.
{A} will pick up the {K} after {time}.
Leave the window of the {b} open until {time}.
{A} {vp} {n} {os} and {vp} the {K}.
The dentist moved the date to {date}.
On {date} we drive to {P} with {B}.
Bring {food}, {food} and a {adj} {o} to the picnic.
The parcel {code} is at the neighbour's house.
{A} left a message for {B} {spot}.
Nobody in {P} has seen the {adj} {o}.
We meet {spot} at {time}.
The {o} is for {A}, and the {o} is for {B}.
Feed the {animal} at {time}, and give it no {food}.
I found a {adj} {o} {spot}.
{A} asked me to {vb} the {K}.
The {job} from {P} has not answered yet.
It rained all {day}, so the {o} is still wet.
Turn off the {K} before you go to bed.
The {K} makes a {adj} noise.
Please buy {n} {os} and no {food}.
{B} has the list, and {A} has the money.
Our train is number {n}, and it stops in {P}.
The {o} goes on the left and the {o} on the right.
{A} lives at {number} {street}.
The spare key is under the {adj} {o}.
On {day} the {b} is closed.
Tell {B} to {vb} the {colour} {o} first.
{A} has {n} {os} too many.
I will be at the {b} from {time} on.
We have {n} days left to {vb} the {K}.
The {K} was {eur}, which {A} found too much.
"""

LETTER = """
Thank you for the {K} that you sent from {P}.
I hope that you and {A} are well.
Last {day} we went to {P} and saw a {adj} {b}.
{A} has started to learn {hobby}.
The {K} now stands {spot}.
We are planning a visit on {date}.
It has been {n} weeks since we last wrote.
{A} bought a {adj} {o} for {eur}.
In {P} the days are long, and we eat a lot of {food}.
Our {animal} still hides {spot}.
I am writing to ask about the {K} with the number {code}.
The {K} arrived on {date}, but the box was open.
Could you please send {n} {os} to {number} {street}?
{A} told me that the {b} in {P} is closed now.
We would like to invite you to the {b} on {date}.
Please answer before {date}.
{A} and {B} send their best wishes.
The weather was {adj}, and we {vp} a {o}.
Do you remember the {adj} {o} {spot}?
I enclose a {o} and {n} {os}.
The price of {eur} seems high for a {adj} {o}.
{B} works as a {job} in {P} now.
My new address is {number} {street}, {P}.
We were sorry to hear that the {K} broke.
{A} {adv} {vp} the {o} that you gave us.
You can reach me at {phone} after {time}.
The children have a {adj} {animal}.
On {day} morning we {vp} the {os} {spot}.
I would love to see the {K} again.
{A} asks whether you still have the {colour} {o}.
We paid {eur} on {date} and have not had an answer.
The journey to {P} took {n} hours.
{B} has written a book about {hobby}.
Our neighbour, a {job}, gave us {n} {os}.
There is a room for you above the {b}.
Next month {A} will move to {P}.
The garden is full of {os} this year.
I have never seen such a {adj} {o}.
Please bring a {o}, because the evenings are cold.
{A} keeps the {K} in a {colour} box.
If you come by train, get off at {P}.
We counted {n} {os} on the way.
I am sorry that I forgot the {o}.
{B} says that the {adj} {o} was a gift.
The table for {n} people is booked for {time}.
Your order {code} left our house on {day}.
{A} sang, {B} danced, and the {animal} slept.
The {K} needs a new {o}.
We all miss the {food} from {P}.
It would be kind of you to {vb} the {K}.
In the evening {A} reads {spot}.
The {b} where we met is now a {b}.
I will bring the {K} when I come in {month}.
{A} won a {adj} {o} at the fair in {P}.
We have room for {n} guests and one {animal}.
Last night a {adj} {animal} {vp} our {food}.
The doctor told {A} to try {hobby}.
The {os} that you ordered cost {eur}.
My cousin {B} will {vb} the {o} for you.
There was no {K} in the parcel, only a {o}.
Write soon and tell us about {P}.
With the letter you will find a {adj} {o}.
"""

TALE = """
Once there was a {adj} {animal} who lived {spot}.
{A} found a {adj} {K} {spot}.
One {day} {A} walked to {P} with a {colour} {o}.
The {K} began to glow in the dark.
{B} the {job} had never seen such a {adj} {o}.
"Where is my {K}?" asked {A}.
"It is {spot}," said {B}.
All night the {animal} {vp} the {os}.
In {P} every {job} owned a {adj} {o}.
{A} {adv} opened the door of the {b}.
Behind it stood {n} {os} and a {adj} {animal}.
{B} laughed and {vp} the {o}.
The {K} was heavier than a {o}.
Nobody in {P} believed {A}.
The {animal} knew the way to the {b}.
{A} tied the {K} to a {adj} {o}.
Far away, near {P}, a {adj} {b} stood empty.
"Take this {o}," said the {job}, "and do not look back."
{A} and {B} shared {food} and {food}.
The wind carried the {o} over the {b}.
At midnight the {adj} {animal} came back.
{A} gave the {K} to {B}.
The {job} counted {n} {os} and fell asleep.
Then the {K} rolled down to the river.
{B} was not afraid of the {adj} {animal}.
For {n} days it rained on {P}.
{A} wished for a {colour} {o} and nothing else.
The road to {P} was {adj} and long.
A {adj} voice called {A} by name.
"I have lost my {o}," said the {animal}.
{B} {adv} {vp} the {K} once more.
Under the {b} lay a {adj} {o}.
The {animal} {vp} the {o} and ran to {P}.
{A} promised to {vb} the {K} before {day}.
No one had {food} left, so {B} went to {P}.
The old {job} smiled at {A}.
{A} climbed the {b} and saw the lights of {P}.
The {K} had {n} tiny doors.
A {colour} {animal} sat {spot} and listened.
"You may keep it," said {B} {adv}.
The map showed a {o} and a {adj} {b}.
In the morning the {K} was gone.
{A} looked {spot}, but there was only a {o}.
The people of {P} built a {b} out of {os}.
{B} painted the {o} {colour}.
At last {A} heard the {animal} {spot}.
From that day on the {K} belonged to {P}.
The {animal} and {A} became friends.
They ate {food} until {time}.
Every {day} the {job} {vp} the {K}.
{A} whispered a word to the {o}.
The {adj} {K} sang when {B} touched it.
There was a hole in the {o} of {A}.
Snow fell on the {b} and on {n} {os}.
{A} had one {o}, and {B} had two.
"Follow the {animal}," said the {adj} {job}.
The {b} in {P} had no door.
{B} asked for {n} {os}, but got a {adj} {o}.
The moon shone on the {K}.
And so {A} went home to {P} with the {K}.
The {animal} could {vb} a {o} in the dark.
Slowly the {K} turned {colour}.
"""

MINUTES = """
{A} opened the meeting at {time}.
{B} reported on the {topic}.
The {topic} will cost {eur} more than planned.
{A} will {vb} the {K} by {day}.
The group agreed to buy {n} {os}.
{B} asked for a new {K}.
The next meeting is on {date} in {P}.
{A} and {B} will check the {topic}.
The {K} stays {spot} for now.
No decision was made about the {topic}.
The office in {P} needs {n} {os}.
{A} showed a {adj} {o} as a sample.
The {topic} was moved to {date}.
{B} thanked the {job} for the help.
{n} people voted for the {adj} {o}.
{A} will call the {job} at {phone}.
The order {code} is late.
The {topic} and the {topic} are done.
{B} will write to the team in {P}.
The old {K} will be sold for {eur}.
{A} was absent because of a trip to {P}.
The {b} must be clean by {time}.
{B} found {n} mistakes in the list.
The team needs a {K} with a {adj} {o}.
{A} suggested a visit to the {b} in {P}.
All {os} must be counted before {date}.
The budget for the {K} is {eur}.
{B} will {vb} the {os} next {day}.
The {job} from {P} sent an offer.
{A} closed the meeting at {time}.
The {topic} needs one more week.
{B} keeps the list of {os}.
The {colour} {K} was chosen.
Two {os} went missing {spot}.
{A} takes over the {topic} from {B}.
The {adj} {o} goes back to {P}.
The rent of the {b} rises by {eur}.
{B} will bring {food} next time.
{n} guests from {P} are expected on {day}.
The {K} passed the test with code {code}.
{A} will order a {o} for the {b}.
The group will meet {spot}.
The report on the {topic} is due on {date}.
{B} did not agree with the {topic}.
The {K} is too {adj} for the {b}.
{A} collected {eur} for the {topic}.
The door of the {b} needs a new {o}.
There were {n} questions about the {topic}.
{B} is looking for a {job}.
The sign near the {b} will be painted {colour}.
{A} explained how to {vb} the {K}.
The {topic} costs less in {P}.
{B} will send {n} {os} to {street}.
The team in {P} has a new {job}.
The {o} {spot} is still broken.
{A} reminded everyone of the {topic}.
We stop using the {adj} {K} in {month}.
The talk about the {topic} was short.
{B} moved {n} boxes to the {b}.
The {K} will be shown on {day} at {time}.
The new rule starts on {date}.
{A} noted the wishes of {B}.
"""

RECIPE = """
Mix {n} spoons of {food} with the {food}.
Add {n} grams of {food}.
Stir the {food} for {n} minutes.
Heat the {adj} pan and melt the {food}.
Cut the {food} into small pieces.
Pour in a cup of {food}.
Season with {food} and {food}.
Bake at {temp} degrees for {n} minutes.
Let it rest for {n} minutes.
Put the {food} in a {adj} bowl.
Wash the {food} in cold water.
Cook the {food} until soft.
Add a pinch of {food}.
Fold in the {food} with a wooden spoon.
Serve with {food} and a little {food}.
Sprinkle {food} on top.
Cover the bowl with a {adj} cloth.
Leave the {food} {spot} for {n} hours.
Beat the {food} until light and fluffy.
Drain the {food} and keep the water.
Taste it and add more {food}.
Fry the {food} in {food}.
Turn the heat down after {n} minutes.
Grease the tin with {food}.
Boil {n} cups of water with {food}.
Chop the {food} and the {food}.
Spread the {food} over the {food}.
Cool the {food} for {n} minutes.
Warm the {food}, but never let the pot boil.
Whisk the {food} and {n} spoons of {food}.
Roll the dough with a {adj} bottle.
Fill the jar with {food}.
Line the tray with paper and add the {food}.
Press the {food} through a sieve.
Grate {n} grams of {food} over it.
Set the timer to {n} minutes.
Use {food} instead of {food} if you like.
Divide the {food} into {n} parts.
Place the tin in the oven at {temp} degrees.
Squeeze the {food} by hand.
Mash the {food} with a fork.
Soak the {food} for {n} hours.
Brush the top with {food}.
Remove the {food} from the heat.
Toast the {food} in a dry pan.
Crush the {food} with a {adj} cup.
Layer the {food} and the {food}.
Wait {n} minutes before you add the {food}.
Decorate with {food} and {n} leaves.
Peel the {food} and throw nothing away.
Weigh {n} grams of {food} and set the rest aside.
Freeze half of the {food}.
Simmer the {food} on low heat.
Knead the dough for {n} minutes.
Shape {n} balls from the {food}.
Rub the {food} with {food}.
Strain the {food} into a {adj} jug.
Blend the {food} with the {food} until smooth.
Test it with a {adj} fork.
Keep the {food} warm until {time}.
Slice the {food} and lay it on a plate.
Save a spoon of {food} for the end.
"""

CONFIG_KEYS: tuple[str, ...] = tuple(
    """
port host timeout retries log_level cache_size max_users theme language region backup_path data_dir window_width
window_height font_size volume brightness refresh_rate batch_size workers queue_size user_name server_name database
table_prefix session_length upload_limit image_quality frame_rate page_size time_zone currency title author version
mode color border margin padding indent tab_width auto_save dark_mode show_hints sound music difficulty lives speed
gravity seed depth threads memory_limit disk_limit proxy endpoint api_key token_length password_length email_from
email_to reply_delay max_items min_items sort_by group_by filter prefix suffix encoding line_width start_page
end_page alarm interval offset scale rotation opacity
""".split()
)


_SLOT = re.compile(r"\{(\w+)\}")
_CURRENCIES = ("euros", "euros", "dollars", "crowns", "pounds")
_GREETINGS = ("Dear {}", "Hello {}", "Hi {}", "Good morning {}", "Good evening {}")
_CLOSINGS = (
    "Best wishes",
    "Kind regards",
    "Yours",
    "See you soon",
    "With love",
    "Many thanks",
    "Take care",
    "Greetings",
)


@dataclass(frozen=True)
class Cast:
    """Who and what a text is about; the same in all its sentences."""

    person: str
    other: str
    place: str
    thing: str


@dataclass(frozen=True)
class Source:
    """A text as its units: the lines of a text in lines, or the sentences of a single paragraph.

    `doc` is what a person would call it ("note"). `mark` stands before every line, as "- " in a list.
    """

    doc: str
    units: tuple[str, ...]
    cast: Cast
    by_line: bool
    mark: str = ""

    @property
    def text(self) -> str:
        return ("\n" if self.by_line else " ").join(self.mark + unit for unit in self.units)

    def with_units(self, units: list[str] | tuple[str, ...]) -> Source:
        return replace(self, units=tuple(units))


def amount(rng: random.Random) -> str:
    """A price with its currency: `12.95 euros`."""
    value = str(rng.randint(2, 950)) if rng.random() < 0.6 else f"{words.price(rng):.2f}"
    return f"{value} {rng.choice(_CURRENCIES)}"


Maker = Callable[[random.Random, Cast], str]

_MAKERS: dict[str, Maker] = {
    "A": lambda rng, cast: cast.person,
    "B": lambda rng, cast: cast.other,
    "P": lambda rng, cast: cast.place,
    "K": lambda rng, cast: cast.thing,
    "o": lambda rng, cast: words.thing(rng),
    "os": lambda rng, cast: words.plural(words.thing(rng)),
    "b": lambda rng, cast: rng.choice(words.BUILDINGS),
    "adj": lambda rng, cast: rng.choice(words.ADJECTIVES),
    "colour": lambda rng, cast: rng.choice(words.COLOURS),
    "animal": lambda rng, cast: rng.choice(words.ANIMALS),
    "plant": lambda rng, cast: rng.choice(words.GARDEN[:24]),
    "food": lambda rng, cast: rng.choice(words.INGREDIENTS),
    "job": lambda rng, cast: rng.choice(words.JOBS),
    "hobby": lambda rng, cast: rng.choice(words.HOBBIES),
    "topic": lambda rng, cast: rng.choice(words.SUBJECTS),
    "spot": lambda rng, cast: rng.choice(words.SPOTS),
    "adv": lambda rng, cast: rng.choice(words.ADVERBS),
    "vp": lambda rng, cast: rng.choice(words.VERBS_PAST),
    "vb": lambda rng, cast: rng.choice(words.VERBS_BASE),
    "n": lambda rng, cast: str(rng.randint(2, 24)),
    "number": lambda rng, cast: str(rng.randint(1, 199)),
    "temp": lambda rng, cast: str(rng.randrange(120, 250, 10)),
    "eur": lambda rng, cast: amount(rng),
    "day": lambda rng, cast: rng.choice(words.WEEKDAYS),
    "month": lambda rng, cast: rng.choice(words.MONTHS),
    "date": lambda rng, cast: words.day_of_year(rng),
    "time": lambda rng, cast: words.clock_time(rng),
    "street": lambda rng, cast: words.street(rng),
    "code": lambda rng, cast: words.code(rng),
    "phone": lambda rng, cast: words.phone(rng),
}


@dataclass(frozen=True)
class Bank:
    """The sentence templates of one kind of text."""

    templates: tuple[str, ...]

    @cached_property
    def with_slot(self) -> dict[str, tuple[str, ...]]:
        """The templates that mention a slot, by slot."""
        return {
            slot: tuple(one for one in self.templates if f"{{{slot}}}" in one)
            for slot in ("A", "B", "P", "K")
        }

    def draw(self, rng: random.Random, count: int, about: str) -> list[str]:
        """`count` different templates, two of which mention the slot `about`, where the bank has such."""
        known = self.with_slot[about]
        chosen = rng.sample(known, 2) if len(known) > 1 else []
        while len(chosen) < count:
            template = rng.choice(self.templates)
            if template not in chosen:
                chosen.append(template)
        rng.shuffle(chosen)
        return chosen


def _bank(lines: str) -> Bank:
    return Bank(tuple(lines.strip().splitlines()))


BANKS = {"note": _bank(NOTE), "letter": _bank(LETTER), "tale": _bank(TALE), "minutes": _bank(MINUTES),
         "recipe": _bank(RECIPE)}  # fmt: skip


def fill(rng: random.Random, template: str, cast: Cast) -> str:
    """The template as a sentence, its first letter a capital."""
    pieces = _pieces(template)
    filled = "".join(
        piece if index % 2 == 0 else _MAKERS[piece](rng, cast) for index, piece in enumerate(pieces)
    )
    sentence = words.fix_articles(filled)
    return sentence[:1].upper() + sentence[1:]


@cache
def _pieces(template: str) -> tuple[str, ...]:
    """Literal text and slot names in turn, literal first."""
    return tuple(_SLOT.split(template))


def make_cast(rng: random.Random) -> Cast:
    """Two people, a place and a thing that share no word."""
    person, other = words.first_name(rng), words.first_name(rng)
    if person == other:
        return make_cast(rng)
    return Cast(person, other, words.place(rng), words.thing(rng))


def prose(rng: random.Random, doc: str, count: int, about: str = "A") -> Source:
    """A note, tale or minutes of `count` sentences, as one paragraph or one per line."""
    cast = make_cast(rng)
    sentences = [fill(rng, template, cast) for template in BANKS[doc].draw(rng, count, about)]
    by_line = rng.random() < {"note": 0.3, "tale": 0.1, "minutes": 0.7, "recipe": 0.8}[doc]
    mark = "- " if doc == "minutes" and by_line and rng.random() < 0.3 else ""
    return Source(doc, tuple(sentences), cast, by_line, mark)


def letter(rng: random.Random, count: int, about: str = "A") -> Source:
    """A letter in lines: greeting, a paragraph of `count` sentences, closing and name."""
    cast = make_cast(rng)
    body = " ".join(
        fill(rng, template, cast) for template in BANKS["letter"].draw(rng, count, about)
    )
    opening = rng.choice(_GREETINGS).format(words.first_name(rng))
    doc = rng.choice(("letter", "letter", "message", "email"))
    return Source(
        doc,
        (f"{opening},", body, f"{rng.choice(_CLOSINGS)},", words.first_name(rng)),
        cast,
        by_line=True,
    )


def greeting(rng: random.Random) -> str:
    """A line to open a letter with."""
    return rng.choice(_GREETINGS).format(words.first_name(rng)) + ","


def closing(rng: random.Random) -> str:
    """A line to end a letter with."""
    return f"{rng.choice(_CLOSINGS)}, {words.first_name(rng)}"


def _shopping(rng: random.Random) -> str:
    item = words.thing(rng)
    return rng.choice((item, words.plural(item), f"{rng.randint(2, 12)} {words.plural(item)}"))


def _chore(rng: random.Random) -> str:
    deed = f"{rng.choice(words.VERBS_BASE)} the {rng.choice(words.NOUNS)}"
    return rng.choice(
        (deed, f"call {words.first_name(rng)}", f"write to {words.first_name(rng)}", deed)
    )


_ITEMS: tuple[tuple[str, Callable[[random.Random], str]], ...] = (
    ("list", _shopping),
    ("shopping list", _shopping),
    ("list", words.first_name),
    ("list of names", words.first_name),
    ("guest list", words.full_name),
    ("list", words.place),
    ("list of towns", words.place),
    ("list", words.thing),
    ("list of words", lambda rng: rng.choice(words.ADJECTIVES)),
    ("list of colours", lambda rng: rng.choice(words.COLOURS)),
    ("to-do list", _chore),
    ("list", words.described),
    ("list of animals", lambda rng: rng.choice(words.ANIMALS)),
    ("list of jobs", lambda rng: rng.choice(words.JOBS)),
    ("list", lambda rng: f"{rng.choice(words.COLOURS)} {words.thing(rng)}"),
)


def items(rng: random.Random, count: int) -> tuple[str, tuple[str, ...]]:
    """`count` items and what their list is called; no two have the same first letter."""
    doc, make = rng.choice(_ITEMS)
    found: dict[str, str] = {}
    while len(found) < count:
        item = make(rng)
        found.setdefault(item[0].lower() if item[0].isalpha() else item.split()[-1][0], item)
    return doc, tuple(found.values())


def item_list(rng: random.Random, count: int) -> Source:
    """A list of `count` items, one per line."""
    doc, found = items(rng, count)
    return Source(doc, found, make_cast(rng), by_line=True)


def config_value(rng: random.Random) -> str:
    return rng.choice(_CONFIG_VALUES)(rng)


_CONFIG_VALUES: tuple[Callable[[random.Random], str], ...] = (
    lambda rng: str(
        rng.choice((rng.randint(0, 20), rng.randint(10, 500), rng.randint(1000, 65000)))
    ),
    lambda rng: rng.choice(("true", "false", "on", "off", "yes", "no", "auto", "none")),
    lambda rng: f"0.{rng.randint(1, 99):02}",
    lambda rng: rng.choice(words.COLOURS),
    lambda rng: f"{rng.randint(1, 90)}{rng.choice(('s', 'm', 'px', 'mb', '%', 'ms'))}",
)


CONFIG_TEMPLATES = ("--{}={}", "{} = {}", "{}={}", "{}: {}", "set {} {}", "{} -> {}", "{} {}")


@dataclass(frozen=True)
class Config:
    """Settings, one per line: `template.format(key, value)`."""

    settings: tuple[tuple[str, str], ...]
    template: str

    def source(self, rng: random.Random) -> Source:
        doc = rng.choice(("config", "config file", "settings file"))
        return Source(doc, self.lines(), make_cast(rng), by_line=True)

    def lines(self) -> tuple[str, ...]:
        return tuple(self.template.format(key, value) for key, value in self.settings)


def config(rng: random.Random, count: int) -> Config:
    """`count` settings in one of several notations; all keys and all values differ."""
    keys = rng.sample(CONFIG_KEYS, count)
    template = rng.choice(CONFIG_TEMPLATES)
    if rng.random() < 0.2:
        keys = [key.upper() for key in keys]
    values: dict[str, None] = {}
    while len(values) < count:
        values[config_value(rng)] = None
    return Config(tuple(zip(keys, values, strict=True)), template)


def rows(rng: random.Random, count: int) -> Source:
    """Lines of comma separated values."""
    makers: list[Callable[[random.Random], str]] = rng.sample(
        (
            words.first_name, words.place, words.thing, words.iso_date, words.code, words.phone,
            lambda rng: str(rng.randint(1, 999)), lambda rng: rng.choice(words.JOBS), words.clock_time,
        ),
        rng.randint(2, 4),
    )  # fmt: skip
    lines = (",".join(make(rng) for make in makers) for _ in range(count))
    return Source("list", tuple(dict.fromkeys(lines)), make_cast(rng), by_line=True)


@dataclass(frozen=True)
class Form:
    """A text with blanks, the values by the label of their blank, and the text with all of them in place."""

    blank: str
    values: dict[str, str]
    filled: str


_FORM_FIELDS: dict[str, Callable[[random.Random], str]] = {
    "name": words.full_name,
    "first name": words.first_name,
    "last name": lambda rng: rng.choice(words.LAST_NAMES),
    "town": words.place,
    "street": lambda rng: f"{words.street(rng)} {rng.randint(1, 199)}",
    "phone": words.phone,
    "date": words.day_of_year,
    "time": words.clock_time,
    "item": words.described,
    "colour": lambda rng: rng.choice(words.COLOURS),
    "number": lambda rng: str(rng.randint(1, 60)),
    "price": amount,
    "order": words.code,
    "job": lambda rng: rng.choice(words.JOBS),
    "hobby": lambda rng: rng.choice(words.HOBBIES),
    "age": lambda rng: str(rng.randint(6, 92)),
    "guest": words.full_name,
    "day": lambda rng: rng.choice(words.WEEKDAYS),
    "pet": lambda rng: rng.choice(words.ANIMALS),
    "dish": lambda rng: rng.choice(words.DISHES),
    "room": lambda rng: str(rng.randint(1, 420)),
    "room type": lambda rng: rng.choice(("single", "double", "twin", "family")),
    "email": lambda rng: f"{words.first_name(rng).lower()}@{words.thing(rng)}.example",
    "size": lambda rng: rng.choice(("small", "medium", "large", "extra large")),
    "from": words.place,
    "to": words.place,
    "seat": lambda rng: f"{rng.randint(1, 40)}{rng.choice('ABCDEF')}",
    "paid": lambda rng: rng.choice(("yes", "no")),
}
_BLANK_LABELS = {
    "A": "name", "B": "friend", "P": "town", "K": "thing", "day": "day", "date": "date", "time": "time",
    "eur": "price", "n": "number", "phone": "phone", "code": "code", "street": "street",
}  # fmt: skip
_BLANK_STYLES = ("[{}]", "[{}]", "{{{}}}", "<{}>", "__{}__")


def form(rng: random.Random) -> Form:
    """A form in lines with gaps, or a letter or note with named blanks."""
    return _line_form(rng) if rng.random() < 0.5 else _letter_form(rng)


def _line_form(rng: random.Random) -> Form:
    """`Name: ____` and the like."""
    labels = rng.sample(list(_FORM_FIELDS), rng.randint(3, 6))
    values = {label: _FORM_FIELDS[label](rng) for label in labels}
    gap = rng.choice(("____", "...", "______", "[ ]", "?"))
    write = str.capitalize if rng.random() < 0.8 else str.upper
    title = rng.choice(
        ("", "", "Booking", "Visitor form", "Order form", "Registration", f"Card {words.code(rng)}")
    )
    head = f"{title}\n" if title else ""
    blank = "\n".join(f"{write(label)}: {gap}" for label in labels)
    filled = "\n".join(f"{write(label)}: {value}" for label, value in values.items())
    return Form(head + blank, values, head + filled)


def _letter_form(rng: random.Random) -> Form:
    """Sentences of a note or letter with some of their slots left as named blanks."""
    bank = BANKS[rng.choice(("note", "letter", "minutes"))]
    cast = make_cast(rng)
    templates = bank.draw(rng, rng.randint(2, 5), rng.choice("ABPK"))
    slots = [
        slot for slot in dict.fromkeys(_SLOT.findall(" ".join(templates))) if slot in _BLANK_LABELS
    ]
    if len(slots) < 2:
        return _letter_form(rng)
    chosen = rng.sample(slots, min(len(slots), rng.randint(2, 5)))
    style = rng.choice(_BLANK_STYLES)
    blanks = {slot: style.format(_BLANK_LABELS[slot]) for slot in chosen}
    blank = " ".join(_fill_but(rng, template, cast, blanks) for template in templates)
    values = {_BLANK_LABELS[slot]: _MAKERS[slot](rng, cast) for slot in chosen}
    filled = blank
    for slot in chosen:
        filled = filled.replace(blanks[slot], values[_BLANK_LABELS[slot]])
    return Form(blank, values, filled)


def _fill_but(rng: random.Random, template: str, cast: Cast, blanks: dict[str, str]) -> str:
    """The template as a sentence with the slots of `blanks` left open."""
    kept = _SLOT.sub(lambda slot: f"\0{slot[1]}\0" if slot[1] in blanks else slot[0], template)
    sentence = fill(rng, kept, cast)
    return re.sub("\0(\\w+)\0", lambda slot: blanks[slot[1]], sentence)
