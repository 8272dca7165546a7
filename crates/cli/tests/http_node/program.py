"""A program with FastAPI that serves a node of a described agent.

    program.py PORT FOLDER

`POST /slow` writes a line to FOLDER/calls for each call and answers once FOLDER/release exists.
"""

import asyncio
import sys
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Header
from pydantic import BaseModel

folder = Path(sys.argv[2])
app = FastAPI()


class Turn(BaseModel):
    question: str
    values: dict


@app.post("/slow")
async def slow(turn: Turn, idempotency_key: str = Header()) -> dict:
    with (folder / "calls").open("a") as calls:
        calls.write(f"{idempotency_key}\n")
    while not (folder / "release").exists():
        await asyncio.sleep(0.05)
    return {"score": 7, "asked": turn.question}


uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
