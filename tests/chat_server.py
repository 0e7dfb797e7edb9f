"""A chat endpoint over HTTP, as servers of chat models offer it, around a tiny model or a made-up one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

import torch

Answer = Callable[[dict[str, Any]], str]
"""The assistant's turn that a request's payload leads to."""


@contextmanager
def chat_server(answer: Answer) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address of an endpoint, and the payloads that it gets."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(payload)
            choices = [{"index": 0, "message": {"role": "assistant", "content": answer(payload)}}]
            body = json.dumps({"choices": choices}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/chat/completions", asked
    finally:
        server.shutdown()
        server.server_close()


def written_by(model: Any, tokenizer: Any) -> Answer:
    """What a model writes: its template around the messages, the last of which it may be told to go on from."""
    lock = Lock()

    def answer(payload: dict[str, Any]) -> str:
        goes_on = payload.get("continue_final_message", False)
        text = tokenizer.apply_chat_template(
            payload["messages"],
            tokenize=False,
            add_generation_prompt=payload.get("add_generation_prompt", True),
            continue_final_message=goes_on,
        )
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        how = {"do_sample": True, "temperature": payload["temperature"], "top_k": 0, "top_p": payload["top_p"]}
        greedy = {"do_sample": False}
        with lock, torch.no_grad():
            torch.manual_seed(payload["seed"] or 0)
            row = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=payload["max_tokens"],
                pad_token_id=tokenizer.eos_token_id,
                **(how if payload["temperature"] else greedy),
            )[0, ids.shape[1] :].tolist()
        end = tokenizer.eos_token_id
        return str(tokenizer.decode(row[: row.index(end)] if end in row else row))

    return answer
