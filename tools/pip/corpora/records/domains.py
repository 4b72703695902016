"""The domains of the records: the fields of a person, an order, a book ..., and how their values are made.

Their sentences stand in `domains.yaml`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from .. import words, yaml_file
from .domain import Domain, Field, Maker

_TEXTS = yaml_file.read(Path(__file__).with_suffix(".yaml"))
_WORDS = {name: words.bank(entry) for name, entry in _TEXTS["words"].items()}
_PLANTS = words.GARDEN[:24]
_LEVELS = ("low", "medium", "high")
_STATES = ("open", "done", "waiting", "late", "planned")


def _number(least: int, most: int) -> Maker:
    return lambda rng: rng.randint(least, most)


def _one_of(bank: tuple[str, ...]) -> Maker:
    return lambda rng: rng.choice(bank)


def _several(bank: tuple[str, ...], least: int = 2, most: int = 4) -> Maker:
    return lambda rng: rng.sample(bank, rng.randint(least, most))


def _yes_or_no(rng: random.Random) -> bool:
    return rng.random() < 0.5


def _plural_thing(rng: random.Random) -> str:
    return words.plural(words.thing(rng))


def _book_title(rng: random.Random) -> str:
    thing, building = words.thing(rng).capitalize(), rng.choice(words.BUILDINGS).capitalize()
    adjective = rng.choice(words.ADJECTIVES).capitalize()
    title = rng.choice(
        (
            f"The {adjective} {thing}", f"{adjective} {words.plural(thing.lower()).capitalize()}",
            f"The {thing} of {words.place(rng)}", f"The {thing} and the {building}", f"A {building} in {words.place(rng)}",
            f"{words.first_name(rng)} and the {thing}", f"Return to {words.place(rng)}", f"The {adjective} {building}",
        )
    )  # fmt: skip
    return words.fix_articles(title)


def _email(rng: random.Random) -> str:
    return f"{words.first_name(rng).lower()}@{words.thing(rng)}.example"


def _address(rng: random.Random) -> str:
    return f"{words.street(rng)} {rng.randint(1, 140)}"


def _pet_name(rng: random.Random) -> str:
    return rng.choice((rng.choice(_WORDS["pet_names"]), words.first_name(rng)))


def _team(rng: random.Random) -> str:
    return f"{words.place(rng)} {rng.choice(_WORDS['teams'])}"


def _domain(noun: str, plural: str, fields: Mapping[str, Field]) -> Domain:
    return Domain(noun, plural, fields, tuple(_TEXTS["sentences"][noun].splitlines()))


PERSON = _domain(
    "person", "people",
    {
        "name": Field(words.full_name, ("full_name", "person")),
        "age": Field(_number(4, 96), ("years", "age_in_years")),
        "city": Field(words.place, ("town", "home", "location")),
        "job": Field(_one_of(words.JOBS), ("work", "profession", "occupation")),
        "hobby": Field(_one_of(words.HOBBIES), ("pastime", "interest")),
        "phone": Field(words.phone, ("phone_number", "tel", "contact")),
        "married": Field(_yes_or_no, ("is_married",)),
        "email": Field(_email, ("mail",)),
    },
)  # fmt: skip

ORDER = _domain(
    "order", "orders",
    {
        "order": Field(_number(100, 9899), ("id", "order_number", "number")),
        "customer": Field(words.first_name, ("client", "buyer", "name")),
        "item": Field(_plural_thing, ("product", "goods", "article")),
        "quantity": Field(_number(2, 60), ("amount", "count", "pieces")),
        "price": Field(words.price, ("total", "cost", "sum")),
        "paid": Field(_yes_or_no, ("is_paid", "settled")),
        "city": Field(words.place, ("destination", "ship_to")),
        "date": Field(words.iso_date, ("ordered_on", "day")),
    },
)  # fmt: skip

BOOK = _domain(
    "book", "books",
    {
        "title": Field(_book_title, ("name", "book")),
        "author": Field(words.full_name, ("writer", "by")),
        "year": Field(_number(1902, 2025), ("published", "publication_year")),
        "pages": Field(_number(48, 980), ("page_count", "length")),
        "genre": Field(_one_of(_WORDS["genres"]), ("kind", "category")),
        "price": Field(words.price, ("cost",)),
        "in_stock": Field(_yes_or_no, ("available", "on_shelf")),
        "shelf": Field(words.code, ("place", "location")),
    },
)  # fmt: skip

RECIPE = _domain(
    "recipe", "recipes",
    {
        "dish": Field(lambda rng: f"{rng.choice(words.INGREDIENTS).rstrip('s')} {rng.choice(words.DISHES)}", ("name", "recipe", "title")),
        "ingredients": Field(_several(words.INGREDIENTS, 2, 5), ("needs", "contains")),
        "minutes": Field(_number(5, 180), ("time", "duration")),
        "servings": Field(_number(1, 12), ("people", "portions")),
        "vegetarian": Field(_yes_or_no, ("meat_free",)),
        "difficulty": Field(_one_of(("easy", "medium", "hard")), ("level",)),
    },
)  # fmt: skip

EVENT = _domain(
    "event", "events",
    {
        "event": Field(_one_of(_WORDS["events"]), ("name", "title", "what")),
        "date": Field(words.day_of_year, ("day", "when")),
        "time": Field(words.clock_time, ("start", "starts_at")),
        "place": Field(words.place, ("city", "where", "venue")),
        "guests": Field(_number(5, 400), ("visitors", "people", "seats")),
        "free": Field(_yes_or_no, ("free_entry",)),
        "host": Field(words.full_name, ("organiser", "contact")),
        "price": Field(_number(2, 90), ("ticket", "fee")),
    },
)  # fmt: skip

PET = _domain(
    "pet", "pets",
    {
        "name": Field(_pet_name, ("pet", "called")),
        "animal": Field(_one_of(_WORDS["pets"]), ("species", "kind", "type")),
        "age": Field(_number(1, 19), ("years",)),
        "colour": Field(_one_of(words.COLOURS), ("color", "fur")),
        "owner": Field(words.full_name, ("keeper", "belongs_to")),
        "weight": Field(lambda rng: round(rng.randint(11, 399) / 10 + 0.05, 2) if rng.random() < 0.5 else rng.randint(1, 45), ("kilos", "weight_kg")),
        "vaccinated": Field(_yes_or_no, ("has_shots",)),
        "toys": Field(_several(tuple(dict.fromkeys(words.TOYS[:20])), 2, 3), ("likes",)),
    },
)  # fmt: skip

DEVICE = _domain(
    "device", "devices",
    {
        "device": Field(_one_of(_WORDS["devices"]), ("type", "kind", "item")),
        "brand": Field(_one_of(_WORDS["brands"]), ("maker", "make")),
        "model": Field(words.code, ("version", "type_code")),
        "price": Field(words.price, ("cost",)),
        "year": Field(_number(2012, 2026), ("bought", "from")),
        "working": Field(_yes_or_no, ("works", "ok")),
        "room": Field(_one_of(_WORDS["rooms"]), ("place", "location")),
        "user": Field(words.first_name, ("owner", "person")),
    },
)  # fmt: skip

FLIGHT = _domain(
    "flight", "flights",
    {
        "flight": Field(lambda rng: f"{rng.choice('ABDKLNSTX')}{rng.choice('ABDKLNSTX')}{rng.randint(100, 9999)}", ("number", "flight_number", "code")),
        "origin": Field(words.place, ("from", "start")),
        "destination": Field(words.place, ("to", "goal")),
        "departure": Field(words.clock_time, ("leaves", "departs", "time")),
        "gate": Field(lambda rng: f"{rng.choice('ABCDEF')}{rng.randint(1, 60)}", ("exit",)),
        "seats": Field(_number(12, 380), ("places", "capacity")),
        "delayed": Field(_yes_or_no, ("late",)),
        "date": Field(words.day_of_year, ("day",)),
    },
)  # fmt: skip

TASK = _domain(
    "task", "tasks",
    {
        "task": Field(lambda rng: f"{rng.choice(words.VERBS_BASE)} the {rng.choice(words.NOUNS)}", ("title", "todo", "name")),
        "person": Field(words.first_name, ("owner", "assignee", "who")),
        "due": Field(words.day_of_year, ("due_date", "deadline", "until")),
        "priority": Field(_one_of(_LEVELS), ("importance", "level")),
        "done": Field(_yes_or_no, ("finished", "completed")),
        "hours": Field(_number(1, 40), ("effort", "estimate")),
        "tags": Field(_several(words.HOBBIES[:20] + words.JOBS[:20], 2, 3), ("labels",)),
        "status": Field(_one_of(_STATES), ("state",)),
    },
)  # fmt: skip

PLANT = _domain(
    "plant", "plants",
    {
        "plant": Field(_one_of(_PLANTS), ("name", "species")),
        "colour": Field(_one_of(words.COLOURS), ("color",)),
        "height": Field(_number(5, 320), ("height_cm", "size")),
        "spot": Field(_one_of(words.SPOTS), ("place", "where")),
        "water": Field(_number(2, 7), ("water_per_week", "watering")),
        "needs_sun": Field(_yes_or_no, ("sun",)),
        "planted": Field(words.day_of_year, ("date", "since")),
    },
)  # fmt: skip

PRODUCT = _domain(
    "product", "products",
    {
        "product": Field(words.described, ("name", "item", "article")),
        "price": Field(words.price, ("cost", "unit_price")),
        "stock": Field(_number(0, 500), ("count", "available", "in_stock")),
        "code": Field(words.code, ("id", "sku", "article_code")),
        "colours": Field(_several(words.COLOURS, 2, 3), ("variants",)),
        "weight": Field(_number(2, 900), ("grams", "weight_g")),
        "fragile": Field(_yes_or_no, ("breakable",)),
        "maker": Field(_one_of(_WORDS["brands"]), ("brand", "company")),
    },
)  # fmt: skip

BOOKING = _domain(
    "booking", "bookings",
    {
        "guest": Field(words.full_name, ("name", "booked_by")),
        "room": Field(_number(1, 420), ("room_number", "number")),
        "nights": Field(_number(2, 21), ("stay", "days")),
        "arrival": Field(words.day_of_year, ("from", "check_in", "date")),
        "people": Field(_number(2, 6), ("persons", "guests")),
        "breakfast": Field(_yes_or_no, ("with_breakfast",)),
        "hotel": Field(lambda rng: f"{rng.choice(words.STREETS)} {rng.choice(('Hotel', 'Inn', 'Lodge', 'House'))}", ("house", "place")),
    },
)  # fmt: skip

MATCH = _domain(
    "match", "matches",
    {
        "home": Field(_team, ("home_team", "team_a")),
        "away": Field(_team, ("away_team", "team_b")),
        "home_goals": Field(_number(0, 9), ("goals_a", "home_score")),
        "away_goals": Field(_number(0, 9), ("goals_b", "away_score")),
        "date": Field(words.day_of_year, ("day", "played_on")),
        "spectators": Field(_number(40, 9000), ("visitors", "crowd")),
    },
)  # fmt: skip

COURSE = _domain(
    "course", "courses",
    {
        "course": Field(_one_of(_WORDS["courses"]), ("subject", "name", "title")),
        "teacher": Field(words.full_name, ("tutor", "taught_by")),
        "day": Field(_one_of(words.WEEKDAYS), ("weekday", "when")),
        "room": Field(lambda rng: f"{rng.choice('ABCDE')}{rng.randint(1, 40)}", ("place", "hall")),
        "students": Field(_number(3, 60), ("pupils", "size")),
        "time": Field(words.clock_time, ("start", "begins")),
        "full": Field(_yes_or_no, ("is_full",)),
    },
)  # fmt: skip

CAR = _domain(
    "car", "cars",
    {
        "brand": Field(_one_of(_WORDS["brands"]), ("make", "maker")),
        "model": Field(lambda rng: rng.choice((words.first_name(rng), words.code(rng))), ("type",)),
        "colour": Field(_one_of(words.COLOURS), ("color", "paint")),
        "year": Field(_number(1962, 2026), ("built", "from")),
        "price": Field(_number(400, 60000), ("cost", "asking_price")),
        "kilometres": Field(_number(100, 300000), ("km", "distance")),
        "electric": Field(_yes_or_no, ("is_electric",)),
        "seller": Field(words.full_name, ("owner", "contact")),
    },
)  # fmt: skip

PARCEL = _domain(
    "parcel", "parcels",
    {
        "code": Field(words.code, ("id", "parcel", "tracking")),
        "sender": Field(words.full_name, ("from", "sent_by")),
        "receiver": Field(words.full_name, ("to", "recipient")),
        "street": Field(_address, ("address",)),
        "city": Field(words.place, ("town",)),
        "weight": Field(lambda rng: rng.randint(1, 30), ("kilos", "kg")),
        "express": Field(_yes_or_no, ("is_express", "urgent")),
        "contents": Field(_several(words.TOOLS[:30] + words.TOYS[:20], 2, 4), ("inside", "items")),
    },
)  # fmt: skip

DOMAINS: tuple[Domain, ...] = (
    PERSON, ORDER, BOOK, RECIPE, EVENT, PET, DEVICE, FLIGHT, TASK, PLANT, PRODUCT, BOOKING, MATCH, COURSE, CAR, PARCEL,
)  # fmt: skip
