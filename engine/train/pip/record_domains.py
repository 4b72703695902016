"""What records are about: the fields of a person, an order, a book ..., and sentences that tell such facts in prose.

A sentence names its fields in braces; the record that belongs to it has just these fields, in this order. A field that
is true or false is told as `{paid?already paid|not paid yet}`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from . import words

Scalar = str | int | float | bool
Value = Scalar | list[str]
Maker = Callable[[random.Random], Value]

_SLOT = re.compile(r"\{(\w+)(?:\?([^|}]*)\|([^}]*))?\}")


@dataclass(frozen=True)
class Field:
    """A fact: how its value is made, and by which other names people call it."""

    make: Maker
    synonyms: tuple[str, ...] = ()


@dataclass(frozen=True)
class Domain:
    """A kind of thing that records describe."""

    noun: str
    plural: str
    fields: Mapping[str, Field]
    sentences: tuple[str, ...]


def told_fields(sentence: str) -> tuple[str, ...]:
    """The fields that a sentence tells, in order."""
    return tuple(dict.fromkeys(slot[0] for slot in _parts(sentence)))


def tell(sentence: str, record: Mapping[str, Value]) -> str:
    """The sentence with the facts of the record in it."""

    def spoken(slot: re.Match[str]) -> str:
        value = record[slot[1]]
        if isinstance(value, bool):
            return str(slot[2] if value else slot[3])
        return words.joined(value) if isinstance(value, list) else str(value)

    return words.fix_articles(_SLOT.sub(spoken, sentence))


@cache
def _parts(sentence: str) -> tuple[tuple[str, str, str], ...]:
    return tuple(_SLOT.findall(sentence))


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


_EVENTS = (
    "concert", "workshop", "picnic", "fair", "lecture", "exhibition", "dinner", "parade", "quiz night", "book club",
    "flea market", "open day", "dance class", "reading", "chess evening", "garden party", "film night", "bake sale",
)  # fmt: skip
_DEVICES = (
    "laptop", "tablet", "phone", "router", "printer", "camera", "monitor", "speaker", "headset", "scanner", "drone",
    "keyboard", "projector", "radio", "thermostat", "sensor", "charger", "console", "watch", "robot",
)  # fmt: skip
_BRANDS = tuple(
    "Nordo Velka Amitron Quill Sunda Peralta Kombi Zenta Orbio Halden Mirax Tessel Brava Lumo Ferro".split()
)
_ROOMS = (
    "office",
    "kitchen",
    "hallway",
    "cellar",
    "library",
    "workshop",
    "studio",
    "attic",
    "lobby",
    "canteen",
    "garage",
)
_PETS = (
    "cat",
    "dog",
    "rabbit",
    "hamster",
    "parrot",
    "turtle",
    "pony",
    "goose",
    "lizard",
    "ferret",
    "canary",
    "snail",
)
_PLANTS = words.GARDEN[:24]
_TEAMS = tuple(
    "Falcons Otters Comets Rovers Tigers Swifts Badgers Lions Hornets Foxes Rangers Owls Bears Eagles".split()
)
_GENRES = (
    "mystery",
    "romance",
    "poetry",
    "fantasy",
    "travel",
    "history",
    "science fiction",
    "humour",
    "drama",
    "crime",
)
_SUBJECTS = (
    "music",
    "biology",
    "history",
    "drawing",
    "chemistry",
    "geometry",
    "cooking",
    "pottery",
    "grammar",
    "logic",
)
_LEVELS = ("low", "medium", "high")
_STATES = ("open", "done", "waiting", "late", "planned")
_PETNAMES = tuple(
    "Biscuit Pepper Momo Socks Waffle Pixel Shadow Ginger Bruno Nala Fig Truffle Ziggy Peanut Cosmo".split()
)


def _pet_name(rng: random.Random) -> str:
    return rng.choice((rng.choice(_PETNAMES), words.first_name(rng)))


def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.strip().splitlines())


PERSON = Domain(
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
    _lines("""
{name} is {age} years old and lives in {city}.
{name}, {age}, works as a {job} in {city}.
Meet {name}: {age} years old, {job}, from {city}.
My neighbour {name} is a {job} and {age} years old.
{name} lives in {city} and likes {hobby}.
You can reach {name} at {phone} or {email}.
{name} is {age}, {married?married|not married}, and works as a {job}.
The new {job} is {name} from {city}, phone {phone}.
{name} is a {age} year old {job} who loves {hobby}.
At {age}, {name} moved to {city} to work as a {job}.
{name} from {city} is {married?married|single} and enjoys {hobby}.
Our {job} {name} can be called at {phone}.
{name} ({age}) comes from {city}, and the phone number is {phone}.
"""),
)  # fmt: skip

ORDER = Domain(
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
    _lines("""
