"""Questions of two European documents on AI models, and the measurements of this package that bear on them.

An annex lists figures next to questions and assesses nothing. Its source states what its numbers were checked against.
"""

from __future__ import annotations

from dataclasses import dataclass

from leakage_tasks.attacks.classes import MEANINGS, AttackClass

NO_PROMISE = (
    "This annex puts figures next to questions. It is no legal advice and no assessment, and it does not promise, "
    "show or certify that a model is anonymous, or that anyone complies with the GDPR, the AI Act or a code of "
    "practice. A figure shows the result of the attacks that ran; it says nothing about attacks that did not run."
)

NOT_TESTED = "not tested in this run"
"""Beginning of the answer to a question without a figure."""


@dataclass(frozen=True)
class Topic:
    """A question with the classes of attacks whose figures bear on it, or with the ``section`` that answers it."""

    topic: str
    question: str
    classes: tuple[AttackClass, ...] = ()
    section: str = ""


@dataclass(frozen=True)
class LegalDocument:
    """A document with its questions; ``source`` states what the numbers of paragraphs were checked against."""

    title: str
    name: str
    source: str
    topics: tuple[Topic, ...]


_EXTRACTING: tuple[AttackClass, ...] = ("regurgitation", "reconstruction", "exfiltration", "model inversion")
_CLASSES = tuple(
    Topic(f"Paragraph 55, resistance to attacks: {kind}", f"{kind.capitalize()}: {meaning}", (kind,))
    for kind, meaning in MEANINGS.items()
)
ANONYMITY = LegalDocument(
    "Annex A: questions of EDPB Opinion 28/2024",
    "European Data Protection Board, Opinion 28/2024 on certain data protection aspects related to the processing of "
    "personal data in the context of AI models, adopted on 17 December 2024; its part on the anonymity of models",
    "Paragraph numbers were checked on 28 November 2026 against independent publications that quote the Opinion with "
    "numbers: 43 word for word with its page (16), the six classes of attacks of 55, and 58, letters c and e. The "
    "Board's own file was not available for the check",
    (
        Topic(
            "Paragraph 43, extraction of personal data",
            "How likely is the direct extraction, also with some probability only, of personal data of people whose "
            "data were used in training?",
            _EXTRACTING,
        ),
        Topic(
            "Paragraph 43, personal data from queries",
            "How likely does a query give such personal data, on purpose or not?",
            ("regurgitation",),
        ),
        *_CLASSES,
        Topic("Tests that ran", "Which tests ran, on what, with which settings?", section="Sections 2 and 3"),
        Topic("Tests that did not run", "Which known attacks were not tested?", section="Section 6"),
        Topic("Means of an attacker", "Which access does each tested attack need?", section="Section 2"),
        Topic("Release", "How is the model released, and who can use it?", section="release"),
        Topic("Validity of the tests", "Do the controls show that the tests work?", section="Section 4"),
        Topic("Paragraph 58, documentation", "Can the documentation of the tests be checked?", section="Section 7"),
    ),
)
CODE_OF_PRACTICE = LegalDocument(
    "Annex B: General-Purpose AI Code of Practice",
    "European Union, General-Purpose AI Code of Practice, published on 10 July 2025; its measures that concern "
    "memorization",
    "The number and the title of Measure 1.4 were checked on 28 November 2026 against independent publications that "
    "list the measures of the final Copyright chapter. The Commission's own file was not available for the check",
    (
        Topic(
            "Copyright chapter, Measure 1.4: mitigate the risk of copyright-infringing outputs",
            "How much training text does the model reproduce in its outputs?",
            ("regurgitation",),
        ),
        Topic(
            "Transparency chapter: documentation of the model",
            "Which facts on this evaluation can be added to the documentation?",
            section="Sections 2 and 7",
        ),
        Topic(
            "Safety and Security chapter",
            "No figure is mapped: the chapter is about systemic risks, and none of the titles of its measures names "
            "memorization.",
            section="no section",
        ),
    ),
)
DOCUMENTS = (ANONYMITY, CODE_OF_PRACTICE)
