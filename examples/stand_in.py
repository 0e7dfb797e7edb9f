"""Stand-ins for your data and training: English text from Python's help, and small models that learn it in a minute."""

from __future__ import annotations

from pydoc_data.topics import topics
from typing import Any


def english(texts: int = 500) -> list[str]:
    """Return at most ``texts`` lines of Python's help pages."""
    lines = [" ".join(line.split()) for page in topics.values() for line in page.split("\n\n")]
    return [line[:200] for line in lines if len(line) > 40][:texts]


def train(texts: list[str], epochs: int = 5) -> tuple[Any, Any]:
    """Train a GPT-2 of two layers on ``texts`` with a fixed seed; return it with its tokenizer."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    pieces = Tokenizer(models.BPE())
    pieces.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    pieces.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    pieces.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=1500, special_tokens=["<end>"], initial_alphabet=alphabet, show_progress=False),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=pieces, bos_token="<end>", eos_token="<end>", pad_token="<end>"
    )

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=96, n_embd=128, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0
    )
    model = GPT2LMHeadModel(config)
    rows = [tokenizer(tokenizer.bos_token + text, truncation=True, max_length=96)["input_ids"] for text in texts]
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(rows)).split(32):
            batch_rows = [torch.tensor(rows[index]) for index in batch]
            ids = torch.nn.utils.rnn.pad_sequence(batch_rows, batch_first=True)
            mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in batch_rows], batch_first=True)
            loss = model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return model.eval(), tokenizer


def chats(number: int = 250) -> list[list[dict[str, str]]]:
    """Return conversations of two turns about Python's help pages."""
    return [
        [{"role": "user", "content": f"{text[:30]} …?"}, {"role": "assistant", "content": text[:120]}]
        for text in english(number)
    ]


TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "<|im_end|>{% endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def chat_model() -> tuple[Any, Any]:
    """Train a small Llama on half of the help pages; return it with a tokenizer that has a chat template."""
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    pieces = ByteLevelBPETokenizer()
    texts = english()
    pieces.train_from_iterator(texts, 800, special_tokens=special, show_progress=False)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=pieces._tokenizer, bos_token=special[0], eos_token=special[2], pad_token=special[0]
    )
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
    ids = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0, "vocab_size": len(tokenizer)}
    model = LlamaForCausalLM(LlamaConfig(**sizes, **ids, max_position_embeddings=256))
    rows = tokenizer(texts[250:], truncation=True, max_length=64, padding=True, return_tensors="pt")
    labels = rows["input_ids"].masked_fill(rows["attention_mask"] == 0, -100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(4):
        for batch in torch.randperm(len(labels)).split(25):
            inputs = {name: values[batch] for name, values in rows.items() if name != "token_type_ids"}
            model(**inputs, labels=labels[batch]).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return model.eval(), tokenizer
