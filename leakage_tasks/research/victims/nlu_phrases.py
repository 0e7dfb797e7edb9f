"""The grammar of generated NLU utterances.

In a pattern, ``(a|b)`` is one of its parts, ``[a|b]`` one of its parts or nothing, and ``{name}`` a slot, which is
filled with an expansion of the slot's pattern. Colours and pin codes are reserved for canaries.
"""

from __future__ import annotations

PATTERNS = {
    "SetAlarm": (
        "[please] (set|create|add) (an alarm|a wake up call) for {time} [{day}]",
        "wake me [up] (at {time} [{day}]|{day} at {time}) [please]",
        "[i need] an alarm (called|named) {alarm_name} [for {day}] at {time}",
        "(start|set) a timer (for|of) {duration}",
        "remind me to get up {day} at {time}",
    ),
    "GetWeather": (
        "(what is|what s|tell me) the (weather|forecast) [like] in {city} [{day}]",
        "(will|is) it [going to] {condition} in {city} (at {time}|{day})",
        "how (warm|cold|windy) (will it be|is it) in {city} {day}",
        "do i need (an umbrella|a coat|sunscreen) in {city} {day}",
        "[give me the] forecast for {city} {day} [at {time}]",
    ),
    "PlayMusic": (
        "[please] play [the song] {song} by {artist} [on {service}]",
        "(play|put on|start) (some|a bit of) {genre} [music] [on {service}] [in the {room}]",
        "i (want|would like) to (hear|listen to) {artist} [on {service}]",
        "(play|shuffle|open) my {playlist} playlist [in the {room}]",
        "add {song} [by {artist}] to [my] {playlist} [playlist]",
    ),
    "BookTravel": (
        "(book|find|get) (me|us) a {transport} from {origin} to {destination} {day} [at {time}]",
        "i need {number} {ticket_class} tickets to {destination} {day}",
        "(is there|do you see) a {transport} to {destination} (leaving|departing) (around|after|before) {time}",
        "how much is a [{ticket_class}] {transport} from {origin} to {destination}",
        "(cancel|change) my {transport} to {destination} [on {date}]",
    ),
    "BookRestaurant": (
        "(book|reserve) a table for {party_size} at {restaurant} [{day}] [at {time}]",
        "find [me] a [{price}] {cuisine} (restaurant|place) in {city} [for {party_size}]",
        "we are {party_size} and want {cuisine} food (near|close to) the {landmark}",
        "(can you get|get) us into {restaurant} {day} for {party_size} at {time}",
        "is {restaurant} (open|free|busy) {day} [at {time}]",
    ),
    "AddReminder": (
        "remind me to {task} [{day}] [at {time}]",
        "(add|make|create) a reminder to {task} (on {date}|{day})",
        "don t let me forget to {task} {day}",
        "[please] (tell|ask) {person} to {task} (at {time}|by {day})",
        "in {duration} remind (me|{person}) to {task}",
    ),
    "ControlLights": (
        "(turn|switch) {light_state} the [{light_type}] (light|lights|lamp) in the {room}",
        "(dim|set|brighten) the {room} [{light_type}] lights to {brightness}",
        "[please] turn the {room} {light_type} {light_state} (at {time}|in {duration})",
        "it is too (dark|bright) in the {room}",
        "lights {light_state} in the {room} [and the {room}]",
    ),
    "SendMessage": (
        "(text|message|tell|write to) {person} (that|saying) {message}",
        "send [a message to] {person} [on {service}] (saying|with the words) {message}",
        "let {person} know [that] {message}",
        "(answer|reply to) {person} [that] {message}",
        "(email|write) {person} [at {time}] that {message}",
    ),
    "AddToList": (
        "(add|put) [{quantity}] {item} (to|on) [my|the] {list_name} list",
        "we (need|are out of) {item} [and {item}]",
        "(buy|get) [{quantity}] {item} [and {quantity} {item}] from the {shop}",
        "(take|remove|cross) {item} off the {list_name} list",
        "what is (still|left) on the {list_name} list",
    ),
    "TransferMoney": (
        "(send|transfer|pay) {amount} to {person} [for {purpose}]",
        "(move|transfer) {amount} from [my] {account} to [my] {account} [account]",
        "pay {person} [back] {amount} [for {purpose}] [{day}]",
        "how much (money|is) (is|left) (in|on) my {account} account",
        "(set up|start) a monthly (payment|transfer) of {amount} to {person} for {purpose}",
    ),
}
"""Patterns by intent."""

_CITIES = (
    "(london|paris|oslo|lisbon|new york|san diego|cape town|buenos aires|nairobi|mumbai|kyoto|hong kong|toronto|"
    "mexico city|istanbul|helsinki|dublin|vienna|lima|santa fe|austin|boston|montreal|porto|krakow|seoul)"
)
_HOURS = "(1|2|3|4|5|6|7|8|9|10|11|12)"
_FIRST = (
    "(anna|ben|carla|david|elena|farid|grace|hugo|ines|jamal|kofi|laura|mei|nadia|oscar|priya|quentin|rosa|samir|tara)"
)
_MINUTES = "(10|15|20|25|30|40|45|50|55)"
_MONTHS = "(january|february|march|april|may|june|july|august|september|october|november|december)"
_WEEKDAYS = "(monday|tuesday|wednesday|thursday|friday|saturday|sunday)"

