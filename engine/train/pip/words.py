"""Word banks for the training texts, and the small grammar that goes with them.

The banks are wide and names are in part made up on the spot, so that a small model has to copy what it reads.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

FIRST_NAMES: tuple[str, ...] = tuple(
    """
    Ada Adam Adele Adrian Agnes Ahmed Aida Aiko Alan Alba Albert Aldo Alec Alexa Alfred Ali Alice Alina Alma Alvin
    Amara Amir Amos Amy Ana Anders Andrea Andrew Anita Anja Anna Anton Anya Aria Arlo Arne Arthur Arun Asha
    Astrid Aurora Axel Aya Barbara Bart Basil Beata Ben Benno Berta Beth Bianca Bill Birgit Bjorn Bo Boris Bram
    Brenda Brian Bruno Caleb Camila Carl Carla Carlos Carmen Casper Cathy Cecil Cedric Celia Chen Chiara Chloe Chris
    Clara Claude Cleo Clive Cole Colin Conor Cora Craig Cyril Daisy Dalia Dan Dana Daniel Daphne Dario Darya David
    Dean Deborah Della Denis Derek Diana Diego Dina Dirk Dora Doris Dylan Eda Edgar Edith Edna Edwin Eileen Elena Eli
    Elias Elif Elin Elisa Ella Ellen Elmer Elsa Elvira Emil Emily Emma Enzo Eric Erik Erin Ernest Esme Esther Ethan
    Eva Evan Eve Ezra Fabian Faith Fanny Farah Fatima Felix Fiona Flora Florian Frances Frank Freya Frida Gabriel
    Gail Gareth Gary Gemma George Gerda Gina Giles Gloria Gordon Grace Greta Guido Gus Gwen Hana Hanna Hans Harold
    Harriet Harry Hassan Hazel Heidi Helen Helga Henrik Henry Hilda Hiro Holly Hugo Ian Ida Igor Ilse Imani Imran
    Ines Inga Ingrid Ira Irene Iris Irma Isaac Isabel Isla Ivan Ivor Ivy Jack Jacob Jade Jamal James Jana Jane Janek
    Jared Jasmin Jasper Jean Jenny Jens Jeremy Jesse Jill Joan Joel John Jonas Jorge Joris Josef Judith Jules Julia
    Kai Kamal Kara Karen Karim Karl Kate Katja Keiko Keith Kemal Ken Kevin Kim Kira Klara Klaus Knut Kurt Kyle
    Lana Lara Lars Laszlo Laura Layla Lea Leah Leif Lena Leo Leon Leona Lev Liam Lida Lily Lina Linda Linus Lisa Liv
    Lloyd Lola Lorenz Lotte Louis Luca Lucia Lucy Luis Luka Luke Luna Lydia Mabel Mads Magda Maja Malik Mara Marc
    Marco Margot Maria Marie Marina Mario Marisa Marta Martin Marvin Mathis Matilda Matt Maud Max Maya Meera Mei
    Melvin Mia Michal Mila Milan Milo Mina Mira Miriam Mohan Moira Molly Mona Monica Morris Nadia Nancy Naomi Nasrin
    Natalia Nathan Neil Nell Nelson Nestor Nia Nick Nico Niels Nina Noah Noel Nora Norman Nuria Olaf Olga Olive
    Oliver Olivia Omar Orla Oscar Oswald Otis Otto Owen Pablo Paloma Paolo Pascal Patrick Paul Paula Pavel Pearl
    Pedro Penny Percy Pete Petra Phil Phoebe Pia Pierre Polly Quentin Rachel Rafael Ralph Ramon Rana Raoul Rasmus
    Raul Ravi Rebecca Reid Remo Renata Rhea Rhoda Rich Rita Robert Robin Roland Roman Rosa Rosie Ross Roy Ruben Rudi
    Rufus Rupert Russell Ruth Ryan Sabina Sadie Sally Salma Sam Samira Sandra Sanjay Sara Saul Scott Sean Selma
    Serge Shane Sheila Shira Sidney Sigrid Silas Silvia Simon Sina Sofia Sonja Sophie Stan Stella Steve Stig Sunil
    Susan Sven Sylvia Tabea Tamar Tanya Tara Tariq Tess Thea Theo Thomas Tilda Tim Tina Tobias Tom Tomas Toni Tove
    Tracy Udo Ulla Uma Una Ursula Vadim Valerie Vera Veronica Victor Viktor Vincent Viola Vito Vivian Wade Walter
    Wanda Wendy Werner Wilma Winston Wolf Xavier Yara Yasmin Yoko Yuri Yusuf Yvonne Zac Zara Zelda Zita Zoe
    """.split()
)

LAST_NAMES: tuple[str, ...] = tuple(
    """
    Abbott Adler Ahlberg Alvarez Andersson Archer Asante Ashworth Bach Baker Baldwin Barros Bauer Becker Bell Berg
    Bianchi Bishop Blom Boateng Bond Borg Bouchard Bowen Brandt Brook Brooks Bruun Burke Byrne Calder Campos Carr
    Castro Chandra Clarke Cole Conti Cooper Costa Cross Dahl Dalton Dang Davies Decker Diaz Dixon Doyle Draper Dubois
    Duarte Dunn Eder Egan Ekman Ellis Engel Erdem Eriksen Falk Farrell Ferrari Fischer Fisk Flores Foster Fox Frost
    Fuchs Gallo Garcia Gibbs Gill Goode Gray Greco Grant Gruber Haas Hagen Hale Hansen Harper Hart Hayes Heller Hill
    Holm Holt Horvath Huang Hughes Hunt Ibsen Ito Ivanov Jansen Jarvis Jensen Joshi Juhl Kaiser Kane Kaplan Keller
    Kent Khan Kim Klein Koch Kovac Kraft Kruse Kumar Lang Larsen Lehmann Leroy Lind Lopez Lowe Lund Maier Malik
    Marsh Martel Mason Meyer Mills Molina Moreau Moss Munro Nagy Nash Navarro Neal Nielsen Nolan Nowak Oakes Obi
    Okafor Olsen Ortiz Otto Owens Page Palmer Parr Patel Pereira Perry Petrov Pike Pohl Porter Price Quinn Ramos
    Rasmussen Reed Reyes Rhodes Richter Rios Roth Rowe Russo Sandberg Santos Sato Schulz Seidel Sharma Shaw Silva
    Singh Skov Slater Smith Sommer Stein Stone Storm Sutter Swan Tanaka Tate Thorne Toth Turner Usman Vance Vargas
    Vega Vogel Wagner Walsh Wang Ward Webb Weiss Wells West Winter Wolf Wong Wood Wright Yamada Yates York Young
    Zeller Ziegler Zimmer
    """.split()
)

PLACES: tuple[str, ...] = tuple(
    """
    Aachen Aalborg Accra Agra Aleppo Algiers Alicante Almeria Amman Antwerp Arles Athens Atlanta Auckland Austin
    Avignon Baku Bamberg Bangkok Barcelona Bari Basel Bath Belfast Belgrade Bergen Berlin Bern Bilbao Bologna Bonn
    Bordeaux Boston Bremen Bristol Brno Bruges Brussels Bucharest Budapest Burgos Bursa Cadiz Cairo Calais Calgary
    Cambridge Cardiff Chester Chicago Coimbra Cologne Cork Cracow Dallas Delft Delhi Denver Derby Dijon Dover Dresden
    Dublin Dundee Durham Edinburgh Erfurt Essen Exeter Faro Ferrara Florence Frankfurt Galway Gdansk Geneva Genoa
    Ghent Glasgow Gothenburg Graz Grenoble Haarlem Haifa Halifax Hamburg Hanoi Hanover Havana Helsinki Houston Hull
    Innsbruck Istanbul Jakarta Jena Kassel Kiel Kyoto Lagos Lahore Leeds Leiden Leipzig Lille Lima Limerick Linz
    Lisbon Liverpool Ljubljana London Lucerne Lund Lyon Madrid Malaga Malmo Manila Mannheim Marburg Marseille Memphis
    Metz Milan Minsk Modena Montreal Moscow Mumbai Munich Nairobi Nantes Naples Narvik Nice Nottingham Odense Odessa
    Olbia Oporto Osaka Oslo Ottawa Oxford Padua Palermo Paris Parma Perth Pisa Plymouth Porto Potsdam Prague Quito
    Ravenna Reims Rennes Reykjavik Riga Rome Rostock Rotterdam Rouen Salerno Salzburg Seattle Seoul Seville Sheffield
    Siena Sofia Split Stockholm Stuttgart Sydney Tallinn Tampere Tangier Tartu Tirana Tokyo Toledo Toronto Toulouse
    Trento Trier Trieste Tromso Tunis Turin Turku Ulm Uppsala Utrecht Valencia Venice Verona Vienna Vilnius Warsaw
    Weimar Wroclaw York Zagreb Zurich Alderbrook Ashford Birchwick Blackmere Brackenfell Brightwater Cedarholm
    Cobblewick Cranmoor Dunmore Eastmarsh Elmsworth Fairhaven Fernley Foxbridge Glenrock Goldcrest Greyharbour
    Hartwell Hazelmoor Highcombe Ivydale Kestrelton Kingsmere Lakenheath Larkspur Lindenau Longmeadow Maplehurst
    Marrowby Millbrook Mossford Northwick Oakhurst Otterbourne Pebbleton Pinecrest Quarrydale Ravenshore Redcliff
    Rosefield Sandholm Silverdale Stonebridge Summerlea Thistledown Thornbury Underhill Wavecrest Westerby Willowmere
    Windermoor Wrenfield Yarrowby
    """.split()
)

HOUSEHOLD: tuple[str, ...] = tuple(
    """
    lamp chair table rug curtain pillow blanket mirror candle clock vase shelf drawer cupboard sofa stool bench
    mattress carpet bucket broom mop sponge towel basket hanger lantern kettle teapot cup mug plate bowl spoon fork
    knife pan pot ladle whisk grater tray jug bottle jar tin lid toaster oven fridge napkin tablecloth doormat
    doorbell key lock hook nail frame picture poster cushion quilt sheet bed cradle wardrobe dresser desk bookcase
    fan heater radiator stove bulb plug socket cable battery torch matchbox ashtray coaster corkscrew funnel sieve
    strainer peeler thermos flask goblet saucer platter casserole skillet wok apron oven-glove dustpan iron thimble
    """.split()
)
TOOLS: tuple[str, ...] = tuple(
    """
    hammer saw drill wrench screwdriver chisel file clamp axe shovel rake hoe spade ladder wheelbarrow paintbrush
    roller trowel bolt screw nut washer hinge bracket rope chain pulley lever crowbar anvil vice toolbox ruler
    compass stapler hacksaw mallet plane sander scraper spanner wedge winch jack pump hose sprinkler nozzle bracket
    crate barrel pallet trolley tarp peg tent lasso anchor oar sail raft net trap snare scale magnet gauge valve
    """.split()
)
FOODS: tuple[str, ...] = tuple(
    """
    apple apricot avocado banana cherry coconut date fig grape kiwi lemon lime mango melon nectarine orange papaya
    peach pear pineapple plum quince raspberry strawberry blueberry blackberry gooseberry cranberry tomato potato
    carrot onion leek radish turnip beetroot cucumber courgette pumpkin pepper aubergine artichoke cabbage lettuce
    mushroom olive bean pea lentil chickpea almond walnut hazelnut pecan chestnut peanut egg sausage ham burger
    sandwich bagel bun roll loaf muffin croissant scone waffle pancake pretzel cracker biscuit cookie brownie cake
    pie tart doughnut pudding dumpling noodle pizza pastry omelette pickle truffle lollipop caramel toffee
    """.split()
)
CLOTHES: tuple[str, ...] = tuple(
    """
    shirt jacket coat jumper cardigan vest dress skirt belt sock shoe boot sandal slipper sneaker hat cap helmet
    beret scarf glove mitten tie bow ribbon button zip buckle pocket cape robe apron uniform tunic blouse hoodie
    raincoat umbrella handbag purse wallet backpack suitcase satchel watch ring necklace bracelet earring brooch
    locket badge medal crown veil shawl kimono sweater overcoat parka poncho
    """.split()
)
TOYS: tuple[str, ...] = tuple(
    """
    ball doll kite marble puzzle yo-yo puppet teddy robot balloon drum whistle swing slide seesaw trampoline scooter
    skateboard sled frisbee dart racket bat hoop skittle dice domino card chessboard jigsaw top rattle trumpet guitar
    violin cello flute clarinet harp piano banjo accordion tambourine xylophone ukulele harmonica trombone saxophone
    lute mandolin recorder triangle cymbal gong bell costume mask wand carousel pinwheel crayon sticker
    """.split()
)
OFFICE: tuple[str, ...] = tuple(
    """
    pen pencil eraser notebook folder binder envelope stamp letter postcard parcel calendar diary map globe magazine
    newspaper book dictionary atlas brochure leaflet ticket receipt invoice contract report form certificate
    signature photo painting sketch sculpture statue easel canvas chart printer scanner keyboard monitor laptop
    tablet phone camera speaker microphone headset projector router charger drone calculator typewriter telescope
    microscope thermometer barometer sensor remote radio television console cartridge modem antenna
    """.split()
)
GARDEN: tuple[str, ...] = tuple(
    """
    rose tulip daisy lily orchid sunflower poppy violet daffodil crocus iris dahlia peony fern cactus bush hedge
    tree oak birch maple willow pine cedar elm ash bonsai vine ivy seedling sapling bulb seed acorn leaf branch twig
    root trunk stump log petal thorn stem flowerpot greenhouse trellis fence gate shed pond fountain birdhouse
    beehive scarecrow gnome pebble stone brick tile boulder shell feather nest cone clover
    """.split()
)
ANIMALS: tuple[str, ...] = tuple(
    """
    cat dog horse donkey cow goat pig hen rooster duck goose turkey rabbit hamster mouse rat squirrel hedgehog fox
    wolf bear deer moose badger otter beaver weasel mole bat owl eagle hawk falcon raven crow magpie sparrow robin
    swallow swan heron stork pelican penguin parrot peacock pigeon seagull turtle tortoise lizard snake frog toad
    newt salmon trout pike eel shark whale dolphin seal walrus crab lobster snail beetle ant bee wasp butterfly moth
    dragonfly ladybird spider worm camel llama zebra giraffe elephant lion tiger leopard panther monkey gorilla panda
    koala kangaroo sloth lemur mongoose ferret pony lamb calf kitten puppy
    """.split()
)
VEHICLES: tuple[str, ...] = tuple(
    """
    car bus tram train van truck lorry taxi bicycle motorcycle tractor wagon cart carriage boat ship ferry canoe
    kayak yacht submarine plane helicopter glider rocket balloon ambulance caravan trailer wheel tyre engine brake
    saddle pedal mudguard headlamp bumper windscreen mast rudder propeller wing
    """.split()
)
BUILDINGS: tuple[str, ...] = tuple(
    """
    house cottage castle tower bridge church chapel temple museum library school hospital theatre cinema bakery
    butcher pharmacy bank hotel inn cafe restaurant market factory mill barn stable lighthouse harbour station
    airport garage office studio workshop warehouse stadium gym pool park playground garden orchard vineyard farm
    cabin hut cave tunnel quarry fort palace mansion balcony terrace attic cellar kitchen hallway staircase chimney
    roof window door
    """.split()
)
THINGS: tuple[str, ...] = tuple(
    dict.fromkeys(HOUSEHOLD + TOOLS + FOODS + CLOTHES + TOYS + OFFICE + GARDEN + ANIMALS + VEHICLES)
)
"""Countable things that a person may carry, buy, lose or draw."""
NOUNS: tuple[str, ...] = tuple(dict.fromkeys(THINGS + BUILDINGS))

ADJECTIVES: tuple[str, ...] = tuple(
    """
    old new small big tiny huge heavy light bright dark clean dusty broken shiny rusty wooden golden silver soft hard
    warm cold wet dry quiet loud round square flat tall short long narrow wide thick thin smooth rough sharp blunt
    fresh stale sweet bitter salty sour spicy plain fancy cheap costly rare common strange lovely ugly pretty simple
    clever lazy busy empty full open hollow solid loose tight steep shallow deep clear cloudy muddy sandy stony grassy
    leafy striped spotted painted polished folded torn crooked straight sturdy fragile modern antique foreign local
    famous secret hidden forgotten missing spare second final early late gentle brave calm curious cheerful grumpy
    honest humble jolly kind noisy patient polite proud shy sleepy wise woollen velvet leather plastic paper glass
    copper bronze marble frozen melted toasted salted smoky creamy crispy crunchy juicy ripe
    """.split()
)
COLOURS: tuple[str, ...] = tuple(
    """
    red blue green yellow orange purple pink brown black white grey silver golden turquoise violet crimson beige navy
    teal olive maroon ivory scarlet indigo amber copper lilac mint coral cream
    """.split()
)
JOBS: tuple[str, ...] = tuple(
    """
    teacher nurse baker pilot farmer painter plumber carpenter gardener librarian engineer chemist tailor barber chef
    waiter driver sailor musician actor writer editor translator architect electrician mechanic dentist florist
    photographer potter beekeeper shepherd blacksmith cobbler clockmaker cashier clerk accountant designer programmer
    journalist postman ranger fisherman welder surveyor tutor coach butcher roofer geologist biologist astronomer
    librettist conductor violinist dancer sculptor brewer glazier miller weaver printer bookbinder optician vet
    """.split()
)
HOBBIES: tuple[str, ...] = tuple(
    """
    chess knitting running cycling swimming painting drawing reading baking fishing hiking sailing gardening singing
    dancing climbing photography pottery archery skating skiing rowing juggling origami karate yoga tennis football
    badminton birdwatching astronomy carpentry embroidery fencing bowling surfing calligraphy geocaching puzzles
    camping cooking crochet darts golf judo sewing squash stargazing woodcarving weaving
    """.split()
)
INGREDIENTS: tuple[str, ...] = tuple(
    """
    flour sugar butter milk salt pepper oil vinegar honey yeast rice pasta cheese cream yoghurt garlic ginger basil
    parsley thyme rosemary mint cinnamon nutmeg vanilla cocoa chocolate oats barley lentils beans chickpeas tofu
    chicken beef pork ham bacon fish salmon tuna prawns eggs onions carrots potatoes tomatoes peppers mushrooms
    spinach cabbage leeks celery peas corn pumpkin lemons limes oranges apples pears raisins almonds walnuts hazelnuts
    mustard paprika cumin coriander curry saffron stock broth breadcrumbs semolina polenta jam syrup
    """.split()
)
DISHES: tuple[str, ...] = tuple(
    """
    soup stew pie salad curry risotto omelette lasagne pancakes bread cake muffins cookies pudding casserole quiche
    pizza dumplings porridge goulash chowder crumble pastries noodles stir-fry gratin tart sorbet waffles scones
    """.split()
)
SUBJECTS: tuple[str, ...] = tuple(
    subject.replace("-", " ")
    for subject in """
    budget parking newsletter website logo lighting heating roof garden kitchen timetable holiday-plan training insurance
    contract survey summer-party office-move new-server safety recycling printer lift entrance fire-drill bicycle-shed
    coffee-machine stockroom catalogue price-list stand-up archive backup open-day trade-fair road-repair guest-list
    rent cleaning billing hiring workshop canteen library water-bill phone-system noise delivery packaging
    """.split()
)
WEEKDAYS: tuple[str, ...] = (
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
)
MONTHS: tuple[str, ...] = tuple(
    "January February March April May June July August September October November December".split()
)
STREETS: tuple[str, ...] = tuple(
    """
    Elm Oak Mill Station Church Harbour Garden River Bridge Castle Market Park School Forest Hill Lake Meadow Rose
    Linden Maple Orchard Chapel Queen King North South Tower Canal Baker Potter Weaver Miller Sunset Spring Winter
    Willow Birch Cedar Falcon Heron Swan Fox Badger
    """.split()
)
STREET_ENDS: tuple[str, ...] = (
    "Street",
    "Road",
    "Lane",
    "Avenue",
    "Way",
    "Square",
    "Hill",
    "Close",
    "Row",
)

VERBS_PAST: tuple[str, ...] = tuple(
    """
    found carried painted repaired cleaned sold bought borrowed returned packed opened closed moved lifted dropped
    counted washed dried folded wrapped hid showed sketched measured weighed polished fixed lost collected
    labelled sorted stored stacked emptied filled checked tested ordered unpacked replaced inspected photographed
    described mended built designed delivered posted guarded admired examined noticed kept forgot brought took
    """.split()
)
VERBS_BASE: tuple[str, ...] = tuple(
    """
    find carry paint repair clean sell buy borrow return pack open close move lift count wash dry fold wrap hide show
    sketch measure weigh polish fix collect label sort store stack empty fill check test order unpack replace inspect
    photograph describe mend build design deliver post guard examine keep bring take
    """.split()
)
ADVERBS: tuple[str, ...] = tuple(
    """
    slowly quickly quietly carefully gladly calmly bravely neatly gently proudly suddenly finally silently happily
    patiently politely secretly eagerly kindly firmly lazily cheerfully warily nervously
    """.split()
)
SPOTS: tuple[str, ...] = tuple(
    spot.strip()
    for spot in """
    in the kitchen|behind the shed|under the stairs|near the bridge|at the market|next to the door|on the top shelf
    in the cellar|by the window|at the station|beside the river|in the back garden|on the long table|in the attic
    behind the curtain|near the old mill|under the bench|in the hallway|at the harbour|on the roof|by the fountain
    in the library|outside the bakery|in the garage|at the far end of the yard|between two trees|on the doorstep
    in the left drawer|under a blanket|by the gate|in the waiting room|behind the counter|on the balcony|in the barn
    at the corner of the street|near the lighthouse|in the second room|on the landing|inside the blue box
    """.strip()
    .replace("\n", "|")
    .split("|")
)

_NAME_STARTS = tuple(
    "Al Bar Bel Cal Cor Dar Dor El Fal Fen Gar Hal Il Jor Kal Kel Lor Mar Mel Nar Or Per Quil Ran Sel "
    "Tam Tor Ul Val Ves Wil Yor Zan Zel Bri Cla Dru Fre Gri Kri Pre Sko Sta Tri Vla".split()
)
_NAME_MIDDLES = tuple("a e i o u an en in on ar er or il al av ev im om ad ed".split())
_NAME_ENDS = tuple(
    "da dan dor dra fin ga gan ka kin la lan len lin lo ma min mir na nar nel nia ra ran ric rin ron sa "
    "sin ta tan tis to va vin vo x za zo".split()
)
_PLACE_ENDS = tuple(
    "by dale don field ford gate ham haven holm hurst ley mere mouth port stead ton vik ville wick "
    "worth burg stad berg".split()
)

_IRREGULAR_PLURALS = {
    "knife": "knives", "shelf": "shelves", "scarf": "scarves", "leaf": "leaves", "loaf": "loaves", "wolf": "wolves",
    "calf": "calves", "mouse": "mice", "goose": "geese", "tomato": "tomatoes", "potato": "potatoes", "dice": "dice",
    "deer": "deer", "moose": "moose", "salmon": "salmon", "trout": "trout", "pike": "pike", "mango": "mangoes",
    "cactus": "cactuses", "chassis": "chassis",
}  # fmt: skip
_SOUNDS_LIKE_CONSONANT = ("uni", "use", "uku", "eu", "one")
_ARTICLE = re.compile(r"\b([Aa])n? (?=(\w+))")


def plural(noun: str) -> str:
    """The plural of a noun of the banks."""
    if noun in _IRREGULAR_PLURALS:
        return _IRREGULAR_PLURALS[noun]
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def takes_an(word: str) -> bool:
    """Whether the indefinite article before this word is "an"."""
    lower = word.lower()
    if lower.startswith(("hour", "honest", "8", "11", "18")):
        return True
    return lower[:1] in tuple("aeiou") and not lower.startswith(_SOUNDS_LIKE_CONSONANT)


def with_article(phrase: str) -> str:
    """The phrase with "a" or "an" before it."""
    return f"{'an' if takes_an(phrase) else 'a'} {phrase}"


def fix_articles(text: str) -> str:
    """Text with every "a" and "an" fitted to the word that follows."""
    return _ARTICLE.sub(lambda found: found[1] + ("n " if takes_an(found[2]) else " "), text)


def first_name(rng: random.Random) -> str:
    """A first name, every eighth one made up."""
    if rng.random() < 0.875:
        return rng.choice(FIRST_NAMES)
    middle = rng.choice(_NAME_MIDDLES) if rng.random() < 0.5 else ""
    return rng.choice(_NAME_STARTS) + middle + rng.choice(_NAME_ENDS)


def full_name(rng: random.Random) -> str:
    """A first and a last name."""
    return f"{first_name(rng)} {rng.choice(LAST_NAMES)}"


def place(rng: random.Random) -> str:
    """The name of a town, every eighth one made up."""
    if rng.random() < 0.875:
        return rng.choice(PLACES)
    return (
        rng.choice(_NAME_STARTS) + rng.choice(("", "a", "en", "er", "o")) + rng.choice(_PLACE_ENDS)
    )


def street(rng: random.Random) -> str:
    """A street name without a house number."""
    return f"{rng.choice(STREETS)} {rng.choice(STREET_ENDS)}"


def thing(rng: random.Random) -> str:
    """A countable thing, singular, without an article."""
    return rng.choice(THINGS)


def described(rng: random.Random) -> str:
    """A thing with an adjective or a colour: `rusty lamp`."""
    return f"{rng.choice(ADJECTIVES if rng.random() < 0.7 else COLOURS)} {thing(rng)}"


def clock_time(rng: random.Random) -> str:
    """A time of day on the 24 hour clock: `14:30`."""
    return (
        f"{rng.randint(7, 21)}:{rng.choice(('00', '05', '10', '15', '20', '30', '40', '45', '50'))}"
    )


def day_of_year(rng: random.Random) -> str:
    """A day and month: `12 May`."""
    return f"{rng.randint(1, 28)} {rng.choice(MONTHS)}"


def iso_date(rng: random.Random) -> str:
    """A full date: `2025-03-09`."""
    return f"{rng.randint(2019, 2031)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"


def price(rng: random.Random) -> float:
    """An amount with cents that ends in no zero, so that there is one way to write it."""
    return round(rng.randint(1, 89) + rng.choice((25, 35, 45, 49, 55, 65, 75, 85, 95, 99)) / 100, 2)


def code(rng: random.Random) -> str:
    """A mark such as `KD-482`."""
    letters = "".join(rng.choice("ABCDEFGHJKLMNPRSTVWXZ") for _ in range(rng.randint(1, 2)))
    return f"{letters}-{rng.randint(10, 9999)}"


def phone(rng: random.Random) -> str:
    """A telephone number: `555-0134`."""
    return f"{rng.randint(201, 989)}-{rng.randint(0, 9999):04}"


def joined(items: Sequence[str], last: str = "and") -> str:
    """`a, b and c`."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"