Order {order} from {customer}, {quantity} {item}, {paid?paid|not paid}.
{customer} ordered {quantity} {item} for {price} euros.
Order {order}: {quantity} {item} for {customer}, total {price}.
On {date}, {customer} ordered {quantity} {item}.
{customer} wants {quantity} {item} sent to {city}.
Order number {order} goes to {city}: {quantity} {item}, price {price}.
We got order {order} on {date} from {customer}, and it is {paid?already paid|not paid yet}.
{quantity} {item} for {customer} in {city}, {paid?paid in full|still unpaid}.
The {quantity} {item} of order {order} cost {price} euros, {paid?all paid|to be paid later}.
{customer} from {city} bought {quantity} {item} on {date} and paid {price}.
"""),
)  # fmt: skip

BOOK = Domain(
    "book", "books",
    {
        "title": Field(_book_title, ("name", "book")),
        "author": Field(words.full_name, ("writer", "by")),
        "year": Field(_number(1902, 2025), ("published", "publication_year")),
        "pages": Field(_number(48, 980), ("page_count", "length")),
        "genre": Field(_one_of(_GENRES), ("kind", "category")),
        "price": Field(words.price, ("cost",)),
        "in_stock": Field(_yes_or_no, ("available", "on_shelf")),
        "shelf": Field(words.code, ("place", "location")),
    },
    _lines("""
"{title}" by {author} came out in {year}.
{author} wrote "{title}" in {year}; it has {pages} pages.
The book "{title}" by {author} has {pages} pages.
"{title}" is a {genre} book by {author} with {pages} pages.
We have "{title}" by {author} on shelf {shelf}.
"{title}" costs {price} euros and is {in_stock?in stock|not in stock}.
In {year}, {author} published the {genre} book "{title}".
"{title}" ({year}) by {author}: {genre}, {pages} pages, {price} euros.
The library keeps the {genre} book "{title}" on shelf {shelf}.
{author} is the author of "{title}", a book of {pages} pages from {year}.
"""),
)  # fmt: skip

RECIPE = Domain(
    "recipe", "recipes",
    {
        "dish": Field(lambda rng: f"{rng.choice(words.INGREDIENTS).rstrip('s')} {rng.choice(words.DISHES)}", ("name", "recipe", "title")),
        "ingredients": Field(_several(words.INGREDIENTS, 2, 5), ("needs", "contains")),
        "minutes": Field(_number(5, 180), ("time", "duration")),
        "servings": Field(_number(1, 12), ("people", "portions")),
        "vegetarian": Field(_yes_or_no, ("meat_free",)),
        "difficulty": Field(_one_of(("easy", "medium", "hard")), ("level",)),
    },
    _lines("""
