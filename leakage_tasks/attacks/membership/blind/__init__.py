"""Blind baselines: classifiers that separate members from non-members by the texts alone, without the model.

If a blind baseline separates the two sets, an attack on the model may only recognize the difference of the texts (Das,
Zhang and Tramèr 2024, "Blind Baselines Beat Membership Inference Attacks for Foundation Models").
"""
