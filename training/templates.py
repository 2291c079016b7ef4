"""Generate conversations and questions from templates, because dictionaries and manuals have none.

Memories of agents are full of small talk about days, people and things, and of questions about
them. The templates are filled with words listed in this module, or with lemmas from WordNet.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence

__all__ = ["conversation", "exchanges", "questions"]

NAMES = (
    "Anna Ben Clara David Elena Felix Grace Hannah Ivan Julia Kevin Laura Marco Nina Oscar Paula "
    "Quentin Rosa Samuel Tina Ursula Victor Wendy Xavier Yara Zoe Carlos Priya Ahmed Mei Kenji "
    "Fatima Olga Pedro Ingrid Tom Lucy Harry Alice Bob Nate Sophie James Maria Peter Emma"
).split()
PEOPLE = (
    "my sister|my brother|my mom|my dad|my kids|my son|my daughter|my friend|my best friend|"
    "my boss|my team|my colleague|my neighbor|my grandma|my husband|my wife|my partner|my cousin|"
    "my coach|my therapist|the family|an old friend|a customer|our designer|the new intern"
).split("|")
PLACES = (
    "the beach|the park|the mountains|a museum|a concert|the gym|the office|the hospital|a cafe|"
    "the library|school|church|the airport|a conference|a workshop|the market|the lake|a festival|"
    "the zoo|a support group|the shelter|a restaurant|Paris|Tokyo|Rome|Boston|Canada|"
    "Spain|the city|"
    "a small town|the theater|a yoga class|a pottery class|the dog park|a camping trip|the forest"
).split("|")
THINGS = (
    "a new car|a puppy|a painting|a guitar|running shoes|a necklace|a book|a bike|a camera|a cake|"
    "a laptop|concert tickets|a house|flowers|a dress|a video game|a recipe|a plant|"
    "a letter|a gift|"
    "a piano|a tent|a kitten|a puzzle|furniture|a poster|a scholarship|a promotion|a medal|a trophy"
).split("|")
ACTIVITIES = (
    "painting|running|hiking|cooking|swimming|reading|dancing|writing songs|playing the violin|"
    "volunteering|gardening|camping|biking|doing yoga|playing basketball|learning Spanish|coding|"
    "studying|meditating|baking|fishing|surfing|knitting|making pottery|taking photos|traveling|"
    "working out|playing chess|watching movies|looking for a job|saving money|training for a race|"
    "adopting a child|counseling people|starting a business|opening a shop|designing clothes"
).split("|")
FEELINGS = (
    "happy|excited|tired|nervous|proud|grateful|sad|inspired|relaxed|stressed|overwhelmed|amazed|"
    "worried|hopeful|lonely|angry|relieved|confident|scared|thankful|bored|peaceful|frustrated"
).split("|")
TIMES = (
    "yesterday|today|last week|last weekend|last Friday|on Monday|this morning|next month|in June|"
    "two days ago|a few years ago|last summer|on the weekend|tomorrow|in 2022|recently|last night|"
    "in the spring|for my birthday|since 2016|every Sunday|three months ago|the other day|"
    "in May 2023"
).split("|")
OPENERS = (
    "Hey {name}!|Wow, {name}!|Hi!|Thanks, {name}!|That's great, {name}!|Oh no!|Sure!|Yeah,|Well,|"
    "Congrats, {name}!|Good to hear from you!|Long time no talk!|Sounds fun!|"
    "I'm sorry to hear that.|"
).split("|")
STATEMENTS = (
    "I went to {place} with {person} {time}.|{person} gave me {thing} {time}.|"
    "I've been {activity} a lot and it makes me feel {feeling}.|I'm so {feeling} about {noun}.|"
    "We're planning to go to {place} {time}.|I bought {thing} {time}, it reminds me of {noun}.|"
    "{activity} helps me when I feel {feeling}.|I started {activity} {time}.|"
    "{person} and I saw {noun} at {place}.|I want to try {activity} next.|I lost my {noun} {time}.|"
    "My favorite thing about {place} is the {noun}.|I'm thinking about {activity} as a career.|"
    "It was such a {adjective} experience.|The {noun} was really {adjective}.|"
    "I signed up for a class on {noun} {time}.|{person} is into {activity} and loves {noun}.|"
    "I took this photo of {noun} {time}.|I'd rather have {noun} than {noun2}.|"
    "I finished {thing} {time} and felt {feeling}.|We celebrated at {place} and had {noun}.|"
    "I moved here from {place} {time}.|I got {thing} because {person} recommended it.|"
    "[shares a photo: a photo of {noun} next to {noun2}]|I grew up near {place}.|"
    "We decided to use {noun} instead of {noun2}.|Please remember that I prefer {noun}.|"
    "The {noun} broke {time}, so we had to fix the {noun2}."
).split("|")
ASIDES = (
    "What about you?|How have you been?|What's new?|What do you think?|How did it go?|"
    "Do you like {activity}?|Where did you get it?|What inspired you?|Have you been to {place}?|"
    "When did you start {activity}?|How was {place}?|Anything fun planned?||||"
).split("|")
ASKED = (
    "When did {name} go to {place}?|What did {name} buy {time}?|Where did {name} go {time}?|"
    "Who gave {name} {thing}?|Why did {name} start {activity}?|How does {name} feel about {noun}?|"
    "What does {name} like about {place}?|When is {name} planning on {activity}?|"
    "How long has {name} been {activity}?|What is {name}'s favorite {noun}?|"
    "What activities does {name} do with {person}?|Would {name} enjoy {activity}?|"
    "What kind of {noun} does {name} have?|How many times did {name} visit {place}?|"
    "What did {name} say about {noun}?|Which {noun} did {name} recommend to {name2}?|"
    "What are {name}'s plans for {time}?|What happened to {name}'s {noun}?|"
    "Did {name} and {name2} go to {place} together?|What do {name} and {name2} have in common?"
).split("|")
TECHNICAL = (
    "how do I {verb} {noun}|what is {noun}|{noun} {noun2}|how to fix {noun} error|"
    "why does {noun} fail|"
    "difference between {noun} and {noun2}|what does {identifier} do|where is {identifier} defined|"
    "which {noun} do we use for {noun2}|how does {identifier} handle {noun}|"
    "what happens when {noun} is {adjective}|best way to {verb} a {adjective} {noun}|"
    "what did we decide about {noun}|{identifier} {noun}|can I {verb} {noun} without {noun2}|"
    "what is the purpose of the {identifier} struct|how do you create a new {identifier} instance|"
    "what are the steps to {verb} {noun}|list the {noun} that {verb} {noun2}|"
    "{adjective} {noun} in {noun2}"
).split("|")

# A statement, and questions that it answers; placeholders mean the same in both.
ANSWERED = (
    (
        "I went to {place} with {person} {time}.",
        (
            "Where did {name} go {time}?|When did {name} go to {place}?|"
            "Who did {name} visit {place} with?|What did {name} do with {person}?"
        ),
    ),
    (
        "{person} gave me {thing} {time}.",
        (
            "Who gave {name} {thing}?|What did {name} get from {person}?|"
            "What gift did {name} receive?"
        ),
    ),
    (
        "I've been {activity} a lot and it makes me feel {feeling}.",
        (
            "How does {activity} make {name} feel?|What hobbies does {name} have?|"
            "Why does {name} like {activity}?|What does {name} do to relax?|"
            "What makes {name} {feeling}?"
        ),
    ),
    (
        "We're planning to go to {place} {time}.",
        (
            "When is {name} going to {place}?|What are {name}'s plans for {time}?|"
            "Where is {name} planning to travel?"
        ),
    ),
    (
        "I bought {thing} {time}, it reminds me of {person}.",
        (
            "What did {name} buy {time}?|When did {name} buy {thing}?|"
            "What reminds {name} of {person}?"
        ),
    ),
    (
        "I started {activity} {time}.",
        (
            "When did {name} start {activity}?|How long has {name} been {activity}?|"
            "What new hobby did {name} take up?"
        ),
    ),
    (
        "I want to try {activity} next.",
        (
            "What does {name} want to try?|Is {name} interested in {activity}?|"
            "Would {name} enjoy {activity}?"
        ),
    ),
    (
        "I'm thinking about {activity} as a career.",
        (
            "What career is {name} considering?|What job would {name} like to have?|"
            "What does {name} want to do for work?"
        ),
    ),
    (
        "My favorite thing about {place} is the {noun}.",
        "What does {name} like about {place}?|What is {name}'s favorite {noun}?",
    ),
    (
        "I signed up for a class on {noun} {time}.",
        (
            "What class did {name} sign up for?|When did {name} sign up for the {noun} class?|"
            "What is {name} learning?"
        ),
    ),
    (
        "I lost my {noun} {time}.",
        (
            "What did {name} lose?|When did {name} lose the {noun}?|"
            "What happened to {name}'s {noun}?"
        ),
    ),
    (
        "{person} is into {activity} and loves {noun}.",
        (
            "What does {name}'s family enjoy?|Who likes {activity}?|"
            "What hobby does {person} have according to {name}?"
        ),
    ),
    (
        "We decided to use {noun} instead of {noun2}.",
        (
            "What did we decide about {noun2}?|Why do we use {noun}?|which {noun} do we use|"
            "decision {noun} {noun2}"
        ),
    ),
    (
        "Please remember that I prefer {noun}.",
        "What does {name} prefer?|preference {noun}|Which {noun} does {name} like?",
    ),
    (
        "The {noun} broke {time}, so we had to fix the {noun2}.",
        ("What broke {time}?|how was the {noun} fixed|{noun} broken|What did {name} have to fix?"),
    ),
    (
        "I moved here from {place} {time}.",
        (
            "Where did {name} move from?|When did {name} move?|Where is {name} from?|"
            "What is {name}'s home town?"
        ),
    ),
    (
        "I got {thing} because {person} recommended it.",
        (
            "Who recommended {thing}?|Why did {name} get {thing}?|"
            "What did {person} recommend to {name}?"
        ),
    ),
    (
        "We celebrated at {place} and had {noun}.",
        ("Where did {name} celebrate?|What did {name} eat at {place}?|How did {name} celebrate?"),
    ),
    (
        "I finished {thing} {time} and felt {feeling}.",
        "How did {name} feel after finishing {thing}?|What did {name} finish {time}?",
    ),
    (
        "[shares a photo: a photo of {noun} next to {noun2}]",
        (
            "What is in {name}'s photo?|What did {name} share a photo of?|"
            "What is next to the {noun2}?"
        ),
    ),
)


def exchanges(
    chance: random.Random, glosses: Sequence[str], count: int
) -> Iterator[tuple[str, str]]:
    """Yield questions with the message that answers them; consecutive ones share two speakers."""
    words = _words(glosses)
    for number in range(count):
        if number % 8 == 0:
            speakers = chance.sample(NAMES, 2)
        said, asked = chance.choice(ANSWERED)
        question = chance.choice(asked.split("|"))
        fixed = {kind: _filled(f"{{{kind}}}", chance, words) for kind in (*words, "noun2")}
        fixed["name"] = speakers[number % 2]
        parts = [chance.choice(OPENERS)] if chance.random() < 0.4 else []
        others = [_filled(text, chance, words) for text in chance.sample(STATEMENTS, 2)]
        parts += [said.format(**fixed), *others[: chance.choice((0, 0, 1, 2))]]
        parts.append(chance.choice(ASIDES) if chance.random() < 0.5 else "")
        text = _filled(" ".join(part for part in parts if part), chance, words)
        yield question.format(**fixed), f"{fixed['name']}: {text}"


def conversation(chance: random.Random, glosses: Sequence[str], count: int) -> Iterator[str]:
    """Yield messages of one to five sentences, some with the speaker's name, some as dialogues."""
    words = _words(glosses)
    for _ in range(count):
        turns = chance.choice((1, 1, 1, 1, 2, 3))
        lines = []
        speakers = chance.sample(NAMES, 2)
        for turn in range(turns):
            parts = [chance.choice(OPENERS)] if chance.random() < 0.5 else []
            parts += chance.sample(STATEMENTS, chance.choice((1, 1, 2, 2, 3)))
            parts.append(chance.choice(ASIDES))
            text = _filled(" ".join(part for part in parts if part), chance, words)
            named = chance.random() < 0.7 or turns > 1
            lines.append(f"{speakers[turn % 2]}: {text}" if named else text)
        yield "\n".join(lines)