For {dish} you need {ingredients}.
The recipe for {dish} takes {minutes} minutes and serves {servings}.
Make {dish} from {ingredients} in {minutes} minutes; it serves {servings}.
Difficulty {difficulty}, {minutes} minutes: that is my recipe for {dish}.
To make {dish} for {servings} people, take {ingredients}.
My {dish}: {ingredients}, {minutes} minutes, {vegetarian?vegetarian|not vegetarian}.
The recipe for {dish} serves {servings}, needs {minutes} minutes and is {vegetarian?vegetarian|not vegetarian}.
My recipe for {dish} is {difficulty} and needs {ingredients}.
"""),
)  # fmt: skip

EVENT = Domain(
    "event", "events",
    {
        "event": Field(_one_of(_EVENTS), ("name", "title", "what")),
        "date": Field(words.day_of_year, ("day", "when")),
        "time": Field(words.clock_time, ("start", "starts_at")),
        "place": Field(words.place, ("city", "where", "venue")),
        "guests": Field(_number(5, 400), ("visitors", "people", "seats")),
        "free": Field(_yes_or_no, ("free_entry",)),
        "host": Field(words.full_name, ("organiser", "contact")),
        "price": Field(_number(2, 90), ("ticket", "fee")),
    },
    _lines("""
The {event} is on {date} at {time} in {place}.
On {date} there is a {event} in {place} for {guests} guests.
{host} invites {guests} guests to the {event} on {date}.
A {event} takes place in {place} on {date}; entry is {free?free|not free}.
The {event} in {place} starts at {time} and costs {price} euros.
{guests} people will come to the {event} at {time} on {date}.
{host} plans a {event} for {date}, {time}, in {place}.
Come to the {event} in {place} on {date}, {free?free of charge|with a ticket}.
The {event} by {host} starts at {time} and has room for {guests} people.
"""),
)  # fmt: skip

PET = Domain(
    "pet", "pets",
    {
        "name": Field(_pet_name, ("pet", "called")),
        "animal": Field(_one_of(_PETS), ("species", "kind", "type")),
        "age": Field(_number(1, 19), ("years",)),
        "colour": Field(_one_of(words.COLOURS), ("color", "fur")),
        "owner": Field(words.full_name, ("keeper", "belongs_to")),
        "weight": Field(lambda rng: round(rng.randint(11, 399) / 10 + 0.05, 2) if rng.random() < 0.5 else rng.randint(1, 45), ("kilos", "weight_kg")),
        "vaccinated": Field(_yes_or_no, ("has_shots",)),
        "toys": Field(_several(tuple(dict.fromkeys(words.TOYS[:20])), 2, 3), ("likes",)),
    },
    _lines("""
{name} is a {colour} {animal} and {age} years old.
{owner} has a {animal} called {name}.
{name} the {animal} weighs {weight} kilos and is {vaccinated?vaccinated|not vaccinated}.
The {animal} {name} belongs to {owner} and is {age} years old.
Our {animal} {name} is {colour}, {age} years old and weighs {weight} kilos.
{owner} brought in {name}, a {age} year old {animal}, {vaccinated?vaccinated|not vaccinated}.
{name}, a {colour} {animal}, plays with a {toys}.
A {animal} named {name}, {age} years, owner {owner}.
"""),
)  # fmt: skip

DEVICE = Domain(
    "device", "devices",
    {
        "device": Field(_one_of(_DEVICES), ("type", "kind", "item")),
        "brand": Field(_one_of(_BRANDS), ("maker", "make")),
        "model": Field(words.code, ("version", "type_code")),
        "price": Field(words.price, ("cost",)),
        "year": Field(_number(2012, 2026), ("bought", "from")),
        "working": Field(_yes_or_no, ("works", "ok")),
        "room": Field(_one_of(_ROOMS), ("place", "location")),
        "user": Field(words.first_name, ("owner", "person")),
    },
    _lines("""
