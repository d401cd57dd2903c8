"""Chat prompts: 150 hand-written topics x 12 tasks, several wordings of each task, in several tones.

Thirty whole topics are held out for evaluation. One task is a conversation of two turns; its second question is written
so that it fits any sensible first answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from angelspec.data.prompts import Prompt, make_prompt
from angelspec.data.sources import topics_life, topics_world

LICENCE = "Apache-2.0"


@dataclass(frozen=True)
class Topic:
    """What is talked about. `goal` is a bare infinitive, `situation` is said in the first person, `one`/`other` compare."""

    area: str
    subject: str
    goal: str
    situation: str
    one: str
    other: str
    practical: bool  # the situation is a problem that asks for advice, not for an explanation


# Every topic asks, tells, compares. A wording may use {subject}, {goal}, {situation}, {one}, {other}, {person}.
TASKS: dict[str, tuple[str, ...]] = {
    "explain": (
        "Can you explain the basics of {subject}?",
        "What should everybody know about {subject}?",
        "Give me an overview of {subject}.",
        "Tell me something interesting about {subject}.",
        "I know almost nothing about {subject}. Where do I begin?",
        "What is the most important idea behind {subject}?",
    ),
    "advice": (
        "{situation} What should I do?",
        "{situation} Do you have any advice?",
        "{situation} What would you do in my place?",
        "{situation} How can I change that?",
        "I need help. {situation}",
        "{situation} Please give me three concrete tips.",
    ),
    "plan": (
        "Make a plan for somebody who wants to {goal}.",
        "I would like to {goal}. Give me a plan for the next four weeks.",
        "What are the steps if you want to {goal}? Please number them.",
        "Write a checklist for people who want to {goal}.",
        "How do I {goal}? I have about an hour a week.",
    ),
    "compare": (
        "What is the difference between {one} and {other}?",
        "Compare {one} and {other} in a small table.",
        "{one_cap} or {other}: what are the advantages and disadvantages?",
        "What do {one} and {other} have in common?",
        "Explain when you would choose {one} and when {other}.",
    ),
    "story": (
        "Write a short story about {subject}.",
        "Write a short story that begins with this sentence: {situation}",
        "Tell a story about {person}, who tries to {goal} and fails at first.",
        "Write the first paragraph of a novel that has to do with {subject}.",
        "Write a poem of eight lines about {subject}.",
    ),
    "letter": (
        "Write an email to a friend and tell about this: {situation}",
        "Write a message to my neighbor {person}, who knows a lot about {subject}, and ask for help.",
        "Write an invitation to an evening about {subject}.",
        "Draft a letter to a local newspaper on the question of {one} and {other}.",
        "Write a short post for a blog about how to {goal}.",
    ),
    "opinion": (
        "Which do you prefer, {one} or {other}? Give reasons.",
        "Is it worth the effort to {goal}?",
        "Argue for {one} and then for {other}, one paragraph each.",
        "Some people say that too much is made of {subject}. What do you think?",
        "What speaks against trying to {goal}? Be honest.",
    ),
    "quiz": (
        "Write five quiz questions about {subject}, with answers.",
        "Make three multiple-choice questions about {subject}.",
        "Give me ten words that one needs to talk about {subject}, each with a short definition.",
        "List seven facts about {subject}.",
        "Ask me a question about {subject} and then give the answer.",
    ),
    "mistakes": (
        "Which mistakes do beginners make when they try to {goal}?",
        "What are common misunderstandings about {subject}?",
        "Name five mistakes that have to do with {subject}, and how to avoid them.",
        "{situation} Where could the mistake be?",
        "Which myths about {subject} are not true?",
    ),
    "child": (
        "Explain {subject} to a seven-year-old child.",
        "How would you explain the difference between {one} and {other} to a child?",
        "Write a bedtime story for children about {subject}.",
        "My daughter is eight and asks about {subject}. What do I tell her?",
    ),
    "dialogue": (
        "Write a conversation between an expert and a beginner about {subject}.",
        "Pretend to be an experienced teacher. I am {person}, and I would like to {goal}. Start the first lesson.",
        "Write a dialogue in which two friends argue about {one} and {other}.",
        "Imagine a radio interview about {subject}. Write three questions and the answers.",
        "Play the role of somebody who knows everything about {subject}. Greet me and ask what I want to know.",
    ),
    "conversation": (
        "{situation} What can I do?",
        "I would like to {goal}. What do I need?",
        "What is special about {subject}?",
        "{one_cap} or {other}: which one do you recommend?",
    ),
}
# In place of the wordings above, where the situation of a topic is no problem to solve.
CURIOUS = {
    "advice": (
        "{situation} Can you explain that to me?", "{situation} I would like to know more about it.",
        "{situation} What can you tell me about {subject}?", "{situation} What should I read or watch first?",
        "{situation} Please give me three things to think about.", "{situation} What is your view?",
    ),
    "conversation": (
        "{situation} Can you tell me more?", "I would like to {goal}. What do I need to know?", "What is special about {subject}?",
        "{situation} What do you think about it?", "What are the three most important facts about {subject}?",
    ),
    "mistakes": (
        "What are common misunderstandings about {subject}?", "Which myths about {subject} are not true?",
        "What do most people get wrong about {subject}?", "Name five errors that one hears about {subject}, and correct them.",
    ),
}  # fmt: skip
SECOND_TURNS = (
    "Thank you. Can you say that again in two sentences?",
    "Which of these points is the most important one, and why?",
    "Good. And what could go wrong?",
    "Can you give me an example?",
    "How would you explain that to my grandmother?",
    "Now write it as a short message that I can send to {person}.",
    "I have very little time. What should I do first?",
    "Is there anything that speaks against it?",
    "Please turn your answer into a list of at most five points.",
)
TONES = (
    "",
    "",
    "",
    "",
    "",
    "",
    "Keep it short.",
    "Please answer in a friendly tone.",
    "Use simple words.",
    "Be funny.",
    "Write in a formal tone.",
    "Answer in at most five sentences.",
    "Use short paragraphs.",
    "Give examples.",
    "Be precise and matter-of-fact.",
    "Write it like a letter to a good friend.",
    "Answer as if you were on the radio.",
)
OPENINGS = ("", "", "", "", "", "Hi! ", "Hello, ", "Quick question: ", "Good morning. ", "Hey, ")
PEOPLE = ("Marta", "Mr. Okafor", "Jonas", "Aunt Lydia", "Mei", "Samuel", "Mrs. Petrov", "Farid", "Ingrid", "Noel")

# Tones that would contradict what a task asks for: a story is not answered in five sentences of a radio host.
PLAIN_TASKS = frozenset({"story", "letter", "quiz", "dialogue", "child"})

EVAL_TOPICS = frozenset({
    "cooking for one person", "growing tomatoes on a balcony", "painting a room", "birds in the garden",
    "asking for a pay rise", "meetings that take too long", "giving a presentation", "pocket money", "a wedding speech",
    "fear of flying", "procrastination", "falling asleep", "learning to swim as an adult", "traveling by train",
    "keeping a diary", "rainbows", "tides", "how vaccines work", "dinosaurs", "antibiotics", "passwords", "solar panels",
    "how an airplane flies", "the Silk Road", "the race to the moon", "homework", "cash and cards", "jazz", "chess",
    "fairy tales",
})  # fmt: skip


@lru_cache(maxsize=1)
def topics() -> tuple[Topic, ...]:
    """All topics, in the order in which they are written down."""
    found = []
    for text, practical in ((topics_life.TEXT, True), (topics_world.TEXT, False)):
        area = ""
        for block in text.strip().split("\n\n"):
            lines = block.split("\n")
            if lines[0].startswith("# "):
                area = lines.pop(0)[2:]
            head, situation, pair = lines
            subject, goal = head.split(" | ")
            one, other = pair.split(" / ")
            found.append(Topic(area, subject, goal, situation, one, other, practical))
    return tuple(found)


def generate(split: str, seed: int) -> Iterator[Prompt]:
    """Endless stream of chat prompts of one split: all (topic, task) pairs in a shuffled order, then again with new words.

    A longer stream only appends. From the second round on, prompts may repeat; the caller drops repetitions.
    """
    chosen = [topic for topic in topics() if (topic.subject in EVAL_TOPICS) == (split == "eval")]
    turn = 0
    while True:
        pairs = [(topic, task) for topic in chosen for task in TASKS]
        random.Random(f"{seed}:chat:{split}:order:{turn}").shuffle(pairs)
        for topic, task in pairs:
            rng = random.Random(f"{seed}:chat:{split}:{topic.subject}:{task}:{turn}")
            yield make_prompt(
                _messages(topic, task, rng),
                domain="chat",
                source="chat",
                kind=topic.subject,
                split=split,
                licence=LICENCE,
            )
        turn += 1


def _messages(topic: Topic, task: str, rng: random.Random) -> list[dict[str, str]]:
    words = dict(subject=topic.subject, goal=topic.goal, situation=topic.situation, one=topic.one, other=topic.other,
                 one_cap=topic.one[0].upper() + topic.one[1:], person=rng.choice(PEOPLE))  # fmt: skip
    wordings = TASKS[task] if topic.practical else CURIOUS.get(task, TASKS[task])
    text = rng.choice(wordings).format(**words)
    opening = rng.choice(OPENINGS)
    if opening.endswith(", ") and text.startswith(
        ("Can ", "What ", "How ", "Which ", "Is ", "Write ", "Give ", "Tell ")
    ):
        text = text[0].lower() + text[1:]
    elif opening.endswith((", ", ": ")):
        opening = ""
    tone = rng.choice(TONES[:9] if task in PLAIN_TASKS else TONES)
    turns = [f"{opening}{text} {tone}".strip()]
    if task == "conversation":
        turns.append(rng.choice(SECOND_TURNS).format(person=words["person"]))
    return [{"role": "user", "content": turn} for turn in turns]
