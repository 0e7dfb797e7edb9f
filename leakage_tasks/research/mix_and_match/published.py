"""Tables 2, 3 and 4 of Elmahdy and Salem 2023 as printed: Top K and Beam size by generator."""

from __future__ import annotations

from collections.abc import Mapping

Figures = tuple[tuple[float, float], ...]
"""(Top K, Beam size from 0) of exhaustive search, the language model and the Frankenstein model."""
_Row = tuple[int, int, int, int]
"""Beam size of exhaustive search and of the language model, then Top K and Beam size of the Frankenstein model."""

_EXHAUSTIVE_K = 22413
_LM_K = {
    "towels": 3066, "supremacy": 2327, "film": 4551, "school": 1258, "flatly": 11128, "internship": 25646, "best": 128,
    "move": 10, "Fusion": 14541, "mage": 11049, "night": 1717, "final": 4595, "1974": 8819, "1968": 7156,
}  # fmt: skip
"""Top K of exhaustive search and of the language model; equal in all three tables and on both data sets."""


def _table(rows: Mapping[str, tuple[_Row, _Row]]) -> dict[str, dict[str, Figures]]:
    """Return a table from its rows, with the values of Yelp and Reddit by target."""
    return {
        target: {"yelp": _figures(target, *yelp), "reddit": _figures(target, *reddit)}
        for target, (yelp, reddit) in rows.items()
    }


def _figures(target: str, exhaustive: int, language_model: int, frankenstein_k: int, frankenstein: int) -> Figures:
    return (_EXHAUSTIVE_K, exhaustive), (_LM_K[target], language_model), (frankenstein_k, frankenstein)


TABLES: dict[int, dict[str, dict[str, Figures]]] = {
    5: _table(
        {
            "towels": ((3390, 400, 11856, 1098), (3394, 372, 9664, 1520)),
            "supremacy": ((2350, 251, 2536, 153), (2570, 286, 2989, 354)),
            "film": ((5864, 1183, 8181, 2424), (6481, 1368, 6154, 2703)),
            "school": ((2518, 148, 2351, 275), (4366, 252, 6828, 1065)),
            "flatly": ((1638, 729, 5850, 340), (8387, 3944, 9300, 2738)),
            "internship": ((2831, 2590, 19193, 1311), (3882, 3530, 23785, 3353)),
            "best": ((451, 1, 713, 13), (1884, 9, 445, 19)),
            "move": ((4157, 1, 289, 65), (2534, 2, 892, 88)),
            "Fusion": ((536, 249, 18750, 391), (3096, 1772, 16664, 2363)),
            "mage": ((634, 363, 7283, 417), (155, 70, 8320, 40)),
            "night": ((1716, 108, 4496, 475), (908, 41, 5579, 221)),
            "final": ((2304, 379, 6005, 1121), (1321, 255, 4192, 220)),
            "1974": ((2861, 1064, 5735, 547), (5738, 1913, 3771, 847)),
            "1968": ((2601, 563, 9795, 1474), (5951, 1893, 3810, 556)),
        }
    ),
    25: _table(
        {
            "towels": ((5031, 740, 12820, 2681), (2753, 352, 9173, 609)),
            "supremacy": ((2943, 288, 4666, 1145), (1392, 291, 3677, 195)),
            "film": ((5808, 1109, 5539, 1414), (3556, 608, 7164, 986)),
            "school": ((856, 28, 4753, 133), (1371, 69, 2462, 267)),
            "flatly": ((2170, 946, 10208, 1501), (1349, 681, 6574, 441)),
            "internship": ((2354, 2084, 13297, 1145), (2777, 2516, 17293, 1949)),
            "best": ((73, 1, 1305, 24), (240, 2, 1930, 5)),
            "move": ((232, 0, 550, 9), (472, 0, 774, 10)),
            "Fusion": ((1896, 941, 22533, 1446), (988, 461, 17817, 639)),
            "mage": ((1581, 677, 11013, 806), (305, 148, 13662, 84)),
            "night": ((4937, 298, 3484, 395), (1277, 101, 7155, 277)),
            "final": ((563, 107, 4034, 68), (177, 28, 3188, 19)),
            "1974": ((2639, 777, 7540, 528), (260, 98, 5944, 102)),
            "1968": ((1607, 390, 7392, 793), (308, 98, 6212, 210)),
        }
    ),
    100: _table(
        {
            "towels": ((7137, 1016, 11970, 3150), (905, 99, 8114, 238)),
            "supremacy": ((5984, 660, 2428, 610), (1626, 214, 4656, 131)),
            "film": ((3052, 508, 6226, 881), (170, 27, 3472, 22)),
            "school": ((6608, 314, 1705, 331), (549, 28, 6188, 190)),
            "flatly": ((6798, 2856, 9434, 1646), (258, 63, 7111, 25)),
            "internship": ((5516, 5004, 18940, 4697), (3743, 3366, 15999, 2724)),
            "best": ((7, 0, 5099, 4), (99, 1, 1986, 24)),
            "move": ((1149, 0, 498, 37), (2, 0, 1153, 0)),
            "Fusion": ((2854, 1539, 21566, 2240), (862, 453, 18852, 546)),
            "mage": ((362, 157, 7884, 38), (144, 89, 11630, 110)),
            "night": ((4013, 273, 3074, 377), (2107, 203, 3656, 326)),
            "final": ((7, 1, 3669, 2), (1625, 259, 3949, 346)),
            "1974": ((281, 169, 8860, 158), (265, 116, 4555, 48)),
            "1968": ((202, 71, 2394, 16), (65, 45, 3200, 28)),
        }
    ),
}
"""Values by repetitions, target and data set; means over ten runs."""