The {brand} {device} {model} costs {price} euros.
{user} uses a {brand} {device} from {year}.
In the {room} there is a {brand} {device}, model {model}, {working?working|not working}.
The {device} {model} by {brand} from {year} is {working?still working|broken}.
{user} has the {device} {model}, bought in {year} for {price} euros.
Our {brand} {device} stands in the {room} and is {working?fine|out of order}.
A {device} by {brand}, model {model}, year {year}, price {price}.
"""),
)  # fmt: skip

FLIGHT = Domain(
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
    _lines("""
Flight {flight} goes from {origin} to {destination} at {departure}.
Flight {flight} to {destination} leaves at {departure} from gate {gate}.
On {date}, flight {flight} flies from {origin} to {destination}.
{flight} from {origin} to {destination} is {delayed?delayed|on time}.
The flight to {destination} at {departure} has {seats} seats and leaves from gate {gate}.
Flight {flight}, gate {gate}, {departure}, is {delayed?late|not late}.
From {origin} to {destination} with flight {flight} on {date} at {departure}, gate {gate}.
"""),
)  # fmt: skip

TASK = Domain(
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
    _lines("""
{person} has to {task} by {due}.
Task for {person}: {task}, due {due}, priority {priority}.
{person} must {task}; it takes {hours} hours and is {done?done|not done}.
The task "{task}" has {priority} priority and is due on {due}.
"{task}" is a task of {person}, status {status}, {hours} hours.
By {due}, {person} should {task}. Priority: {priority}. {done?It is done.|It is not done.}
{person} needs {hours} hours to {task}, with {priority} priority.
Task: {task}. Tags: {tags}. Due: {due}.
"""),
)  # fmt: skip

PLANT = Domain(
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
    _lines("""
The {plant} is {height} cm tall and stands {spot}.
The {colour} {plant} {spot} needs water {water} times a week.
On {planted} I planted a {plant}; it {needs_sun?needs sun|needs no sun}.
The {plant} has {colour} flowers, is {height} cm high and {needs_sun?needs sun|likes shade}.
My {plant}, planted on {planted}, is {height} cm tall and gets water {water} times a week.
A {colour} {plant} grows {spot}; it {needs_sun?wants sun|wants no sun}.
"""),
)  # fmt: skip

PRODUCT = Domain(
    "product", "products",
    {
        "product": Field(words.described, ("name", "item", "article")),
        "price": Field(words.price, ("cost", "unit_price")),
        "stock": Field(_number(0, 500), ("count", "available", "in_stock")),
        "code": Field(words.code, ("id", "sku", "article_code")),
        "colours": Field(_several(words.COLOURS, 2, 3), ("variants",)),
        "weight": Field(_number(2, 900), ("grams", "weight_g")),
        "fragile": Field(_yes_or_no, ("breakable",)),
        "maker": Field(_one_of(_BRANDS), ("brand", "company")),
    },
    _lines("""
The {product} costs {price} euros, and we have {stock} of them.
Product {code} is a {product} for {price} euros.
We sell the {product} in {colours} for {price} euros.
The {product} by {maker} weighs {weight} grams and is {fragile?fragile|not fragile}.
Article {code}: {product}, {stock} in stock, {price} euros each.
{maker} makes the {product} (code {code}) in {colours}.
There are {stock} pieces of the {product}, code {code}, {fragile?handle with care|not fragile}.
"""),
)  # fmt: skip

BOOKING = Domain(
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
    _lines("""
{guest} booked room {room} for {nights} nights from {arrival}.
{guest} arrives on {arrival} and stays {nights} nights in room {room}.
A room for {people} people at the {hotel}, {nights} nights, {breakfast?with breakfast|without breakfast}.
{guest} will stay at the {hotel} from {arrival} with {people} people.
Room {room} at the {hotel} is for {guest}, {breakfast?breakfast included|no breakfast}.
The {hotel} expects {guest} on {arrival}: {people} people, {nights} nights, room {room}.
"""),
)  # fmt: skip

MATCH = Domain(
    "match", "matches",
    {
        "home": Field(lambda rng: f"{words.place(rng)} {rng.choice(_TEAMS)}", ("home_team", "team_a")),
        "away": Field(lambda rng: f"{words.place(rng)} {rng.choice(_TEAMS)}", ("away_team", "team_b")),
        "home_goals": Field(_number(0, 9), ("goals_a", "home_score")),
        "away_goals": Field(_number(0, 9), ("goals_b", "away_score")),
        "date": Field(words.day_of_year, ("day", "played_on")),
        "spectators": Field(_number(40, 9000), ("visitors", "crowd")),
    },
    _lines("""