def questions(
    chance: random.Random, glosses: Sequence[str], prose: Sequence[str], count: int
) -> Iterator[str]:
    """Yield short texts as people type them into a search."""
    words = _words(glosses)
    identifiers = sorted({text.split(":", 1)[0] for text in prose if re.match(r"\w+: ", text)})
    words["identifier"] = identifiers or ["get_user_name"]
    for _ in range(count):
        kind = chance.random()
        if kind < 0.4:
            yield _filled(chance.choice(ASKED), chance, words)
        elif kind < 0.8:
            yield _filled(chance.choice(TECHNICAL), chance, words)
        else:
            known = [chance.choice(words["noun"]) for _ in range(chance.choice((1, 2, 3)))]
            yield " ".join(known)


def _words(glosses: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the values of placeholders; lemmas are sorted by their glosses."""
    nouns, verbs, adjectives = [], [], []
    for gloss in glosses:
        lemma, _, meaning = gloss.partition(": ")
        if not meaning or len(lemma) > 20 or not lemma.islower() or lemma.count(" ") > 1:
            continue
        if re.match(r"(an? |the |any |someone |something )", meaning):
            nouns.append(lemma)
        elif re.match(r"(make|give|cause|put|move|become|have|take|be|get|bring|use)\b", meaning):
            verbs.append(lemma)
        elif re.match(r"(of |having |not |characterized |being |full |relating )", meaning):
            adjectives.append(lemma)
    return {
        "noun": nouns or THINGS,
        "verb": verbs or ["use"],
        "adjective": adjectives or FEELINGS,
        "name": NAMES,
        "person": PEOPLE,
        "place": PLACES,
        "thing": THINGS,
        "activity": ACTIVITIES,
        "feeling": FEELINGS,
        "time": TIMES,
    }


def _filled(template: str, chance: random.Random, words: dict[str, Sequence[str]]) -> str:
    def filler(match: re.Match[str]) -> str:
        kind = match[1].rstrip("2")
        if kind == "noun" and chance.random() < 0.35:
            return chance.choice(THINGS).removeprefix("a ")
        return chance.choice(words[kind])

    text = re.sub(r"\{(\w+)\}", filler, template)
    return text[0].upper() + text[1:] if text and text[0] in "mtao" and ". " in text else text