SLOTS = {
    "account": "(savings|checking|joint|business|holiday|rainy day)",
    "alarm_name": "(early shift|gym|school run|pills|morning swim|train to work|laundry|second breakfast)",
    "amount": "((5|10|20|25|40|75|90|150|300|two hundred|a thousand|fifty) (dollars|euros|pounds)|(5|8) bucks)",
    "artist": "(the paper boats|nina valdez|old river band|dj kestrel|marta and the moths|glass harbour|tom okoro|"
    "the late trams|sister juniper|low tide choir|el norte|carter lane)",
    "brightness": "((0|10|25|30|50|75|80|100) percent|half|(low|medium|full) [brightness]|the maximum)",
    "city": _CITIES,
    "condition": "(rain|snow|be sunny|be cloudy|freeze|hail|be foggy|be windy|thunder|get warmer|get colder)",
    "cuisine": "(thai|italian|ethiopian|mexican|korean|lebanese|vegan|south indian|sichuan|greek|peruvian|sushi)",
    "date": f"((the (first|third|fifth|ninth|twelfth|twentieth) of|the last day of) {_MONTHS}|"
    f"{_MONTHS} (2|7|14|21|30))",
    "day": f"(today|tonight|tomorrow|[this|next|on] {_WEEKDAYS}|tomorrow (morning|evening|night)|this (weekend|"
    f"afternoon)|next week|{_WEEKDAYS} (morning|night))",
    "destination": _CITIES,
    "duration": "((5|10|15|20|45|90|two|three|thirty) minutes|(an|one|half an) hour|(2|3|six) hours|a (day|week))",
    "genre": "(jazz|folk|techno|hip hop|classical|bossa nova|punk rock|reggae|soul|ambient|country|swing)",
    "item": "(milk|eggs|rye bread|oat flakes|olive oil|tomatoes|rice|coffee beans|dish soap|batteries|lemons|"
    "chick peas|butter|paper towels|cat food|apples|frozen spinach|tea bags|candles|yoghurt)",
    "landmark": "(central station|opera|old harbour|city park|museum of art|east gate|university|market hall)",
    "light_state": "(on|off)",
    "light_type": "(ceiling|reading|floor|bedside|main|desk|fairy)",
    "list_name": "(shopping|grocery|weekend|camping|party|packing|to do|hardware store)",
    "message": f"([i am|we are] running late|dinner is ready|the (meeting|train|game) is (cancelled|delayed|"
    f"at {_HOURS})|i miss (you|her|them)|we (won|lost) the game|happy birthday|the keys are under the mat|"
    f"i will call [you] back|see you (soon|there|at {_HOURS})|the (car|door|bike) is (fixed|open|outside)|"
    "i love the present|all is well)",
    "number": "(2|3|4|6|two|three|four|five|seven)",
    "origin": _CITIES,
    "party_size": f"((2|3|4|5|6|8|two|three|four|five|six|ten) [people]|me and (my (wife|husband|boss|mother)|"
    f"{_FIRST})|a (couple|dozen) of us)",
    "person": f"({_FIRST}|{_FIRST} (lopez|nguyen|smith|okafor|jensen|rossi|kaur|weber)|my (mother|dad|sister|boss|"
    "neighbour|landlord)|the plumber|grandma)",
    "playlist": "(road trip|sunday morning|deep focus|workout|kitchen disco|rainy days|party hits|sleep|throwback)",
    "price": "(cheap|fancy|mid priced|expensive|good value|michelin star)",
    "purpose": "((the|last month s|this week s) (rent|groceries|tickets|dinner)|(gas|pizza|electricity|child care)|"
    "the (birthday|wedding) (present|cake))",
    "quantity": "(2|3|6|a (bag|box|bottle|pound|dozen) of|two (cans|packs) of|some|a few|more)",
    "restaurant": "(the salty dog|casa luna|noodle barn|chez marie|the corner table|saffron house|lucky fish|"
    "mama rosa|fig and thistle|blind tiger|the old mill|number nine)",
    "room": "(kitchen|bedroom|living room|bathroom|hallway|garage|dining room|office|guest room|attic|nursery)",
    "service": "(tunebox|radio nova|sidewave|my phone|the speaker|cloudplay|chatline)",
    "shop": "(corner shop|farmers market|pharmacy|bakery|super market|hardware store|garden centre)",
    "song": "(paper lanterns|run for the ferry|half a moon|dust on the dial|seven winters|goodbye marigold|"
    "all the slow trains|cold coffee|stay until monday|north of here|a letter home|hurricane season)",
    "task": f"((call|email|visit) (the (bank|dentist|vet|school)|{_FIRST})|(water|move) the plants|"
    "pay the (rent|bills)|(pick up|collect) the (kids|parcel|dry cleaning|cake)|walk the dog|"
    "take [out] the (bins|pills|cake)|(renew|find) (my|the) (passport|library card|insurance)|"
    "(book|cancel) the (hotel|dentist|car wash)|(charge|fix) the (bike|camera|drill)|feed the (cat|fish)|"
    "(buy|order|wrap) (a present|flowers|stamps|tickets))",
    "ticket_class": "(first class|economy|business class|return|one way|second class|window seat)",
    "time": f"({_HOURS} (am|pm)|{_HOURS} (am|pm)|{_HOURS} {_MINUTES}|half past {_HOURS}|[a] quarter to {_HOURS}|noon|"
    f"midnight|{_HOURS} o clock|(six|seven|eight|nine) (thirty|fifteen) [in the (morning|evening)])",
    "transport": "(flight|train|bus|ferry|taxi|rental car|night train|seat on the bus)",
}
"""Pattern of each slot."""