The {home} played against the {away} on {date}; it ended {home_goals} to {away_goals}.
{home} against {away}: {home_goals} to {away_goals}.
On {date}, {spectators} people saw the {home} play the {away}.
The match of the {home} and the {away} ended {home_goals} to {away_goals} before {spectators} people.
"""),
)  # fmt: skip

COURSE = Domain(
    "course", "courses",
    {
        "course": Field(_one_of(_SUBJECTS), ("subject", "name", "title")),
        "teacher": Field(words.full_name, ("tutor", "taught_by")),
        "day": Field(_one_of(words.WEEKDAYS), ("weekday", "when")),
        "room": Field(lambda rng: f"{rng.choice('ABCDE')}{rng.randint(1, 40)}", ("place", "hall")),
        "students": Field(_number(3, 60), ("pupils", "size")),
        "time": Field(words.clock_time, ("start", "begins")),
        "full": Field(_yes_or_no, ("is_full",)),
    },
    _lines("""
{teacher} teaches {course} on {day} in room {room}.
The {course} course with {teacher} has {students} students.
{course} is on {day} at {time} in room {room}.
The {course} class of {teacher} on {day} is {full?full|not full yet}.
On {day} at {time}, {students} students learn {course} with {teacher}.
Room {room}, {day}, {time}: {course} with {teacher}, {full?no places left|places left}.
"""),
)  # fmt: skip

CAR = Domain(
    "car", "cars",
    {
        "brand": Field(_one_of(_BRANDS), ("make", "maker")),
        "model": Field(lambda rng: rng.choice((words.first_name(rng), words.code(rng))), ("type",)),
        "colour": Field(_one_of(words.COLOURS), ("color", "paint")),
        "year": Field(_number(1962, 2026), ("built", "from")),
        "price": Field(_number(400, 60000), ("cost", "asking_price")),
        "kilometres": Field(_number(100, 300000), ("km", "distance")),
        "electric": Field(_yes_or_no, ("is_electric",)),
        "seller": Field(words.full_name, ("owner", "contact")),
    },
    _lines("""
{seller} sells a {colour} {brand} {model} from {year} for {price} euros.
The {brand} {model} is {colour}, was built in {year} and has run {kilometres} kilometres.
A {colour} {brand} {model}, {electric?electric|not electric}, for {price} euros.
{brand} {model}, year {year}, {kilometres} kilometres, {price} euros.
{seller} drives a {brand} {model} in {colour}, {electric?an electric car|not an electric car}.
"""),
)  # fmt: skip

PARCEL = Domain(
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
    _lines("""
Parcel {code} from {sender} goes to {receiver} in {city}.
Parcel {code} weighs {weight} kilos and goes to {street} in {city}.
{sender} sends parcel {code} to {receiver}, {street}, {city}.
The parcel {code} for {receiver} holds a {contents}.
{receiver} in {city} gets parcel {code}, {weight} kilos, {express?express|not express}.
Parcel {code}: from {sender}, to {receiver}, {express?by express|by normal post}.
"""),
)  # fmt: skip

DOMAINS: tuple[Domain, ...] = (
    PERSON, ORDER, BOOK, RECIPE, EVENT, PET, DEVICE, FLIGHT, TASK, PLANT, PRODUCT, BOOKING, MATCH, COURSE, CAR, PARCEL,
)  # fmt: skip
